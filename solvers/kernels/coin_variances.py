"""What the coins of edges do to differences between classes, summed edge by edge."""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def add_variances(
    u: Any, v: Any, weight: Any, relative: Any, place: Any, values: Any, winner: Any, out: Any
) -> None:
    """Add to ``out[place[x], j]`` the variance of the pull on node x from class j to its winner.

    Parameters
    ----------
    u, v : (n_edges,) int32
    weight : (n_edges,) float64
    relative : (n_edges,) float32
        Variances of the weights, for their squares.
    place : (n_nodes,) int32
        Row of ``out`` of each node, -1 of those that are passed over.
    values : (n_nodes, n_classes) float64 or float32
    winner : (n_nodes,) int32
        Class of each node.
    out : (n_places, n_classes) float64
    """
    for edge in range(u.size):
        variance = weight[edge] * weight[edge] * np.float64(relative[edge])
        if variance == 0.0:
            continue
        for turned in range(2):
            own, other = (v[edge], u[edge]) if turned else (u[edge], v[edge])
            row = place[own]
            if row < 0:
                continue
            best = winner[own]
            ahead = np.float64(values[other, best]) - np.float64(values[own, best])
            for rival in range(values.shape[1]):
                step = np.float64(values[other, rival]) - np.float64(values[own, rival])
                out[row, rival] += variance * (ahead - step) * (ahead - step)
