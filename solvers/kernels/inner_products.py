"""Inner products and combinations of tall blocks, and Gaussian sums over the edges of a graph.

Sums over rows run in fixed chunks, so they depend only on the number of rows.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.hash_signs import mix64
from peewit.solvers.kernels.laplacian_products import CHUNK_ROWS

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(11)
_UNIT = 1.0 / (1 << 53)
_TWO_PI = 2.0 * np.pi


@njit(cache=True, nogil=True)
def cross_products(left: Any, right: Any) -> Any:
    """New (p, q) float64 array left^T right of blocks (n_rows, p) and (n_rows, q)."""
    n_rows = left.shape[0]
    n_left, n_right = left.shape[1], right.shape[1]
    total = np.zeros((n_left, n_right))
    part = np.empty((n_left, n_right))
    for first in range(0, n_rows, CHUNK_ROWS):
        part[:, :] = 0.0
        for row in range(first, min(first + CHUNK_ROWS, n_rows)):
            for i in range(n_left):
                value = left[row, i]
                for j in range(n_right):
                    part[i, j] += value * right[row, j]
        total += part
    return total


@njit(cache=True, nogil=True)
def subtract_combination(block: Any, basis: Any, coefficients: Any) -> None:
    """Subtract basis @ coefficients from ``block`` in place."""
    n_rows, n_columns = block.shape
    for row in range(n_rows):
        for i in range(basis.shape[1]):
            value = basis[row, i]
            for j in range(n_columns):
                block[row, j] -= value * coefficients[i, j]


@njit(cache=True, nogil=True)
def gaussian_edge_sums(indptr: Any, indices: Any, weight: Any, seed: Any, out: Any) -> None:
    """Fill ``out`` (n_nodes, k) with B^T diag(weight)^(1/2) g, g independent standard normals.

    Its covariance is the Laplacian. Numbers come from hashes of (seed, CSR entry, column), two from
    each by the method of Box and Muller.
    """
    out[:, :] = 0.0
    n_columns = out.shape[1]
    key = mix64(seed + _GOLDEN)
    for row in range(indptr.size - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            other = indices[entry]
            if other <= row:
                continue
            scale = np.sqrt(weight[entry])  # (A1): B^T diag(a)^(1/2) is a root of L
            state = mix64(key ^ mix64(np.uint64(entry) * _GOLDEN))
            for column in range(0, n_columns, 2):
                state += _GOLDEN
                # In (0, 1], so that the logarithm is finite.
                first = (np.float64(mix64(state) >> _SHIFT) + 1.0) * _UNIT
                state += _GOLDEN
                angle = _TWO_PI * np.float64(mix64(state) >> _SHIFT) * _UNIT
                radius = scale * np.sqrt(-2.0 * np.log(first))
                value = radius * np.cos(angle)
                out[row, column] += value
                out[other, column] -= value
                if column + 1 < n_columns:
                    value = radius * np.sin(angle)
                    out[row, column + 1] += value
                    out[other, column + 1] -= value
