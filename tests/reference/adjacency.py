"""The symmetric matrix of edge records by scipy, and their sums pair by pair."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, IntArray


def symmetric_matrix(u: IntArray, v: IntArray, weight: FloatArray, n_nodes: int) -> Any:
    """Sorted CSR matrix: parallel records and both orientations sum, self-loops are dropped."""
    proper = u != v
    low, high = np.minimum(u, v)[proper], np.maximum(u, v)[proper]
    upper = sp.coo_array((weight[proper], (low, high)), shape=(n_nodes, n_nodes)).tocsr()
    upper.sum_duplicates()
    matrix = (upper + upper.T.tocsr()).tocsr()
    matrix.sort_indices()
    return matrix


def summed_pairs(u: IntArray, v: IntArray, weight: FloatArray) -> list[tuple[int, int, float]]:
    """Every pair ``u < v`` with the sum of its weights in the order of the records, sorted."""
    sums: dict[tuple[int, int], float] = {}
    for i, j, value in zip(u.tolist(), v.tolist(), weight.tolist(), strict=True):
        if i != j:
            pair = min(i, j), max(i, j)
            sums[pair] = sums[pair] + value if pair in sums else value
    return [(*pair, total) for pair, total in sorted(sums.items())]
