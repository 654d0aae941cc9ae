"""Exact degrees along the stream: the weight of all that arrived at each node, dropped or kept."""

import math

import numpy as np

from peewit.solvers.arrays import FloatArray, frozen
from peewit.streaming.kernels.coins import add_degrees
from peewit.streaming.sparsifier.settings_and_state import SparsifierState


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
