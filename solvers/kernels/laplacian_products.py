"""Products of a shifted Laplacian with a block of vectors, and the vector steps of iterations.

Blocks are C-contiguous (n_rows, n_columns). Every column is summed in an order that depends on
nothing but the number of rows, so results do not depend on threads or on the other columns.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit

CHUNK_ROWS = 4096

IN_REGISTERS = (1, 2, 4)
"""Numbers of columns for which `laplacian_rows` has loops of their own."""

_MOST_IN_REGISTERS = IN_REGISTERS[-1]


@njit(cache=True, nogil=True)
def laplacian_rows(
    indptr: Any, indices: Any, weight: Any, shift: Any, block: Any, out: Any, start: int, stop: int
) -> None:
    """Fill ``out[start:stop]`` with sum_j weight_ij (block_i - block_j) + shift_i block_i.

    The difference form maps constants to exactly zero whatever the range of the weights. One
    column, two and four have loops of their own, whose sums stay in registers: 1.6 to 2.4 times
    as fast.
    """
    n_columns = block.shape[1]
    if n_columns == 1:
        _one_column(indptr, indices, weight, shift, block, out, start, stop)
    elif n_columns == 2:
        _two_columns(indptr, indices, weight, shift, block, out, start, stop)
    elif n_columns == 4:
        _four_columns(indptr, indices, weight, shift, block, out, start, stop)
    else:
        _all_columns(indptr, indices, weight, shift, block, out, start, stop)


@njit(cache=True, nogil=True)
def _one_column(
    indptr: Any, indices: Any, weight: Any, shift: Any, block: Any, out: Any, start: int, stop: int
) -> None:
    """`laplacian_rows` of one column."""
    for row in range(start, stop):
        own = block[row, 0]  # (A1), row by row
        total = shift[row] * own
        for entry in range(indptr[row], indptr[row + 1]):
            total += weight[entry] * (own - block[np.uintp(indices[entry]), 0])
        out[row, 0] = total


@njit(cache=True, nogil=True)
def _two_columns(
    indptr: Any, indices: Any, weight: Any, shift: Any, block: Any, out: Any, start: int, stop: int
) -> None:
    """`laplacian_rows` of two columns."""
    for row in range(start, stop):
        x0, x1 = block[row, 0], block[row, 1]
        t0, t1 = shift[row] * x0, shift[row] * x1
        for entry in range(indptr[row], indptr[row + 1]):
            other, value = np.uintp(indices[entry]), weight[entry]
            t0 += value * (x0 - block[other, 0])
            t1 += value * (x1 - block[other, 1])
        out[row, 0], out[row, 1] = t0, t1


@njit(cache=True, nogil=True)
def _four_columns(
    indptr: Any, indices: Any, weight: Any, shift: Any, block: Any, out: Any, start: int, stop: int
) -> None:
    """`laplacian_rows` of four columns."""
    for row in range(start, stop):
        x0, x1, x2, x3 = block[row, 0], block[row, 1], block[row, 2], block[row, 3]
        t0, t1 = shift[row] * x0, shift[row] * x1
        t2, t3 = shift[row] * x2, shift[row] * x3
        for entry in range(indptr[row], indptr[row + 1]):
            other, value = np.uintp(indices[entry]), weight[entry]
            t0 += value * (x0 - block[other, 0])
            t1 += value * (x1 - block[other, 1])
            t2 += value * (x2 - block[other, 2])
            t3 += value * (x3 - block[other, 3])
        out[row, 0], out[row, 1], out[row, 2], out[row, 3] = t0, t1, t2, t3


@njit(cache=True, nogil=True)
def _all_columns(
    indptr: Any, indices: Any, weight: Any, shift: Any, block: Any, out: Any, start: int, stop: int
) -> None:
    """`laplacian_rows` of any number of columns."""
    n_columns = block.shape[1]
    total = np.empty(n_columns, block.dtype)
    own = np.empty(n_columns, block.dtype)
    for row in range(start, stop):
        for column in range(n_columns):
            own[column] = block[row, column]
            total[column] = shift[row] * own[column]
        for entry in range(indptr[row], indptr[row + 1]):
            other = np.uintp(indices[entry])
            value = weight[entry]
            for column in range(n_columns):
                total[column] += value * (own[column] - block[other, column])
        for column in range(n_columns):
            out[row, column] = total[column]


@njit(cache=True, nogil=True)
def mean_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    inverse: Any,
    shift: Any,
    block: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Fill ``out[start:stop]`` with inverse_i sum_j weight_ij block_j, which are means.

    An empty row keeps its values; ``shift`` is zeros. Up to four columns take the difference form
    of `laplacian_rows`; more are summed directly, in float32 1.4 times as fast.
    """
    n_columns = block.shape[1]
    if n_columns <= _MOST_IN_REGISTERS:
        laplacian_rows(indptr, indices, weight, shift, block, out, start, stop)
        for row in range(start, stop):
            for column in range(n_columns):
                out[row, column] = block[row, column] - inverse[row] * out[row, column]
        return
    for row in range(start, stop):
        is_empty = indptr[row] == indptr[row + 1]
        for column in range(n_columns):
            out[row, column] = block[row, column] if is_empty else 0.0
        if is_empty:
            continue
        for entry in range(indptr[row], indptr[row + 1]):
            other = np.uintp(indices[entry])
            value = weight[entry]
            for column in range(n_columns):
                out[row, column] += value * block[other, column]
        for column in range(n_columns):
            out[row, column] *= inverse[row]


