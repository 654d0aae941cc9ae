"""Transductive SVM by switching several pairs of labels at once (F.2)."""

from typing import Final

import numpy as np

from solvers.arrays import BoolArray, FloatArray
from solvers.iterate import Watch
from solvers.linear.finite_newton import RTOL, Hinges, LinearPoint
from solvers.linear.transduction import LOOSE_RTOL, Transduced, Transduction, n_rounds
from solvers.solution import Status

GROWTH: Final = 1.5
"""Of the unlabeled weight from round to round."""


def switch_labels(
    task: Transduction,
    start: LinearPoint,
    *,
    max_pairs: int | None,
    first_weight: float,
    max_trainings: int,
    phase: str,
    watch: Watch,
) -> Transduced:
    """A labeling that no switch of a pair improves, and its weights.

    Parameters
    ----------
    task : Transduction
    start : LinearPoint
        The machine of the labeled rows.
    max_pairs : int or None
        S: pairs switched at once, the worst first; None for as many as there are.
    first_weight : float
        Unlabeled weight of the first round, lambda'_0 > 0; it grows by half until it is the one
        asked for.
    max_trainings : int
        After so many the search ends with status ``MAX_ITER``.
    phase : str
        What progress is called.
    watch : Watch

    Notes
    -----
    A pair is switched wherever that lowers the loss: o(+) < o(-) suffices, since
    (1 - o)_+^2 - (1 + o)_+^2 falls with o everywhere; the rule as printed asks the outputs to be
    inside their margins, too. Each switch lowers the objective and keeps the number of labels 1,
    and no training raises it. Trainings are loose until no pair is left at the last weight.
    """
    goal = task.unlabeled_weight
    weight = min(first_weight, goal)
    steps = n_rounds(weight, goal, GROWTH)
    is_positive = _highest(start.outputs[task.unlabeled], task.n_positive)
    point, round_, rtol = start, 0, LOOSE_RTOL
    while True:
        watch.step(phase, round_, steps)
        hinges = _hinges(task, is_positive, weight)
        point = task.trained(hinges, point, rtol)
        n_switched = _switch(point.outputs[task.unlabeled], is_positive, max_pairs)
        task.figures.n_switches += n_switched
        is_over = task.figures.n_trainings >= max_trainings
        if n_switched and not is_over:
            continue
        if weight < goal and not is_over:
            weight, round_ = min(GROWTH * weight, goal), round_ + 1
            continue
        if rtol > RTOL:
            rtol = RTOL
            continue
        break
    hinges = _hinges(task, is_positive, goal)
    status = Status.MAX_ITER if n_switched or weight < goal else point.status
    objective = task.problem.objective(hinges, point.weights, point.outputs)
    return Transduced(point=point, objective=objective, status=status)


def _hinges(task: Transduction, is_positive: BoolArray, weight: float) -> Hinges:
    cost = weight / task.n_unlabeled
    return task.hinges(np.where(is_positive, cost, 0.0), np.where(is_positive, 0.0, cost))


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
