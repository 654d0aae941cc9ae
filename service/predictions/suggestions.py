"""Suggestions: which nodes to label next, by the latest predictions and positions of nodes.

Positions are the graph's embedding, made by a job of kind ``embed``. `Suggester` submits that job
where there is no embedding, and again once a tenth of the graph has come or gone. A large graph is
represented by a fixed sample of nodes, so that its answers take no longer.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import ClassVar, Final, Literal, get_args

import numpy as np
import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.jobs.job import Job, JobSpec, JobStatus
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.prediction_files import Prediction, PredictionFile
from peewit.service.predictions.reader import PredictionReader
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.tables.uploads import NodeId, id_type, node_array, node_id
from peewit.service.wire.labels import LabelOrigin
from peewit.solvers.active_learning import coverage, least_margins, least_variance, unsureness
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Float32Array, Int64Array, UInt64Array
from peewit.streaming.edges.node_ids import kinds_of, nodes_of_kinds
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import EmbeddingStore, NodeEmbedding
from peewit.streaming.problems import Conflict, Unprocessable
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore

Strategy = Literal["margin", "variance", "coverage", "random"]
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)

LOCATING: Final = frozenset[Strategy]({"variance", "coverage"})
"""Strategies that need the embedding."""

MAX_SUGGESTIONS: Final = 200
"""Most nodes of one answer: predictions should be looked at again after that many labels."""

MAX_SAMPLE: Final = 10_000
"""Most nodes of a random sample, which costs nothing to choose."""

MAX_CANDIDATES: Final = 50_000
"""Most nodes that ``variance`` and ``coverage`` choose among."""

MAX_REMEMBERED: Final = 5_000
"""Nodes of least margin that are remembered for each file."""

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)

_LARGE_COMPONENT: Final = 0.01
_ENOUGH_NODES: Final = 0.5
_GROWTH: Final = 1.1
_KEPT: Final = 4


def origin_of(strategy: Strategy) -> LabelOrigin:
    """Origin of the labels of nodes that a strategy chose."""
    return "random" if strategy == "random" else "suggested"


class NoEmbedding(Conflict, LookupError):
    """The graph has no embedding yet."""

    title = "No embedding yet"


class EmbeddingFailed(Conflict, RuntimeError):
    """The job that should make the embedding has failed."""

    title = "Embedding failed"


class NoMargins(Unprocessable):
    """The predictions are numbers, which have no margins."""

    title = "No margins"
    argument: ClassVar[str] = "strategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """Nodes to label, the most useful first, with what is predicted for each."""

    strategy: Strategy
    file: PredictionFile | None  # the predictions used; None while there are none
    labels_seq: int  # labels up to this event are left out
    embedding_snapshot: int | None  # None where no embedding was needed
    nodes: list[NodeId]
    predictions: list[Prediction | None]

    @property
    def origin(self) -> LabelOrigin:
        """Origin for the labels of these nodes."""
        return origin_of(self.strategy)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Candidates:
    """The nodes of an embedding to choose among."""

    embedding: NodeEmbedding
    version: tuple[int, int]  # of the embedding's file
    nodes: Int64Array  # (n,) dense ids, increasing
    points: Float32Array  # (n, n_coordinates)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LabeledNodes:
    """Dense ids of the labeled nodes, increasing, as of a label event."""

    labels_seq: int
    nodes: Int64Array
    kinds: Sequence[str]  # of these nodes, in a typed graph


class Suggester:
    """Suggests nodes to label; thread-safe.

    Jobs that make embeddings go to the queue of ``predictions``.
    """

    def __init__(
        self, *, labels: LabelStore, predictions: PredictionReader, graphs_directory: Path
    ) -> None:
        self._labels = labels
        self._predictions = predictions
        self._jobs, self._nodes = predictions.jobs, predictions.nodes
        self._graphs_directory = graphs_directory
        self._candidates: OrderedDict[str, _Candidates] = OrderedDict()
        self._labeled: OrderedDict[tuple[str, str], _LabeledNodes] = OrderedDict()
        self._unsure: OrderedDict[Hashable, Int64Array] = OrderedDict()
        self._lock = Lock()

    def request_embedding(
        self, graph: GraphRecord, *, owner: str | None = None, starts: bool = True
    ) -> Job | None:
        """The job to wait for before `suggest` can answer; None if there is nothing to wait for.

        An embedding of a much smaller graph is requested again and used meanwhile. Unless it
        ``starts`` jobs, it only looks for one. Raises `NoEmbedding` while there is no snapshot, or
        no job, and `EmbeddingFailed` where the last job on this snapshot failed, which is not
        repeated automatically.
        """
        store = self._store(graph)
        present = store.open()
        snapshot = graph.progress.snapshot
        if snapshot is None:
            raise NoEmbedding(f"graph {graph.settings.name} has no snapshot yet; bring edges first")
        if present is not None and not (starts and self._has_outgrown(graph, snapshot, present)):
            return None
        job = self._present_job(graph, snapshot)
        if job is None and not starts:
            raise NoEmbedding(f"the nodes of graph {graph.settings.name} are not located yet")
        job = job or self.submit_embedding(graph, owner=owner)
        if present is not None:
            return None
        if job.status is JobStatus.FAILED:
            raise EmbeddingFailed(
                f"job {job.id} of kind embed has failed: {job.error}; submit another one once "
                "that is mended, or ask for strategy=margin"
            )
        return job

    def is_outdated(self, graph: GraphRecord) -> bool:
        """Whether there is an embedding, of a much smaller graph, and no job that makes another."""
        present, snapshot = self._store(graph).open(), graph.progress.snapshot
        if present is None or snapshot is None or not self._has_outgrown(graph, snapshot, present):
            return False
        return self._present_job(graph, snapshot) is None

    def suggest(
        self,
        graph: GraphRecord,
        strategy: Strategy,
        n_nodes: int,
        *,
        model: str | None = None,
        job_id: str | None = None,
        column: str | None = None,
    ) -> Suggestions:
        """Nodes without label to label next; fewer where fewer are left.

        The predictions are the freshest unless a model or a job is named. The column of labels that
        nodes lack is that of the job by default, or the unnamed one. What a strategy needs and
        lacks is an error; see `request_embedding` of an embedding.
        """
        most = MAX_SAMPLE if strategy == "random" else MAX_SUGGESTIONS
        if n_nodes > most:
            raise BadArgument("k", f"must be at most {most} by strategy {strategy}, got {n_nodes}")
        file = self._file(graph, model, job_id, column, is_needed=strategy == "margin")
        if column is None:
            column = "" if file is None else file.meta.label_column
        labeled = self._labeled_nodes(graph, column)
        if strategy == "margin":
            if file is None or file.meta.score == "value":
                raise NoMargins(
                    "strategy must be variance, coverage or random where predictions are "
                    "numbers, got margin, which only classes have"
                )
            chosen, embedding_snapshot = self._least_sure(file, labeled.nodes, n_nodes), None
        elif strategy == "random":
            chosen, embedding_snapshot = self._first_at_random(graph, labeled, n_nodes), None
        else:
            candidates = self._candidates_of(graph)
            unasked = self._unasked(graph, labeled)
            chosen = _spread(graph, candidates, file, labeled.nodes, unasked, strategy, n_nodes)
            embedding_snapshot = candidates.embedding.meta.snapshot
        return Suggestions(
            strategy=strategy,
            file=file,
            labels_seq=labeled.labels_seq,
            embedding_snapshot=embedding_snapshot,
            nodes=self._external(graph, chosen),
            predictions=[None] * chosen.size if file is None else file.of_nodes(chosen),
        )

    def of_nodes(
        self, graph: GraphRecord, suggestions: Suggestions, names: Sequence[str]
    ) -> Suggestions:
        """The same suggestions with other nodes, given by external ids as text."""
        kind = graph.settings.node_ids
        dense = self._nodes.lookup(graph, node_array([node_id(name, kind) for name in names], kind))
        known = dense[dense >= 0].astype(np.int64)
        return replace(
            suggestions,
            nodes=self._external(graph, known),
            predictions=[None] * known.size
            if suggestions.file is None
            else suggestions.file.of_nodes(known),
        )

    def submit_embedding(self, graph: GraphRecord, *, owner: str | None = None) -> Job:
        """A job that makes the embedding anew, or the one that waits already."""
        spec = JobSpec(
            graph_id=graph.id, kind="embed", model=None, parameters={}, lane="heavy", owner=owner
        )
        return self._jobs.submit_coalesced(spec)

    def n_labeled(self, graph: GraphRecord, column: str = "") -> int:
        """Number of labeled nodes of the graph."""
        return int(self._labeled_nodes(graph, column).nodes.size)

    def _present_job(self, graph: GraphRecord, snapshot: int) -> Job | None:
        """A job that embeds a snapshot and waits or runs, or has failed."""
        last = self._jobs.newest(graph.id, "embed")
        if last is not None:
            has_failed = last.status is JobStatus.FAILED and last.snapshot == snapshot
            if has_failed or not last.status.is_final:
                return last
        return None

    def _store(self, graph: GraphRecord) -> EmbeddingStore:
        return EmbeddingStore(GraphPaths(root=self._graphs_directory / graph.id))

    def _has_outgrown(self, graph: GraphRecord, snapshot: int, present: NodeEmbedding) -> bool:
        """Whether a tenth of the embedded snapshot's nodes or edges have come or gone since."""
        if snapshot == present.meta.snapshot:
            return False
        paths = GraphPaths(root=self._graphs_directory / graph.id)
        try:
            newest = SnapshotStore(paths.snapshots).meta(snapshot)
        except SnapshotNotFound:  # replaced meanwhile
            return False
        n_changes = newest.edges_seen + newest.n_gone - present.meta.n_deleted
        return (
            newest.n_nodes > _GROWTH * present.meta.n_nodes
            or n_changes > _GROWTH * present.meta.edges_seen
        )

    def _file(
        self,
        graph: GraphRecord,
        model: str | None,
        job_id: str | None,
        column: str | None,
        *,
        is_needed: bool,
    ) -> PredictionFile | None:
        try:
            job = self._predictions.find(graph, model=model, job_id=job_id, column=column)
            return self._predictions.open(job)
        except PredictionsNotFound:
            if is_needed or model is not None or job_id is not None:
                raise
            return None

    def _labeled_nodes(self, graph: GraphRecord, column: str) -> _LabeledNodes:
        """The labeled nodes; read again when a label has changed."""
        with self._lock:
            known = self._labeled.get((graph.id, column))
        if known is not None and known.labels_seq == graph.labels_seq:
            return known
        current = self._labels.current(graph.id, column=column)
        ids = current.nodes.cast(id_type(graph.settings.node_ids))
        dense = self._nodes.lookup(graph, ids)
        nodes = _LabeledNodes(
            labels_seq=current.labels_seq,
            nodes=np.sort(dense[dense >= 0]).astype(np.int64),
            kinds=kinds_of(ids) if graph.settings.node_ids == "typed" else (),
        )
        with self._lock:
            self._labeled[graph.id, column] = nodes
            while len(self._labeled) > _KEPT:
                self._labeled.popitem(last=False)
        return nodes

    def _least_sure(self, file: PredictionFile, labeled: Int64Array, n_nodes: int) -> Int64Array:
        """Unlabeled nodes of least margin, from the remembered ones while they suffice."""
        with self._lock:
            unsure = self._unsure.get(file.key)
        if unsure is None:
            unsure = _of_least_margin(file, np.zeros(0, np.int64), MAX_REMEMBERED)
            with self._lock:
                self._unsure[file.key] = unsure
                while len(self._unsure) > _KEPT:
                    self._unsure.popitem(last=False)
        free = unsure[~np.isin(unsure, labeled)]
        if free.size >= n_nodes or unsure.size < MAX_REMEMBERED:
            return free[:n_nodes]
        return _of_least_margin(file, labeled, n_nodes)

    def _unasked(self, graph: GraphRecord, labeled: _LabeledNodes) -> Int64Array:
        """Dense ids, increasing, of nodes that were erased or are of kinds nobody asks about."""
        n_nodes, kinds = graph.progress.n_nodes, graph.settings.answers or labeled.kinds
        if not kinds or not n_nodes:
            return self._nodes.erased(graph, n_nodes)
        return np.flatnonzero(~nodes_of_kinds(self._nodes.external_ids(graph, n_nodes), kinds))

    def _first_at_random(
        self, graph: GraphRecord, labeled: _LabeledNodes, n_nodes: int
    ) -> Int64Array:
        """The first unlabeled nodes in the graph's own random order.

        The order never changes, and new nodes fall anywhere in it; so the labeled nodes at its
        start are a random sample of all nodes.
        """
        if graph.progress.snapshot is None:
            raise NoEmbedding(f"graph {graph.settings.name} has no snapshot yet; bring edges first")
        n_known = graph.progress.n_nodes
        is_free = np.ones(n_known, bool)
        is_free[labeled.nodes[labeled.nodes < n_known]] = False
        is_free[self._unasked(graph, labeled)] = False
        free = np.flatnonzero(is_free)
        place = random_places(free, graph.settings.seed or 0)
        first = np.argpartition(place, n_nodes)[:n_nodes] if n_nodes < free.size else slice(None)
        return free[first][np.argsort(place[first])]

    def _candidates_of(self, graph: GraphRecord) -> _Candidates:
        store = self._store(graph)
        version = store.version()
        with self._lock:
            known = self._candidates.get(graph.id)
        if known is not None and known.version == version:
            return known
        embedding = store.open()
        if embedding is None or version is None:
            raise NoEmbedding(
                f"graph {graph.settings.name} has no embedding yet; submit a job of kind embed "
                "and wait for it"
            )
        nodes = _sample_nodes(embedding, graph.settings.seed or 0)
        candidates = _Candidates(
            embedding=embedding,
            version=version,
            nodes=nodes,
            points=np.ascontiguousarray(embedding.points[nodes]),
        )
        with self._lock:
            self._candidates[graph.id] = candidates
            while len(self._candidates) > _KEPT:
                self._candidates.popitem(last=False)
        return candidates

    def _external(self, graph: GraphRecord, nodes: Int64Array) -> list[NodeId]:
        if nodes.size == 0:
            return []
        return self._nodes.names(graph, nodes)


