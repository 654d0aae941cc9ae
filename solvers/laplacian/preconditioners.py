"""Preconditioners: Jacobi and approximate Cholesky (library ``approx-chol``).

Both are symmetric, positive semidefinite, and definite on the space in which the system is solved.
`peewit.solvers.laplacian.solver` chooses between them by trying.
"""

import warnings
from typing import Any, Literal, Protocol

import approx_chol
import numpy as np

from peewit.solvers.arrays import AnyArray, FloatArray, RealArray
from peewit.solvers.kernels.laplacian_products import multiply_rows
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.late_modules import LateModule

sp = LateModule("scipy.sparse")

PreconditionerName = Literal["auto", "jacobi", "approx-chol"]

_COLUMNS_AT_ONCE = 8
_UINT32_MAX = int(np.iinfo(np.uint32).max)


class Preconditioner(Protocol):
    """An approximate inverse of the operator."""

    name: str
    stagnation_window: int
    """Steps without progress after which PCG gives up."""

    def apply(self, residual: RealArray, out: RealArray) -> None:
        """Fill ``out`` (n_nodes, k) with the approximate solution for ``residual``."""

    def rest(self) -> None:
        """Release memory that only runs need."""


class Jacobi:
    """Division by the diagonal; rows with an empty diagonal (isolated nodes) give zero.

    ``inverse`` holds the (n_nodes,) factors of the rows.
    """

    name = "jacobi"
    stagnation_window = 2000

    def __init__(self, operator: ShiftedLaplacian) -> None:
        diagonal = operator.diagonal
        valid = diagonal >= np.finfo(diagonal.dtype).tiny  # the inverse of less is infinite
        self.inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=valid)
        self._operator = operator

    def apply(self, residual: RealArray, out: RealArray) -> None:
        """Fill ``out`` with residual / diagonal, projected where products are."""
        inverse = self.inverse
        self._operator.ranges.run(
            lambda a, b: multiply_rows(residual, inverse, out, a, b), 2 * out.size
        )
        if self._operator.projects_products:
            self._operator.project(out)

    def rest(self) -> None:
        """Nothing to give back."""


class ApproximateCholesky:
    """A randomized sparse factor L D L^T of the grounded Laplacian (Gao, Kyng, Spielman 2023).

    A shift becomes edges to one ground node (C2), so that the library always sees a Laplacian. One
    factor serves every component: the library projects each by itself. Float64, deterministic;
    holds the GIL. Raises ValueError for a matrix with more than 2^32 - 1 stored entries.
    """

    name = "approx-chol"
    stagnation_window = 60

    def __init__(self, operator: ShiftedLaplacian) -> None:
        self._operator = operator
        self._is_grounded = bool(np.any(operator.shift > 0))
        matrix = _grounded_laplacian(operator)
        if matrix.nnz > _UINT32_MAX:
            raise ValueError(
                f"approx-chol holds at most {_UINT32_MAX} entries, got {matrix.nnz}; "
                "use preconditioner='jacobi'"
            )
        with warnings.catch_warnings():
            # residuals show the worth of a factor
            warnings.filterwarnings("ignore", ".*fell back to a", RuntimeWarning)
            self._factor = approx_chol.factorize_raw(
                matrix.indptr.astype(np.uint32),
                matrix.indices.astype(np.uint32),
                np.ascontiguousarray(matrix.data, dtype=np.float64),
                matrix.shape[0],
                approx_chol.Config(seed=0),
            )
        on_shifted = np.zeros(operator.projected.size, dtype=bool)
        on_shifted[operator.component[operator.shift > 0]] = True
        self._reaches_ground = on_shifted[operator.component]

    def apply(self, residual: RealArray, out: RealArray) -> None:
        """Fill ``out`` with the factor's solutions, a few columns at a time."""
        n_columns = residual.shape[1]
        for first in range(0, n_columns, _COLUMNS_AT_ONCE):
            columns = slice(first, min(first + _COLUMNS_AT_ONCE, n_columns))
            out[:, columns] = self._solve_rows(residual[:, columns].T).T
        if self._operator.projects_products:
            self._operator.project(out)

    def rest(self) -> None:
        """Nothing to give back."""

    def _solve_rows(self, rows: AnyArray) -> FloatArray:
        """Solve for each row of a (k, n_nodes) block."""
        n_nodes = rows.shape[1]
        right = np.zeros((rows.shape[0], n_nodes + self._is_grounded))
        right[:, :n_nodes] = rows
        if self._is_grounded:
            grounded = np.where(self._reaches_ground, right[:, :n_nodes], 0.0)
            right[:, n_nodes] = -grounded.sum(axis=1)  # no BLAS: its sums depend on threads
        solved = np.empty_like(right)
        for row in range(rows.shape[0]):
            self._factor.solve_into(right[row], solved[row])
        if self._is_grounded:
            solved[:, :n_nodes] -= solved[:, n_nodes:] * self._reaches_ground
        return solved[:, :n_nodes]


def _grounded_laplacian(operator: ShiftedLaplacian) -> Any:
    """The operator as a Laplacian; a shift becomes edges to one more node, the ground (C2)."""
    n_nodes = operator.n_nodes
    adjacency = sp.csr_array(
        (operator.weight.astype(np.float64), operator.indices, operator.indptr),
        shape=(n_nodes, n_nodes),
    )
    if np.any(operator.shift > 0):
        ground = sp.csr_array(operator.shift.astype(np.float64)[None, :])
        adjacency = sp.block_array([[adjacency, ground.T], [ground, None]], format="csr")
    laplacian = (sp.diags_array(adjacency.sum(axis=1), format="csr") - adjacency).tocsr()
    laplacian.sort_indices()
    return laplacian
