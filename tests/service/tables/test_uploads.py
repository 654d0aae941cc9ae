"""Tables that people send: read alike in every format, and faults named with their row."""

import io
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import (
    BadUpload,
    LabelColumns,
    UploadedLabels,
    edge_batches,
    feature_batches,
    json_labels,
    node_id,
    read_labels,
)
from peewit.service.tables.uploads.givers import GIVER_COLUMNS, Giver
from peewit.service.tables.uploads.label_words import LabelWords
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.reading_options import Contradictions
from peewit.streaming.edges.table_formats import ROWS_PER_BATCH, Format


def written(table: pa.Table, table_format: Format) -> io.BytesIO:
    return io.BytesIO(b"".join(encode(table.schema, table.to_batches(), table_format)))


def edges(content: bytes | io.BytesIO, table_format: Format, kind: NodeKind) -> list[object]:
    """Rows as they pass the whole gate."""
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    rows: list[object] = []
    for batch in edge_batches(file, table_format, kind):
        block = read_columns(batch, node_kind=kind, max_nodes=1000, first_row=len(rows))
        ids = zip(block.src.to_pylist(), block.dst.to_pylist(), strict=True)
        rows += [(u, v, float(w)) for (u, v), w in zip(ids, block.weight, strict=True)]
    return rows


@pytest.mark.parametrize("table_format", Format)
@pytest.mark.parametrize(
    ("kind", "src", "dst"),
    [
        ("string", ["a", " ", "ü,\n"], ["b", "c", "a"]),
        ("int64", [-(2**63), 2**63 - 1, 5], [1, 2, 3]),
        ("dense", [0, 1, 2], [1, 2, 999]),
    ],
)
def test_edges_read_alike_in_every_format(
    table_format: Format, kind: NodeKind, src: list[object], dst: list[object]
) -> None:
    weight = [1.0, 0.5, 2.0]
    table = pa.table({"note": ["x", "1", ""], "dst": dst, "src": src, "weight": weight})
    found = edges(written(table, table_format), table_format, kind)
    assert found == list(zip(src, dst, weight, strict=True))


@pytest.mark.parametrize(
    ("name", "values"),
    [("__deleted", ["false", "true"]), ("Op", ["I", "D"]), ("kind", ["insert", "delete"])],
)
@pytest.mark.parametrize("table_format", Format)
def test_deletes_that_nobody_carries_out_are_refused(
    table_format: Format, name: str, values: list[str]
) -> None:
    table = pa.table({"src": ["a", "b"], "dst": ["b", "c"], name: values})
    with pytest.raises(BadEdges, match="asks for deletes"):
        edges(written(table, table_format), table_format, "string")


@pytest.mark.parametrize("table_format", Format)
def test_a_missing_weight_is_one(table_format: Format) -> None:
    table = pa.table({"src": ["a"], "dst": ["b"]})
    assert edges(written(table, table_format), table_format, "string") == [("a", "b", 1.0)]


def test_json_lines_take_integers_as_strings_and_skip_blank_lines() -> None:
    content = b'{"src": "9007199254740993", "dst": 7}\n\n{"src": 1, "dst": "-2", "weight": 3}\n'
    with pytest.raises(BadUpload, match="'weight' must stand in every row") as caught:
        edges(content, Format.NDJSON, "int64")
    assert caught.value.row == 0
    found = edges(content.replace(b', "weight": 3', b""), Format.NDJSON, "int64")
    assert found == [(9007199254740993, 7, 1.0), (1, -2, 1.0)]


