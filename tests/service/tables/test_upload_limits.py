"""Bodies of a few kilobytes that come to gigabytes: refused, and never unpacked."""

import base64
import io
import json
import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.service.tables.arrow_survey import survey_arrow
from peewit.service.tables.formats import encode
from peewit.service.tables.parquet_survey import survey_parquet
from peewit.service.tables.uploads import TableTooLarge, UploadLimits, decoding_bytes, edge_batches
from peewit.service.tables.uploads.limits import columns_within
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.csv.tables import csv_batches, csv_header
from peewit.streaming.edges.table_formats import Format

LONG: Final = "x" * (1 << 20)
MIB: Final = 1 << 20

DECODE: Final = """
import json, resource, sys
from pathlib import Path
import psutil
from peewit.streaming.edges.table_formats import Format
from peewit.service.settings import Settings
from peewit.service.tables.uploads import (
    UploadLimits,
    edge_batches,
    feature_batches,
    point_batches,
    read_labels,
)
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.features.checked_tables import read_features

limits = UploadLimits(
    rows=50_000_000, label_rows=1_000_000, columns=10_000, decoded_bytes=2**28, batch_bytes=2**26
)

def edges(file, table_format, kind):
    first_row = 0
    for batch in edge_batches(file, table_format, kind, limits=limits):
        first_row += read_columns(
            batch, node_kind=kind, max_nodes=2**31 - 2, first_row=first_row
        ).n_rows

def features(file, table_format, kind):
    for batch in feature_batches(file, table_format, kind, limits=limits):
        read_features(batch, node_kind=kind, max_nodes=2**31 - 2)

def labels(file, table_format, kind):
    read_labels(file, table_format, kind, limits=limits)

def points(file, table_format, kind):
    for batch in point_batches(file, table_format, "string", limits=limits):
        pass

def peak_mib():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
before = peak_mib()
rss_mib = psutil.Process().memory_info().rss / 2**20
told = {}
for path in sorted(Path(sys.argv[1]).iterdir()):
    use, kind, name = path.stem.split("-")
    with path.open("rb") as file:
        try:
            globals()[use](file, Format.of_path(path), kind)
        except ValueError as error:
            told[name] = [type(error).__name__, str(error)]
        else:
            told[name] = ["nothing", ""]
        told[name].append(peak_mib() - before)
kept = psutil.Process().memory_info().rss / 2**20 - rss_mib
print(json.dumps({"told": told, "grown_mib": peak_mib() - before, "kept_mib": kept}))
"""

REFUSED: Final = {
    "equal": ("TableTooLarge", "rows must be at most 50000000; .*got 60000000"),
    "longids": ("BadEdges", "column 'src' must hold strings of at most 2000 bytes, got x+"),
    "page": ("TableTooLarge", "batch_bytes must be at most 67108864 .*got 8388"),
    "list": ("TableTooLarge", "decoded_bytes must be at most 268435456; .*got 3200"),
    "points": ("TableTooLarge", "decoded_bytes must be at most 268435456; .*got 3200"),
    "prefixes": ("BadUpload", "must not have the encoding DELTA_BYTE_ARRAY"),
    "zeros": ("TableTooLarge", "batch_bytes must be at most 67108864 .*got 800"),
    "forged": ("TableTooLarge", "decoded_bytes must be at most 268435456; .*got 109951"),
    "nulls": ("TableTooLarge", "rows must be at most 50000000; .*got 2000000000"),
    "runs": ("TableTooLarge", "rows must be at most 50000000; .*got 2000000000"),
    "nested": ("BadUpload", "column 'label' must hold strings, numbers or lists of numbers"),
    "labels": ("TableTooLarge", "label_rows must be at most 1000000; .*PEEWIT_MAX_LABEL_ROWS"),
    "dictionary": ("BadEdges", "column 'dst' must hold strings of at most 2000 bytes, got x+"),
    "views": ("BadEdges", "column 'src' must hold strings of at most 2000 bytes, got x+"),
    "wide": ("TableTooLarge", "columns must be at most 10000; .*PEEWIT_MAX_COLUMNS.*got 100000"),
    "numbers": ("TableTooLarge", "columns must be at most 10000; .*got 100001"),
    "quoted": ("BadUpload", "quoted lines look like rows"),
    "chunks": ("TableTooLarge", "columns must be at most 10000; .*got 12000"),
    "groups": ("BadUpload", "must have at most 4096 row groups, got 5000"),
    "structs": ("BadUpload", "footer and page headers must have at most 262144 structures"),
    "fields": ("TableTooLarge", "columns must be at most 10000; .*got 10001"),
    "deep": ("TableTooLarge", "columns must be at most 10000; .*got 10001"),
    "metadata": ("TableTooLarge", "decoded_bytes must be at most 268435456; .*got 20014"),
    "described": ("TableTooLarge", "decoded_bytes must be at most 268435456; .*got 10007"),
    "footer": ("TableTooLarge", "decoded_bytes must be at most 268435456; .*got 10007"),
    "entries": ("BadUpload", "a stream must have at most 65536 entries of metadata"),
    "line": ("BadUpload", "a line must have at most 16777216 bytes in row 1"),
}


