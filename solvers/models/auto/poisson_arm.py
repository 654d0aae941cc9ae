"""Potentials: Poisson learning with all labels and without each fold, from columns of L^+."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int64Array,
    IntArray,
    RealArray,
)
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.laplacian.walks.local_start import MOST_NODES, correct_near
from peewit.solvers.models.auto.preparation import (
    LARGEST,
    PreparedAuto,
    indicators,
    tolerance,
    without_mean,
)
from peewit.solvers.models.auto.stacked_arm import StackedArm
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.left_out.label_groups import LabelGroups, Starts
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.status import Status, first_failure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Potentials:
    """Poisson learning with all labels, and without each fold.

    ``columns`` are L^+ of the groups times the mean degree, of mean 0 by degree on each component.
    """

    groups: LabelGroups
    graph: Graph
    task: CenteredLabels
    columns: Float32Array  # (n_groups, n_nodes)
    scores: FloatArray  # (n_nodes, n_classes), with all labels
    status: Status
    stats: dict[str, float | int | str]

    @classmethod
    def of(
        cls,
        prepared: PreparedAuto,
        groups: LabelGroups,
        watch: Watch,
        *,
        rtol: float,
        max_iter: int,
    ) -> "Potentials":
        """Potentials of ``groups``; raises `RunStopped`."""
        graph, solver = prepared.graph, prepared.base.kernel.solver
        is_blind = solver.eliminates or solver.is_blind  # only bounds tell whether rounding decides
        solver_run = _ColumnSolver(
            prepared=prepared,
            watch=watch,
            rtol=rtol if is_blind else tolerance(rtol, graph.n_nodes),
            max_iter=max_iter,
        )
        columns = prepared.potential_columns.of(groups, solver_run.columns)
        if solver_run.status is not Status.CONVERGED:
            prepared.potential_columns.by_nodes.clear()
        if is_blind:
            bounded = Poisson(rtol=rtol, max_iter=max_iter)
            _, solution = bounded.poisson(prepared.base, groups.labels, None, watch)
            solver_run.status = first_failure(solver_run.status, solution.status)
        task = CenteredLabels.of(groups.labels, graph.component)
        return cls(
            groups=groups,
            graph=graph,
            task=task,
            columns=columns,
            scores=_potential(columns, groups.class_sums(), task, task.component),
            status=solver_run.status,
            stats={
                "n_iter": solver_run.n_iter,
                "residual": solver_run.residual,
                "preconditioner": prepared.base.kernel.solver.chosen,
            },
        )

    def graph_weights(self, degree: FloatArray) -> FloatArray:
        """(n_nodes,) shares of ``degree`` in their components; of isolated nodes 0."""
        total = np.bincount(self.graph.component, degree, self.graph.n_components)
        return np.asarray(degree / np.where(total > 0, total, 1.0)[self.graph.component])

    def without(self, fold: int) -> tuple[CenteredLabels, FloatArray]:
        """The labels of the other folds, and their scores."""
        task = CenteredLabels.of(self.groups.without(fold), self.graph.component)
        sums = self.groups.class_sums(self.groups.fold != fold)
        return task, _potential(self.columns, sums, task, task.component)

    def arm(self) -> StackedArm:
        """Poisson learning as an arm."""
        groups, labels = self.groups, self.groups.labels
        left_out_nodes, folds = groups.left_out_nodes, groups.left_out_folds
        left_out = np.zeros((left_out_nodes.size, labels.n_classes))
        if groups.is_single:
            left_out[groups.usable] = self._left_out_scores()
            left_out[labels.n_labeled :] = self.scores[groups.stand_ins]
        else:
            for fold in range(groups.n_folds):
                is_out = folds == fold
                nodes, sums = left_out_nodes[is_out], groups.class_sums(groups.fold != fold)
                task = CenteredLabels.of(groups.without(fold), self.graph.component)
                own = task.component[nodes]
                scores = _potential(self.columns[:, nodes], sums, task, own)
                left_out[is_out] = np.where(task.counts[own, None] > 0, scores, 0.0)
        return _compress(self.scores, left_out, self.task.reachable)

    def _left_out_scores(self) -> FloatArray:
        """(n_usable, n_classes) scores of every label by all the others."""
        labels, component = self.groups.labels, self.graph.component
        at_labels = self.columns[:, labels.nodes].astype(np.float64)
        np.fill_diagonal(at_labels, 0.0)
        together = component[labels.nodes][:, None] == component[labels.nodes]
        np.fill_diagonal(together, val=False)
        targets = labels.targets()
        counts = together @ targets
        means = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        scores = at_labels.T @ targets - means * at_labels.sum(axis=0)[:, None]
        lowest = np.where(counts > 0, scores, np.inf).min(axis=1, keepdims=True)
        scores = np.where(counts > 0, scores, lowest)
        scores[counts.sum(axis=1) == 0] = 0.0
        return np.asarray(scores[self.groups.usable])


@dataclass(slots=True, kw_only=True, eq=False)
class _ColumnSolver:
    prepared: PreparedAuto
    watch: Watch
    rtol: float
    max_iter: int
    status: Status = Status.CONVERGED
    n_iter: int = 0
    residual: float = 0.0

    def columns(self, members: list[Int64Array], starts: Starts | None) -> Float32Array:
        """(n_groups, n_nodes) columns of some groups, from first iterates if there are any."""
        graph, kernel = self.prepared.graph, self.prepared.base.kernel
        columns = np.empty((len(members), graph.n_nodes), np.float32)
        solver, unit = self._solver()
        width = self.prepared.width
        if kernel.solver.eliminates or kernel.solver.is_blind:
            starts = None  # residuals would not tell what is wrong with them
        for first in range(0, len(members), width):
            some = members[first : first + width]
            begun = None
            if starts is not None:
                near = starts.columns[first : first + width]
                self._correct(some, near, starts.changed[first : first + width])
                begun = near.T / unit
            solution = solver.solve(
                indicators(some, graph.n_nodes, solver.dtype),
                begun,
                project=True,
                phase="potentials",
                progress=self.watch.progress,
                cancelled=self.watch.cancelled,
                overwrite=True,
            )
            self.watch.check()
            self.status = first_failure(self.status, solution.status)
            self.n_iter += solution.n_iter
            self.residual = max(self.residual, float(solution.residual.max(initial=0.0)))
            columns[first : first + len(some)] = center(solution.x, graph, unit)
        kernel.learn(solver.hierarchy)
        return columns

    def _correct(
        self, members: list[Int64Array], near: Float32Array, changed: list[Int64Array]
    ) -> None:
        """Correct ``near``, columns of L^+, in place around the nodes that have changed."""
        whole, base = self.prepared.graph, self.prepared.base
        if not whole.fits_single or all(nodes.size > MOST_NODES for nodes in changed):
            return
        graph, order = base.near_in_memory()
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        adjacency, unit = graph.adjacency, mean_degree(whole)
        degree = whole.degree[order].astype(np.float32)
        matrix = adjacency.indptr, adjacency.indices, graph.weight_in_single, degree
        sizes = whole.component_sizes()
        for place, (group, nodes) in enumerate(zip(members, changed, strict=True)):
            if 0 < nodes.size <= MOST_NODES:
                counts = np.bincount(whole.component[group], minlength=whole.n_components)
                rhs = (-unit * counts / sizes)[whole.component[order]].astype(np.float32)
                rhs[rank[group]] += np.float32(unit)
                column = near[place][order]
                enough = self.rtol * unit * np.sqrt(group.size / unit)
                correct_near(matrix, rhs, column, rank[nodes], enough)
                near[place][order] = column

    def _solver(self) -> tuple[LaplacianSolver, float]:
        """A solver, in float32 unless residuals are blind, and the unit of its potentials."""
        solver, unit = self.prepared.base.kernel.solver, mean_degree(self.prepared.graph)
        if solver.eliminates or solver.is_blind:
            solver.rtol, solver.max_iter = self.rtol, self.max_iter
            return solver, unit
        single = LaplacianSolver(
            solver.graph,
            scale=1.0 / unit,
            rtol=self.rtol,
            max_iter=self.max_iter,
            dtype=np.float32,
            hierarchy=solver.hierarchy,
            parallel=solver.parallel,
        )
        return single, 1.0


def mean_degree(graph: Graph) -> float:
    """The mean degree; 1 where there are no edges."""
    return float(graph.degree.mean()) or 1.0


def center(block: RealArray, graph: Graph, unit: float) -> Float32Array:
    """(k, n_nodes) columns of L^+ times ``unit``, of mean 0 by degree."""
    total = np.bincount(graph.component, graph.degree, graph.n_components)
    by_degree = graph.degree / np.where(total > 0, total, 1.0)[graph.component]
    columns = np.empty(block.shape[::-1], np.float32)
    for place, column in enumerate(block.T):
        means = np.bincount(graph.component, by_degree * column, graph.n_components)
        settled = (column - means[graph.component]) * unit
        columns[place] = np.clip(settled, -LARGEST, LARGEST)
    return columns


def _potential(
    columns: Float32Array, sums: FloatArray, task: CenteredLabels, component: IntArray
) -> FloatArray:
    """(n_some, n_classes) Poisson learning (H1) at some nodes, from the columns of groups.

    ``component`` is that of these nodes. Classes absent from a component get the score of the
    lowest class present.
    """
    single, lacks = sums.astype(np.float32), task.lacks
    lacks_any = np.asarray(lacks.any(axis=1))
    scores = np.empty((columns.shape[1], len(sums)))
    for rows in row_blocks(len(scores)):
        block, own = scores[rows], component[rows]
        of_class = (single @ columns[:, rows]).T.astype(np.float64)
        block[...] = of_class - task.means[own] * (of_class @ np.ones((len(sums), 1)))
        lacking = np.flatnonzero(lacks_any[own])
        absent, raised = lacks[own[lacking]], block[lacking]
        lowest = np.where(absent, np.inf, raised).min(axis=1, keepdims=True)
        block[lacking] = np.where(absent & np.isfinite(lowest), lowest, raised)
    return scores


@dataclass(frozen=True, slots=True)
class Bend:
    """How potentials are compressed: they have spikes at labels, which a fit must not follow."""

    typical: float  # size from which on they are
    size: float  # that values have before they are divided by it

    @classmethod
    def made(cls, scores: FloatArray, reachable: BoolArray) -> tuple["Bend", Float32Array]:
        """By the potentials of all nodes, and these bent but not divided, with rows of mean 0."""
        centered = _subtract_means(scores, reachable)
        typical = float(np.median(np.abs(centered[reachable]))) or 1.0
        values = without_mean(np.arcsinh(centered / np.float32(typical), out=centered))
        return cls(typical=typical, size=_size(values[reachable])), values

    def values(self, centered: FloatArray) -> FloatArray:
        """Of potentials less the mean of their node."""
        bent: FloatArray = np.arcsinh(centered / self.typical) / self.size
        return bent


def _compress(scores: FloatArray, left_out: FloatArray, reachable: BoolArray) -> StackedArm:
    """Potentials as an arm, compressed."""
    bend, values = Bend.made(scores, reachable)
    values /= np.float32(bend.size)
    bent = bend.values(left_out - left_out.mean(axis=1, keepdims=True))
    return StackedArm(values=values, left_out=bent - bent.mean(axis=1, keepdims=True))


def scaled(scores: FloatArray, left_out: FloatArray, reachable: BoolArray) -> StackedArm:
    """Class scores as an arm, of root mean square 1."""
    values = _subtract_means(scores, reachable)
    size = _size(values[reachable])
    values /= np.float32(size)
    away = left_out - left_out.mean(axis=1, keepdims=True)
    return StackedArm(values=values, left_out=away / size)


def _subtract_means(scores: FloatArray, reachable: BoolArray) -> Float32Array:
    """Rows of mean 0; zeros where nothing is asked."""
    values = np.zeros(scores.shape, np.float32)
    for rows in row_blocks(len(scores)):
        np.multiply(without_mean(scores[rows]), reachable[rows, None], out=values[rows])
    return values


def _size(values: Float32Array) -> float:
    return float(np.sqrt(np.square(values, dtype=np.float64).mean())) or 1.0