@pytest.mark.parametrize(
    ("content", "table_format", "kind", "row", "rule"),
    [
        (b"", Format.CSV, "string", None, "must be CSV"),
        (b"a,b\n1,2\n", Format.CSV, "string", None, "'src' is missing"),
        (b"src,src,dst\n1,2,3\n", Format.CSV, "string", None, "must stand once"),
        (b"src,dst\n1,2\n3\n", Format.CSV, "int64", 1, "a row must have 2 fields, got 1"),
        (b"src,dst\na,b\n\xff,c\n", Format.CSV, "string", 1, "text must be in UTF-8"),
        (b"src,dst\n1,2\n3,4x\n", Format.CSV, "int64", 1, "'dst' must hold a 64-bit integer"),
        (b"src,dst\n1,2\n9223372036854775808,4\n", Format.CSV, "int64", 1, "64-bit integer"),
        (b"src,dst,weight\na,b,1\na,c,\n", Format.CSV, "string", 1, "must hold a number"),
        (b"src,dst,weight\na,b,1\na,c,nan\n", Format.CSV, "string", 1, "finite and >= 0"),
        (b'{"src":1,"dst":2}\n{"src":3}\n', Format.NDJSON, "int64", 1, "'dst' is missing"),
        (b'{"src":1,"dst":2}\n{"src":3,\n', Format.NDJSON, "int64", 1, "one JSON object"),
        (b'{"src":1,"dst":2},{"src":3,"dst":4}\n', Format.NDJSON, "int64", 0, "one JSON object"),
        (b'{"src":1,"dst":2}\n{"src":1.5,"dst":4}\n', Format.NDJSON, "int64", 1, "'src' must be"),
        (b'{"src":1,"dst":18446744073709551615}\n', Format.NDJSON, "int64", 0, "'dst' must be"),
        (b'{"src":"a","dst":7}\n', Format.NDJSON, "string", 0, "'dst' must be a string"),
        (b'{"src":"a","dst":null}\n', Format.NDJSON, "string", 0, "'dst' must not be null"),
        (b'{"src":"a","dst":"b","weight":true}\n', Format.NDJSON, "string", 0, "hold numbers"),
        (b'{"src":"a","dst":"b","weight":-1}\n', Format.NDJSON, "string", 0, "finite and >= 0"),
        (b"[]\n", Format.NDJSON, "string", 0, "not an array"),
        (b"PAR1", Format.PARQUET, "string", None, "must be a Parquet file"),
        (b"", Format.ARROW, "string", None, "must be an Arrow IPC stream"),
        (b"ARROW1\0\0", Format.ARROW, "string", None, "and is an Arrow file (Feather)"),
    ],
)
def test_a_fault_is_named_with_its_row(
    content: bytes, table_format: Format, kind: NodeKind, row: int | None, rule: str
) -> None:
    with pytest.raises((BadUpload, BadEdges)) as caught:
        edges(content, table_format, kind)
    assert caught.value.row == row
    assert rule in str(caught.value)


@pytest.mark.parametrize("table_format", [Format.CSV, Format.NDJSON])
def test_rows_count_across_batches(table_format: Format) -> None:
    n_good = ROWS_PER_BATCH + 10
    table = pa.table({"src": list(range(n_good)), "dst": [1] * n_good})
    bad = {Format.CSV: b"1,x\n", Format.NDJSON: b'{"src":1,"dst":"x"}\n'}[table_format]
    content = written(table, table_format).getvalue() + bad
    with pytest.raises(BadUpload) as caught:
        edges(content, table_format, "int64")
    assert (caught.value.row, caught.value.value) == (n_good, "x")


