"""Spaces with sparse Gram matrices: of compact support, and of local features."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, IntArray, RealArray
from peewit.solvers.features import Rows, checked_points
from peewit.solvers.gram.feature_spaces import MatrixMap, Product, symmetric
from peewit.solvers.gram.kernel_functions import KernelFunction, ScaledRows
from peewit.solvers.gram.kernel_spaces import KernelSpace
from peewit.solvers.gram.memory_plan import GramTooLarge
from peewit.solvers.gram.space_base import Expansion, block_bytes
from peewit.solvers.iteration_loop import OnStep, ignore_step
from peewit.solvers.late_modules import LateModule
from peewit.solvers.neighbors.neighbor_lists import PointSearch, metric_rows
from peewit.solvers.row_ranges import Parallel

neighbors = LateModule("sklearn.neighbors")

_BLOCK_ROWS: Final = 2_048
_WIDTH_ROWS: Final = 1_024
_INDEX_BYTES: Final = 8
_TIES_END: Final = 2.0
"""Units of length at the farthest neighbor: local features are exp(-4) there, as ties of a graph of
neighbors are."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseGram(KernelSpace):
    """The Gram matrix of a kernel of compact support, in memory without its zeros."""

    matrix: Any  # (n_rows, n_rows) csr_array, exactly symmetric

    @classmethod
    def of(
        cls,
        kernel: KernelFunction,
        rows: Rows,
        dtype: Any,
        *,
        kept_bytes: int,
        parallel: Parallel = map,
        on_step: OnStep = ignore_step,
    ) -> "SparseGram":
        """Compute the entries; raises `GramTooLarge` where they outgrow ``kept_bytes``."""
        scaled = kernel.scaled(rows.whole(), dtype)
        search = neighbors.NearestNeighbors(radius=kernel.support).fit(scaled.values)
        blocks, n_below = [], 0
        most = kept_bytes // (2 * (np.dtype(dtype).itemsize + _INDEX_BYTES))
        for start in range(0, scaled.n_rows, _BLOCK_ROWS):
            on_step(start, scaled.n_rows)
            near = search.radius_neighbors_graph(
                scaled.values[start : start + _BLOCK_ROWS], mode="distance"
            )
            near = sp.tril(near, start - 1, format="csr")  # left of the diagonal
            near.data = kernel.of_distances(near.data).astype(dtype)
            blocks.append(near)
            n_below += near.nnz
            if 2 * n_below > most:
                raise GramTooLarge(
                    f"gram 'sparse' must have at most {most:,} entries, got more in the first "
                    f"{start + near.shape[0]:,} of {scaled.n_rows:,} rows with "
                    f"width={kernel.width:.3g}; use a smaller width, or kernel='gaussian', which "
                    "keeps n_nearest a row"
                )
        below = sp.vstack(blocks, format="csr")
        blocks.clear()  # not both in memory
        matrix = sp.csr_array(below + below.T + sp.eye(scaled.n_rows, dtype=dtype))
        return cls(kernel=kernel, rows=scaled, parallel=parallel, matrix=matrix)

    @property
    def dtype(self) -> Any:
        """Of the entries."""
        return self.matrix.dtype

    @property
    def n_stored(self) -> int:
        """Entries that are not 0."""
        return int(self.matrix.nnz)

    def values(self, coef: FloatArray) -> FloatArray:
        """The functions at all nodes: K coef."""
        return np.asarray(self.matrix @ coef.astype(self.matrix.dtype, copy=False), np.float64)

    def between(self, nodes: IntArray) -> RealArray:
        """(n_nodes, n_nodes) entries of the Gram matrix."""
        return np.asarray(self.matrix[nodes][:, nodes].toarray())


