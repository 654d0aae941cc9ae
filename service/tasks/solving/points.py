"""Points of nodes for `auto`: kept beside the snapshot, and of all edges where some were dropped.

Decision: points of a thinned snapshot are made from all edges before a person's solve, in two
passes and one for degrees. Context: they need no labels, so that one making serves all solves on
the snapshot. Measured: on six dense graphs thinned to epsilon .7 they bring back nearly all that
thinning costs. Consequence: a first solve waits for the passes, where these cost no more than a few
solves would.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.progress import StageTimer
from peewit.service.tasks.solving.refine import all_edges
from peewit.service.tasks.warm_graphs import WarmGraph
from peewit.solvers.models.auto.point_arms import FULL_COLUMNS, points_by_passes, points_of
from peewit.solvers.models.auto.preparation import PreparedAuto
from peewit.streaming.cluster.cluster_error import ClusterError
from peewit.streaming.snapshots.store import SnapshotNotFound

N_PASSES: Final = 2
_SECONDS_A_ROW: Final = 5e-7
_SECONDS_A_PRODUCT: Final = 2e-8
"""Of an edge in a pass, and of an edge and a column, on one core."""

_WORTH_SECONDS: Final = 10.0
_WORTH_SECONDS_A_NODE: Final = 2e-4
"""What passes may take: a first solve takes a quarter of it."""

_LEAST_KEPT: Final = 100_000
"""Nodes above which points are kept on the disk: of fewer they are made in less than a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsGiven:
    """Of which edges points are, on a thinned snapshot."""

    stats: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def give_points(
    task: LabelsTask,
    graph: WarmGraph,
    prepared: PreparedAuto,
    stages: StageTimer,
    *,
    max_passes: int,
) -> PointsGiven:
    """Points of ``prepared``, if they are kept or all edges are worth their passes."""
    store, meta = graph.store, graph.snapshot.meta
    if prepared.points is None:
        kept = store.points(meta.number, of_all_edges=not meta.is_whole)
        if kept is not None:
            prepared.points = points_of(kept)
            prepared.has_full_points = not meta.is_whole
    if meta.is_whole:
        return PointsGiven()
    warnings: tuple[str, ...] = ()
    wants_passes = max_passes >= N_PASSES and is_worth_passes(task, graph)
    if not prepared.has_full_points and wants_passes:
        try:
            _read_all_edges(task, graph, prepared, stages)
        except (ValueError, OSError, ClusterError) as error:
            warnings = (f"points of nodes are of the edges kept alone: {error}",)
    made_of = "all edges" if prepared.has_full_points else "edges kept"
    return PointsGiven(stats={"points": made_of}, warnings=warnings)


def is_worth_passes(task: LabelsTask, graph: WarmGraph) -> bool:
    """Whether somebody waits for the answer, and the passes cost no more than a few solves."""
    meta = graph.snapshot.meta
    seconds = (N_PASSES + 1) * _SECONDS_A_ROW + N_PASSES * FULL_COLUMNS * _SECONDS_A_PRODUCT
    worth = max(_WORTH_SECONDS, _WORTH_SECONDS_A_NODE * meta.n_nodes)
    return not task.is_automatic and seconds * meta.n_edges <= worth


def keep_points(graph: WarmGraph, prepared: PreparedAuto) -> None:
    """Keep points beside the snapshot for other processes, if the disk has room."""
    number = graph.snapshot.meta.number
    if prepared.points is None or (
        graph.snapshot.meta.n_nodes < _LEAST_KEPT and not prepared.has_full_points
    ):
        return
    rows = np.concatenate([points.rows for points in prepared.points.values()], axis=1)
    with suppress(OSError, SnapshotNotFound):  # it only saves the next process their making
        graph.store.keep_points(number, rows, of_all_edges=prepared.has_full_points)


def _read_all_edges(
    task: LabelsTask, graph: WarmGraph, prepared: PreparedAuto, stages: StageTimer
) -> None:
    """Make points from all edges."""
    with all_edges(graph, task, stages, max_passes=N_PASSES) as passes:
        prepared.points = points_by_passes(prepared, passes, passes.degrees(), stages.watch)
    prepared.has_full_points = True
