"""Cells of a map: places of the unit square along a curve that keeps squares together.

A place is a Morton code: the bits of column and row by turns, 24 each, so that the codes that begin
with the same 2 z bits are one of 4^z equal squares, and in sorted order a square is a slice.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit

BITS = 24
"""Of a column or a row."""

_SIDE = float(1 << BITS)
_SPREAD = (
    (np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(4), np.uint64(0x0F0F0F0F0F0F0F0F)),
    (np.uint64(2), np.uint64(0x3333333333333333)),
    (np.uint64(1), np.uint64(0x5555555555555555)),
)
_ONE, _LAST = np.uint64(1), np.uint64((1 << BITS) - 1)


@njit(cache=True, nogil=True, inline="always")
def spread(value: Any) -> Any:
    """A word of 24 bits with a 0 between any two of them."""
    for shift, mask in _SPREAD:
        value = (value | (value << shift)) & mask
    return value


@njit(cache=True, nogil=True, inline="always")
def gather(value: Any) -> Any:
    """Every other bit of a word, the inverse of `spread`."""
    value = value & np.uint64(0x5555555555555555)
    value = (value | (value >> np.uint64(1))) & np.uint64(0x3333333333333333)
    value = (value | (value >> np.uint64(2))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    value = (value | (value >> np.uint64(4))) & np.uint64(0x00FF00FF00FF00FF)
    value = (value | (value >> np.uint64(8))) & np.uint64(0x0000FFFF0000FFFF)
    return (value | (value >> np.uint64(16))) & np.uint64(0x00000000FFFFFFFF)


@njit(cache=True, nogil=True)
def codes_of(points: Any, code: Any) -> None:
    """Fill ``code``, (n,) uint64, with the codes of ``points``, (n, 2) float32 in [0, 1)."""
    for row in range(points.shape[0]):
        column = min(np.uint64(np.float64(points[row, 0]) * _SIDE), _LAST)
        line = min(np.uint64(np.float64(points[row, 1]) * _SIDE), _LAST)
        code[row] = spread(column) | (spread(line) << _ONE)


@njit(cache=True, nogil=True)
def places_of(code: Any, column: Any, line: Any) -> None:
    """Fill ``column`` and ``line``, (n,) uint32, with those of codes: the inverse of `codes_of`."""
    for row in range(code.size):
        column[row] = np.uint32(gather(code[row]))
        line[row] = np.uint32(gather(code[row] >> _ONE))


@njit(cache=True, nogil=True)
def count_cells(
    code: Any,
    color: Any,
    doubt: Any,
    least_doubt: int,
    shift: Any,
    tally: Any,
    count: Any,
    winner: Any,
    share: Any,
    mean_doubt: Any,
) -> int:
    """Fill the cells of a tile with what its nodes are; the number of nodes counted.

    Parameters
    ----------
    code : (n,) uint64
        Sorted, of the nodes of the tile.
    color : (n,) int16
        Place of the predicted class, -1 without one; -2 of nodes that are not to be seen.
    doubt : (n,) uint8
    least_doubt : int
        Nodes of less are left out.
    shift : uint64
        Bits of a code below those of its cell.
    tally : (n_colors + 1,) int64
        Zeros, and left so; its last is for nodes without a class.
    count : (n_cells,) uint32, row by row
    winner : (n_cells,) int16
        The most frequent color.
    share, mean_doubt : (n_cells,) uint8
        The winner's part of the nodes, and their doubt, as parts of 255.
    """
    n_colors = tally.size - 1
    n_counted = 0
    side = 1
    while side * side < count.size:
        side *= 2
    mask = np.uint64(count.size - 1)
    first = 0
    while first < code.size:
        cell = code[first] >> shift
        last = first
        n_here, sum_of_doubts = 0, 0
        while last < code.size and code[last] >> shift == cell:
            own = color[last]
            if own > -2 and doubt[last] >= least_doubt:
                tally[n_colors if own < 0 else own] += 1
                n_here += 1
                sum_of_doubts += doubt[last]
            last += 1
        if n_here:
            inner = cell & mask
            place = np.int64(gather(inner >> _ONE)) * side + np.int64(gather(inner))
            best = 0
            for each in range(n_colors + 1):
                if tally[each] > tally[best]:
                    best = each
            count[place] = n_here
            winner[place] = -1 if best == n_colors else best
            share[place] = (255 * tally[best]) // n_here
            mean_doubt[place] = sum_of_doubts // n_here
            n_counted += n_here
            for each in range(n_colors + 1):
                tally[each] = 0
        first = last
    return n_counted


@njit(cache=True, nogil=True)
def most_doubtful(color: Any, doubt: Any, least_doubt: int, chosen: Any) -> int:
    """Fill ``chosen``, (k,) int64, with places of the greatest doubts in order; how many are there.

    Nodes that are not to be seen or have no class, and those of less doubt, are passed over. Among
    equal doubts the first places win.
    """
    n_of = np.zeros(256, np.int64)
    for row in range(doubt.size):
        if color[row] >= 0 and doubt[row] >= least_doubt:
            n_of[doubt[row]] += 1
    above, bound = 0, 255
    while bound > 0 and above + n_of[bound] < chosen.size:
        above += n_of[bound]
        bound -= 1
    n_equal, n_chosen = chosen.size - above, 0
    for row in range(doubt.size):
        if color[row] < 0 or doubt[row] < max(bound, least_doubt) or n_chosen == chosen.size:
            continue
        if doubt[row] == bound:
            if n_equal == 0:
                continue
            n_equal -= 1
        chosen[n_chosen] = row
        n_chosen += 1
    return n_chosen
