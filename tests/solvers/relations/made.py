"""Relations over blocks: one that tells them apart, and one of random edges."""

import numpy as np

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.relations.relation_graphs import RelationGraphs


def edges_of(
    classes: np.ndarray, n_edges: int, homophily: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random edges, so many of them inside a class; classes are node % n_classes."""
    n_classes = int(classes.max()) + 1
    u, v = rng.integers(0, classes.size, (2, n_edges))
    inside = rng.random(n_edges) < homophily
    v = np.where(inside, v // n_classes * n_classes + classes[u], v)
    keeps = (u != v) & (v < classes.size)
    return u[keeps], v[keeps]


def graph_of(u: np.ndarray, v: np.ndarray, n_nodes: int) -> Graph:
    return Graph.from_edges(u, v, np.ones(u.size), n_nodes=n_nodes)


def made(
    homophilies: dict[str, float], *, n_nodes: int = 600, seed: int = 0
) -> tuple[RelationGraphs, np.ndarray]:
    """Relations of three edges a node with these homophilies, and three classes."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n_nodes) % 3
    graphs = {
        name: graph_of(*edges_of(classes, 3 * n_nodes, homophily, rng), n_nodes)
        for name, homophily in homophilies.items()
    }
    return RelationGraphs.of(graphs), classes


def labels_of(classes: np.ndarray, per_class: int, *, seed: int = 0) -> Labels:
    rng = np.random.default_rng(seed)
    nodes = np.concatenate(
        [rng.choice(np.flatnonzero(classes == each), per_class, replace=False) for each in range(3)]
    )
    return Labels.from_pairs(nodes, classes[nodes])
