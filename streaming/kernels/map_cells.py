"""Cells of a map: places of the unit square along a curve that keeps squares together.

A place is a Morton code: the bits of column and row by turns, 24 each, so that the codes that begin
with the same 2 z bits are one of 4^z equal squares, and in sorted order a square is a slice.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit

BITS = 24
"""Bits of a column or a row."""

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
    first_node: Any,
    color: Any,
    doubt: Any,
    least_doubt: int,
    part: Any,
    tally: Any,
    count: Any,
    winner: Any,
    share: Any,
    standout: Any,
    standout_share: Any,
) -> int:
    """Fill the cells of a tile with what its nodes are; returns the number of nodes counted.

    Parameters
    ----------
    first_node : (n_cells + 1,) int64
        Where the nodes of each cell begin, of cells along the curve, a power of 4 of them.
    color : (n,) int16
        Predicted class of each node of the tile, -1 without one; -2 of hidden nodes.
    doubt : (n,) uint8
        Nodes with less than ``least_doubt`` are left out.
    part : (n_colors + 2,) float64
        Part of each color in the whole map; the first is for hidden nodes, the next for those
        without a class.
    tally : (n_colors + 2,) int64
        Zeros, and left so.
    count : (n_cells,) uint32, row by row
    winner : (n_cells,) int16
        The most frequent color; -1 wins where it is as frequent.
    standout : (n_cells,) int16
        The color that exceeds its part of the map most: by (n - e) / sqrt(e) of n nodes where e
        were expected.
    share, standout_share : (n_cells,) uint8
        Of the nodes of the cell, as parts of 255.
    """
    n_counted, side = 0, 1
    while side * side < count.size:
        side *= 2
    for cell in range(count.size):
        first, last = first_node[cell], first_node[cell + 1]
        if first == last:
            continue
        for node in range(first, last):
            own = int(color[node])
            tally[own + 2 if own > -2 and doubt[node] >= least_doubt else 0] += 1
        n_here = last - first - tally[0]
        tally[0] = 0
        best = excess = 1
        most_excess = -np.inf
        for node in range(first, last):  # colors that are here, however many there are elsewhere
            number = int(color[node]) + 2
            n_own = tally[number]
            if n_own == 0:
                continue
            if n_own > tally[best] or (n_own == tally[best] and number < best):
                best = number
            expected = part[number] * n_here
            its_excess = (n_own - expected) / np.sqrt(expected)
            if its_excess > most_excess:
                most_excess, excess = its_excess, number
        if n_here > 0:
            word = np.uint64(cell)
            place = np.int64(gather(word >> _ONE)) * side + np.int64(gather(word))
            count[place] = n_here
            winner[place], share[place] = best - 2, (255 * tally[best]) // n_here
            standout[place], standout_share[place] = excess - 2, (255 * tally[excess]) // n_here
            n_counted += n_here
        for node in range(first, last):
            tally[int(color[node]) + 2] = 0
    return n_counted


@njit(cache=True, nogil=True)
def most_doubtful(color: Any, doubt: Any, least_doubt: int, chosen: Any) -> int:
    """Fill ``chosen``, (k,) int64, with places of the greatest doubts in order; returns how many.

    Hidden nodes, those without a class, and those below ``least_doubt`` are passed over. Among
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
