"""Warm graphs: snapshots that stay in a child's memory with what models prepared on them.

A changed label costs a warm solve only. Answers do not depend on what is warm.
"""

import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psutil

from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.progress import Cancelled
from peewit.service.tasks.solving.solve_memory import kept_bytes, refusal
from peewit.solvers.features import FeatureRows
from peewit.solvers.gram.memory_plan import GramTooLarge
from peewit.solvers.graph import Graph
from peewit.solvers.models.contract.model import Model
from peewit.solvers.solution import Solution
from peewit.streaming.edges.blocks import MAX_NODES
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import Nodes, open_nodes
from peewit.streaming.snapshots.store import Snapshot, SnapshotNotFound, SnapshotStore

_AHEAD_MEMORY: Final = 0.8
"""Part of the memory above which nothing is done ahead."""

_MOST_SOLUTIONS: Final = 8
"""Solutions kept of a graph: each is as large as its predictions, and columns may be many."""


@dataclass(slots=True, kw_only=True, eq=False)
class LastSolution:
    """Where the next solve of a model starts; ``class_names`` is None where it predicts numbers."""

    snapshot: int
    class_names: tuple[str | int, ...] | None
    solution: Solution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prepared:
    """What a model prepared; any model of the same preparation can use it."""

    model: Model
    value: Any
    features_version: int | None  # None for a model that takes no features


@dataclass(slots=True, kw_only=True, eq=False)
class WarmGraph:
    """One snapshot in memory with what was prepared on it, by class of model.

    ``bequests`` are what preparations of the previous snapshot left; ``last`` are the last
    solutions by class of model and label column.
    """

    store: SnapshotStore
    snapshot: Snapshot
    nodes: Nodes
    prepared: dict[str, _Prepared] = field(default_factory=dict)
    bequests: dict[str, Any] = field(default_factory=dict)
    last: dict[tuple[type[Model], str], LastSolution] = field(default_factory=dict)

    def keep(self, key: tuple[type[Model], str], last: LastSolution) -> None:
        """Remember a solution, and forget the longest unused one if there are too many."""
        self.last.pop(key, None)
        self.last[key] = last
        while len(self.last) > _MOST_SOLUTIONS:
            del self.last[next(iter(self.last))]

    def forget_features_but(self, version: int) -> None:
        """Drop what was prepared with other features; what needs none stays."""
        for kind, each in list(self.prepared.items()):
            if each.features_version not in {None, version}:
                del self.prepared[kind]


def process_bytes() -> int:
    """Memory of this process without files; only the system knows the size of factorizations."""
    memory = psutil.Process().memory_info()
    return int(memory.rss) - int(getattr(memory, "shared", 0))


class WarmGraphs:
    """Graphs and prepared models that tasks keep for later ones.

    One snapshot stays of each graph, the last one loaded, with what models prepared on it and their
    last solutions. After a task the longest unused graphs are dropped until the process is back
    within ``memory_bytes`` of resident memory. Large products use ``n_threads``, on which results
    do not depend.
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
        self._graphs: OrderedDict[str, WarmGraph] = OrderedDict()

    @property
    def n_graphs(self) -> int:
        """Graphs in memory."""
        return len(self._graphs)

    @contextmanager
    def within_memory(self) -> Iterator[None]:
        """Context of a task, after which the process comes back to its memory.

        Raises ValueError if a Gram matrix does not fit beside the graph used last.
        """
        try:
            yield
        except GramTooLarge as error:
            meta = next(reversed(self._graphs.values())).snapshot.meta
            raise ValueError(refusal(error, self._memory_bytes, meta)) from error
        finally:
            self._keep_order()
            self._shrink()

    def load(self, task: LabelsTask) -> WarmGraph:
        """The snapshot and the node index, from memory if they were the graph's last ones.

        An older snapshot is dropped before the newer one is loaded, so that both are never in
        memory together. Last solutions stay, since a node keeps its dense id.
        """
        known = self._graphs.pop(task.graph_id, None)
        if known is None or known.snapshot.meta.number != task.snapshot:
            last, bequests = {}, {}
            if known is not None:
                last, bequests = known.last, known.bequests
                bequests |= {
                    kind: each.model.bequest(each.value) for kind, each in known.prepared.items()
                }
            del known
            paths = GraphPaths(root=task.graph_directory)
            store = SnapshotStore(paths.snapshots)
            snapshot = store.load(task.snapshot)
            nodes = open_nodes(
                paths.nodes,
                kind=snapshot.meta.node_kind,
                n_nodes=snapshot.meta.n_nodes,
                max_nodes=MAX_NODES,
                writable=False,
            )
            known = WarmGraph(
                store=store, snapshot=snapshot, nodes=nodes, last=last, bequests=bequests
            )
        self._graphs[task.graph_id] = known
        return known

    def prepared(self, task: LabelsTask, graph: WarmGraph, model: Model) -> tuple[Any, bool]:
        """What the model prepared on the graph and its features, and whether it was there."""
        graph.forget_features_but(task.features_version)
        kind = model.preparation or type(model).__name__
        if kind in graph.prepared:
            return graph.prepared[kind].value, True
        value = self.prepared_alone(task, graph.snapshot.graph, model, graph)
        model.inherit(value, graph.bequests.pop(kind, None))
        graph.prepared[kind] = _Prepared(
            model=model,
            value=value,
            features_version=task.features_version if model.uses_features else None,
        )
        return value, False

    def prepared_alone(
        self, task: LabelsTask, instead: Graph, model: Model, graph: WarmGraph
    ) -> Any:
        """What the model prepares on another graph of the same nodes, which is not kept."""
        return model.prepare(
            instead,
            _features(task, model, graph.snapshot),
            parallel=self._pool.map,
            kept_bytes=kept_bytes(self._memory_bytes, model, graph.snapshot.meta),
        )

    def work_ahead(self, cancelled: Cancelled) -> bool:
        """Do part of what the next solve on the last used graph may need; False if none is left.

        Nothing is begun close to the memory limit, where it might push a graph out.
        """
        if not self._graphs or self._resident_bytes() > _AHEAD_MEMORY * self._memory_bytes:
            return False
        latest = next(reversed(self._graphs.values()))
        found = any(
            each.model.work_ahead(each.value, cancelled=cancelled)
            for each in latest.prepared.values()
        )
        self._shrink()
        return found

    def _keep_order(self) -> None:
        """Store the order of the last used graph with its snapshot, if the disk has room."""
        if self._graphs:
            used = next(reversed(self._graphs.values()))
            with suppress(OSError, SnapshotNotFound):  # it only saves the next process seconds
                used.store.keep_order(used.snapshot)

    def _shrink(self) -> None:
        while self._graphs and self._resident_bytes() > self._memory_bytes:
            self._graphs.popitem(last=False)
            gc.collect()


def _features(task: LabelsTask, model: Model, snapshot: Snapshot) -> FeatureRows | None:
    """Features of a snapshot's nodes; None if the model takes none or there are none."""
    if not model.uses_features or task.features_version == 0:
        return None
    store = FeatureStore(GraphPaths(root=task.graph_directory).features)
    return store.load(task.features_version, snapshot.meta.n_nodes)
