"""Extreme eigenvalues of L_H^+ L_G by block Lanczos in the L_H inner product, with bounds.

The caller multiplies by L_G, which may be too large for memory; everything else happens here. In
this module V_1 ... V_k are blocks of columns that are orthonormal in the inner product of H, A =
L_H^+ L_G, T = V^T L_G V the projected matrix and theta its eigenvalues, the Ritz values. These are
Rayleigh quotients, so they lie inside the spectrum of A however inexact the solves are.

**Outer bounds.** For an eigenpair (lambda, x) of A, x of norm 1, A V = V T + V_{k+1} B E_k^T + F
gives, multiplied by x^T L_H from the left and (lambda - T)^{-1} E_1 from the right,

    x^T L_H V_1 = (c^T B E_k^T + x^T L_H F) (lambda - T)^{-1} E_1 ,   c = V_{k+1}^T L_H x ,

    (1)  |V_1^T L_H x| <= |B E_k^T R E_1| + sum_j |F_j| |E_j^T R E_1| ,   R = (lambda - T)^{-1} .

The left side is the part of x in the start block. The block spans a random subspace without
preferred direction, so the square of the left side has the Beta(p/2, (d - p)/2) distribution for p
vectors in dimension d. If the right side is below a quantile of it, lambda is no eigenvalue, up to
the probability of that quantile. Van Dorsselaer, Hochstenbach and van der Vorst argue so for one
vector and exact products, with the Lanczos polynomial, whose inverse the right side is. The random
event concerns the start alone, so the bounds of all steps hold together.

References
----------
J. L. M. van Dorsselaer, M. E. Hochstenbach, H. A. van der Vorst, Computing probabilistic bounds for
extreme eigenvalues of symmetric matrices with the Lanczos method, SIAM J. Matrix Anal. Appl. 22
(2000), 837-852. J. Kuczynski, H. Wozniakowski, Estimating the largest eigenvalue by the power and
Lanczos algorithms with a random start, SIAM J. Matrix Anal. Appl. 13 (1992), 1094-1122.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.kernels.inner_products import cross_products, subtract_combination
from peewit.solvers.laplacian.iterative_refinement import RefinedSolver
from peewit.solvers.late_modules import LateModule

special = LateModule("scipy.special")

_SMALLEST: Final = 1e-10
"""A block whose remainder is shorter than this part of it holds only rounding."""
_FLATTEST: Final = 1e-7
"""Directions shorter than this part of the longest are lost in the rounding of a Gram matrix."""
_WORST_GRAM: Final = 1e6
"""Condition of the Gram matrix above which a block is orthonormalized twice."""
_ROUNDED: Final = 1e-9
"""Part of the largest Ritz value by which rounding may have moved any, with room."""
_POINTS_PER_DECADE: Final = 25
_NEAREST: Final = 1e-12
_N_SCANS: Final = 3
_SCAN_POINTS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Krylov:
    """The state after k steps, besides the basis V_1 ... V_{k+1} that the caller keeps.

    ``widths`` are the columns of V_1 ... V_k and of V_{k+1}; the last is 0 once the space is
    exhausted.
    """

    dimension: int  # of the whole space
    widths: tuple[int, ...]
    projected: FloatArray  # (K, K) T, K the sum of the first k widths
    coupling: FloatArray  # (p_{k+1}, p_k) B
    errors: tuple[float, ...]  # |F_j| of every step, from the errors of the solves
    start_error: float  # distance of V_1 from a random block, at most, in the norm of H

    @property
    def n_steps(self) -> int:
        """Steps done."""
        return len(self.errors)

    @property
    def is_exhausted(self) -> bool:
        """Whether the solves are too inexact for another step, mostly as the space is spanned."""
        return self.widths[-1] == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end of the spectrum."""

    ritz: float  # extreme Ritz value; the eigenvalue is at least as far out
    residual: float  # |A x - ritz x| of its vector: some eigenvalue is as near
    outer: float  # the eigenvalue is not farther out, with the probability given


