"""Transductive SVM by switching several pairs of labels at once (section F.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.linear.finite_newton import RTOL, LinearPoint
from peewit.solvers.linear.transductive_problem import (
    LOOSE_RTOL,
    Transduced,
    Transduction,
    class_gains,
    class_sizes,
    own_labels,
)
from peewit.solvers.status import Status

GROWTH: Final = 1.5
"""Factor of the unlabeled weight from round to round."""

_SLACK: Final = 1e-12
"""Part of the largest gain that is rounding: what a switch must at least lower the loss by."""


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
    tasks: Sequence[Transduction],
    starts: Sequence[LinearPoint],
    weights: Sequence[float],
    rule: SwitchRule,
    *,
    phase: str,
    watch: Watch,
) -> list[list[Transduced]]:
    """For each unlabeled weight a labeling that no switch of a pair improves, and its machines.

    One search goes through all ``weights``, lambda' > 0 and increasing, and gives for each what its
    own search would. It starts from ``starts``, the machines of the labeled rows, and ignores the
    unlabeled weight of ``tasks``. Several tasks are one of K (F9): their numbers of labels 1 sum to
    u, and each row has one of the K classes.

    Notes
    -----
    A pair is switched wherever that lowers the loss: of one function o(+) < o(-) suffices, since
    (1 - o)_+^2 - (1 + o)_+^2 falls with o everywhere; the printed rule also requires outputs inside
    their margins. Each switch lowers the objective and keeps the sizes of the classes, and no
    training raises it. Trainings are loose until no pair is left at a requested weight.
    """
    n_rounds = _n_rounds(rule.first_weight, max(weights))
    now = _Labeling(
        tasks=tasks, rule=rule, classes=_first_classes(tasks, starts), points=list(starts)
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
        results.append(own.results(goal))
    return results


@dataclass(slots=True, kw_only=True, eq=False)
class _Labeling:
    """Classes of the unlabeled rows and the machines of all; ``is_over`` at the training limit."""

    tasks: Sequence[Transduction]
    rule: SwitchRule
    classes: Int64Array
    points: list[LinearPoint]
    n_trainings: int = 0
    n_rounds: int = 0
    is_over: bool = False

    def copy(self) -> "_Labeling":
        """A copy that goes on independently."""
        return replace(self, classes=self.classes.copy())

    def settle(self, weight: float, rtol: float) -> None:
        """Train and switch in turn until no pair is left."""
        self.n_rounds += 1
        while True:
            if self.n_trainings >= self.rule.max_trainings:
                self.is_over = True
                return
            labels = own_labels(self.tasks, self.classes)
            self.points = [
                task.trained(task.labeled_hinges(own, weight), point, rtol)
                for task, own, point in zip(self.tasks, labels, self.points, strict=True)
            ]
            self.n_trainings += 1
            gain = class_gains(self.tasks, self.points, 1.0)
            n_switched = _switch(gain, self.classes, self.rule.max_pairs)
            self.tasks[0].figures.n_switches += n_switched
            if not n_switched:
                return

    def results(self, weight: float) -> list[Transduced]:
        """The results for a weight."""
        labels = own_labels(self.tasks, self.classes)
        return [
            Transduced(
                point=point,
                objective=task.objective(point, own, weight),
                status=Status.MAX_ITER if self.is_over else point.status,
            )
            for task, own, point in zip(self.tasks, labels, self.points, strict=True)
        ]


def _n_rounds(first: float, last: float) -> int:
    """Rounds until the last weight, for progress."""
    return 1 if first >= last else 1 + ceil(log(last / first) / log(GROWTH) - 1e-9)


def _first_classes(tasks: Sequence[Transduction], points: Sequence[LinearPoint]) -> Int64Array:
    """Classes of given sizes that suit the outputs; of one function the highest are 1."""
    sizes = class_sizes(tasks)
    if len(tasks) == 1:
        return _highest(points[0].outputs[tasks[0].unlabeled], int(sizes[1]))
    gain = class_gains(tasks, points, 1.0)
    classes = _placed(gain, sizes)
    _switch(gain, classes, None)
    return classes


def _highest(outputs: FloatArray, n_highest: int) -> Int64Array:
    """1 for the highest outputs, else 0; the first of equal ones."""
    classes = np.zeros(outputs.size, np.int64)
    classes[np.argsort(-outputs, kind="stable")[:n_highest]] = 1
    return classes


def _placed(gain: FloatArray, sizes: Int64Array) -> Int64Array:
    """Classes of rows, each the best with room left, which goes to those who lose most without."""
    classes, room = np.full(len(gain), -1), sizes.copy()
    while (rows := np.flatnonzero(classes < 0)).size:
        loss = np.where(room > 0, gain[rows], np.inf)
        best = loss.argmin(axis=1)
        two = np.partition(loss, 1, axis=1)
        at_stake = two[:, 1] - two[:, 0]
        for code in np.flatnonzero(room):
            own = np.flatnonzero(best == code)
            own = own[np.argsort(-at_stake[own], kind="stable")[: room[code]]]
            classes[rows[own]] = code
            room[code] -= own.size
    return classes


def _switch(gain: FloatArray, classes: Int64Array, max_pairs: int | None) -> int:
    """Switch classes of pairs in place where that lowers the loss, worst first; their number."""
    n_switched, left = 0, len(classes) if max_pairs is None else max_pairs
    while left > 0:
        change, one, other = _pairs(gain, classes)
        order = np.argsort(change, kind="stable")
        rows = np.column_stack([one, other])[order]
        _, first = np.unique(rows, return_index=True)
        is_first = np.zeros(rows.size, bool)
        is_first[first] = True
        rows = rows[is_first.reshape(rows.shape).all(axis=1)][:left]  # each row once
        if not len(rows):
            break
        classes[rows] = classes[rows[:, ::-1]]
        n_switched += len(rows)
        left = left if max_pairs is None else left - len(rows)
    return n_switched


def _pairs(gain: FloatArray, classes: Int64Array) -> tuple[FloatArray, Int64Array, Int64Array]:
    """Change of the loss, < 0, and rows of pairs: the worst of two classes, the next, and so on."""
    slack = _SLACK * float(np.abs(gain).max(initial=0.0))
    members = [np.flatnonzero(classes == code) for code in range(gain.shape[1])]
    found = [(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))]
    for one, own in enumerate(members):
        for other, theirs in enumerate(members[:one]):
            if not own.size or not theirs.size:
                continue
            out = gain[own, other] - gain[own, one]
            into = gain[theirs, one] - gain[theirs, other]
            first = np.flatnonzero(out < -slack - into.min())
            second = np.flatnonzero(into < -slack - out.min())
            first = first[np.argsort(out[first], kind="stable")][: second.size]
            second = second[np.argsort(into[second], kind="stable")][: first.size]
            change = out[first] + into[second]
            n_pairs = int(np.count_nonzero(change < -slack))
            found.append((change[:n_pairs], own[first[:n_pairs]], theirs[second[:n_pairs]]))
    change, ones, others = (np.concatenate(column) for column in zip(*found, strict=True))
    return change, ones, others
