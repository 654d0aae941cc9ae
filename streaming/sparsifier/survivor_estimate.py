"""Survivor estimate: what a resparsification keeps at least, from degrees and without a solve.

A resistance counts by its degree part ``1/d_u + 1/d_v`` times `local_factor`, and by the rest (see
`sample_size`), which takes an embedding and only keeps more. So a buffer of which degrees alone
keep most is not worth an embedding (B20). Degrees would not do as scores: where few edges hold the
graph together, the rest is what counts.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, UInt64Array
from peewit.streaming.kernels.coins import add_degrees
from peewit.streaming.sparsifier.settings_and_state import Records

_SAMPLE_RECORDS: Final = 1 << 18
_MOST_BITS: Final = 8
_HASH_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


def survivor_share(chunks: Sequence[Records], *, n_nodes: int, copies: float) -> float:
    """Share of the edges, parallel records as one, that degrees alone would keep (B20).

    An edge counts ``min(1, copies * w (1/d_u + 1/d_v))``. Beyond a few hundred thousand records a
    sample of node pairs, by their hash, is looked at. It is 1 where there is no edge.
    """
    degree = np.zeros(n_nodes)
    n_records = 0
    for chunk in chunks:
        add_degrees(*chunk.columns[:4], degree)
        n_records += chunk.n_records
    if n_records == 0:
        return 1.0
    n_bits = min(max(n_records // _SAMPLE_RECORDS, 1).bit_length() - 1, _MOST_BITS)
    pairs, conductances = [], []
    for chunk in chunks:
        pair = _pairs(chunk)
        chosen = _is_chosen(pair, n_bits)
        pairs.append(pair[chosen])
        conductances.append(
            chunk.weight[chosen].astype(np.float64) / chunk.keep_probability[chosen]
        )
    pair, place = np.unique(np.concatenate(pairs), return_inverse=True)
    merged = np.bincount(place, np.concatenate(conductances))
    first, second = degree[pair >> np.uint64(32)], degree[pair & np.uint64(0xFFFFFFFF)]
    return float(np.minimum(1.0, copies * merged * (1.0 / first + 1.0 / second)).mean())


def _pairs(chunk: Records) -> UInt64Array:
    """(n_records,) both ends as one number, the lower end in the upper half."""
    low = np.minimum(chunk.u, chunk.v).astype(np.uint64)
    return np.asarray(low << np.uint64(32) | np.maximum(chunk.u, chunk.v).astype(np.uint64))


def _is_chosen(pair: UInt64Array, n_bits: int) -> BoolArray:
    """Mask of one pair of 2^n_bits, the same for parallel records."""
    if n_bits == 0:
        return np.ones(pair.size, bool)
    hashed = (pair ^ pair >> np.uint64(29)) * _HASH_FACTOR
    return np.asarray(hashed >> np.uint64(64 - n_bits) == 0)
