"""Budget shares: how many edges each relation of a graph may keep of a budget for all together."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.streaming.sparsifier.degrees import is_whole
from peewit.streaming.sparsifier.parallel_records import n_merged
from peewit.streaming.sparsifier.settings_and_state import SparsifierState
from peewit.streaming.sparsifier.survivor_estimate import estimated_pairs

_ESTIMATE_ERROR: Final = 0.1
"""Share by which an estimated number of pairs is off at most; a tenth of it is usual."""


def budget_shares(states: Sequence[SparsifierState], budget: int) -> list[int]:
    """Edges that each relation may keep, so that one constant thins them all, about (B29).

    At a constant c a relation of n nodes with an edge keeps up to c n edges, as leverages sum to
    the number of nodes less that of components; one that has fewer keeps them all. Where the budget
    holds everything each share is what is there. No share is below one edge.
    """
    sizes = np.array([state.n_records for state in states], np.float64)
    if sizes.sum() > budget:
        sizes = np.array([_estimated_size(state) for state in states])
        reached = np.array([_n_reached(state) for state in states], np.float64)
        shares = _filled(sizes, reached, float(budget))
        # what decides is counted; of a relation that is thinned for certain it does not matter
        is_close = shares >= (1.0 - _ESTIMATE_ERROR) * sizes
        is_close |= (1.0 - _ESTIMATE_ERROR) * sizes.sum() <= budget
        for place in np.flatnonzero(is_close).tolist():
            sizes[place] = _n_pairs(states[place])
        sizes = _filled(sizes, reached, float(budget))
    return [max(int(size), 1) for size in sizes]


def _filled(sizes: FloatArray, weights: FloatArray, budget: float) -> FloatArray:
    """``min(size, c * weight)`` with the c of which they sum to the budget, or all sizes."""
    shares = sizes.copy()
    if sizes.sum() <= budget:
        return shares
    is_open = sizes > 0.0
    while is_open.any():
        constant = (budget - shares[~is_open].sum()) / weights[is_open].sum()
        is_small = is_open & (sizes <= constant * weights)
        if not is_small.any():
            shares[is_open] = constant * weights[is_open]
            break
        is_open &= ~is_small
    return shares


def _merges(state: SparsifierState) -> bool:
    """Whether its records of one pair merge before coins are thrown."""
    return is_whole(state) and state.runs is None


def _estimated_size(state: SparsifierState) -> float:
    """Records, an estimate of the pairs that they join where those of one pair merge."""
    return estimated_pairs(state.chunks) if _merges(state) else float(state.n_records)


def _n_pairs(state: SparsifierState) -> int:
    """Records, those of one pair as one where they merge."""
    if not _merges(state):
        return state.n_records
    return n_merged(state.chunks, n_nodes=state.n_nodes)


def _n_reached(state: SparsifierState) -> int:
    """Nodes with an edge."""
    if state.degree is not None:
        return int(np.count_nonzero(state.degree))
    if not is_whole(state):
        return state.n_nodes
    is_reached = np.zeros(state.n_nodes, bool)
    for chunk in state.chunks:
        is_reached[chunk.u] = True
        is_reached[chunk.v] = True
    return int(np.count_nonzero(is_reached))