def repeated(value: str, n_rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(np.zeros(n_rows, dtype=np.int8), pa.array([value]))


def many_nulls(n_rows: int) -> pa.NullArray:
    return pa.Array.from_buffers(pa.null(), n_rows, [None])


def write_arrow(path: Path, columns: dict[str, Any], codec: str | None = None) -> None:
    batch = pa.record_batch(columns)
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(path, batch.schema, options=options) as writer:
        writer.write_batch(batch)


def arrow_stream(schema: pa.Schema, metadata: dict[str, str] | None = None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([], schema), metadata)
    return sink.getvalue()


def many_entries(n_entries: int, n_bytes: int) -> dict[str, str]:
    return {"x" * n_bytes: "", **{str(number): "" for number in range(1, n_entries)}}


def with_one_entry(content: bytes, n_entries: int) -> bytes:
    """The same with each entry of `many_entries` the first one, which is long."""
    aliased = bytearray(content)
    first = aliased.rindex(struct.pack("<I", n_entries), 0, aliased.index(b"x" * 1_000)) + 4
    (to_entry,) = struct.unpack_from("<I", aliased, first)
    for number in range(n_entries):
        struct.pack_into("<I", aliased, first + 4 * number, to_entry - 4 * number)
    return bytes(aliased)


def write_metadata(directory: Path) -> None:
    """Entries of metadata that are all one and the same."""
    src, dst, n_entries = pa.field("src", pa.int64()), pa.field("dst", pa.int64()), 10_007
    long = many_entries(n_entries, 100_000)
    edges = pa.schema([src, dst])
    content = arrow_stream(edges, long)
    (directory / "edges-int64-metadata.arrows").write_bytes(with_one_entry(content, n_entries))
    below = pa.schema([src, dst, pa.field("more", pa.struct([src.with_metadata(long)]))])
    content = with_one_entry(arrow_stream(below), n_entries)
    (directory / "edges-int64-described.arrows").write_bytes(content)
    described = pa.schema([src.with_metadata(long), dst]).serialize().to_pybytes()
    kept = base64.b64encode(with_one_entry(described, n_entries))
    path = directory / "edges-int64-footer.parquet"
    with pq.ParquetWriter(path, edges, store_schema=False) as writer:
        writer.add_key_value_metadata({"ARROW:schema": kept.decode()})
        writer.write_table(edges.empty_table())
    content = arrow_stream(edges.with_metadata(many_entries(70_001, 1)))
    (directory / "edges-int64-entries.arrows").write_bytes(content)


def write_bombs(directory: Path) -> None:
    write_metadata(directory)
    ones = pa.array(np.ones(1_000_000, dtype=np.int64))
    edges = pa.table({"src": ones, "dst": ones})
    with pq.ParquetWriter(directory / "edges-int64-equal.parquet", edges.schema) as writer:
        for _ in range(60):
            writer.write_table(edges)
    long = repeated(LONG, 1_000_000)
    ids = pa.table({"src": long, "dst": long})
    pq.write_table(ids, directory / "edges-string-longids.parquet", compression="zstd")
    zeros = np.zeros(10_000_000)
    pq.write_table(
        pa.table({"src": [LONG * 80], "dst": ["a"]}),
        directory / "edges-string-page.parquet",
        compression="zstd",
        use_dictionary=False,
    )
    numbers = pa.array(np.zeros(40_000_000, dtype=np.int8))
    one_row = pa.ListArray.from_arrays(pa.array([0, len(numbers)], pa.int32()), numbers)
    table = pa.table({"node": ["a"], "features": one_row})
    pq.write_table(table, directory / "features-string-list.parquet")
    pq.write_table(table, directory / "points-string-points.parquet")
    pq.write_table(
        pa.table({"src": [LONG] * 100, "dst": [LONG] * 100}),
        directory / "edges-string-prefixes.parquet",
        use_dictionary=False,
        column_encoding="DELTA_BYTE_ARRAY",
    )
    path = directory / "edges-int64-zeros.arrows"
    write_arrow(path, {"src": zeros}, "zstd")
    length = struct.pack("<q", zeros.nbytes)
    forged = path.read_bytes().replace(length, struct.pack("<q", 1 << 40))
    (directory / "edges-int64-forged.arrows").write_bytes(forged)
    nothing = many_nulls(2_000_000_000)
    write_arrow(directory / "labels-string-nulls.arrows", {"node": nothing, "label": nothing})
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2_000_000_000], pa.int32()), pa.array([1]))
    write_arrow(directory / "labels-int64-runs.arrows", {"node": runs, "label": runs})
    nested = pa.ListArray.from_arrays(pa.array([0, 2**31 - 1], pa.int32()), many_nulls(2**31 - 1))
    write_arrow(directory / "labels-string-nested.arrows", {"node": ["a"], "label": nested})
    labels = pa.table({"node": repeated("a", 3_000_000), "label": repeated("b", 3_000_000)})
    pq.write_table(labels, directory / "labels-string-labels.parquet")
    short, long = repeated("a", 5_000_000), repeated(LONG, 5_000_000)
    write_arrow(directory / "edges-string-dictionary.arrows", {"src": short, "dst": long}, "zstd")
    views = pa.array([LONG], pa.string_view())
    thousand = pa.StringViewArray.from_buffers(
        pa.string_view(),
        100_000,
        [None, pa.py_buffer(views.buffers()[1].to_pybytes()[:16] * 100_000), views.buffers()[2]],
    )
    write_arrow(directory / "edges-string-views.arrows", {"src": thousand, "dst": thousand}, "zstd")
    row = b'{"src": "a", "dst": "b"}\n'
    (directory / "edges-string-line.ndjson").write_bytes(row + b"[" + b"{}," * (6 * MIB) + b"{}]\n")
    write_wide(directory)


