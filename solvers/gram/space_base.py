"""The contract of hypothesis spaces, and functions in them that outlive the training rows."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, IntArray, RealArray
from peewit.solvers.features import Rows, checked_points
from peewit.solvers.gram.kernel_functions import KernelFunction, ScaledRows
from peewit.solvers.labels import class_scores

_BLOCK_ENTRIES = 1 << 23
_SAME_ROWS = 1e-5
"""Relative difference of rows that rounding and another unit can make."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expansion:
    """Functions f_k(x) = sum_i coef_ik kernel(basis_i, x) + intercept_k, for any x."""

    kernel: KernelFunction
    basis: ScaledRows  # in the unit of the kernel
    coef: FloatArray  # (n_basis, n_functions)
    intercept: FloatArray  # (n_functions,)

    @property
    def n_columns(self) -> int:
        """Numbers in a row of features."""
        return int(self.basis.values.shape[1])

    def values(self, features: Any) -> FloatArray:
        """(n_points, n_functions) values at new points, (n_points, n_columns) array-like or sparse.

        Raises as `peewit.solvers.features.checked_points`.
        """
        rows = checked_points(features, self.n_columns)
        values = np.tile(self.intercept, (rows.n_rows, 1))
        dtype = self.basis.values.dtype
        for place, block in rows.blocks(block_bytes(rows, self.basis.n_rows)):
            near = self.kernel.block(self.kernel.scaled(block, dtype), self.basis)
            values[place] += near @ self.coef.astype(dtype)
        return values

    def class_scores(self, features: Any) -> FloatArray:
        """(n_points, n_classes) class scores of new points; see `values`."""
        return class_scores(self.values(features))

    def begins_with(self, other: "Expansion") -> bool:
        """Whether the first rows of the basis are those of ``other``, in the features' own unit."""
        n_rows = other.basis.n_rows
        if other.n_columns != self.n_columns or n_rows > self.basis.n_rows:
            return False
        rows, other_rows = self._unscale(n_rows), other._unscale(n_rows)
        if sp.issparse(rows) != sp.issparse(other_rows):
            return False
        difference = abs(rows - other_rows).max() if n_rows else 0.0
        return bool(difference <= _SAME_ROWS * abs(other_rows).max())

    def _unscale(self, n_rows: int) -> Any:
        """The first rows of the basis in the original unit, up to rounding."""
        rows = self.basis.values[:n_rows] * self.kernel.width
        return rows + self.kernel.center if self.kernel.center.size else rows

    def trimmed(self) -> "Expansion":
        """The same functions without the rows that none of them needs."""
        needed = np.flatnonzero((self.coef != 0).any(axis=1))
        if needed.size == self.basis.n_rows:
            return self
        return replace(self, basis=self.basis[needed], coef=self.coef[needed])


class Space(Protocol):
    """Functions on the nodes, spanned by kernel columns or by explicit features.

    Coefficients are (n_coef, n_functions) float64, values and residuals (n_rows, n_functions).
    """

    @property
    def n_rows(self) -> int:
        """Number of nodes."""

    @property
    def n_coef(self) -> int:
        """Numbers of one function."""

    def values(self, coef: FloatArray) -> FloatArray:
        """The functions at all nodes: K coef, or features @ coef."""

    def adjoint(self, residual: FloatArray) -> FloatArray:
        """Coefficients of sum_i residual_i k(x_i, .), the gradient of a loss in the space."""

    def inner(self, left: FloatArray, right: FloatArray, right_values: FloatArray) -> FloatArray:
        """(n_functions,) inner products in the space, column by column."""

    def between(self, nodes: IntArray) -> RealArray:
        """(n_nodes, n_nodes) kernel between the given nodes."""

    def expansion(self, coef: FloatArray, intercept: FloatArray) -> Expansion:
        """The functions in a form that takes new points."""


def block_bytes(rows: Rows, n_others: int) -> int:
    """Bytes of rows whose block of kernel entries with ``n_others`` has about 2^23 entries."""
    return max(1, _BLOCK_ENTRIES // max(1, n_others)) * rows.row_bytes
