"""Loops over edge records: keyed signs, projected right-hand sides, squared distances."""

from typing import Any

import numpy as np
from numba import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)
_SIGNS_PER_WORD = 64


@njit(cache=True, nogil=True, inline="always")
def mix64(value: Any) -> Any:
    """The finaliser of splitmix64: a bijection of 64-bit words that scatters every bit."""
    value = (value ^ (value >> np.uint64(30))) * _FIRST
    value = (value ^ (value >> np.uint64(27))) * _SECOND
    return value ^ (value >> np.uint64(31))


@njit(cache=True, nogil=True)
def sign_words(seed: Any, key: Any, first_word: int, words: Any) -> None:
    """Fill ``words`` with the 64-bit words of signs of one key, from ``first_word`` on."""
    state = mix64(key ^ mix64(seed))
    for word in range(words.size):
        words[word] = mix64(state + np.uint64(first_word + word + 1) * _GOLDEN)


@njit(cache=True, nogil=True)
def add_projected_edges(
    u: Any, v: Any, weight: Any, sign_key: Any, seed: Any, scale: float, out: Any
) -> None:
    """Add B^T diag(weight)^(1/2) Q to ``out`` (n_nodes, n_probes), Q = signs * ``scale``.

    Bit t of a key's hash is the sign of probe t: one 64-bit word serves 64 probes.
    """
    n_probes = out.shape[1]
    words = np.empty((n_probes + _SIGNS_PER_WORD - 1) // _SIGNS_PER_WORD, np.uint64)
    signed = np.empty(2, out.dtype)
    for record in range(u.size):
        i = u[record]
        j = v[record]
        if i == j:
            continue
        signed[1] = np.sqrt(np.float64(weight[record])) * scale
        signed[0] = -signed[1]
        sign_words(seed, sign_key[record], 0, words)
        for word in range(words.size):
            bits = words[word]
            first = word * _SIGNS_PER_WORD
            for probe in range(first, min(first + _SIGNS_PER_WORD, n_probes)):
                value = signed[np.int64(bits & _ONE)]
                bits >>= _ONE
                out[i, probe] += value
                out[j, probe] -= value


@njit(cache=True, nogil=True)
def squared_distances(vectors: Any, component: Any, u: Any, v: Any, out: Any) -> None:
    """Fill ``out`` with ||vectors_u - vectors_v||^2, inf where the components differ."""
    n_columns = vectors.shape[1]
    for pair in range(u.size):
        i = u[pair]
        j = v[pair]
        if component[i] != component[j]:
            out[pair] = np.inf
            continue
        total = np.float32(0.0)
        for column in range(n_columns):
            difference = vectors[i, column] - vectors[j, column]
            total += difference * difference
        out[pair] = total
