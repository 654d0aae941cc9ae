"""Poisson learning and PoissonMBO: labels as sources and sinks, for very few labels per class.

On every component the labels are centred with that component's mean. A class without label in a
component gets scores below those of all others there.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iterate import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.solver import LinearSolution
from peewit.solvers.laplacian.sweep import Sweep
from peewit.solvers.models.base import check_labels
from peewit.solvers.models.centring import CentredLabels
from peewit.solvers.models.class_balance import (
    ClassShares,
    asked_shares,
    balanced_weights,
    share_miss,
)
from peewit.solvers.models.labeled_kernel import accepted
from peewit.solvers.models.prepared_graph import GraphModel, PreparedGraph
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

_BALANCE = Rule(
    doc="'labels' weighs classes until each wins the share of the nodes that it has among the "
    'labels, an object such as {"spam": 2, "ham": 1} until it wins its known share, \'none\' '
    "leaves class sizes free.",
    kind=str,
    words=("none", "labels"),
    takes_shares=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PoissonModel(GraphModel):
    """What both models share: the Poisson equation."""

    rtol: float = hyperparameter(
        1e-6, Rule(doc="Relative residual asked of the linear solves.", above=0.0, below=1.0)
    )
    max_iter: int = hyperparameter(
        10_000, Rule(doc="Limit on the iterations of one linear solve.", kind=int, minimum=1)
    )

    def _poisson(
        self, prepared: PreparedGraph, labels: Labels, start: Solution | None, watch: Watch
    ) -> tuple[CentredLabels, Solution]:
        """The centred labels and the solution of (H1), with class weights 1."""
        task = CentredLabels.of(labels, prepared.graph.component)
        absent = _absent_classes(task)
        first = None
        if start is not None and start.scores.shape == absent.shape:
            first = np.where(absent, 0.0, start.scores)
        linear = self._potential(prepared, task, first, watch)
        scores = _settled(prepared.graph, linear.x.astype(np.float64, copy=False), task, absent)
        return task, task.solution(
            scores,
            linear.status,
            {
                "n_iter": linear.n_iter,
                "residual": float(linear.residual.max(initial=0.0)),
                "preconditioner": linear.preconditioner,
            },
        )

    def _potential(
        self, prepared: PreparedGraph, task: CentredLabels, first: FloatArray | None, watch: Watch
    ) -> LinearSolution:
        """L u = sources, made of kept columns where that is exact enough."""
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
        return kernel.solver.solve(
            task.on_nodes(sources),
            first,
            project=True,
            phase="scores",
            progress=watch.progress,
            cancelled=watch.cancelled,
        )


def _absent_classes(task: CentredLabels) -> BoolArray:
    """(n_nodes, n_classes) whether no label of the class lies in the node's component."""
    absent: BoolArray = ((task.means == 0) | (task.counts == 0)[:, None])[task.component]
    return absent