def random_places(nodes: Int64Array, seed: int) -> UInt64Array:
    """(n_nodes,) pseudo-random number of each dense id, the same at every call.

    The finalizer of splitmix64 (Steele, Lea and Flood 2014) of the id and the seed.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64
        mixed = np.uint64(seed) * _GOLDEN + nodes.astype(np.uint64)
        for _ in range(2):  # once would let neighboring seeds only shift the order
            mixed = mixed * _GOLDEN
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return np.asarray(mixed, np.uint64)


def _of_least_margin(file: PredictionFile, labeled: Int64Array, n_nodes: int) -> Int64Array:
    """Reachable unlabeled nodes of least margin, least first; equal margins in file order."""
    best = np.zeros(0, np.int64)
    margins = np.zeros(0, np.float32)
    first = 0
    for batch in file.batches():
        margin = batch.column("margin").to_numpy(zero_copy_only=False)
        free = batch.column("reachable").to_numpy(zero_copy_only=False)
        if best.size == n_nodes:  # of equal margins the earlier node wins
            free &= margin < margins[-1]
        start, stop = np.searchsorted(labeled, (first, first + len(margin)))
        free[labeled[start:stop] - first] = False
        rows = least_margins(margin, free, n_nodes)
        best, margins = np.append(best, rows + first), np.append(margins, margin[rows])
        order = np.argsort(margins, kind="stable")[:n_nodes]
        best, margins = best[order], margins[order]
        first += len(margin)
    return best


def _spread(
    graph: GraphRecord,
    candidates: _Candidates,
    file: PredictionFile | None,
    labeled: Int64Array,
    unasked: Int64Array,
    strategy: Strategy,
    n_nodes: int,
) -> Int64Array:
    """Dense ids chosen by position."""
    nodes, points = candidates.nodes, candidates.points
    free = ~np.isin(nodes, labeled, assume_unique=True)
    free &= ~np.isin(nodes, unasked, assume_unique=True)
    margin = _margins_of(file, nodes)
    if strategy == "coverage":
        seed = (graph.settings.seed or 0) + graph.labels_seq
        rows = coverage(points, margin, free, n_nodes, seed=seed)
    else:
        embedding = candidates.embedding
        labeled = labeled[labeled < embedding.meta.n_nodes]
        stride = -(-max(labeled.size, 1) // MAX_CANDIDATES)  # a sample of the labeled suffices
        known = embedding.points[labeled[::stride]]
        rows = least_variance(points, known, unsureness(margin), free, n_nodes)
    return nodes[rows]


def _sample_nodes(embedding: NodeEmbedding, seed: int) -> Int64Array:
    """Nodes of large components, all or a sample; increasing.

    A component is large with a hundredth of all nodes, or if needed until large ones hold half of
    the nodes: a label in a small one says little of others.
    """
    size = np.bincount(embedding.component)
    order = np.argsort(-size, kind="stable")
    held_before = np.cumsum(size[order]) - size[order]
    is_large = np.zeros(size.size, bool)
    is_large[order] = held_before < _ENOUGH_NODES * embedding.component.size
    is_large |= size >= _LARGE_COMPONENT * embedding.component.size
    nodes = np.flatnonzero(is_large[embedding.component])
    if nodes.size > MAX_CANDIDATES:
        rng = np.random.default_rng(seed)
        nodes = np.sort(rng.choice(nodes, MAX_CANDIDATES, replace=False))
    return nodes.astype(np.int64)


def _margins_of(file: PredictionFile | None, nodes: Int64Array) -> Float32Array:
    """Margins; 0 where nothing is predicted and where no label reaches."""
    margin = np.zeros(nodes.size, np.float32)
    if file is not None and file.meta.score != "value":
        is_old = nodes < file.n_nodes
        column = file.table().column("margin").take(pa.array(nodes[is_old]))
        margin[is_old] = column.to_numpy()
    return margin
