"""Ingest on a dask cluster of real processes: reproducible, accurate as threads, hard to kill."""

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.streaming import sparsify
from peewit.streaming.cluster.cluster_error import ClusterError
from peewit.streaming.cluster.dask_ingest import Cluster
from peewit.streaming.cluster.sparsified_shares import ShareSettings, absorb_group
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.events import Committed, IngestEvent, Progress, Quarantined
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Interrupted, Stream
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.live_edges import live_blocks
from peewit.streaming.nodes.index import DenseNodes, open_nodes
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import resparsify
from tests.reference.spectrum import spectral_error
from tests.streaming.clusters import cluster_of, kill_one_that_works, scheduler_process
from tests.streaming.graphs import EdgeList, random_graph, two_communities

pytestmark = pytest.mark.usefixtures("processes")

N_NODES = 150
ROW_GROUP = 8_192
N_ROWS = 10 * ROW_GROUP
N_SEEDS = 8
SHARE_SETTINGS = ShareSettings(
    node_kind="dense", max_nodes=1000, sparsifier=SparsifierSettings(epsilon=0.7), group_blocks=2
)
KINDS = ["dense", "int64", "string"]


@pytest.fixture(scope="module")
def two_workers() -> Iterator[str]:
    with cluster_of(2) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def one_worker() -> Iterator[str]:
    with cluster_of(1) as cluster:
        yield cluster.scheduler_address


class Crash(Exception):
    """The process dies here."""


@dataclass(kw_only=True)
class Recorder:
    """Collects events; dies at the given one, calls at the first wave."""

    dies_at: int | None = None
    at_first_wave: Callable[[], None] | None = None
    events: list[IngestEvent] = field(default_factory=list)

    def __call__(self, event: IngestEvent) -> None:
        self.events.append(event)
        if self.dies_at is not None and len(self.events) > self.dies_at:
            raise Crash
        if isinstance(event, Progress) and self.at_first_wave is not None:
            call, self.at_first_wave = self.at_first_wave, None
            call()

    def committed(self) -> list[str]:
        found = [event.files for event in self.events if isinstance(event, Committed)]
        return [Path(file.path).name for files in found for file in files]

    def quarantined(self) -> list[tuple[str, str, int | None, str | None]]:
        return [
            (Path(event.file.path).name, event.reason, event.row, event.value)
            for event in self.events
            if isinstance(event, Quarantined)
        ]


def settings(kind: str, scheduler: str | None, **changes: object) -> StreamSettings:
    values: dict[str, object] = {
        "node_kind": kind,
        "sparsifier": SparsifierSettings(epsilon=0.9, seed=7, expected_nodes=N_NODES),
        "group_blocks": 2,
        "wave_shares": 4,
        "checkpoint_seconds": 0.0,
        "scheduler": scheduler,
    }
    return StreamSettings(**(values | changes))  # type: ignore[arg-type]


def write_edges(
    path: Path, seed: int, kind: str, *, n_rows: int = N_ROWS, **changes: float
) -> None:
    rng = np.random.default_rng(seed)
    sides = [rng.integers(0, N_NODES, n_rows) + 30 * (seed % 3) for _ in range(2)]
    weight = rng.uniform(0.5, 2.0, n_rows)
    for row, value in changes.items():
        weight[int(row.removeprefix("row_"))] = value
    ids = {
        "dense": pa.array,
        "int64": lambda side: pa.array(1_000_003 * (side - 75)),
        "string": lambda side: pa.array([f"node {number}" for number in side]),
    }[kind]
    table = pa.table({"src": ids(sides[0]), "dst": ids(sides[1]), "weight": weight})
    pq.write_table(table, path, row_group_size=ROW_GROUP)


def make_data(directory: Path, kind: str) -> list[EdgeFile]:
    directory.mkdir()
    for seed in range(3):
        write_edges(directory / f"{seed}.parquet", seed, kind)
    return EdgeFiles(directory).list()


