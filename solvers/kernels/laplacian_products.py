"""Products of a shifted Laplacian with a block of vectors, and the vector steps of iterations.

Blocks are C-contiguous (n_rows, n_columns). Every column is summed in an order that depends only on
the number of rows, so results do not depend on threads or on the other columns.

Loops over one column use unsigned counters, which saves checks for negative indices. Loops over the
entries of a row have a second exit, for ids that no graph has: it keeps the compiler from unrolling
them. Unrolled, their exits are hard to predict for processors, and they take 1.5 times as long on
rows of ten to twenty entries.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit

CHUNK_ROWS = 4096

IN_REGISTERS = (1, 2, 4)
"""Numbers of columns for which `laplacian_rows` has loops of their own."""

_MOST_IN_REGISTERS = IN_REGISTERS[-1]
_N_SUMS = 4
_1, _2, _3 = np.uintp(1), np.uintp(2), np.uintp(3)


@njit(cache=True, nogil=True)
def laplacian_rows(
    indptr: Any, indices: Any, weight: Any, shift: Any, block: Any, out: Any, start: int, stop: int
) -> None:
    """Fill ``out[start:stop]`` with sum_j weight_ij (block_i - block_j) + shift_i block_i.

    The difference form maps constants to exactly zero whatever the range of the weights. One, two
    and four columns have loops of their own, whose sums stay in registers: 1.6 to 2.4 times as
    fast.
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
    n_nodes, one = np.uintp(block.shape[0]), np.uintp(1)
    for row in range(np.uintp(start), np.uintp(stop)):
        own = block[row, 0]  # (A1), row by row
        total = shift[row] * own
        entry, end = np.uintp(indptr[row]), np.uintp(indptr[row + one])
        while entry < end:
            other = np.uintp(indices[entry])
            if other >= n_nodes:  # no graph has it: see the module
                return
            total += weight[entry] * (own - block[other, 0])
            entry += one
        out[row, 0] = total


@njit(cache=True, nogil=True)
def _two_columns(
    indptr: Any, indices: Any, weight: Any, shift: Any, block: Any, out: Any, start: int, stop: int
) -> None:
    """`laplacian_rows` of two columns."""
    n_nodes, one = np.uintp(block.shape[0]), np.uintp(1)
    for row in range(np.uintp(start), np.uintp(stop)):
        x0, x1 = block[row, 0], block[row, 1]
        t0, t1 = shift[row] * x0, shift[row] * x1
        entry, end = np.uintp(indptr[row]), np.uintp(indptr[row + one])
        while entry < end:
            other, value = np.uintp(indices[entry]), weight[entry]
            if other >= n_nodes:
                return
            t0 += value * (x0 - block[other, 0])
            t1 += value * (x1 - block[other, 1])
            entry += one
        out[row, 0], out[row, 1] = t0, t1


