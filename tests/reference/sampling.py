"""The coins of the sparsifier in plain Python integers: slow, obvious, no wrap-around."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tests.reference.balancing import Throw, leaning, settle

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


def record_key(seed: int, stream: int, counter: int) -> int:
    """The 32-bit name of a record."""
    return mix(counter_hash(seed, stream, counter)) >> 32


class Card(NamedTuple):
    """What the sparsifier remembers of a node."""

    coordinates: list[int]
    local_resistance: float
    component: int


def short_coin(seed: int, stream: int, counter: int) -> float:
    """A number in [0, 1) from the upper 32 bits of the hash."""
    return (counter_hash(seed, stream, counter) >> 32) / 2**32


def are_joined(ends: Sequence[int], cards: Sequence[Card]) -> bool:
    """Whether both nodes have cards and lie in one component."""
    u, v = ends
    return max(u, v) < len(cards) and cards[u].component == cards[v].component


def card_resistance(ends: Sequence[int], cards: Sequence[Card], squared_scale: float) -> float:
    """Resistance of an edge that is not in the embedded graph."""
    first, second = (cards[node] for node in ends)
    pairs = zip(first.coordinates, second.coordinates, strict=True)
    distance = sum((a - b) ** 2 for a, b in pairs)
    return distance * squared_scale + first.local_resistance + second.local_resistance


def arrival_probability(
    weight: float, ends: Sequence[int], cards: Sequence[Card], squared_scale: float, constant: float
) -> float:
    """Keep-probability of an arriving edge (B13)."""
    if not are_joined(ends, cards):
        return 1.0
    strength = weight * card_resistance(ends, cards, squared_scale)
    return min(1.0, constant * strength / (1.0 + strength))


class Arrival(NamedTuple):
    """An arriving edge that stays."""

    row: int
    probability: float
    key: int


def arriving(
    edges: Sequence[tuple[float, tuple[int, int]]],
    cards: Sequence[Card],
    squared_scale: float,
    constant: float,
    seed: int,
    stream: int,
    surplus: list[float] | None,
) -> list[Arrival]:
    """Edges, given as weight and ends, that stay; ``surplus`` is changed by coins that lean."""
    arrivals = []
    for row, (weight, ends) in enumerate(edges):
        if ends[0] == ends[1]:
            continue
        probability = arrival_probability(weight, ends, cards, squared_scale, constant)
        coin = short_coin(seed, stream, row)
        if surplus is None or probability == 1.0:
            stays = coin < probability
        else:
            local = [cards[node].local_resistance for node in ends]
            per_weight = constant * weight / probability
            throw = Throw(probability, ends, (per_weight * local[0], per_weight * local[1]))
            stays = coin < leaning(throw, surplus)
            settle(throw, stays, surplus)
        if stays:
            arrivals.append(Arrival(row, probability, record_key(seed, stream, row)))
    return arrivals


def stale_leverage(
    weight: float,
    keep_probability: float,
    ends: Sequence[int],
    cards: Sequence[Card],
    squared_scale: float,
    constant: float,
) -> float:
    """Leverage of a stored record at the time of the cards."""
    if keep_probability < 1.0:
        return 1.0 / constant
    if not are_joined(ends, cards):
        return math.inf
    return weight * card_resistance(ends, cards, squared_scale)


def stored_score(
    weight: float,
    keep_probability: float,
    ends: Sequence[int],
    cards: Sequence[Card],
    squared_scale: float,
    *,
    local_factor: float,
    is_shortable: bool,
) -> float:
    """``weight * R`` of a record that is in the embedded graph, R as it is counted.

    Local resistances are inverse degrees times ``local_factor``, or bounds where that is 0.
    """
    if not are_joined(ends, cards):
        return math.inf
    conductance = weight / keep_probability
    near, far = (cards[node].local_resistance for node in ends)
    if local_factor == 0.0:
        return weight * min(card_resistance(ends, cards, squared_scale), 1.0 / conductance)
    distance = card_resistance(ends, cards, squared_scale) - near - far
    near, far = near / local_factor, far / local_factor
    by_degrees = near + far - 2.0 * conductance * near * far
    resistance = by_degrees + distance
    if is_shortable:
        resistance = max(resistance, shorted_resistance(1.0 / near, 1.0 / far, conductance))
    beyond_degrees = max(min(resistance, 1.0 / conductance) - by_degrees, 0.0)
    return weight * min(local_factor * by_degrees + beyond_degrees, 1.0 / conductance)


def shorted_resistance(first: float, second: float, conductance: float) -> float:
    """Resistance between two nodes of these degrees with all the others shorted to one (B5)."""
    to_others = sorted([first - conductance, second - conductance])
    around = 1.0 / (1.0 / to_others[0] + 1.0 / to_others[1]) if to_others[0] > 0.0 else 0.0
    return 1.0 / (conductance + around)


def expected_survivors(
    keep_probability: Sequence[float],
    score: Sequence[float],
    on_forest: Sequence[bool],
    constant: float,
) -> float:
    """Records that survive on average with ``min(1, constant * score / keep_probability)``."""
    return sum(
        1.0 if forest else min(1.0, constant * value / probability)
        for probability, value, forest in zip(keep_probability, score, on_forest, strict=True)
    )


def maximum_spanning_forest(
    u: Sequence[int], v: Sequence[int], conductance: Sequence[float]
) -> list[bool]:
    """Kruskal's forest with conductances compared by their power of two, then by their place."""
    trees = {node: {node} for node in {*u, *v}}
    on_forest = [False] * len(conductance)
    for record in sorted(range(len(u)), key=lambda i: -math.floor(math.log2(conductance[i]))):
        first, second = trees[u[record]], trees[v[record]]
        if first is not second:
            on_forest[record] = True
            first |= second
            trees |= dict.fromkeys(second, first)
    return on_forest
