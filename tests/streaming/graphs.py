"""Edge lists for the tests of the stream, and the few lines that push them through a sparsifier."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import FloatArray, IntArray
from peewit.solvers.edge_merging import WeightedEdges
from peewit.solvers.graph import Graph
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.sparsifier.settings_and_state import (
    Records,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.sparsifier import absorb, is_full, resparsify


@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeList:
    """Edges in the order in which they arrive."""

    u: IntArray
    v: IntArray
    weight: FloatArray
    n_nodes: int

    @property
    def n_edges(self) -> int:
        return self.u.size

    def graph(self) -> Graph:
        return Graph.from_edges(
            self.u, self.v, self.weight.astype(np.float32), n_nodes=self.n_nodes
        )

    def blocks(self, n_blocks: int) -> list[EdgeBlock]:
        rows = np.array_split(np.arange(self.n_edges), n_blocks)
        return [edge_block(self.u[part], self.v[part], self.weight[part]) for part in rows]


def edge_block(u: IntArray, v: IntArray, weight: FloatArray) -> EdgeBlock:
    return EdgeBlock(
        u=np.asarray(u, np.int32),
        v=np.asarray(v, np.int32),
        weight=np.asarray(weight, np.float32),
        n_rows=len(u),
    )


def _shuffled(
    u: IntArray, v: IntArray, weight: FloatArray, n_nodes: int, rng: np.random.Generator
) -> EdgeList:
    order = rng.permutation(u.size)
    return EdgeList(u=u[order], v=v[order], weight=weight[order], n_nodes=n_nodes)


def random_graph(n_nodes: int, density: float, seed: int) -> EdgeList:
    """Every pair is an edge with the given probability; weights in [0.5, 2)."""
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n_nodes, 1)
    chosen = rng.random(u.size) < density
    u, v = u[chosen], v[chosen]
    return _shuffled(u, v, rng.uniform(0.5, 2.0, u.size), n_nodes, rng)


def two_communities(n_nodes: int, density: float, n_bridges: int, seed: int) -> EdgeList:
    """Two dense halves joined by a few edges: uniform sampling must lose the joint."""
    rng = np.random.default_rng(seed)
    half = n_nodes // 2
    u, v = np.triu_indices(n_nodes, 1)
    inside = ((u < half) == (v < half)) & (rng.random(u.size) < density)
    u, v = u[inside], v[inside]
    u = np.concatenate([u, rng.integers(0, half, n_bridges)])
    v = np.concatenate([v, rng.integers(half, n_nodes, n_bridges)])
    return _shuffled(u, v, np.ones(u.size), n_nodes, rng)


def heavy_tailed(n_nodes: int, density: float, seed: int) -> EdgeList:
    """Weights with infinite variance."""
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n_nodes, 1)
    chosen = rng.random(u.size) < density
    u, v = u[chosen], v[chosen]
    return _shuffled(u, v, rng.pareto(1.2, u.size) + 0.01, n_nodes, rng)


def rings(
    n_rings: int, size: int, seed: int, *, per_node: int = 6, far_share: float = 0.02
) -> EdgeList:
    """Dense little rings, one after the other, of parallel edges, and a few edges to anywhere."""
    rng = np.random.default_rng(seed)
    n_nodes = n_rings * size
    u = rng.integers(0, n_nodes, per_node * n_nodes)
    v = u // size * size + rng.integers(0, size, u.size)
    far = rng.random(u.size) < far_share
    v[far] = rng.integers(0, n_nodes, np.count_nonzero(far))
    apart = u != v
    return EdgeList(u=u[apart], v=v[apart], weight=np.ones(apart.sum()), n_nodes=n_nodes)


def core_with_paths(n_core: int, n_paths: int, length: int, seed: int) -> EdgeList:
    """A complete graph with long paths hanging off it: every path edge is a bridge."""
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n_core, 1)
    heads, tails = [u], [v]
    for path in range(n_paths):
        first = n_core + path * length
        nodes = np.concatenate([[path % n_core], np.arange(first, first + length)])
        heads.append(nodes[:-1])
        tails.append(nodes[1:])
    u, v = np.concatenate(heads), np.concatenate(tails)
    return _shuffled(u, v, np.ones(u.size), n_core + n_paths * length, rng)


def region_after_region(n_nodes: int, density: float, n_bridges: int, seed: int) -> EdgeList:
    """`two_communities` in order: all of the first, all of the second, the joint at the end."""
    edges = two_communities(n_nodes, density, n_bridges, seed)
    half = n_nodes // 2
    return _in_order(
        edges, (edges.u >= half).astype(int) + (edges.v >= half) * (edges.u < half) * 2
    )


def joint_before_growth(n_nodes: int, density: float, n_bridges: int, seed: int) -> EdgeList:
    """`two_communities` whose joint comes among the first tenth of the edges and never grows."""
    edges = two_communities(n_nodes, density, n_bridges, seed)
    half = n_nodes // 2
    bridge = (edges.u < half) != (edges.v < half)
    return _in_order(
        edges, (~bridge & (np.arange(edges.n_edges) >= edges.n_edges // 10)).astype(int)
    )


def _in_order(edges: EdgeList, rank: IntArray) -> EdgeList:
    order = np.argsort(rank, kind="stable")
    return EdgeList(
        u=edges.u[order], v=edges.v[order], weight=edges.weight[order], n_nodes=edges.n_nodes
    )


def records_of(edges: EdgeList, seed: int = 0) -> Records:
    """Every edge as a record that has never met a coin."""
    keys = np.random.default_rng(seed).integers(0, 2**32, edges.n_edges)
    return Records(
        u=edges.u.astype(np.int32),
        v=edges.v.astype(np.int32),
        weight=edges.weight.astype(np.float32),
        keep_probability=np.ones(edges.n_edges, np.float32),
        key=keys.astype(np.uint32),
    )


def sparsified(
    edges: EdgeList, settings: SparsifierSettings, *, n_blocks: int = 8, n_forced: int = 0
) -> SparsifierState:
    """State after all edges, one block at a time, and some resparsifications nobody asked for."""
    state = SparsifierState()
    for block in edges.blocks(n_blocks):
        state = absorb(state, settings, [block], n_nodes=edges.n_nodes)
        if is_full(state, settings):
            state = resparsify(state, settings)
    for _ in range(n_forced):
        state = resparsify(state, settings)
    return state


def merged_edges(graph: Graph) -> WeightedEdges:
    """Edges of a graph, as records that a snapshot is published from."""
    u, v, weight = graph.edges()
    return WeightedEdges(u=u, v=v, weight=weight)


def blocks_with_hubs(
    n_blocks: int, size: int, *, inside: float, seed: int
) -> tuple[Graph, np.ndarray]:
    """Blocks, a part of whose edges stay inside while the others go anywhere; and their nodes'."""
    rng = np.random.default_rng(seed)
    n_nodes, n_edges = n_blocks * size, 20 * n_blocks * size
    pull = np.minimum(rng.pareto(1.2, n_nodes) + 1, np.sqrt(n_nodes)).reshape(n_blocks, size)
    within = (pull / pull.sum(axis=1, keepdims=True)).cumsum(axis=1)
    ends = rng.choice(n_nodes, (2, n_edges), p=(pull / pull.sum()).ravel())
    stays = np.flatnonzero(rng.random(n_edges) < inside)
    for block in range(n_blocks):
        own = stays[ends[0, stays] // size == block]
        place = np.searchsorted(within[block], rng.random(own.size)).clip(max=size - 1)
        ends[1, own] = block * size + place
    u, v = ends[:, ends[0] != ends[1]]
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=n_nodes)
    return graph, np.repeat(np.arange(n_blocks), size)
