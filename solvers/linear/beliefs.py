"""Beliefs of rows in classes, of given mean, at a temperature (F6), (F7), (F10)."""

from typing import Final

import numpy as np
from scipy.special import entr, expit, rel_entr

from peewit.solvers.arrays import FloatArray

_ROOT_TOL: Final = 1e-10
_MAX_ROOT: Final = 500
_CLIP: Final = 1e-8
"""Distance of beliefs from 0 and 1 where logarithms are compared."""

_MAX_NEWTON: Final = 60
_MAX_HALVINGS: Final = 4
_LONGEST: Final = 20.0
"""Temperatures that nu goes at most in a Newton step."""

_ROUNDING: Final = 1e-14
_FLAT: Final = 1e-150
_COOLING: Final = 4.0
"""Divisor of temperatures on the way down to one where Newton's method alone does not arrive."""


def class_beliefs(
    gain: FloatArray, temperature: float, shares: FloatArray, first: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Beliefs p_k ~ exp((nu_k - g_k) / T) with sum 1 and means ``shares``, nu, and success (F10).

    Parameters
    ----------
    gain : (u, n_classes) float64
        g; u >= 1.
    temperature : float
        T > 0.
    shares : (n_classes,) float64
        r >= 0 with sum 1; nobody belongs to a class of share 0.
    first : (n_classes,) float64
        A first guess of nu.

    Returns
    -------
    belief : (u, n_classes) float64
    shift : (n_classes,) float64
        nu, which a constant may be added to.
    is_met : bool
        Whether the means are the shares within 1e-10.
    """
    classes = np.flatnonzero(shares > 0.0)
    own, goal, shift = gain[:, classes], shares[classes], first.copy()
    if classes.size == 2:
        turn = float(first[classes[1]] - first[classes[0]])
        second, turn = beliefs(own[:, 1] - own[:, 0], temperature, float(goal[1]), turn)
        found, shift[classes] = np.column_stack([1.0 - second, second]), (0.0, turn)
    else:
        found, shift[classes] = _dual_minimum(own, temperature, goal, first[classes])
    belief = np.zeros_like(gain)
    belief[:, classes] = found
    is_met = bool(np.abs(found.mean(axis=0) - goal).max() <= 2.0 * _ROOT_TOL)
    return belief, shift, is_met


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
    """Mean Kullback-Leibler divergence of (u, n_classes) beliefs from the ones before."""
    now, then = np.clip(belief, _CLIP, 1.0 - _CLIP), np.clip(last, _CLIP, 1.0 - _CLIP)
    return float(rel_entr(now, then).sum(axis=1).mean())


def entropy(belief: FloatArray) -> float:
    """Mean entropy of (u, n_classes) beliefs."""
    return float(entr(belief).sum(axis=1).mean())


def _dual_minimum(
    gain: FloatArray, temperature: float, shares: FloatArray, first: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Beliefs and nu, from ``first`` or, where that fails, from a high temperature on."""
    belief, shift, is_met = _newton(gain, temperature, shares, first)
    warm, start = max(temperature, float(np.ptp(gain))), np.zeros_like(first)
    while not is_met:
        belief, shift, is_arrived = _newton(gain, warm, shares, start)
        if not is_arrived or warm == temperature:
            break
        warm, start = max(temperature, warm / _COOLING), shift
    return belief, shift


def _newton(
    gain: FloatArray, temperature: float, shares: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Newton's method on the dual, which never rises but by rounding; and whether it arrived.

    Where a Newton step does not lower it, nu_k rises by T ln(r_k / mean p_k), the step of Sinkhorn,
    which does wherever it begins.
    """
    ones = np.ones((shares.size, shares.size)) / shares.size
    value, belief = _dual(gain, temperature, shares, shift)
    for _ in range(_MAX_NEWTON):
        means = belief.mean(axis=0)
        off = means - shares  # the gradient
        if np.abs(off).max() <= _ROOT_TOL:
            return belief, shift, True
        curvature = np.diag(means) - belief.T @ belief / len(belief)
        # a constant added to nu changes nothing; certain beliefs have no curvature
        size = float(np.trace(curvature)) + _FLAT
        values, vectors = np.linalg.eigh(curvature + size * ones)
        step = -vectors @ ((off @ vectors) / np.maximum(values, _ROUNDING * size))
        step *= _LONGEST / max(_LONGEST, float(np.abs(step).max()))
        slope, length = float(off @ step), temperature
        for _ in range(_MAX_HALVINGS):
            after, following = _dual(gain, temperature, shares, shift + length * step)
            rise = float((following.mean(axis=0) - shares) @ step)
            if rise <= 0.9 * abs(slope) and after <= value + _ROUNDING * abs(value):
                break
            length *= 0.5
        else:
            step = np.log(shares / np.maximum(means, _FLAT))
            length = temperature
            after, following = _dual(gain, temperature, shares, shift + length * step)
        value, belief, shift = after, following, shift + length * step
    return belief, shift, False


def _dual(
    gain: FloatArray, temperature: float, shares: FloatArray, shift: FloatArray
) -> tuple[float, FloatArray]:
    """T mean_j ln sum_k exp((nu_k - g_jk) / T) - r' nu, and the beliefs; no exponent is > 0."""
    values = shift - gain
    highest = values.max(axis=1, keepdims=True)
    belief = np.exp((values - highest) / temperature)
    total = belief.sum(axis=1, keepdims=True)
    belief /= total
    soft = highest + temperature * np.log(total)
    return float(soft.mean() - shares @ shift), belief
