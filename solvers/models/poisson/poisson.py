"""Poisson learning: labels as sources and sinks, for very few labels per class.

Labels are centered with the mean of their component. A class without label in a component gets
scores below those of all others there.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.kernels.laplacian_products import component_sums
from peewit.solvers.labels import Labels, Targets
from peewit.solvers.laplacian.solver import LinearSolution
from peewit.solvers.laplacian.unsparsified_system import FullDegrees, FullSystem
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.classes.certainty import uncertain
from peewit.solvers.models.classes.class_balance import (
    BALANCE_DOC,
    ClassShares,
    balance_warnings,
    class_offsets,
    read_class_shares,
    share_miss,
)
from peewit.solvers.models.contract.graph_model import GraphModel, PreparedGraph
from peewit.solvers.models.contract.laplacian_kernel import accepted
from peewit.solvers.models.contract.model import as_classes, check_labels
from peewit.solvers.models.contract.provable_model import LinearModelOfEdges
from peewit.solvers.models.contract.refinable_model import Degrees
from peewit.solvers.models.harmonic.label_shares import LinearModel
from peewit.solvers.proof.readings import Misses, Reader, Reading, shares_of_components
from peewit.solvers.solution import Decisive, Solution
from peewit.solvers.status import Status, first_failure

_BALANCE: Final = Rule(doc=BALANCE_DOC, kind=str, words=("none", "labels"), takes_shares=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonModel(GraphModel):
    """What Poisson learning and PoissonMBO share: the Poisson equation, and class sizes."""

    rtol: float = hyperparameter(
        1e-6, Rule(doc="Relative residual asked of the linear solves.", above=0.0, below=1.0)
    )
    max_iter: int = hyperparameter(
        10_000, Rule(doc="Limit on the iterations of one linear solve.", kind=int, minimum=1)
    )
    class_balance: ClassShares = hyperparameter("none", _BALANCE)

    def poisson(
        self, prepared: PreparedGraph, labels: Labels, start: Solution | None, watch: Watch
    ) -> tuple[CenteredLabels, Solution]:
        """The centered labels and the solution of (H1), with class weights 1."""
        task = CenteredLabels.of(labels, prepared.graph.component)
        absent = task.absent
        first = None
        if start is not None and start.scores.shape == absent.shape:
            first = np.where(absent, 0.0, start.scores)
        linear = self.potential(prepared, task, first, watch)
        potential = linear.x.astype(np.float64, copy=False)
        scores = _settle(potential, prepared.graph.degree, task, absent)
        status = linear.status
        stats: dict[str, float | int | str] = {
            "n_iter": linear.n_iter,
            "residual": float(linear.residual.max(initial=0.0)),
            "preconditioner": linear.preconditioner,
        }
        if linear.bound is not None:
            is_uncertain = task.reachable & uncertain(
                scores,
                np.where(absent, 0.0, linear.bound),
                labels,
                keeps_margins=self.class_balance == "none",
            )
            stats["n_uncertain"] = int(np.count_nonzero(is_uncertain))
            ended = Status.CONVERGED if status is Status.ILL_CONDITIONED else status
            certainty = Status.ILL_CONDITIONED if is_uncertain.any() else Status.CONVERGED
            status = first_failure(ended, certainty)
        return task, task.solution(scores, status, stats)

    def potential(
        self, prepared: PreparedGraph, task: CenteredLabels, first: FloatArray | None, watch: Watch
    ) -> LinearSolution:
        """The solution of (H1) for the values of the task, from kept columns if exact enough."""
        nodes, sources, kernel = task.labels.nodes, task.values, prepared.kernel
        kernel.solver.max_iter = self.max_iter
        is_warm = first is not None
        if prepared.has_columns(nodes, sources.shape[1], is_warm=is_warm, watch=watch):
            made = kernel.potential(nodes, sources)
            if made is not None:
                exact = accepted(made.residual, sources, made.values, self.rtol)
                if exact is not None:
                    return exact
                first = made.values
        kernel.solver.rtol = self.rtol
        if kernel.solver.eliminates:
            return kernel.solver.eliminated(task.on_nodes(sources), prepared.graph.degree)
        solution = kernel.solver.solve(
            task.on_nodes(sources),
            first,
            project=True,
            phase="scores",
            progress=watch.progress,
            cancelled=watch.cancelled,
        )
        if kernel.solver.is_blind:
            return kernel.solver.bounded(solution, task.on_nodes(sources))
        return solution


def _settle(
    potential: FloatArray, degree: FloatArray, task: CenteredLabels, absent: BoolArray
) -> FloatArray:
    """``potential`` with sum_i d_i u_i = 0 on every component, and low absent classes (H1).

    These scores are minus the largest absolute score, or -1 if all are zero.
    """
    means = np.zeros_like(task.means)
    np.add.at(means, task.component, degree[:, None] * potential)
    total = np.bincount(task.component, degree, len(means))
    means /= np.where(total > 0, total, 1.0)[:, None]
    scores = potential - means[task.component]  # sum_i d_i u_i = 0
    largest = float(np.abs(scores[task.reachable]).max(initial=0.0))
    scores[absent] = -(largest or 1.0)
    return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Poisson(PoissonModel, LinearModel, LinearModelOfEdges):
    """Poisson learning of Calder, Cook, Thorpe and Slepcev (2020), on any graph.

    Solves L u = sum_S (y_j - ybar) delta_j with sum_i d_i u_i = 0 (H1): labels are sources of their
    class and sinks of the others. Scores are class scores around 0 in units of 1 / weight, not
    probabilities. It holds at one label per class; from about five on, models that keep the labels
    do better. Balancing helps where classes are of equal size and hurts badly where they are not:
    on USPS digits, whose largest class has twice the nodes of the smallest, it costs 10 points.

    Notes
    -----
    One linear solve for all classes with the graph's own Laplacian. A start serves when its scores
    have the shape of the answer.
    """

    def solve_watched(
        self, prepared: PreparedGraph, labels: Labels, start: Solution | None, watch: Watch
    ) -> Solution:
        """Scores of every node; see `Model.solve`.

        With class balance, offsets of the classes are added to the scores; ``share_miss`` in the
        stats is the most that the share of a class is off by.
        """
        check_labels(labels, prepared.graph)
        task, solution = self.poisson(prepared, labels, start, watch)
        if solution.status is Status.CANCELLED:
            return solution
        solution = self._balance(labels, task, solution)
        decisive = Decisive(
            values=solution.scores,
            shift=np.zeros(prepared.graph.n_nodes),
            is_reached=task.reachable,
            is_free=task.reachable,
            name="potentials",
            hierarchy=prepared.kernel.solver.hierarchy,
        )
        return replace(solution, decisive=decisive)

    def as_chosen(self, solution: Solution) -> "Poisson":  # noqa: ARG002 - nothing is chosen
        """Without class balance."""
        return replace(self, class_balance="none")

    def reads_as_they_are(self, solution: Solution) -> bool:  # noqa: ARG002 - as asked
        """Whether scores are potentials."""
        return self.class_balance == "none"

    def full_system(
        self, prepared: PreparedGraph, labels: Targets, solution: Solution
    ) -> FullSystem:
        """That of (H1)."""
        task = CenteredLabels.of(labels, prepared.graph.component)
        return FullSystem(
            sparsifier=prepared.graph,
            scale=1.0,
            shift=np.zeros(prepared.graph.n_nodes),
            zero_mean=False,
            rhs=task.on_nodes(task.values),
            start=np.where(task.absent, 0.0, solution.scores),
            rtol=self.rtol,
            parallel=prepared.parallel,
        )

    def full_scores(
        self,
        prepared: PreparedGraph,
        labels: Targets,
        solution: Solution,
        x: FloatArray,
        degrees: Degrees,
    ) -> Solution:
        """Potentials of mean 0 by the degrees of the full graph; see `LinearModelOfEdges`."""
        task = CenteredLabels.of(labels, prepared.graph.component)
        scores = _settle(x, degrees().weight, task, task.absent)
        scored = task.solution(scores, solution.status, dict(solution.stats))
        return self._balance(as_classes(labels), task, scored)

    def full_reader(
        self,
        prepared: PreparedGraph,
        labels: Labels,
        solution: Solution,  # noqa: ARG002 - nothing was chosen
        degrees: FullDegrees,
    ) -> Reader:
        """Potentials, of which only differences from their mean count; see `LinearModelOfEdges`."""
        task = CenteredLabels.of(labels, prepared.graph.component)
        weights = shares_of_components(degrees.weight, task.component)

        def terms(x: FloatArray, _misses: Misses) -> Reading:
            means = np.zeros_like(task.means)
            component_sums(weights[:, None] * x, task.component, means)
            return Reading.plain(-means, ~task.lacks)

        return Reader(terms=terms, weights=weights, gauge=True)

    def why_unproven(self) -> str:
        """Offsets of classes follow from all scores."""
        return "" if self.class_balance == "none" else "class_balance"

    def _balance(self, labels: Labels, task: CenteredLabels, solution: Solution) -> Solution:
        """The solution with offsets of its classes (H3) if sizes are requested."""
        shares = read_class_shares("class_balance", self.class_balance, labels)
        if shares is None:
            return solution
        reached, absent = solution.scores[task.reachable], task.absent[task.reachable]
        present = np.where(absent, -np.inf, reached)
        is_asked = labels.asked_of(task.reachable)[task.reachable]
        offsets = class_offsets(present[is_asked], shares, shares)
        reached += offsets
        reached[absent] = min(float(reached.min()), 0.0) - 1.0
        solution.scores[task.reachable] = reached
        stats = {**solution.stats, "share_miss": share_miss(reached[is_asked], shares)}
        warnings = balance_warnings(self.class_balance, labels, stats)
        return replace(solution, stats=stats, warnings=warnings)
