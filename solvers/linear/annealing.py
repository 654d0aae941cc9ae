"""Deterministic annealing: labels as beliefs whose entropy falls step by step (section F.3)."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import entr, expit, rel_entr

from peewit.solvers.arrays import FloatArray
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.linear.finite_newton import RTOL, LinearPoint
from peewit.solvers.linear.transductive_problem import LOOSE_RTOL, Transduced, Transduction

_MAX_INNER: Final = 100
_ROOT_TOL: Final = 1e-10
_MAX_ROOT: Final = 500
_CLIP: Final = 1e-8
"""Distance of beliefs from 0 and 1 where logarithms are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How the temperature falls, and when a step of it ends."""

    first: float  # temperature of the first step, in units of the unlabeled weight
    cooling: float  # divisor of the temperature after each step, > 1
    divergence_tol: float  # mean divergence from the beliefs before at which a step ends
    entropy_tol: float  # mean entropy at which the annealing ends
    max_steps: int


def anneal(
    task: Transduction, start: LinearPoint, schedule: Schedule, *, phase: str, watch: Watch
) -> Transduced:
    """The weights with the smallest J among the ends of all annealing steps.

    ``objective`` of the result is J. Ending at ``max_steps`` is how annealing ends, not a failure:
    beliefs that stay undecided belong to rows at the boundary. The unlabeled weight of ``task`` is
    > 0; training starts from ``start``, zeros.
    """
    share = task.n_positive / task.n_unlabeled  # beliefs can all be certain
    belief = np.full(task.n_unlabeled, share)
    if share in {0.0, 1.0}:
        final = _train(task, belief, start, RTOL)
        return Transduced(point=final, objective=task.best_objective(final), status=final.status)
    point = _train(task, belief, start, LOOSE_RTOL)
    best, best_belief, least = point, belief, task.best_objective(point)
    temperature, shift = schedule.first * task.unlabeled_weight, 0.0
    for step in range(schedule.max_steps):
        for _ in range(_MAX_INNER):
            watch.step(phase, step, schedule.max_steps)
            gain = loss_gain(point.outputs[task.unlabeled], task.unlabeled_weight)
            last = belief
            belief, shift = beliefs(gain, temperature, share, shift)
            point = _train(task, belief, point, LOOSE_RTOL)
            if divergence(belief, last) < schedule.divergence_tol:
                break
        objective = task.best_objective(point)
        if objective < least:
            best, best_belief, least = point, belief, objective
        if entropy(belief) < schedule.entropy_tol:
            break
        temperature /= schedule.cooling
    final = _train(task, best_belief, best, RTOL)
    objective = task.best_objective(final)
    if objective > least:  # exact for the beliefs, but worse for J
        final, objective = best, least
    return Transduced(point=final, objective=objective, status=final.status)


def loss_gain(outputs: FloatArray, weight: float) -> FloatArray:
    """Loss of the label 1 less that of -1, g = weight ((1 - o)_+^2 - (1 + o)_+^2), (F6)."""
    return weight * (
        np.square(np.maximum(0.0, 1.0 - outputs)) - np.square(np.maximum(0.0, 1.0 + outputs))
    )


def beliefs(
    gain: FloatArray, temperature: float, share: float, first: float = 0.0
) -> tuple[FloatArray, float]:
    """Beliefs p = 1 / (1 + exp((g - nu) / T)) with mean ``share``, and nu (F6), (F7).

    Parameters
    ----------
    gain : (u,) float64
        g; u >= 1.
    temperature : float
        T > 0.
    share : float
        r in (0, 1).
    first : float
        A first guess of nu.

    Notes
    -----
    Newton's method on the mean, which rises with nu, inside a bracket that each evaluation narrows;
    a step that leaves the bracket is replaced by its middle.
    """
    # differences from a gain near nu stay accurate at a low temperature
    middle = min(gain.size - 1, int(share * gain.size))
    pivot = float(np.partition(gain, middle)[middle])
    gain, first = gain - pivot, first - pivot
    offset = temperature * float(np.log((1.0 - share) / share))
    lower, upper = float(gain.min()) - offset, float(gain.max()) - offset
    shift = min(max(first, lower), upper)
    belief = expit((shift - gain) / temperature)
    for _ in range(_MAX_ROOT):
        off = float(belief.mean()) - share
        if abs(off) <= _ROOT_TOL or upper - lower <= 0.0:
            break
        if off < 0:
            lower = shift
        else:
            upper = shift
        rise = float(belief @ (1.0 - belief)) / (temperature * belief.size)
        following = shift - off / rise if rise > 0 else np.inf
        if not lower < following < upper:
            following = 0.5 * (lower + upper)
        if following == shift:
            break
        shift = following
        belief = expit((shift - gain) / temperature)
    return belief, shift + pivot


def divergence(belief: FloatArray, last: FloatArray) -> float:
    """Mean Kullback-Leibler divergence of beliefs from the ones before."""
    now, then = np.clip(belief, _CLIP, 1.0 - _CLIP), np.clip(last, _CLIP, 1.0 - _CLIP)
    return float((rel_entr(now, then) + rel_entr(1.0 - now, 1.0 - then)).mean())


def entropy(belief: FloatArray) -> float:
    """Mean entropy of beliefs."""
    return float((entr(belief) + entr(1.0 - belief)).mean())


def _train(task: Transduction, belief: FloatArray, start: LinearPoint, rtol: float) -> LinearPoint:
    """The w-step: each unlabeled row once, with the costs of both labels."""
    cost = task.unlabeled_weight / task.n_unlabeled
    return task.trained(task.hinges(belief * cost, (1.0 - belief) * cost), start, rtol)
