"""Solutions of a graph that has grown since: where the next solve starts."""

from dataclasses import replace
from typing import Final

import numpy as np

from peewit.solvers.graph import Graph
from peewit.solvers.solution import Solution

_SWEEPS: Final = 3


def grown(solution: Solution, graph: Graph) -> Solution:
    """A solution of an older graph, with their neighbors' mean for the nodes that came since.

    Parameters
    ----------
    solution : Solution
        Of the first nodes of ``graph``.
    graph : Graph
        Where nodes kept their number; new ones that no edge leads to within three steps get 0.
    """
    n_old = len(solution.scores)
    n_new = graph.n_nodes - n_old
    if n_new <= 0:
        return solution
    scores = np.pad(solution.scores, ((0, n_new), (0, 0)))
    rows = graph.adjacency[n_old:]
    known = np.zeros(graph.n_nodes)
    known[:n_old] = 1.0
    for _ in range(_SWEEPS):  # the next one reaches the neighbors of new nodes
        weight = rows @ known
        scores[n_old:] = (rows @ scores) / np.where(weight > 0, weight, 1.0)[:, None]
        known[n_old:] = weight > 0
    return replace(solution, scores=scores, reachable=np.pad(solution.reachable, (0, n_new)))
