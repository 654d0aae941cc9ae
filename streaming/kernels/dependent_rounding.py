"""Dependent rounding: coins that lean against what earlier coins have done to their nodes.

Every edge survives with its own probability, nearly. Where coins so far have left a node more than
its expectation, its next ones lean towards dropping, and the other way round. So the degree of a
node strays by about one edge, however many coins were thrown for it; independent coins let it stray
by the square root of their number (B18).

This is the self-balancing walk of Alweiss, Liu and Sawhney (arXiv:2006.14009) with the two ends of
an edge as its vector. The survival probability is ``p - p (1 - p) f`` with f linear in the surplus
of the two nodes; as the mean surplus is zero, so is the mean of f, and p is kept. Where f is so
large that a probability would leave [0, 1] it is cut, which could move a mean, as surpluses of
small probabilities are skew; none was seen to move (`docs/benchmarks/fairness`).

Surpluses outlive a round of coins: where nodes arrive one after another the rounds are many, and
errors that each round left would add up. The price is that a record leans a little on its own
earlier coins: over 31 such rounds the total weight came out 1.5 % low (.3 % by independent coins).
"""

from typing import Any

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, UInt32Array
from peewit.solvers.kernels.compilation import njit
from peewit.streaming.kernels.coins import coin, hash_counter, leaning, stream_key

_BATCH = 64
"""Records whose nodes are brought into the cache together, before the coins that need them."""


@njit(cache=True, nogil=True)
def throw_leaning_coins(
    u: Any,
    v: Any,
    weight: Any,
    keep_probability: Float32Array,
    lowered: Float32Array,
    record_key: UInt32Array,
    node: Float32Array,
    seed: np.uint64,
    stream: np.uint64,
) -> int:
    """Throw the coins of stored records in order: ``lowered`` becomes zero where one goes.

    A record survives with probability ``lowered / keep_probability``, leaning. Returns the number
    of survivors.

    Parameters
    ----------
    u, v : (n_records,) int32
        Ends.
    weight, keep_probability, lowered : (n_records,) float32
        The weight of a survivor is ``weight / lowered``.
    record_key : (n_records,) uint32
        Names a record for its coin.
    node : (n_nodes, 2) float32
        First the surplus of every node, what survived over what was expected, in shares; it is
        updated. Then the share of a node that a unit of weight is; none counts more than 1.
    """
    shares = np.empty((2, _BATCH), np.float32)
    ratio = np.empty(_BATCH, np.float32)
    coins = stream_key(seed, stream)
    n_survivors = 0
    for start in range(0, u.size, _BATCH):
        size = min(_BATCH, u.size - start)
        for offset in range(size):
            record = start + offset
            ratio[offset] = lowered[record] / keep_probability[record]
            first, second = node[np.uintp(u[record]), 1], node[np.uintp(v[record]), 1]
            _set_shares(weight[record], lowered[record], first, second, shares, offset)
        n_survivors += _throw_batch(
            u, v, lowered, record_key, node, coins, ratio, shares, start, size
        )
    return n_survivors


@njit(cache=True, nogil=True)
def lower_and_throw(
    u: Any,
    v: Any,
    weight: Any,
    keep_probability: Float32Array,
    on_forest: BoolArray,
    lowered: Float32Array,
    record_key: UInt32Array,
    node: Float32Array,
    seed: np.uint64,
    stream: np.uint64,
) -> int:
    """`throw_leaning_coins` where local resistances bound the whole: one pass instead of three.

    The new probability of a record is its weight times the shares that a unit of weight is at both
    of its nodes, at most what it had, and exactly that on the forest. Fills ``lowered``.
    """
    shares = np.empty((2, _BATCH), np.float32)
    ratio = np.empty(_BATCH, np.float32)
    coins = stream_key(seed, stream)
    n_survivors = 0
    for start in range(0, u.size, _BATCH):
        size = min(_BATCH, u.size - start)
        for offset in range(size):
            record = start + offset
            first, second = node[np.uintp(u[record]), 1], node[np.uintp(v[record]), 1]
            before = keep_probability[record]
            expected = weight[record] * (first + second)  # (B17): c a R, copies to expect
            # (B14), and no coin on the forest
            probability = before if on_forest[record] else min(before, expected)
            lowered[record] = probability
            ratio[offset] = probability / before
            _set_shares(weight[record], probability, first, second, shares, offset)
        n_survivors += _throw_batch(
            u, v, lowered, record_key, node, coins, ratio, shares, start, size
        )
    return n_survivors


@njit(cache=True, nogil=True, inline="always")
def _set_shares(
    weight: Any, probability: Any, first: Any, second: Any, shares: Any, offset: int
) -> None:
    """Shares of a record in its two nodes, given what a unit of weight is there."""
    # a probability may be too small for float32: such a record goes and moves nothing
    scaled = weight / probability if probability > 0.0 else np.float32(0.0)  # (B14): a / p
    shares[0, offset] = min(scaled * first, np.float32(1.0))
    shares[1, offset] = min(scaled * second, np.float32(1.0))


@njit(cache=True, nogil=True)
def _throw_batch(
    u: Any,
    v: Any,
    lowered: Float32Array,
    record_key: UInt32Array,
    node: Float32Array,
    coins: Any,
    ratio: Float32Array,
    shares: Float32Array,
    start: int,
    size: int,
) -> int:
    """Throw the coins of the records ``start .. start + size - 1``; returns the survivors."""
    one = np.float32(1.0)
    n_survivors = 0
    for offset in range(size):
        record = start + offset
        if ratio[offset] >= one:  # no coin
            n_survivors += 1
            continue
        if ratio[offset] <= 0.0:
            lowered[record] = 0.0
            continue
        i, j = np.uintp(u[record]), np.uintp(v[record])
        near, far = shares[0, offset], shares[1, offset]
        chance = leaning(ratio[offset], near, far, node[i, 0], node[j, 0])  # (B18)
        survives = coin(hash_counter(coins, np.uint64(record_key[record]))) < chance
        # over what was to be expected, not over `chance`: else nothing would be made good
        surplus = np.float32(survives) - ratio[offset]
        node[i, 0] += near * surplus
        node[j, 0] += far * surplus
        if survives:
            n_survivors += 1
        else:
            lowered[record] = 0.0
    return n_survivors
