"""Preconditioned Chebyshev iteration: every direction is reduced alike, whatever its share.

Conjugate gradients first serve the directions a right-hand side is made of. An edge between two
communities lives in a direction that hardly any right-hand side contains, and gets nothing.
"""

from dataclasses import dataclass, replace

import numpy as np

from peewit.solvers.arrays import FloatArray, RealArray
from peewit.solvers.kernels.block_products import advance, column_dots, redirect
from peewit.solvers.laplacian.operator import ShiftedLaplacian
from peewit.solvers.laplacian.preconditioners import Preconditioner
from peewit.solvers.laplacian.spectrum import SpectralBounds
from peewit.solvers.solution import Status

_MAX_CYCLES = 6
_WIDEN_BELOW = 0.5
_WIDEN_ABOVE = 1.2


@dataclass(slots=True, kw_only=True, eq=False)
class ChebyshevState:
    """Iterate, residual and direction of every column, and where the present cycle stands.

    A cycle ends with a look at the residual.
    """

    iterate: RealArray
    residual: RealArray
    direction: RealArray
    scratch: RealArray
    first_energy: FloatArray
    bounds: SpectralBounds
    n_left: int = 0
    ratio: float = 1.0
    relative: float = 1.0
    n_cycles: int = 0


def end_cycle(state: ChebyshevState, energy: FloatArray) -> None:
    """Note what is left of the residual, and widen the bounds for another cycle."""
    left = np.divide(
        energy, state.first_energy, out=np.zeros_like(energy), where=state.first_energy > 0
    )
    state.relative = float(np.sqrt(left.max(initial=0.0)))
    state.n_cycles += 1
    # Ritz values lie inside the spectrum: what is left of the residual lies beyond the bounds
    state.bounds = replace(
        state.bounds,
        lowest=state.bounds.lowest * _WIDEN_BELOW,
        highest=state.bounds.highest * _WIDEN_ABOVE,
    )


def cycle_status(state: ChebyshevState, rtol: float) -> Status | None:
    """Converged after a cycle whose check is passed; stagnated after too many that are not."""
    if state.relative <= rtol:
        return Status.CONVERGED
    if state.n_cycles >= _MAX_CYCLES or not np.isfinite(state.relative):
        return Status.STAGNATED
    return None


def cycle_fraction(state: ChebyshevState, rtol: float) -> float:
    """Share of the present cycle that is done."""
    if state.relative <= rtol:
        return 1.0
    return 1 - state.n_left / state.bounds.n_chebyshev_steps(rtol)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chebyshev:
    """The method, for `peewit.solvers.iterate.iterate`.

    Inside the bounds every direction of the error shrinks below ``rtol`` of what it was. The
    residual is checked at the end; bounds that prove wrong are widened for another cycle.

    Attributes
    ----------
    operator, preconditioner
        L, and M with the non-zero spectrum of M^-1 L inside ``bounds``.
    rhs : (n_nodes, k)
        Inside the range of L; overwritten.
    bounds : SpectralBounds
        Of M^-1 L.
    rtol : float
        In (0, 1).

    References
    ----------
    Saad, Iterative methods for sparse linear systems, 2nd edition, Algorithm 12.1, whose lines the
    comments name.
    """

    operator: ShiftedLaplacian
    preconditioner: Preconditioner
    rhs: RealArray
    bounds: SpectralBounds
    rtol: float

    def init(self) -> ChebyshevState:
        """The first direction, from a zero iterate."""
        state = ChebyshevState(
            iterate=np.zeros_like(self.rhs),
            residual=self.rhs,
            direction=np.zeros_like(self.rhs),
            scratch=np.empty_like(self.rhs),
            first_energy=np.zeros(self.rhs.shape[1]),
            bounds=self.bounds,
        )
        self.preconditioner.apply(state.residual, state.scratch)
        state.first_energy = column_dots(state.residual, state.scratch)
        if not (state.first_energy > 0).any():
            state.relative = 0.0
        self._begin_cycle(state)
        return state

    def step(self, state: ChebyshevState) -> ChebyshevState:
        """One product, one preconditioning, and at the end of a cycle the check."""
        centre, half = state.bounds.centre, state.bounds.half_width
        self.operator.product(state.direction, state.scratch)
        whole = np.ones(self.rhs.shape[1], dtype=self.rhs.dtype)
        # lines 4 and 5: x += d, r -= A d
        advance(state.iterate, state.residual, state.direction, state.scratch, whole)
        self.preconditioner.apply(state.residual, state.scratch)
        state.n_left -= 1
        if state.n_left == 0:
            end_cycle(state, column_dots(state.residual, state.scratch))
            self._begin_cycle(state)
            return state
        ratio = 1 / (2 * centre / half - state.ratio)  # line 6: rho
        redirect(  # line 7: d = rho rho_before d + (2 rho / delta) M^-1 r
            state.direction,
            state.scratch,
            whole * whole.dtype.type(ratio * state.ratio),
            whole * whole.dtype.type(2 * ratio / half),
        )
        state.ratio = ratio
        return state

    def terminate(self, state: ChebyshevState) -> Status | None:
        """Converged after a cycle whose check is passed; stagnated after too many that are not."""
        return cycle_status(state, self.rtol)

    def fraction(self, state: ChebyshevState) -> float:
        """Share of the present cycle that is done."""
        return cycle_fraction(state, self.rtol)

    def _begin_cycle(self, state: ChebyshevState) -> None:
        """Start anew from the present residual, which ``scratch`` holds preconditioned."""
        centre, half = state.bounds.centre, state.bounds.half_width
        # line 2: d = M^-1 r / theta, rho = delta / theta
        np.divide(state.scratch, state.scratch.dtype.type(centre), out=state.direction)
        state.ratio = half / centre
        state.n_left = state.bounds.n_chebyshev_steps(self.rtol)
