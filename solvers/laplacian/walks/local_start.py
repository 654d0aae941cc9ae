"""First iterates that are accurate near the few nodes where a right-hand side has changed.

Context: a new label leaves a residual at its node; steps on the whole graph spread it, and each
costs the same however few nodes it has reached. Decision: conjugate gradients near these nodes come
first. Consequence: the same answer, within the requested residual, in fewer steps on the whole
graph.
"""

from typing import Any, Final

import numpy as np

from peewit.solvers.arrays import AnyArray, Float32Array, Int64Array, IntArray, frozen_all
from peewit.solvers.kernels.laplacian_products import vector_rows
from peewit.solvers.kernels.local_rows import local_matrix, near_rows

_PART: Final = 16
_STEPS: Final = 32
"""Most steps; on a sixteenth of the entries they cost two products with all of them."""

MOST_NODES: Final = 8
"""If more nodes have changed, they may lie anywhere."""

_ENOUGH: Final = 0.3
"""Part of the requested residual that the near rows may keep; the rest is for other rows."""

Matrix = tuple[AnyArray, AnyArray, Float32Array, Float32Array]
"""indptr, indices and weight of W, symmetric, and a diagonal: the matrix diagonal - W."""


def correct_near(
    matrix: Matrix, rhs: Float32Array, iterate: Float32Array, nodes: Int64Array, enough: float
) -> None:
    """Lower the residual of ``iterate`` near ``nodes``, in place.

    Conjugate gradients, preconditioned by the diagonal, on the nearest rows, which have a sixteenth
    of all entries. The iterate elsewhere stays, so the remaining residual lies beside them.

    Parameters
    ----------
    matrix : Matrix
        Diagonally dominant.
    rhs, iterate : (n_nodes,) float32
    nodes : (n_some,) int64
        Rows of ``matrix``.
    enough : float
        Norm of the residual, over the roots of the diagonal, to reach.
    """
    indptr, indices, weight, diagonal = frozen_all(*matrix)
    rows, place = _near(indptr, indices, nodes)
    room = int((indptr[rows + 1] - indptr[rows]).sum())
    local = np.empty(rows.size + 1, np.int64), np.empty(room, np.int32), np.empty(room, np.float32)
    product = np.empty(rows.size, np.float32)
    local_matrix(indptr, indices, weight, diagonal, iterate, rows, place, *local, product)
    left = rhs[rows] - product
    correction = _conjugate_gradients(local, diagonal[rows], left, _ENOUGH * enough)
    iterate[rows] += correction


def _near(indptr: IntArray, indices: IntArray, nodes: Int64Array) -> tuple[Int64Array, IntArray]:
    """The nearest rows, and the place of each row among them, or -1."""
    n_nodes = indptr.size - 1
    place = np.empty(n_nodes, np.int32)
    rows = np.empty(n_nodes, np.int64)
    rows[: nodes.size] = nodes
    n_rows = near_rows(indptr, indices, place, rows, nodes.size, indices.size // _PART)
    return rows[:n_rows].copy(), place


def _conjugate_gradients(
    local: tuple[AnyArray, AnyArray, Float32Array],
    diagonal: Float32Array,
    left: Float32Array,
    enough: float,
) -> Float32Array:
    """A solution for the right-hand side ``left``, which is overwritten (Saad, Algorithm 9.1)."""
    inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    solution, product = np.zeros_like(left), np.empty_like(left)
    direction = left * inverse
    energy = float(left @ direction)
    matrix: tuple[Any, Any, Any, Any] = frozen_all(*local, diagonal)
    for _ in range(_STEPS):
        if energy <= enough**2:
            break
        vector_rows(*matrix, direction, product, 0, left.size)
        curvature = float(direction @ product)
        if curvature <= 0:
            break
        length = np.float32(energy / curvature)
        solution += length * direction
        left -= length * product
        scaled = left * inverse
        before, energy = energy, float(left @ scaled)
        direction *= np.float32(energy / before)
        direction += scaled
    return solution
