"""Clusters of bounded size by label propagation (Raghavan, Albert and Kumara 2007)."""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def propagate_clusters(
    indptr: Any, indices: Any, cluster: Any, size: Any, most: int, n_rounds: int
) -> None:
    """Move nodes, one after another, to the cluster that most of their neighbors are in.

    At most ``n_rounds`` rounds, fewer once hardly a node moves. Weights do not count.

    Parameters
    ----------
    cluster, size : (n_nodes,) int32
        Cluster of each node, and number of nodes of each cluster; both change. A node stays unless
        more of its neighbors are elsewhere.
    most : int
        A cluster of so many nodes takes no more.
    """
    n_nodes = indptr.size - 1
    beside = np.zeros(n_nodes, np.int32)
    for _ in range(n_rounds):
        n_moved = 0
        for row in range(n_nodes):
            own = cluster[row]
            for entry in range(indptr[row], indptr[row + 1]):
                beside[cluster[indices[entry]]] += 1
            best, n_best = own, beside[own]
            for entry in range(indptr[row], indptr[row + 1]):
                other = cluster[indices[entry]]
                if beside[other] > n_best and size[other] < most:
                    best, n_best = other, beside[other]
            for entry in range(indptr[row], indptr[row + 1]):
                beside[cluster[indices[entry]]] = 0
            if best != own:
                size[own] -= 1
                size[best] += 1
                cluster[row] = best
                n_moved += 1
        if 100 * n_moved < n_nodes:
            break
