"""Loops of passes over raw edges: products with their Laplacian, components.

A lane is one accumulator of a pass: its first four columns hold the vectors, its last four take the
sums. So the row of a node is one cache line of 64 bytes, the only one that an edge costs there:
with vectors and sums apart an edge took 1.5 times as long at a million nodes.
"""

from typing import Any

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array
from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.components import find_root

LANE_COLUMNS = 4
"""Vectors of one lane."""


@njit(cache=True, nogil=True)
def add_edge_differences(
    u: Int32Array, v: Int32Array, weight: Float32Array, lane: FloatArray
) -> None:
    """Add weight (x_u - x_v) to the sums of u and take it from those of v, edge by edge.

    ``lane`` is (n_nodes, 8). The order of the sums is that of the edges.
    """
    for edge in range(u.size):
        i = u[edge]
        j = v[edge]
        value = np.float64(weight[edge])
        for column in range(LANE_COLUMNS):
            # (A1): a_e b_e b_e^T x, edge by edge
            flow = value * (lane[i, column] - lane[j, column])
            lane[i, LANE_COLUMNS + column] += flow
            lane[j, LANE_COLUMNS + column] -= flow


@njit(cache=True, nogil=True)
def join_ends(u: Int32Array, v: Int32Array, parent: Int32Array) -> int:
    """Join the trees of both ends of every edge in ``parent``; returns how many joins there were.

    ``parent`` must start as ``arange(n_nodes)``; the root of a tree stays its smallest node.
    """
    n_joins = 0
    for edge in range(u.size):
        root_u = find_root(parent, np.int64(u[edge]))
        root_v = find_root(parent, np.int64(v[edge]))
        if root_u != root_v:
            parent[max(root_u, root_v)] = min(root_u, root_v)
            n_joins += 1
    return n_joins


@njit(cache=True, nogil=True)
def all_roots(parent: Int32Array, root: Any) -> None:
    """Fill ``root`` with the root of every node."""
    for node in range(parent.size):
        root[node] = find_root(parent, node)
