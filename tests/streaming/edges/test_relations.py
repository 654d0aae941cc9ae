"""Tables whose rows belong to relations: one for all, one a row, or one a column of events."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from peewit.solvers.arguments import BadArgument
from peewit.solvers.relations.relation_names import MOST_RELATIONS, check_relation_name
from peewit.streaming.edges import reader
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.conversion import convert, first_rows, is_read_in_place, with_count
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import PART_ROWS, StagedFile
from peewit.streaming.edges.reader import read_part, read_parts
from peewit.streaming.edges.relations import copies
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.left_out import LeftOut
from peewit.streaming.nodes.index import DenseNodes, open_nodes
from peewit.streaming.passes.raw_edge_passes import RawEdges
from peewit.streaming.passes.raw_edge_spool import Spool
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from peewit.streaming.stream import shared_work

Edge = tuple[Any, Any, float]

FORMATS = ("parquet", "csv", "ndjson", "arrow")

EVENTS = EdgeColumns(src="who", via=("device", "ip"), weight="n")
NAMED = EdgeColumns(src="who", dst="ip", weight="n", relation_column="kind")
ONE = EdgeColumns(src="who", dst="ip", weight="n", relation="login")

ROWS: list[dict[str, Any]] = [
    {"who": "a", "device": "x", "ip": "1", "n": 1.0, "kind": "login"},
    {"who": "b", "device": None, "ip": "2", "n": 2.0, "kind": "card"},
    {"who": "c", "device": "NULL", "ip": "2", "n": 3.0, "kind": "login"},
    {"who": "a", "device": "y", "ip": "1", "n": 4.0, "kind": "text message"},
]
OF_EVENTS = {
    "device": [("a", "x", 1.0), ("a", "y", 4.0)],
    "ip": [("a", "1", 1.0), ("b", "2", 2.0), ("c", "2", 3.0), ("a", "1", 4.0)],
}
OF_ROWS = {
    "login": [("a", "1", 1.0), ("c", "2", 3.0)],
    "card": [("b", "2", 2.0)],
    "text message": [("a", "1", 4.0)],
}


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    table = pa.Table.from_pylist(list(rows))
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=2)
    elif path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    else:
        said = ({name: value for name, value in row.items() if value is not None} for row in rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in said))
    return path


def staged(
    path: Path, columns: EdgeColumns, *, kind: NodeKind = "string", **options: Any
) -> StagedFile:
    bad = options.pop("max_bad_rows", 0)
    (file,) = EdgeFiles(path, columns=columns, max_bad_rows=bad).list()
    return stage(file, path.parent / "staging", node_kind=kind, **options)


def edges_of(file: StagedFile, kind: NodeKind = "string") -> dict[str, list[Edge]]:
    """Edges of each relation, as they come; those without a node at one end are left out."""
    edges: dict[str, list[Edge]] = {}
    reading = read_parts(
        [(file, part) for part in file.parts], node_kind=kind, max_nodes=10**6, n_threads=2
    )
    with closing(reading):
        for part, raw in zip(file.parts, reading, strict=True):
            assert raw.n_rows == part.n_rows
            rows = zip(raw.src.to_pylist(), raw.dst.to_pylist(), raw.weight.tolist(), strict=True)
            edges.setdefault(part.relation, []).extend(row for row in rows if row[0] != row[1])
    return edges


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("max_bad_rows", [0, 1])
@pytest.mark.parametrize("part_rows", [1, 3, PART_ROWS])
@pytest.mark.parametrize(
    ("columns", "expected"),
    [(EVENTS, OF_EVENTS), (NAMED, OF_ROWS), (ONE, {"login": OF_EVENTS["ip"]})],
)
def test_every_format_gives_the_edges_of_each_relation(
    tmp_path: Path,
    suffix: str,
    max_bad_rows: int,
    part_rows: int,
    columns: EdgeColumns,
    expected: dict[str, list[Edge]],
) -> None:
    path = write(tmp_path / f"e.{suffix}", ROWS)
    with staged(path, columns, max_bad_rows=max_bad_rows, part_rows=part_rows) as file:
        assert edges_of(file) == expected
        assert file.relations == tuple(expected)
        assert [part.number for part in file.parts] == list(range(len(file.parts)))
        assert file.n_rows == len(ROWS) * len(columns.via or "1")
        is_copied = suffix != "parquet" or max_bad_rows > 0 or columns == NAMED
        assert file.is_copy == is_copied == (not is_read_in_place(file.file, str(path)))
        order = reversed(file.parts)
        blocks = [read_part(file, part, node_kind="string", max_nodes=9) for part in order]
        assert sum(block.n_rows for block in blocks) == file.n_rows


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("kind", ["int64", "dense"])
def test_numbers_may_be_missing_in_columns_of_events(
    tmp_path: Path, suffix: str, kind: NodeKind
) -> None:
    rows = [{"who": 1, "device": 7, "ip": 9}, {"who": 2, "device": None, "ip": 9}]
    path = write(tmp_path / f"e.{suffix}", rows)
    columns = EdgeColumns(src="who", via=("device", "ip"))
    with staged(path, columns, kind=kind) as file:
        edges = edges_of(file, kind)
    assert edges == {"device": [(1, 7, 1.0)], "ip": [(1, 9, 1.0), (2, 9, 1.0)]}


def test_a_column_of_events_may_be_empty_or_of_another_type(tmp_path: Path) -> None:
    table = pa.table(
        {
            "who": pa.array([1, 2, 3], pa.int32()),
            "never": pa.nulls(3),
            "ip": pa.array([4.0, np.nan, 5.0]),
            "card": pa.array([None, 6, 6], pa.uint16()).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "e.parquet")
    columns = EdgeColumns(src="who", via=("never", "ip", "card"))
    with staged(tmp_path / "e.parquet", columns, kind="dense") as file:
        edges = edges_of(file, "dense")
    expected = {"never": [], "ip": [(1, 4, 1.0), (3, 5, 1.0)], "card": [(2, 6, 1.0), (3, 6, 1.0)]}
    assert edges == expected


@pytest.mark.parametrize("suffix", FORMATS)
def test_each_column_of_events_has_a_kind_of_nodes(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"e.{suffix}", ROWS)
    columns = EdgeColumns(src="account:who", via=("device:device", "ip:ip"), weight="n")
    with staged(path, columns, kind="typed") as file:
        edges = edges_of(file, "typed")
    for name, rows in OF_EVENTS.items():
        assert edges[name] == [(f"account:{src}", f"{name}:{dst}", n) for src, dst, n in rows]
    assert EdgeColumns(src="account:who", via=("device:device", "ip"), weight="n") == columns
    assert EdgeColumns(src="who", via=("device", "ip")).kinds == ("", "", "")
    with pytest.raises(BadArgument, match=r"via must name the kind .* KIND:card no, got 'card no'"):
        EdgeColumns(src="account:who", via=("device:device", "card no"))


TYPED = [
    {"rel": "use", "of": "account", "a": "1", "to": "device", "b": "1", "weight": 1.0},
    {"rel": "pay", "of": "account", "a": "1", "to": "card", "b": "c", "weight": 2.0},
    {"rel": "use", "of": "shop", "a": "s", "to": "device", "b": "2", "weight": 1.0},
]
KINDS = EdgeColumns(
    src="a", dst="b", src_kind_column="of", dst_kind_column="to", relation_column="rel"
)


@pytest.mark.parametrize("suffix", FORMATS)
def test_columns_say_the_kinds_of_the_nodes_of_each_row(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"e.{suffix}", TYPED)
    with staged(path, KINDS, kind="typed") as file:
        assert edges_of(file, "typed") == {
            "use": [("account:1", "device:1", 1.0), ("shop:s", "device:2", 1.0)],
            "pay": [("account:1", "card:c", 2.0)],
        }
    one = replace(KINDS, relation_column=None, src_kind_column=None, src_kind="who")
    with staged(path, one, kind="typed") as file:
        assert [src for src, _, _ in edges_of(file, "typed")[""]] == ["who:1", "who:1", "who:s"]
    bad = [*TYPED, {**TYPED[0], "to": "a b"}, {**TYPED[0], "of": "NULL"}]
    path = write(tmp_path / f"bad.{suffix}", bad)
    with pytest.raises(BadEdges, match="column 'to' must name a kind of nodes in every row"):
        staged(path, KINDS, kind="typed")
    with staged(path, KINDS, kind="typed", max_bad_rows=2) as file:
        assert [each.row for each in file.bad_rows] == [3, 4]
        assert file.n_rows == len(TYPED)


def test_words_are_kept_where_they_are_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", ROWS)
    columns = EdgeColumns(src="who", via=("device",), missing_ids="keep")
    with staged(path, columns) as file:
        assert ("c", "NULL", 1.0) in edges_of(file)["device"]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_empty_cells_are_counted_and_entities_must_be_there(tmp_path: Path, suffix: str) -> None:
    rows = [*ROWS, {**ROWS[0], "ip": "a"}, {**ROWS[1], "n": 0.0}, {**ROWS[0], "n": 0.0}]
    with staged(write(tmp_path / f"e.{suffix}", rows), EVENTS) as file:
        paths = GraphPaths(root=tmp_path / "graph")
        Stream(paths, stream_settings("string")).ingest([file.file])
    store = SnapshotStore(paths.snapshots)
    meta = store.meta(store.latest() or 0)
    assert meta.left_out == LeftOut(self_loops=1, zero_weights=4, empty_cells=2)
    assert meta.left_out.by_reason["empty cells of via columns"] == 2
    assert meta.edges_seen == 14
    nobody = write(tmp_path / f"nobody.{suffix}", [*ROWS, {**ROWS[0], "who": None}])
    with pytest.raises(BadTable) as caught, staged(nobody, EVENTS) as file:
        edges_of(file)
    assert (caught.value.argument, caught.value.row) == ("who", 4)


def stream_settings(kind: NodeKind, **changes: Any) -> StreamSettings:
    sparsifier = SparsifierSettings(epsilon=0.9, seed=7, expected_nodes=20)
    return StreamSettings(node_kind=kind, sparsifier=sparsifier, **changes)


def test_rows_that_delete_do_so_in_every_column_of_events(tmp_path: Path) -> None:
    rows = [{**row, "op": op} for row, op in zip(ROWS, ["c", "c", "c", "d"], strict=True)]
    rows.append({**ROWS[0], "device": "x", "ip": "1", "op": "d"})
    path = write(tmp_path / "e.parquet", rows)
    columns = EdgeColumns(src="who", via=("device", "ip"), weight="n", op="op")
    (file,) = EdgeFiles(path, columns=columns).list()
    paths = GraphPaths(root=tmp_path / "graph")
    Stream(paths, stream_settings("string", deletions="exact")).ingest([file])
    store = SnapshotStore(paths.snapshots)
    meta = store.meta(store.latest() or 0)
    assert (meta.left_out.empty_cells, meta.left_out.self_loops) == (2, 0)
    assert sorted(store.edges(1)["weight"].to_pylist()) == [2.0, 3.0]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("columns", [EVENTS, NAMED, ONE])
def test_bad_rows_are_left_out_of_all_relations(
    tmp_path: Path, suffix: str, columns: EdgeColumns
) -> None:
    bad = [{**ROWS[0], "who": None}, {**ROWS[1], "n": -1.0}, {**ROWS[2], "ip": "x" * 3000}]
    rows = [ROWS[0], bad[0], ROWS[1], bad[1], ROWS[2], bad[2], ROWS[3]]
    path = write(tmp_path / f"e.{suffix}", rows)
    with staged(path, columns, max_bad_rows=3) as file:
        assert [each.row for each in file.bad_rows] == [1, 3, 5]
        edges = edges_of(file)
    with staged(write(tmp_path / "good.parquet", ROWS), columns) as file:
        assert edges == edges_of(file)
    (listed,) = EdgeFiles(path, columns=columns).list()
    counted = with_count(
        *(BadEdges("one", row=1), listed, str(path), tmp_path / "copy.parquet"),
        node_kind="string",
        max_nodes=9,
    )
    assert counted.reason.startswith("3 rows are bad")


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", [None, "NULL", "a,b", " padded", "x" * 65])
def test_a_row_without_the_name_of_a_relation_is_bad(
    tmp_path: Path, suffix: str, name: str | None
) -> None:
    path = write(tmp_path / f"e.{suffix}", [ROWS[0], {**ROWS[1], "kind": name}])
    with pytest.raises(BadEdges, match="1 row is bad") as caught:
        staged(path, NAMED)
    assert (caught.value.argument, caught.value.row) in {("kind", 1), ("relation_column", 1)}
    with staged(path, NAMED, max_bad_rows=1) as file:
        assert edges_of(file) == {"login": [("a", "1", 1.0)]}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("n_rows", [1, pytest.param(70_000, marks=pytest.mark.slow)])
def test_a_column_of_ids_names_no_relations(tmp_path: Path, suffix: str, n_rows: int) -> None:
    rows = [
        {**ROWS[0], "kind": f"k{min(number // n_rows, MOST_RELATIONS)}"}
        for number in range((MOST_RELATIONS if n_rows == 1 else 1) * n_rows)
    ]
    more = [{**ROWS[0], "kind": f"m{number}"} for number in range(MOST_RELATIONS)]
    if n_rows == 1:
        with staged(write(tmp_path / f"all.{suffix}", rows), NAMED) as file:
            assert len(file.relations) == MOST_RELATIONS
    with pytest.raises(BadEdges, match=r"'kind' must name at most 64 .* as ids have"):
        staged(write(tmp_path / f"more.{suffix}", [*rows, *more]), NAMED, max_bad_rows=100)


def test_relations_stand_in_the_order_in_which_they_appear(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "kind": 3}, {**ROWS[1], "kind": 1}, {**ROWS[2], "kind": 3}]
    with staged(write(tmp_path / "e.parquet", rows), NAMED) as file:
        assert edges_of(file) == {"3": [("a", "1", 1.0), ("c", "2", 3.0)], "1": [("b", "2", 2.0)]}
        assert file.relations == ("3", "1")


def test_memory_of_many_relations_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    n_rows = 400_000
    names = pa.array([f"r{number}" for number in range(MOST_RELATIONS)])
    relation = names.take(pa.array(np.minimum(rng.geometric(0.1, n_rows) - 1, MOST_RELATIONS - 1)))
    table = pa.table({"src": np.arange(n_rows), "dst": np.arange(n_rows) + 1, "kind": relation})
    with pa.ipc.new_stream(str(tmp_path / "e.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 16)
    columns = EdgeColumns(relation_column="kind")
    (file,) = EdgeFiles(tmp_path / "e.arrow", columns=columns).list()

    def most_bytes(waiting_bytes: int) -> int:
        monkeypatch.setattr(copies, "WAITING_BYTES", waiting_bytes)
        held, start = [0], pa.total_allocated_bytes()

        def check() -> None:
            held[0] = max(held[0], pa.total_allocated_bytes() - start)

        copy = str(tmp_path / f"{waiting_bytes}.parquet")
        convert(file, file.path, copy, node_kind="dense", max_nodes=10**6, check=check)
        return held[0]

    few, many = 1 << 18, 1 << 30
    assert most_bytes(few) < most_bytes(many) / 2
    found = []
    for size in (few, many):
        monkeypatch.setattr(copies, "WAITING_BYTES", size)
        with staged(tmp_path / "e.arrow", columns, kind="dense") as staged_file:
            found.append(edges_of(staged_file, "dense"))
    assert found[0] == found[1]
    assert sum(map(len, found[0].values())) == n_rows
    is_seven = np.asarray(pa.compute.equal(relation, "r7"))
    assert [src for src, _, _ in found[0]["r7"]] == np.flatnonzero(is_seven).tolist()


def test_passes_over_raw_edges_read_every_relation(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    n_rows, n_nodes = 3_000, 40
    table = pa.table(
        {
            "who": rng.integers(0, n_nodes, n_rows),
            "ip": pa.array(rng.integers(0, n_nodes, n_rows), mask=rng.random(n_rows) < 0.2),
            "card": pa.array(rng.integers(0, n_nodes, n_rows), mask=rng.random(n_rows) < 0.5),
        }
    )
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data" / "e.parquet", row_group_size=700)
    columns = EdgeColumns(src="who", via=("ip", "card"))
    paths = GraphPaths(root=tmp_path / "graph")
    Stream(paths, stream_settings("dense")).ingest(
        EdgeFiles(tmp_path / "data", columns=columns).list()
    )
    meta = SnapshotStore(paths.snapshots).meta(1)
    edges = RawEdges(
        CheckpointStore(paths.checkpoints).first_files(meta.n_files, meta.files_digest),
        nodes=DenseNodes(n_nodes=meta.n_nodes),
        node_kind="dense",
        n_nodes=meta.n_nodes,
        spool=Spool(tmp_path / "spool"),
        staging=tmp_path / "staging",
        n_threads=2,
    )
    edges.open()
    expected = np.zeros((n_nodes, n_nodes))
    for name in ("ip", "card"):
        some = table.filter(pa.compute.is_valid(table[name]))
        u, v = some["who"].to_numpy(), some[name].to_numpy()
        np.add.at(expected, (u, v), u != v)
        np.add.at(expected, (v, u), u != v)
    laplacian = np.diag(expected.sum(axis=1)) - expected
    np.testing.assert_allclose(edges.laplacian_product(np.eye(n_nodes)), laplacian, atol=1e-9)
    assert edges.n_edges == expected.sum() / 2


@pytest.mark.parametrize("kind", ["typed", "string", "int64"])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_entities_that_are_known_give_what_entities_that_are_read_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: NodeKind, suffix: str
) -> None:
    rng = np.random.default_rng(6)
    n_rows = 20_000
    ids = {name: rng.integers(0, 900, n_rows).astype(object) for name in ("who", "ip", "card")}
    for name, share in (("ip", 0.2), ("card", 0.6)):
        ids[name][rng.random(n_rows) < share] = None
    table = pa.table({name: pa.array(of.tolist(), pa.int64()) for name, of in ids.items()})
    if kind != "int64":
        table = table.cast(pa.schema([(name, pa.string()) for name in ids]))
    table = table.append_column("n", pa.array(rng.random(n_rows, np.float32)))
    path = tmp_path / f"e.{suffix}"
    write_table = pq.write_table if suffix == "parquet" else pa.csv.write_csv
    write_table(table, path, **({"row_group_size": 6_000} if suffix == "parquet" else {}))
    columns = EdgeColumns(src="who", via=("ip", "card"), weight="n")
    if kind == "typed":
        columns = EdgeColumns(src="account:who", via=("ip", "card"), weight="n")
    made, n_read = [], []
    for most_rows in (n_rows, n_rows - 1):
        monkeypatch.setattr(shared_work, "_MOST_ENTITY_BYTES", 4 * most_rows)
        looked_at: list[bool] = []
        monkeypatch.setattr(
            reader,
            "read_columns",
            lambda *given, told=looked_at, **named: (
                told.append(not named["knows_src"]) or read_columns(*given, **named)
            ),
        )
        paths = GraphPaths(root=tmp_path / str(most_rows))
        stream = Stream(paths, stream_settings(kind, max_part_rows=1 << 13))
        stream.ingest(EdgeFiles(path, columns=columns).list())
        snapshots, nodes = SnapshotStore(paths.snapshots), open_nodes(paths.nodes, kind=kind)
        meta = snapshots.meta(1)
        made.append((snapshots.edges(1), nodes.external_ids(), meta.left_out, meta.relations))
        n_read.append(sum(looked_at) / len(looked_at))
    assert made[0] == made[1]
    assert n_read == [0.5, 1.0]


def test_the_first_rows_are_those_of_events(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", ROWS)
    (file,) = EdgeFiles(path, columns=EVENTS).list()
    first = first_rows(file, n_rows=2, node_kind="string", max_nodes=9)
    assert first is not None
    assert [cells.to_pylist() for cells in first.block.cells] == [["x", None], ["1", "2"]]
    (file,) = EdgeFiles(path, columns=NAMED).list()
    first = first_rows(file, n_rows=2, node_kind="string", max_nodes=9)
    assert first is not None
    assert first.block.relation is not None
    assert first.block.relation.to_pylist() == ["login", "card"]


def test_a_column_of_events_must_be_there(tmp_path: Path) -> None:
    columns = EdgeColumns(src="who", via=("device", "IP"), weight="n")
    for suffix in FORMATS:
        with pytest.raises(BadEdges, match="column 'IP' is missing") as caught:
            staged(write(tmp_path / f"e.{suffix}", ROWS), columns)
        assert caught.value.argument == "via"


@pytest.mark.parametrize(
    "columns", [EVENTS, NAMED, ONE, EdgeColumns(src="p:a", via=("q:b", "r:c"))]
)
def test_reading_is_the_same_when_it_is_stored(columns: EdgeColumns) -> None:
    assert EdgeColumns(**json.loads(json.dumps(columns.reading))) == columns


def test_reading_says_nothing_of_relations_where_there_are_none() -> None:
    assert PLAIN.reading.keys() == {"src", "dst", "weight", "needs_weight", "op", "needs_op"}
    assert EdgeColumns(relation="login").reading["relation"] == "login"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"relation": "a", "via": ("b",)}, r"relation must stand alone.*leave via out"),
        ({"relation": "a", "relation_column": "b"}, r"relation must stand alone"),
        ({"relation_column": "a", "via": ("b",)}, r"relation_column must stand alone"),
        ({"src": "p:a", "src_kind_column": "k"}, r"src_kind_column must be left out where src"),
        ({"dst_kind_column": "k"}, r"as KIND:src, or src_kind_column the column that says"),
        ({"src": "p:a", "dst_kind_column": "k", "via": ("b",)}, r"dst_kind_column must be left"),
        ({"dst": "to", "via": ("b",)}, r"dst must be left out where via joins src.*got 'to'"),
        ({"via": ("b", "b")}, r"via must name a column of its own, got 'b' twice"),
        ({"src": "b", "via": ("b",)}, r"entity must name a column of its own, got 'b' twice"),
        ({"src": "k:a", "via": ("b c",)}, r"via must name the kind of its nodes, too"),
        ({"src": "a", "via": ("k:b",)}, r"entity must name the kind of its nodes, too"),
        ({"src": "", "via": ("b",)}, r"entity must name a column, got ''"),
        ({"via": ("b", "")}, r"via must"),
        ({"via": ("a=b",)}, r"via must have 1 to 64 characters.*got 'a=b'"),
        ({"relation": ""}, r"relation must have 1 to 64 characters"),
        ({"relation_column": ""}, r"relation_column must name a column"),
        ({"via": tuple(f"c{k}" for k in range(65))}, r"via must name at most 64 columns, got 65"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(columns: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadArgument, match=reason):
        EdgeColumns(**columns)


def test_names_of_relations_can_be_told_apart_in_a_list_of_weights() -> None:
    for good in ("card", "text message", "card:hash", "#2", "ü" * 64):
        assert check_relation_name(good) == good
    for bad in ("", " a", "a ", "a,b", "a=b", "a\tb", "a\n", "\ud800", "x" * 65):
        with pytest.raises(BadArgument, match="must have 1 to 64 characters"):
            check_relation_name(bad)