@pytest.mark.parametrize("table_format", [Format.ARROW, Format.PARQUET])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damage_is_never_taken_for_edges(table_format: Format, damage: str) -> None:
    table = pa.table({"src": [f"n{row}" for row in range(5000)], "dst": ["x"] * 5000})
    content = bytearray(written(table, table_format).getvalue())
    if damage == "cut":
        del content[len(content) // 2 :]
    else:
        content[10:2000:7] = b"\xff" * len(content[10:2000:7])
    with pytest.raises((BadUpload, BadEdges)):
        edges(bytes(content), table_format, "string")


LABELS = UploadedLabels(nodes=["a", "b"], labels=["x", "y"])


@pytest.mark.parametrize("table_format", Format)
def test_labels_read_alike_in_every_format(table_format: Format) -> None:
    table = pa.table({"label": ["x", "y"], "node": ["a", "b"], "note": [1, 2]})
    assert read_labels(written(table, table_format), table_format, "string") == {"": LABELS}


@pytest.mark.parametrize("table_format", Format)
def test_whole_numbers_stay_numbers(table_format: Format) -> None:
    table = pa.table({"node": [1, 2], "label": [-3, 4]})
    rows = read_labels(written(table, table_format), table_format, "int64")[""]
    assert rows == UploadedLabels(nodes=[1, 2], labels=[-3, 4])


def test_json_labels_may_mix_numbers_and_strings() -> None:
    content = io.BytesIO(b'{"node":"a","label":3}\n{"node":"b","label":"3"}\n')
    rows = read_labels(content, Format.NDJSON, "string")[""]
    assert rows.labels == [3, "3"]


@pytest.mark.parametrize(
    "values",
    [
        [2**63 - 1, -(2**63), 0],
        [1, 1.0, "1", "1.0"],
        [9007199254740993, 0.1],
        ["\N{SNOWMAN}", "void", "\u0000"],
        [None, 1, "x"],
        [-0.0, 5e-324, 1.7e16],
    ],
)
def test_labels_of_json_are_read_as_they_were_sent(values: list[Any]) -> None:
    rows = [{"node": str(row), "hue": value} for row, value in enumerate(values)]
    lines = b"\n".join(map(orjson.dumps, rows))
    hue = LabelColumns(names=("hue",))
    for found in (
        json_labels(rows, "string", hue),
        read_labels(io.BytesIO(lines), Format.NDJSON, "string", hue),
    ):
        said = [value for value in values if value is not None]
        assert [repr(label) for label in found["hue"].labels] == [repr(value) for value in said]


def test_rows_of_labels_count_across_batches_of_json_lines() -> None:
    n_before = ROWS_PER_BATCH + 3
    lines = b'{"node":"a","label":7}\n' * n_before
    said = b'{"node":"b","label":"x","origin":"random","annotator":"Ann"}\n'
    columns = LabelColumns(givers=GIVER_COLUMNS)
    found = read_labels(io.BytesIO(lines + said), Format.NDJSON, "string", columns)[""]
    assert (found.labels, found.nodes[-1]) == ([7] * n_before + ["x"], "b")
    assert found.givers == [Giver()] * n_before + [Giver("random", "Ann")]
    assert found.giver_rows == {Giver(): 0, Giver("random", "Ann"): n_before}
    for bad, rule in (
        (b'{"node":"b"}', "'label' is missing"),
        (b"7", "a row must be an object with node and label"),
        (b'{"node":"b","label":18446744073709551616}', "below 2^63"),
        (b'{"node":"b","label":"x","annotator":1.5}', "'annotator' must be text or null"),
        (b'{"node":"b","label":null}', "'label' must not be null"),
    ):
        with pytest.raises(BadUpload) as caught:
            read_labels(io.BytesIO(lines + bad), Format.NDJSON, "string", columns)
        assert (caught.value.row, rule in caught.value.reason) == (n_before, True)


def test_a_csv_column_with_one_word_holds_words() -> None:
    rows = read_labels(io.BytesIO(b"node,label\na,3\nb,x\n"), Format.CSV, "string")[""]
    assert rows.labels == ["3", "x"]


@pytest.mark.parametrize(
    ("rows", "row", "rule"),
    [
        ([{"node": "a", "label": "x"}, 7], 1, "must be an object"),
        ([{"node": "a"}], 0, "'label' is missing"),
        ([{"node": "a", "label": None}], 0, "must not be null"),
        ([{"node": "a", "label": ""}], 0, "a string with a character"),
        ([{"node": "a", "label": True}], 0, "64-bit integer"),
        ([{"node": "a", "label": 2**63}], 0, "64-bit integer"),
        ([{"node": "a", "label": float("-inf")}], 0, "finite number"),
        ([{"node": 7, "label": "x"}], 0, "'node' must be a string"),
    ],
)
def test_a_bad_label_is_named_with_its_row(rows: list[object], row: int, rule: str) -> None:
    with pytest.raises(BadUpload, match=rule) as caught:
        json_labels(rows, "string")
    assert caught.value.row == row


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        (["node", "text"], "'label' is missing; the file has node, text"),
        (["id", "label", "x"], "'node' is missing; the file has id, label, x"),
        (["node", "label", "label"], "'label' must stand once, the file has it 2 times"),
    ],
)
@pytest.mark.parametrize("n_rows", [0, 2])
@pytest.mark.parametrize("table_format", [Format.CSV, Format.ARROW, Format.PARQUET])
def test_label_columns_must_stand_once(
    names: list[str], rule: str, n_rows: int, table_format: Format
) -> None:
    table = pa.Table.from_arrays([pa.array(["a"] * n_rows, pa.string())] * len(names), names)
    with pytest.raises(BadUpload, match=rule):
        read_labels(written(table, table_format), table_format, "string")


