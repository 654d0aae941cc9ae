"""Exact deletions on dask workers: resolved to the bits of threads, rebuilt whoever works."""

import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.solvers.arrays import BoolArray
from peewit.solvers.graph import Graph
from peewit.streaming.cluster.dask_folds import DaskExecutor
from peewit.streaming.cluster.ordered_folds import GROUP, FoldExecutor, ThreadExecutor
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Repaired
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.log.change_log import NO_NODES, ChangeLog
from peewit.streaming.log.live_edges import live_blocks
from peewit.streaming.passes.delete_matching import MatchedDeletes, match_deletes
from peewit.streaming.passes.edge_folds import Span
from peewit.streaming.passes.log_folds import live_at, log_spans, rebuilt
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.repair import Repair
from peewit.streaming.sparsifier.runs import EMPTY_RUNS
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import absorb, resparsify
from tests.reference.spectrum import spectral_error
from tests.streaming.clusters import cluster_of, kill_one_that_works
from tests.streaming.graphs import EdgeList, edge_block, random_graph

pytestmark = pytest.mark.usefixtures("processes")

N_NODES = 500
EPSILON = 0.8
SPARSIFIER = SparsifierSettings(epsilon=EPSILON, seed=3, expected_nodes=N_NODES)
USERS = np.arange(12)
AT_USERS = np.arange(N_NODES) < USERS.size
N_BLOCKS = 14
DIGESTS = ("first", "second", "deletes")

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, eq=False)
class Written:
    """A log of two files of edges, and one that deletes some, of which version 1 knows the dead."""

    log: ChangeLog
    edges: EdgeList
    is_gone: BoolArray

    @property
    def left(self) -> EdgeList:
        return where(self.edges, ~self.is_gone)

    def spans(self) -> list[Span]:
        return log_spans(
            self.log, DIGESTS, self.log.dead(1), n_edges=self.edges.n_edges, n_nodes=N_NODES
        )


def where(edges: EdgeList, is_taken: BoolArray) -> EdgeList:
    u, v, weight = (each[is_taken] for each in (edges.u, edges.v, edges.weight))
    return EdgeList(u=u, v=v, weight=weight, n_nodes=edges.n_nodes)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    log = ChangeLog(tmp_path_factory.mktemp("log"))
    edges = random_graph(N_NODES, 0.95, 0)
    rng = np.random.default_rng(1)
    is_gone = rng.random(edges.n_edges) < 0.3
    edges.weight[rng.random(edges.n_edges) < 0.1] *= 1e-7  # sums of others are exact in any order
    blocks = edges.blocks(N_BLOCKS)
    for digest, some in zip(DIGESTS, (blocks[:6], blocks[6:]), strict=False):
        with log.writing(digest, replaces=False) as writer:
            for block in some:
                writer.append(block, NO_NODES, NO_NODES)
    gone = where(edges, is_gone)
    with log.writing(DIGESTS[2], replaces=False) as writer:
        for block in gone.blocks(2):
            writer.append(edge_block(NO_NODES, NO_NODES, np.empty(0)), block.u, block.v)
    written = Written(log=log, edges=edges, is_gone=is_gone)
    log.publish_dead(1, resolved(written, None).dead)
    return written


