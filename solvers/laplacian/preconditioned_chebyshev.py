"""Preconditioned Chebyshev iteration: it reduces every direction alike, whatever its share.

Conjugate gradients serve first the directions that dominate a right-hand side, and neglect the
direction of an edge between two communities, of which hardly any right-hand side has much.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from peewit.solvers.arrays import FloatArray, RealArray
from peewit.solvers.kernels.laplacian_products import advance, column_dots, redirect
from peewit.solvers.laplacian.preconditioners import Preconditioner
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.spectral_bounds import SpectralBounds
from peewit.solvers.status import Status

_MAX_CYCLES = 6
_WIDEN_BELOW = 0.5
_WIDEN_ABOVE = 1.2


@dataclass(slots=True, kw_only=True, eq=False)
class ChebyshevState:
    """Iterate, residual and direction of every column, and the state of the present cycle.

    A cycle ends with a check of the residual.
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChebyshevCycles(ABC):
    """The method but for its products, for `peewit.solvers.iteration_loop.iterate`.

    Inside the bounds every direction of the error shrinks below ``rtol`` of its start. The residual
    is checked at the end of a cycle; bounds that prove wrong are widened for another cycle.

    References
    ----------
    Saad, Iterative methods for sparse linear systems, 2nd edition, Algorithm 12.1, whose lines the
    comments name.
    """

    operator: ShiftedLaplacian  # L
    rhs: RealArray  # (n_nodes, k), inside the range of L; overwritten
    bounds: SpectralBounds  # of M^-1 L, M the preconditioner
    rtol: float

    def init(self) -> ChebyshevState:
        """The first direction, from a zero iterate."""
        state = ChebyshevState(
            iterate=np.zeros_like(self.rhs),
            residual=self.rhs,
            direction=np.empty_like(self.rhs),
            scratch=np.empty_like(self.rhs),
            first_energy=np.zeros(self.rhs.shape[1]),
            bounds=self.bounds,
        )
        state.first_energy = self._energy(state)
        if not (state.first_energy > 0).any():
            state.relative = 0.0
        self._begin_cycle(state)
        return state

    def terminate(self, state: ChebyshevState) -> Status | None:
        """Converged after a cycle that passes its check; stagnated after too many that do not."""
        if state.relative <= self.rtol:
            return Status.CONVERGED
        if state.n_cycles >= _MAX_CYCLES or not np.isfinite(state.relative):
            return Status.STAGNATED
        return None

    def fraction(self, state: ChebyshevState) -> float:
        """Share of the present cycle that is done."""
        if state.relative <= self.rtol:
            return 1.0
        return 1 - state.n_left / state.bounds.n_chebyshev_steps(self.rtol)

    def _begin_cycle(self, state: ChebyshevState) -> None:
        """Start over from the present residual."""
        self._first_directions(state)
        state.ratio = state.bounds.half_width / state.bounds.center  # line 2: rho = delta / theta
        state.n_left = state.bounds.n_chebyshev_steps(self.rtol)

    def _end_cycle(self, state: ChebyshevState) -> None:
        """Measure the residual, and begin another cycle in wider bounds."""
        energy = self._energy(state)
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
        self._begin_cycle(state)

    @abstractmethod
    def step(self, state: ChebyshevState) -> ChebyshevState:
        """One product, and at the end of a cycle the check."""

    @abstractmethod
    def _first_directions(self, state: ChebyshevState) -> None:
        """Line 2: d = M^-1 r / theta; follows `_energy`."""

    @abstractmethod
    def _energy(self, state: ChebyshevState) -> FloatArray:
        """(k,) squared norms of the residual in M^-1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chebyshev(ChebyshevCycles):
    """Chebyshev iteration with any preconditioner M."""

    preconditioner: Preconditioner

    def step(self, state: ChebyshevState) -> ChebyshevState:
        """One product, one preconditioning, and at the end of a cycle the check."""
        center, half = state.bounds.center, state.bounds.half_width
        self.operator.product(state.direction, state.scratch)
        whole = np.ones(self.rhs.shape[1], dtype=self.rhs.dtype)
        # lines 4 and 5: x += d, r -= A d
        advance(state.iterate, state.residual, state.direction, state.scratch, whole)
        state.n_left -= 1
        if state.n_left == 0:
            self._end_cycle(state)
            return state
        self.preconditioner.apply(state.residual, state.scratch)
        ratio = 1 / (2 * center / half - state.ratio)  # line 6: rho
        redirect(  # line 7: d = rho rho_before d + (2 rho / delta) M^-1 r
            state.direction,
            state.scratch,
            whole * whole.dtype.type(ratio * state.ratio),
            whole * whole.dtype.type(2 * ratio / half),
        )
        state.ratio = ratio
        return state

    def _first_directions(self, state: ChebyshevState) -> None:
        theta = state.scratch.dtype.type(state.bounds.center)
        np.divide(state.scratch, theta, out=state.direction)

    def _energy(self, state: ChebyshevState) -> FloatArray:
        """Leaves the preconditioned residual in ``scratch``."""
        self.preconditioner.apply(state.residual, state.scratch)
        total: FloatArray = column_dots(state.residual, state.scratch)
        return total