@pytest.mark.parametrize("table_format", [Format.CSV, Format.ARROW, Format.PARQUET])
def test_all_columns_are_told_where_one_of_an_edge_is_missing(table_format: Format) -> None:
    table = pa.table({"from": ["a"], "to": ["b"], "weight": [1.0]})
    with pytest.raises(BadEdges, match="'src' is missing; the file has from, to, weight"):
        list(edge_batches(written(table, table_format), table_format, "string"))


def test_a_label_that_is_no_text_is_shown() -> None:
    with pytest.raises(BadUpload, match=r"string with a character; .*, got '' in row 1"):
        json_labels([{"node": "a", "label": "x"}, {"node": "b", "label": ""}], "string")


def test_labels_of_other_types_are_refused() -> None:
    raw = pa.table({"node": ["a"], "label": [b"x"]})
    with pytest.raises(BadUpload, match="must hold text, numbers, truth values or dates"):
        read_labels(written(raw, Format.PARQUET), Format.PARQUET, "string")


@pytest.mark.parametrize("table_format", Format)
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.float16()])
def test_real_labels_read_alike_in_every_format(table_format: Format, kind: pa.DataType) -> None:
    table = pa.table({"node": ["a", "b"], "label": pa.array([-0.5, 100.25], kind)})
    content = written(table, table_format)
    rows = UploadedLabels(nodes=["a", "b"], labels=[-0.5, 100.25])
    assert read_labels(content, table_format, "string") == {"": rows}


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (["1.5", "-2.0", "0.5", "1e+16"], [1.5, -2.0, 0.5, 1e16]),
        (["1.5", "-2", ".5", "3.", "1e3", "+7"], ["1.5", "-2", ".5", "3.", "1e3", "+7"]),
        (["1.0", "0.0", "2"], [1, 0, 2]),
        (["01", "1"], ["01", "1"]),
        (["1.10", "1.1"], ["1.10", "1.1"]),
        (["1", "20000000000000000000"], ["1", "20000000000000000000"]),
        (["1.5", "x"], ["1.5", "x"]),
        (["1.5.2", "1.5"], ["1.5.2", "1.5"]),
    ],
)
def test_a_csv_column_is_real_when_all_of_it_can_be(column: list[str], labels: list[Any]) -> None:
    rows = "".join(f"n{row},{text}\n" for row, text in enumerate(column))
    found = read_labels(io.BytesIO(f"node,label\n{rows}".encode()), Format.CSV, "string")[""]
    assert found.labels == labels
    assert [type(label) for label in found.labels] == [type(label) for label in labels]