def resolved(written: Written, executor: FoldExecutor | None, **changes: object) -> MatchedDeletes:
    values: dict[str, object] = {"n_resolved": 0, "version": 0, **changes}
    return match_deletes(
        written.log,
        DIGESTS,
        n_nodes=N_NODES,
        n_edges=written.edges.n_edges,
        executor=executor,
        **values,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def addresses(processes: None) -> Iterator[list[str]]:
    """Schedulers of one worker, and of two."""
    with cluster_of(1) as one, cluster_of(2) as two:
        yield [one.scheduler_address, two.scheduler_address]


@pytest.fixture(scope="module")
def executors(addresses: list[str]) -> Iterator[list[FoldExecutor]]:
    """Threads, one worker, and two."""
    with DaskExecutor(addresses[0]) as one, DaskExecutor(addresses[1]) as two:
        yield [ThreadExecutor(3), one, two]


def with_a_killed_worker(work: Callable[[FoldExecutor], _T]) -> _T:
    """What comes of some work when one of two workers dies at it."""
    killed: list[int] = []
    with cluster_of(2) as cluster, DaskExecutor(cluster.scheduler_address) as executor:
        killer = threading.Thread(target=kill_one_that_works, args=(cluster, killed))
        killer.start()
        found = work(executor)
        killer.join(timeout=120)
    assert killed
    return found


def bits_of_resolution(found: MatchedDeletes) -> list[object]:
    arrays = found.degree, found.killed, found.component
    return [
        *(each.tobytes() for each in arrays),
        {key: bits.tobytes() for key, bits in found.dead.bits.items()},
        dict(found.dead_share),
        (found.n_live, found.n_killed, found.n_unmatched),
    ]


def bits_of_state(state: SparsifierState) -> list[object]:
    assert state.runs is not None
    assert state.runs.n_records == state.n_records > 0
    return [
        *(column.tobytes() for column in state.records.columns),
        (state.runs.keys, state.runs.counts.tolist(), state.n_blocks, state.n_rows_seen),
    ]


def every_resolution(written: Written, executor: FoldExecutor | None) -> list[list[object]]:
    """Of all deletes; and of an erasure and a retraction after them."""
    later = {"n_resolved": 3, "version": 1, "erased": AT_USERS, "retracted": DIGESTS[:1]}
    return [bits_of_resolution(resolved(written, executor, **changes)) for changes in ({}, later)]


def test_workers_resolve_to_the_bits_of_threads(
    written: Written, executors: list[FoldExecutor]
) -> None:
    assert len(written.spans()) > GROUP
    expected = every_resolution(written, None)
    for executor in executors:
        assert every_resolution(written, executor) == expected
    assert with_a_killed_worker(lambda killed: every_resolution(written, killed)) == expected
    degree = np.zeros(N_NODES)  # in the order of the stream, which is not that of the fold
    for u, v, weight in zip(written.left.u, written.left.v, written.left.weight, strict=True):
        degree[[u, v]] += np.float32(weight)
    found = resolved(written, None)
    np.testing.assert_allclose(found.degree, degree, rtol=1e-12)
    assert not np.array_equal(found.degree, degree)
    n_gone = int(written.is_gone.sum())
    assert (found.n_live, found.n_killed) == (written.left.n_edges, n_gone)
    assert found.n_unmatched == 0


def test_edges_at_marked_nodes_are_those_that_threads_find(
    written: Written, executors: list[FoldExecutor]
) -> None:
    def bits(blocks: Iterable[tuple[str, EdgeBlock]]) -> list[object]:
        return [
            (digest, *(each.tobytes() for each in (edges.u, edges.v, edges.weight)))
            for digest, edges in blocks
        ]

    dead = written.log.dead(1)
    expected = list(live_blocks(written.log, DIGESTS, dead, at=AT_USERS))
    assert {digest for digest, _ in expected} == set(DIGESTS[:2])
    for executor in executors:
        found = live_at(executor, written.spans(), AT_USERS, lambda: None)
        assert bits(found) == bits(expected)


def start_of_a_rebuild(written: Written) -> SparsifierState:
    """State without records, with cards of all edges."""
    state = SparsifierState(n_nodes=N_NODES, runs=EMPTY_RUNS)
    state = resparsify(
        absorb(state, SPARSIFIER, written.edges.blocks(4), n_nodes=N_NODES), SPARSIFIER
    )
    return SparsifierState(
        cards=state.cards,
        runs=EMPTY_RUNS,
        degree=np.zeros(0),
        n_nodes=N_NODES,
        n_blocks=77,
        n_kept_last=state.n_kept_last,
        n_leaning=2 * state.n_kept_last,
    )


def test_what_is_thrown_anew_does_not_depend_on_who_throws_it(
    written: Written, executors: list[FoldExecutor]
) -> None:
    start = start_of_a_rebuild(written)

    def all_thrown(executor: FoldExecutor) -> SparsifierState:
        spans = written.spans()
        return rebuilt(executor, spans, start, SPARSIFIER, group_blocks=4, on_block=lambda: None)

    state = all_thrown(ThreadExecutor(1))
    assert state.runs is not None
    assert state.runs.keys == DIGESTS[:2]
    assert state.n_rows_seen == written.left.n_edges > 2 * state.n_records
    assert state.n_blocks >= start.n_blocks + N_BLOCKS
    assert np.unique(state.records.key).size > 0.99 * state.n_records
    np.testing.assert_allclose(state.degree, written.left.graph().degree, rtol=1e-6)
    expected = bits_of_state(state)
    for executor in executors:
        assert bits_of_state(all_thrown(executor)) == expected
    killed = with_a_killed_worker(all_thrown)
    assert bits_of_state(killed) == expected


def stream_of(root: Path, scheduler: str | None, told: list[IngestEvent] | None = None) -> Stream:
    settings = StreamSettings(
        node_kind="dense", sparsifier=SPARSIFIER, deletions="exact", scheduler=scheduler
    )
    return Stream(
        GraphPaths(root=root), settings, on_event=[].append if told is None else told.append
    )


def write(path: Path, edges: EdgeList, **columns: object) -> Path:
    table = pa.table({"src": edges.u, "dst": edges.v, "weight": edges.weight, **columns})
    pq.write_table(table, path, row_group_size=8_192)
    return path


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory, written: Written) -> Path:
    """Root of a graph that came in two files, in threads, and has room for deletes."""
    directory = tmp_path_factory.mktemp("graph")
    for number, rows in enumerate(np.array_split(np.arange(written.edges.n_edges), 2)):
        is_in_file = np.zeros(written.edges.n_edges, bool)
        is_in_file[rows] = True
        write(directory / f"{number}.parquet", where(written.edges, is_in_file))
    stream = stream_of(directory / "graph", None)
    stream.ingest(EdgeFiles(directory).list())
    stream.repair(everything=True)
    return directory / "graph"


