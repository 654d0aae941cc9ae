"""Every format holds the same rows, whatever the number of batches."""

import io
from pathlib import PurePath

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from peewit.service.tables.formats import MAX_EXACT_INTEGER, ROWS_PER_CHUNK, encode
from peewit.streaming.edges.table_formats import Format


def table(n_rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "node": pa.array([f"nö,{row}" for row in range(n_rows)], pa.large_string()),
            "label": pa.array([None, "a", "b"] * (n_rows // 3) + [None] * (n_rows % 3)),
            "score": rng.random(n_rows).astype(np.float32),
            "count": rng.integers(0, 99, n_rows),
        }
    )


def read(content: bytes, table_format: Format) -> pa.Table:
    file = io.BytesIO(content)
    match table_format:
        case Format.ARROW:
            return pa.ipc.open_stream(file).read_all()
        case Format.PARQUET:
            return pa.parquet.read_table(file)
        case Format.CSV:
            nulls = pa.csv.ConvertOptions(strings_can_be_null=True, null_values=[""])
            return pa.csv.read_csv(file, convert_options=nulls)
        case Format.NDJSON:
            return pa.Table.from_pylist([orjson.loads(line) for line in file])


@pytest.mark.parametrize("table_format", Format)
@pytest.mark.parametrize("n_rows", [0, 5, ROWS_PER_CHUNK + 7])
def test_what_is_encoded_reads_back(table_format: Format, n_rows: int) -> None:
    written = table(n_rows)
    batches = written.to_batches(max_chunksize=20_000)
    found = read(b"".join(encode(written.schema, batches, table_format)), table_format)
    assert found.num_rows == n_rows
    if n_rows:
        found = found.cast(written.schema)
        assert found.drop_columns("score").equals(written.drop_columns("score"))
        np.testing.assert_array_equal(found["score"].to_numpy(), written["score"].to_numpy())


@pytest.mark.parametrize("table_format", Format)
def test_a_batch_leaves_before_the_next_is_made(table_format: Format) -> None:
    (batch,) = table(ROWS_PER_CHUNK).to_batches()
    made = []

    def batches() -> object:
        for number in range(3):
            made.append(number)
            yield batch

    pieces = encode(batch.schema, batches(), table_format)  # type: ignore[arg-type]
    next(pieces)
    assert len(made) == 1
    pieces.close()  # type: ignore[attr-defined]


def test_text_of_csv_is_no_formula_where_that_is_asked_for() -> None:
    words = ["=1+1", "+a", "-b", "@c", "\tx", "\rx", "plain", "a=b", None]
    table = pa.table(
        {"text": words, "class": pa.array(words).dictionary_encode(), "number": range(-4, 5)}
    )

    def rows(*, safe_csv: bool) -> list[dict[str, object]]:
        content = b"".join(encode(table.schema, table.to_batches(), Format.CSV, safe_csv=safe_csv))
        strings = {name: pa.string() for name in ("text", "class")}
        options = pa.csv.ConvertOptions(
            column_types=strings, strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        return list(pa.csv.read_csv(io.BytesIO(content), convert_options=options).to_pylist())

    assert [row["text"] for row in rows(safe_csv=False)] == words
    for row, word in zip(rows(safe_csv=True), words, strict=True):
        is_plain = word in {"plain", "a=b", None}
        assert row["text"] == row["class"] == (word if is_plain else f"'{word}")
    assert [row["number"] for row in rows(safe_csv=True)] == list(range(-4, 5))
    lines = b"".join(encode(table.schema, table.to_batches(), Format.NDJSON, safe_csv=True))
    assert b"'" not in lines


def test_json_holds_large_integers_as_strings_and_short_floats() -> None:
    values = [MAX_EXACT_INTEGER, MAX_EXACT_INTEGER + 1, -(2**63), None]
    written = pa.table({"id": pa.array(values, pa.int64()), "x": pa.array([0.1] * 4, pa.float32())})
    lines = b"".join(encode(written.schema, written.to_batches(), Format.NDJSON)).splitlines()
    ids = [2**53, str(2**53 + 1), str(-(2**63)), None]
    assert [orjson.loads(line) for line in lines] == [{"id": each, "x": 0.1} for each in ids]


def test_json_lines_are_those_of_a_json_library() -> None:
    words = ["a", 'say "a"', "\\", "\n\x01", "ü€", "", None]
    written = pa.table(
        {
            'a "name"': pa.array(words),
            "kind": pa.array(words).dictionary_encode(),
            "x": pa.array([0.0, -0.5, 1e-30, 1e30, float("nan"), float("inf"), None], pa.float32()),
            "flag": pa.array([True, False, None] * 2 + [True]),
            "none": pa.nulls(7, pa.int64()),
        }
    )
    rows = written.to_pylist()
    rows[4]["x"] = rows[5]["x"] = None  # JSON has neither
    for part in (written, written.slice(2)):  # a slice has offsets into its buffers
        lines = b"".join(encode(part.schema, part.to_batches(), Format.NDJSON)).splitlines()
        found = [orjson.loads(line) for line in lines]
        for row in found:
            row["x"] = None if row["x"] is None else float(np.float32(row["x"]))
        assert found == rows[len(rows) - part.num_rows :]


def test_formats_are_known_by_media_type_and_suffix() -> None:
    assert Format.of_media_type("Application/Parquet") is Format.PARQUET
    assert Format.of_media_type("text/html") is None
    assert Format.of_path(PurePath("a/b.NDJSON")) is Format.NDJSON
    with pytest.raises(ValueError, match=r"must end in one of .*\.parquet.*, got 'b.txt'"):
        Format.of_path(PurePath("a/b.txt"))
