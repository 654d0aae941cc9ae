"""Sparsifiers to compare with, all told how many edges they may keep."""

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.effective_resistance import edge_resistance, resistance_embedding
from tests.streaming.graphs import EdgeList


def uniform(edges: EdgeList, n_kept: int, seed: int) -> Graph:
    """``n_kept`` edges, all equally likely, weights scaled up."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(edges.n_edges, min(n_kept, edges.n_edges), replace=False)
    weight = edges.weight[chosen].astype(np.float64) * (edges.n_edges / chosen.size)
    return Graph.from_edges(edges.u[chosen], edges.v[chosen], weight, n_nodes=edges.n_nodes)


def leverages(edges: EdgeList, *, n_probes: int, seed: int) -> FloatArray:
    """Estimated leverages from an embedding of the whole graph (B8)."""
    embedding = resistance_embedding(
        edges.u,
        edges.v,
        edges.weight.astype(np.float32),
        np.arange(edges.n_edges, dtype=np.uint64),
        n_nodes=edges.n_nodes,
        n_probes=n_probes,
        seed=seed,
    )
    resistance = edge_resistance(embedding, edges.u, edges.v).astype(np.float64)
    return np.clip(edges.weight * resistance, 0.0, 1.0)


def spielman_srivastava(
    edges: EdgeList, leverage: FloatArray, n_draws: int, seed: int
) -> tuple[Graph, int]:
    """Sparsifier of ``n_draws`` draws with replacement (section B.2), and its different edges."""
    rng = np.random.default_rng(seed)
    probability = leverage / leverage.sum()
    bounds = np.cumsum(probability)
    drawn = np.searchsorted(bounds, rng.random(n_draws) * bounds[-1], side="right")
    chosen, times = np.unique(np.minimum(drawn, edges.n_edges - 1), return_counts=True)
    weight = times * edges.weight[chosen] / (n_draws * probability[chosen])
    graph = Graph.from_edges(edges.u[chosen], edges.v[chosen], weight, n_nodes=edges.n_nodes)
    return graph, chosen.size


def draws_for(leverage: FloatArray, n_kept: int) -> int:
    """Draws that are expected to give ``n_kept`` different edges."""
    probability = leverage / leverage.sum()
    low, high = 0.0, 2.0 * n_kept
    while -np.expm1(-high * probability).sum() < n_kept and high < 1e4 * n_kept:
        high *= 2.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        if -np.expm1(-middle * probability).sum() < n_kept:
            low = middle
        else:
            high = middle
    return round(high)