def after_deletes(
    streamed: Path, root: Path, gone: EdgeList, scheduler: str | None
) -> tuple[Graph, Repair]:
    """Snapshot of a copy of the graph that some edges are deleted from, and its repair."""
    shutil.copytree(streamed, root)
    path = write(root.with_suffix(".parquet"), gone, op=["delete"] * gone.n_edges)
    told: list[IngestEvent] = []
    stream = stream_of(root, scheduler, told)
    stream.ingest(EdgeFiles(path, columns=CHANGES).list())
    [repair] = [event.repair for event in told if isinstance(event, Repaired)]
    store = SnapshotStore(GraphPaths(root=root).snapshots)
    return store.load(store.latest() or 0).graph, repair


def test_a_partial_repair_is_that_of_threads(
    tmp_path: Path, written: Written, streamed: Path, addresses: list[str]
) -> None:
    edges = written.edges
    is_gone = np.isin(edges.u, USERS) & (np.random.default_rng(2).random(edges.n_edges) < 0.8)
    found = [
        after_deletes(streamed, tmp_path / f"{at}", where(edges, is_gone), scheduler)
        for at, scheduler in enumerate((None, *addresses))
    ]
    assert found[0][1].kind == "part"
    for graph, repair in found[1:]:
        assert repair == found[0][1]
        for mine, of_threads in zip(graph.edges(), found[0][0].edges(), strict=True):
            assert mine.tobytes() == of_threads.tobytes()


def test_a_rebuild_is_the_same_from_one_worker_and_two_and_as_accurate_as_was_asked(
    tmp_path: Path, written: Written, streamed: Path, addresses: list[str]
) -> None:
    left, gone = written.left, where(written.edges, written.is_gone)
    found = []
    for at, scheduler in enumerate(addresses):
        graph, repair = after_deletes(streamed, tmp_path / f"{at}", gone, scheduler)
        assert (repair.kind, repair.n_edges) == ("all", left.n_edges)
        assert graph.n_edges < 0.5 * left.n_edges
        assert spectral_error(left.graph(), graph) <= EPSILON
        found.append([column.tobytes() for column in graph.edges()])
    assert found[0] == found[1]
    stream = stream_of(tmp_path / "1", addresses[0])  # knows which file brought what
    first = stream.files[0]
    assert stream.retract(first.path) == first
    assert set(stream.state.runs.keys) == {stream.files[0].digest}  # type: ignore[union-attr]
