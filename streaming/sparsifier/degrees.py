"""Exact degrees along the stream: the weight of all that arrived at each node, dropped or kept."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, frozen
from peewit.streaming.kernels.coins import add_degrees
from peewit.streaming.sparsifier.settings_and_state import SparsifierState

NOTED_DAMAGE: Final = 0.01
"""Share of its weight up to which a node's loss is not counted as damage: sums round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What nodes with live edges have lost since their edges were sampled (B24)."""

    n_nodes: int = 0  # that lost more than NOTED_DAMAGE of their weight
    weight_share: float = 0.0  # of the live weight, at these nodes
    largest: float = 0.0  # share of its weight that any node has lost


def present_damage(state: SparsifierState) -> Damage:
    """Damage of a state that was resolved, whether or not it has absorbed edges since."""
    if state.peak is None or state.degree is None:
        return Damage()
    degree = state.degree[: state.peak.size]
    peak = state.peak[: degree.size]
    stays = np.ones(degree.size)
    np.divide(degree, peak, out=stays, where=(degree > 0.0) & (peak > 0.0))
    is_damaged = stays < 1.0 - NOTED_DAMAGE
    if not is_damaged.any():
        return Damage()
    return Damage(
        n_nodes=int(np.count_nonzero(is_damaged)),
        weight_share=float(degree[is_damaged].sum() / state.degree.sum()),
        largest=float(1.0 - stays.min()),
    )


def joined_damage(states: Sequence[SparsifierState]) -> Damage:
    """Damage of several relations together, a node counted in each."""
    damages = [present_damage(state) for state in states]
    if len(damages) == 1:
        return damages[0]
    weights = [0.0 if state.degree is None else float(state.degree.sum()) for state in states]
    lost = sum(each.weight_share * weight for each, weight in zip(damages, weights, strict=True))
    return Damage(
        n_nodes=sum(each.n_nodes for each in damages),
        weight_share=lost / sum(weights) if any(weights) else 0.0,
        largest=max(each.largest for each in damages),
    )


def is_whole(state: SparsifierState) -> bool:
    """Whether no coin has been thrown, so that the records tell the degrees."""
    return math.isinf(state.smallest_constant)


def known_degree(state: SparsifierState) -> FloatArray | None:
    """(n_reached,) float64 weight that arrived at each node; None where that is not known.

    Graphs that dropped edges before degrees were counted do not know it.
    """
    if state.degree is not None or not is_whole(state):
        return state.degree
    degree = np.zeros(state.n_nodes)
    for chunk in state.chunks:
        add_degrees(*chunk.columns[:4], degree)
    return frozen(degree)


def sum_degrees(first: FloatArray | None, second: FloatArray | None) -> FloatArray | None:
    """Degrees of two disjoint sets of edges together; None where either is unknown."""
    if first is None or second is None:
        return None
    total = np.zeros(max(first.size, second.size))
    total[: first.size] = first
    total[: second.size] += second
    return frozen(total)
