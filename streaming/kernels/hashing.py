"""64-bit hashes of node ids, with a second fingerprint of strings.

Strings are hashed eight bytes at a time, in two independent lanes: one with the rounds of xxHash64,
one with multiply-xorshift. Integers are scrambled by a bijection, so equal hashes mean equal ids.
Unsigned arithmetic wraps; without compilation numpy warns of it, see ``nodes.hash_table``.
"""

import numpy as np

from peewit.solvers.arrays import AnyArray, Int64Array, UInt64Array
from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.hash_signs import mix64

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_LANE_1 = np.uint64(0xD6E8FEB86659FD93)
_LANE_2 = np.uint64(0xA0761D6478BD642F)
_HIGH_HALF = np.uint64(0xFFFFFFFF00000000)
_U1, _U2, _U3, _U4, _U8 = (np.uint64(value) for value in (1, 2, 3, 4, 8))
_B1, _B2, _B3 = (np.uint64(8 * value) for value in range(1, 4))
_S27, _S29, _S31, _S32, _S33, _S37 = (np.uint64(value) for value in (27, 29, 31, 32, 33, 37))


@njit(cache=True, nogil=True, inline="always")
def _half_word(data: AnyArray, at: np.uint64) -> np.uint64:
    """Four bytes, little-endian."""
    return (
        np.uint64(data[at])
        | (np.uint64(data[at + _U1]) << _B1)
        | (np.uint64(data[at + _U2]) << _B2)
        | (np.uint64(data[at + _U3]) << _B3)
    )


@njit(cache=True, nogil=True, inline="always")
def _word(data: AnyArray, at: np.uint64) -> np.uint64:
    """Eight bytes, little-endian; the compiler makes it one load."""
    return _half_word(data, at) | (_half_word(data, at + _U4) << _S32)


@njit(cache=True, nogil=True, inline="always")
def _last_word(data: AnyArray, first: np.uint64, length: np.uint64) -> np.uint64:
    """The last bytes of a string, at most eight; bytes may be seen twice, none is left out."""
    if length >= _U8:
        return _word(data, first + length - _U8)
    if length >= _U4:
        high = _half_word(data, first + length - _U4)
        return _half_word(data, first) | (high << _S32)
    if length >= _U1:
        middle = np.uint64(data[first + (length >> _U1)])
        last = np.uint64(data[first + length - _U1])
        return np.uint64(data[first]) | (middle << _B1) | (last << _B2)
    return np.uint64(0)


@njit(cache=True, nogil=True)
def hash_strings(
    offsets: Int64Array,
    data: AnyArray,
    seed: np.uint64,
    hashes: UInt64Array,
    fingerprints: UInt64Array,
    begin: int,
    step: int,
) -> None:
    """Fill in hash and fingerprint of every string ``data[offsets[i]:offsets[i + 1]]``.

    String ``i`` has the entry ``begin + i step``: src and dst interleave with step 2.

    Parameters
    ----------
    offsets : (n_strings + 1,) int64
        Ascending, within ``data``.
    data : (n_bytes,) uint8
        Bytes of all strings.
    seed : uint64
        Starts both lanes.
    hashes : (at least n_strings,) uint64, filled
        Hash of each string.
    fingerprints : like ``hashes``, filled
        Second hash in the upper 32 bits, zeros in the lower.
    """
    for row in range(len(offsets) - 1):
        first = np.uint64(offsets[row])
        length = np.uint64(offsets[row + 1]) - first
        lane_a = seed + length * _PRIME_1
        lane_b = (seed ^ _LANE_2) + length * _LANE_1
        at = first
        end = first + length
        while at + _U8 < end:
            word = _word(data, at)
            scrambled = word * _PRIME_2
            # a round of xxHash64
            lane_a ^= ((scrambled << _S31) | (scrambled >> _S33)) * _PRIME_1
            lane_a = ((lane_a << _S27) | (lane_a >> _S37)) * _PRIME_1 + _PRIME_4
            lane_b = (lane_b ^ word) * _LANE_1
            lane_b ^= lane_b >> _S29
            at += _U8
        word = _last_word(data, first, length)
        scrambled = word * _PRIME_2
        lane_a ^= ((scrambled << _S31) | (scrambled >> _S33)) * _PRIME_1
        lane_a = ((lane_a << _S27) | (lane_a >> _S37)) * _PRIME_1 + _PRIME_4
        # its last scrambling, in which every bit moves all others
        lane_a = (lane_a ^ (lane_a >> _S33)) * _PRIME_2
        lane_a = (lane_a ^ (lane_a >> _S29)) * _PRIME_3
        hashes[begin + row * step] = lane_a ^ (lane_a >> _S32)
        lane_b = (lane_b ^ word) * _LANE_1
        lane_b = (lane_b ^ (lane_b >> _S29)) * _LANE_2
        lane_b = (lane_b ^ (lane_b >> _S32)) * _LANE_1
        fingerprints[begin + row * step] = lane_b & _HIGH_HALF


@njit(cache=True, nogil=True)
def hash_integers(
    values: Int64Array, seed: np.uint64, hashes: UInt64Array, begin: int, step: int
) -> None:
    """Fill ``hashes[begin + i step]`` with a bijective scrambling of ``values[i]``."""
    for row in range(len(values)):
        hashes[begin + row * step] = mix64(np.uint64(values[row]) ^ seed)