@pytest.mark.parametrize("bad", ["-inf", "Infinity", "1e999"])
def test_numbers_of_a_csv_that_are_not_finite_are_named(bad: str) -> None:
    content = io.BytesIO(f"node,label\na,1.5\nb,{bad}\n".encode())
    with pytest.raises(BadUpload, match="'label' must be a finite number") as caught:
        read_labels(content, Format.CSV, "string")
    assert caught.value.row == 1


@pytest.mark.parametrize("table_format", [Format.ARROW, Format.PARQUET])
def test_numbers_of_a_table_that_are_not_finite_are_named(table_format: Format) -> None:
    table = pa.table({"node": ["a", "b"], "label": [1.0, np.inf]})
    with pytest.raises(BadUpload, match="finite number, got inf in row 1"):
        read_labels(written(table, table_format), table_format, "string")


@pytest.mark.parametrize(
    "value",
    ["1.", "01", "-0", "\N{FULLWIDTH DIGIT ONE}", "", "9223372036854775808", 1.5, 1e17, True, None],
)
def test_an_integer_id_is_digits(value: object) -> None:
    with pytest.raises(BadUpload, match="'node' must be a 64-bit integer"):
        node_id(value, "int64")


def test_an_integer_id_may_be_a_whole_float() -> None:
    assert [node_id(value, "int64") for value in ("7", "7.0", 7.0, 7, "-7")] == [7, 7, 7, 7, -7]


def test_json_lines_are_read_a_part_at_a_time() -> None:
    """The reader must not ask for line n + 2 batches before it hands out batch n."""
    line = orjson.dumps({"src": "a", "dst": "b"}) + b"\n"
    asked: list[int] = []

    class Lines(io.BytesIO):
        def readline(self, size: int | None = -1) -> bytes:
            asked.append(1)
            return super().readline(size)

    batches = edge_batches(Lines(line * (3 * ROWS_PER_BATCH)), Format.NDJSON, "string")
    next(batches)
    assert len(asked) == ROWS_PER_BATCH


@pytest.mark.parametrize("table_format", [each for each in Format if each is not Format.CSV])
@pytest.mark.parametrize("label", [" bot", "bot ", "bot\t"])
def test_white_space_around_a_label_is_refused(table_format: Format, label: str) -> None:
    content = written(pa.table({"node": ["a", "b"], "label": ["bot", label]}), table_format)
    with pytest.raises(BadUpload, match="must not begin or end with white space") as caught:
        read_labels(content, table_format, "string")
    assert (caught.value.row, caught.value.value) == (1, repr(label))


def test_labels_of_a_spreadsheet_are_read_as_they_are_meant() -> None:
    sheet = b"node;label\r\na; bot \r\n;;\r\nb;human\r\n;\r\na;bot\r\n"
    found = read_labels(io.BytesIO(sheet.replace(b";;", b";")), Format.CSV, "string")[""]
    assert found.nodes == ["a", "b", "a"]
    assert found.labels == ["bot", "human", "bot"]
    half = sheet.replace(b";;", b";").replace(b"a;bot", b"c;")
    with pytest.raises(BadUpload, match=r"a string with a character; .*, got '' in row 4 \("):
        read_labels(io.BytesIO(half), Format.CSV, "string")


@pytest.mark.parametrize("table_format", [Format.PARQUET, Format.ARROW])
def test_decimals_of_warehouses_are_weights_and_labels(table_format: Format) -> None:
    amounts = pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(12, 2))
    edges = written(
        pa.table({"src": ["a", "b"], "dst": ["b", "c"], "weight": amounts}), table_format
    )
    (batch,) = edge_batches(edges, table_format, "string")
    block = read_columns(batch, node_kind="string", max_nodes=10)
    assert block.weight.tolist() == [1.5, 2.25]
    whole = pa.array([Decimal(3), Decimal(4)], pa.decimal128(10, 0))
    labels = written(pa.table({"node": ["a", "b"], "label": whole}), table_format)
    assert read_labels(labels, table_format, "string")[""].labels == [3, 4]
    large = pa.array([Decimal(3), Decimal(10**25)], pa.decimal128(38, 0))
    beyond = written(pa.table({"node": ["a", "b"], "label": large}), table_format)
    with pytest.raises(BadUpload, match="64-bit integer where it is a whole decimal") as caught:
        read_labels(beyond, table_format, "string")
    assert (caught.value.row, caught.value.value) == (1, str(10**25))


