"""Survivor estimate: what a resparsification keeps at least, from degrees and without a solve.

A resistance counts by its degree part ``1/d_u + 1/d_v`` times `local_factor`, and by the rest (see
`sample_size`), which takes an embedding and only keeps more. So a buffer of which degrees alone
keep most is not worth an embedding (B20). Degrees would not do as scores: where few edges hold the
graph together, the rest is what counts.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from peewit.solvers.arrays import Int64Array, UInt64Array
from peewit.streaming.kernels.coins import add_degrees
from peewit.streaming.kernels.pair_set import sample_pairs
from peewit.streaming.sparsifier.settings_and_state import Records

_SAMPLE_RECORDS: Final = 1 << 18
_MOST_BITS: Final = 8
_ROWS_AT_ONCE: Final = 1 << 18
_LARGEST_HASH: Final = np.uint64(2**64 - 1)


def survivor_share(chunks: Sequence[Records], *, n_nodes: int, copies: float) -> float:
    """Share of the edges, parallel records as one, that degrees alone would keep (B20).

    An edge counts ``min(1, copies * w (1/d_u + 1/d_v))``. Beyond a few hundred thousand records a
    sample of node pairs, by their hash, is looked at. It is 1 where there is no edge.
    """
    degree = np.zeros(n_nodes)
    for chunk in chunks:
        add_degrees(*chunk.columns[:4], degree)
    n_bits = _n_bits(chunks)
    pairs, conductances = [], []
    for chunk, pair, row in _sampled(chunks, n_bits):
        pairs.append(pair)
        conductances.append(chunk.weight[row].astype(np.float64) / chunk.keep_probability[row])
    if not pairs:
        return 1.0
    pair, place = np.unique(np.concatenate(pairs), return_inverse=True)
    merged = np.bincount(place, np.concatenate(conductances))
    first, second = degree[pair >> np.uint64(32)], degree[pair & np.uint64(0xFFFFFFFF)]
    return float(np.minimum(1.0, copies * merged * (1.0 / first + 1.0 / second)).mean())


def estimated_pairs(chunks: Sequence[Records]) -> float:
    """Estimate of the number of node pairs that records join, by the same sample."""
    n_bits = _n_bits(chunks)
    pairs = [pair for _, pair, _ in _sampled(chunks, n_bits)]
    return float(np.unique(np.concatenate(pairs)).size << n_bits) if pairs else 0.0


def _n_bits(chunks: Sequence[Records]) -> int:
    """One pair of 2^n_bits is looked at."""
    n_records = sum(chunk.n_records for chunk in chunks)
    return min(max(n_records // _SAMPLE_RECORDS, 1).bit_length() - 1, _MOST_BITS)


def _sampled(
    chunks: Sequence[Records], n_bits: int
) -> Iterator[tuple[Records, UInt64Array, Int64Array]]:
    """Some records at a time: they, pairs of the sample, and the row of each."""
    pair: UInt64Array = np.empty(_ROWS_AT_ONCE, np.uint64)
    row: Int64Array = np.empty(_ROWS_AT_ONCE, np.int64)
    last = _LARGEST_HASH >> np.uint64(n_bits)
    for chunk in chunks:
        for start in range(0, chunk.n_records, _ROWS_AT_ONCE):
            some = chunk.part(start, start + _ROWS_AT_ONCE)
            with np.errstate(over="ignore"):  # uncompiled kernels: numpy warns where integers wrap
                n_chosen = sample_pairs(some.u, some.v, last, pair, row)
            yield some, pair[:n_chosen].copy(), row[:n_chosen]
