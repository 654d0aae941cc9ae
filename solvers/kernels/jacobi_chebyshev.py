"""Fused steps of Jacobi-preconditioned Chebyshev iteration, all right-hand sides at once.

Products with a large sparse matrix wait for memory, and a row of 28 float32 costs hardly more to
fetch than one of 8. So all columns go through together, and threads divide the rows (the result of
a row does not depend on its thread).
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def first_directions(
    residual: Any, inverse_diagonal: Any, gain: float, direction: Any, start: int, stop: int
) -> None:
    """Fill rows of ``direction`` with gain * residual / diagonal."""
    for row in range(start, stop):
        factor = np.float32(gain) * inverse_diagonal[row]  # Saad, Algorithm 12.1, line 2
        for column in range(residual.shape[1]):
            direction[row, column] = factor * residual[row, column]


@njit(cache=True, nogil=True)
def chebyshev_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    diagonal: Any,
    inverse_diagonal: Any,
    direction: Any,
    next_direction: Any,
    solution: Any,
    residual: Any,
    gain: float,
    keep: float,
    start: int,
    stop: int,
) -> None:
    """One step on the rows ``start .. stop - 1``.

    solution += direction; residual -= M direction; next_direction = gain * residual / diagonal +
    keep * direction, where M = diag(diagonal) - weight.
    """
    n_columns = solution.shape[1]
    total = np.empty(n_columns, np.float32)
    factor_old = np.float32(keep)
    for row in range(start, stop):
        own = diagonal[row]
        for column in range(n_columns):
            total[column] = own * direction[row, column]
        for entry in range(indptr[row], indptr[row + 1]):
            other = np.uintp(indices[entry])
            value = weight[entry]
            for column in range(n_columns):
                total[column] -= value * direction[other, column]
        factor_new = np.float32(gain) * inverse_diagonal[row]
        for column in range(n_columns):
            # Saad, Algorithm 12.1, lines 4, 5 and 7
            old = direction[row, column]
            left = residual[row, column] - total[column]
            solution[row, column] += old
            residual[row, column] = left
            next_direction[row, column] = factor_new * left + factor_old * old


@njit(cache=True, nogil=True)
def smooth_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    inverse_diagonal: Any,
    block: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Fill rows of ``out`` with the weighted sums over neighbors / diagonal."""
    n_columns = out.shape[1]
    total = np.empty(n_columns, out.dtype)
    for row in range(start, stop):
        total[:] = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            other = np.uintp(indices[entry])
            value = weight[entry]
            for column in range(n_columns):
                total[column] += value * block[other, column]
        for column in range(n_columns):
            out[row, column] = total[column] * inverse_diagonal[row]  # (B16): D^-1 A Z


@njit(cache=True, nogil=True)
def scaled_energies(block: Any, inverse_diagonal: Any, start: int, stop: int) -> Any:
    """New (k,) float64: sums over the rows of block^2 / diagonal."""
    n_columns = block.shape[1]
    total = np.zeros(n_columns, np.float64)
    for row in range(start, stop):
        inverse = np.float64(inverse_diagonal[row])
        for column in range(n_columns):
            value = np.float64(block[row, column])
            total[column] += value * value * inverse
    return total
