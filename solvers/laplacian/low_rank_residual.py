"""Led blocks: many columns, the residuals of whose start lie in a few directions.

The directions are solved for, and their solutions mixed into the start.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, RealArray
from peewit.solvers.iteration_loop import Outcome
from peewit.solvers.laplacian.leading import LEAST_COLUMNS, LeadingDirections
from peewit.solvers.laplacian.pcg import PCGState, farthest_start
from peewit.solvers.laplacian.preconditioned_system import System
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.status import Status

_LEFT_OUT: Final = 0.75  # of rtol; of the start's residual, when a few directions stand for it
_DIRECTIONS: Final = 1 / 16  # of rtol; what solves for directions may add
_ROWS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LedBlock:
    """Iterates of a block, and how they were reached."""

    x: RealArray  # (n_nodes, k), in the memory of the start
    status: Status  # of the solve for the directions; converged if there was none
    residual: FloatArray  # (k,) bound on the relative residual; infinite if unknown
    n_iter: int = 0


def lead(
    system: System,
    rhs: RealArray,
    start: RealArray,
    norms: FloatArray,
    *,
    rtol: float,
    max_iter: int,
    patience: int | None,
    run: Callable[..., Outcome[PCGState]],
) -> LedBlock:
    """The start, plus a solution for the few directions that hold its residual."""
    led = LedBlock(x=start, status=Status.CONVERGED, residual=np.full(rhs.shape[1], np.inf))
    if rhs.shape[1] < LEAST_COLUMNS or not start.any():
        return led
    residual = _residual(system.operator, rhs, start)
    sizes = np.abs(residual).max(axis=0) / norms
    if not (sizes <= farthest_start(rtol, start.dtype)).all():
        return led
    leading = LeadingDirections.of_residuals(residual, norms, _LEFT_OUT * rtol)
    del residual
    if leading is None:
        return led
    n_directions = leading.columns.shape[1]
    if n_directions == 0:
        return replace(led, residual=leading.left)
    allowed = _DIRECTIONS * rtol / np.sqrt(n_directions)
    directions = _solved_directions(system, leading.columns, allowed, max_iter, patience, run)
    mix = leading.mix.astype(directions.x.dtype)
    for row in range(0, len(start), _ROWS_AT_ONCE):
        start[row : row + _ROWS_AT_ONCE] += directions.x[row : row + _ROWS_AT_ONCE] @ mix
    return replace(
        led,
        status=directions.status,
        residual=leading.left + directions.residual @ np.abs(leading.mix) / norms,
        n_iter=directions.n_iter,
    )


def _solved_directions(
    system: System,
    rhs: RealArray,
    allowed: float,
    max_iter: int,
    patience: int | None,
    run: Callable[..., Outcome[PCGState]],
) -> LedBlock:
    """Columns whose residuals have norms up to ``allowed``; in float32 as far as that reaches."""
    start, norms, n_iter = np.zeros_like(rhs), np.ones(rhs.shape[1]), 0
    single = system.in_single()
    if single is not None:
        method = replace(single.pcg(rhs, start, norms, allowed, patience), exact=system.operator)
        outcome = run(method, max_iter=max_iter)
        is_spent = outcome.status is Status.STAGNATED and outcome.state.is_spent
        start, residual = method.finish(outcome.state)
        n_iter = outcome.n_iter
    if single is None or is_spent:
        method = system.pcg(rhs, start, norms, allowed, patience)
        outcome = run(method, max_iter=max_iter - n_iter)
        start, residual = method.finish(outcome.state)
        n_iter += outcome.n_iter
    return LedBlock(x=start, status=outcome.status, residual=residual, n_iter=n_iter)


def _residual(operator: ShiftedLaplacian, rhs: RealArray, x: RealArray) -> RealArray:
    """``rhs`` - M x as a new block."""
    residual = np.empty_like(rhs)
    operator.product(x, residual)
    np.subtract(rhs, residual, out=residual)
    operator.project(residual)
    return residual
