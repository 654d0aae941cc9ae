"""Tables of other formats and with bad rows, as copies that streams read."""

import gzip
import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns, suggestion
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import BadRow
from peewit.streaming.edges.reader import read_part
from peewit.streaming.edges.relations.copies import ROWS_PER_GROUP
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage

Row = tuple[object, object, float]

ROWS: list[Row] = [("a", "b", 1.5), ("ü, ;", "x y", 2.0), ("b", "c", 0.25)]
NAMED = EdgeColumns(src="from", dst="to", weight="amount")


def csv_of(separator: str) -> bytes:
    def shown(value: object) -> str:
        return f'"{value}"' if separator in str(value) else str(value)

    lines = [separator.join(map(shown, row)) for row in [("from", "to", "amount"), *ROWS]]
    return ("\n".join(lines) + "\n").encode()


def json_of() -> bytes:
    names = ("from", "to", "amount")
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS).encode()


def table_of() -> pa.Table:
    return pa.table(dict(zip(("from", "to", "amount"), zip(*ROWS, strict=True), strict=True)))


def arrow_of(new: Callable[..., pa.ipc.RecordBatchStreamWriter]) -> bytes:
    sink = pa.BufferOutputStream()
    with new(sink, table_of().schema) as writer:
        writer.write_table(table_of())
    return bytes(sink.getvalue())


def parquet_of() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table_of(), sink)
    return bytes(sink.getvalue())


COMMAS = csv_of(",")
WRITTEN = {
    "e.csv": COMMAS,
    "semicolons.csv": csv_of(";"),
    "bars.csv": csv_of("|"),
    "bom.csv": b"\xef\xbb\xbf" + COMMAS,
    "commented.csv": b"# exported\n% today\n" + COMMAS,
    "e.tsv": csv_of("\t"),
    "e.csv.gz": gzip.compress(COMMAS),
    "two-members.csv.gz": gzip.compress(COMMAS[:9]) + gzip.compress(COMMAS[9:]),
    "e.tsv.zst": pa.compress(csv_of("\t"), codec="zstd", asbytes=True),
    "e.ndjson": json_of(),
    "e.jsonl.gz": gzip.compress(json_of()),
    "e.arrow": arrow_of(pa.ipc.new_stream),
    "e.arrows.gz": gzip.compress(arrow_of(pa.ipc.new_stream)),
    "e.feather": arrow_of(pa.ipc.new_file),
    "e.parquet": parquet_of(),
}


def read(
    path: Path, columns: EdgeColumns = PLAIN, *, kind: NodeKind = "string", max_bad_rows: int = 0
) -> tuple[list[Row], tuple[BadRow, ...]]:
    """All rows of a file, and those that were left out."""
    (file,) = EdgeFiles(path, columns=columns, max_bad_rows=max_bad_rows).list()
    staging = path.parent / "staging"
    rows: list[Row] = []
    try:
        with stage(file, staging, node_kind=kind) as staged:
            for part in staged.parts:
                block = read_part(staged, part, node_kind=kind, max_nodes=100)
                ends = zip(block.src.to_pylist(), block.dst.to_pylist(), strict=True)
                rows += [(u, v, float(w)) for (u, v), w in zip(ends, block.weight, strict=True)]
            return rows, staged.bad_rows
    finally:
        assert not list(staging.glob("*"))