def ingest(
    root: Path, files: list[EdgeFile], stream_settings: StreamSettings, recorder: Recorder
) -> GraphPaths:
    paths = GraphPaths(root=root)
    Stream(paths, stream_settings, on_event=recorder).ingest(files)
    return paths


def published(paths: GraphPaths) -> tuple[list[object], list[tuple[int, int, float]]]:
    """External ids in the order of their numbers, and the edges of the latest snapshot."""
    store = SnapshotStore(paths.snapshots)
    number = store.latest()
    assert number is not None
    meta = store.meta(number)
    nodes = open_nodes(
        paths.nodes, kind=meta.node_kind, n_nodes=meta.n_nodes, max_nodes=10**6, writable=False
    )
    table = store.edges(number)
    columns = (table[name].to_pylist() for name in ("u", "v", "weight"))
    return nodes.external_ids().to_pylist(), list(zip(*columns, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_one_worker_and_two_give_the_same_snapshot(
    tmp_path: Path, kind: str, one_worker: str, two_workers: str
) -> None:
    files = make_data(tmp_path / "data", kind)
    recorder = Recorder()
    there = ingest(tmp_path / "two", files, settings(kind, two_workers), recorder)
    assert recorder.committed() == ["0.parquet", "1.parquet", "2.parquet"]
    waves = [event.n_rows for event in recorder.events if isinstance(event, Progress)]
    assert waves == [2 * ROW_GROUP, 8 * ROW_GROUP, *2 * [8 * ROW_GROUP, 2 * ROW_GROUP]]
    other = ingest(tmp_path / "one", files, settings(kind, one_worker), Recorder())
    assert published(there) == published(other)
    meta = SnapshotStore(there.snapshots).list()[-1]
    assert meta.edges_seen == 3 * N_ROWS
    assert meta.edges_kept < 0.8 * 210 * 209 / 2, "hardly an edge was thrown away"
    # numbered by first appearance, as without a cluster
    here = ingest(tmp_path / "threads", files, settings(kind, None), Recorder())
    assert published(there)[0] == published(here)[0]
    assert (
        SnapshotStore(here.snapshots).list()[-1].left_out.self_loops == meta.left_out.self_loops > 0
    )
    degrees = [Stream(paths, settings(kind, None)).state.degree for paths in (there, here)]
    assert degrees[0] is not None
    np.testing.assert_allclose(*degrees)


def test_deletes_are_exact_beside_a_cluster(tmp_path: Path, two_workers: str) -> None:
    files = make_data(tmp_path / "data", "string")
    exact = settings("string", two_workers, deletions="exact")
    crash = Recorder(dies_at=1)  # in the middle of the first file
    with pytest.raises(Crash):
        ingest(tmp_path / "there", files, exact, crash)
    stream = Stream(GraphPaths(root=tmp_path / "there"), exact)
    stream.ingest(files)
    first = pq.read_table(files[0].path).slice(0, 5_000)
    deletes = first.append_column("op", pa.array(["delete"] * first.num_rows))
    pq.write_table(deletes, tmp_path / "deletes.parquet")
    last = EdgeFiles(tmp_path / "deletes.parquet", columns=CHANGES).list()
    stream.ingest(last)
    here = Stream(GraphPaths(root=tmp_path / "here"), settings("string", None, deletions="exact"))
    here.ingest([*files, *last])
    lives = []
    for each, name in ((stream, "there"), (here, "here")):
        log = ChangeLog(GraphPaths(root=tmp_path / name).log)
        digests = [file.digest for file in each.files]
        blocks = [block for _, block in live_blocks(log, digests, log.dead(each.state.log_version))]
        columns = (np.concatenate([getattr(block, end) for block in blocks]) for end in ("u", "v"))
        lives.append(list(zip(*(column.tolist() for column in columns), strict=True)))
    assert lives[0] == lives[1]
    metas = [
        SnapshotStore(GraphPaths(root=tmp_path / name).snapshots).list()[-1]
        for name in ("there", "here")
    ]
    most = 3 * N_ROWS - metas[0].left_out.total
    assert metas[0].n_live == metas[1].n_live == len(lives[0]) < most
    assert metas[0].n_unmatched == metas[1].n_unmatched == 0


def measured_errors(
    tmp_path: Path, make: Callable[[int], EdgeList], scheduler: str | None
) -> list[float]:
    """Spectral errors over seeds; the stream asks for 0.8."""
    errors = []
    for seed in range(N_SEEDS):
        edges = make(seed)
        path = tmp_path / f"{seed}.parquet"
        if not path.exists():
            columns = {"src": edges.u, "dst": edges.v, "weight": edges.weight}
            pq.write_table(pa.table(columns), path, row_group_size=ROW_GROUP)
        sparsifier = SparsifierSettings(epsilon=0.8, seed=seed, expected_nodes=edges.n_nodes)
        stream_settings = settings(
            "dense", scheduler, sparsifier=sparsifier, checkpoint_seconds=1e9
        )
        paths = GraphPaths(root=tmp_path / f"graph-{seed}-{'there' if scheduler else 'here'}")
        Stream(paths, stream_settings).ingest(EdgeFiles(path).list())
        store = SnapshotStore(paths.snapshots)
        graph = store.load(store.latest() or 0).graph
        assert graph.n_edges < 0.7 * edges.n_edges
        errors.append(spectral_error(edges.graph(), graph))
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("family", ["random", "two communities"])
def test_errors_are_hardly_larger_than_those_of_threads(
    tmp_path: Path, family: str, two_workers: str
) -> None:
    def make(seed: int) -> EdgeList:
        if family == "random":
            return random_graph(400, 0.7, seed)
        return two_communities(500, 0.8, 6, seed)

    here = measured_errors(tmp_path, make, None)
    there = measured_errors(tmp_path, make, two_workers)
    assert sum(error <= 0.8 for error in there) >= N_SEEDS - 1, sorted(there)
    # measured 1.00 and .94: shares forget their surpluses, but thinning leans on exact degrees
    assert np.mean(there) <= 1.1 * np.mean(here), (here, there)


@pytest.mark.parametrize("kind", ["dense", "string"])
def test_a_worker_killed_at_work_changes_nothing(
    tmp_path: Path, kind: str, two_workers: str
) -> None:
    files = make_data(tmp_path / "data", kind)
    expected = published(ingest(tmp_path / "whole", files, settings(kind, two_workers), Recorder()))
    killed: list[int] = []
    with cluster_of(2) as cluster:
        killer = threading.Thread(target=kill_one_that_works, args=(cluster, killed))
        recorder = Recorder(at_first_wave=killer.start)
        paths = ingest(
            tmp_path / "graph", files, settings(kind, cluster.scheduler_address), recorder
        )
        killer.join(timeout=60)
    assert killed
    assert recorder.committed() == ["0.parquet", "1.parquet", "2.parquet"]
    assert published(paths) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_with_a_bad_row_is_as_if_it_had_never_come(
    tmp_path: Path, kind: str, two_workers: str
) -> None:
    files = make_data(tmp_path / "data", kind)
    expected = published(ingest(tmp_path / "good", files, settings(kind, two_workers), Recorder()))
    # The first fault lies in the second of two waves; of the later one the number is told.
    faults = {f"row_{N_ROWS - 10}": np.nan, f"row_{N_ROWS - 1}": -1.0}
    write_edges(tmp_path / "data" / "1x.parquet", 5, kind, **faults)
    (tmp_path / "data" / "2x.parquet").write_bytes(b"PAR1, but no more")
    recorder = Recorder()
    files = EdgeFiles(tmp_path / "data").list()
    paths = ingest(tmp_path / "graph", files, settings(kind, two_workers), recorder)
    assert published(paths) == expected
    first, second = recorder.quarantined()
    rule = (
        "2 rows are bad, max_bad_rows 2 leaves them out; one of them: column 'weight' must be "
        "finite and >= 0"
    )
    assert first == ("1x.parquet", rule, N_ROWS - 10, "nan")
    assert second[0] == "2x.parquet"


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_nodes_are_told_as_without_a_cluster(
    tmp_path: Path, kind: str, two_workers: str
) -> None:
    files = make_data(tmp_path / "data", kind)
    told = []
    for name, scheduler in (("here", None), ("there", two_workers)):
        recorder = Recorder()
        stream_settings = settings(kind, scheduler, max_nodes=N_NODES + 30)
        ingest(tmp_path / name, files, stream_settings, recorder)
        assert recorder.committed() == ["0.parquet", "1.parquet"]
        told.append(recorder.quarantined())
    assert told[0] == told[1]
    [(name, reason, row, value)] = told[1]
    assert name == "2.parquet"
    assert row is not None
    assert str(N_NODES + 30) in reason or str(N_NODES + 29) in reason
    assert value is not None


@pytest.mark.slow
def test_killed_after_any_wave_and_resumed_equals_the_unbroken_run(
    tmp_path: Path, two_workers: str
) -> None:
    files = make_data(tmp_path / "data", "int64")
    there = settings("int64", two_workers)
    expected = published(ingest(tmp_path / "unbroken", files, there, Recorder()))
    for dies_at in (0, 1, 4):
        root = tmp_path / f"graph-{dies_at}"
        with pytest.raises(Crash):
            ingest(root, files, there, Recorder(dies_at=dies_at))
        recorder = Recorder()
        assert published(ingest(root, files, there, recorder)) == expected, dies_at
        assert sorted(recorder.committed()) == ["0.parquet", "1.parquet", "2.parquet"]


def test_asked_to_stop_it_does_not_wait_for_the_wave(tmp_path: Path, two_workers: str) -> None:
    files = make_data(tmp_path / "data", "dense")
    there = settings("dense", two_workers)
    n_asked = 0

    def asked() -> bool:
        nonlocal n_asked
        n_asked += 1
        return n_asked > 1  # not before the first wave is sent, but as soon as it is waited for

    recorder = Recorder()
    with pytest.raises(Interrupted):
        Stream(
            GraphPaths(root=tmp_path / "graph"), there, on_event=recorder, should_stop=asked
        ).ingest(files)
    assert recorder.events == []
    expected = published(ingest(tmp_path / "whole", files, there, Recorder()))
    assert published(ingest(tmp_path / "graph", files, there, Recorder())) == expected


def test_a_lost_scheduler_is_told_and_the_same_call_goes_on(
    tmp_path: Path, two_workers: str
) -> None:
    files = make_data(tmp_path / "data", "string")
    there = settings("string", two_workers)
    expected = published(ingest(tmp_path / "whole", files, there, Recorder()))
    with scheduler_process() as (scheduler, address):
        recorder = Recorder(at_first_wave=scheduler.kill)
        with pytest.raises(ClusterError, match=r"the dask scheduler .* is lost; nothing of the"):
            ingest(tmp_path / "graph", files, settings("string", address), recorder)
    assert recorder.committed() == []
    assert SnapshotStore(GraphPaths(root=tmp_path / "graph").snapshots).latest() is None
    assert published(ingest(tmp_path / "graph", files, there, Recorder())) == expected


def test_a_scheduler_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peewit.streaming.cluster.connection.CONNECT_SECONDS", 0.5)
    files = make_data(tmp_path / "data", "dense")
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(ClusterError, match=f"scheduler must be the address .* got {address}"):
            ingest(tmp_path / "graph", files, settings("dense", address), Recorder())


def test_a_cluster_without_workers_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peewit.streaming.cluster.connection.NO_WORKER_SECONDS", 0.5)
    files = make_data(tmp_path / "data", "dense")
    with cluster_of(0) as cluster:
        there = settings("dense", cluster.scheduler_address)
        with pytest.raises(ClusterError, match="has had no worker for"):
            ingest(tmp_path / "graph", files, there, Recorder())


def test_workers_that_do_not_see_the_file_are_told(tmp_path: Path, two_workers: str) -> None:
    [file, *_] = make_data(tmp_path / "data", "dense")
    with Path(file.path).open("rb") as open_here:
        # so high that no worker has one of that number
        descriptor = fcntl.fcntl(open_here.fileno(), fcntl.F_DUPFD, 900)
        path = f"/proc/self/fd/{descriptor}"
        with (
            os.fdopen(descriptor, "rb"),
            stage(EdgeFiles(path).list()[0], tmp_path, part_rows=ROW_GROUP) as staged,
            Cluster(two_workers, SHARE_SETTINGS, wave_shares=2) as cluster,
        ):
            wave = cluster.next_wave(SparsifierState(), staged, next_part=0)
            with pytest.raises(ClusterError, match="dask workers must see /proc/self/fd"):
                cluster.absorb_wave(SparsifierState(), DenseNodes(), staged, wave)


def test_waves_are_short_until_there_is_an_embedding(tmp_path: Path, two_workers: str) -> None:
    [file, *_] = make_data(tmp_path / "data", "dense")
    [block] = random_graph(N_NODES, 1.0, 0).blocks(1)
    cold = SparsifierState()
    small, large = (SparsifierSettings(epsilon=0.7, expected_nodes=n) for n in (N_NODES, 10**6))
    warm = resparsify(absorb_group(cold, small, [block], n_nodes=N_NODES), small)
    with stage(file, tmp_path, part_rows=ROW_GROUP) as staged:

        def wave(state: SparsifierState, next_part: int, sparsifier: SparsifierSettings) -> str:
            share_settings = replace(SHARE_SETTINGS, sparsifier=sparsifier)
            with Cluster(two_workers, share_settings, wave_shares=4) as cluster:
                found = cluster.next_wave(state, staged, next_part=next_part)
            return " ".join("".join(str(part.number) for part in share) for share in found)

        assert wave(warm, 0, small) == "01 23 45 67"
        assert wave(warm, 8, small) == "89"
        assert wave(warm, 3, small) == "3 45 67 89"
        assert wave(warm, 10, small) == ""
        assert wave(cold, 0, small) == "01"  # fills the buffer by itself
        roomy = replace(cold, n_nodes=2_000)
        assert wave(roomy, 2, large) == "23 45 67 89"


def test_a_notebook_may_use_a_cluster(tmp_path: Path, two_workers: str) -> None:
    edges = random_graph(300, 0.9, 0)
    columns = {"src": edges.u, "dst": edges.v, "weight": edges.weight}
    for part in range(3):
        rows = slice(part, None, 3)
        table = pa.table({name: column[rows] for name, column in columns.items()})
        pq.write_table(table, tmp_path / f"{part}.parquet")
    result = sparsify(tmp_path, 0.8, n_nodes=300, node_ids="dense", scheduler=two_workers)
    assert result.edges_seen == edges.n_edges
    assert result.edges_kept < 0.8 * edges.n_edges
    assert spectral_error(edges.graph(), result.graph) <= 0.8


def test_without_its_package_a_scheduler_is_refused_with_the_name_of_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"src": [0], "dst": [1]}), tmp_path / "edges.parquet")
    for module in ("connection", "dask_folds", "dask_ingest"):
        monkeypatch.delitem(sys.modules, f"peewit.streaming.cluster.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)  # what a missing package looks like
    with pytest.raises(ValueError, match=r"scheduler needs dask.distributed.*peewit\[cluster\]"):
        sparsify(str(tmp_path), scheduler="tcp://127.0.0.1:1")
