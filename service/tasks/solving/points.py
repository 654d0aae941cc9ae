"""Points of nodes for `auto`: kept beside the snapshot, and of all edges where some were dropped.

Decision: points of a thinned snapshot are made from all edges before a person's solve, in two
passes and one for degrees. Context: they need no labels, so that one making serves all solves on
the snapshot, and bring back three quarters of what thinning costs (`docs.benchmarks.strangers`).
Consequence: a first solve waits for the passes, as long as for some ten solves at most.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.progress import StageTimer
from peewit.service.tasks.solving.all_edges import all_edges
from peewit.service.tasks.solving.solve_memory import points_bytes
from peewit.service.tasks.warm_graphs import WarmGraph, WarmGraphs
from peewit.solvers.models.auto.point_arms import (
    FULL_COLUMNS,
    N_PASSES,
    points_by_passes,
    points_of,
)
from peewit.solvers.models.auto.preparation import PreparedAuto
from peewit.streaming.cluster.cluster_error import ClusterError
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotNotFound

_SECONDS_A_ROW: Final = 5e-7
_SECONDS_A_PRODUCT: Final = 2e-8
"""Of an edge in a pass, and of an edge and a column, on one core."""

_WORTH_SECONDS: Final = 10.0
_WORTH_SECONDS_A_NODE: Final = 2e-4
"""What passes may take, once a snapshot: about ten solves, or seventy edges a node."""

_LEAST_KEPT: Final = 100_000
"""Nodes above which points are kept on the disk: of fewer they are made in less than a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsGiven:
    """Of which edges points are, on a thinned snapshot."""

    stats: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def give_points(
    graphs: WarmGraphs,
    task: LabelsTask,
    graph: WarmGraph,
    prepared: PreparedAuto,
    stages: StageTimer,
    *,
    max_passes: int,
    makes_own: bool = False,
) -> PointsGiven:
    """Points of ``prepared``, if they are kept, or if all edges are worth their passes.

    An answer that ``makes_own`` reads all edges afterwards, and makes points from them.
    """
    meta = graph.snapshot.meta
    if not prepared.has_full_points:
        _take_kept(graph, prepared)
    if meta.is_whole:
        return PointsGiven()
    warnings: tuple[str, ...] = ()
    if (
        not prepared.has_full_points
        and max_passes >= N_PASSES
        and is_worth_passes(task, meta)
        and graphs.leaves_room(graph, points_bytes(meta.n_nodes))
    ):
        try:
            _read_all_edges(task, graph, prepared, stages)
        except (ValueError, OSError, ClusterError) as error:
            warnings = (f"points of nodes are of the edges kept alone: {error}",)
    made_of = "all edges" if prepared.has_full_points or makes_own else "edges kept"
    return PointsGiven(stats={"points": made_of}, warnings=warnings)


def _take_kept(graph: WarmGraph, prepared: PreparedAuto) -> None:
    """Points that are kept beside the snapshot, those of all edges first."""
    meta = graph.snapshot.meta
    for of_all_edges in (False,) if meta.is_whole else (True, False):
        if of_all_edges or prepared.points is None:
            rows = graph.store.points(meta, of_all_edges=of_all_edges)
            if rows is not None:
                prepared.points, prepared.has_full_points = points_of(rows), of_all_edges
                return


def is_worth_passes(task: LabelsTask, meta: SnapshotMeta) -> bool:
    """Whether somebody waits for the answer, and the passes cost no more than some solves."""
    seconds = (N_PASSES + 1) * _SECONDS_A_ROW + N_PASSES * FULL_COLUMNS * _SECONDS_A_PRODUCT
    worth = max(_WORTH_SECONDS, _WORTH_SECONDS_A_NODE * meta.n_nodes)
    return not task.is_automatic and seconds * meta.n_edges <= worth


def keep_points(graph: WarmGraph, prepared: PreparedAuto) -> None:
    """Keep points beside the snapshot for other processes, if the disk has room."""
    meta = graph.snapshot.meta
    is_worth_it = prepared.has_full_points or meta.n_nodes >= _LEAST_KEPT
    if prepared.points is None or not is_worth_it:
        return
    is_full, store = prepared.has_full_points, graph.store
    with suppress(OSError, SnapshotNotFound):  # it only saves the next process their making
        if store.lacks_points(meta, of_all_edges=is_full):
            rows = np.concatenate([points.rows for points in prepared.points.values()], axis=1)
            store.keep_points(meta, rows, of_all_edges=is_full)


def _read_all_edges(
    task: LabelsTask, graph: WarmGraph, prepared: PreparedAuto, stages: StageTimer
) -> None:
    """Make points from all edges."""
    with all_edges(graph, task, stages, max_passes=N_PASSES) as passes:
        prepared.points = points_by_passes(prepared, passes, passes.degrees(), stages.watch)
    prepared.has_full_points = True