def write_wide(directory: Path) -> None:
    """Few rows, of more columns or row groups than anybody needs."""
    names = ["src", "dst", *(f"c{number}" for number in range(99_998))]
    ones = ",".join("1" for _ in names)
    (directory / "edges-string-wide.csv").write_text(f"{','.join(names)}\n{ones}\n")
    (directory / "features-string-numbers.csv").write_text(
        f"\r\nnode,{','.join(names)}\na,{ones}\n"
    )
    quoted = ",".join(f'"a,{number}\n"' for number in range(20_000))
    (directory / "labels-string-quoted.csv").write_text(f"node,label,{quoted}\nb,1,{ones}\n")
    few = pa.table({name: [1] for name in names[:12_000]})
    options = {"write_statistics": False, "use_dictionary": False, "store_schema": False}
    pq.write_table(few, directory / "edges-int64-chunks.parquet", **options)
    edges = pa.table({"src": [1] * 5_000, "dst": [1] * 5_000})
    pq.write_table(edges, directory / "edges-int64-groups.parquet", row_group_size=1, **options)
    n_structs = 4 * MIB - 100
    length = bytes([n_structs & 127 | 128, n_structs >> 7 & 127 | 128, n_structs >> 14 & 127 | 128])
    footer = b"\x49\xfc" + length + bytes([n_structs >> 21]) + bytes(n_structs + 1)
    (directory / "edges-int64-structs.parquet").write_bytes(
        b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"
    )
    write_arrow(directory / "edges-int64-fields.arrows", {name: [1] for name in names})
    below = pa.array([dict.fromkeys(names, 1)])
    write_arrow(directory / "edges-int64-deep.arrows", {"src": [1], "dst": [1], "more": below})


