"""Counts among features: what nodes send and receive, beside what a table says of them.

Counts join features where there are some and several relations, or a relation is directed; a pass
over the raw edges makes them, which serves later solves, too. Without raw edges they are left out,
and that is told.
"""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from peewit.service.tasks.joined_counts import JoinedCounts
from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.progress import StageTimer
from peewit.service.tasks.solving.solve_options import SolveOptions
from peewit.service.tasks.warm_graphs import WarmGraph, WarmGraphs, table_rows
from peewit.solvers.arrays import BoolArray
from peewit.solvers.iteration_loop import ProgressReport
from peewit.solvers.models.contract.model import Model
from peewit.streaming.cluster.cluster_error import ClusterError
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.relation_counts import CountsStore, RelationCounts, count_arcs_of
from peewit.streaming.snapshots.provenance import SnapshotMeta

_LEAST_RELATIONS: Final = 2
_COLUMN_BYTES: Final = 2 * 4 * 4
"""Of a relation and node: four columns of four bytes, twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsFound:
    """Counts for a solve, and what is told of them."""

    joined: JoinedCounts | None
    stats: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def wants_counts(
    model: Model,
    options: SolveOptions,
    meta: SnapshotMeta,
    *,
    directed: Collection[str],
    features_version: int,
) -> bool:
    """Whether counts join the features of a solve."""
    if not (options.counts and model.takes_counts):
        return False
    is_directed = not set(directed).isdisjoint(meta.log_versions)
    return is_directed or (features_version > 0 and len(meta.relations) >= _LEAST_RELATIONS)


def unknown_relations(task: LabelsTask, model: Model, meta: SnapshotMeta) -> tuple[str, ...]:
    """A warning where relations are said to be directed that the snapshot lacks; else nothing."""
    unknown = sorted(set(task.directed).difference(meta.log_versions))
    if not unknown or not model.takes_counts:
        return ()
    known = ", ".join(filter(None, meta.log_versions)) or "none with a name"
    warning = (
        f"directed names {', '.join(unknown)}, of which the graph has no edge: its relations are "
        f"{known}; `peewit graph set NAME --directed RELATION` names others"
    )
    return (warning,)


def counts_bytes(meta: SnapshotMeta) -> int:
    """Memory of counts as columns, and once more as they are scaled."""
    return _COLUMN_BYTES * meta.n_nodes * len(meta.log_versions)


def found_counts(
    graphs: WarmGraphs,
    task: LabelsTask,
    graph: WarmGraph,
    is_asked: BoolArray | None,
    stages: StageTimer,
) -> CountsFound:
    """Counts of the snapshot, or of an earlier one of nearly the same edges, for a solve.

    They stay in memory with the graph. Without features the rows are of the nodes that ``is_asked``
    marks, (n_nodes,), or all.
    """
    key, of = (task.graph_id, "counts"), _made_of(task)
    known: _Kept | None = graphs.kept.get(key)
    if known is None or known.of != of:
        try:
            known = _Kept(of=of, joined=_joined(task, graph, is_asked, stages))
        except (OSError, ValueError, ClusterError) as error:
            warning = (
                "counts of what nodes send and receive are left out of the features, as all edges "
                f"are read for them: {error}"
            )
            return CountsFound(joined=None, warnings=(warning,))
        graphs.kept[key] = known
    joined = known.joined
    stats = {"n_counts": joined.n_columns, "counts_snapshot": joined.snapshot}
    return CountsFound(joined=joined, stats=stats)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kept:
    """Counts that later solves may use."""

    of: Hashable
    joined: JoinedCounts


def _made_of(task: LabelsTask) -> Hashable:
    directed, kinds = sorted(task.directed), sorted(task.answer_kinds)
    return task.snapshot, task.features_version, tuple(directed), tuple(kinds)


def _joined(
    task: LabelsTask, graph: WarmGraph, is_asked: BoolArray | None, stages: StageTimer
) -> JoinedCounts:
    paths, meta = GraphPaths(root=task.graph_directory), graph.snapshot.meta
    counts = CountsStore(paths).open()
    if counts is None or not counts.meta.serves(meta):
        counts = _counted(task, paths, meta, stages)
    table, is_encoded = table_rows(task, graph)
    nodes = None
    if table is not None:
        nodes = table.nodes
    elif is_asked is not None and not is_asked.all():
        nodes = np.flatnonzero(is_asked)
    of_nodes = np.arange(meta.n_nodes) if nodes is None else nodes
    return JoinedCounts.of(
        counts.rows(task.directed, of_nodes),
        table,
        is_encoded=is_encoded,
        nodes=nodes,
        snapshot=counts.meta.snapshot,
        directed=tuple(sorted(task.directed)),
        kinds=tuple(sorted(task.answer_kinds)),
    )


def _counted(
    task: LabelsTask, paths: GraphPaths, meta: SnapshotMeta, stages: StageTimer
) -> RelationCounts:
    tell: Callable[[ProgressReport], None] = stages.iteration

    def on_fraction(fraction: float) -> None:
        tell(ProgressReport(phase="counting", n_iter=0, max_iter=1, fraction=fraction))

    return count_arcs_of(
        paths,
        meta,
        attempt=f"{task.job_id}-{task.attempt}",
        keep_raw=task.keep_raw,
        n_threads=task.n_threads,
        scheduler=task.scheduler,
        on_fraction=on_fraction,
        cancelled=stages.watch.is_cancelled,
    )