def start_krylov(metric: RefinedSolver, *, n_vectors: int, seed: int) -> tuple[Krylov, FloatArray]:
    """The state before the first step, and V_1: random and orthonormal."""
    if n_vectors < 1:
        raise ValueError(f"n_vectors must be at least 1, got {n_vectors}")
    n_vectors = min(n_vectors, metric.dimension)
    drawn = metric.sample(n_vectors, seed)
    basis, coupling, _ = _orthonormalize(metric, drawn.x.copy(), drawn.product)
    shortest = np.linalg.svd(coupling, compute_uv=False).min(initial=np.inf)
    return (
        Krylov(
            dimension=metric.dimension,
            widths=(basis.shape[1],),
            projected=np.zeros((0, 0)),
            coupling=coupling,
            errors=(),
            start_error=float(np.linalg.norm(drawn.error) / shortest) if n_vectors else 0.0,
        ),
        basis,
    )


def advance_krylov(
    krylov: Krylov, metric: RefinedSolver, basis: Sequence[FloatArray], product: FloatArray
) -> tuple[Krylov, FloatArray]:
    """The state after one more step, and V_{k+1}.

    Parameters
    ----------
    krylov : Krylov
        Must not be exhausted.
    metric : RefinedSolver
        H.
    basis : sequence of (n_nodes, p) arrays
        V_1 ... V_k, of which the last is new.
    product : (n_nodes, p_k) float64
        L_G V_k.
    """
    # T's new columns are V^T L_G V_k, exact whatever the solve below leaves wrong.
    column = np.concatenate([cross_products(block, product) for block in basis])
    solved = metric.solve(product)
    block = solved.x
    longest = float(np.sqrt(np.max(np.sum(block * solved.product, axis=0))))
    # Gram-Schmidt against the whole basis, twice; V^T L_H z needs L_H z alone.
    _subtract_projection(block, basis, solved.product)
    image = metric.product(block)
    # What lies outside the space is invisible to L_H and would grow from step to step.
    metric.project(block)
    _subtract_projection(block, basis, image)  # block^T image is still its Gram matrix after this
    error = float(np.linalg.norm(solved.error))
    following, coupling, dropped = _orthonormalize(
        metric, block, image, smallest=max(error, _SMALLEST * longest)
    )
    return (
        replace(
            krylov,
            widths=(*krylov.widths, following.shape[1]),
            projected=_border(krylov.projected, column),
            coupling=coupling,
            errors=(*krylov.errors, error + dropped),
        ),
        following,
    )


def spectrum_ends(krylov: Krylov, *, probability: float = 0.99) -> tuple[End, End]:
    """The least and the greatest eigenvalue: Ritz values, residuals and outer bounds.

    Both outer bounds hold together with ``probability``; at least one step must be done.
    """
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability must lie in (0, 1), got {probability}")
    if krylov.n_steps < 1:
        raise ValueError("krylov must be at least one step long, got none")
    bounds = _OuterBounds(krylov, probability)
    return bounds.end(-1), bounds.end(+1)