def test_all_contradictions_are_named_at_once_or_left_out() -> None:
    content = b"node,label\na,bot\nb,bot\na,bot\nb,human\nc,x\nc,y\nb,bot\n"
    with pytest.raises(BadUpload) as caught:
        read_labels(io.BytesIO(content), Format.CSV, "string")
    assert str(caught.value) == (
        "a node must have one label in a table, and 2 nodes have several (rows count from 0): "
        "'b' has 'bot' in row 1 and 'human' in row 3; 'c' has 'x' in row 4 and 'y' in row 5. "
        "Say contradictions='last' to take the last row of each, 'leave-out' to give such nodes no "
        "label, or 'opinions' where rows are those of several people"
    )

    def read(contradictions: Contradictions) -> UploadedLabels:
        columns = LabelColumns(contradictions=contradictions)
        return read_labels(io.BytesIO(content), Format.CSV, "string", columns)[""]

    last, left_out = read("last"), read("leave-out")
    assert last.last_of_each() == {"a": "bot", "b": "bot", "c": "y"}
    assert (last.left_out, left_out.left_out) == ({"several labels": 3}, {"several labels": 5})
    assert left_out.last_of_each() == {"a": "bot"}
    opinions = read("opinions")
    assert opinions.are_opinions
    assert (len(opinions.nodes), opinions.left_out) == (7, {})


@pytest.mark.parametrize(
    ("labels", "kept", "left_out"),
    [
        (["x", "?", "y", "Unknown"], ["x", "y"], {"?": 1, "Unknown": 1}),
        (["x", "NA", "y", "nan"], ["x", "y"], {"NA": 1, "nan": 1}),
        (["1", "NA", "0", "\\N"], [1, 0], {"NA": 1, "\\N": 1}),
        (["0", "-1", "1", "-1"], [0, 1], {"-1": 2}),
        (["0", "-1", "-2", "1"], [0, -1, -2, 1], {}),
        (["0.5", "-1.0", "2.5", "None"], [0.5, -1.0, 2.5], {"None": 1}),
        (["x", "-1", "y", "NULL"], ["x", "y"], {"-1": 1, "NULL": 1}),
        (["x", "-1.0", "y", "(null)"], ["x", "y"], {"-1.0": 1, "(null)": 1}),
        (["True", "FALSE", "true", "#N/A"], ["true", "false", "true"], {"#N/A": 1}),
        (["9" * 18, "-1", "7", "5"], [10**18 - 1, 7, 5], {"-1": 1}),
        (["none of these", "nano", "x", "-10"], ["none of these", "nano", "x", "-10"], {}),
    ],
)
def test_words_that_mean_no_label_are_left_out_and_counted(
    labels: list[str], kept: list[Any], left_out: dict[str, int]
) -> None:
    text = "node,label\n" + "".join(
        f"{node},{label}\n" for node, label in zip("abcd", labels, strict=True)
    )
    found = read_labels(io.BytesIO(text.encode()), Format.CSV, "string")[""]
    assert (found.labels, dict(found.left_out)) == (kept, left_out)


