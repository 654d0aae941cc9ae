"""Block preconditioned conjugate gradients: all right-hand sides at once, one product per step.

Every column has its own step lengths and stop test. A column is done only when its true residual is
small enough; done columns leave the block.

Steps may be done in float32 for an answer in float64: with one or two columns they are bound by
memory traffic, which float32 halves. True residuals and the sum of the steps are then computed in
float64 (residual replacement).

References
----------
van der Vorst and Ye, Residual replacement strategies for Krylov subspace iterative methods for the
convergence of true residuals, SIAM Journal on Scientific Computing 22, 2000. Saad, Iterative
methods for sparse linear systems, 2nd edition, Algorithm 9.1, whose lines the comments name.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array, RealArray
from peewit.solvers.kernels.laplacian_products import (
    advance,
    column_dots,
    redirect,
    redirect_by_rows,
    squares_by_rows,
)
from peewit.solvers.laplacian.preconditioners import Jacobi, Preconditioner
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.status import Status

_TRUE_RESIDUAL_EVERY = 50
_IMPROVEMENT = 0.8
_FORECAST_EVERY = 5
_LEAST_GAIN = 0.5
_FIRST_GUESS, _DOUBT = 10, 1.5
_START_SHARE = 0.1  # of rtol; most that rounding of the start may be

FIRST_FORECAST = 20
"""Steps after which a run forecasts how many it takes."""


@dataclass(slots=True, eq=False)
class PCGState:
    """The columns still at work, and the progress of all columns.

    ``relative`` and ``solution`` (None until a column is done) hold every column; the other blocks
    hold the columns at work, whose numbers are ``columns``. Where steps are done in float32,
    ``iterate`` is what is to be added to ``base``, and ``is_spent`` says that steps gain no more.
    """

    relative: FloatArray
    columns: Int64Array
    rhs: RealArray
    iterate: RealArray
    residual: RealArray
    direction: RealArray
    scratch: RealArray
    energy: FloatArray
    waiting: BoolArray
    base: RealArray | None = None
    solution: RealArray | None = None
    n_iter: int = 0
    last_true_residual: int = 0
    best: float = np.inf
    last_improvement: int = 0
    history: tuple[float, ...] = ()
    last_true: float = np.inf
    is_spent: bool = False
    next_energy: FloatArray | None = None  # of the residuals, if the last step computed it

    def take_rest(self) -> RealArray:
        """The iterates of the columns at work; moves ``iterate`` into ``base``, if there is one."""
        if self.base is None:
            return self.iterate
        self.base += self.iterate
        self.iterate[:] = 0.0
        return self.base

    def stored(self, done: BoolArray) -> RealArray:
        """The solution, with the iterates of ``done`` columns stored in it."""
        rest = self.take_rest()
        if self.solution is None and done.all():
            return rest
        whole = self.solution
        if whole is None:
            whole = np.empty((len(rest), self.relative.size), rest.dtype)
        whole[:, self.columns[done]] = rest[:, done]
        return whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockPCG:
    """Block PCG for `peewit.solvers.iteration_loop.iterate`.

    Attributes
    ----------
    preconditioner : Preconditioner
        An approximate inverse on the space in which the system is solved.
    exact : ShiftedLaplacian or None
        The system in float64, if ``operator`` is in float32 and the answer is to be in float64.
    rhs, start : (n_nodes, k)
        Right-hand sides, inside the range of the operator, and first iterates.
    norms : (k,) float64
        What residuals are measured against: the norms of the right-hand sides (1 for a zero column,
        which a zero start solves).
    patience : int or None
        Give up (`Status.STAGNATED`) when the slowest column's rate forecasts more steps in all.
    """

    operator: ShiftedLaplacian
    preconditioner: Preconditioner
    rhs: RealArray
    start: RealArray
    norms: FloatArray
    rtol: float
    exact: ShiftedLaplacian | None = None
    patience: int | None = None

    def init(self) -> PCGState:
        """Residuals of the start, without the columns that it already solves."""
        shape, n_columns, dtype = self.rhs.shape, self.rhs.shape[1], self.operator.dtype
        is_mixed = self.exact is not None
        state = PCGState(
            relative=np.ones(n_columns),
            columns=np.arange(n_columns),
            rhs=self.rhs,
            iterate=np.zeros(shape, dtype) if is_mixed else self.start.copy(),
            residual=self.rhs.astype(dtype),
            direction=np.zeros(shape, dtype),
            scratch=np.empty(shape, dtype),
            energy=np.ones(n_columns),
            waiting=np.zeros(n_columns, dtype=bool),
            base=self.start.copy() if is_mixed else None,
        )
        if self.start.any():
            self._take_true_residual(state)
            self._forget_far_starts(state)
        else:
            empty = column_dots(self.rhs, self.rhs) == 0
            state.relative[empty] = 0.0
            _drop_columns(state, empty)
        if state.columns.size:
            self._turn(state, np.zeros(state.columns.size))
        return state

    def step(self, state: PCGState) -> PCGState:
        """One product, one step of every column at work, one new direction."""
        state.n_iter += 1
        curvature = self.operator.product_and_dots(state.direction, state.scratch)
        # a column without curvature has only rounding left, and waits for its true residual
        moving = ~state.waiting & (curvature > 0)
        # line 3: alpha = (r, z) / (p, A p)
        length = np.divide(state.energy, curvature, out=np.zeros_like(curvature), where=moving)
        squares = self._advance(state, length.astype(self.operator.dtype))  # lines 4 and 5
        relative = np.sqrt(squares) / self.norms[state.columns]
        state.relative[state.columns] = relative
        state.waiting |= (relative <= self.rtol) | ~moving
        since_true = state.n_iter - state.last_true_residual
        restart = np.zeros(state.columns.size, dtype=bool)
        # a true residual takes a product with all columns: too much for the sake of a few
        if 4 * state.waiting.sum() >= state.waiting.size or since_true >= _TRUE_RESIDUAL_EVERY:
            restart = self._take_true_residual(state)
        if state.columns.size:
            self._note_progress(state)
            self._turn(state, np.where(restart, 0.0, state.energy))
        return state

    def terminate(self, state: PCGState) -> Status | None:
        """Converged when no column is left; stagnated when the slowest one stopped improving."""
        if state.columns.size == 0:
            return Status.CONVERGED
        if state.is_spent:
            return Status.STAGNATED
        if state.n_iter - state.last_improvement > self.preconditioner.stagnation_window:
            return Status.STAGNATED
        if self.patience is not None and self._forecast(state) > self.patience:
            return Status.STAGNATED
        return None

    def fraction(self, state: PCGState) -> float:
        """Share of the requested digits that the slowest column has."""
        if state.columns.size == 0:
            return 1.0
        worst = float(state.relative.max())
        return float(np.log(worst) / np.log(self.rtol)) if 0 < worst < 1 else 0.0

    def finish(self, state: PCGState) -> tuple[RealArray, FloatArray]:
        """Solution (n_nodes, k) and true relative residual (k,) of every column."""
        if state.columns.size:
            self._take_true_residual(state)
        if state.solution is None or state.columns.size:
            state.solution = state.stored(np.ones_like(state.waiting))
        return state.solution, state.relative

    def _turn(self, state: PCGState, old_energy: FloatArray) -> None:
        """New search directions; an old energy of zero restarts a column."""
        direction, residual, preconditioned = state.direction, state.residual, state.scratch
        inverse, ranges = self._inverse_diagonal, self.operator.ranges
        if inverse is None:
            self.preconditioner.apply(residual, preconditioned)  # line 6: z = M^-1 r
            state.energy = self.operator.dots(residual, preconditioned)
        elif state.next_energy is None:
            parts = ranges.run(
                lambda a, b: squares_by_rows(residual[a:b], inverse[a:b]), residual.size
            )
            state.energy = np.add.reduce(parts)
        else:
            state.energy = state.next_energy
        # line 7: beta
        factor = np.divide(
            state.energy, old_energy, out=np.zeros_like(state.energy), where=old_energy > 0
        )
        factor = factor.astype(self.operator.dtype)

        def redirected(start: int, stop: int) -> None:
            rows = slice(start, stop)
            if inverse is None:
                redirect(direction[rows], preconditioned[rows], factor, np.ones_like(factor))
            else:
                redirect_by_rows(direction[rows], residual[rows], inverse[rows], factor)

        ranges.run(redirected, 2 * direction.size)  # line 8: p = z + beta p

    @property
    def _inverse_diagonal(self) -> RealArray | None:
        """(n_nodes,) factors of rows, if the preconditioner does nothing else.

        Its result is then never stored: energies and directions are computed from the residuals.
        """
        used = self.preconditioner
        if isinstance(used, Jacobi) and not self.operator.projects_products:
            return used.inverse
        return None

    def _advance(self, state: PCGState, length: RealArray) -> FloatArray:
        """Step in place; squared norms of the new residuals."""
        iterate, residual = state.iterate, state.residual
        direction, product = state.direction, state.scratch
        inverse = self._inverse_diagonal

        def advanced(start: int, stop: int) -> tuple[FloatArray, ...]:
            rows = slice(start, stop)
            squares = advance(iterate[rows], residual[rows], direction[rows], product[rows], length)
            if inverse is None:
                return (squares,)
            return squares, squares_by_rows(residual[rows], inverse[rows])

        parts = self.operator.ranges.run(advanced, 4 * iterate.size)
        totals: list[FloatArray] = [np.add.reduce(part) for part in zip(*parts, strict=True)]
        state.next_energy = None if inverse is None else totals[1]
        return totals[0]

    def _take_true_residual(self, state: PCGState) -> BoolArray:
        """Replace residuals by b - Mx and drop solved columns; says which of the rest restart."""
        state.last_true_residual, state.next_energy = state.n_iter, None
        left = self._true_residual(state)
        relative = np.sqrt(self.operator.dots(left, left)) / self.norms[state.columns]
        if self.exact is not None:
            worst = float(relative.max())
            # float32 steps that no longer halve the true residual gain no more digits
            state.is_spent = worst > _LEAST_GAIN * state.last_true
            state.last_true = worst
        state.relative[state.columns] = relative
        solved = relative <= self.rtol
        _drop_columns(state, solved)
        # columns that only seemed done restart: their recurrence has drifted from the truth
        restart = state.waiting
        state.waiting = np.zeros_like(restart)
        return restart

    def _true_residual(self, state: PCGState) -> RealArray:
        """The columns b - Mx at work; also stored in ``residual``."""
        if self.exact is None:
            operator, left, product = self.operator, state.residual, state.scratch
        else:
            operator = self.exact
            left = product = np.empty_like(state.rhs)
        operator.product(state.take_rest(), product)
        np.subtract(state.rhs, product, out=left)
        operator.project(left)
        if left is not state.residual:
            state.residual[:] = left
        return left

    def _forget_far_starts(self, state: PCGState) -> None:
        """Begin at 0 in columns whose start has more rounding error than ``rtol`` allows."""
        relative = state.relative[state.columns]
        is_far = ~(relative <= farthest_start(self.rtol, state.rhs.dtype))
        if is_far.any():
            state.take_rest()[:, is_far] = 0.0
            state.residual[:, is_far] = state.rhs[:, is_far]
            state.relative[state.columns[is_far]] = 1.0

    def _note_progress(self, state: PCGState) -> None:
        """Record when the slowest column last improved, and its recent residuals."""
        worst = float(state.relative[state.columns].max())
        if worst < _IMPROVEMENT * state.best:
            state.best, state.last_improvement = worst, state.n_iter
        if state.n_iter % _FORECAST_EVERY == 0:
            state.history = (*state.history, worst)

    def _forecast(self, state: PCGState) -> float:
        """Steps in all by the better of the last two rates; 0 while it is too early to say.

        Before `FIRST_FORECAST` the forecast is divided by `_DOUBT`, so that only far too slow runs
        end.
        """
        if state.n_iter < _FIRST_GUESS or state.n_iter % _FORECAST_EVERY:
            return 0.0
        forecasts = []
        for earlier, later in pairwise(state.history[-3:]):
            rate = np.log(earlier / later) / _FORECAST_EVERY  # digits (of e) a step
            left = np.log(state.history[-1] / self.rtol)
            forecasts.append(state.n_iter + left / rate if rate > 0 else np.inf)
        return float(min(forecasts)) / (1.0 if state.n_iter >= FIRST_FORECAST else _DOUBT)


def farthest_start(rtol: float, dtype: Any) -> float:
    """Relative residual of a start above which ``rtol`` cannot be reached from it."""
    return _START_SHARE * rtol / float(np.finfo(dtype).eps)


def _drop_columns(state: PCGState, solved: BoolArray) -> None:
    """Store the solved columns and keep the others at work."""
    if not solved.any():
        return
    state.solution = state.stored(solved)
    keep = ~solved
    state.columns = state.columns[keep]
    state.energy, state.waiting = state.energy[keep], state.waiting[keep]
    state.rhs = np.ascontiguousarray(state.rhs[:, keep])
    state.iterate = np.ascontiguousarray(state.iterate[:, keep])
    if state.base is not None:
        state.base = np.ascontiguousarray(state.base[:, keep])
    state.residual = np.ascontiguousarray(state.residual[:, keep])
    state.direction = np.ascontiguousarray(state.direction[:, keep])
    state.scratch = np.empty_like(state.residual)