class _OuterBounds:
    """The right side of (1) around the Ritz values of one state."""

    def __init__(self, krylov: Krylov, probability: float) -> None:
        self._ritz, self._vectors = np.linalg.eigh(krylov.projected)
        widths = krylov.widths[:-1]
        self._starts = np.concatenate([[0], np.cumsum(widths)[:-1]])
        # of T = S theta S^T: E_1^T S, and B E_k^T S
        self._first = self._vectors[: widths[0]]
        self._last = krylov.coupling @ self._vectors[self._starts[-1] :]
        self._errors = np.array(krylov.errors)
        # each end may fail with half of the probability
        self._least = (
            _least_overlap(krylov.dimension, widths[0], (1.0 - probability) / 2.0)
            - krylov.start_error
        )

    def end(self, side: int) -> End:
        """The end of the spectrum below (-1) or above (+1) all Ritz values."""
        which = -1 if side > 0 else 0
        ritz = float(self._ritz[which])
        residual = float(np.linalg.norm(self._last[:, which]) + self._errors.sum())
        rounded = _ROUNDED * float(np.abs(self._ritz).max())
        distance = self._distance(ritz, side) + rounded
        return End(ritz=ritz, residual=residual, outer=ritz + side * distance)

    def _distance(self, ritz: float, side: int) -> float:
        """Distance beyond the Ritz value at which an eigenvalue may still lie.

        The right side of (1) is scanned from far away, where |lambda - theta| alone bounds it. Its
        poles lie at the Ritz values, all on the other side, so it changes slowly enough in the
        logarithm of the distance for the points of the scan to follow.
        """
        if self._least <= 0.0:
            return np.inf
        reach = float(np.linalg.norm(self._last) + self._errors.sum()) / self._least
        nearest = _NEAREST * max(abs(ritz), 1e-300)
        if reach <= nearest:
            return reach
        n_points = 2 + int(_POINTS_PER_DECADE * np.log10(reach / nearest))
        distances = np.geomspace(nearest, reach, n_points)
        for _ in range(_N_SCANS):
            # open: (1) does not rule an eigenvalue out there
            is_open = self._right_side(ritz + side * distances) >= self._least
            if not is_open.any():
                return float(distances[0])
            last = int(np.flatnonzero(is_open)[-1])
            if last == len(distances) - 1:
                return float(distances[-1])
            distances = np.geomspace(distances[last], distances[last + 1], _SCAN_POINTS)
        return float(distances[-1])

    def _right_side(self, values: FloatArray) -> FloatArray:
        """The right side of (1) for several lambda, with Frobenius norms of E_j^T R E_1."""
        scaled = self._first / (values[:, None] - self._ritz)[:, None, :]  # (R E_1)^T S
        coupled = scaled @ self._last.T  # (B E_k^T R E_1)^T
        norms = np.linalg.norm(coupled, 2, axis=(1, 2)) if coupled.size else np.zeros(len(values))
        squares = np.square(scaled @ self._vectors.T).sum(axis=1)
        by_block = np.add.reduceat(squares, self._starts, axis=1)  # |E_j^T R E_1|^2
        total: FloatArray = norms + np.sqrt(by_block) @ self._errors
        return total


def _least_overlap(dimension: int, n_vectors: int, risk: float) -> float:
    """Value that |V_1^T L_H x| falls below with probability ``risk``."""
    if n_vectors >= dimension:
        return 1.0
    return float(np.sqrt(special.betaincinv(n_vectors / 2.0, (dimension - n_vectors) / 2.0, risk)))


def _subtract_projection(block: FloatArray, basis: Sequence[FloatArray], image: FloatArray) -> None:
    """Subtract V V^T image from ``block`` in place."""
    overlaps = [cross_products(vectors, image) for vectors in basis]
    for vectors, overlap in zip(basis, overlaps, strict=True):
        subtract_combination(block, vectors, overlap)


def _orthonormalize(
    metric: RefinedSolver, block: FloatArray, image: FloatArray, *, smallest: float = 0.0
) -> tuple[FloatArray, FloatArray, float]:
    """(Q, R, dropped): block = Q R up to directions shorter than ``dropped`` in all.

    ``image`` is L_H block. Directions no longer than ``smallest`` are left out.
    """
    gram = cross_products(block, image)
    values, rotation = np.linalg.eigh((gram + gram.T) / 2.0)
    lengths = np.sqrt(np.maximum(values, 0.0))
    stays = lengths > max(smallest, _FLATTEST * lengths.max(initial=0.0))
    dropped = float(np.linalg.norm(lengths[~stays]))
    lengths, rotation = lengths[stays], rotation[:, stays]
    basis = np.ascontiguousarray(block @ (rotation / lengths))
    triangle = lengths[:, None] * rotation.T
    if lengths.size and (lengths.max() / lengths.min()) ** 2 > _WORST_GRAM:
        # a Gram matrix squares the condition; once more from the product of what it gave
        basis, again, _ = _orthonormalize(metric, basis, metric.product(basis))
        triangle = again @ triangle
    return basis, triangle, dropped


def _border(matrix: FloatArray, column: FloatArray) -> FloatArray:
    """The symmetric matrix with new last columns, and as many new last rows."""
    old, width = matrix.shape[0], column.shape[1]
    new = np.zeros((old + width, old + width))
    new[:old, :old] = matrix
    new[:, old:] = column
    new[old:, :old] = column[:old].T
    corner = column[old:]
    new[old:, old:] = (corner + corner.T) / 2.0
    return new
