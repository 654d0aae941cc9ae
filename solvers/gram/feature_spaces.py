"""Spaces of explicit features: linear ones, and a factor of a Gram matrix.

A function is f(x) = <w, phi(x)> and its norm is that of w.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, IntArray, RealArray
from peewit.solvers.features import Rows
from peewit.solvers.gram.kernel_functions import KernelFunction, ScaledRows
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.gram.space_base import Expansion
from peewit.solvers.iteration_loop import OnStep, ignore_step

Product = Callable[[RealArray], RealArray]
"""A matrix, given as its product with a block of vectors."""

CHUNK_BYTES = 1 << 26
"""Least bytes of feature columns to which the Laplacian is applied together."""


_FACTOR_RTOL = 1e-12


class FeatureMap(ABC):
    """Base of the spaces of explicit features."""

    n_rows: int  # nodes
    n_coef: int  # numbers of one function
    dtype: Any  # of the features

    @abstractmethod
    def values(self, coef: FloatArray) -> FloatArray:
        """The functions at all nodes."""

    @abstractmethod
    def adjoint(self, residual: FloatArray) -> FloatArray:
        """Features' @ residual."""

    @abstractmethod
    def features(self, nodes: IntArray) -> FloatArray:
        """(n_nodes, n_coef) features of some nodes."""

    @abstractmethod
    def penalty_matrix(self, laplacian: Product, on_step: OnStep = ignore_step) -> FloatArray:
        """Features' L features, (n_coef, n_coef); ``laplacian`` gives L @ block."""

    @abstractmethod
    def expansion(self, coef: FloatArray, intercept: FloatArray) -> Expansion:
        """The functions in a form that takes new points."""

    def coefficients(self, functions: Expansion) -> FloatArray | None:
        """(n_coef, n_functions) of functions as `expansion` gives them; None for others."""
        del functions
        return None

    def inner(self, left: FloatArray, right: FloatArray, right_values: FloatArray) -> FloatArray:
        """Inner products left' right, column by column."""
        del right_values
        return np.asarray(np.einsum("ij,ij->j", left, right))

    def between(self, nodes: IntArray) -> RealArray:
        """(n_nodes, n_nodes) kernel between the given nodes."""
        some = self.features(nodes)
        return some @ some.T


class MatrixMap(FeatureMap):
    """Features that are the rows of a matrix, dense or sparse."""

    def __init__(self, matrix: Any) -> None:
        self.n_rows, self.n_coef = matrix.shape
        self.dtype = matrix.dtype
        self._matrix = matrix
        self._transposed = matrix.T.tocsr() if sp.issparse(matrix) else matrix.T

    def values(self, coef: FloatArray) -> FloatArray:
        """The functions at all nodes."""
        return np.asarray(self._matrix @ coef.astype(self.dtype), np.float64)

    def adjoint(self, residual: FloatArray) -> FloatArray:
        """Features' @ residual."""
        return np.asarray(self._transposed @ residual.astype(self.dtype), np.float64)

    def features(self, nodes: IntArray) -> FloatArray:
        """(n_nodes, n_coef) features of some nodes."""
        some = self._matrix[nodes]
        return np.asarray(some.toarray() if sp.issparse(some) else some, np.float64)


class LinearMap(MatrixMap):
    """Functions <w, x> / width of dense or sparse rows; no Gram matrix.

    The kernel must be linear; ``rows`` are those of all nodes.
    """

    def __init__(self, kernel: KernelFunction, rows: Rows, dtype: Any) -> None:
        super().__init__(kernel.scaled(rows.whole(), dtype).values)
        self._kernel = kernel

    def expansion(self, coef: FloatArray, intercept: FloatArray) -> Expansion:
        """The functions, each one row of a basis."""
        weights = np.ascontiguousarray(coef.T, self.dtype)
        half = 0.5 * np.einsum("ij,ij->i", weights, weights)
        basis = ScaledRows(values=weights, half_squares=half)
        identity = np.eye(coef.shape[1])
        return Expansion(kernel=self._kernel, basis=basis, coef=identity, intercept=intercept)

    def coefficients(self, functions: Expansion) -> FloatArray | None:
        """The weighted sum of the basis rows, in the unit of this kernel."""
        kernel, weights = functions.kernel, functions.basis.values
        if kernel.name != "linear" or weights.shape[1] != self.n_coef or sp.issparse(weights):
            return None
        unit = self._kernel.width / kernel.width
        return np.asarray(unit * (weights.T.astype(np.float64) @ functions.coef))

    def penalty_matrix(self, laplacian: Product, on_step: OnStep = ignore_step) -> FloatArray:
        """Features' L^p features, (n_coef, n_coef)."""
        total = np.empty((self.n_coef, self.n_coef))
        step = max(1, CHUNK_BYTES // (8 * self.n_rows))
        for start in range(0, self.n_coef, step):
            on_step(start, self.n_coef)
            chunk = self._matrix[:, start : start + step]
            block = np.asarray(chunk.toarray() if sp.issparse(chunk) else chunk)
            product = laplacian(block)
            total[:, start : start + step] = self._transposed @ product.astype(block.dtype)
        return symmetric(total)


def symmetric(matrix: FloatArray) -> FloatArray:
    """The symmetric part, which removes the asymmetry left by rounding."""
    return np.asarray(0.5 * (matrix + matrix.T))


class GramFactor(MatrixMap):
    """Features C with C C' = K, from the pivoted Cholesky factorization of a Gram matrix.

    It pivots until the rest of the diagonal is below 1e-12 of its maximum: n rank^2 operations at
    most; LAPACK's ``dpstrf``. ``pivots`` are the (rank,) nodes whose kernel columns span the space.
    """

    def __init__(self, gram: DenseGram) -> None:
        matrix = np.array(gram.matrix, np.float64, order="F")
        scale = float(matrix.diagonal().max(initial=0.0))
        lower, order, rank, _ = sl.lapack.dpstrf(
            matrix, tol=_FACTOR_RTOL * scale, lower=1, overwrite_a=1
        )
        order = order - 1
        factor = np.zeros((gram.n_rows, rank))
        factor[order] = np.tril(lower)[:, :rank]
        super().__init__(factor)
        self.pivots, self._gram = order[:rank], gram

    def at_pivots(self, coef: FloatArray) -> FloatArray:
        """Coefficients of the kernel columns of the pivots."""
        weights = sl.solve_triangular(self._matrix[self.pivots], coef, lower=True, trans="T")
        return np.asarray(weights)

    def gram_coefficients(self, coef: FloatArray) -> FloatArray:
        """(n_rows, k) coefficients of the same functions in the space of the Gram matrix."""
        spread = np.zeros((self.n_rows, coef.shape[1]))
        spread[self.pivots] = self.at_pivots(coef)
        return spread

    def expansion(self, coef: FloatArray, intercept: FloatArray) -> Expansion:
        """The functions in the rows of the pivots."""
        weights = self.at_pivots(coef)
        basis, kernel = self._gram.rows[self.pivots], self._gram.kernel
        return Expansion(kernel=kernel, basis=basis, coef=weights, intercept=intercept)

    def penalty_matrix(self, laplacian: Product, on_step: OnStep = ignore_step) -> FloatArray:
        """C' L^p C, (n_coef, n_coef)."""
        on_step(0, 1)
        return symmetric(self._transposed @ laplacian(self._matrix))
