"""Warm graphs: snapshots that stay in a child's memory with what models prepared on them.

A changed label costs a warm solve only. Answers do not depend on what is warm, but for those of
``auto`` with ``walks="repeated"`` (K13).
"""

import gc
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import psutil

from peewit.service.tasks.joined_counts import JoinedCounts
from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.progress import Cancelled
from peewit.service.tasks.solving.solve_memory import (
    RESERVED_BYTES,
    graph_bytes,
    kept_bytes,
    refusal,
)
from peewit.solvers.features import FeatureRows
from peewit.solvers.gram.memory_plan import GramTooLarge
from peewit.solvers.models.contract.model import Model
from peewit.solvers.relations.relation_graphs import RelationGraphs
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import Solution
from peewit.streaming.edges.blocks import MAX_NODES
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import Nodes, open_nodes
from peewit.streaming.passes.raw_edge_passes import HeldEdges
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import Snapshot, SnapshotNotFound, SnapshotStore

_AHEAD_MEMORY: Final = 0.8
"""Part of the memory above which nothing is done ahead."""

_MOST_VALUES: Final = 8
"""Of one type and graph: a solution is as large as its predictions, and columns may be many."""


@dataclass(slots=True, kw_only=True, eq=False)
class WarmGraph:
    """One snapshot in memory."""

    store: SnapshotStore  # of the weighed sum of relations
    snapshot: Snapshot
    nodes: Nodes
    weights: Mapping[str, float]  # of relations, by name
    counts: JoinedCounts | None = None  # that join the features of the model at hand
    held: HeldEdges | None = None  # for passes over all edges by the job at hand

    @property
    def used_relations(self) -> dict[str, float]:
        """Weights of the relations that the graph is the sum of, by name."""
        weights = {
            name: self.weights.get(name, 1.0) for name in names_with_edges(self.snapshot.meta)
        }
        return {name: weight for name, weight in weights.items() if weight > 0.0}

    def made_of(self, task: LabelsTask) -> tuple[int, Hashable]:
        """What the features of a model are made of: a version of a table, and counts."""
        return task.features_version, self.counts and self.counts.version


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LastSolution:
    """Where the next solve of a model starts; ``class_names`` is None where it predicts numbers."""

    snapshot: int
    class_names: tuple[str | int, ...] | None
    solution: Solution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prepared:
    """What a model prepared on a snapshot; any model of the same preparation can use it."""

    model: Model
    value: Any
    features: tuple[int, Hashable] | None  # see `WarmGraph.made_of`; None: it takes none


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Relations:
    """The relations of one snapshot as graphs."""

    snapshot: int
    graphs: RelationGraphs


class WarmValues(MutableMapping[tuple[str, Hashable], Any]):
    """What tasks leave for later ones, by the id of the graph and a second key.

    The second key is `WarmGraph` for the graph in memory, the name of a preparation for what a
    model prepared on it, ``("left", name)`` for what a preparation left for that of a later
    snapshot, and (type of the model, label column) for a last solution. The longest unused are
    dropped: by `shrink` until the process is within its memory, and where a graph has too many of
    one type. A graph counts as used after all that was made of it.
    """

    def __init__(self) -> None:
        self._values: OrderedDict[tuple[str, Hashable], Any] = OrderedDict()

    def __getitem__(self, key: tuple[str, Hashable]) -> Any:
        self._values.move_to_end(key)
        return self._values[key]

    def __setitem__(self, key: tuple[str, Hashable], value: Any) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        (first, *others) = self.all(type(value), key[0])
        if len(others) >= _MOST_VALUES:
            del self._values[first]

    def __delitem__(self, key: tuple[str, Hashable]) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[tuple[str, Hashable]]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def all(self, kind: type[Any], graph: str | None = None) -> dict[tuple[str, Hashable], Any]:
        """Values of a kind, of all graphs or of one; the one used last is the last."""
        return {
            key: value
            for key, value in self._values.items()
            if isinstance(value, kind) and graph in {None, key[0]}
        }

    def shrink(self, is_too_much: Callable[[], bool]) -> None:
        """Drop the longest unused values while they are too much."""
        while self._values and is_too_much():
            self._values.popitem(last=False)
            gc.collect()


