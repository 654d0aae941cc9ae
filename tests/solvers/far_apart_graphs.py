"""Small graphs whose weights lie up to sixty orders of magnitude apart, and labels of them."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels, RealLabels

KINDS = ("path", "star", "ring", "clique-with-tail", "components")


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A graph, labels of two or three classes, and numbers at the same nodes."""

    graph: Graph
    labels: Labels
    numbers: RealLabels
    penalty: float


def drawn(seed: int, decades: float = 30.0) -> Case:
    """The graph of a seed: 2 to 12 nodes, weights from 10^-decades to 10^decades."""
    rng = np.random.default_rng(seed)
    n_nodes = int(rng.integers(2, 13))
    kind = KINDS[seed % len(KINDS)]
    if kind == "components":
        first = int(rng.integers(1, n_nodes))
        kinds = rng.choice(KINDS[:-1], 2)
        edges = _edges(kinds[0], 0, first) + _edges(kinds[1], first, n_nodes)
    else:
        edges = _edges(kind, 0, n_nodes)
    u, v = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    weight = 10.0 ** rng.uniform(-decades, decades, u.size)
    n_labeled = int(rng.integers(2, min(n_nodes, 5) + 1))
    nodes = rng.choice(n_nodes, n_labeled, replace=False)
    n_classes = int(rng.integers(2, min(n_labeled, 3) + 1))
    rest = rng.integers(0, n_classes, n_labeled - n_classes)
    return Case(
        graph=Graph.from_edges(u, v, weight, n_nodes=n_nodes),
        labels=Labels.from_pairs(nodes, np.concatenate([np.arange(n_classes), rest])),
        numbers=RealLabels.from_pairs(nodes, rng.normal(size=n_labeled)),
        penalty=float(10.0 ** rng.uniform(-6, 3)),
    )


def _edges(kind: str, first: int, stop: int) -> list[tuple[int, int]]:
    """Edges of a graph of this kind on the nodes first .. stop - 1."""
    nodes = range(first, stop)
    if kind == "star":
        return [(first, node) for node in nodes[1:]]
    path = [(node, node + 1) for node in nodes[:-1]]
    if kind == "ring" and len(nodes) > 2:
        return [*path, (first, stop - 1)]
    if kind == "clique-with-tail":
        clique = nodes[: (len(nodes) + 1) // 2]
        return path + [(a, b) for a in clique for b in clique if a + 1 < b]
    return path
