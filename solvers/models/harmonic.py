"""Harmonic functions: HFS (hard and soft) and Stable-HFS, of classes or numbers, on any graph.

On every component labels are centred with that component's mean, and the mean is added to the
scores again; so one linear system serves both models, with or without the zero-sum constraint.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from solvers.arrays import BoolArray, FloatArray
from solvers.graph import Graph
from solvers.iterate import Cancelled, Progress
from solvers.labels import Labels, Targets
from solvers.laplacian.full_graph import FullSystem
from solvers.laplacian.solver import LaplacianSolver, LinearSolution
from solvers.models.base import (
    RegressionModel,
    Rule,
    ScoreKind,
    check_targets,
    hyperparameter,
    refuse_features,
)
from solvers.models.class_mass import normalized_masses
from solvers.models.leave_one_out import LabeledKernel, choose_penalty
from solvers.models.refining import Refinable
from solvers.solution import Solution, Status

_KERNEL_RTOL = 1e-4
_KERNEL_MAX_ITER = 10_000
_RTOL = Rule(doc="Relative residual asked of the linear solves.", above=0.0, below=1.0)
_MAX_ITER = Rule(doc="Limit on the iterations of one linear solve.", kind=int, minimum=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedGraph:
    """What the harmonic models keep of a graph.

    Attributes
    ----------
    graph : Graph
        The graph itself.
    kernel : LabeledKernel
        For the choice of the penalty; it grows with the labels seen.
    """

    graph: Graph
    kernel: LabeledKernel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """Labels on a graph, centred per component.

    ``baseline`` (n_components, n_classes) holds the mean target of each component, the class
    prior where there is no label; ``centred`` (n_labeled, n_classes) the targets minus it.
    """

    graph: Graph
    labels: Targets
    baseline: FloatArray
    centred: FloatArray
    reachable: BoolArray

    @classmethod
    def of_labels(cls, graph: Graph, labels: Targets) -> "_Task":
        targets, component = labels.targets(), graph.component[labels.nodes]
        counts = np.bincount(component, minlength=graph.n_components)
        baseline = np.tile(labels.mean_target(), (graph.n_components, 1))
        sums = np.zeros_like(baseline)
        np.add.at(sums, component, targets)
        np.divide(sums, counts[:, None], out=baseline, where=counts[:, None] > 0)
        return cls(
            graph=graph,
            labels=labels,
            baseline=baseline,
            centred=targets - baseline[component],
            reachable=counts[graph.component] > 0,
        )

    def on_nodes(self, values: FloatArray) -> FloatArray:
        """(n_nodes, n_classes) with ``values`` at the labeled nodes and 0 elsewhere."""
        block = np.zeros((self.graph.n_nodes, self.labels.n_columns))
        block[self.labels.nodes] = values
        return block


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """Who is told and who is asked while a solve runs."""

    progress: Progress | None
    cancelled: Cancelled | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Harmonic(Refinable, RegressionModel):
    """What both models share: preparation, checks, the choice of the penalty, the answer's form."""

    graph_penalty: float | Literal["auto"]
    rtol: float
    max_iter: int

    is_stable: ClassVar[bool]

    def prepare(self, graph: Graph, features: Any = None) -> PreparedGraph:
        """The graph and an unshifted solver on it; little is paid before labels come.

        Raises
        ------
        ValueError
            ``features`` is not None.
        """
        refuse_features(type(self).__name__, features)
        solver = LaplacianSolver(graph, rtol=_KERNEL_RTOL, max_iter=_KERNEL_MAX_ITER)
        return PreparedGraph(graph=graph, kernel=LabeledKernel(solver=solver))

    def solve(
        self,
        prepared: PreparedGraph,
        labels: Targets,
        *,
        start: Solution | None = None,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Solution:
        """Scores of every node; see `solvers.models.base.RegressionModel.solve`.

        A start serves when its scores have the shape of the answer: PCG starts from what they
        are above the labels' component means.
        """
        check_targets(labels, prepared.graph)
        task = _Task.of_labels(prepared.graph, labels)
        watch = _Watch(progress=progress, cancelled=cancelled)
        offset_rows = self._offset(task)[prepared.graph.component]
        first = None
        if start is not None and start.scores.shape == offset_rows.shape:
            first = start.scores - offset_rows
        penalty, stats, choice_status = self._penalty(prepared, labels, watch)
        status: Status = choice_status
        function = np.zeros_like(offset_rows) if first is None else first
        if choice_status is not Status.CANCELLED:
            solution, function = self._function(task, penalty, first, watch)
            status = choice_status if solution.status is Status.CONVERGED else solution.status
            stats |= {
                "n_iter": solution.n_iter,
                "residual": float(solution.residual.max(initial=0.0)),
                "preconditioner": solution.preconditioner,
            }
        scores = self._weighed(function + offset_rows, task)
        scores[~task.reachable] = labels.mean_target()
        return Solution(scores=scores, reachable=task.reachable, status=status, stats=stats)

    def full_system(
        self, prepared: PreparedGraph, labels: Targets, solution: Solution
    ) -> FullSystem:
        """D1, or (C1) with the penalty that was used; see `solvers.models.refining.Refinable`."""
        task = _Task.of_labels(prepared.graph, labels)
        penalty = float(solution.stats["graph_penalty"])
        function = solution.scores - self._offset(task)[prepared.graph.component]
        function[~task.reachable] = 0.0
        known = task.on_nodes(task.centred)
        on_labels = task.on_nodes(np.ones((labels.n_labeled, 1)))[:, 0]
        if penalty == 0:
            return FullSystem(
                sparsifier=prepared.graph,
                scale=1.0,
                shift=np.zeros_like(on_labels),
                zero_mean=False,
                rhs=np.zeros_like(known),
                known=known,
                held=on_labels > 0,
                start=function,
                rtol=self.rtol,
            )
        kappa = penalty * labels.n_labeled
        pulled = kappa * prepared.graph.laplacian_product(known)
        follows_labels = np.linalg.norm(pulled) < np.linalg.norm(known)  # as in `_soft`
        return FullSystem(
            sparsifier=prepared.graph,
            scale=kappa,
            shift=on_labels,
            zero_mean=self.is_stable,
            rhs=known,
            known=known if follows_labels else None,
            start=function - known if follows_labels else function,
            rtol=self.rtol,
        )

    def full_scores(self, prepared: PreparedGraph, labels: Targets, x: FloatArray) -> FloatArray:
        """Scores from the harmonic function of the centred labels."""
        task = _Task.of_labels(prepared.graph, labels)
        scores = self._weighed(x + self._offset(task)[prepared.graph.component], task)
        scores[~task.reachable] = labels.mean_target()
        return scores

    def _offset(self, task: _Task) -> FloatArray:
        """(n_components, n_classes) what scores are above the harmonic function."""
        shows_class_scores = self.is_stable and isinstance(task.labels, Labels)
        return task.baseline - task.labels.mean_target() if shows_class_scores else task.baseline

    def _weighed(self, scores: FloatArray, task: _Task) -> FloatArray:  # noqa: ARG002 - for HFS
        """The scores, with class masses put right where a model asks for that."""
        return scores

    def _function(
        self, task: _Task, penalty: float, first: FloatArray | None, watch: _Watch
    ) -> tuple[LinearSolution, FloatArray]:
        """The harmonic function of the centred labels."""
        if penalty == 0:
            return _hard(task, first, self.rtol, self.max_iter, watch)
        return self._soft(task, penalty, first, watch)

    def _penalty(
        self, prepared: PreparedGraph, labels: Targets, watch: _Watch
    ) -> tuple[float, dict[str, float | int | str], Status]:
        """The penalty to use, what to record of it, and how its choice ended."""
        if self.graph_penalty != "auto":
            return self.graph_penalty, {"graph_penalty": self.graph_penalty}, Status.CONVERGED
        choice = choose_penalty(
            prepared.kernel,
            labels,
            zero_mean=self.is_stable,
            progress=watch.progress,
            cancelled=watch.cancelled,
        )
        stats: dict[str, float | int | str] = {"graph_penalty": choice.graph_penalty}
        stats |= choice.figures()
        return choice.graph_penalty, stats, choice.status

    def _soft(
        self, task: _Task, penalty: float, first: FloatArray | None, watch: _Watch
    ) -> tuple[LinearSolution, FloatArray]:
        """Solve M f = centred labels, M = kappa L + I_S (C1), with zero sums for Stable-HFS (D4).

        With a small kappa f nearly equals the labels on S, and a residual measured against them
        would not see the other nodes. Then the unknown is what f is above the labels.
        """
        kappa = penalty * task.labels.n_labeled
        solver = LaplacianSolver(
            task.graph,
            scale=kappa,
            shift=task.on_nodes(np.ones((task.labels.n_labeled, 1)))[:, 0],
            zero_mean=self.is_stable,
            rtol=self.rtol,
            max_iter=self.max_iter,
        )
        known = task.on_nodes(task.centred)
        pulled = kappa * task.graph.laplacian_product(known)
        follows_labels = np.linalg.norm(pulled) < np.linalg.norm(known)
        base = known if follows_labels else np.zeros_like(known)
        solution = solver.solve(
            -pulled if follows_labels else known,
            None if first is None else first - base,
            project=True,
            phase="scores",
            progress=watch.progress,
            cancelled=watch.cancelled,
        )
        return solution, solution.x + base


@dataclass(frozen=True, slots=True, kw_only=True)
class HFS(_Harmonic):
    """Harmonic functions of Zhu, Ghahramani and Lafferty (2003), hard or soft (D1, D2).

    Minimises the mean squared miss on the labels plus graph_penalty * f^T L f; with
    graph_penalty 0 the labels are kept exactly. Scores of classes lie in [0, 1] and sum to 1,
    numbers between the least and the greatest label. At a few labels per class on a large graph
    they flatten out: class masses normalised by the labels repair that while labels come about
    equally from all classes, `StableHFS` and `solvers.models.harmonic_mbo.HarmonicMBO` in any case.
    """

    graph_penalty: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Weight of smoothness against the labels; 0 keeps the labels exactly, 'auto' "
            "chooses it by leave-one-out.",
            minimum=0.0,
            words=("auto",),
        ),
    )
    class_mass: Literal["none", "labels"] = hyperparameter(
        "none",
        Rule(
            doc="'labels' scales each class to the share of the nodes that its labels have "
            "(class-mass normalisation), 'none' leaves scores as they are.",
            kind=str,
            words=("none", "labels"),
        ),
    )
    rtol: float = hyperparameter(1e-6, _RTOL)
    max_iter: int = hyperparameter(10_000, _MAX_ITER)

    is_stable: ClassVar[bool] = False
    score_kind: ClassVar[ScoreKind] = "probability"

    def _weighed(self, scores: FloatArray, task: _Task) -> FloatArray:
        if self.class_mass == "none" or not isinstance(task.labels, Labels):
            return scores
        return normalized_masses(scores, task.labels, task.graph)


