"""Jacobi-preconditioned Chebyshev iteration in float32, its rows divided among threads.

The method of `peewit.solvers.laplacian.preconditioned_chebyshev` for the one preconditioner that
needs no pass of its own: product, step, preconditioning and turn are one pass over the matrix.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import AnyArray, Float32Array, FloatArray
from peewit.solvers.kernels.jacobi_chebyshev import (
    chebyshev_rows,
    first_directions,
    scaled_energies,
    smooth_rows,
)
from peewit.solvers.laplacian.operator import ShiftedLaplacian
from peewit.solvers.laplacian.preconditioned_chebyshev import (
    ChebyshevState,
    cycle_fraction,
    cycle_status,
    end_cycle,
)
from peewit.solvers.laplacian.spectrum import SpectralBounds
from peewit.solvers.parallel import RowRanges
from peewit.solvers.solution import Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JacobiChebyshev:
    """The method, for `peewit.solvers.iterate.iterate`.

    Attributes
    ----------
    operator : ShiftedLaplacian
        M in float32.
    inverse_diagonal : (n_nodes,) float32
        1 / diag(M), zero where that is.
    rows : RowRanges
        Runs the tasks of one step.
    rhs : (n_nodes, k) float32
        Inside the range of M; overwritten. A k that is a multiple of 32 is fastest by far.
    bounds : SpectralBounds
        Of diag(M)^-1 M.
    rtol : float
        In (0, 1).

    References
    ----------
    Saad, Iterative methods for sparse linear systems, 2nd edition, algorithm 12.1.
    """

    operator: ShiftedLaplacian
    inverse_diagonal: Float32Array
    rows: RowRanges
    rhs: Float32Array
    bounds: SpectralBounds
    rtol: float

    def init(self) -> ChebyshevState:
        """The first direction, from a zero solution."""
        state = ChebyshevState(
            iterate=np.zeros_like(self.rhs),
            residual=self.rhs,
            direction=np.empty_like(self.rhs),
            scratch=np.empty_like(self.rhs),
            first_energy=np.zeros(self.rhs.shape[1]),
            bounds=self.bounds,
        )
        state.first_energy = self._energy(state.residual)
        if not (state.first_energy > 0).any():
            state.relative = 0.0
        self._begin_cycle(state)
        return state

    def step(self, state: ChebyshevState) -> ChebyshevState:
        """One pass over the matrix, and at the end of a cycle the check."""
        centre, half = state.bounds.centre, state.bounds.half_width
        ratio = 1 / (2 * centre / half - state.ratio)
        gain, keep = 2 * ratio / half, ratio * state.ratio

        def rows(start: int, stop: int) -> None:
            chebyshev_rows(
                *self._matrix,
                self.operator.diagonal,
                self.inverse_diagonal,
                state.direction,
                state.scratch,
                state.iterate,
                state.residual,
                gain,
                keep,
                start,
                stop,
            )

        self.rows.run(rows)
        state.direction, state.scratch = state.scratch, state.direction
        state.ratio = ratio
        state.n_left -= 1
        if state.n_left == 0:
            end_cycle(state, self._energy(state.residual))
            self._begin_cycle(state)
        return state

    def terminate(self, state: ChebyshevState) -> Status | None:
        """Converged after a cycle whose check is passed; stagnated after too many that are not."""
        return cycle_status(state, self.rtol)

    def fraction(self, state: ChebyshevState) -> float:
        """Share of the present cycle that is done."""
        return cycle_fraction(state, self.rtol)

    def smoothed(self, state: ChebyshevState) -> Float32Array:
        """``diag(M)^-1 A Z`` of the solutions Z, in memory that the state no longer needs."""

        def rows(start: int, stop: int) -> None:
            smooth_rows(
                *self._matrix, self.inverse_diagonal, state.iterate, state.residual, start, stop
            )

        self.rows.run(rows)
        return state.residual

    def _begin_cycle(self, state: ChebyshevState) -> None:
        """Start anew from the present residual."""
        gain = 1 / state.bounds.centre

        def rows(start: int, stop: int) -> None:
            first_directions(
                state.residual, self.inverse_diagonal, gain, state.direction, start, stop
            )

        self.rows.run(rows)
        state.ratio = state.bounds.half_width / state.bounds.centre
        state.n_left = state.bounds.n_chebyshev_steps(self.rtol)

    def _energy(self, residual: Float32Array) -> FloatArray:
        """(k,) squared norms in diag(M)^-1, summed over fixed ranges of rows."""

        def rows(start: int, stop: int) -> FloatArray:
            energies: FloatArray = scaled_energies(residual, self.inverse_diagonal, start, stop)
            return energies

        energy: FloatArray = np.sum(self.rows.run(rows), axis=0)
        return energy

    @property
    def _matrix(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        return self.operator.indptr, self.operator.indices, self.operator.weight