@pytest.mark.parametrize("name", WRITTEN)
def test_every_format_with_columns_of_other_names_gives_the_same_edges(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_bytes(WRITTEN[name])
    assert read(tmp_path / name, NAMED) == (ROWS, ())


def test_lists_without_a_header_are_read_by_places(tmp_path: Path) -> None:
    path = tmp_path / "snap.txt"
    path.write_text("# Nodes: 3\n# FromNodeId\tToNodeId\n1\t2\n2\t3\n")
    assert read(path, EdgeColumns(src="#1", dst="#2"), kind="int64")[0] == [(1, 2, 1), (2, 3, 1)]
    with pytest.raises(BadEdges, match=r"first line must name the columns.*src='#1'"):
        read(path, kind="int64")
    path.write_text("7 8 0.5\n")
    columns = EdgeColumns(src="#2", dst="#1", weight="#3")
    assert read(path, columns, kind="int64")[0] == [(8, 7, 0.5)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["source", "target", "ts"], "src='source', dst='target'"),
        (["From", "TO"], "src='From', dst='TO'"),
        (["sender_id", "receiver_id"], "src='sender_id', dst='receiver_id'"),
        (["SRC", "DST"], "src='SRC', dst='DST'"),
        (["ts", "to_account", "from_account"], "src='from_account', dst='to_account'"),
        (["sourceId", "targetId"], "src='sourceId', dst='targetId'"),
        (["source", "target", "from", "to"], "that hold the ends"),
        (["source", "Source", "target"], "that hold the ends"),
        (["a", "b"], "; say src='COLUMN', dst='COLUMN' with the names of those that hold the ends"),
    ],
)
def test_obvious_columns_are_suggested_and_never_taken(
    tmp_path: Path, names: list[str], expected: str
) -> None:
    assert suggestion(names).endswith(expected)
    path = tmp_path / "e.csv"
    path.write_text(",".join(names) + "\n" + ",".join("x" for _ in names) + "\n")
    with pytest.raises(BadEdges, match="column 'src' is missing") as caught:
        read(path)
    assert expected in caught.value.reason


def test_a_weight_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("src,dst\na,b\n")
    with pytest.raises(BadEdges, match="column 'amount' is missing"):
        read(path, EdgeColumns(weight="amount"))


@pytest.mark.parametrize("fields", [{"src": ""}, {"src": "dst"}, {"src": "#1", "dst": "to"}])
def test_names_of_columns_are_checked(fields: dict[str, str]) -> None:
    with pytest.raises(BadArgument, match="must"):
        EdgeColumns(**fields)


DIRTY = [
    "from,to,amount",
    "a,b,1",
    "only-two,b",
    ",b,1",
    "b,c,-1",
    "b,c,much",
    "b,c,2",
    "x" * 2001 + ",c,2",
    "a,b,1,too,many",
    "c,d,nan",
    "c,d,3",
]
DIRTY_ROWS = [1, 2, 3, 4, 6, 7, 8]


def test_bad_rows_are_left_out_and_told_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("\n".join(DIRTY))
    rows, bad = read(path, NAMED, max_bad_rows=7)
    assert rows == [("a", "b", 1), ("b", "c", 2), ("c", "d", 3)]
    assert [each.row for each in bad] == DIRTY_ROWS
    for each in bad:
        shown = (each.value or "").strip("'")
        assert shown[:2] in DIRTY[1 + each.row]
    for allowed in range(7):
        with pytest.raises(BadEdges):
            read(path, NAMED, max_bad_rows=allowed)


def test_thousands_of_bad_rows_in_a_row_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    bad = ["only-one" if row % 3 else "b," for row in range(5_000)]
    path.write_text("\n".join(["src,dst", "a,b", *bad, "c,d"]) + "\n")
    rows, found = read(path, max_bad_rows=5_000)
    assert rows == [("a", "b", 1), ("c", "d", 1)]
    assert [each.row for each in found] == list(range(1, 5_001))


def test_the_row_beyond_those_allowed_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("src,dst\na,b\none\na,b\ntwo\na,b\n,b\n")
    for allowed, row in ((0, 1), (1, 3), (2, 5)):
        with pytest.raises(BadEdges) as caught:
            read(path, max_bad_rows=allowed)
        assert caught.value.row == row
        said = "3 rows are bad, max_bad_rows 3 leaves them out; one of them: "
        assert caught.value.reason.startswith(said)
    path.write_text("src,dst\na,b\none\n")
    with pytest.raises(BadEdges, match=r"1 row is bad, max_bad_rows 1 leaves it out: a row must"):
        read(path)


def test_a_column_that_is_bad_throughout_is_not_counted_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("src,dst,weight\n" + "".join(f"a,b,text{row}\n" for row in range(1_100)))
    with pytest.raises(
        BadEdges, match="more than 1,000 rows are bad; one of them: column 'weight'"
    ) as caught:
        read(path)
    assert (caught.value.row, caught.value.argument) == (0, "weight")


