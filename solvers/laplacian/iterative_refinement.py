"""Iterative refinement: Laplacian systems solved to a measured error in the energy norm.

The residual of an ill-conditioned system says little about its error. So each solve is corrected by
a solve for its residual; the energy of the correction is the error before it. Most work is in
float32, at half the memory traffic; residuals are float64.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, RealArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Cancelled
from peewit.solvers.kernels.inner_products import gaussian_edge_sums
from peewit.solvers.kernels.laplacian_products import (
    column_dots,
    component_sums,
    laplacian_rows,
    subtract_by_component,
)
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.row_ranges import Parallel, RowRanges, row_blocks
from peewit.solvers.status import Status

_STAGE_RTOL: Final = 3e-5
"""Residual of one correction."""
_MAX_STAGES: Final = 8
_MOST_JACOBI_STEPS: Final = 500
"""Of a correction in float32, many times as many as of the solve that chose it."""
_SLOW: Final = 0.05
"""A correction that leaves more than this part of the error calls for a better solver."""
_SAFETY: Final = 10.0
"""Factor by which a correction may reduce the error less than the one before it did."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RefinedSolution:
    """Solutions of M x = b with their errors."""

    x: FloatArray  # (n_nodes, k), zero mean where M is singular
    product: FloatArray  # (n_nodes, k), M x
    error: FloatArray  # (k,) estimated energy norm of the error, sqrt(e^T M e), with a margin


