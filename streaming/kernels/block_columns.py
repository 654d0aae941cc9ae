"""Passes over the columns of a block: check and count at once, narrow, drop self-loops.

Ids and weights are read as unsigned integers. There a negative id is larger than any allowed one,
and ``bits - 1`` of a float32 is at most ``GREATEST_WEIGHT`` just where the float is finite and > 0,
so that one running maximum per column tells whether all of it is good. Unsigned arithmetic wraps;
without compilation numpy warns of it, see ``edges.columns``.
"""

import numpy as np

from peewit.solvers.arrays import AnyArray, Float32Array, Int32Array
from peewit.solvers.kernels.compilation import njit

GREATEST_WEIGHT = 0x7F7FFFFE
"""``bits - 1`` of the greatest finite float32."""

_ONE = np.uint32(1)
_CHUNK = 1024  # rows that are looked at together


@njit(cache=True, nogil=True)
def survey_edges(u: AnyArray, v: AnyArray, weight: AnyArray) -> tuple[np.uint32, np.uint32, int]:
    """Greatest id, greatest ``bits - 1`` of a weight, and number of self-loops of some edges.

    Parameters
    ----------
    u, v : (n_rows,) uint32
        Bits of int32 ids.
    weight : (n_rows,) uint32
        Bits of float32 weights.

    Returns
    -------
    greatest_id, greatest_weight : uint32, n_self_loops : int
        The first at least 2^31 if an id is negative; the second above ``GREATEST_WEIGHT`` if a
        weight is not finite and > 0. Zeros without rows.
    """
    greatest_id = np.uint32(0)
    greatest_weight = np.uint32(0)
    n_self_loops = 0
    for row in range(len(u)):
        greatest_id = max(greatest_id, u[row], v[row])
        # a weight of 0 wraps to the greatest number there is
        greatest_weight = max(greatest_weight, np.uint32(weight[row] - _ONE))
        n_self_loops += u[row] == v[row]
    return greatest_id, greatest_weight, n_self_loops


@njit(cache=True, nogil=True)
def narrow_ids(values: AnyArray, narrow: Int32Array) -> np.uint64:
    """Fill ``narrow`` with the lower halves of ``values``; return the greatest value.

    Parameters
    ----------
    values : (n_rows,) uint64
        Bits of 64-bit ids.
    narrow : (n_rows,) int32, filled
        The ids, where the greatest one is below 2^31.

    Returns
    -------
    uint64
        At least 2^63 if an id is negative; 0 without rows.
    """
    greatest = np.uint64(0)
    for row in range(len(values)):
        greatest = max(greatest, values[row])
        narrow[row] = np.int32(values[row] & np.uint64(0x7FFFFFFF))
    return greatest


@njit(cache=True, nogil=True)
def fill_self_loops(
    u: Int32Array, v: Int32Array, weight: Float32Array | None, n_self_loops: int
) -> None:
    """Replace the ``n_self_loops`` rows with ``u == v`` by the last edges, in place.

    Most rows are only read. Closing the gaps instead would write all rows after the first one: ten
    times the time for a few self-loops in a million rows.

    Parameters
    ----------
    u, v : (n_rows,) int32, changed
        The first ``n_rows - n_self_loops`` rows are edges afterwards.
    weight : (n_rows,) float32, changed, or None
        None where all weights are equal.
    """
    n_kept = len(u) - n_self_loops
    last = len(u)
    for start in range(0, n_kept, _CHUNK):
        stop = min(start + _CHUNK, n_kept)
        n_here = 0
        for row in range(start, stop):  # no branch: several rows at once
            n_here += u[row] == v[row]
        if n_here == 0:
            continue
        for row in range(start, stop):
            if u[row] == v[row]:
                last -= 1  # a self-loop among the last is no replacement
                while u[last] == v[last]:
                    last -= 1
                u[row] = u[last]
                v[row] = v[last]
                if weight is not None:
                    weight[row] = weight[last]
