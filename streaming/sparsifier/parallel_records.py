"""Parallel records as one: exact, and a stream of the same pairs stays within its budget."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from peewit.solvers.arrays import Int32Array, UInt32Array
from peewit.solvers.edge_merging import MergedEdges, merged_ranges
from peewit.streaming.sparsifier.settings_and_state import Records

_GOLDEN: Final = 0x9E3779B97F4A7C15
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_LARGEST: Final = float(np.finfo(np.float32).max)


def merged_records(
    chunks: Sequence[Records], *, n_nodes: int, last_block: int
) -> tuple[Records, ...]:
    """Records of which every pair of nodes has one, its weight the sum.

    No coin may have been thrown for them; they stay as they are where a float32 does not hold a
    sum. No other share may have ``last_block``, so that a pair in two shares has two keys.
    """
    merged = []
    for edges in merged_ranges(chunks, n_nodes=n_nodes):
        if edges.weight.max(initial=0.0) > _LARGEST:
            return tuple(chunks)
        if edges.v.size:
            merged.append(_records_of(edges, last_block))
    return tuple(merged)


def n_merged(chunks: Sequence[Records], *, n_nodes: int) -> int:
    """Number of pairs of nodes that records join."""
    return sum(merged.v.size for merged in merged_ranges(chunks, n_nodes=n_nodes))


def _records_of(merged: MergedEdges, last_block: int) -> Records:
    u, v = merged.u.astype(np.int32), merged.v.astype(np.int32)
    return Records(
        u=u,
        v=v,
        weight=merged.weight.astype(np.float32),
        keep_probability=np.ones(v.size, np.float32),
        key=_keys(u, v, last_block),
    )


def _keys(u: Int32Array, v: Int32Array, last_block: int) -> UInt32Array:
    """Keys that draw coins and probe signs: `mix64` in numpy, of pair and block number."""
    hashed = u.astype(np.uint64)
    hashed <<= np.uint64(32)
    hashed |= v.astype(np.uint64)
    hashed ^= np.uint64((last_block + 1) * _GOLDEN % 2**64)
    hashed ^= hashed >> np.uint64(30)
    hashed *= _FIRST
    hashed ^= hashed >> np.uint64(27)
    hashed *= _SECOND
    hashed ^= hashed >> np.uint64(31)
    return np.asarray(hashed >> np.uint64(32), np.uint32)
