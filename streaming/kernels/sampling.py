"""Coins and scores of the sparsifier: who stays, with which probability.

Randomness is counter-based: a coin is a hash of (seed, stream, counter), so it depends on the
record alone and never on the order of work or on the number of threads.
"""

from typing import Any

import numba
import numpy as np

from solvers.arrays import BoolArray, Float32Array, FloatArray, Int32Array, UInt32Array
from solvers.kernels.edges import mix64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT_11, _SHIFT_32 = np.uint64(11), np.uint64(32)
_UNIT = 1.0 / (1 << 53)


@numba.njit(cache=True, nogil=True, inline="always")
def stream_key(seed: Any, stream: Any) -> Any:
    """Key of one stream of coins; streams of one seed are independent of each other."""
    return mix64(mix64(seed + _GOLDEN) ^ (stream * _GOLDEN))


@numba.njit(cache=True, nogil=True, inline="always")
def hash_counter(key: Any, counter: Any) -> Any:
    """Hash number ``counter`` of a stream."""
    return mix64(key + (counter + np.uint64(1)) * _GOLDEN)


@numba.njit(cache=True, nogil=True)
def sample_arrivals(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    vectors: Float32Array,
    component: Int32Array,
    degree: Float32Array,
    constant: float,
    seed: np.uint64,
    stream: np.uint64,
    kept_row: Int32Array,
    kept_probability: Float32Array,
    kept_key: UInt32Array,
) -> int:
    """Throw the coin of every arriving edge (ALGORITHMS B13, B14).

    The leverage of an arriving edge is ``wR / (1 + wR)``, R the resistance in the embedded graph:
    the larger of the embedding's noisy estimate and ``1/d_u + 1/d_v``, which shorting all other
    nodes gives. The edge stays with probability ``min(1, constant * leverage)``, and for certain
    unless both endpoints lay in one component of the embedded graph. Fills the three ``kept_*``
    arrays (each as long as ``u``) and returns how many entries of them are used. Row and key
    identify the record.
    """
    n_embedded = component.size
    n_probes = vectors.shape[1]
    key = stream_key(seed, stream)
    n_kept = 0
    for row in range(u.size):
        first, second = u[row], v[row]
        random_bits = hash_counter(key, np.uint64(row))
        probability = np.float32(1.0)
        if first < n_embedded and second < n_embedded and component[first] == component[second]:
            distance = np.float32(0.0)
            for probe in range(n_probes):
                difference = vectors[first, probe] - vectors[second, probe]
                distance += difference * difference
            shorted = 1.0 / float(degree[first]) + 1.0 / float(degree[second])
            strength = float(weight[row]) * max(float(distance), shorted)
            expected = constant * strength / (1.0 + strength)
            if expected < 1.0:
                probability = np.float32(expected)
        if probability < 1.0 and float(random_bits >> _SHIFT_11) * _UNIT >= probability:
            continue
        kept_row[n_kept] = row
        kept_probability[n_kept] = probability
        kept_key[n_kept] = np.uint32(mix64(random_bits) >> _SHIFT_32)
        n_kept += 1
    return n_kept


@numba.njit(cache=True, nogil=True)
def raise_resistances(
    u: Int32Array,
    v: Int32Array,
    conductance: FloatArray,
    degree: FloatArray,
    resistance: Float32Array,
) -> None:
    """Raise estimated resistances to what shorting all other nodes leaves between the ends (B5).

    Between u and v that is ``(d_u + d_v - 2w) / (d_u d_v - w^2)``, and 1/w where there is nothing
    else. No exact resistance lies below it, so only errors of the estimate are mended. Changes
    ``resistance``.
    """
    for record in range(u.size):
        own = conductance[record]
        rest_u = max(degree[u[record]] - own, 0.0)
        rest_v = max(degree[v[record]] - own, 0.0)
        around = rest_u * rest_v / (rest_u + rest_v) if rest_u + rest_v > 0.0 else 0.0
        shorted = np.float32(1.0 / (own + around))
        resistance[record] = max(resistance[record], shorted)


@numba.njit(cache=True, nogil=True)
def lower_probabilities(
    weight: Float32Array,
    keep_probability: Float32Array,
    resistance: Float32Array,
    on_forest: BoolArray,
    constant: float,
    lowered: Float32Array,
) -> float:
    """New keep-probabilities ``min(p, constant * weight * R)`` of stored records (B14).

    Records on the spanning forest keep the probability they have. Fills ``lowered`` and returns the
    expected number of survivors.
    """
    expected_survivors = 0.0
    for record in range(weight.size):
        probability = keep_probability[record]
        if not on_forest[record]:
            target = constant * float(weight[record]) * float(resistance[record])
            if target < probability:
                probability = np.float32(target)
        lowered[record] = probability
        expected_survivors += float(probability) / float(keep_probability[record])
    return expected_survivors


@numba.njit(cache=True, nogil=True)
def thin_records(
    keep_probability: Float32Array,
    lowered: Float32Array,
    record_key: UInt32Array,
    seed: np.uint64,
    stream: np.uint64,
    survives: BoolArray,
) -> int:
    """Throw the coin of every stored record.

    It survives with probability ``lowered / keep_probability``. Fills ``survives`` and returns the
    number of survivors.
    """
    key = stream_key(seed, stream)
    n_survivors = 0
    for record in range(lowered.size):
        stays = True
        if lowered[record] < keep_probability[record]:
            random_bits = hash_counter(key, np.uint64(record_key[record]))
            coin = float(random_bits >> _SHIFT_11) * _UNIT
            stays = coin * float(keep_probability[record]) < float(lowered[record])
        survives[record] = stays
        n_survivors += stays
    return n_survivors


@numba.njit(cache=True, nogil=True)
def degree_variance(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    keep_probability: Float32Array,
    degree: FloatArray,
    variance: FloatArray,
) -> None:
    """Weighted degree of every node and an unbiased estimate of the variance of that degree.

    A record of weight a kept with probability p counts a/p in the degree and a^2 (1-p) / p^2 in the
    variance. Adds to ``degree`` and ``variance``.
    """
    for record in range(u.size):
        probability = float(keep_probability[record])
        scaled = float(weight[record]) / probability
        spread = scaled * scaled * (1.0 - probability)
        degree[u[record]] += scaled
        degree[v[record]] += scaled
        variance[u[record]] += spread
        variance[v[record]] += spread
