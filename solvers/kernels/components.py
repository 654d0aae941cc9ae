"""Connected components by union and find: one pass over the edges, in any order."""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def find_root(parent: Any, node: int | np.int64) -> Any:
    """Root of ``node``, halving the path on the way."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(cache=True, nogil=True)
def join_edges(u: Any, v: Any, parent: Any) -> None:
    """Join the ends of every edge; ``parent`` starts as ``arange(n_nodes)`` and is changed.

    The smaller root stays a root, so the result does not depend on the order of the edges.
    """
    for edge in range(u.size):
        root_u = find_root(parent, np.int64(u[edge]))
        root_v = find_root(parent, np.int64(v[edge]))
        if root_u < root_v:
            parent[root_v] = root_u
        elif root_v < root_u:
            parent[root_u] = root_v


@njit(cache=True, nogil=True)
def number_components(parent: Any, component: Any) -> int:
    """Fill ``component`` with numbers from 0 by first node; returns their number."""
    n_components = 0
    for node in range(parent.size):
        root = find_root(parent, node)
        if root == node:
            component[node] = n_components
            n_components += 1
        else:  # a root is the smallest node of its tree, and has its number already
            component[node] = component[root]
    return n_components
