"""Memory order: an order of nodes in which neighbors are near each other.

A product with the adjacency matrix fetches a row of the block for every entry. In an arbitrary
order each fetch waits for memory, unless the whole block is in the cache; in this order most rows
are there already, and products are two to five times as fast. If edges join everything with
everything, as in graphs of hubs, no order helps.
"""

from typing import Any

import numpy as np

from peewit.solvers.arrays import Int64Array
from peewit.solvers.kernels.clusters import propagate_clusters
from peewit.solvers.late_modules import LateModule

csgraph = LateModule("scipy.sparse.csgraph")

MOST_CLUSTERED = 2_048
"""Nodes of a cluster, whose rows of a block fit in the cache together."""

_N_ROUNDS = 5


def memory_order(adjacency: Any) -> Int64Array:
    """(n_nodes,) the nodes in such an order.

    Clusters, found by label propagation, follow each other and have their nodes in the order of
    reverse Cuthill-McKee, which alone suffices for long and thin graphs. About four products with a
    block of twenty columns, and 40 bytes a node.
    """
    n_nodes = adjacency.shape[0]
    cluster = np.arange(n_nodes, dtype=np.int32)
    size = np.ones(n_nodes, np.int32)
    propagate_clusters(
        adjacency.indptr, adjacency.indices, cluster, size, MOST_CLUSTERED, _N_ROUNDS
    )
    order: Int64Array = csgraph.reverse_cuthill_mckee(adjacency, symmetric_mode=True).astype(
        np.int64
    )
    own = cluster[order]
    place = np.bincount(own, np.arange(n_nodes), minlength=n_nodes) / np.maximum(size, 1)
    return order[np.argsort(place[own], kind="stable")]
