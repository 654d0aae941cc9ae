"""The keyed signs of the resistance embedding in Python integers."""

import numpy as np

from peewit.solvers.arrays import UInt64Array

_MASK = 2**64 - 1


def mix64(value: int) -> int:
    """The finaliser of splitmix64."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def probe_signs(seed: int, keys: UInt64Array, n_probes: int) -> np.ndarray:
    """(n_keys, n_probes) of -1 and 1: bit t of a key's hash is the sign of probe t."""
    signs = np.empty((len(keys), n_probes))
    for row, key in enumerate(keys.tolist()):
        state = mix64(key ^ mix64(seed & _MASK))
        for probe in range(n_probes):
            word = mix64((state + (probe // 64 + 1) * 0x9E3779B97F4A7C15) & _MASK)
            signs[row, probe] = 1.0 if word >> (probe % 64) & 1 else -1.0
    return signs