@dataclass(frozen=True, slots=True, kw_only=True)
class StableHFS(_Harmonic):
    """Stable-HFS of Belkin, Matveeva and Niyogi (2004): soft, centred, zero sum (D3).

    On each component the labels are centred with that component's mean, f sums to zero, and the
    component's scores are f + (its label mean - the mean of all labels): on a connected graph
    exactly (D3). So a component whose labels agree predicts their class. Scores are class
    scores around 0, not probabilities; numbers are f + the component's label mean.
    """

    graph_penalty: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Weight of smoothness against the labels; 'auto' chooses it by leave-one-out.",
            above=0.0,
            words=("auto",),
        ),
    )
    rtol: float = hyperparameter(1e-6, _RTOL)
    max_iter: int = hyperparameter(10_000, _MAX_ITER)

    is_stable: ClassVar[bool] = True


def _hard(
    task: _Task, first: FloatArray | None, rtol: float, max_iter: int, watch: _Watch
) -> tuple[LinearSolution, FloatArray]:
    """Solve L_UU f_U = A_US y_S (D1): the Laplacian of the unlabeled part, shifted by A_US 1."""
    free = np.ones(task.graph.n_nodes, dtype=bool)
    free[task.labels.nodes] = False
    rows = task.graph.adjacency[free]
    to_labels = rows[:, task.labels.nodes]
    solver = LaplacianSolver(
        Graph.from_adjacency(rows[:, free]),
        shift=to_labels.sum(axis=1),
        rtol=rtol,
        max_iter=max_iter,
    )
    solution = solver.solve(
        to_labels @ task.centred,
        None if first is None else first[free],
        project=True,
        phase="scores",
        progress=watch.progress,
        cancelled=watch.cancelled,
    )
    function = task.on_nodes(task.centred)
    function[free] = solution.x
    return solution, function