def test_typed_tables_have_the_same_words_for_nothing() -> None:
    nan = float("nan")
    for labels, kept in (
        (["x", "?", "null"], ["x"]),
        ([0, -1, 1], [0, 1]),
        ([1.0, nan, 0.0], [1, 0]),
        ([0.5, nan, 1.0], [0.5, 1.0]),
    ):
        rows = [{"node": node, "label": label} for node, label in zip("abc", labels, strict=True)]
        assert json_labels(rows, "string")[""].labels == kept
        table = written(pa.Table.from_pylist(rows), Format.PARQUET)
        assert read_labels(table, Format.PARQUET, "string")[""].labels == kept


def test_whole_floats_that_may_have_been_rounded_are_no_classes() -> None:
    rows = [{"node": "a", "label": 9007199254740991.0}, {"node": "b", "label": 2**53 + 1}]
    assert json_labels(rows, "string")[""].labels == [2**53 - 1, 2**53 + 1]
    for label in (9007199254740993.0, -(2.0**60)):
        rows[1] = {"node": "b", "label": label}
        table = pa.table({"node": ["a", "b"], "label": [1.0, label]})
        with pytest.raises(BadUpload, match=r"beyond 2\^53"):
            json_labels(rows, "string")
        with pytest.raises(BadUpload, match=r"beyond 2\^53") as caught:
            read_labels(written(table, Format.PARQUET), Format.PARQUET, "string")
        assert caught.value.row == 1
    real = [{"node": "a", "label": 0.5}, {"node": "b", "label": 2.0**60}]
    assert json_labels(real, "string")[""].labels == [0.5, 2.0**60]


def test_minus_one_and_one_alone_may_be_two_classes() -> None:
    content = b"node,label\na,1\nb,-1\nc,1\n"
    with pytest.raises(BadUpload, match=r"keep_word=-1; .* no_label=-1"):
        read_labels(io.BytesIO(content), Format.CSV, "string")
    for words, kept in (
        (LabelWords(keep_word=("-1",)), [1, -1, 1]),
        (LabelWords(keep_word=("-1.0",)), [1, -1, 1]),
        (LabelWords(no_label=("-1",)), [1, 1]),
    ):
        columns = LabelColumns(words=words)
        found = read_labels(io.BytesIO(content), Format.CSV, "string", columns)[""]
        assert found.labels == kept
    for pair in ([-1.0, 1.0], ["-1", "+1"], ["-1.0", "1"], ["-1", "-1"]):
        rows = [{"node": n, "label": label} for n, label in zip("ab", pair, strict=True)]
        with pytest.raises(BadUpload, match=r"keep_word=-1; .* no_label=-1"):
            json_labels(rows, "string")
    words = LabelWords(no_label=("Unsure",), keep_word=("?",))
    content = b"node,label\na,?\nb,unsure\nc,x\n"
    found = read_labels(io.BytesIO(content), Format.CSV, "string", LabelColumns(words=words))[""]
    assert (found.labels, found.left_out) == (["?", "x"], {"unsure": 1})


def test_rows_without_a_label_are_left_out_where_that_is_said() -> None:
    for table_format in Format:
        table = pa.table({"node": ["a", "b"], "label": ["x", None]})
        with pytest.raises(BadUpload, match="no_label=''"):
            read_labels(written(table, table_format), table_format, "string")
        columns = LabelColumns(words=LabelWords(no_label=("",)))
        found = read_labels(written(table, table_format), table_format, "string", columns)[""]
        assert (found.nodes, found.left_out) == (["a"], {"": 1})


@pytest.mark.parametrize("table_format", Format)
def test_labels_without_a_node_are_refused_by_the_name_of_the_column_or_left_out(
    table_format: Format,
) -> None:
    table = pa.table({"who": ["a", None, "NA"], "label": ["x", "y", "x"]})
    columns = LabelColumns(node="who")
    with pytest.raises(BadUpload, match="column 'who' must name a node") as raised:
        read_labels(written(table, table_format), table_format, "string", columns)
    assert raised.value.row == 1
    columns = replace(columns, missing_ids="leave-out")
    found = read_labels(written(table, table_format), table_format, "string", columns)[""]
    assert (found.nodes, found.labels, found.left_out) == (["a"], ["x"], {"no node": 2})


