"""The exact minimum along a direction of a sum of squared hinges and a parabola (E11)."""

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray


def exact_step(
    outputs: FloatArray,
    steps: FloatArray,
    targets: FloatArray,
    left: FloatArray,
    slope: FloatArray,
    *,
    is_hinge: bool,
) -> FloatArray:
    """(n_functions,) zeros of the objective's derivative along a direction.

    A step is 0 or below, or not finite, if the direction does not lead down.

    Parameters
    ----------
    outputs, steps, targets : (n_labeled, n_functions) float64
        Functions at the labeled nodes, their change in one step, and their labels.
    left, slope : (n_functions,) float64
        The derivative of the penalties is left + s * slope.
    is_hinge : bool
        Whether labels beyond the margin cost nothing; else the loss is squared everywhere.

    Notes
    -----
    The derivative is piecewise linear and rises: its break points are sorted and walked along,
    O(n_labeled log n_labeled) for each column.
    """
    missed = outputs - targets
    if not is_hinge:
        return _zero(left + _dots(steps, missed), slope + _dots(steps, steps))
    active = is_active(outputs, steps, targets)
    # the s_i of (E11)
    breaks = np.divide(-missed, steps, out=np.full_like(outputs, np.inf), where=steps != 0)
    breaks[breaks <= 0] = np.inf
    order = np.argsort(breaks, axis=0)
    breaks = np.take_along_axis(breaks, order, axis=0)
    toggled = np.where(active, -1.0, 1.0) * steps  # (E11): nu delta
    left_added = np.take_along_axis(toggled * missed, order, axis=0)
    slope_added = np.take_along_axis(toggled * steps, order, axis=0)
    left_added[np.isinf(breaks)] = slope_added[np.isinf(breaks)] = 0.0
    # left and slope of every piece at once; a slope is never below that of the penalties
    lefts = _running(left + _dots(active * steps, missed), left_added)
    slopes = np.maximum(_running(slope + _dots(active * steps, steps), slope_added), slope)
    zeros = _zero(lefts, slopes)
    last = np.full((1, outputs.shape[1]), np.inf)
    # the derivative rises: the first piece whose zero lies before its end has the minimum
    inside = zeros <= np.concatenate([breaks, last])
    first = inside.argmax(axis=0)
    return np.asarray(np.take_along_axis(zeros, first[None], axis=0)[0])


def is_active(outputs: FloatArray, steps: FloatArray, targets: FloatArray) -> BoolArray:
    """Labels that cost something right after the start of the step."""
    margin = targets * outputs
    return np.asarray((margin < 1.0) | ((margin == 1.0) & (targets * steps < 0)))


def _running(first: FloatArray, added: FloatArray) -> FloatArray:
    """The value at the start and after every break point."""
    return np.asarray(np.concatenate([first[None], first + np.cumsum(added, axis=0)]))


def _zero(left: FloatArray, slope: FloatArray) -> FloatArray:
    """Zero of left + s * slope; infinite if the line is flat."""
    return np.divide(-left, slope, out=np.full_like(left, np.inf), where=slope > 0)


def _dots(left: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->j", left, right))
