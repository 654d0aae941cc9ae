"""Streams of inserts, deletes and sets against a dictionary, whatever the files and the kills."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from peewit.solvers.graph import Graph
from peewit.streaming.edges.change_rules import Deletions, ParallelEdges
from peewit.streaming.edges.column_mapping import CHANGES, PLAIN
from peewit.streaming.edges.operations import DELETE, INSERT, OPERATIONS, SET
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import Committed, IngestEvent, Quarantined
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import NotRetractable, Stream
from peewit.streaming.left_out import LeftOut
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

N_NODES = 40
Row = tuple[str, str, float, int]


class Crash(Exception):
    """The process dies here."""


@dataclass
class Twin:
    """All live edges, and all nodes that an inserted edge had."""

    parallel: ParallelEdges
    live: dict[frozenset[str], list[float]] = field(default_factory=lambda: defaultdict(list))
    nodes: set[str] = field(default_factory=set)

    def play(self, rows: list[Row]) -> None:
        for src, dst, weight, op in rows:
            pair = frozenset((src, dst))
            if op != INSERT or self.parallel == "replace":
                self.live[pair] = []
            if op != DELETE:
                self.nodes |= pair
                if len(pair) == 2:
                    self.live[pair].append(weight)

    @property
    def weights(self) -> dict[frozenset[str], float]:
        return {pair: sum(each) for pair, each in self.live.items() if each}


def changes(seed: int, n_rows: int = 900) -> list[Row]:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_rows):
        src, dst = rng.integers(0, N_NODES, 2)
        op = int(rng.choice([INSERT, DELETE, SET], p=[0.7, 0.2, 0.1]))
        if op == DELETE and rng.random() < 0.05:
            dst = 1_000 + seed  # never inserted
        rows.append((f"n{src}", f"n{dst}", float(rng.integers(1, 9)) / 4, op))
    return rows


def table_of(rows: list[Row], kind: str) -> pa.Table:
    src, dst, weight, op = (list(column) for column in zip(*rows, strict=True))
    if kind != "string":
        src, dst = ([int(each[1:]) for each in side] for side in (src, dst))
    weight = [None if each == DELETE else value for value, each in zip(weight, op, strict=True)]
    return pa.table({"src": src, "dst": dst, "weight": weight, "op": [OPERATIONS[k] for k in op]})


def settings(
    kind: str = "string",
    *,
    parallel: ParallelEdges = "sum",
    deletions: Deletions = "exact",
    epsilon: float = 0.2,
) -> StreamSettings:
    return StreamSettings(
        node_kind=kind,  # type: ignore[arg-type]
        sparsifier=SparsifierSettings(epsilon=epsilon, seed=1, expected_nodes=N_NODES),
        deletions=deletions,
        parallel_edges=parallel,
        checkpoint_seconds=0.0,
        max_part_rows=256,
        group_blocks=2,
    )


def files_of(folder: Path) -> list[EdgeFile]:
    return EdgeFiles(folder, columns=CHANGES).list()


def snapshot(paths: GraphPaths) -> Graph:
    store = SnapshotStore(paths.snapshots)
    return store.load(store.list()[-1].number).graph


def live_of(paths: GraphPaths, kind: str) -> dict[frozenset[str], float]:
    graph = snapshot(paths)
    nodes = open_nodes(paths.nodes, kind=kind, n_nodes=graph.n_nodes, writable=False)  # type: ignore[arg-type]
    names = [str(each).removeprefix("n") for each in nodes.external_ids().to_pylist()]
    u, v, weight = graph.edges()
    return {
        frozenset((f"n{names[near]}", f"n{names[far]}")): float(value)
        for near, far, value in zip(u, v, weight, strict=True)
    }


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("parallel", ["sum", "replace"])
@pytest.mark.parametrize("kind", ["string", "int64", "dense"])
def test_what_is_left_is_what_a_dictionary_holds(
    tmp_path: Path, kind: str, parallel: ParallelEdges
) -> None:
    twin, folder = Twin(parallel), tmp_path / "edges"
    folder.mkdir()
    for seed in range(4):
        rows = changes(seed)
        twin.play(rows)
        pq.write_table(table_of(rows, kind), folder / f"{seed}.parquet", row_group_size=200)
    paths = GraphPaths(root=tmp_path / "graph")
    stream = Stream(paths, settings(kind, parallel=parallel))
    stream.ingest(files_of(folder))
    assert live_of(paths, kind) == pytest.approx(twin.weights)
    if kind != "dense":
        assert stream.n_nodes == len(twin.nodes)
    n_deletes = sum(row[3] == DELETE for seed in range(4) for row in changes(seed))
    assert stream.state.n_deletes == n_deletes
    assert stream.state.n_struck > 0
    assert stream.state.runs.n_records == stream.state.n_records
    newest = SnapshotStore(paths.snapshots).list()[-1]
    assert newest.n_live == sum(len(weights) for weights in twin.live.values())
    assert 0 < newest.n_unmatched < newest.n_removals


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "arrow"])
def test_other_formats_say_the_same(tmp_path: Path, suffix: str) -> None:
    twin, folder = Twin("sum"), tmp_path / "edges"
    folder.mkdir()
    for seed in range(2):
        rows = changes(seed, 300)
        twin.play(rows)
        table, path = table_of(rows, "string"), folder / f"{seed}.{suffix}"
        match suffix:
            case "csv":
                pyarrow.csv.write_csv(table, path)
            case "arrow":
                with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
                    out.write_table(table)
            case _:
                path.write_text(
                    "\n".join(
                        str(row).replace("'", '"').replace("None", "null")
                        for row in table.to_pylist()
                    )
                )
    paths = GraphPaths(root=tmp_path / "graph")
    Stream(paths, settings()).ingest(files_of(folder))
    assert live_of(paths, "string") == pytest.approx(twin.weights)


@pytest.mark.slow
def test_a_stream_that_is_killed_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    for seed in range(3):
        table = table_of(changes(seed, 2_000), "string")
        pq.write_table(table, folder / f"{seed}.parquet", row_group_size=200)
    chosen = settings(epsilon=0.95)
    unbroken = Stream(GraphPaths(root=tmp_path / "unbroken"), chosen)
    unbroken.ingest(files_of(folder))
    paths = GraphPaths(root=tmp_path / "killed")
    n_deaths = 0
    for allowed in range(1, 200):
        n_events = 0

        def die(_event: IngestEvent, allowed: int = allowed % 3) -> None:
            nonlocal n_events
            n_events += 1
            if n_events > allowed:
                raise Crash

        try:
            Stream(paths, chosen, on_event=die).ingest(files_of(folder))
            break
        except Crash:
            n_deaths += 1
    assert n_deaths > 5
    found = CheckpointStore(paths.checkpoints).newest().state
    for name in ("u", "v", "weight", "keep_probability", "key"):
        np.testing.assert_array_equal(
            getattr(found.records, name), getattr(unbroken.state.records, name)
        )
    assert found.runs.keys == unbroken.state.runs.keys
    assert (found.n_deletes, found.n_struck) == (unbroken.state.n_deletes, unbroken.state.n_struck)


def test_a_row_of_weight_zero_adds_nothing_and_takes_the_pair_away_where_it_sets(
    tmp_path: Path,
) -> None:
    rows = [("n1", "n2", 1.0, INSERT), ("n2", "n3", 2.0, INSERT), ("n3", "n4", 3.0, INSERT)]
    later = [("n1", "n2", 0.0, SET), ("n3", "n2", 0.0, INSERT), ("n3", "n4", 0.0, DELETE)]
    folder = tmp_path / "edges"
    folder.mkdir()
    pq.write_table(table_of(rows, "string"), folder / "a.parquet")
    pq.write_table(table_of(later, "string"), folder / "b.parquet")
    for parallel, left in (("sum", {frozenset(("n2", "n3")): 2.0}), ("replace", {})):
        paths = GraphPaths(root=tmp_path / parallel)
        stream = Stream(paths, settings(parallel=parallel))
        stream.ingest(files_of(folder))
        assert live_of(paths, "string") == left
        assert stream.state.left_out == LeftOut(zero_weights=2)
        newest = SnapshotStore(paths.snapshots).newest()
        assert newest is not None
        assert (newest.n_live, newest.n_merged) == (len(left), 0)


def test_rows_that_delete_are_refused_where_deletions_are_off(tmp_path: Path) -> None:
    folder, events = tmp_path / "edges", []
    folder.mkdir()
    pq.write_table(table_of([("n1", "n2", 1.0, INSERT)], "string"), folder / "a.parquet")
    pq.write_table(table_of([("n1", "n2", 1.0, DELETE)], "string"), folder / "b.parquet")
    paths = GraphPaths(root=tmp_path / "graph")
    Stream(paths, settings(deletions="off"), on_event=events.append).ingest(files_of(folder))
    (refused,) = (event for event in events if isinstance(event, Quarantined))
    assert refused.file.path.endswith("b.parquet")
    assert "deletions are off" in refused.reason
    assert live_of(paths, "string") == {frozenset(("n1", "n2")): 1.0}


@pytest.mark.parametrize(
    ("changed", "reason", "row"),
    [
        ({"op": ["insert", "upsert"]}, "must hold operations", 1),
        ({"op": [1, 2]}, "must hold operations", 1),
        ({"weight": [1.0, None]}, "must not be null", 1),
        ({"weight": [1.0, -1.0]}, "must be finite and >= 0", 1),
    ],
)
def test_bad_changes_are_refused_with_their_row(
    tmp_path: Path, changed: dict[str, list[object]], reason: str, row: int | None
) -> None:
    columns = {"src": ["a", "b"], "dst": ["b", "c"], "weight": [1.0, 2.0], "op": ["c", "u"]}
    pq.write_table(pa.table(columns | changed), tmp_path / "edges.parquet")
    events: list[IngestEvent] = []
    stream = Stream(GraphPaths(root=tmp_path / "graph"), settings(), on_event=events.append)
    stream.ingest(files_of(tmp_path / "edges.parquet"))
    (refused,) = (event for event in events if isinstance(event, Quarantined))
    assert reason in refused.reason
    assert refused.row == row


def test_a_table_without_operations_inserts_and_one_with_another_case_is_refused(
    tmp_path: Path,
) -> None:
    events: list[IngestEvent] = []
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"]}), tmp_path / "plain.parquet")
    wrong = pa.table({"src": ["a"], "dst": ["b"], "Op": ["d"]})
    pq.write_table(wrong, tmp_path / "wrong.parquet")
    paths = GraphPaths(root=tmp_path / "graph")
    Stream(paths, settings(), on_event=events.append).ingest(files_of(tmp_path))
    (refused,) = (event for event in events if isinstance(event, Quarantined))
    assert "say op='Op' where that is meant" in refused.reason
    assert sum(len(event.files) for event in events if isinstance(event, Committed)) == 1


def test_the_same_deletes_twice_change_nothing_more(tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    pq.write_table(table_of(changes(0), "string"), folder / "0.parquet")
    deletes = [("n1", f"n{far}", 1.0, DELETE) for far in range(N_NODES)]
    pq.write_table(table_of(deletes, "string"), folder / "1.parquet")
    paths = GraphPaths(root=tmp_path / "graph")
    Stream(paths, settings()).ingest(files_of(folder))
    once = live_of(paths, "string")
    pq.write_table(table_of(deletes[::-1], "string"), folder / "2.parquet")
    stream = Stream(paths, settings())
    stream.ingest(files_of(folder))
    assert live_of(paths, "string") == once
    assert not any("n1" in pair for pair in once)


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({"deletions": "approximate"}, "deletions must be one of"),
        ({"parallel": "last"}, "parallel_edges must"),
    ],
)
def test_unknown_settings_are_refused(values: dict[str, str], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        settings(**values)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="where deletions are off"):
        settings(deletions="off", parallel="replace")


def inserts(seed: int) -> list[Row]:
    return [row for row in changes(seed) if row[3] == INSERT]


def test_a_retracted_file_is_gone_and_may_come_again(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    folder.mkdir()
    for seed in range(3):
        table = table_of(inserts(seed), "string")
        pq.write_table(table, folder / f"{seed}.parquet", row_group_size=200)
    stream = Stream(paths, settings())
    stream.ingest(files_of(folder))
    path = str(folder / "1.parquet")
    assert stream.retract(path).path == path
    with pytest.raises(KeyError):
        stream.retract(path)
    twin = Twin("sum")
    twin.play(inserts(0))
    twin.play(inserts(2))
    assert live_of(paths, "string") == pytest.approx(twin.weights)
    assert [Path(file.path).name for file in stream.files] == ["0.parquet", "2.parquet"]
    reopened = Stream(paths, settings())
    assert reopened.files == stream.files
    reopened.ingest(files_of(folder))
    twin.play(inserts(1))
    assert live_of(paths, "string") == pytest.approx(twin.weights)


def test_a_file_that_removed_edges_is_retracted_for_its_inserts_only(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    folder.mkdir()
    pq.write_table(table_of(inserts(0), "string"), folder / "0.parquet")
    removing = [("n1", f"n{far}", 1.0, DELETE) for far in range(N_NODES)]
    rows = [*removing, ("n2", "n3", 5.0, INSERT)]
    pq.write_table(table_of(rows, "string"), folder / "1.parquet")
    stream = Stream(paths, settings())
    stream.ingest(files_of(folder))
    path = str(folder / "1.parquet")
    with pytest.raises(NotRetractable, match="not brought back"):
        stream.retract(path)
    stream.retract(path, inserts_only=True)
    twin = Twin("sum")
    twin.play(inserts(0))
    twin.play(removing)
    assert live_of(paths, "string") == pytest.approx(twin.weights)


def test_deletions_are_there_from_the_first_edge_or_never(tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    pq.write_table(table_of(inserts(0), "string"), folder / "0.parquet")
    for first, then in (("off", "exact"), ("exact", "off")):
        paths = GraphPaths(root=tmp_path / first)
        Stream(paths, settings(deletions=first)).ingest(files_of(folder))
        with pytest.raises(ValueError, match="exact from the first edge or never"):
            Stream(paths, settings(deletions=then))
    off = Stream(GraphPaths(root=tmp_path / "off"), settings(deletions="off"))
    with pytest.raises(NotRetractable, match="are off"):
        off.retract(str(folder / "0.parquet"))


def test_a_new_version_takes_the_place_of_the_earlier_one_where_asked(tmp_path: Path) -> None:
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    folder.mkdir()
    for seed in range(2):
        pq.write_table(table_of(inserts(seed), "string"), folder / f"{seed}.parquet")
    events: list[IngestEvent] = []
    stream = Stream(paths, settings(), on_event=events.append)
    stream.ingest(files_of(folder))
    pq.write_table(table_of(inserts(5), "string"), folder / "0.parquet")
    stream.ingest(files_of(folder))
    (refused,) = (event for event in events if isinstance(event, Quarantined))
    assert "an earlier version of this path" in refused.reason
    stream.ingest([replace(file, replaces=True) for file in files_of(folder)])
    twin = Twin("sum")
    twin.play(inserts(1))
    twin.play(inserts(5))
    assert live_of(paths, "string") == pytest.approx(twin.weights)
    assert [Path(file.path).name for file in stream.files] == ["1.parquet", "0.parquet"]


def test_a_bad_new_version_leaves_the_earlier_one(tmp_path: Path) -> None:
    paths, path = GraphPaths(root=tmp_path / "graph"), tmp_path / "edges.parquet"
    pq.write_table(table_of(inserts(0), "string"), path)
    events: list[IngestEvent] = []
    stream = Stream(paths, settings(), on_event=events.append)
    stream.ingest(files_of(path))
    before = live_of(paths, "string")
    bad = table_of([*inserts(1), ("n1", "n2", -1.0, INSERT)], "string")
    pq.write_table(bad, path, row_group_size=100)
    stream.ingest([replace(file, replaces=True) for file in files_of(path)])
    assert [type(event) for event in events].count(Quarantined) == 1
    reopened = Stream(paths, settings())
    assert [file.digest for file in reopened.files] == [file.digest for file in stream.files]
    assert reopened.state.n_records == stream.state.n_records
    assert live_of(paths, "string") == before
    reopened.retract(str(path))
    assert reopened.state.n_records == 0


@pytest.mark.slow
def test_a_file_without_operations_gives_the_same_bits_whoever_may_delete(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 300, (2, 60_000))
    table = pa.table({"src": ends[0], "dst": ends[1]})
    pq.write_table(table, tmp_path / "edges.parquet", row_group_size=2_000)
    found = []
    for name, deletions in (("off", "off"), ("on", "exact")):
        chosen = replace(settings("dense", deletions=deletions, epsilon=0.9), group_blocks=16)
        stream = Stream(GraphPaths(root=tmp_path / name), chosen)
        files = EdgeFiles(tmp_path / "edges.parquet", columns=CHANGES).list()
        stream.ingest(files if deletions != "off" else [replace(files[0], columns=PLAIN)])
        found.append(stream.state.records)
    assert found[0].n_records < 50_000
    for name in ("key", "keep_probability", "u", "v"):
        np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))
