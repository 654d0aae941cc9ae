"""The coins of the sparsifier in plain Python integers: slow, obvious, no wrap-around."""

from collections.abc import Sequence

from solvers.arrays import FloatArray

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix(value: int) -> int:
    """The finalizer of SplitMix64."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def stream_key(seed: int, stream: int) -> int:
    """What sets one stream of one seed apart."""
    return mix(mix((seed + _GOLDEN) & _MASK) ^ ((stream * _GOLDEN) & _MASK))


def counter_hash(seed: int, stream: int, counter: int) -> int:
    """64 random bits of one counter of one stream."""
    return mix((stream_key(seed, stream) + (counter + 1) * _GOLDEN) & _MASK)


def coin(seed: int, stream: int, counter: int) -> float:
    """A number in [0, 1)."""
    return (counter_hash(seed, stream, counter) >> 11) / 2**53


def record_key(seed: int, stream: int, counter: int) -> int:
    """The 32-bit name of a record."""
    return mix(counter_hash(seed, stream, counter)) >> 32


def arrival_probability(
    weight: float,
    ends: Sequence[int],
    vectors: FloatArray,
    component: Sequence[int],
    degree: Sequence[float],
    constant: float,
) -> float:
    """Keep-probability of an arriving edge (ALGORITHMS B13)."""
    u, v = ends
    if max(u, v) >= len(component) or component[u] != component[v]:
        return 1.0
    distance = float(((vectors[u] - vectors[v]) ** 2).sum())
    strength = weight * max(distance, 1.0 / degree[u] + 1.0 / degree[v])
    return min(1.0, constant * strength / (1.0 + strength))
