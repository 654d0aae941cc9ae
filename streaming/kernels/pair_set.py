"""Sets of unordered pairs of nodes, and the records whose ends are such a pair."""

from typing import Any

import numpy as np

from peewit.solvers.arrays import (
    BoolArray,
    Int32Array,
    Int64Array,
    IntArray,
    UInt8Array,
    UInt64Array,
)
from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.components import find_root
from peewit.solvers.kernels.hash_signs import mix64

_HIGH = np.uint64(32)
_ONE = np.uint64(1)
_EMPTY = np.uint64(0)  # the pair (0, 0), which is a self-loop
_SCRAMBLER = np.uint64(0x9E3779B97F4A7C15)
_MIDDLE = np.uint64(29)


@njit(cache=True, nogil=True, inline="always")
def pair_number(u: Any, v: Any) -> Any:
    """One number for a pair, whichever end comes first."""
    return (np.uint64(min(u, v)) << _HIGH) | np.uint64(max(u, v))


def pair_numbers(u: IntArray, v: IntArray) -> Int64Array:
    """(n_pairs,) one number for each unordered pair, as `pair_number`."""
    wide = np.minimum(u, v).astype(np.int64) << 32
    return np.asarray(wide | np.maximum(u, v))


@njit(cache=True, nogil=True)
def sample_pairs(u: Int32Array, v: Int32Array, last: Any, pair: Any, row: Any) -> int:
    """Rows of pairs whose hash is at most ``last``, and their `pair_number`; returns how many.

    ``pair`` uint64 and ``row`` int64, as long as ``u``, are filled from the front. Parallel records
    are chosen together.
    """
    n_chosen = 0
    for place in range(u.size):
        number = pair_number(u[place], v[place])
        pair[n_chosen] = number
        row[n_chosen] = place
        n_chosen += (number ^ (number >> _MIDDLE)) * _SCRAMBLER <= last
    return n_chosen


@njit(cache=True, nogil=True)
def fill_pair_set(u: Int32Array, v: Int32Array, table: UInt64Array, is_touched: UInt8Array) -> int:
    """Add pairs to an open-addressed ``table`` of zeros, at most half full, a power of two long.

    Self-loops are left out. ``is_touched`` (n_nodes,) becomes 1 at the ends. Returns how many
    different pairs were added.
    """
    last = np.uint64(table.size - 1)
    n_pairs = 0
    for row in range(u.size):
        if u[row] == v[row]:
            continue
        pair = pair_number(u[row], v[row])
        at = mix64(pair) & last
        while table[at] != _EMPTY and table[at] != pair:
            at = (at + _ONE) & last
        n_pairs += table[at] == _EMPTY
        table[at] = pair
        is_touched[u[row]] = 1
        is_touched[v[row]] = 1
    return n_pairs


@njit(cache=True, nogil=True)
def mark_pairs(
    u: Int32Array, v: Int32Array, table: UInt64Array, is_touched: UInt8Array, is_marked: BoolArray
) -> int:
    """Mark the records whose pair is in ``table``; returns how many.

    Most records have an end that no pair touches: ``is_touched`` tells, and the table is not read.
    Nodes beyond it are touched by none.
    """
    last = np.uint64(table.size - 1)
    n_known = np.uint32(is_touched.size)
    n_marked = 0
    for row in range(u.size):
        near, far = np.uint32(u[row]), np.uint32(v[row])
        is_marked[row] = False
        if near >= n_known or far >= n_known or not (is_touched[near] and is_touched[far]):
            continue
        pair = pair_number(near, far)
        at = mix64(pair) & last
        while table[at] != _EMPTY and table[at] != pair:
            at = (at + _ONE) & last
        if table[at] == pair:
            is_marked[row] = True
            n_marked += 1
    return n_marked


@njit(cache=True, nogil=True)
def mark_joins(u: Int32Array, v: Int32Array, parent: Int32Array, is_join: BoolArray) -> None:
    """Mark the pairs that join two components of the union-find ``parent``, which is changed."""
    for row in range(u.size):
        near = find_root(parent, np.int64(u[row]))
        far = find_root(parent, np.int64(v[row]))
        is_join[row] = near != far
        if near != far:
            parent[max(near, far)] = min(near, far)
