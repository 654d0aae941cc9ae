"""Budget shares: how many edges each relation of a graph may keep of a budget for all together."""

from collections.abc import Sequence

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.streaming.sparsifier.degrees import is_whole, known_degree
from peewit.streaming.sparsifier.parallel_records import n_merged
from peewit.streaming.sparsifier.settings_and_state import SparsifierState


def budget_shares(states: Sequence[SparsifierState], budget: int) -> list[int]:
    """Edges that each relation may keep, so that one constant thins them all, about (B29).

    At a constant c a relation of n nodes with an edge keeps up to c n edges, as leverages sum to
    the number of nodes less that of components; one that has fewer keeps them all. Where the budget
    holds everything each share is what is there. No share is below one edge.
    """
    sizes = np.array([_n_pairs(state) for state in states], np.float64)
    if sizes.sum() <= budget:
        return [max(int(size), 1) for size in sizes]
    reached = np.array([_n_reached(state) for state in states], np.float64)
    return [max(int(share), 1) for share in _filled(sizes, reached, float(budget))]


def _filled(sizes: FloatArray, weights: FloatArray, budget: float) -> FloatArray:
    """``min(size, c * weight)`` with the c of which they sum to a budget below the sizes' sum."""
    shares = sizes.copy()
    is_open = sizes > 0.0
    while is_open.any():
        constant = (budget - shares[~is_open].sum()) / weights[is_open].sum()
        is_small = is_open & (sizes <= constant * weights)
        if not is_small.any():
            shares[is_open] = constant * weights[is_open]
            break
        is_open &= ~is_small
    return shares


def _n_pairs(state: SparsifierState) -> int:
    """Records, those of one pair as one where no coin was thrown."""
    if not is_whole(state) or state.runs is not None:
        return state.n_records
    return n_merged(state.chunks, n_nodes=state.n_nodes)


def _n_reached(state: SparsifierState) -> int:
    """Nodes with an edge."""
    degree = known_degree(state)
    return state.n_nodes if degree is None else int(np.count_nonzero(degree))
