"""Random walk on a graph: its spectral gap and return probabilities, which bound resistances.

In float32, rows divided among threads; results do not depend on the threads.
"""

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from peewit.solvers.arrays import AnyArray, Float32Array, FloatArray, frozen
from peewit.solvers.kernels.random_walk import (
    UNIT,
    lanczos_rows,
    normalize_rows,
    orthogonalize_rows,
    project_roots,
    walk_rows,
)
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.spectral_bounds import CHECK_EVERY, certainty
from peewit.solvers.late_modules import LateModule
from peewit.solvers.row_ranges import Parallel, RowRanges
from peewit.solvers.status import Status

linalg = LateModule("scipy.linalg")

_N_VECTORS = 32
_N_STARTS = 2
_CACHE_LINE = 64
_SMALLEST = 1e-5
"""A Lanczos vector shorter than this part of the one before is rounding; float32 cannot tell an
eigenvalue below this from zero."""
_ROUNDING = 1e-6
"""A remainder below this part of a start is rounding, and so would be all further steps."""
_FEW_NODES = 4096
"""Up to so many nodes, null vectors are removed after every step: that costs nothing, and a step
may leave little else there."""
_LEAST_PART = 0.003
"""No direction has less than this part, over sqrt(n_nodes), of both random vectors, but for 6 in a
million."""


class RandomWalk:
    """The walk with the probabilities ``W_uv / d_u``, or what a ridge leaves of it.

    ``operator`` is ``diag(d) - W`` in float32; ``parallel`` runs one task for each range of rows.
    """

    def __init__(self, operator: ShiftedLaplacian, parallel: Parallel) -> None:
        self._operator = operator
        self.rows = RowRanges.of(operator.indptr, parallel)
        self.root: Float32Array = np.sqrt(operator.diagonal)
        inverse = np.divide(1.0, self.root, out=np.zeros_like(self.root), where=self.root > 0)
        normalized = np.empty_like(operator.weight)
        matrix = operator.indptr, operator.indices
        self.rows.run(partial(normalize_rows, *matrix, operator.weight, inverse, normalized))
        self.matrix = *matrix, frozen(normalized)
        degree = operator.diagonal.astype(np.float64)
        total = np.bincount(operator.component, degree, minlength=operator.projected.size)
        self._null_total = np.where(operator.projected & (total > 0.0), total, np.inf)
        self._scratch = np.zeros((total.size, _N_STARTS))

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.root.size)

    def project(self, block: Float32Array) -> None:
        """Remove the null vectors of 1 - N from (n_nodes, 2) columns, in place."""
        component = self._operator.component
        project_roots(block, self.root, component, self._null_total, self._scratch)

    def returns(self, n_steps: int, *, last_factor: float, seed: int) -> FloatArray:
        """(n_nodes,) expected visits to a walk's own start in its first ``2 n_steps`` steps.

        The start counts as a visit, and the last return probability counts ``last_factor`` times.
        Each of ``n_steps`` products with N gives two return probabilities; 32 random vectors
        estimate the excess over 1 to about a quarter.
        """
        rng = np.random.default_rng(seed)
        before, after = _allocate_aligned(self.n_nodes), _allocate_aligned(self.n_nodes)
        before[:] = rng.integers(0, 2, before.shape, np.int8)
        before *= np.int8(2 * UNIT)
        before -= np.int8(UNIT)
        sums = np.ones(self.n_nodes)
        for step in range(1, n_steps + 1):
            odd = 1.0 if step > 1 else 0.0  # a walk does not return in one step
            even = 1.0 if step < n_steps else last_factor
            salt = np.uint64(step << 32)
            with np.errstate(over="ignore"):  # it is multiplied modulo 2^64
                task = partial(walk_rows, *self.matrix, before, after, odd, even, sums, salt)
                self.rows.run(task)
            before, after = after, before
        return sums