def _settled(
    graph: Graph, potential: FloatArray, task: CentredLabels, absent: BoolArray
) -> FloatArray:
    """``potential`` with sum_i d_i u_i = 0 on every component, and classes that are absent low.

    Their scores are minus the largest score of all, or -1 where all are zero.
    """
    means = np.zeros_like(task.means)
    np.add.at(means, graph.component, graph.degree[:, None] * potential)
    total = np.bincount(graph.component, graph.degree, graph.n_components)
    means /= np.where(total > 0, total, 1.0)[:, None]
    scores = potential - means[graph.component]
    largest = float(np.abs(scores[task.reachable]).max(initial=0.0))
    scores[absent] = -(largest or 1.0)
    return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Poisson(_PoissonModel):
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

    class_balance: ClassShares = hyperparameter("none", _BALANCE)

    def solve_watched(
        self, prepared: PreparedGraph, labels: Labels, start: Solution | None, watch: Watch
    ) -> Solution:
        """Scores of every node; see `peewit.solvers.models.base.Model.solve`.

        With class balance, scores are multiplied by the weights of their classes; ``share_miss`` in
        the stats is the most that the share of a class is off by.
        """
        check_labels(labels, prepared.graph)
        shares = asked_shares("class_balance", self.class_balance, labels)
        task, solution = self._poisson(prepared, labels, start, watch)
        if shares is not None and solution.status is not Status.CANCELLED:
            reached = solution.scores[task.reachable]
            weights = balanced_weights(reached, shares)
            solution.scores[task.reachable] = reached * weights
            stats = {**solution.stats, "share_miss": share_miss(reached * weights, shares)}
            solution = replace(solution, stats=stats)
        return solution


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonMBO(_PoissonModel):
    """PoissonMBO of Calder, Cook, Thorpe and Slepcev (2020): Poisson learning, then cuts.

    From the classes Poisson learning gives, ``n_outer`` times: ``n_inner`` steps
    u <- u - dt (L u - fidelity b), b the sources, dt = 1 / (largest degree); then every node takes
    the class of its largest score, under class weights where sizes are balanced. Published for
    known class sizes; here they may be given, come from the labels or stay free.

    Scores are the values before the last cut, times the class weights: class scores, near
    [0, 1] away from labels.

    Notes
    -----
    One Poisson solve and at most ``n_outer`` times ``n_inner`` products with L. Rounds end once one
    moves no node; ``n_moved`` of the last one is in the stats. A start is not used:
    the Poisson solve starts from the one before, which ``prepared`` keeps.
    """

    class_balance: ClassShares = hyperparameter("none", _BALANCE)
    n_outer: int = hyperparameter(20, Rule(doc="Most rounds.", kind=int, minimum=1))
    n_inner: int = hyperparameter(40, Rule(doc="Heat steps of a round.", kind=int, minimum=1))
    fidelity: float = hyperparameter(
        1.0, Rule(doc="Weight of the labels in the heat steps.", minimum=0.0)
    )

    phase: ClassVar[str] = "cuts"

    def solve_watched(
        self,
        prepared: PreparedGraph,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - heat is no potential to start from
        watch: Watch,
    ) -> Solution:
        """Scores of every node; see `peewit.solvers.models.base.Model.solve`."""
        check_labels(labels, prepared.graph)
        shares = asked_shares("class_balance", self.class_balance, labels)
        task, poisson = self._poisson(prepared, labels, prepared.last.get(Poisson), watch)
        if poisson.status is Status.CANCELLED:
            return poisson
        prepared.last[Poisson] = poisson
        step = 1.0 / float(prepared.graph.degree.max(initial=0.0) or 1.0)
        cuts = _Cuts(
            heat=Sweep.of_graph(
                prepared.graph,
                np.full(prepared.graph.n_nodes, step),
                prepared.parallel,
            ),
            source=self.fidelity * task.on_nodes(task.values),
            first=poisson.scores,
            reachable=task.reachable,
            shares=shares,
            n_inner=self.n_inner,
            n_outer=self.n_outer,
        )
        outcome = watch.run(cuts, max_iter=self.n_outer * self.n_inner, phase=self.phase)
        scores = outcome.state.scores
        stats = {**poisson.stats, "n_rounds": outcome.state.n_rounds}
        stats["n_moved"] = outcome.state.n_moved
        if shares is not None:
            stats["share_miss"] = share_miss(scores[task.reachable], shares)
        stopped = outcome.status is Status.CANCELLED
        return task.solution(scores, outcome.status if stopped else poisson.status, stats)


@dataclass(slots=True, kw_only=True, eq=False)
class _CutState:
    """The last cut, and how far the heat of the present round is.

    ``scores`` are weighted, ``classes`` what they say under ``weights``; ``n_moved`` counts the
    reachable nodes whose class the last round changed. ``heated`` is the partition after
    ``n_heated`` steps, ``spare`` room for one more.
    """

    scores: FloatArray
    classes: Int64Array
    weights: FloatArray
    heated: FloatArray
    spare: FloatArray
    n_moved: int
    n_heated: int = 0
    n_rounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cuts:
    """Heat steps, and a threshold at the end of each round, for `iterate`."""

    heat: Sweep
    source: FloatArray
    first: FloatArray
    reachable: BoolArray
    shares: FloatArray | None
    n_inner: int
    n_outer: int

    def init(self) -> _CutState:
        """The classes of Poisson learning."""
        scores = self.first.copy()
        classes, weights = self._cut(scores, np.ones(scores.shape[1]))
        return _CutState(
            scores=scores,
            classes=classes,
            weights=weights,
            heated=np.empty_like(scores),
            spare=np.empty_like(scores),
            n_moved=int(np.count_nonzero(self.reachable)),
        )

    def step(self, state: _CutState) -> _CutState:
        """Heat the partition a little; after enough of that, cut again."""
        if state.n_heated == 0:
            state.heated[...] = np.eye(self.first.shape[1])[state.classes]
        self.heat.relaxed(state.heated, self.source, state.spare)
        state.heated, state.spare = state.spare, state.heated
        state.n_heated += 1
        if state.n_heated == self.n_inner:
            before = state.classes
            state.scores, state.heated = state.heated, state.scores
            state.classes, state.weights = self._cut(state.scores, state.weights)
            state.n_moved = int(np.count_nonzero((state.classes != before)[self.reachable]))
            state.n_heated, state.n_rounds = 0, state.n_rounds + 1
        return state

    def terminate(self, state: _CutState) -> Status | None:
        """Converged at a fixed point, or after all the rounds that the method has."""
        is_over = state.n_moved == 0 or state.n_rounds == self.n_outer
        return Status.CONVERGED if is_over else None

    def fraction(self, state: _CutState) -> float:
        """Share of the rounds that are done or need not be."""
        return 1.0 if state.n_moved == 0 else state.n_rounds / self.n_outer

    def _cut(self, scores: FloatArray, weights: FloatArray) -> tuple[Int64Array, FloatArray]:
        """Classes of the largest scores and class weights; balances ``scores`` where asked for."""
        if self.shares is not None:
            weights = balanced_weights(scores[self.reachable], self.shares, weights)
            scores[self.reachable] *= weights
        return scores.argmax(axis=1), weights
