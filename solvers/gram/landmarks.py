"""Spaces spanned by the kernel columns of a few landmarks: Nystrom's approximation."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg as sl

from peewit.solvers.arrays import FloatArray, IntArray, RealArray
from peewit.solvers.features import Rows
from peewit.solvers.gram.feature_spaces import CHUNK_BYTES, FeatureMap, Product, symmetric
from peewit.solvers.gram.kernel_functions import KernelFunction, ScaledRows
from peewit.solvers.gram.space_base import Expansion, block_bytes
from peewit.solvers.iteration_loop import OnStep, ignore_step
from peewit.solvers.row_ranges import Parallel

_BLOCK_ROWS = 4096
_CHUNK_COPIES = 4
"""Arrays of a chunk's size that a product with the Laplacian holds at once, and one to spare."""

_LEAST_EIGENVALUE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}
"""Relative size below which an eigenvalue of the landmarks' Gram matrix is rounding."""


class LandmarkMap(FeatureMap):
    """Functions sum_j u_j k(z_j, x) of some basis rows z: Nystrom's approximation of the kernel.

    Coefficients are w with u = root w, so that the norm of a function is that of w. Kernel values
    are kept if they fit, else made again in every pass over the rows.

    Parameters
    ----------
    kernel : KernelFunction
    rows : Rows
        Of all nodes; read block by block.
    landmarks : (n_landmarks, n_columns) array or scipy sparse
        Rows like those of ``rows``.
    dtype : float32 or float64
        Of the kernel values.
    kept_bytes : int
        Limit up to which kernel values are kept; above it, memory for computing the penalty.
    parallel : callable
        Runs the parts of products.
    on_step : callable
        Told of the nodes whose kernel values are made to be kept.

    References
    ----------
    Williams and Seeger, NIPS 2000.
    """

    def __init__(
        self,
        kernel: KernelFunction,
        rows: Rows,
        landmarks: Any,
        dtype: Any,
        *,
        kept_bytes: int,
        parallel: Parallel = map,
        on_step: OnStep = ignore_step,
    ) -> None:
        self._kernel, self._rows = kernel, rows
        self.n_rows, self.dtype = rows.n_rows, np.dtype(dtype)
        self._parallel = parallel
        exact = kernel.scaled(landmarks, np.float64)
        gram = kernel.block(exact, exact, parallel=parallel)
        self._root = _inverse_root(gram, _LEAST_EIGENVALUE[self.dtype])
        self.n_coef = int(self._root.shape[1])  # directions in which the landmarks differ
        self._basis = basis = kernel.scaled(landmarks, dtype)
        self._gram: RealArray | None = None
        self._chunk_bytes = max(CHUNK_BYTES, kept_bytes // _CHUNK_COPIES)
        if rows.n_rows * basis.n_rows * self.dtype.itemsize <= kept_bytes:
            values = np.empty((rows.n_rows, basis.n_rows), dtype)
            for place, block in self._blocks():
                on_step(place.start, rows.n_rows)
                values[place] = block
            self._gram = values

    def values(self, coef: FloatArray) -> FloatArray:
        """The functions at all nodes."""
        weights = (self._root @ coef).astype(self.dtype)
        values = np.empty((self.n_rows, coef.shape[1]))
        for place, block in self._blocks():
            values[place] = block @ weights
        return values

    def adjoint(self, residual: FloatArray) -> FloatArray:
        """Features' @ residual."""
        total = np.zeros((self._basis.n_rows, residual.shape[1]))
        for place, block in self._blocks():
            total += block.T @ residual[place].astype(self.dtype)
        return np.asarray(self._root.T @ total)

    def expansion(self, coef: FloatArray, intercept: FloatArray) -> Expansion:
        """The functions, with the landmarks as a basis."""
        return Expansion(
            kernel=self._kernel, basis=self._basis, coef=self._root @ coef, intercept=intercept
        )

    def coefficients(self, functions: Expansion) -> FloatArray | None:
        """Coefficients of functions in the same landmarks: the roots have orthogonal columns."""
        own = self.expansion(np.zeros((self.n_coef, 0)), functions.intercept[:0])
        if functions.basis.n_rows != self._basis.n_rows or not own.begins_with(functions):
            return None
        eigenvalues = 1.0 / np.square(self._root).sum(axis=0)
        return np.asarray(eigenvalues[:, None] * (self._root.T @ functions.coef))

    def features(self, nodes: IntArray) -> FloatArray:
        """(n_nodes, n_coef) features of some nodes."""
        near = self._near(self._take(nodes)) if self._gram is None else self._gram[nodes]
        return np.asarray(near @ self._root)

    def penalty_matrix(self, laplacian: Product, on_step: OnStep = ignore_step) -> FloatArray:
        """Features' L^p features, (n_coef, n_coef).

        Notes
        -----
        n m^2 operations for m landmarks, summed in float64: small eigenvalues of their Gram matrix
        amplify small errors. Kernel values that are not kept are made once for each chunk of
        landmarks and once more for each product with a chunk.
        """
        n_basis = self._basis.n_rows
        total = np.zeros((n_basis, n_basis))
        step = max(1, self._chunk_bytes // (self.dtype.itemsize * self.n_rows))
        for start in range(0, n_basis, step):
            chunk = slice(start, min(start + step, n_basis))
            product = np.asarray(laplacian(self._chunk(chunk)))
            for place, block in self._blocks(slice(0, chunk.stop)):
                n_done = start * self.n_rows + (chunk.stop - start) * place.start
                on_step(n_done, n_basis * self.n_rows)
                near = block.astype(np.float64, copy=False)
                total[: chunk.stop, chunk] += near.T @ product[place].astype(np.float64)
        total = np.triu(total) + np.triu(total, 1).T
        return symmetric(self._root.T @ total @ self._root)

    def _take(self, nodes: IntArray) -> Any:
        """Rows of some nodes, in the order of ``nodes``, which a source may not keep."""
        order = np.argsort(nodes, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return self._rows.take(nodes[order])[rank]

    def _chunk(self, chunk: slice) -> RealArray:
        """(n_rows, n_chunk) kernel values at some landmarks."""
        columns = np.empty((self.n_rows, chunk.stop - chunk.start), self.dtype)
        for place, block in self._blocks(chunk):
            columns[place] = block
        return columns

    def _blocks(self, chunk: slice = slice(None)) -> Iterator[tuple[slice, RealArray]]:
        """Kernel values of all nodes with some landmarks, some nodes at a time."""
        if self._gram is not None:
            for start in range(0, self.n_rows, _BLOCK_ROWS):
                place = slice(start, min(start + _BLOCK_ROWS, self.n_rows))
                yield place, self._gram[place, chunk]
            return
        basis = self._basis[chunk]
        for place, block in self._rows.blocks(block_bytes(self._rows, basis.n_rows)):
            yield place, self._near(block, basis)

    def _near(self, values: Any, basis: ScaledRows | None = None) -> RealArray:
        scaled = self._kernel.scaled(values, self.dtype)
        others = self._basis if basis is None else basis
        return self._kernel.block(scaled, others, parallel=self._parallel)


def _inverse_root(gram: RealArray, least: float) -> FloatArray:
    """R with R R' = gram^+ on the eigenvectors above ``least`` of the greatest eigenvalue."""
    values, vectors = sl.eigh(gram, check_finite=False)
    is_kept = values > least * values[-1]
    return np.asarray(vectors[:, is_kept] / np.sqrt(values[is_kept]))