@njit(cache=True, nogil=True)
def diagonal_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    diagonal: Any,
    block: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Fill ``out[start:stop]`` with diagonal_i block_i - sum_j weight_ij block_j.

    The same product as `laplacian_rows` with the diagonal summed beforehand: up to 1.7 times as
    fast in float32, and exact to the rounding of the diagonal only.
    """
    n_columns = block.shape[1]
    total = np.empty(n_columns, block.dtype)
    for row in range(start, stop):
        for column in range(n_columns):
            total[column] = diagonal[row] * block[row, column]
        for entry in range(indptr[row], indptr[row + 1]):
            other = indices[entry]
            value = weight[entry]
            for column in range(n_columns):
                total[column] -= value * block[other, column]
        for column in range(n_columns):
            out[row, column] = total[column]


@njit(cache=True, nogil=True)
def vector_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    diagonal: Any,
    vector: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """`diagonal_rows` for one vector, at a third of the time of a block of one."""
    for row in range(start, stop):
        total = diagonal[row] * vector[row]
        for entry in range(indptr[row], indptr[row + 1]):
            total -= weight[entry] * vector[np.uintp(indices[entry])]
        out[row] = total


@njit(cache=True, nogil=True)
def column_dots(left: Any, right: Any) -> Any:
    """New (n_columns,) float64: the dot product of each column pair, summed in fixed chunks."""
    n_rows, n_columns = left.shape
    total = np.zeros(n_columns, np.float64)
    part = np.empty(n_columns, np.float64)
    for first in range(0, n_rows, CHUNK_ROWS):
        part[:] = 0.0
        for row in range(first, min(first + CHUNK_ROWS, n_rows)):
            for column in range(n_columns):
                part[column] += np.float64(left[row, column]) * np.float64(right[row, column])
        for column in range(n_columns):
            total[column] += part[column]  # two levels of sums round less than one
    return total


@njit(cache=True, nogil=True)
def advance(solution: Any, residual: Any, direction: Any, product: Any, length: Any) -> Any:
    """Step in place: solution += length * direction, residual -= length * product.

    Returns a new (n_columns,) float64 array of the squared norms of the new residual.
    """
    n_rows, n_columns = solution.shape
    total = np.zeros(n_columns, np.float64)
    part = np.empty(n_columns, np.float64)
    for first in range(0, n_rows, CHUNK_ROWS):
        part[:] = 0.0
        for row in range(first, min(first + CHUNK_ROWS, n_rows)):
            for column in range(n_columns):
                # Saad, Algorithm 9.1, lines 4 and 5, and with length 1 those of 12.1
                solution[row, column] += length[column] * direction[row, column]
                left = residual[row, column] - length[column] * product[row, column]
                residual[row, column] = left
                part[column] += np.float64(left) * np.float64(left)
        for column in range(n_columns):
            total[column] += part[column]
    return total


@njit(cache=True, nogil=True)
def redirect(direction: Any, preconditioned: Any, factor: Any, gain: Any) -> None:
    """New search direction in place: direction = gain * preconditioned + factor * direction."""
    n_rows, n_columns = direction.shape
    for row in range(n_rows):
        for column in range(n_columns):
            # Saad, Algorithm 9.1, line 8 with gain 1, and Algorithm 12.1, line 7
            direction[row, column] = (
                gain[column] * preconditioned[row, column] + factor[column] * direction[row, column]
            )


@njit(cache=True, nogil=True)
def advance_by_rows(
    solution: Any, residual: Any, direction: Any, product: Any, length: Any, inverse: Any
) -> Any:
    """`advance` for a diagonal preconditioner: squares are counted ``inverse`` times, by row."""
    n_rows, n_columns = solution.shape
    total = np.zeros(n_columns, np.float64)
    part = np.empty(n_columns, np.float64)
    for first in range(0, n_rows, CHUNK_ROWS):
        part[:] = 0.0
        for row in range(first, min(first + CHUNK_ROWS, n_rows)):
            own = np.float64(inverse[row])
            for column in range(n_columns):
                solution[row, column] += length[column] * direction[row, column]
                left = residual[row, column] - length[column] * product[row, column]
                residual[row, column] = left
                part[column] += own * np.float64(left) * np.float64(left)
        for column in range(n_columns):
            total[column] += part[column]
    return total


@njit(cache=True, nogil=True)
def redirect_by_rows(direction: Any, residual: Any, inverse: Any, factor: Any) -> None:
    """`redirect` for a diagonal preconditioner: inverse * residual + factor * direction."""
    n_rows, n_columns = direction.shape
    for row in range(n_rows):
        own = inverse[row]
        for column in range(n_columns):
            direction[row, column] = (
                own * residual[row, column] + factor[column] * direction[row, column]
            )


@njit(cache=True, nogil=True)
def multiply_rows(block: Any, factor: Any, out: Any, start: int, stop: int) -> None:
    """Fill ``out[start:stop]`` with each row of ``block`` times its factor."""
    n_columns = block.shape[1]
    for row in range(start, stop):
        own = factor[row]
        for column in range(n_columns):
            out[row, column] = own * block[row, column]


@njit(cache=True, nogil=True)
def component_sums(block: Any, component: Any, sums: Any) -> None:
    """Add every row of ``block`` to the row ``component`` names in ``sums`` (float64)."""
    n_rows, n_columns = block.shape
    for row in range(n_rows):
        target = component[row]
        for column in range(n_columns):
            sums[target, column] += block[row, column]


@njit(cache=True, nogil=True)
def subtract_by_component(block: Any, component: Any, values: Any) -> None:
    """Subtract from every row of ``block``, in place, the row ``component`` names in ``values``."""
    n_rows, n_columns = block.shape
    for row in range(n_rows):
        source = component[row]
        for column in range(n_columns):
            block[row, column] -= values[source, column]
