"""Maximum spanning forest by Kruskal's algorithm: the edges arrive sorted, heaviest first."""

import numba

from solvers.arrays import BoolArray, Int32Array, IntArray


@numba.njit(cache=True, nogil=True)
def find_root(parent: Int32Array, node: int) -> int:
    """Root of ``node``, halving the path on the way."""
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@numba.njit(cache=True, nogil=True)
def mark_forest(
    u: Int32Array, v: Int32Array, order: IntArray, parent: Int32Array, on_forest: BoolArray
) -> int:
    """Mark the edges of the spanning forest that takes edges in the given order.

    ``parent`` must start as ``arange(n_nodes)`` and is changed; ``on_forest`` must start False.
    Returns the number of marked edges: the number of nodes less the number of components.
    """
    n_marked = 0
    for edge in order:
        root_u = find_root(parent, u[edge])
        root_v = find_root(parent, v[edge])
        if root_u != root_v:
            parent[root_v] = root_u
            on_forest[edge] = True
            n_marked += 1
    return n_marked