BAD_CELLS: list[tuple[object, object]] = [("src", ""), ("weight", "much"), ("weight", None)]
BAD_CELLS += [("weight", -1.5), ("weight", -2.25), ("weight", float("inf")), ("dst", None)]


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet", "arrow"])
@pytest.mark.parametrize("has_op", [False, True])
def test_rows_that_are_bad_alike_are_those_that_are_bad_alone(
    tmp_path: Path, suffix: str, has_op: bool
) -> None:
    rng = np.random.default_rng(has_op)
    columns = EdgeColumns(op="op" if has_op else None)

    def write(path: Path, rows: list[dict[Any, Any]]) -> Path:
        if suffix == "csv":
            shown = [[("" if cell is None else str(cell)) for cell in row.values()] for row in rows]
            path.write_text("\n".join(map(",".join, [list(rows[0]), *shown])) + "\n")
        elif suffix == "ndjson":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            table = pa.table({name: [row[name] for row in rows] for name in rows[0]}, schema)
            if suffix == "parquet":
                pq.write_table(table, path)
            else:
                with pa.ipc.new_stream(path, table.schema) as writer:
                    writer.write_table(table)
        return path

    rows = []
    for number in range(120):
        row: dict[Any, Any] = {"src": f"n{number}", "dst": "hub", "weight": 2.0}
        row |= {"op": str(rng.choice(["insert", "delete"]))} if has_op else {}
        if rng.random() < 0.6:
            name, cell = BAD_CELLS[rng.integers(len(BAD_CELLS))]
            if suffix in {"csv", "ndjson"} or not isinstance(cell, str) or name == "src":
                row[name] = cell
        rows.append(row)
    kinds = dict.fromkeys(rows[0], pa.string()) | {"weight": pa.float64()}
    schema = pa.schema(list(kinds.items()))
    expected = {}
    for number, row in enumerate(rows):
        good = dict(row, src="a", dst="b", weight=1.0)
        _, alone = read(write(tmp_path / f"one.{suffix}", [good, row]), columns, max_bad_rows=1)
        if alone:
            expected[number] = alone[0].reason, alone[0].value
    _, found = read(write(tmp_path / f"all.{suffix}", rows), columns, max_bad_rows=200)
    assert {each.row: (each.reason, each.value) for each in found} == expected
    assert len(found) == len(expected) > 20


@pytest.mark.parametrize("cell", [",b,1", "a,b,-{row}", "a,b,much", "only"])
def test_all_bad_rows_are_counted_where_many_are_alike(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "e.csv"
    bad = [cell.format(row=row + 1) for row in range(30_000)]
    path.write_text("\n".join(["src,dst,weight", "a,b,1", *bad]) + "\n")
    with pytest.raises(BadEdges, match="30,000 rows are bad, max_bad_rows 30000 leaves") as caught:
        read(path)
    assert caught.value.row == 1


def test_bad_rows_of_json_and_parquet_are_left_out(tmp_path: Path) -> None:
    lines = ['{"src":"a","dst":"b"}', "no json", "[1]", '{"src":"a"}', '{"src":7,"dst":"b"}']
    (tmp_path / "e.ndjson").write_text("\n".join(lines) + "\n")
    rows, bad = read(tmp_path / "e.ndjson", max_bad_rows=4)
    assert rows == [("a", "b", 1)]
    assert [each.row for each in bad] == [1, 2, 3, 4]
    table = {"src": ["a", None, "b"], "dst": ["b", "c", "a"], "weight": [1.0, 1.0, -1.0]}
    pq.write_table(pa.table(table), tmp_path / "e.parquet")
    rows, bad = read(tmp_path / "e.parquet", max_bad_rows=2)
    assert (rows, [each.row for each in bad]) == ([("a", "b", 1)], [1, 2])


def test_as_many_bad_rows_as_are_planted_are_found_in_many_batches(tmp_path: Path) -> None:
    n_rows = 200_000
    bad_rows = np.sort(np.random.default_rng(1).choice(n_rows, 100, replace=False))
    src = np.arange(n_rows).astype(object)
    src[bad_rows] = "?"
    (tmp_path / "e.csv").write_text("src,dst\n" + "".join(f"{value},7\n" for value in src))
    rows, bad = read(tmp_path / "e.csv", kind="int64", max_bad_rows=100)
    assert [each.row for each in bad] == bad_rows.tolist()
    assert [row[0] for row in rows] == np.delete(np.arange(n_rows), bad_rows).tolist()


def test_copies_have_row_groups_of_a_fixed_size(tmp_path: Path) -> None:
    n_rows = 2 * ROWS_PER_GROUP + 5
    table = pa.table({"src": np.arange(n_rows), "dst": np.arange(n_rows) + 1})
    with pa.ipc.new_stream(str(tmp_path / "e.arrow"), table.schema) as writer:
        for first in range(0, n_rows, 70_001):
            writer.write_table(table.slice(first, 70_001))
    (file,) = EdgeFiles(tmp_path / "e.arrow").list()
    with stage(file, tmp_path / "staging", node_kind="int64") as staged:
        metadata = pq.read_metadata(staged.local_path)
        sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
        assert sizes == [ROWS_PER_GROUP, ROWS_PER_GROUP, 5]
        assert pq.read_table(staged.local_path)["src"].equals(table["src"])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([Decimal("1.50")], pa.decimal128(10, 2)), 1.5),
        (pa.array([3], pa.uint8()), 3.0),
        (pa.array([np.float16(0.5)], pa.float16()), 0.5),
    ],
)
def test_weights_of_warehouses_are_taken(tmp_path: Path, column: pa.Array, expected: float) -> None:
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"], "weight": column}), tmp_path / "e.parquet")
    assert read(tmp_path / "e.parquet")[0] == [("a", "b", expected)]


