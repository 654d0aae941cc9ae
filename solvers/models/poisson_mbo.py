"""PoissonMBO: Poisson learning, then rounds of heat flow and cuts into classes."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.residual_sweep import Sweep
from peewit.solvers.models.base import check_labels
from peewit.solvers.models.certainty import TIE
from peewit.solvers.models.class_balance import (
    asked_shares,
    balanced_weights,
    share_miss,
)
from peewit.solvers.models.graph_model_base import PreparedGraph
from peewit.solvers.models.poisson import Poisson, PoissonModel
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure

_ROUNDINGS: Final = 8
"""Of a heat step, beside one for each neighbor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonMBO(PoissonModel):
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
        task, poisson = self.poisson(prepared, labels, prepared.last.get(Poisson), watch)
        if poisson.status is Status.CANCELLED:
            return poisson
        prepared.last[Poisson] = poisson
        step = 1.0 / float(prepared.graph.degree.max(initial=0.0) or 1.0)
        source = self.fidelity * task.on_nodes(task.values)
        solver = prepared.kernel.solver
        cuts = _Cuts(
            heat=Sweep.of_graph(
                prepared.graph,
                np.full(prepared.graph.n_nodes, step),
                prepared.parallel,
            ),
            source=source,
            first=poisson.scores,
            reachable=task.reachable,
            shares=shares,
            n_inner=self.n_inner,
            n_outer=self.n_outer,
            rounding=self._rounding(prepared.graph, step * source),
            is_far_apart=solver.eliminates or solver.is_blind,
        )
        outcome = watch.run(cuts, max_iter=self.n_outer * self.n_inner, phase=self.phase)
        scores = outcome.state.scores
        stats = {**poisson.stats, "n_rounds": outcome.state.n_rounds}
        stats["n_moved"] = outcome.state.n_moved
        if shares is not None:
            stats["share_miss"] = share_miss(scores[task.reachable], shares)
        status: Status = poisson.status
        if outcome.state.is_uncertain.any():
            stats["n_uncertain"] = int(np.count_nonzero(outcome.state.is_uncertain))
            status = first_failure(status, Status.ILL_CONDITIONED)
        stopped = outcome.status is Status.CANCELLED
        return task.solution(scores, outcome.status if stopped else status, stats)

    def _rounding(self, graph: Graph, forces: FloatArray) -> float:
        """What rounding adds up to in a round: no step makes the largest value larger by itself."""
        largest = 1.0 + self.n_inner * float(np.abs(forces).max(initial=0.0))
        n_added = int(np.diff(graph.adjacency.indptr).max(initial=0)) + _ROUNDINGS
        return self.n_inner * n_added * float(np.finfo(np.float64).eps) * largest


@dataclass(slots=True, kw_only=True, eq=False)
class _CutState:
    """The last cut, and how far the heat of the present round is.

    ``scores`` are weighted, ``classes`` what they say under ``weights``; ``n_moved`` counts the
    reachable nodes whose class the last round changed, ``is_uncertain`` marks those whose class
    rounding decided in any. ``heated`` is the partition after
    ``n_heated`` steps, ``spare`` room for one more.
    """

    scores: FloatArray
    classes: Int64Array
    weights: FloatArray
    heated: FloatArray
    spare: FloatArray
    n_moved: int
    is_uncertain: BoolArray
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
    rounding: float
    is_far_apart: bool

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
            is_uncertain=np.zeros(len(scores), bool),
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
            state.is_uncertain |= self._uncertain(state.scores, state.weights)
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

    def _uncertain(self, scores: FloatArray, weights: FloatArray) -> BoolArray:
        """(n_nodes,) whose class rounding decides.

        Ties of a graph whose weights lie far apart are light edges lost beside heavy ones; of any
        other they are those of its symmetries.
        """
        if not self.is_far_apart and self.rounding <= TIE:
            return np.zeros(len(scores), bool)
        highest = np.partition(scores, -2, axis=1)[:, -2:]
        least = np.full(len(scores), self.rounding * float(weights.max()))
        if self.is_far_apart:
            np.maximum(least, TIE * np.abs(scores).max(axis=1), out=least)
        return np.asarray(self.reachable & (highest[:, 1] - highest[:, 0] <= least))
