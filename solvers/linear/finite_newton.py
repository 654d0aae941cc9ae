"""The modified finite Newton method for squared hinges and a ridge (section F.1).

A loss that is quadratic between finitely many bends has finitely many Newton systems: each step
solves that of the present piece and goes to the exact minimum on the line to its solution.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.kernels.hinges import bends, slope_along, stays
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.linear.row_products import LinearRows
from peewit.solvers.status import Status

ROUGH_RTOL: Final = 1e-2
"""Residual of the Newton systems before the last piece is found."""

RTOL: Final = 1e-6
"""Residual of the last system."""

_MAX_NEWTON: Final = 50
_MAX_CONJUGATE: Final = 10_000
_FIRST_CONJUGATE: Final = 10
"""Iterations of the first system of a cold start, whose piece is hardly the last one."""

_ROUNDING: Final = 1e-28
"""A squared gradient below this part of its start holds only rounding."""

_LEAST_DECREASE: Final = 1e-9
_MAX_LINE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hinges:
    """Cost of the outputs: half of sum_i a_i (1 - o_i)_+^2 + b_i (1 + o_i)_+^2.

    Attributes
    ----------
    positive, negative : (n_rows,) float64
        a and b: for a label 1, a is its cost and b is 0. Rows without label may have both, as in
        annealing, where they stand for two rows of one label each.
    """

    positive: FloatArray
    negative: FloatArray

    @classmethod
    def of_targets(cls, targets: FloatArray, costs: FloatArray) -> "Hinges":
        """The costs of labels 1 and -1."""
        return cls(
            positive=np.where(targets > 0, costs, 0.0), negative=np.where(targets > 0, 0.0, costs)
        )

    def value(self, outputs: FloatArray) -> float:
        """Half the sum."""
        below, above = np.maximum(0.0, 1.0 - outputs), np.maximum(0.0, 1.0 + outputs)
        return 0.5 * float(self.positive @ below**2 + self.negative @ above**2)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearProblem:
    """Minimize norm_penalty / 2 |w|^2 + hinges(X w) + graph_penalty / 2 (X w)' L (X w) over w."""

    rows: LinearRows
    norm_penalty: float  # lambda > 0
    graph_penalty: float = 0.0  # >= 0
    laplacian: IteratedLaplacian | None = None  # None: no graph term
    check: Callable[[], None] = lambda: None  # before every pass; may raise `RunStopped`

    def smoothness(self, outputs: FloatArray) -> FloatArray:
        """graph_penalty L outputs."""
        if self.laplacian is None:
            return np.zeros_like(outputs)
        product = self.laplacian.product(outputs[:, None])[:, 0]
        return np.asarray(self.graph_penalty * product, np.float64)

    def objective(self, hinges: Hinges, weights: FloatArray, outputs: FloatArray) -> float:
        """The objective at weights with the given outputs."""
        energy = 0.0 if self.laplacian is None else float(outputs @ self.smoothness(outputs))
        norm = self.norm_penalty * float(weights @ weights)
        return hinges.value(outputs) + 0.5 * (norm + energy)


@dataclass(slots=True, kw_only=True, eq=False)
class LinearPoint:
    """Weights, the outputs of all rows under them, and how their search ended."""

    weights: FloatArray  # (n_weights,)
    outputs: FloatArray  # (n_rows,)
    status: Status = Status.CONVERGED
    n_newton: int = 0

    @classmethod
    def origin(cls, rows: LinearRows) -> "LinearPoint":
        """Zero weights and outputs."""
        return cls(weights=np.zeros(rows.n_weights), outputs=np.zeros(rows.n_rows))

    @classmethod
    def at(cls, rows: LinearRows, weights: FloatArray) -> "LinearPoint":
        """Given weights and their outputs; one pass over the rows."""
        outputs = np.empty(rows.n_rows)
        rows.outputs(weights, np.zeros(rows.n_rows), outputs)
        return cls(weights=weights, outputs=outputs)


