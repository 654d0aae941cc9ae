"""Dense twins of the Laplacian solvers: the same answers by pseudo-inverse, no cleverness."""

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph


def dense_laplacian(graph: Graph) -> FloatArray:
    """The Laplacian summed edge by edge (A1)."""
    laplacian = np.zeros((graph.n_nodes, graph.n_nodes))
    for u, v, weight in zip(*graph.edges(), strict=True):
        laplacian[u, u] += weight
        laplacian[v, v] += weight
        laplacian[u, v] -= weight
        laplacian[v, u] -= weight
    return laplacian


def zero_sum_projection(graph: Graph) -> FloatArray:
    """The matrix that subtracts component means."""
    same = graph.component[:, None] == graph.component[None, :]
    return np.eye(graph.n_nodes) - same / same.sum(axis=1, keepdims=True)


def pseudo_inverse(matrix: FloatArray) -> FloatArray:
    """Moore-Penrose inverse of a symmetric matrix."""
    return np.linalg.pinv(matrix, rcond=1e-13, hermitian=True)


def shifted_inverse(
    graph: Graph, *, scale: float, shift: FloatArray, zero_mean: bool
) -> FloatArray:
    """(scale L + diag(shift))^+, the operator projected to zero sums with ``zero_mean``."""
    matrix = scale * dense_laplacian(graph) + np.diag(shift)
    if zero_mean:
        projection = zero_sum_projection(graph)
        matrix = projection @ matrix @ projection
    return pseudo_inverse(matrix)


def resistances(graph: Graph, u: np.ndarray, v: np.ndarray) -> FloatArray:
    """Effective resistances (B3), infinite across components."""
    inverse = pseudo_inverse(dense_laplacian(graph))
    values = inverse[u, u] + inverse[v, v] - 2 * inverse[u, v]
    return np.where(graph.component[u] == graph.component[v], values, np.inf)
