"""Spaces spanned by the kernel columns of all nodes: the Gram matrix stored or made anew."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymv, ssymv

from peewit.solvers.arrays import FloatArray, IntArray, RealArray
from peewit.solvers.features import Rows
from peewit.solvers.gram.kernel_functions import KernelFunction, ScaledRows
from peewit.solvers.gram.space_base import Expansion
from peewit.solvers.iteration_loop import OnStep, ignore_step
from peewit.solvers.row_ranges import Parallel

_BLOCK_ENTRIES = 1 << 24
"""Entries of a block of the Gram matrix that a product makes at a time."""

_BLOCK_ROWS = 512
"""Most rows of a block of the Gram matrix; half of a diagonal block is waste."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelSpace:
    """Base of the two forms; their products differ."""

    kernel: KernelFunction
    rows: ScaledRows  # features of all nodes
    parallel: Parallel

    @property
    def n_rows(self) -> int:
        """Number of nodes."""
        return self.rows.n_rows

    @property
    def n_coef(self) -> int:
        """One coefficient for each node."""
        return self.rows.n_rows

    def adjoint(self, residual: FloatArray) -> FloatArray:
        """The residual itself: the coefficient of each node's kernel column."""
        return residual

    def inner(self, left: FloatArray, right: FloatArray, right_values: FloatArray) -> FloatArray:
        """Inner products left' K right, column by column."""
        del right
        return np.asarray(np.einsum("ij,ij->j", left, right_values))

    def between(self, nodes: IntArray) -> RealArray:
        """(n_nodes, n_nodes) entries of the Gram matrix."""
        some = self.rows[nodes]
        return self.kernel.block(some, some, parallel=self.parallel)

    def expansion(self, coef: FloatArray, intercept: FloatArray) -> Expansion:
        """The functions, with the rows of all nodes as a basis."""
        return Expansion(kernel=self.kernel, basis=self.rows, coef=coef, intercept=intercept)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseGram(KernelSpace):
    """The Gram matrix in memory."""

    matrix: RealArray  # (n_rows, n_rows) float32 or float64, exactly symmetric

    @classmethod
    def of(
        cls,
        kernel: KernelFunction,
        rows: Rows,
        dtype: Any,
        parallel: Parallel = map,
        on_step: OnStep = ignore_step,
    ) -> "DenseGram":
        """Compute the matrix; n^2 d floating-point operations, by symmetry."""
        scaled = kernel.scaled(rows.whole(), dtype)
        n_rows = scaled.n_rows
        matrix = np.empty((n_rows, n_rows), dtype)
        for start in range(0, n_rows, _BLOCK_ROWS):
            on_step(start, n_rows)
            stop = min(start + _BLOCK_ROWS, n_rows)
            kernel.block(
                scaled[start:stop],
                scaled[start:],
                out=matrix[start:stop, start:],
                parallel=parallel,
            )
            matrix[stop:, start:stop] = matrix[start:stop, stop:].T
            own = matrix[start:stop, start:stop]
            own[:] = np.tril(own) + np.tril(own, -1).T
        return cls(kernel=kernel, rows=scaled, parallel=parallel, matrix=matrix)

    def values(self, coef: FloatArray) -> FloatArray:
        """The functions at all nodes: K coef."""
        columns = coef.astype(self.matrix.dtype, copy=False)
        if columns.shape[1] == 1:  # reads half of the matrix
            symv = ssymv if self.matrix.dtype == np.float32 else dsymv
            return np.asarray(symv(1.0, self.matrix.T, columns[:, 0]), np.float64)[:, None]
        return np.asarray(self.matrix @ columns, np.float64)

    def between(self, nodes: IntArray) -> RealArray:
        """(n_nodes, n_nodes) entries of the Gram matrix."""
        return np.asarray(self.matrix[np.ix_(nodes, nodes)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockedGram(KernelSpace):
    """The Gram matrix made anew in every product, a block of rows at a time.

    It takes the memory of one block of `_BLOCK_ENTRIES`. A product makes each entry above the
    diagonal once, and skips columns whose coefficients are 0.
    """

    @classmethod
    def of(
        cls, kernel: KernelFunction, rows: Rows, dtype: Any, parallel: Parallel = map
    ) -> "BlockedGram":
        """The space from the scaled rows alone; nothing is computed yet."""
        return cls(kernel=kernel, rows=kernel.scaled(rows.whole(), dtype), parallel=parallel)

    def values(self, coef: FloatArray) -> FloatArray:
        """The functions at all nodes: K coef."""
        n_rows = self.n_rows
        needed = np.flatnonzero((coef != 0).any(axis=1))
        if needed.size < n_rows // 2:
            return self._of_some(coef, needed)
        dtype = self.rows.values.dtype
        own = coef.astype(dtype, copy=False)
        total = np.zeros((n_rows, coef.shape[1]))
        step = max(1, min(_BLOCK_ROWS, _BLOCK_ENTRIES // max(1, n_rows)))
        room = np.empty(step * n_rows, dtype)
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            block = room[: (stop - start) * (n_rows - start)].reshape(stop - start, -1)
            self.kernel.block(
                self.rows[start:stop], self.rows[start:], out=block, parallel=self.parallel
            )
            total[start:stop] += block @ own[start:]
            total[stop:] += block[:, stop - start :].T @ own[start:stop]
        return total

    def _of_some(self, coef: FloatArray, needed: IntArray) -> FloatArray:
        """`values` where only some rows of ``coef`` are not 0."""
        dtype = self.rows.values.dtype
        own, others = coef[needed].astype(dtype, copy=False), self.rows[needed]
        total = np.zeros((self.n_rows, coef.shape[1]))
        step = max(1, _BLOCK_ENTRIES // max(1, needed.size))
        for start in range(0, self.n_rows, step):
            place = slice(start, start + step)
            total[place] = self.kernel.block(self.rows[place], others, parallel=self.parallel) @ own
        return total
