"""Exact degrees along the stream: the weight of all that arrived at each node, dropped or kept."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, frozen
from peewit.streaming.kernels.coins import add_degrees
from peewit.streaming.sparsifier.settings_and_state import SparsifierState

NOTED_DAMAGE: Final = 0.01
"""Nodes that have lost less of their weight are not counted as damaged: sums round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What nodes have lost since their edges were sampled (B24), of those with edges that live.

    Attributes
    ----------
    n_nodes : int
        Nodes that have lost more than a hundredth of their weight.
    weight_share : float
        Part of the live weight that is at them.
    largest : float
        The largest part that any node has lost.
    """

    n_nodes: int = 0
    weight_share: float = 0.0
    largest: float = 0.0


def present_damage(state: SparsifierState) -> Damage:
    """Damage of a state that was resolved, and has absorbed edges since or has not."""
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


def is_whole(state: SparsifierState) -> bool:
    """Whether no coin has been thrown, so that the records tell the degrees."""
    return math.isinf(state.smallest_constant)


def known_degree(state: SparsifierState) -> FloatArray | None:
    """(n_reached,) float64 weight that arrived at each node; None where that is not known.

    It is not in graphs that dropped edges before degrees were counted.
    """
    if state.degree is not None or not is_whole(state):
        return state.degree
    degree = np.zeros(state.n_nodes)
    for chunk in state.chunks:
        add_degrees(*chunk.columns[:4], degree)
    return frozen(degree)


def sum_degrees(first: FloatArray | None, second: FloatArray | None) -> FloatArray | None:
    """Degrees of two disjoint sets of edges together; unknown where either is."""
    if first is None or second is None:
        return None
    total = np.zeros(max(first.size, second.size))
    total[: first.size] = first
    total[: second.size] += second
    return frozen(total)
