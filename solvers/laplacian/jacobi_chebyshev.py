"""Jacobi-preconditioned Chebyshev iteration in float32, its rows divided among threads.

The method of `peewit.solvers.laplacian.preconditioned_chebyshev` for the preconditioner that needs
no pass of its own: a step is one pass over the matrix.
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
from peewit.solvers.laplacian.preconditioned_chebyshev import ChebyshevCycles, ChebyshevState
from peewit.solvers.row_ranges import RowRanges


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JacobiChebyshev(ChebyshevCycles):
    """Chebyshev iteration with M = diag(L), in float32; fastest by far for k a multiple of 32."""

    inverse_diagonal: Float32Array  # (n_nodes,) 1 / diag(L), zero where diag(L) is
    rows: RowRanges

    def step(self, state: ChebyshevState) -> ChebyshevState:
        """One pass over the matrix, and at the end of a cycle the check."""
        center, half = state.bounds.center, state.bounds.half_width
        ratio = 1 / (2 * center / half - state.ratio)
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
            self._end_cycle(state)
        return state

    def smoothed(self, state: ChebyshevState) -> Float32Array:
        """``diag(L)^-1 A Z`` of the solutions Z; it reuses memory of the state."""

        def rows(start: int, stop: int) -> None:
            smooth_rows(
                *self._matrix, self.inverse_diagonal, state.iterate, state.residual, start, stop
            )

        self.rows.run(rows)
        return state.residual

    def _first_directions(self, state: ChebyshevState) -> None:
        gain = 1 / state.bounds.center

        def rows(start: int, stop: int) -> None:
            first_directions(
                state.residual, self.inverse_diagonal, gain, state.direction, start, stop
            )

        self.rows.run(rows)

    def _energy(self, state: ChebyshevState) -> FloatArray:
        """Sums over fixed ranges of rows."""

        def rows(start: int, stop: int) -> FloatArray:
            energies: FloatArray = scaled_energies(
                state.residual, self.inverse_diagonal, start, stop
            )
            return energies

        energy: FloatArray = np.sum(self.rows.run(rows), axis=0)
        return energy

    @property
    def _matrix(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        return self.operator.indptr, self.operator.indices, self.operator.weight
