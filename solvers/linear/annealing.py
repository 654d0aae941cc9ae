"""Deterministic annealing: labels as beliefs whose entropy falls step by step (section F.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.linear.beliefs import class_beliefs, divergence, entropy
from peewit.solvers.linear.finite_newton import RTOL, LinearPoint
from peewit.solvers.linear.transductive_problem import (
    LOOSE_RTOL,
    Transduced,
    Transduction,
    best_objectives,
    class_gains,
    class_sizes,
)
from peewit.solvers.status import Status, first_failure

_MAX_INNER: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How the temperature falls, and when a step of it ends."""

    first: float  # temperature of the first step, in units of the unlabeled weight
    cooling: float  # divisor of the temperature after each step, > 1
    divergence_tol: float  # mean divergence from the beliefs before at which a step ends
    entropy_tol: float  # mean entropy at which the annealing ends
    max_steps: int


def anneal(
    tasks: Sequence[Transduction],
    start: LinearPoint,
    schedule: Schedule,
    *,
    phase: str,
    watch: Watch,
) -> list[Transduced]:
    """For each function the weights of the smallest J among the ends of all annealing steps.

    ``objective`` of the results is J. Ending at ``max_steps`` is how annealing ends, not a failure:
    beliefs that stay undecided belong to rows at the boundary. The unlabeled weight is > 0;
    training starts from ``start``, zeros. Several tasks are one of K (F9): they share the weight,
    and their numbers of labels 1 sum to u.
    """
    n_unlabeled, sizes = tasks[0].n_unlabeled, class_sizes(tasks)
    shares = sizes / n_unlabeled  # whole numbers, so that all beliefs can be certain
    belief = np.tile(shares, (n_unlabeled, 1))
    points = [start] * len(tasks)
    if sizes.max() == n_unlabeled:
        return _results(tasks, _train(tasks, belief, points, RTOL), Status.CONVERGED)
    points = _train(tasks, belief, points, LOOSE_RTOL)
    best, best_belief, least = points, belief, sum(best_objectives(tasks, points))
    # a row that changes its class changes two of K functions (F10)
    temperature = schedule.first * tasks[0].unlabeled_weight * (1 if len(tasks) == 1 else 2)
    shift, status = np.zeros(sizes.size), Status.CONVERGED
    for step in range(schedule.max_steps):
        for _ in range(_MAX_INNER):
            watch.step(phase, step, schedule.max_steps)
            gain, last = class_gains(tasks, points, tasks[0].unlabeled_weight), belief
            belief, shift, is_met = class_beliefs(gain, temperature, shares, shift)
            status = status if is_met else Status.STAGNATED
            points = _train(tasks, belief, points, LOOSE_RTOL)
            if divergence(belief, last) < schedule.divergence_tol:
                break
        objective = sum(best_objectives(tasks, points))
        if objective < least:
            best, best_belief, least = points, belief, objective
        if entropy(belief) < schedule.entropy_tol:
            break
        temperature /= schedule.cooling
    final = _train(tasks, best_belief, best, RTOL)
    if sum(best_objectives(tasks, final)) > least:  # exact for the beliefs, but worse for J
        final = best
    return _results(tasks, final, status)


def _results(
    tasks: Sequence[Transduction], points: Sequence[LinearPoint], status: Status
) -> list[Transduced]:
    return [
        Transduced(point=point, objective=own, status=first_failure(point.status, status))
        for point, own in zip(points, best_objectives(tasks, points), strict=True)
    ]


def _train(
    tasks: Sequence[Transduction], belief: FloatArray, starts: Sequence[LinearPoint], rtol: float
) -> list[LinearPoint]:
    """The w-step: each unlabeled row once, with the costs of both labels."""
    cost = tasks[0].unlabeled_weight / tasks[0].n_unlabeled
    columns = belief.T[-len(tasks) :]
    return [
        task.trained(task.hinges(own * cost, (1.0 - own) * cost), start, rtol)
        for task, own, start in zip(tasks, columns, starts, strict=True)
    ]