def minimize(
    problem: LinearProblem, hinges: Hinges, start: LinearPoint, *, rtol: float = RTOL
) -> LinearPoint:
    """The minimum, searched from ``start``, from which the objective never rises.

    ``MAX_ITER`` after 50 Newton steps or 10,000 iterations within one; ``STAGNATED`` if the
    objective twice fell by less than 1e-9 of itself before the last piece was found, and the
    gradient is not that of a solved system. Raises `RunStopped`
    from ``problem.check``. ``rtol`` is the residual of the last Newton system, relative to the
    misfit of the outputs, and the accuracy to which margins are met.
    """
    search = _Search(problem, hinges, np.empty(problem.rows.n_rows), np.empty(problem.rows.n_rows))
    now = start
    is_cold = not start.weights.any()
    accuracy, has_stalled = max(rtol, ROUGH_RTOL), False
    value = problem.objective(hinges, now.weights, now.outputs)
    for step in range(_MAX_NEWTON):
        most = _FIRST_CONJUGATE if is_cold and step == 0 else _MAX_CONJUGATE
        minimum, status = search.solved(now, accuracy, most)
        minimum.n_newton = step + 1
        if stays(hinges.positive, hinges.negative, now.outputs, minimum.outputs, accuracy):
            # (F3): the same hinges stay active; after a short first system that says nothing
            is_right = most == _MAX_CONJUGATE
            if is_right and status is not Status.CONVERGED:
                minimum.status = status
                return minimum
            now = minimum
            value = problem.objective(hinges, now.weights, now.outputs)
            if accuracy <= rtol and is_right:
                return now
            accuracy = rtol if is_right else accuracy
            continue
        now = search.on_line(now, minimum)
        now.n_newton = minimum.n_newton
        before, value = value, problem.objective(hinges, now.weights, now.outputs)
        if before - value < _LEAST_DECREASE * abs(before):
            if accuracy <= rtol:
                # hinges of next to no cost may go on to bend
                is_minimum = search.is_minimum(now, rtol)
                if is_minimum or has_stalled:
                    now.status = Status.CONVERGED if is_minimum else Status.STAGNATED
                    return now
                has_stalled = True
            accuracy = rtol
    now.status = Status.MAX_ITER
    return now


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """The steps of one minimization; each fills ``cost`` and ``pull`` (n_rows,)."""

    problem: LinearProblem
    hinges: Hinges
    cost: FloatArray
    pull: FloatArray

    def solved(self, now: LinearPoint, rtol: float, most: int) -> tuple[LinearPoint, Status]:
        """The minimum of the present piece, (F3), by conjugate gradients from ``now``.

        They run until |gradient| < rtol |misfit of the outputs|, as CGLS does, times the length of
        a row if that is below 1; or until only rounding is left.
        """
        problem, rows = self.problem, self.problem.rows
        cost = self.cost
        weights, outputs = now.weights.copy(), now.outputs.copy()
        missed, residual = self._missed(now)
        direction = residual.copy()
        square = first = float(residual @ residual)
        unit = rtol * min(1.0, rows.form.length)
        status = Status.MAX_ITER
        for _ in range(most):
            if square <= max(unit**2 * float(missed @ missed), _ROUNDING * first):
                status = Status.CONVERGED
                break
            problem.check()
            products, image, pulled = self._images(direction)
            curvature = float(direction @ image)
            length = square / curvature  # (F8): t
            weights += length * direction
            outputs += length * products
            missed -= length * pulled
            residual -= length * image  # not X' z - lambda w: one pass less
            last, square = square, float(residual @ residual)
            direction *= square / last  # (F8): p = r + (|r|^2 / |r before|^2) p
            direction += residual
        if problem.laplacian is None:
            # passes updated the rows with a cost only
            rows.outputs(weights, cost, outputs)
        return LinearPoint(weights=weights, outputs=outputs), status

    def is_minimum(self, now: LinearPoint, rtol: float) -> bool:
        """Whether the gradient is as small as a solved system leaves it."""
        missed, residual = self._missed(now)
        unit = rtol * min(1.0, self.problem.rows.form.length)
        return float(residual @ residual) <= unit**2 * float(missed @ missed)

    def _missed(self, now: LinearPoint) -> tuple[FloatArray, FloatArray]:
        """What the outputs miss on the present piece, and less the gradient; fills both arrays."""
        problem = self.problem
        bends(self.hinges.positive, self.hinges.negative, now.outputs, self.cost, self.pull)
        missed = self.pull - self.cost * now.outputs  # (F8): z
        if problem.laplacian is not None:
            missed -= problem.smoothness(now.outputs)
        problem.check()
        return missed, problem.rows.adjoint(missed) - problem.norm_penalty * now.weights  # (F8): r

    def _images(self, direction: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """X d; (lambda + X' (cost + graph) X) d; and (cost + graph) X d."""
        problem, rows = self.problem, self.problem.rows
        ridge = problem.norm_penalty * direction
        if problem.laplacian is None:
            products, image = rows.normal(direction, self.cost)
            return products, image + ridge, self.cost * products
        products = np.empty(rows.n_rows)
        rows.outputs(direction, np.zeros(rows.n_rows), products)
        pulled = self.cost * products + problem.smoothness(products)
        return products, rows.adjoint(pulled) + ridge, pulled

    def on_line(self, now: LinearPoint, end: LinearPoint) -> LinearPoint:
        """The minimum of the objective on the line from ``now`` through ``end``."""
        problem = self.problem
        turn, steps = end.weights - now.weights, end.outputs - now.outputs
        # left + s slope: the derivative of all but the hinges, s from `now`
        left = problem.norm_penalty * float(now.weights @ turn)
        slope = problem.norm_penalty * float(turn @ turn)
        if problem.laplacian is not None:
            pulled = problem.smoothness(steps)
            left += float(now.outputs @ pulled)
            slope += float(steps @ pulled)
        length = _exact_length(self.hinges, now.outputs, steps, left, slope)
        return LinearPoint(
            weights=now.weights + length * turn, outputs=now.outputs + length * steps
        )


def _exact_length(
    hinges: Hinges, outputs: FloatArray, steps: FloatArray, left: float, slope: float
) -> float:
    """Zero of the derivative left + s slope + hinges': it rises, and is linear between bends.

    Newton's method finds it in finitely many steps; steps out of the bracket go to its middle.
    """
    lower, upper, at = 0.0, np.inf, 1.0
    for _ in range(_MAX_LINE):
        bent, curvature = slope_along(hinges.positive, hinges.negative, outputs, steps, at)
        derivative, curvature = left + at * slope + bent, curvature + slope
        if derivative < 0:
            lower = at
        else:
            upper = at
        if curvature <= 0:  # no output moves
            return at
        following = at - derivative / curvature
        if following == at:
            return at
        if not lower < following < upper:  # a bend lies on the way
            following = 0.5 * (lower + upper) if np.isfinite(upper) else 2.0 * at
            if following in {lower, upper}:
                return at
        if abs(following - at) <= 1e-14 * abs(at):
            return following
        at = following
    return at
