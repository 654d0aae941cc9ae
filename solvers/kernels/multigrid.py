"""Aggregation multigrid: pairing nodes, contracting graphs, and the sweeps of a cycle.

Graphs are CSR rows of symmetric matrices with an empty diagonal. In a cycle the nodes of every
level are numbered so that those of one aggregate follow each other.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.laplacian_products import laplacian_rows

_ROWS_IN_CACHE = 256


@njit(cache=True, nogil=True)
def pair_up(indptr: Any, indices: Any, weight: Any, aggregate: Any) -> int:
    """Fill ``aggregate`` with the number of every node's aggregate, -1 for nodes without edges.

    Nodes in turn take the free neighbor with the heaviest edge; nodes without a free neighbor join
    the aggregate of their heaviest one. Returns the number of aggregates, at most half of the
    nodes.
    """
    n_nodes = aggregate.size
    aggregate[:] = -1
    n_aggregates = 0
    for node in range(n_nodes):
        if aggregate[node] >= 0:
            continue
        heaviest, partner = 0.0, -1
        for entry in range(np.uintp(indptr[node]), np.uintp(indptr[node + 1])):
            other = indices[entry]
            if aggregate[np.uintp(other)] < 0 and weight[entry] > heaviest:
                heaviest, partner = weight[entry], other
        if partner >= 0:
            aggregate[node] = aggregate[partner] = n_aggregates
            n_aggregates += 1
    # the rest have no free neighbor: they make aggregates of three and more
    for node in range(n_nodes):
        if aggregate[node] < 0:
            heaviest, partner = 0.0, -1
            for entry in range(indptr[node], indptr[node + 1]):
                other = indices[entry]
                if weight[entry] > heaviest:
                    heaviest, partner = weight[entry], other
            if partner >= 0:
                aggregate[node] = aggregate[partner]
    return n_aggregates


@njit(cache=True, nogil=True)
def contract(
    indptr: Any,
    indices: Any,
    weight: Any,
    aggregate: Any,
    members: Any,
    first_member: Any,
    coarse_indptr: Any,
    coarse_indices: Any,
    coarse_weight: Any,
) -> int:
    """Fill the coarse CSR arrays with summed weights between aggregates; returns the entries.

    ``members`` lists the nodes of aggregate c at ``first_member[c] .. first_member[c + 1] - 1``.
    Rows are not sorted. The coarse arrays need as much room as the fine ones.
    """
    n_aggregates = first_member.size - 1
    place = np.full(n_aggregates, -1, np.int64)
    filled = 0
    coarse_indptr[0] = 0
    for own in range(n_aggregates):
        row_start = filled
        for member in range(first_member[own], first_member[own + 1]):
            node = members[member]
            for entry in range(np.uintp(indptr[node]), np.uintp(indptr[node + 1])):
                other = np.uintp(aggregate[np.uintp(indices[entry])])
                if other == np.uintp(own):
                    continue
                if place[other] < row_start:  # of an earlier row: `place` needs no clearing
                    place[other] = filled
                    coarse_indices[np.uintp(filled)] = other
                    coarse_weight[np.uintp(filled)] = weight[entry]
                    filled += 1
                else:
                    coarse_weight[np.uintp(place[other])] += weight[entry]
        coarse_indptr[own + 1] = filled
    return filled


@njit(cache=True, nogil=True)
def renumber_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    order: Any,
    rank: Any,
    new_indptr: Any,
    new_indices: Any,
    new_weight: Any,
) -> None:
    """Fill the new CSR arrays with sorted rows: new node i was node ``order[i]``.

    ``rank`` is the inverse of ``order``.
    """
    n_nodes = order.size
    new_indptr[0] = 0
    for node in range(n_nodes):
        old = order[node]
        new_indptr[node + 1] = new_indptr[node] + indptr[old + 1] - indptr[old]
    cursor = new_indptr[:-1].copy()
    for node in range(n_nodes):  # a symmetric matrix: its columns in order give sorted rows
        old = order[node]
        for entry in range(np.uintp(indptr[old]), np.uintp(indptr[old + 1])):
            row = np.uintp(rank[np.uintp(indices[entry])])
            place = np.uintp(cursor[row])
            new_indices[place] = node
            new_weight[place] = weight[entry]
            cursor[row] += 1


@njit(cache=True, nogil=True)
def largest_entry(block: Any) -> Any:
    """The largest |block_ij|, without nan; 0 if there is none."""
    largest = np.float64(0.0)
    for row in range(block.shape[0]):
        for column in range(block.shape[1]):
            largest = max(largest, abs(block[row, column]))
    return largest


@njit(cache=True, nogil=True)
def resize_rows(block: Any, times: Any, over: Any, out: Any) -> None:
    """Fill ``out``, of any floating type, with block * times / over."""
    for row in range(block.shape[0]):
        for column in range(block.shape[1]):
            out[row, column] = np.float64(block[row, column]) * times / over


@njit(cache=True, nogil=True)
def residual_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    shift: Any,
    block: Any,
    rhs: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Fill ``out[start:stop]`` with rhs - (L + diag(shift)) block."""
    n_columns = block.shape[1]
    for first in range(start, stop, _ROWS_IN_CACHE):
        last = min(first + _ROWS_IN_CACHE, stop)
        laplacian_rows(indptr, indices, weight, shift, block, out, first, last)
        # a few rows at a time: the products are still in the cache
        for row in range(first, last):
            for column in range(n_columns):
                out[row, column] = rhs[row, column] - out[row, column]


@njit(cache=True, nogil=True)
def relax_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    shift: Any,
    factor: Any,
    block: Any,
    rhs: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Fill ``out[start:stop]`` with block + factor (rhs - (L + diag(shift)) block)."""
    n_columns = block.shape[1]
    for first in range(start, stop, _ROWS_IN_CACHE):
        last = min(first + _ROWS_IN_CACHE, stop)
        laplacian_rows(indptr, indices, weight, shift, block, out, first, last)
        for row in range(first, last):
            for column in range(n_columns):
                # damped Jacobi: x + omega D^-1 (b - (L + S) x), factor = omega D^-1
                missing = rhs[row, column] - out[row, column]
                out[row, column] = block[row, column] + factor[row] * missing


@njit(cache=True, nogil=True)
def restrict_rows(block: Any, first_child: Any, out: Any, start: int, stop: int) -> None:
    """Fill ``out[start:stop]`` with sums over children, which follow each other."""
    n_columns = block.shape[1]
    for row in range(start, stop):
        for column in range(n_columns):
            out[row, column] = 0.0
        for child in range(first_child[row], first_child[row + 1]):
            for column in range(n_columns):
                out[row, column] += block[child, column]


@njit(cache=True, nogil=True)
def prolong_rows(
    coarse: Any, first_child: Any, gain: Any, block: Any, start: int, stop: int
) -> None:
    """Add gain * coarse_i to the children of the rows ``start .. stop - 1``, in place."""
    n_columns = block.shape[1]
    for row in range(start, stop):
        for child in range(first_child[row], first_child[row + 1]):
            for column in range(n_columns):
                block[child, column] += gain * coarse[row, column]


@njit(cache=True, nogil=True)
def dense_rows(matrix: Any, block: Any, out: Any, start: int, stop: int) -> None:
    """Fill ``out[start:stop]`` with matrix @ block, every sum in the order of the columns."""
    n_columns = block.shape[1]
    for row in range(start, stop):
        for column in range(n_columns):
            out[row, column] = 0.0
        for inner in range(matrix.shape[1]):
            value = matrix[row, inner]
            for column in range(n_columns):
                out[row, column] += value * block[inner, column]