class LocalMap(MatrixMap):
    """Features of a point that are 0 but at the nodes nearest to it, so that K = S S' is sparse.

    s_j(x) = exp(-|x - x_j|^2 / width^2) at the ``n_nearest`` nodes x_j, brought to unit length: the
    Gaussian of ``width``, between the nodes that both points have among their nearest (E16).
    """

    def __init__(
        self,
        kernel: KernelFunction,
        rows: Rows,
        dtype: Any,
        n_nearest: int,
        on_step: OnStep = ignore_step,
    ) -> None:
        self._kernel, self._rows = kernel, kernel.scaled(rows.whole(), dtype)
        self._n_nearest = min(n_nearest, rows.n_rows)
        super().__init__(_of_nodes(self._rows, self._n_nearest, dtype, on_step))

    @property
    def n_stored(self) -> int:
        """Features that are not 0."""
        return int(self._matrix.nnz)

    def expansion(self, coef: FloatArray, intercept: FloatArray) -> "LocalExpansion":
        """The functions, with the rows of all nodes as a basis."""
        functions = Expansion(kernel=self._kernel, basis=self._rows, coef=coef, intercept=intercept)
        return LocalExpansion.of(functions, self._n_nearest)

    def coefficients(self, functions: Expansion) -> FloatArray | None:
        """Those of functions of the first of the same nodes; 0 of later ones."""
        if not isinstance(functions, LocalExpansion):
            return None
        if not self.expansion(functions.coef, functions.intercept).begins_with(functions):
            return None
        coef = np.zeros((self.n_coef, functions.coef.shape[1]))
        coef[: functions.basis.n_rows] = functions.coef
        return coef

    def penalty_matrix(self, laplacian: Product, on_step: OnStep = ignore_step) -> FloatArray:
        """S' L^p S, (n_rows, n_rows): for few nodes."""
        on_step(0, 1)
        product = laplacian(np.asarray(self._matrix.toarray(), np.float64))
        return symmetric(self._transposed @ product)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalExpansion(Expansion):
    """Functions f_k(x) = sum_j coef_jk s_j(x) + intercept_k of `LocalMap`, for any x."""

    n_nearest: int

    @classmethod
    def of(cls, functions: Expansion, n_nearest: int) -> "LocalExpansion":
        """The functions with these coefficients, at local features instead of the kernel's."""
        return cls(
            kernel=functions.kernel,
            basis=functions.basis,
            coef=functions.coef,
            intercept=functions.intercept,
            n_nearest=n_nearest,
        )

    def values(self, features: Any) -> FloatArray:
        """(n_points, n_functions) values at new points; see `Expansion.values`."""
        rows = checked_points(features, self.n_columns)
        values = np.tile(self.intercept, (rows.n_rows, 1))
        dtype = self.basis.values.dtype
        search = PointSearch(metric_rows(self.basis.values, "euclidean"))
        for place, block in rows.blocks(block_bytes(rows, self.basis.n_rows)):
            scaled: ScaledRows = self.kernel.scaled(block, dtype)
            points = metric_rows(scaled.values, "euclidean")
            values[place] += _local_features(search, points, self.n_nearest, dtype) @ self.coef
        return values

    def trimmed(self) -> "LocalExpansion":
        """The functions themselves: every row may be among the nearest of a point."""
        return self


def near_width(kernel: KernelFunction, rows: Rows, n_nearest: int) -> float:
    """Width at which a sparse kernel ends with the ``n_nearest`` nodes, by the median.

    1,024 rows drawn with a fixed seed are asked. That of the kernel where most are duplicates.
    """
    n_nearest = min(n_nearest, rows.n_rows - 1)
    if n_nearest < 1:
        return kernel.width
    places = np.arange(rows.n_rows)
    if rows.n_rows > _WIDTH_ROWS:
        drawn = np.random.default_rng(0).choice(rows.n_rows, _WIDTH_ROWS, replace=False)
        places = np.sort(drawn)
    search = PointSearch(metric_rows(rows.whole(), "euclidean"))
    _, distances = search.nearest(search.points[places], n_nearest, own=places)
    end = kernel.support if kernel.name == "wendland" else _TIES_END
    return float(np.median(distances[:, -1])) / end or kernel.width


def _of_nodes(rows: ScaledRows, n_nearest: int, dtype: Any, on_step: OnStep) -> Any:
    """(n_rows, n_rows) `_local_features` of the nodes themselves."""
    search, blocks = PointSearch(metric_rows(rows.values, "euclidean")), []
    for start in range(0, rows.n_rows, _BLOCK_ROWS):
        on_step(start, rows.n_rows)
        block = search.points[start : start + _BLOCK_ROWS]
        blocks.append(_local_features(search, block, n_nearest, dtype))
    return sp.vstack(blocks, format="csr")


def _local_features(search: PointSearch, points: Any, n_nearest: int, dtype: Any) -> Any:
    """(n_points, n_nodes) csr_array of unit rows, of points in the unit of the kernel."""
    nodes, distances = search.nearest(points, n_nearest)
    nearest = distances[:, :1]  # no row is lost to underflow, however far it is
    logs = np.square(nearest) - np.square(distances)
    near = np.exp(logs)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    indptr = np.arange(len(near) + 1) * n_nearest
    shape = (len(near), search.points.shape[0])
    return sp.csr_array((near.ravel().astype(dtype), nodes.ravel(), indptr), shape=shape)
