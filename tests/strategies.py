"""Hypothesis strategies: small weighted graphs, connected or not, and labelings of them."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels, RealLabels


@dataclass(frozen=True, kw_only=True)
class EdgeList:
    """Edge records on the nodes 0 .. n_nodes - 1; parallel edges and self-loops may occur."""

    u: Int64Array
    v: Int64Array
    weight: FloatArray
    n_nodes: int

    def graph(self) -> Graph:
        return Graph.from_edges(self.u, self.v, self.weight, n_nodes=self.n_nodes)


@st.composite
def edge_lists(
    draw: st.DrawFn, *, min_nodes: int = 1, max_nodes: int = 25, connected: bool = False
) -> EdgeList:
    """Edge lists with weights over two orders of magnitude; a random tree makes them connected."""
    n_nodes = draw(st.integers(min_nodes, max_nodes))
    node = st.integers(0, n_nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=3 * n_nodes))
    if connected:
        pairs += [(draw(st.integers(0, child - 1)), child) for child in range(1, n_nodes)]
    exponent = st.integers(-10, 10).map(lambda tenths: 10.0 ** (tenths / 10))
    weights = draw(st.lists(exponent, min_size=len(pairs), max_size=len(pairs)))
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return EdgeList(u=ends[:, 0], v=ends[:, 1], weight=np.array(weights), n_nodes=n_nodes)


def graphs(
    *, min_nodes: int = 1, max_nodes: int = 25, connected: bool = False
) -> st.SearchStrategy[Graph]:
    """Graphs of `edge_lists`."""
    lists = edge_lists(min_nodes=min_nodes, max_nodes=max_nodes, connected=connected)
    return lists.map(EdgeList.graph)


@st.composite
def labelings(draw: st.DrawFn, n_nodes: int, *, max_classes: int = 4) -> Labels:
    """Labels with at least two classes on a graph of at least two nodes."""
    n_labeled = draw(st.integers(2, n_nodes))
    order = draw(st.permutations(range(n_nodes)))
    name = st.integers(0, min(max_classes, n_labeled) - 1)
    rest = draw(st.lists(name, min_size=n_labeled - 2, max_size=n_labeled - 2))
    return Labels.from_pairs(order[:n_labeled], [0, 1, *rest])


@st.composite
def problems(
    draw: st.DrawFn, *, max_nodes: int = 25, connected: bool = False
) -> tuple[Graph, Labels]:
    """A graph and labels of some of its nodes."""
    graph = draw(graphs(min_nodes=2, max_nodes=max_nodes, connected=connected))
    return graph, draw(labelings(graph.n_nodes))


@st.composite
def real_problems(
    draw: st.DrawFn, *, max_nodes: int = 25, connected: bool = False
) -> tuple[Graph, RealLabels]:
    """A graph and numbers on some of its nodes, between -10 and 10."""
    graph = draw(graphs(min_nodes=2, max_nodes=max_nodes, connected=connected))
    n_labeled = draw(st.integers(1, graph.n_nodes))
    nodes = draw(st.permutations(range(graph.n_nodes)))[:n_labeled]
    number = st.integers(-100, 100).map(lambda tenths: tenths / 10)
    values = draw(st.lists(number, min_size=n_labeled, max_size=n_labeled))
    return graph, RealLabels.from_pairs(nodes, values)
