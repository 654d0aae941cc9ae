"""Sums of squared hinges on both sides of a margin, a_i (1 - o)_+^2 + b_i (1 + o)_+^2.

A row with one label has one of the two costs; a row that may have either label has both.
"""

from typing import Any

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def bends(positive: Any, negative: Any, outputs: Any, cost: Any, pull: Any) -> None:
    """Fill the parabola of half the sum of the losses, sum of (cost o^2 - 2 pull o) / 2 + constant.

    ``cost`` and ``pull`` are 0 where no hinge is active.
    """
    for row in range(outputs.size):
        output = outputs[row]
        cost[row] = pull[row] = 0.0
        # a (1 - o)^2 = a o^2 - 2 a o + a, and b (1 + o)^2 = b o^2 + 2 b o + b
        if output < 1.0:
            cost[row] = pull[row] = positive[row]
        if output > -1.0:
            cost[row] += negative[row]
            pull[row] -= negative[row]


@njit(cache=True, nogil=True)
def slope_along(
    positive: Any, negative: Any, outputs: Any, steps: Any, length: float
) -> tuple[float, float]:
    """First and second derivative of half the sum at outputs + length steps, along the steps."""
    slope = 0.0
    curvature = 0.0
    for row in range(outputs.size):
        step = steps[row]
        output = outputs[row] + length * step
        if output < 1.0:
            # d/dt and d2/dt2 of .5 c (1 - o)^2, and of .5 c (1 + o)^2 below
            slope -= positive[row] * (1.0 - output) * step
            curvature += positive[row] * step * step
        if output > -1.0:
            slope += negative[row] * (1.0 + output) * step
            curvature += negative[row] * step * step
    return slope, curvature


@njit(cache=True, nogil=True)
def stays(positive: Any, negative: Any, outputs: Any, moved: Any, slack: float) -> bool:
    """Whether the hinges with a cost are active at ``moved`` exactly where they were before.

    To within ``slack`` of the margin.
    """
    for row in range(outputs.size):
        # (F3): each hinge has to be active at both ends of the step, or at neither
        if positive[row] > 0.0:
            if outputs[row] < 1.0:
                if moved[row] > 1.0 + slack:
                    return False
            elif moved[row] < 1.0 - slack:
                return False
        if negative[row] > 0.0:
            if outputs[row] > -1.0:
                if moved[row] < -1.0 - slack:
                    return False
            elif moved[row] > -1.0 + slack:
                return False
    return True