@njit(cache=True, nogil=True)
def _four_columns(
    indptr: Any, indices: Any, weight: Any, shift: Any, block: Any, out: Any, start: int, stop: int
) -> None:
    """`laplacian_rows` of four columns."""
    n_nodes, one = np.uintp(block.shape[0]), np.uintp(1)
    for row in range(np.uintp(start), np.uintp(stop)):
        x0, x1, x2, x3 = block[row, 0], block[row, 1], block[row, 2], block[row, 3]
        t0, t1 = shift[row] * x0, shift[row] * x1
        t2, t3 = shift[row] * x2, shift[row] * x3
        entry, end = np.uintp(indptr[row]), np.uintp(indptr[row + one])
        while entry < end:
            other, value = np.uintp(indices[entry]), weight[entry]
            if other >= n_nodes:
                return
            t0 += value * (x0 - block[other, 0])
            t1 += value * (x1 - block[other, 1])
            t2 += value * (x2 - block[other, 2])
            t3 += value * (x3 - block[other, 3])
            entry += one
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
    of `laplacian_rows`; more are summed directly, 1.4 times as fast in float32.
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
def class_mean_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    inverse: Any,
    classes: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """`mean_rows` of the indicators of classes: reads a byte of each neighbor instead of a row."""
    for row in range(start, stop):
        for column in range(out.shape[1]):
            out[row, column] = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            out[row, classes[np.uintp(indices[entry])]] += weight[entry]
        for column in range(out.shape[1]):
            out[row, column] *= inverse[row]
        if indptr[row] == indptr[row + 1]:
            out[row, classes[row]] = 1.0


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
    if n_columns == 1:
        for row in range(start, stop):
            one = diagonal[row] * block[row, 0]
            for entry in range(indptr[row], indptr[row + 1]):
                one -= weight[entry] * block[np.uintp(indices[entry]), 0]
            out[row, 0] = one
        return
    if n_columns == 8:
        _eight_columns(indptr, indices, weight, diagonal, block, out, start, stop)
        return
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
def _eight_columns(
    indptr: Any,
    indices: Any,
    weight: Any,
    diagonal: Any,
    block: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """`diagonal_rows` of eight columns, whose sums stay in registers: 1.4 to 1.7 times as fast."""
    n_nodes, one = np.uintp(block.shape[0]), np.uintp(1)
    for row in range(np.uintp(start), np.uintp(stop)):
        own = diagonal[row]
        t0, t1 = own * block[row, 0], own * block[row, 1]
        t2, t3 = own * block[row, 2], own * block[row, 3]
        t4, t5 = own * block[row, 4], own * block[row, 5]
        t6, t7 = own * block[row, 6], own * block[row, 7]
        entry, end = np.uintp(indptr[row]), np.uintp(indptr[row + one])
        while entry < end:
            other, value = np.uintp(indices[entry]), weight[entry]
            if other >= n_nodes:
                return
            t0 -= value * block[other, 0]
            t1 -= value * block[other, 1]
            t2 -= value * block[other, 2]
            t3 -= value * block[other, 3]
            t4 -= value * block[other, 4]
            t5 -= value * block[other, 5]
            t6 -= value * block[other, 6]
            t7 -= value * block[other, 7]
            entry += one
        out[row, 0], out[row, 1], out[row, 2], out[row, 3] = t0, t1, t2, t3
        out[row, 4], out[row, 5], out[row, 6], out[row, 7] = t4, t5, t6, t7


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
    n_nodes, one = np.uintp(vector.size), np.uintp(1)
    for row in range(np.uintp(start), np.uintp(stop)):
        total = diagonal[row] * vector[row]
        entry, end = np.uintp(indptr[row]), np.uintp(indptr[row + one])
        while entry < end:
            other = np.uintp(indices[entry])
            if other >= n_nodes:
                return
            total -= weight[entry] * vector[other]
            entry += one
        out[row] = total


@njit(cache=True, nogil=True)
def column_dots(left: Any, right: Any) -> Any:
    """New (n_columns,) float64: the dot product of each column pair, summed in fixed chunks."""
    n_rows, n_columns = left.shape
    total = np.zeros(n_columns, np.float64)
    part = np.empty((_N_SUMS, n_columns), np.float64)
    for first in range(0, n_rows, CHUNK_ROWS):
        part[:] = 0.0
        _add_products(left, right, first, min(first + CHUNK_ROWS, n_rows), part)
        _add_sums(part, total)  # two levels of sums round less than one
    return total


@njit(cache=True, nogil=True)
def _add_products(left: Any, right: Any, first: int, last: int, part: Any) -> None:
    """Add left * right of row i to row i % `_N_SUMS` of ``part``: sums that need not wait."""
    n_rows, n_columns = left.shape
    if n_columns != 1:
        for row in range(first, last):
            for column in range(n_columns):
                product = np.float64(left[row, column]) * np.float64(right[row, column])
                part[row % _N_SUMS, column] += product
        return
    one, other = left.reshape(n_rows), right.reshape(n_rows)
    s0, s1, s2, s3 = part[0, 0], part[1, 0], part[2, 0], part[3, 0]
    whole = last - last % _N_SUMS
    for row in range(np.uintp(first), np.uintp(whole), np.uintp(_N_SUMS)):
        s0 += np.float64(one[row]) * np.float64(other[row])
        s1 += np.float64(one[row + _1]) * np.float64(other[row + _1])
        s2 += np.float64(one[row + _2]) * np.float64(other[row + _2])
        s3 += np.float64(one[row + _3]) * np.float64(other[row + _3])
    part[0, 0], part[1, 0], part[2, 0], part[3, 0] = s0, s1, s2, s3
    for rest in range(whole, last):
        part[rest % _N_SUMS, 0] += np.float64(one[rest]) * np.float64(other[rest])


@njit(cache=True, nogil=True)
def _add_weighted_squares(weight: Any, block: Any, first: int, last: int, part: Any) -> None:
    """Add weight * block^2 of row i to row i % `_N_SUMS` of ``part``."""
    n_rows, n_columns = block.shape
    if n_columns != 1:
        for row in range(first, last):
            own = np.float64(weight[row])
            for column in range(n_columns):
                value = np.float64(block[row, column])
                part[row % _N_SUMS, column] += own * value * value
        return
    one = block.reshape(n_rows)
    s0, s1, s2, s3 = part[0, 0], part[1, 0], part[2, 0], part[3, 0]
    whole = last - last % _N_SUMS
    for row in range(np.uintp(first), np.uintp(whole), np.uintp(_N_SUMS)):
        x0, x1 = np.float64(one[row]), np.float64(one[row + _1])
        x2, x3 = np.float64(one[row + _2]), np.float64(one[row + _3])
        s0 += np.float64(weight[row]) * x0 * x0
        s1 += np.float64(weight[row + _1]) * x1 * x1
        s2 += np.float64(weight[row + _2]) * x2 * x2
        s3 += np.float64(weight[row + _3]) * x3 * x3
    part[0, 0], part[1, 0], part[2, 0], part[3, 0] = s0, s1, s2, s3
    for rest in range(whole, last):
        value = np.float64(one[rest])
        part[rest % _N_SUMS, 0] += np.float64(weight[rest]) * value * value


@njit(cache=True, nogil=True)
def _add_sums(part: Any, total: Any) -> None:
    """Add to ``total`` the sums of every column."""
    for column in range(total.size):
        total[column] += (part[0, column] + part[1, column]) + (part[2, column] + part[3, column])


@njit(cache=True, nogil=True)
def _step(vector: Any, change: Any, length: Any, first: int, last: int) -> None:
    """Add length * change to some rows of a vector, in place."""
    for row in range(np.uintp(first), np.uintp(last)):
        vector[row] += length * change[row]


@njit(cache=True, nogil=True)
def advance(solution: Any, residual: Any, direction: Any, product: Any, length: Any) -> Any:
    """Step in place: solution += length * direction, residual -= length * product.

    Returns a new (n_columns,) float64 array of the squared norms of the new residual.
    """
    n_rows, n_columns = solution.shape
    total = np.zeros(n_columns, np.float64)
    part = np.empty((_N_SUMS, n_columns), np.float64)
    for first in range(0, n_rows, CHUNK_ROWS):
        last = min(first + CHUNK_ROWS, n_rows)
        part[:] = 0.0
        # Saad, Algorithm 9.1, lines 4 and 5, and with length 1 those of 12.1
        if n_columns == 1:
            _step(solution.reshape(n_rows), direction.reshape(n_rows), length[0], first, last)
            _step(residual.reshape(n_rows), product.reshape(n_rows), -length[0], first, last)
            _add_products(residual, residual, first, last, part)
        else:
            for row in range(first, last):
                for column in range(n_columns):
                    solution[row, column] += length[column] * direction[row, column]
                    left = residual[row, column] - length[column] * product[row, column]
                    residual[row, column] = left
                    part[row % _N_SUMS, column] += np.float64(left) * np.float64(left)
        _add_sums(part, total)
    return total


@njit(cache=True, nogil=True)
def redirect(direction: Any, preconditioned: Any, factor: Any, gain: Any) -> None:
    """New search direction in place: direction = gain * preconditioned + factor * direction."""
    n_rows, n_columns = direction.shape
    if n_columns == 1:
        one, other = direction.reshape(n_rows), preconditioned.reshape(n_rows)
        for place in range(n_rows):
            one[place] = gain[0] * other[place] + factor[0] * one[place]
        return
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
def squares_by_rows(residual: Any, inverse: Any) -> Any:
    """New (n_columns,) float64: squared norms with squares counted ``inverse`` times, by row."""
    n_rows, n_columns = residual.shape
    total = np.zeros(n_columns, np.float64)
    part = np.empty((_N_SUMS, n_columns), np.float64)
    for first in range(0, n_rows, CHUNK_ROWS):
        part[:] = 0.0
        _add_weighted_squares(inverse, residual, first, min(first + CHUNK_ROWS, n_rows), part)
        _add_sums(part, total)
    return total


@njit(cache=True, nogil=True)
def redirect_by_rows(direction: Any, residual: Any, inverse: Any, factor: Any) -> None:
    """`redirect` for a diagonal preconditioner: inverse * residual + factor * direction."""
    n_rows, n_columns = direction.shape
    if n_columns == 1:
        one, other, keep = direction.reshape(n_rows), residual.reshape(n_rows), factor[0]
        for place in range(n_rows):
            one[place] = inverse[place] * other[place] + keep * one[place]
        return
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
    if n_columns == 1:
        one, filled = block.reshape(block.size), out.reshape(out.size)
        for place in range(np.uintp(start), np.uintp(stop)):
            filled[place] = factor[place] * one[place]
        return
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
