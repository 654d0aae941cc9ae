"""The proximal step of a graph's total variation (G6), by accelerated ascent of its dual.

The primal-dual steps of (G7) need several times as many steps, the more the higher the accuracy:
momentum that restarts when it no longer leads uphill makes the difference.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.kernels.total_variation import ascend_rows, primal_rows, variation_rows
from peewit.solvers.row_ranges import Parallel, RowRanges
from peewit.solvers.status import Status

_CHECK_EVERY: Final = 10
"""Steps between two checks of the gap; a check costs about a third of a step."""

SINGLE_RTOL: Final = 1e-4
"""Gap from which float32 suffices, in a quarter of the time."""

_MOST_SINGLE: Final = 1e9
"""Largest number, and inverse of the least factor, of steps in float32."""

_NO_DUAL: Final = np.zeros((0, 1))
_NOTHING_FIXED: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProximalPoint:
    """Result of a proximal step."""

    values: FloatArray  # (n_nodes, n_columns)
    variation: FloatArray  # (n_columns,) TV of the values
    objective: FloatArray  # (n_columns,) penalty * TV(g) + pull / 2 |g - target|^2
    gap: FloatArray  # (n_columns,) duality gap (G8); >= 0, with the simplex only in sum
    n_iter: int
    status: Status


class TotalVariation:
    """TV(f) = sum_e (w_e / unit) |f_i - f_j| of columns f, and its proximal steps.

    The dual of the last step is kept: the next step for as many columns starts from it. ``unit`` >
    0 is the unit of edge weights. Results do not depend on ``parallel``.
    """

    def __init__(self, graph: Graph, *, unit: float = 1.0, parallel: Parallel = map) -> None:
        adjacency = graph.adjacency
        self._rows = adjacency.indptr, adjacency.indices
        self._weight = adjacency.data if unit == 1.0 else adjacency.data / unit
        self._heaviest = float(self._weight.max(initial=0.0))
        self._ranges = RowRanges.of(adjacency.indptr, parallel)
        self._dual = self._before = np.zeros((0, 0))
        self._divergence = self._penalty = np.zeros((0, 0))

    @property
    def dual(self) -> RealArray:
        """(n_entries, n_columns) dual of the last step, by the entries of the CSR rows."""
        return self._dual

    def of(self, values: FloatArray) -> FloatArray:
        """(n_columns,) TV of columns; of an indicator, its cut."""
        return np.asarray(self._sums(_NO_DUAL, np.ascontiguousarray(values))[0])

    def nearest(
        self,
        target: FloatArray,
        *,
        penalty: FloatArray,
        pull: FloatArray,
        on_simplex: bool = False,
        fixed: Int64Array = _NOTHING_FIXED,
        rtol: float = 1e-4,
        max_iter: int = 1_000,
        watch: Watch = UNWATCHED,
    ) -> ProximalPoint:
        """argmin_g penalty TV(g) + pull / 2 |g - target|^2, each column independently.

        Raises `RunStopped` when ``watch``, asked now and then, is cancelled.

        Parameters
        ----------
        target : (n_nodes, n_columns) float64
        penalty : (n_columns,) float64
            >= 0.
        pull : (n_columns,) float64
            > 0; with the simplex, equal in all columns.
        on_simplex : bool
            Whether the rows of g are distributions: >= 0 with sum 1. Columns are then one problem.
        fixed : (n_nodes,) int64, or (0,)
            With the simplex, the column at whose corner a row is held; -1 for none.
        rtol : float
            Gap to reach, relative to the objective, or what rounding may leave of a gap. From 1e-4
            on steps are in float32, if the numbers are in its range.

        Notes
        -----
        FISTA (Beck and Teboulle 2009) on the dual of (G6) with a step of its own for every edge,
        and momentum that restarts when it turns against the ascent (O'Donoghue and Candes 2015).
        The duality gap is that of ``values`` and the dual they come from.
        """
        is_single = rtol >= SINGLE_RTOL and self._fits_single(target, penalty, pull)
        dtype = np.dtype(np.float32 if is_single else np.float64)
        self._begin(target.shape, penalty, dtype)
        step = _Step(
            rows=(*self._rows, self._weight.astype(dtype, copy=False)),
            ranges=self._ranges,
            target=np.ascontiguousarray(target, dtype),
            penalty=penalty.astype(dtype),
            pull=pull.astype(dtype),
            on_simplex=on_simplex,
            fixed=fixed,
        )
        dual, before, divergence = self._dual, self._before, self._divergence
        before[...] = dual
        last, spare, point = divergence.copy(), np.empty_like(divergence), np.empty_like(divergence)
        momentum, age = np.zeros(target.shape[1]), np.ones(target.shape[1])
        n_iter, status = 0, Status.MAX_ITER
        # what a gap of 0 may look like
        eps = float(np.finfo(np.float32 if dtype == np.float32 else np.float64).eps)
        rounding = eps * pull * np.einsum("ij,ij->j", target, target)
        while n_iter < max_iter:
            step.primal(divergence, last, momentum, point)
            turned = step.ascend(point, momentum, dual, before, spare)  # (G14)
            last, divergence, spare = divergence, spare, last
            self._divergence = divergence
            n_iter += 1
            age[turned > 0] = 1.0
            older = (1.0 + np.sqrt(1.0 + 4.0 * np.square(age))) / 2.0  # (G14): t'
            momentum, age = (age - 1.0) / older, older  # (G14): omega
            if n_iter % _CHECK_EVERY and n_iter not in (1, max_iter):
                continue
            watch.check()
            # the gap is that of the dual itself, not of its extrapolation
            step.primal(divergence, divergence, np.zeros_like(momentum), point)
            variation, gap, objective = self._gap(point, target, penalty, pull)
            missing = gap - rtol * objective - rounding
            if np.all((missing.sum() if on_simplex else missing) <= 0.0):
                status = Status.CONVERGED
                break
        return ProximalPoint(
            values=point.astype(np.float64, copy=False),
            variation=variation,
            objective=objective,
            gap=gap,
            n_iter=n_iter,
            status=status,
        )

    def _fits_single(self, target: FloatArray, penalty: FloatArray, pull: FloatArray) -> bool:
        """Whether float32 holds the numbers of a step, their squares and inverses."""
        factors = np.concatenate([pull, penalty[penalty > 0]])
        largest = max(self._heaviest, float(np.abs(target).max(initial=0.0)), factors.max())
        return bool(largest <= _MOST_SINGLE and factors.min() >= 1.0 / _MOST_SINGLE)

    def _begin(self, shape: tuple[int, ...], penalty: FloatArray, dtype: Any) -> None:
        """The dual of the step before, brought inside its new bounds, or zero."""
        n_nodes, n_columns = shape
        if self._dual.shape[1] != n_columns:
            self._dual = np.zeros((self._weight.size, n_columns), dtype)
            self._before = np.empty_like(self._dual)
            self._divergence = np.zeros((n_nodes, n_columns), dtype)
        elif self._dual.dtype != dtype:
            self._dual = self._dual.astype(dtype)
            self._before = np.empty_like(self._dual)
            self._divergence = self._divergence.astype(dtype)
        if not np.array_equal(self._penalty, penalty) and self._penalty.size == n_columns:
            factor = np.zeros_like(penalty)
            # a box grows with its penalty: the dual scaled alike stays inside
            np.divide(penalty, self._penalty, out=factor, where=self._penalty > 0)
            self._dual *= factor.astype(dtype)
            self._divergence *= factor.astype(dtype)
        self._penalty = penalty.copy()

    def _gap(
        self, values: RealArray, target: FloatArray, penalty: FloatArray, pull: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """TV, duality gap and objective of the primal point of the dual."""
        variation, inner = self._sums(self._dual, values)
        missed = np.einsum("ij,ij->j", values - target, values - target)
        # the gap (G8), and the objective of (G6)
        return variation, penalty * variation - inner, penalty * variation + 0.5 * pull * missed

    def _sums(self, dual: RealArray, values: RealArray) -> FloatArray:
        rows = *self._rows, self._weight
        parts = self._ranges.run(lambda a, b: variation_rows(*rows, dual, values, a, b))
        return np.asarray(np.sum(parts, axis=0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Step:
    """The two halves of a step, on one problem in one floating type."""

    rows: tuple[Any, Any, Any]
    ranges: RowRanges
    target: RealArray
    penalty: RealArray
    pull: RealArray
    on_simplex: bool
    fixed: Int64Array

    def primal(
        self, divergence: RealArray, last: RealArray, momentum: FloatArray, out: RealArray
    ) -> None:
        """Fill ``out`` with the primal point of the dual extrapolated by momentum."""
        ahead = momentum.astype(self.target.dtype)
        inputs = self.target, divergence, last, ahead, self.pull, self.on_simplex, self.fixed, out
        self.ranges.run(lambda a, b: primal_rows(*inputs, a, b))

    def ascend(
        self,
        point: RealArray,
        momentum: FloatArray,
        dual: RealArray,
        before: RealArray,
        divergence: RealArray,
    ) -> FloatArray:
        """Move the dual and fill its divergence; with the simplex all columns share the sums."""
        ahead = momentum.astype(self.target.dtype)
        inputs = (*self.rows, self.penalty, self.pull, point, ahead, dual, before, divergence)
        turned = np.sum(self.ranges.run(lambda a, b: ascend_rows(*inputs, a, b)), axis=0)
        return np.full_like(turned, turned.sum()) if self.on_simplex else np.asarray(turned)
