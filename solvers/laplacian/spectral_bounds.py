"""Bounds on the spectrum of a preconditioned Laplacian, by Lanczos from a random vector.

They tell how well a preconditioner fits every direction. No residual does: a direction that is a
1e-5 part of a right-hand side is invisible at a residual of 1e-2.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peewit.solvers.arrays import FloatArray, RealArray
from peewit.solvers.iteration_loop import Outcome
from peewit.solvers.kernels.laplacian_products import advance, column_dots, redirect
from peewit.solvers.laplacian.preconditioners import Preconditioner
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.late_modules import LateModule
from peewit.solvers.status import Status

linalg = LateModule("scipy.linalg")

CHECK_EVERY = 4
"""Steps between two computations of the Ritz values."""

_N_STARTS = 1
_EXHAUSTED = 1e-12
_LEAST = 1e-12
_MARGIN_BELOW = 0.8
_MARGIN_ABOVE = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectralBounds:
    """An interval that holds the non-zero eigenvalues of M^-1 L.

    ``lowest`` and ``highest`` are the outermost Ritz values with a margin, 0 < lowest < highest.
    Converged when an eigenvalue below half the lowest Ritz value would have been seen.
    """

    lowest: float
    highest: float
    status: Status
    n_iter: int

    @property
    def center(self) -> float:
        """Middle of the interval."""
        return (self.highest + self.lowest) / 2

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.highest - self.lowest) / 2

    def n_chebyshev_steps(self, rtol: float) -> int:
        """Steps after which Chebyshev iteration leaves less than ``rtol`` of any direction."""
        return int(np.ceil(np.arccosh(1 / rtol) / np.arccosh(self.center / self.half_width)))


@dataclass(slots=True, eq=False)
class LanczosState:
    """Conjugate gradients on random right-hand sides, and their coefficients.

    ``lengths`` and ``factors`` hold the coefficients of every step, one row each.
    """

    iterate: RealArray
    residual: RealArray
    direction: RealArray
    scratch: RealArray
    energy: FloatArray
    first_energy: FloatArray
    lengths: list[FloatArray] = field(default_factory=list)
    factors: list[FloatArray] = field(default_factory=list)
    lowest: float = 1.0
    highest: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lanczos:
    """Lanczos for M^-1 L, without shift, for `peewit.solvers.iteration_loop.iterate`.

    The coefficients of preconditioned conjugate gradients make the Lanczos matrix of M^-1 L,
    restricted to the space of the right-hand sides: zero sums on every component.
    """

    operator: ShiftedLaplacian
    preconditioner: Preconditioner
    seed: int

    def init(self) -> LanczosState:
        """Random right-hand sides in which no direction is small."""
        rng = np.random.default_rng(self.seed)
        residual = rng.standard_normal((self.operator.n_nodes, _N_STARTS), self.operator.dtype)
        residual *= np.sqrt(self.operator.diagonal)[:, None]
        self.operator.project(residual)
        direction = np.empty_like(residual)
        self.preconditioner.apply(residual, direction)
        energy = column_dots(residual, direction)
        return LanczosState(
            iterate=np.zeros_like(residual),
            residual=residual,
            direction=direction,
            scratch=np.empty_like(residual),
            energy=energy,
            first_energy=energy,
        )

    def step(self, state: LanczosState) -> LanczosState:
        """One step of conjugate gradients; the Ritz values every `CHECK_EVERY` steps."""
        self.operator.product(state.direction, state.scratch)
        curvature = column_dots(state.direction, state.scratch)
        going = (curvature > 0) & (state.energy > _EXHAUSTED * state.first_energy)
        length = np.divide(state.energy, curvature, out=np.zeros_like(curvature), where=going)
        step = length.astype(self.operator.dtype)
        advance(state.iterate, state.residual, state.direction, state.scratch, step)
        self.operator.project(state.residual)  # rounding must not feed constants back
        self.preconditioner.apply(state.residual, state.scratch)
        energy = column_dots(state.residual, state.scratch)
        factor = np.divide(energy, state.energy, out=np.zeros_like(energy), where=going)
        turn = factor.astype(self.operator.dtype)
        redirect(state.direction, state.scratch, turn, np.ones_like(turn))
        state.energy = energy
        state.lengths.append(length)
        state.factors.append(factor)
        if len(state.lengths) % CHECK_EVERY == 0 or self._is_exhausted(state):
            _take_ritz_values(state)
        return state

    def terminate(self, state: LanczosState) -> Status | None:
        """Converged when the lowest Ritz value can be trusted."""
        n_steps = len(state.lengths)
        if self._is_exhausted(state):
            return Status.CONVERGED
        if n_steps == 0 or n_steps % CHECK_EVERY:
            return None
        certain = certainty(state.lowest, state.highest, self.operator.n_nodes, n_steps) >= 1.0
        return Status.CONVERGED if certain else None

    def fraction(self, state: LanczosState) -> float:
        """Digits gained over the digits after which nothing would be left."""
        if self._is_exhausted(state):
            return 1.0
        left = float(np.max(state.energy / np.where(state.first_energy > 0, state.first_energy, 1)))
        return float(np.log(left) / np.log(_EXHAUSTED)) if left > 0 else 1.0

    def _is_exhausted(self, state: LanczosState) -> bool:
        """Whether nothing is left of any right-hand side."""
        return bool((state.energy <= _EXHAUSTED * state.first_energy).all())


def bounds_of_ritz_values(outcome: Outcome[Any]) -> SpectralBounds:
    """Bounds from the ``lowest`` and ``highest`` Ritz value of a last state, with a margin."""
    return SpectralBounds(
        lowest=_MARGIN_BELOW * max(outcome.state.lowest, _LEAST),
        highest=_MARGIN_ABOVE * outcome.state.highest,
        status=outcome.status,
        n_iter=outcome.n_iter,
    )


def certainty(lowest: float, highest: float, n_nodes: int, n_steps: int) -> float:
    """At least 1 when an eigenvalue below half the lowest Ritz value would have been seen.

    By now it would outweigh all others together: it is about 1 / n_nodes of a random vector, seldom
    less than 1 / (100 n_nodes), and a Chebyshev polynomial on the rest amplifies it.
    """
    below = lowest / 2
    center = (highest + below) / (highest - below)
    needed = 20 * np.sqrt(n_nodes * highest / lowest)
    return float(n_steps * np.arccosh(center) / np.arccosh(needed))


def _take_ritz_values(state: LanczosState) -> None:
    """Outermost eigenvalues of the Lanczos matrices of all columns."""
    lengths, factors = np.array(state.lengths), np.array(state.factors)
    ritz: list[float] = []
    for column in range(lengths.shape[1]):
        n_steps = int(np.argmin(np.append(lengths[:, column], 0.0) > 0))
        if n_steps == 0:
            continue
        inverse, factor = 1 / lengths[:n_steps, column], factors[: n_steps - 1, column]
        diagonal = inverse.copy()
        diagonal[1:] += factor * inverse[:-1]
        values = linalg.eigvalsh_tridiagonal(diagonal, np.sqrt(factor) * inverse[:-1])
        ritz += [float(values[0]), float(values[-1])]
    if ritz:
        state.lowest, state.highest = min(ritz), max(ritz)