def test_whole_decimals_are_integers(tmp_path: Path) -> None:
    ids = pa.array([Decimal(12)], pa.decimal128(18, 0))
    pq.write_table(pa.table({"src": ids, "dst": ids}), tmp_path / "e.parquet")
    assert read(tmp_path / "e.parquet", kind="int64")[0] == [(12, 12, 1)]


@pytest.mark.parametrize("node", ["", "a\0b"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_ids_are_text_of_at_least_one_character_without_nul(
    tmp_path: Path, kind: pa.DataType, node: str
) -> None:
    src = pa.array(["a", "bc", node, "d"], kind)
    pq.write_table(pa.table({"src": src, "dst": src}), tmp_path / "e.parquet")
    with pytest.raises(BadEdges, match="at least one character, without NUL") as caught:
        read(tmp_path / "e.parquet")
    assert caught.value.row == 2


def test_integers_in_a_graph_of_strings_lead_to_the_option(tmp_path: Path) -> None:
    pq.write_table(pa.table({"src": [1], "dst": [2]}), tmp_path / "e.parquet")
    with pytest.raises(BadEdges, match="node_ids='int64'"):
        read(tmp_path / "e.parquet")


@pytest.mark.parametrize("cut", ["e.csv.gz", "e.arrow", "e.feather"])
def test_files_that_break_off_are_refused(tmp_path: Path, cut: str) -> None:
    (tmp_path / cut).write_bytes(WRITTEN[cut][:-12])
    with pytest.raises(BadEdges, match=r"not readable|damaged"):
        read(tmp_path / cut, NAMED)


def test_listing_survives_loops_pipes_and_names_that_are_no_text(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "up").symlink_to(data)
    (data / "nowhere.csv").symlink_to(tmp_path / "missing.csv")
    (data / "itself.csv").symlink_to(data / "itself.csv")
    (data / "closed").mkdir()
    if os.geteuid():  # root may look everywhere
        (data / "closed").chmod(0)
    for name in ("a.csv", "deep/b.tsv", "c::d.csv"):
        (data / name).write_text("src,dst\na,b\n")
    os.mkfifo(data / "pipe.csv")
    Path(os.fsdecode(os.fsencode(data) + b"/\xff.csv")).write_text("src,dst\na,b\n")
    (data / "readme.txt").write_text("src,dst\n")
    source = EdgeFiles(data)
    found = [str(Path(file.path).relative_to(data)) for file in source.list()]
    assert found == ["a.csv", "c::d.csv", "deep/b.tsv"]
    assert source.skipped_files == [f"{data}/\\xff.csv"]
    of_glob = EdgeFiles(f"{data}/*.csv")
    assert [Path(file.path).name for file in of_glob.list()] == ["a.csv", "c::d.csv"]
    assert of_glob.skipped_files == source.skipped_files
    assert read(data / "c::d.csv")[0] == [("a", "b", 1)]
