"""Hash of 64-bit words, and signs of probes by hashing their keys: 64 signs in a word."""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, inline="always")
def mix64(value: Any) -> Any:
    """The finalizer of splitmix64: a bijection of 64-bit words that scatters every bit."""
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always")
def sign_word(seed_hash: Any, key: Any, word: int) -> Any:
    """Signs 64 * word .. 64 * word + 63 of one key, a bit each; ``seed_hash`` is mix64(seed)."""
    state = mix64(key ^ seed_hash)
    return mix64(state + np.uint64(word + 1) * _GOLDEN)  # splitmix64, without its earlier numbers