@pytest.fixture(scope="module")
def answers(processes: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process of its own says of each body, and by how much it has grown."""
    directory = tmp_path_factory.mktemp("bombs")
    write_bombs(directory)
    done = subprocess.run(
        [sys.executable, "-c", DECODE, str(directory)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    answer["sizes"] = {path.stem: path.stat().st_size for path in directory.iterdir()}
    return answer


@pytest.mark.parametrize("name", REFUSED)
def test_a_small_body_that_comes_to_gigabytes_is_refused(
    answers: dict[str, Any], name: str
) -> None:
    kind, message, _ = answers["told"][name]
    assert kind == REFUSED[name][0]
    assert re.search(REFUSED[name][1], message), message


def test_no_such_body_takes_much_memory(answers: dict[str, Any]) -> None:
    assert answers["grown_mib"] < 256, answers["told"]


def test_memory_comes_back_after_such_bodies(answers: dict[str, Any]) -> None:
    assert answers["kept_mib"] < 100, answers["told"]


LONGER: Final = "y" * 10_000
FIELD: Final = pa.field("src", pa.int64())


@pytest.mark.parametrize(
    ("schema", "metadata", "n_times"),
    [
        (pa.schema([FIELD], metadata={LONGER: LONGER}), None, 2),
        (pa.schema([FIELD.with_metadata({"key": LONGER})]), None, 1),
        (pa.schema([pa.field("a", pa.list_(FIELD.with_metadata({LONGER: ""})))]), None, 1),
        (pa.schema([FIELD]), {"key": LONGER}, 2),  # once with the message, once with its batch
        (pa.schema([FIELD.with_name(LONGER)] * 3), None, 3),
        (pa.schema([pa.field("a", pa.struct([FIELD.with_name(LONGER)]))]), None, 1),
        (pa.schema([pa.field("a", pa.timestamp("s", LONGER))]), None, 1),
    ],
    ids=["schema", "field", "nested", "batch", "names", "nested name", "time zone"],
)
def test_names_and_metadata_count_wherever_they_stand(
    schema: pa.Schema, metadata: dict[str, str] | None, n_times: int
) -> None:
    told = survey_arrow(io.BytesIO(arrow_stream(schema, metadata)), max_columns=9)
    assert 0 <= told.decoded_bytes - n_times * len(LONGER) < 100


@pytest.mark.parametrize("table_format", [Format.ARROW, Format.PARQUET])
def test_metadata_as_pandas_writes_it_is_no_fault(table_format: Format) -> None:
    pandas = json.dumps({"index_columns": ["day"], "pandas_version": "2.3.3", "columns": []})
    schema = pa.schema(
        [
            pa.field("src", pa.string(), metadata={"unit": "person"}),
            pa.field("dst", pa.string()),
            pa.field("day", pa.timestamp("us", "Europe/Paris")),
        ],
        metadata={"pandas": pandas},
    )
    table = pa.table([["a", "b"], ["b", "c"], [0, 0]], names=schema.names).cast(schema)
    content = b"".join(encode(schema, table.to_batches(), table_format))
    limits = UploadLimits(rows=9, label_rows=9, columns=3, decoded_bytes=MIB, batch_bytes=100_000)
    batches = edge_batches(io.BytesIO(content), table_format, "string", limits=limits)
    assert [row["dst"] for batch in batches for row in batch.to_pylist()] == ["b", "c"]


def test_what_a_chunk_calls_itself_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": ["a"] * 1000, "dst": ["b"] * 1000}), path, store_schema=False)
    with path.open("rb") as file:
        told = survey_parquet(file, ("src", "dst"))
    before, name, after = path.read_bytes().partition(b"src")
    path.write_bytes(before + name + after.replace(b"src", b"zzz"))
    with path.open("rb") as file:
        assert survey_parquet(file, ("src", "dst")) == told
    assert told.dictionary_columns == {"src", "dst"}


@pytest.mark.parametrize("table_format", Format)
def test_what_decoding_takes_is_told_beforehand(table_format: Format) -> None:
    table = pa.table({"src": np.zeros(50_000, dtype=np.int64), "dst": np.arange(50_000)})
    content = b"".join(encode(table.schema, table.to_batches(), table_format))
    limits = UploadLimits(
        rows=10**6, label_rows=10**6, columns=9, decoded_bytes=16 * MIB, batch_bytes=16 * MIB
    )
    told = decoding_bytes(io.BytesIO(content), table_format, len(content), limits)
    batches = edge_batches(io.BytesIO(content), table_format, "int64", limits=limits)
    assert sum(batch.nbytes for batch in batches) <= told <= limits.decoded_bytes
    tight = replace(limits, decoded_bytes=1000)
    assert decoding_bytes(io.BytesIO(content), table_format, len(content), tight) == 1000


class StopReading(Exception):
    """The header was taken."""


@given(st.text('",\n\ra ', max_size=12), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_columns_are_counted_before_arrow_reads_them(head: str, mark: bytes) -> None:
    content = mark + head.encode() + b"\n1\n"
    try:
        n_columns = len(csv_header(io.BytesIO(content), ())[0])
    except BadUpload:
        return

    def stop(names: Sequence[str]) -> None:
        raise StopReading

    def read(most: int) -> None:
        limits = UploadLimits(
            rows=9, label_rows=9, columns=most, decoded_bytes=MIB, batch_bytes=MIB
        )
        with suppress(StopReading):
            next(csv_batches(io.BytesIO(content), (), check=columns_within(limits, stop)))

    with pytest.raises(TableTooLarge):
        read(n_columns - 1)
    read(n_columns)
