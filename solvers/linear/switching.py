"""Transductive SVM by switching several pairs of labels at once (section F.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.linear.finite_newton import RTOL, Hinges, LinearPoint
from peewit.solvers.linear.transductive_problem import LOOSE_RTOL, Transduced, Transduction
from peewit.solvers.status import Status

GROWTH: Final = 1.5
"""Of the unlabeled weight from round to round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRule:
    """How labels are switched.

    Attributes
    ----------
    max_pairs : int or None
        S: pairs switched at once, the worst first; None for as many as there are.
    first_weight : float
        Unlabeled weight of the first round, lambda'_0 > 0; it grows by half until it is the one
        asked for.
    max_trainings : int
        Where so many do not suffice, the search ends with status ``MAX_ITER``.
    """

    max_pairs: int | None
    first_weight: float
    max_trainings: int


def switch_labels(
    task: Transduction,
    start: LinearPoint,
    weights: Sequence[float],
    rule: SwitchRule,
    *,
    phase: str,
    watch: Watch,
) -> list[Transduced]:
    """For each unlabeled weight a labeling that no switch of a pair improves, and its machine.

    Parameters
    ----------
    task : Transduction
        Its own unlabeled weight is not looked at.
    start : LinearPoint
        The machine of the labeled rows.
    weights : sequence of float
        lambda' > 0, increasing; one search goes through all of them, and of each gives what a
        search for it alone would.
    rule : SwitchRule
    phase : str
        What progress is called.
    watch : Watch

    Notes
    -----
    A pair is switched wherever that lowers the loss: o(+) < o(-) suffices, since
    (1 - o)_+^2 - (1 + o)_+^2 falls with o everywhere; the rule as printed asks the outputs to be
    inside their margins, too. Each switch lowers the objective and keeps the number of labels 1,
    and no training raises it. Trainings are loose until no pair is left at a weight asked for.
    """
    n_rounds = _n_rounds(rule.first_weight, max(weights))
    now = _Labeling(
        task=task,
        rule=rule,
        is_positive=_highest(start.outputs[task.unlabeled], task.n_positive),
        point=start,
    )
    found, weight = [], rule.first_weight
    for goal in weights:
        while weight < goal and not now.is_over:
            watch.step(phase, now.n_rounds, n_rounds)
            now.settle(weight, LOOSE_RTOL)
            weight *= GROWTH
        watch.step(phase, now.n_rounds, n_rounds)
        own = now.copy()
        own.settle(goal, LOOSE_RTOL)
        own.settle(goal, RTOL)
        found.append(own.told(goal))
    return found


@dataclass(slots=True, kw_only=True, eq=False)
class _Labeling:
    """Labels of the unlabeled rows and the machine of all; ``is_over`` where time ran out."""

    task: Transduction
    rule: SwitchRule
    is_positive: BoolArray
    point: LinearPoint
    n_trainings: int = 0
    n_rounds: int = 0
    is_over: bool = False

    def copy(self) -> "_Labeling":
        """One that goes on by itself."""
        return replace(self, is_positive=self.is_positive.copy())

    def settle(self, weight: float, rtol: float) -> None:
        """Train and switch in turn until no pair is left."""
        self.n_rounds += 1
        while True:
            if self.n_trainings >= self.rule.max_trainings:
                self.is_over = True
                return
            self.point = self.task.trained(self._hinges(weight), self.point, rtol)
            self.n_trainings += 1
            outputs = self.point.outputs[self.task.unlabeled]
            n_switched = _switch(outputs, self.is_positive, self.rule.max_pairs)
            self.task.figures.n_switches += n_switched
            if not n_switched:
                return

    def told(self, weight: float) -> Transduced:
        """The answer for a weight."""
        hinges, point = self._hinges(weight), self.point
        return Transduced(
            point=point,
            objective=self.task.problem.objective(hinges, point.weights, point.outputs),
            status=Status.MAX_ITER if self.is_over else point.status,
        )

    def _hinges(self, weight: float) -> Hinges:
        cost = weight / self.task.n_unlabeled
        return self.task.hinges(
            np.where(self.is_positive, cost, 0.0), np.where(self.is_positive, 0.0, cost)
        )


def _n_rounds(first: float, last: float) -> int:
    """Rounds until the last weight, for progress."""
    return 1 if first >= last else 1 + ceil(log(last / first) / log(GROWTH) - 1e-9)


def _highest(outputs: FloatArray, n_highest: int) -> BoolArray:
    """Which outputs are the highest; of equal ones those that come first."""
    order = np.argsort(-outputs, kind="stable")
    chosen = np.zeros(outputs.size, bool)
    chosen[order[:n_highest]] = True
    return chosen


def _switch(outputs: FloatArray, is_positive: BoolArray, max_pairs: int | None) -> int:
    """Switch labels of pairs o(+) < o(-) in place, furthest apart first; how many pairs."""
    positive, negative = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
    if not positive.size or not negative.size:
        return 0
    low, high = outputs[positive].min(), outputs[negative].max()
    if low >= high:
        return 0
    positive = positive[outputs[positive] < high]
    negative = negative[outputs[negative] > low]
    positive = positive[np.argsort(outputs[positive], kind="stable")]
    negative = negative[np.argsort(-outputs[negative], kind="stable")]
    n_pairs = min(positive.size, negative.size)
    positive, negative = positive[:n_pairs], negative[:n_pairs]
    n_switched = int(np.count_nonzero(outputs[positive] < outputs[negative]))
    if max_pairs is not None:
        n_switched = min(n_switched, max_pairs)
    is_positive[positive[:n_switched]] = False
    is_positive[negative[:n_switched]] = True
    return n_switched
