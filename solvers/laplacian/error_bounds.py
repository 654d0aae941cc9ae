"""Error bounds: how far each entry of a solution may be from the truth, from its residual alone.

A residual is a current that should not flow. It changes the potential of a node by at most the
current times the smaller of two resistances to the ground, its own and the node's. A single path
never has less resistance than the graph (B5), so one shortest path per node bounds every error,
without another solve.
"""

from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.late_modules import LateModule

sp = LateModule("scipy.sparse")
csgraph = LateModule("scipy.sparse.csgraph")

_EPS: Final = float(np.finfo(np.float64).eps)
_NO_LENGTH: Final = 1e-300


def error_bounds(
    graph: Graph, x: FloatArray, rhs: FloatArray, *, scale: float, shift: FloatArray
) -> FloatArray:
    """(n_nodes, k) bounds on the error of a solution of (scale L + diag(shift)) x = rhs.

    On components without shift ``x`` has zero mean, and the sum of ``rhs`` is projected out.

    Notes
    -----
    |e_i| <= sum_j min(R_i, R_j) |r_j|, R the resistance to the ground: the heaviest node where a
    component has no shift. Dijkstra's algorithm, one product and a sort.
    """
    is_free = np.ones(graph.n_components, bool)
    is_free[graph.component[shift > 0]] = False
    is_free = is_free[graph.component]
    sizes = graph.component_sizes()[graph.component][:, None]
    off = np.zeros((graph.n_components, x.shape[1]))
    np.add.at(off, graph.component, rhs)
    rhs = rhs - np.where(is_free[:, None], off[graph.component] / sizes, 0.0)
    u, v, weight = graph.edges()
    flow = scale * weight[:, None] * np.abs(x[u] - x[v])
    rounding = np.abs(rhs) + shift[:, None] * np.abs(x)
    for ends in (u, v):
        np.add.at(rounding, ends, flow)
    left = np.abs(rhs - scale * graph.laplacian_product(x) - shift[:, None] * x)
    left += 4.0 * _EPS * rounding
    resistance = _resistances(graph, scale, np.where(is_free, 0.0, shift))
    order = np.argsort(resistance, kind="stable")
    sorted_left, lighter = left[order], resistance[order][:, None]
    below = np.cumsum(lighter * sorted_left, axis=0)
    above = np.cumsum(sorted_left[::-1], axis=0)[::-1] - sorted_left
    bound = np.empty_like(left)
    bound[order] = below + lighter * above
    means = np.zeros_like(off)
    np.add.at(means, graph.component, bound)
    return bound + np.where(is_free[:, None], means[graph.component] / sizes, 0.0)


def _resistances(graph: Graph, scale: float, shift: FloatArray) -> FloatArray:
    """(n_nodes,) resistance of the best path from each node to the ground."""
    n_nodes = graph.n_nodes
    adjacency = graph.adjacency
    lengths = sp.csr_array(
        (1.0 / (scale * adjacency.data), adjacency.indices, adjacency.indptr), shape=adjacency.shape
    )
    grounded = np.divide(1.0, shift, out=np.zeros(n_nodes), where=shift > 0)
    has_shift = np.bincount(graph.component, shift, graph.n_components) > 0
    heaviest = np.lexsort((graph.degree, graph.component))
    last = heaviest[np.cumsum(graph.component_sizes()) - 1]
    grounded[last[~has_shift]] = _NO_LENGTH
    to_ground = sp.csr_array(grounded[:, None])
    whole = sp.block_array([[lengths, to_ground], [to_ground.T, None]], format="csr")
    return np.asarray(csgraph.dijkstra(whole, directed=False, indices=n_nodes))[:n_nodes]
