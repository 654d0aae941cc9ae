"""The self-balancing walk in plain Python: who survives, and how likely every outcome is."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

LEAN = 2.0


class Throw(NamedTuple):
    """A coin, the two nodes that it moves, and how much of a surplus each takes from it."""

    probability: float
    ends: tuple[int, int]
    shares: tuple[float, float]


def leaning(throw: Throw, surplus: Sequence[float]) -> float:
    """Probability of surviving after what earlier coins have left the nodes with."""
    pull = sum(share * surplus[node] for share, node in zip(throw.shares, throw.ends, strict=True))
    pull /= max(1.0, 2.0 * sum(share**2 for share in throw.shares))
    change = throw.probability * (1.0 - throw.probability) * LEAN * pull
    most = min(throw.probability, 1.0 - throw.probability)
    return throw.probability - min(max(change, -most), most)


def settle(throw: Throw, survives: bool, surplus: list[float]) -> None:
    """Add to ``surplus`` what came of a coin over what was to be expected."""
    for share, node in zip(throw.shares, throw.ends, strict=True):
        surplus[node] += share * (survives - throw.probability)


def walk(throws: Sequence[Throw], coins: Sequence[float], surplus: list[float]) -> list[bool]:
    """Whether each coin survives; ``surplus`` is changed."""
    survivors = []
    for throw, coin in zip(throws, coins, strict=True):
        survives = coin < leaning(throw, surplus)
        settle(throw, survives, surplus)
        survivors.append(survives)
    return survivors


def outcomes(throws: Sequence[Throw], n_nodes: int) -> dict[tuple[bool, ...], float]:
    """Probability of every outcome of all coins, none of them thrown."""
    likelihood = {}
    for outcome in product([False, True], repeat=len(throws)):
        surplus, probability = [0.0] * n_nodes, 1.0
        for throw, survives in zip(throws, outcome, strict=True):
            chance = leaning(throw, surplus)
            probability *= chance if survives else 1.0 - chance
            settle(throw, survives, surplus)
        likelihood[outcome] = probability
    return likelihood
