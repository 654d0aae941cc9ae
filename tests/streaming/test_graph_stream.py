"""The stream: files in, snapshots out; equal whatever the threads, kills and bad files."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import peewit.streaming.stream.commitment
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import Committed, Duplicate, IngestEvent, Progress, Quarantined
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Interrupted, Stream
from peewit.streaming.left_out import NO_ROWS
from peewit.streaming.nodes.index import Nodes, open_nodes
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from peewit.streaming.steps import Step, Steps

N_NODES = 150
ROW_GROUP = 8_192


class Crash(Exception):
    """The process dies here."""


@dataclass(kw_only=True)
class Recorder:
    """Collects events; dies at the given one."""

    dies_at: int | None = None
    events: list[IngestEvent] = field(default_factory=list)

    def __call__(self, event: IngestEvent) -> None:
        self.events.append(event)
        if self.dies_at is not None and len(self.events) > self.dies_at:
            raise Crash

    def names(self, kind: type[IngestEvent]) -> list[str]:
        return [Path(event.file.path).name for event in self.events if isinstance(event, kind)]

    def committed(self) -> list[str]:
        return [
            Path(file.path).name
            for event in self.events
            if isinstance(event, Committed)
            for file in event.files
        ]


@dataclass
class Told(Steps):
    """Steps as they begin, and how often each moved on."""

    begun: list[str] = field(default_factory=list)
    n_moves: Counter[str] = field(default_factory=Counter)

    def begin(self, step: Step, path: str | None = None) -> None:
        if not self.begun or self.begun[-1] != step:
            self.begun.append(step)

    def move_on(self) -> None:
        self.n_moves[self.begun[-1]] += 1


def settings(node_kind: str = "string", **changes: object) -> StreamSettings:
    values: dict[str, object] = {
        "node_kind": node_kind,
        "sparsifier": SparsifierSettings(epsilon=0.9, seed=7, expected_nodes=N_NODES),
        "group_blocks": 2,
        "checkpoint_seconds": 0.0,
    }
    return StreamSettings(**(values | changes))  # type: ignore[arg-type]


def write_edges(
    path: Path, seed: int, *, n_rows: int = 3 * ROW_GROUP, kind: str = "string", bad: bool = False
) -> None:
    rng = np.random.default_rng(seed)
    src = rng.integers(0, N_NODES, n_rows)
    dst = rng.integers(0, N_NODES, n_rows)
    weight = rng.uniform(0.5, 2.0, n_rows).astype(np.float32)
    if bad:
        weight[-1] = np.nan
    ids = (
        [pa.array([f"node {seed % 3} {i}" for i in side]) for side in (src, dst)]
        if kind == "string"
        else [pa.array(side + 10 * (seed % 3)) for side in (src, dst)]
    )
    table = pa.table({"src": ids[0], "dst": ids[1], "weight": weight})
    pq.write_table(table, path, row_group_size=ROW_GROUP)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    for seed in range(4):
        write_edges(directory / f"{seed}.parquet", seed)
    return directory


def listing(data: Path) -> list[EdgeFile]:
    return EdgeFiles(str(data)).list()


def ingest(
    root: Path, files: list[EdgeFile], stream_settings: StreamSettings, recorder: Recorder
) -> GraphPaths:
    paths = GraphPaths(root=root)
    Stream(paths, stream_settings, on_event=recorder).ingest(files)
    return paths


def edges_of(paths: GraphPaths) -> list[tuple[str, str, float]]:
    """Latest snapshot, by external ids: what must not depend on anything but the good files."""
    store = SnapshotStore(paths.snapshots)
    number = store.latest()
    assert number is not None
    meta = store.meta(number)
    nodes = open_nodes(
        paths.nodes, kind=meta.node_kind, n_nodes=meta.n_nodes, max_nodes=10**6, writable=False
    )
    names = nodes.external_ids().to_pylist()
    assert len(names) == meta.n_nodes
    table = store.edges(number)
    rows = zip(*(table[name].to_pylist() for name in ("u", "v", "weight")), strict=True)
    return [(names[u], names[v], weight) for u, v, weight in rows]


def unbroken(tmp_path: Path, files: list[EdgeFile], **changes: object) -> list:
    return edges_of(ingest(tmp_path / "unbroken", files, settings(**changes), Recorder()))


def test_every_file_is_committed_and_the_snapshot_is_sparse(tmp_path: Path, data: Path) -> None:
    recorder = Recorder()
    paths = ingest(tmp_path / "graph", listing(data), settings(), recorder)
    assert recorder.committed() == [f"{seed}.parquet" for seed in range(4)]
    meta = SnapshotStore(paths.snapshots).list()[-1]
    assert meta.edges_seen == 4 * 3 * ROW_GROUP
    assert meta.left_out.self_loops > 0
    assert meta.n_files == 4
    assert meta.n_nodes == 3 * N_NODES
    assert 0 < meta.edges_kept < 0.5 * meta.edges_seen
    assert 0.0 < meta.epsilon_expected < 0.9


@pytest.mark.parametrize("kind", ["string", "int64", "dense"])
def test_one_thread_and_two_give_the_same_snapshot(tmp_path: Path, kind: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for seed in range(3):
        write_edges(data / f"{seed}.parquet", seed, kind=kind)
    results = []
    for n_threads in (1, 2):
        stream_settings = settings(kind, n_threads=n_threads)
        root = tmp_path / f"graph-{n_threads}"
        results.append(edges_of(ingest(root, listing(data), stream_settings, Recorder())))
    assert results[0] == results[1]


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("checkpoint_seconds", [0.0, 1e9])
def test_killed_after_any_event_and_resumed_equals_the_unbroken_run(
    tmp_path: Path, data: Path, n_threads: int, checkpoint_seconds: float
) -> None:
    files = listing(data)
    expected = unbroken(tmp_path, files)
    changes = {"n_threads": n_threads, "checkpoint_seconds": checkpoint_seconds}
    had_surplus = set()
    for dies_at in range(0, 9, 2) if checkpoint_seconds else range(12):
        root = tmp_path / f"graph-{dies_at}"
        with pytest.raises(Crash):
            ingest(root, files, settings(**changes), Recorder(dies_at=dies_at))
        had_surplus.add(Stream(GraphPaths(root=root), settings()).state.surplus is not None)
        recorder = Recorder()
        paths = ingest(root, files, settings(**changes), recorder)
        assert edges_of(paths) == expected, dies_at
        assert sorted(recorder.committed()) == [f"{seed}.parquet" for seed in range(4)]
    # at some kills coins leaned already, against surpluses that must have been kept
    assert True in had_surplus


def test_killed_at_every_second_event_it_still_ends_as_the_unbroken_run(
    tmp_path: Path, data: Path
) -> None:
    files = listing(data)
    expected = unbroken(tmp_path, files)
    for _ in range(50):
        try:
            paths = ingest(
                tmp_path / "graph", files, settings(checkpoint_seconds=0.0), Recorder(dies_at=1)
            )
        except Crash:
            continue
        break
    else:
        pytest.fail("a stream that dies again and again makes no progress")
    assert edges_of(paths) == expected


def test_asked_to_stop_it_raises_and_goes_on_later(tmp_path: Path, data: Path) -> None:
    files = listing(data)
    expected = unbroken(tmp_path, files)
    paths = GraphPaths(root=tmp_path / "graph")
    recorder = Recorder()

    def asked() -> bool:
        return sum(isinstance(event, Progress) for event in recorder.events) >= 3

    with pytest.raises(Interrupted):
        Stream(paths, settings(), on_event=recorder, should_stop=asked).ingest(files)
    assert edges_of(ingest(paths.root, files, settings(), Recorder())) == expected


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("checkpoint_seconds", [0.0, 1e9])
@pytest.mark.parametrize("name", ["00.parquet", "15.parquet", "9.parquet"])
def test_a_file_whose_last_row_is_bad_is_as_if_it_had_never_come(
    tmp_path: Path, data: Path, name: str, checkpoint_seconds: float
) -> None:
    expected = unbroken(tmp_path, listing(data))
    # Five groups, the last row bad: the state has long moved when it is found.
    write_edges(data / name, 5, n_rows=10 * ROW_GROUP, bad=True)
    recorder = Recorder()
    changes = {"checkpoint_seconds": checkpoint_seconds}
    paths = ingest(tmp_path / "graph", listing(data), settings(**changes), recorder)
    assert recorder.names(Quarantined) == [name]
    assert edges_of(paths) == expected
    refused = next(event for event in recorder.events if isinstance(event, Quarantined))
    assert refused.row == 10 * ROW_GROUP - 1
    assert refused.value == "nan"
    assert sorted(set(recorder.committed())) == [f"{seed}.parquet" for seed in range(4)]
    assert len(recorder.committed()) == 4


def test_a_truncated_file_is_quarantined_and_the_rest_goes_on(tmp_path: Path, data: Path) -> None:
    expected = unbroken(tmp_path, listing(data))
    whole = (data / "0.parquet").read_bytes()
    (data / "1x.parquet").write_bytes(whole[: len(whole) // 2])
    recorder = Recorder()
    paths = ingest(tmp_path / "graph", listing(data), settings(), recorder)
    assert recorder.names(Quarantined) == ["1x.parquet"]
    assert edges_of(paths) == expected


@pytest.mark.slow
def test_killed_while_a_bad_file_is_undone_equals_the_run_without_it(
    tmp_path: Path, data: Path
) -> None:
    expected = unbroken(tmp_path, listing(data))
    write_edges(data / "15.parquet", 5, n_rows=10 * ROW_GROUP, bad=True)
    files = listing(data)
    for dies_at in range(2, 16):
        root = tmp_path / f"graph-{dies_at}"
        with pytest.raises(Crash):
            ingest(root, files, settings(), Recorder(dies_at=dies_at))
        assert edges_of(ingest(root, files, settings(), Recorder())) == expected, dies_at


def test_equal_content_under_another_name_adds_nothing(tmp_path: Path, data: Path) -> None:
    expected = unbroken(tmp_path, listing(data))
    (data / "copy.parquet").write_bytes((data / "2.parquet").read_bytes())
    recorder = Recorder()
    paths = ingest(tmp_path / "graph", listing(data), settings(), recorder)
    assert recorder.names(Duplicate) == ["copy.parquet"]
    assert edges_of(paths) == expected


def test_a_committed_path_with_new_content_is_quarantined(tmp_path: Path, data: Path) -> None:
    paths = ingest(tmp_path / "graph", listing(data), settings(), Recorder())
    before = edges_of(paths)
    write_edges(data / "2.parquet", 99)
    recorder = Recorder()
    ingest(tmp_path / "graph", listing(data), settings(), recorder)
    assert recorder.names(Quarantined) == ["2.parquet"]
    refused = next(event for event in recorder.events if isinstance(event, Quarantined))
    assert "earlier version" in refused.reason
    assert edges_of(paths) == before


def test_a_mended_file_is_taken(tmp_path: Path, data: Path) -> None:
    write_edges(data / "4.parquet", 4, bad=True)
    ingest(tmp_path / "graph", listing(data), settings(), Recorder())
    write_edges(data / "4.parquet", 4)
    recorder = Recorder()
    paths = ingest(tmp_path / "graph", listing(data), settings(), recorder)
    assert "4.parquet" in recorder.committed()
    assert edges_of(paths) == unbroken(tmp_path, listing(data))


def test_files_in_two_calls_equal_files_in_one(tmp_path: Path, data: Path) -> None:
    files = listing(data)
    ingest(tmp_path / "graph", files[:2], settings(), Recorder())
    paths = ingest(tmp_path / "graph", files[2:], settings(), Recorder())
    assert edges_of(paths) == unbroken(tmp_path, files)
    assert SnapshotStore(paths.snapshots).numbers() == [1, 2]


def test_a_second_call_without_news_publishes_nothing(tmp_path: Path, data: Path) -> None:
    ingest(tmp_path / "graph", listing(data), settings(), Recorder())
    paths = ingest(tmp_path / "graph", listing(data), settings(), Recorder())
    assert SnapshotStore(paths.snapshots).numbers() == [1]


def test_snapshots_come_by_edges_and_change_nothing(tmp_path: Path, data: Path) -> None:
    expected = unbroken(tmp_path, listing(data))
    paths = ingest(
        tmp_path / "graph", listing(data), settings(snapshot_edges=2 * ROW_GROUP), Recorder()
    )
    assert SnapshotStore(paths.snapshots).numbers() == [1, 2, 3, 4]
    assert edges_of(paths) == expected


def test_snapshots_come_by_seconds(tmp_path: Path, data: Path) -> None:
    paths = GraphPaths(root=tmp_path / "graph")
    ticks = iter(range(10**6))
    stream_settings = settings(snapshot_seconds=1.0)
    Stream(paths, stream_settings, clock=lambda: float(next(ticks))).ingest(listing(data))
    assert SnapshotStore(paths.snapshots).numbers() == [1, 2, 3, 4]


def test_a_vanished_file_is_reported_and_the_rest_goes_on(tmp_path: Path, data: Path) -> None:
    files = listing(data)
    (data / "1.parquet").unlink()
    recorder = Recorder()
    ingest(tmp_path / "graph", files, settings(), recorder)
    assert recorder.names(Quarantined) == ["1.parquet"]
    assert len(recorder.committed()) == 3


def test_too_many_nodes_quarantine_the_file_that_brings_them(tmp_path: Path, data: Path) -> None:
    recorder = Recorder()
    paths = ingest(tmp_path / "graph", listing(data), settings(max_nodes=2 * N_NODES), recorder)
    assert recorder.names(Quarantined) == ["2.parquet"]
    assert SnapshotStore(paths.snapshots).list()[-1].n_nodes == 2 * N_NODES


def test_self_loops_are_counted_per_file_across_a_kill(tmp_path: Path, data: Path) -> None:
    files = listing(data)
    paths = GraphPaths(root=tmp_path / "graph")
    with pytest.raises(Crash):
        ingest(paths.root, files, settings(), Recorder(dies_at=3))
    ingest(paths.root, files, settings(), Recorder())
    resumed = Stream(paths, settings())
    whole = Stream(GraphPaths(root=tmp_path / "whole"), settings())
    whole.ingest(files)
    assert resumed.files == whole.files
    of_files = sum((file.left_out for file in whole.files), NO_ROWS)
    assert of_files == whole.state.left_out
    assert of_files.self_loops > 0


def test_a_writer_that_lost_its_right_changes_nothing(tmp_path: Path, data: Path) -> None:
    paths = ingest(tmp_path / "graph", listing(data)[:1], settings(), Recorder())
    before = edges_of(paths)

    def refuse() -> None:
        raise Crash

    with pytest.raises(Crash):
        Stream(paths, settings(), guard=refuse).ingest(listing(data))
    assert edges_of(paths) == before
    assert len(Stream(paths, settings()).files) == 1


def test_empty_files_are_committed_and_make_no_snapshot(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_edges(data / "empty.parquet", 0, n_rows=0)
    recorder = Recorder()
    paths = ingest(tmp_path / "graph", listing(data), settings(), recorder)
    assert recorder.committed() == ["empty.parquet"]
    assert SnapshotStore(paths.snapshots).latest() is None


@pytest.mark.slow
def test_a_half_absorbed_file_that_changes_is_undone(tmp_path: Path, data: Path) -> None:
    write_edges(data / "9.parquet", 9, n_rows=10 * ROW_GROUP)
    files = listing(data)

    def dies_inside_the_last_file() -> Iterator[Callable[[IngestEvent], None]]:
        recorder = Recorder()

        def on_event(event: IngestEvent) -> None:
            recorder(event)
            if isinstance(event, Progress) and event.path.endswith("9.parquet"):
                inside.append(event)
                if len(inside) == 2:
                    raise Crash

        inside: list[Progress] = []
        yield on_event

    with pytest.raises(Crash):
        Stream(
            GraphPaths(root=tmp_path / "graph"),
            settings(),
            on_event=next(dies_inside_the_last_file()),
        ).ingest(files)
    write_edges(data / "9.parquet", 11, n_rows=10 * ROW_GROUP)
    paths = ingest(tmp_path / "graph", listing(data), settings(), Recorder())
    assert edges_of(paths) == unbroken(tmp_path, listing(data))


def test_a_half_absorbed_file_that_was_cut_in_another_way_is_begun_again(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = unbroken(tmp_path, listing(data))
    recorder = Recorder()

    def is_inside() -> bool:
        return sum(_is_progress_of(event, "1.parquet") for event in recorder.events) == 1

    paths = GraphPaths(root=tmp_path / "graph")
    with monkeypatch.context() as earlier:
        earlier.setattr(peewit.streaming.stream.commitment, "CUTTING", 1)
        stream = Stream(paths, settings(), on_event=recorder, should_stop=is_inside)
        with pytest.raises(Interrupted):
            stream.ingest(listing(data))
    position = CheckpointStore(paths.checkpoints).newest().position
    assert position is not None
    assert (position.cutting, position.next_part > 0) == (1, True)
    again = Recorder()
    ingest(paths.root, listing(data), settings(), again)
    assert edges_of(paths) == expected
    n_rows = sum(
        event.n_rows
        for event in again.events
        if isinstance(event, Progress) and event.path.endswith("1.parquet")
    )
    assert n_rows == 3 * ROW_GROUP


@pytest.mark.slow
def test_a_half_absorbed_file_that_becomes_a_copy_of_another_is_undone(
    tmp_path: Path, data: Path
) -> None:
    expected = unbroken(tmp_path, listing(data))
    write_edges(data / "9.parquet", 9, n_rows=10 * ROW_GROUP)
    paths = GraphPaths(root=tmp_path / "graph")
    recorder = Recorder()

    def is_inside() -> bool:
        return sum(_is_progress_of(event, "9.parquet") for event in recorder.events) == 2

    with pytest.raises(Interrupted):
        Stream(paths, settings(), on_event=recorder, should_stop=is_inside).ingest(listing(data))
    (data / "9.parquet").write_bytes((data / "1.parquet").read_bytes())
    recorder = Recorder()
    ingest(paths.root, listing(data), settings(), recorder)
    assert recorder.names(Duplicate) == ["9.parquet"]
    assert edges_of(paths) == expected


def _is_progress_of(event: IngestEvent, name: str) -> bool:
    return isinstance(event, Progress) and event.path.endswith(name)


@pytest.mark.slow
def test_a_half_absorbed_file_that_is_not_given_again_is_undone(tmp_path: Path, data: Path) -> None:
    expected = unbroken(tmp_path, listing(data))
    write_edges(data / "05.parquet", 9, n_rows=10 * ROW_GROUP)
    with pytest.raises(Crash):
        ingest(tmp_path / "graph", listing(data), settings(), Recorder(dies_at=2))
    (data / "05.parquet").unlink()
    assert edges_of(ingest(tmp_path / "graph", listing(data), settings(), Recorder())) == expected


def test_settings_outside_their_range_are_refused() -> None:
    with pytest.raises(ValueError, match="group_blocks must be at least 1, got 0"):
        settings(group_blocks=0)
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        settings(n_threads=0)


# Nodes that no edge brings


def named(*nodes: str) -> pa.Array:
    return pa.array(nodes, pa.large_string())


def test_nodes_without_edges_are_in_a_snapshot_and_stay(tmp_path: Path) -> None:
    paths = GraphPaths(root=tmp_path)
    stream = Stream(paths, settings())
    with stream.adding_nodes() as nodes:
        assert nodes.add(named("a", "b", "a")).tolist() == [0, 1, 0]
    snapshot = SnapshotStore(paths.snapshots).load(1)
    assert (snapshot.meta.n_nodes, snapshot.graph.n_nodes, snapshot.graph.n_edges) == (2, 2, 0)
    assert snapshot.meta.epsilon_expected == 0.0
    with stream.adding_nodes() as nodes:  # no news, no snapshot
        assert nodes.add(named("b")).tolist() == [1]
    again = Stream(paths, settings())
    assert again.ingest([]).snapshot == 1
    with again.adding_nodes() as nodes:
        assert nodes.add(named("c", "a")).tolist() == [2, 0]
    assert SnapshotStore(paths.snapshots).load(2).graph.n_nodes == 3


def refused_after(nodes: Nodes, *columns: pa.Array) -> None:
    for column in columns:
        nodes.add(column)


@pytest.mark.parametrize("kind", ["string", "dense"])
def test_nodes_that_are_not_added_to_the_end_are_forgotten(tmp_path: Path, kind: str) -> None:
    def ids(*numbers: int) -> pa.Array:
        return named(*map(str, numbers)) if kind == "string" else pa.array(numbers, pa.int32())

    paths = GraphPaths(root=tmp_path)
    stream = Stream(paths, settings(kind, max_nodes=100))
    with stream.adding_nodes() as nodes:
        nodes.add(ids(0, 1))
    with pytest.raises(BadEdges), stream.adding_nodes() as nodes:
        refused_after(nodes, ids(2, 3), ids(*range(4, 1_000)))
    assert stream.n_nodes == 2
    with stream.adding_nodes() as nodes:
        assert nodes.add(ids(2)).tolist() == [2]
    assert SnapshotStore(paths.snapshots).load(2).graph.n_nodes == 3


def test_nodes_are_in_the_graph_or_not_when_the_process_dies_while_they_are_added(
    tmp_path: Path,
) -> None:
    for n_calls in range(6):
        paths = GraphPaths(root=tmp_path / str(n_calls))
        calls = iter(range(n_calls))

        def dies() -> None:
            if next(calls, None) is None:  # noqa: B023 - used within this round
                raise Crash

        stream = Stream(paths, settings(), guard=dies)
        is_dead = False
        try:
            with stream.adding_nodes() as nodes:
                nodes.add(named("a", "b"))
        except Crash:
            is_dead = True
        assert is_dead == (n_calls < 3)
        again = Stream(paths, settings())
        summary = again.ingest([])
        assert (summary.n_nodes, summary.snapshot) in {(0, None), (2, 1)}
        with again.adding_nodes() as nodes:
            assert nodes.add(named("a", "b")).tolist() == [0, 1]
        assert SnapshotStore(paths.snapshots).load(1).graph.n_nodes == 2


def test_nodes_added_within_a_stream_of_edges_are_components_of_their_own(tmp_path: Path) -> None:
    for number in range(2):
        write_edges(tmp_path / f"{number}.parquet", number)
    files = EdgeFiles(str(tmp_path)).list()
    plain = GraphPaths(root=tmp_path / "plain")
    Stream(plain, settings(snapshot_edges=1)).ingest(files)
    with_nodes = GraphPaths(root=tmp_path / "with nodes")
    stream = Stream(with_nodes, settings(snapshot_edges=1))
    stream.ingest(files[:1])
    with stream.adding_nodes() as nodes:
        nodes.add(named("alone"))
    assert stream.state.n_resparsifications > 0
    summary = stream.ingest(files[1:])
    expected, found = (SnapshotStore(each.snapshots) for each in (plain, with_nodes))
    newest = found.load(summary.snapshot or 0).graph
    assert newest.n_nodes == expected.load(2).graph.n_nodes + 1
    assert newest.n_components == expected.load(2).graph.n_components + 1


def test_nodes_cannot_be_added_while_a_file_is_half_absorbed(tmp_path: Path) -> None:
    write_edges(tmp_path / "a.parquet", 1)
    paths = GraphPaths(root=tmp_path / "graph")
    with pytest.raises(Crash):
        Stream(paths, settings(group_blocks=1), on_event=Recorder(dies_at=0)).ingest(
            EdgeFiles(str(tmp_path)).list()
        )
    stream = Stream(paths, settings(group_blocks=1))
    assert not stream.is_between_files
    with pytest.raises(RuntimeError, match="between files"), stream.adding_nodes():
        pass


def test_who_is_stopped_while_a_full_buffer_is_thinned_goes_on_from_there(
    tmp_path: Path, data: Path
) -> None:
    """The state is lost then, and what is on the disk counts."""
    recorder = Recorder()
    paths = GraphPaths(root=tmp_path / "graph")
    changes = {"checkpoint_seconds": 1e9}

    def is_thinning() -> bool:
        return not stream._relations.is_usable

    stream = Stream(paths, settings(**changes), on_event=recorder, should_stop=is_thinning)
    with pytest.raises(Interrupted):
        stream.ingest(listing(data))
    n_rows = sum(event.n_rows for event in recorder.events if isinstance(event, Progress))
    assert n_rows > 0
    kept = CheckpointStore(paths.checkpoints).newest()
    assert kept.state.n_rows_seen + kept.state.left_out.self_loops >= n_rows
    ingest(paths.root, listing(data), settings(**changes), Recorder())
    assert edges_of(paths) == unbroken(tmp_path, listing(data), **changes)


def test_every_step_of_a_stream_is_told_before_it_begins_and_as_it_moves_on(
    tmp_path: Path, data: Path
) -> None:
    """A checkpoint comes before the thinning that may take long."""
    told = Told()
    Stream(GraphPaths(root=tmp_path / "graph"), settings(), steps=told).ingest(listing(data))
    assert told.begun[:2] == ["reading", "adding edges"]
    assert told.begun[-2:] == ["thinning", "publishing a snapshot"]
    works = [step for step in told.begun if step != "reading"]
    within = [
        before
        for before, step, after in zip(works, works[1:], works[2:], strict=False)
        if (step, after) == ("thinning", "adding edges")
    ]
    assert within
    assert set(within) == {"writing a checkpoint"}
    for step in ("reading", "adding edges", "thinning", "writing a checkpoint"):
        assert told.n_moves[step] > 0, step


@pytest.mark.parametrize("columns", [{"via": ("dst", "at")}, {"relation_column": "at"}])
def test_death_within_a_relation_leads_to_equal_edges(
    tmp_path: Path, columns: dict[str, object]
) -> None:
    path = tmp_path / "events.parquet"
    write_edges(path, 1, n_rows=3_000)
    places = pa.array([None if row % 5 == 0 else f"at {row % 7}" for row in range(3_000)])
    if "relation_column" in columns:
        places = places.fill_null("nowhere")
    table = pq.read_table(path).append_column("at", places)
    pq.write_table(table, path, row_group_size=1_000)
    named = EdgeColumns(**columns)  # type: ignore[arg-type]
    files = EdgeFiles(str(path), columns=named).list()
    stream_settings, whole = settings(max_part_rows=700, group_blocks=1), Recorder()
    expected = edges_of(ingest(tmp_path / "unbroken", files, stream_settings, whole))
    assert len(whole.events) > 8
    for dies_at in range(0, len(whole.events), 3):
        root = tmp_path / f"dies at {dies_at}"
        with pytest.raises(Crash):
            ingest(root, files, stream_settings, Recorder(dies_at=dies_at))
        assert edges_of(ingest(root, files, stream_settings, Recorder())) == expected, dies_at
