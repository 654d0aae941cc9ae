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
"""Factor of the unlabeled weight from round to round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRule:
    """How labels are switched.

    The unlabeled weight of the first round, ``first_weight`` lambda'_0 > 0, grows by half a round
    up to the requested one.
    """

    max_pairs: int | None  # S: pairs switched at once, the worst first; None for no limit
    first_weight: float
    max_trainings: int  # the search ends with status ``MAX_ITER`` after so many


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

    One search goes through all ``weights``, lambda' > 0 and increasing, and gives for each what its
    own search would. It starts from ``start``, the machine of the labeled rows, and ignores the
    unlabeled weight of ``task``.

    Notes
    -----
    A pair is switched wherever that lowers the loss: o(+) < o(-) suffices, since (1 - o)_+^2 - (1 +
    o)_+^2 falls with o everywhere; the printed rule also requires outputs inside their margins.
    Each switch lowers the objective and keeps the number of labels 1, and no training raises it.
    Trainings are loose until no pair is left at a requested weight.
    """
    n_rounds = _n_rounds(rule.first_weight, max(weights))
    now = _Labeling(
        task=task,
        rule=rule,
        is_positive=_highest(start.outputs[task.unlabeled], task.n_positive),
        point=start,
    )
    results, weight = [], rule.first_weight
    for goal in weights:
        while weight < goal and not now.is_over:
            watch.step(phase, now.n_rounds, n_rounds)
            now.settle(weight, LOOSE_RTOL)
            weight *= GROWTH
        watch.step(phase, now.n_rounds, n_rounds)
        own = now.copy()
        own.settle(goal, LOOSE_RTOL)
        own.settle(goal, RTOL)
        results.append(own.result(goal))
    return results


@dataclass(slots=True, kw_only=True, eq=False)
class _Labeling:
    """Labels of the unlabeled rows and the machine of all; ``is_over`` at the training limit."""

    task: Transduction
    rule: SwitchRule
    is_positive: BoolArray
    point: LinearPoint
    n_trainings: int = 0
    n_rounds: int = 0
    is_over: bool = False

    def copy(self) -> "_Labeling":
        """A copy that goes on independently."""
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

    def result(self, weight: float) -> Transduced:
        """The result for a weight."""
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
    """Which outputs are the highest; the first of equal ones."""
    order = np.argsort(-outputs, kind="stable")
    chosen = np.zeros(outputs.size, bool)
    chosen[order[:n_highest]] = True
    return chosen


def _switch(outputs: FloatArray, is_positive: BoolArray, max_pairs: int | None) -> int:
    """Switch pairs of labels with o(+) < o(-) in place, furthest apart first; their number."""
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
