"""Slow twins of class-mass normalisation and of the rounds of Harmonic MBO, node by node."""

import numpy as np

from peewit.solvers.arrays import FloatArray, IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from tests.reference.laplacian import dense_laplacian


def normalized_masses(scores: FloatArray, labels: Labels, graph: Graph) -> FloatArray:
    """pi_k f_ik / sum_i f_ik with rows made to sum to 1, on components with labels."""
    weighed = scores.copy()
    for nodes, counts in _labeled_components(labels, graph):
        for k in range(labels.n_classes):
            share = (counts[k] + 1) / (counts.sum() + labels.n_classes)
            mass = scores[nodes, k].sum()
            weighed[nodes, k] = share * scores[nodes, k] / mass if mass > 0 else 0.0
        weighed[nodes] /= weighed[nodes].sum(axis=1, keepdims=True)
    return weighed


def contrasts(scores: FloatArray, labels: Labels, graph: Graph) -> FloatArray:
    """p_k (f_ik / m_k - (1 - r)) on components with labels, zero elsewhere."""
    found = np.zeros_like(scores)
    for nodes, counts in _labeled_components(labels, graph):
        weights = graph.degree[nodes] if nodes.size > 1 else np.ones(1)
        m = np.average(scores[nodes], axis=0, weights=weights)
        variance = np.average((scores[nodes] - m) ** 2, axis=0, weights=weights).sum()
        others = m.sum() - m if (m > 0).sum() > 1 else np.zeros_like(m)  # 1 - m
        spread = (m * others).sum()
        r = min(1.0, variance / spread) if spread > 0 else 1.0
        for k in range(labels.n_classes):
            p = r * m[k] + (1 - r) * (counts[k] + 1) / (counts.sum() + labels.n_classes)
            relative = scores[nodes, k] / m[k] if m[k] > 0 else 0.0
            found[nodes, k] = p * (relative - (1 - r))
    return found


def one_round(graph: Graph, labels: Labels, classes: IntArray, n_steps: int) -> FloatArray:
    """Where walks of ``n_steps`` steps end, stopped at labels; no node may be isolated."""
    adjacency = -dense_laplacian(graph)
    np.fill_diagonal(adjacency, 0.0)
    walk = adjacency / graph.degree[:, None]
    walk[labels.nodes] = np.eye(graph.n_nodes)[labels.nodes]
    shares: FloatArray = np.linalg.matrix_power(walk, n_steps) @ np.eye(labels.n_classes)[classes]
    return shares


def evidence(graph: Graph, classes: IntArray) -> float:
    """Kullback-Leibler divergence of the weight within classes from that of random ends."""
    adjacency = -dense_laplacian(graph)
    np.fill_diagonal(adjacency, 0.0)
    kept = sum(adjacency[np.ix_(own, own)].sum() for own in _members(classes)) / adjacency.sum()
    chance = sum((graph.degree[own].sum() / graph.degree.sum()) ** 2 for own in _members(classes))
    pairs = (kept, chance), (1 - kept, 1 - chance)
    return float(sum(p * np.log(p / q) for p, q in pairs if p > 1e-12 and q > 1e-12))


def _members(classes: IntArray):
    """Nodes of every class."""
    return [np.flatnonzero(classes == k) for k in np.unique(classes)]


def _labeled_components(labels: Labels, graph: Graph):
    """Nodes of every component with a label, and how many labels each class has there."""
    for number in np.unique(graph.component[labels.nodes]):
        inside = graph.component[labels.nodes] == number
        counts = np.bincount(labels.classes[inside], minlength=labels.n_classes)
        yield np.flatnonzero(graph.component == number), counts