class RefinedSolver:
    """The pseudo-inverse of M = scale L + diag(shift), and products with M, in float64.

    By default M is the Laplacian. With ``zero_mean`` it is P (scale L + diag(shift)) P, P the
    projection to zero sums on every component. ``rtol`` is the error relative to the solution,
    both in the energy norm. ``parallel`` runs the parts of products, ``map`` or that of a thread
    pool; results do not depend on it. All columns go through together, as 32 wait for memory a
    quarter to a half as long as 16 times two; each takes some 70 bytes a node. A cancelled call
    returns what it has.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        scale: float = 1.0,
        shift: FloatArray | None = None,
        zero_mean: bool = False,
        rtol: float = 2e-6,
        parallel: Parallel = map,
        cancelled: Cancelled | None = None,
    ) -> None:
        if not 0 < rtol < 1:
            raise ValueError(f"rtol must lie in (0, 1), got {rtol}")
        self.graph = graph
        self.rtol = rtol
        self._scale = scale
        self._shift = shift if shift is not None and shift.any() else None
        self._zero_mean = zero_mean
        self._is_held = np.zeros(graph.n_components, bool)  # by a shift, so that M is not singular
        if self._shift is not None and not zero_mean:
            self._is_held[graph.component[self._shift > 0]] = True
        self._rows = RowRanges.of(graph.adjacency.indptr, parallel)
        self._cancelled = cancelled
        self._made = partial(
            LaplacianSolver,
            graph,
            scale=scale,
            shift=shift,
            zero_mean=zero_mean,
            rtol=_STAGE_RTOL,
            parallel=parallel,
        )
        self._solver = self._made(dtype=np.float32)
        self._is_settled = self._is_best = self._solver.eliminates
        if self._is_best:  # exact to a few roundings, in float64
            self._solver = self._made()

    @property
    def dimension(self) -> int:
        """Dimension of M's range: vectors of zero sum on every component where M is singular."""
        return self.graph.n_nodes - int(np.count_nonzero(~self._is_held))

    def product(self, block: FloatArray) -> FloatArray:
        """M times ``block``, which is of M's range."""
        product = np.empty_like(block)
        self._multiply(block, product)
        return product

    def _multiply(self, block: FloatArray, out: FloatArray) -> None:
        """Fill ``out`` with M times ``block``."""
        adjacency, shift = self.graph.adjacency, self._shift
        rows = adjacency.indptr, adjacency.indices, adjacency.data
        nothing = np.zeros(self.graph.n_nodes)

        def product_rows(start: int, stop: int) -> None:
            laplacian_rows(*rows, nothing, block, out, start, stop)
            part = slice(start, stop)
            if self._scale != 1.0:
                out[part] *= self._scale
            if shift is not None:
                out[part] += shift[part, None] * block[part]

        self._rows.run(product_rows, rows[1].size * block.shape[1])
        if shift is not None and self._zero_mean:
            self.project(out)

    def project(self, block: FloatArray) -> None:
        """Subtract the mean of every component where M is singular in place."""
        graph = self.graph
        sums = np.zeros((graph.n_components, block.shape[1]))
        component_sums(block, graph.component, sums)
        sums /= graph.component_sizes()[:, None]
        sums[self._is_held] = 0.0
        subtract_by_component(block, graph.component, sums)

    def sample(self, n_vectors: int, seed: int) -> RefinedSolution:
        """Independent vectors of N(0, M^+): no direction of the energy norm is preferred."""
        adjacency = self.graph.adjacency
        rhs = np.empty((self.graph.n_nodes, n_vectors))
        gaussian_edge_sums(
            adjacency.indptr, adjacency.indices, adjacency.data, np.uint64(seed), rhs
        )
        if self._scale != 1.0:
            rhs *= np.sqrt(self._scale)
        if self._shift is not None:
            drawn = np.random.default_rng(seed).standard_normal(rhs.shape)
            rhs += np.sqrt(self._shift)[:, None] * drawn
            self.project(rhs)
        return self.solve(rhs)

    def solve(self, rhs: FloatArray) -> RefinedSolution:
        """Solve for ``rhs`` (n_nodes, k), whose sums must be zero where M is singular.

        Where float64 does not reach ``rtol``, the ``error`` of the solution says so.
        """
        x, product = np.zeros_like(rhs), np.zeros_like(rhs)
        scale = last = error = np.zeros(rhs.shape[1])
        has_begun = False
        for _ in range(_MAX_STAGES):
            residual = rhs - product
            correction, norms, has_converged = self._correction(residual)
            is_finite = np.isfinite(correction).all()  # weights may be beyond float32
            if not (is_finite and has_converged) and not self._is_cancelled():
                # a correction that stalls for long in float32 may have left for infinity
                if self._turn_to_best():
                    continue
                if not is_finite:
                    error = np.full(rhs.shape[1], np.inf)
                    break
            # The energy of a correction is the error before it.
            energy = np.sqrt(np.maximum(norms * column_dots(correction, residual), 0.0))
            for rows in row_blocks(len(x)):
                x[rows] += norms * correction[rows]
            del residual, correction
            self._multiply(x, product)
            if not has_begun:
                has_begun, scale, error = True, energy, energy
                is_slow = not has_converged
            else:
                rate = np.divide(energy, last, out=np.zeros_like(energy), where=last > 0)
                error = _SAFETY * energy * np.maximum(rate, _STAGE_RTOL)
                if (error <= self.rtol * scale).all():
                    break
                is_slow = bool(rate.max() > _SLOW)
            last = energy
            if self._is_cancelled() or (is_slow and not self._turn_to_best()):
                break
        self.project(x)  # float32 leaves means behind, which products do not show
        return RefinedSolution(x=x, product=product, error=error)

    def _correction(self, residual: FloatArray) -> tuple[RealArray, FloatArray, bool]:
        """M^+ residual to a few digits as columns and factors of them; whether it converged."""
        norms = np.sqrt(column_dots(residual, residual))
        norms[norms == 0] = 1.0
        scaled = np.empty_like(residual, dtype=self._solver.dtype)
        np.divide(residual, norms, out=scaled, casting="same_kind")
        solution = self._solver.solve(
            scaled, project=True, cancelled=self._cancelled, overwrite=True
        )
        if not self._is_settled:
            self._settle()
        return solution.x, norms, solution.status is Status.CONVERGED

    def _settle(self) -> None:
        """Fix the preconditioner that the first solve chose: no later solve may change it."""
        self._is_settled = True
        if self._solver.chosen != "jacobi":
            self._turn_to_best()
            return
        self._solver = self._made(
            dtype=np.float32, preconditioner="jacobi", max_iter=_MOST_JACOBI_STEPS
        )

    def _turn_to_best(self) -> bool:
        """Go on in float64 with approximate Cholesky; False if it is in use already."""
        if self._is_best:
            return False
        self._is_best = True
        self._solver = self._made(preconditioner="approx-chol")
        return True

    def _is_cancelled(self) -> bool:
        return self._cancelled is not None and self._cancelled()