@pytest.mark.parametrize("table_format", Format)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("_change_type", ["insert", "delete"]),
        ("is_deleted", ["false", "true"]),
        ("Op", ["I", "D"]),
        ("kind", ["insert", "delete"]),
    ],
)
def test_labels_that_were_deleted_are_not_put(
    table_format: Format, name: str, values: list[str]
) -> None:
    table = pa.table({"node": ["a", "b"], "label": ["x", "y"], name: values})
    with pytest.raises(BadEdges, match=r"asks for deletes .* taken back") as caught:
        read_labels(written(table, table_format), table_format, "string")
    assert caught.value.row == 1 or "the first is row 1 from 0" in str(caught.value)
    columns = LabelColumns(label=name)
    found = read_labels(written(table, table_format), table_format, "string", columns)[""]
    assert found.labels == values


@pytest.mark.parametrize(
    ("name", "values"), [("is_deleted", [False, True]), ("Op", ["I", "D"]), ("isDeleted", [0, 1])]
)
@pytest.mark.parametrize(
    ("table_format", "has_lists"),
    [(each, has) for each in Format for has in (True, False) if not (has and each is Format.CSV)],
)
def test_features_that_were_deleted_are_not_taken(
    table_format: Format, name: str, values: list[object], has_lists: bool
) -> None:
    rows = {"features": [[1.0], [2.0]]} if has_lists else {"age": [31.0, 45.0]}
    table = pa.table({"node": ["a", "b"], **rows, name: values})
    with pytest.raises(BadEdges, match=r"asks for deletes .* replacing their set") as caught:
        list(feature_batches(written(table, table_format), table_format, "string"))
    assert caught.value.row == 1
    counts = pa.table({"node": ["a", "b"], **rows, "n_deleted": [1, 7]})
    assert len(list(feature_batches(written(counts, table_format), table_format, "string"))) == 1


def test_a_column_of_labels_in_another_case_is_told() -> None:
    content = io.BytesIO(b'{"node": "a", "Color": "red"}\n{"node": "b"}\n')
    with pytest.raises(BadUpload, match="'color' is missing; rows have 'Color'"):
        read_labels(content, Format.NDJSON, "string", LabelColumns(names=("color",)))


def test_a_header_between_joined_files_of_labels_is_refused() -> None:
    content = b"node,label\na,x\nnode,label\nb,y\n"
    with pytest.raises(BadUpload, match="name the columns again") as caught:
        read_labels(io.BytesIO(content), Format.CSV, "string")
    assert caught.value.row == 1


@pytest.mark.parametrize("table_format", [Format.ARROW, Format.PARQUET])
def test_bodies_behind_one_another_are_refused(table_format: Format) -> None:
    table = pa.table({"src": ["a"], "dst": ["b"]})
    with pytest.raises(BadUpload, match=r"one after the other|follow its end"):
        edges(2 * written(table, table_format).getvalue(), table_format, "string")


def test_what_was_exported_is_the_same_once_it_is_put_again() -> None:
    for column in (
        ["01", "1"],
        ["1.10", "1.1"],
        ["1e2", "100"],
        ["x", "1"],
        ["true", "no"],
        [str(2**63)] * 2,
    ):
        labels = pa.table({"node": ["a", "b"], "label": column})
        content = written(labels, Format.CSV)
        assert read_labels(content, Format.CSV, "string")[""].labels == column


def test_a_node_may_stand_twice_with_one_label() -> None:
    rows = [{"node": "7", "label": 3}, {"node": 7, "label": 3.0}]
    assert json_labels(rows, "int64")[""].last_of_each() == {"7": 3}
    with pytest.raises(BadUpload, match="7 has 3 in row 0 and 4 in row 1"):
        json_labels([rows[0], {"node": 7, "label": 4}], "int64")
