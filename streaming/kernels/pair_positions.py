"""Maps from pairs of nodes to the last position that deletes them, and the edges that die by it."""

from typing import Any

import numpy as np

from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int32Array,
    Int64Array,
    UInt8Array,
    UInt64Array,
)
from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.components import find_root
from peewit.solvers.kernels.hash_signs import mix64
from peewit.streaming.kernels.pair_set import pair_number

_EMPTY = np.uint64(0)  # the pair (0, 0), which is a self-loop
_ONE = np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def _slot(pairs: UInt64Array, pair: Any) -> Any:
    """Where a pair stands in an open-addressed table, or would."""
    last = np.uint64(pairs.size - 1)
    at = mix64(pair) & last
    while pairs[at] != _EMPTY and pairs[at] != pair:
        at = (at + _ONE) & last
    return at


@njit(cache=True, nogil=True)
def fill_pair_positions(
    u: Int32Array,
    v: Int32Array,
    position: int,
    pairs: UInt64Array,
    positions: Int64Array,
    is_touched: UInt8Array,
) -> int:
    """Note that pairs are deleted at ``position``, which is not below those noted before.

    ``pairs`` is an open-addressed table of zeros, at most half full, a power of two long;
    ``is_touched`` (n_nodes,) becomes 1 at the ends. Returns how many pairs are new in it.
    """
    n_new = 0
    for row in range(u.size):
        pair = pair_number(u[row], v[row])
        at = _slot(pairs, pair)
        n_new += pairs[at] == _EMPTY
        pairs[at] = pair
        positions[at] = position
        is_touched[u[row]] = 1
        is_touched[v[row]] = 1
    return n_new


@njit(cache=True, nogil=True)
def mark_dead(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    position: int,
    pairs: UInt64Array,
    positions: Int64Array,
    is_touched: UInt8Array,
    is_matched: UInt8Array,
    is_dead: BoolArray,
    killed: FloatArray,
) -> int:
    """Mark the edges at ``position`` that are deleted at a later one; returns how many die by it.

    What is dead stays so. ``killed`` (n_nodes,) grows by the weights that die at each node, and
    ``is_matched`` becomes 1 beside the pairs of the table that something died by.
    """
    n_killed = 0
    for row in range(u.size):
        near, far = np.uint32(u[row]), np.uint32(v[row])
        if is_dead[row] or not (is_touched[near] and is_touched[far]):
            continue
        pair = pair_number(near, far)
        at = _slot(pairs, pair)
        if pairs[at] == pair and positions[at] > position:
            is_dead[row] = True
            is_matched[at] = 1
            killed[near] += np.float64(weight[row])
            killed[far] += np.float64(weight[row])
            n_killed += 1
    return n_killed


@njit(cache=True, nogil=True)
def add_live_degrees(
    u: Int32Array, v: Int32Array, weight: Float32Array, is_dead: BoolArray, degree: FloatArray
) -> None:
    """Add the degrees of the edges that live to ``degree``."""
    for row in range(u.size):
        if not is_dead[row]:
            degree[u[row]] += np.float64(weight[row])
            degree[v[row]] += np.float64(weight[row])


@njit(cache=True, nogil=True)
def join_live_ends(u: Int32Array, v: Int32Array, is_dead: BoolArray, parent: Int32Array) -> None:
    """Join the ends of the edges that live in ``parent``.

    It is a union-find in which each root is the smallest node of its component.
    """
    for row in range(u.size):
        if is_dead[row]:
            continue
        near = find_root(parent, np.int64(u[row]))
        far = find_root(parent, np.int64(v[row]))
        if near != far:
            parent[max(near, far)] = min(near, far)