def process_bytes() -> int:
    """Memory of this process without files; only the system knows the size of factorizations."""
    memory = psutil.Process().memory_info()
    return int(memory.rss) - int(getattr(memory, "shared", 0))


class WarmGraphs:
    """Graphs and prepared models that tasks keep for later ones.

    One snapshot stays of each graph, the last one loaded, and what else is in `WarmValues`, until
    the process takes more than ``memory_bytes`` of resident memory after a task. Large products use
    ``n_threads``, on which results do not depend.
    """

    def __init__(
        self,
        *,
        memory_bytes: int,
        n_threads: int = 1,
        resident_bytes: Callable[[], int] = process_bytes,
    ) -> None:
        self._memory_bytes = memory_bytes
        self._resident_bytes = resident_bytes
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="products")
        self.kept = WarmValues()

    @property
    def parallel(self) -> Parallel:
        """Maps large products over threads."""
        return self._pool.map

    @property
    def n_graphs(self) -> int:
        """Graphs in memory."""
        return len(self.kept.all(WarmGraph))

    def leaves_room(self, graph: WarmGraph, n_bytes: int) -> bool:
        """Whether so many bytes fit beside the graph, whatever else is warm."""
        meta = graph.snapshot.meta
        beside = RESERVED_BYTES + graph_bytes(meta.n_nodes, meta.edges_kept)
        return beside + n_bytes <= self._memory_bytes

    @contextmanager
    def within_memory(self) -> Iterator[None]:
        """Context of a task, after which the process comes back to its memory.

        Raises ValueError if a Gram matrix does not fit beside the graph used last.
        """
        try:
            yield
        except GramTooLarge as error:
            (*_, used) = self.kept.all(WarmGraph).values()
            raise ValueError(refusal(error, self._memory_bytes, used.snapshot.meta)) from error
        finally:
            self._keep_order()
            self._shrink()

    def load(self, task: LabelsTask, weights: Mapping[str, float] | None = None) -> WarmGraph:
        """The snapshot and the node index, from memory if they were the graph's last ones.

        ``weights`` are those of relations, by name, 1 of others. What was loaded before is dropped
        before another snapshot, or other weights, are loaded, so that both are never in memory
        together. Last solutions stay, since a node keeps its dense id.
        """
        known: WarmGraph | None = self.kept.pop((task.graph_id, WarmGraph), None)
        weights = dict(weights or {})
        is_present = (
            known is not None
            and known.snapshot.meta.number == task.snapshot
            and known.weights == weights
        )
        self._drop_prepared(task, is_present=is_present)
        if known is None or not is_present:
            del known
            paths = GraphPaths(root=task.graph_directory)
            store = SnapshotStore(paths.snapshots, weights=weights)
            snapshot = store.load(task.snapshot)
            nodes = open_nodes(
                paths.nodes,
                kind=snapshot.meta.node_kind,
                n_nodes=snapshot.meta.n_nodes,
                max_nodes=MAX_NODES,
                writable=False,
            )
            known = WarmGraph(store=store, snapshot=snapshot, nodes=nodes, weights=weights)
        self.kept[task.graph_id, WarmGraph] = known
        return known

    def _drop_prepared(self, task: LabelsTask, *, is_present: bool) -> None:
        """Drop what was prepared on an older snapshot, but what it leaves, or of other features."""
        for (graph_id, kind), each in self.kept.all(_Prepared, task.graph_id).items():
            if not is_present:
                self.kept[graph_id, ("left", kind)] = each.model.bequest(each.value)
            if not is_present or (each.features and each.features[0] != task.features_version):
                del self.kept[graph_id, kind]

    def prepared(self, task: LabelsTask, graph: WarmGraph, model: Model) -> tuple[Any, bool]:
        """What the model prepared on the graph and its features, and whether it was there."""
        kind = model.preparation or type(model).__name__
        known: _Prepared | None = self.kept.pop((task.graph_id, kind), None)
        if known is not None and known.features in {None, graph.made_of(task)}:
            self.kept[task.graph_id, kind] = known
            return known.value, True
        del known  # what other features made goes before their own are prepared
        if model.smooths_by_relation and (task.features_version or graph.counts):
            self._keep_parts(task, graph)
        value = self.prepared_alone(task, graph.snapshot.graph, model, graph)
        model.inherit(value, self.kept.pop((task.graph_id, ("left", kind)), {}))
        self.kept[task.graph_id, kind] = _Prepared(
            model=model, value=value, features=graph.made_of(task) if model.uses_features else None
        )
        return value, False

    def relations(self, task: LabelsTask, graph: WarmGraph) -> RelationGraphs:
        """The relations with edges of the task's snapshot, from memory if they are there."""
        key = task.graph_id, "relations"
        known: _Relations | None = self.kept.get(key)
        names = names_with_edges(graph.snapshot.meta)
        if known is None or (known.snapshot, known.graphs.names) != (task.snapshot, names):
            self.kept.pop(key, None)
            loaded = graph.store.load_relations(task.snapshot)
            graphs = RelationGraphs.of({name: loaded[name] for name in names})
            known = _Relations(snapshot=task.snapshot, graphs=graphs)
            self.kept[key] = known
        return known.graphs

    def _keep_parts(self, task: LabelsTask, graph: WarmGraph) -> None:
        """Say of the graph which relations it is the weighed sum of, where it is of several."""
        used = graph.used_relations
        if len(used) > 1:
            relations = self.relations(task, graph)
            of = dict(zip(relations.names, relations.graphs, strict=True))
            graph.snapshot.graph.keep_parts([of[name] for name in used], list(used.values()))

    def prepared_alone(self, task: LabelsTask, instead: Any, model: Model, graph: WarmGraph) -> Any:
        """What the model prepares on another graph of the same nodes, which is not kept.

        ``instead`` is a graph, or whatever the model takes in place of one.
        """
        return model.prepare(
            instead,
            _features(task, model, graph),
            parallel=self._pool.map,
            kept_bytes=kept_bytes(self._memory_bytes, model, graph.snapshot.meta),
        )

    def work_ahead(self, cancelled: Cancelled) -> bool:
        """Do part of what the next solve on the last used graph may need; False if none is left.

        Nothing is begun close to the memory limit, where it might push a graph out.
        """
        graphs = self.kept.all(WarmGraph)
        if not graphs or self._resident_bytes() > _AHEAD_MEMORY * self._memory_bytes:
            return False
        (*_, (used, _)) = graphs
        is_waiting = any(
            each.model.work_ahead(each.value, cancelled=cancelled)
            for each in self.kept.all(_Prepared, used).values()
        )
        self._shrink()
        return is_waiting

    def _keep_order(self) -> None:
        """Store the order of the last used graph with its snapshot, if the disk has room."""
        for key, used in list(self.kept.all(WarmGraph).items())[-1:]:
            self.kept[key] = used
            with suppress(OSError, SnapshotNotFound):  # it only saves the next process seconds
                used.store.keep_order(used.snapshot)

    def _shrink(self) -> None:
        self.kept.shrink(lambda: self._resident_bytes() > self._memory_bytes)


def _features(task: LabelsTask, model: Model, graph: WarmGraph) -> Any:
    """Features of a snapshot's nodes; None if the model takes none or there are none."""
    if not model.uses_features:
        return None
    rows, _ = table_rows(task, graph)
    return rows if graph.counts is None else graph.counts.beside(rows)


def table_rows(task: LabelsTask, graph: WarmGraph) -> tuple[FeatureRows | None, bool]:
    """Rows that a table gives the nodes of a snapshot, if there are some; whether as it came."""
    if not task.features_version:
        return None, False
    store = FeatureStore(GraphPaths(root=task.graph_directory).features)
    rows = store.load(task.features_version, graph.snapshot.meta.n_nodes)
    return rows, store.meta(task.features_version).encoding is not None


def names_with_edges(meta: SnapshotMeta) -> tuple[str, ...]:
    """Names of the relations that a snapshot has edges of; of all where it has no edge."""
    filled = tuple(each.name for each in meta.relations if each.edges_kept)
    return filled or tuple(each.name for each in meta.relations)