@dataclass(slots=True, eq=False)
class WalkLanczosState:
    """Two Lanczos processes, one a column; vectors are ``scale`` times the blocks.

    ``diagonals`` and ``couplings`` hold the coefficients of every step, one row each. ``pivot`` and
    ``last`` follow conjugate gradients from the same start: the last pivot of the Lanczos matrix,
    and the last coordinate of its solution.
    """

    current: Float32Array
    previous: Float32Array
    scale: FloatArray
    previous_scale: FloatArray
    pivot: FloatArray
    last: FloatArray
    diagonals: list[FloatArray] = field(default_factory=list)
    couplings: list[FloatArray] = field(default_factory=list)
    lowest: float = 1.0
    highest: float = 1.0
    is_certain: bool = False  # no eigenvalue below half the lowest Ritz value was missed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WalkLanczos:
    """Lanczos for 1 - N from two random vectors, for `peewit.solvers.iteration_loop.iterate`.

    It stops as stagnated once the spectrum reaches below ``give_up_below``.
    """

    walk: RandomWalk
    seed: int
    give_up_below: float = 0.0

    def init(self) -> WalkLanczosState:
        """Random vectors in which no direction is small."""
        rng = np.random.default_rng(self.seed)
        current = rng.standard_normal((self.walk.n_nodes, _N_STARTS), np.float32)
        current *= (self.walk.root > 0)[:, None]
        for _ in range(2):  # a small part of a null vector may be much of a small remainder
            self.walk.project(current)
        length = np.sqrt(np.square(current, dtype=np.float64).sum(axis=0))
        is_finite = bool(np.isfinite(length).all())
        return WalkLanczosState(
            lowest=1.0 if is_finite else 0.0,
            current=current,
            previous=np.zeros_like(current),
            scale=np.divide(1.0, length, out=np.zeros(_N_STARTS), where=length > 0),
            previous_scale=np.zeros(_N_STARTS),
            pivot=np.full(_N_STARTS, np.inf),
            last=np.ones(_N_STARTS),
        )

    def step(self, state: WalkLanczosState) -> WalkLanczosState:
        """One product; the Ritz values every few steps."""
        rows, blocks = self.walk.rows, (state.current, state.previous)
        coupling = state.couplings[-1] if state.couplings else np.zeros(_N_STARTS)
        factors = _float32(state.scale), _float32(coupling * state.previous_scale)
        quotients = rows.run(partial(lanczos_rows, *self.walk.matrix, *blocks, *factors))
        diagonal: FloatArray = np.sum(quotients, axis=0)
        factor = _float32(diagonal * state.scale)
        squares = rows.run(partial(orthogonalize_rows, state.previous, state.current, factor))
        length: FloatArray = np.sqrt(np.sum(squares, axis=0))
        going = state.scale > 0
        pivot = diagonal - np.divide(coupling**2, state.pivot, out=np.zeros(_N_STARTS), where=going)
        going &= pivot > 0
        last = np.divide(
            coupling * state.last if state.couplings else state.last,
            pivot,
            out=np.zeros(_N_STARTS),
            where=going,
        )
        going &= (length > _SMALLEST) & (np.abs(length * last) > _ROUNDING)
        state.current, state.previous = state.previous, state.current
        state.previous_scale = state.scale
        state.scale = np.divide(1.0, length, out=np.zeros(_N_STARTS), where=going)
        state.pivot, state.last = pivot, last
        state.diagonals.append(diagonal)
        state.couplings.append(np.where(going, length, 0.0))
        is_time = len(state.diagonals) % CHECK_EVERY == 0 or _is_exhausted(state)
        if is_time or self.walk.n_nodes <= _FEW_NODES:
            self.walk.project(state.current)  # rounding must not feed null vectors back
        if is_time:
            _take_ritz_values(state, _LEAST_PART / np.sqrt(self.walk.n_nodes))
        return state

    def terminate(self, state: WalkLanczosState) -> Status | None:
        """Converged when the lowest Ritz value can be trusted; stagnated below the limit."""
        n_steps = len(state.diagonals)
        if n_steps % CHECK_EVERY and not _is_exhausted(state):
            return None
        if state.lowest < max(self.give_up_below, _SMALLEST):
            return Status.STAGNATED
        return Status.CONVERGED if self.fraction(state) >= 1.0 else None

    def fraction(self, state: WalkLanczosState) -> float:
        """Steps done over the steps that the present Ritz values require."""
        if state.is_certain or _is_exhausted(state) or state.lowest <= 0.0:
            return 1.0
        n_steps = len(state.diagonals)
        return certainty(state.lowest, state.highest, self.walk.n_nodes, n_steps)


def _float32(values: FloatArray) -> Float32Array:
    return values.astype(np.float32)


def _allocate_aligned(n_nodes: int) -> AnyArray:
    """New (n_nodes, 32) int8, so that two rows lie in each cache line."""
    memory = np.empty(n_nodes * _N_VECTORS + _CACHE_LINE, np.int8)
    first = -memory.ctypes.data % _CACHE_LINE
    return memory[first : first + n_nodes * _N_VECTORS].reshape(n_nodes, _N_VECTORS)


def _is_exhausted(state: WalkLanczosState) -> bool:
    return not state.scale.any()


def _take_ritz_values(state: WalkLanczosState, least_part: float) -> None:
    """Outermost eigenvalues of both columns' Lanczos matrices, and whether these are certain.

    Conjugate gradients have left ``p(lambda)`` times its part of the start in a direction with the
    eigenvalue lambda, ``p(lambda) = prod_j (1 - lambda / theta_j)`` over the Ritz values theta.
    This falls up to the lowest of them. So if less is left in all than ``p(theta_1 / 2)`` times the
    least part that a direction has, no eigenvalue lies below ``theta_1 / 2``.
    """
    diagonals, couplings = np.array(state.diagonals), np.array(state.couplings)
    if not (np.isfinite(diagonals).all() and np.isfinite(couplings).all()):
        state.lowest = 0.0  # weights beyond what float32 can add up
        return
    lowest, highest, certain = [], [], []
    for column in range(_N_STARTS):
        n_steps = int(np.argmin(np.append(couplings[:-1, column], 0.0))) + 1
        ritz = linalg.eigvalsh_tridiagonal(
            diagonals[:n_steps, column], couplings[: n_steps - 1, column]
        )
        lowest.append(float(ritz[0]))
        highest.append(float(ritz[-1]))
        left = abs(couplings[-1, column] * state.last[column])
        amplified = np.prod(1.0 - ritz[0] / (2.0 * ritz)) if ritz[0] > 0 else 0.0
        certain.append(bool(left < least_part * amplified))
    state.lowest, state.highest = max(min(lowest), 0.0), max(highest)
    state.is_certain = all(certain)
