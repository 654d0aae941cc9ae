"""Dense twins of Poisson learning and PoissonMBO, straight from section H.1."""

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from tests.reference.laplacian import dense_laplacian


def poisson_scores(graph: Graph, labels: Labels) -> FloatArray:
    """(H1) on each component; classes without label there below all others; else the prior."""
    laplacian = dense_laplacian(graph)
    scores = np.tile(labels.class_prior(), (graph.n_nodes, 1))
    absent = np.zeros(scores.shape, dtype=bool)
    targets = labels.targets()
    for number in np.unique(graph.component[labels.nodes]):
        nodes = np.flatnonzero(graph.component == number)
        inside = graph.component[labels.nodes] == number
        sources = np.zeros((graph.n_nodes, labels.n_classes))
        sources[labels.nodes[inside]] = targets[inside] - targets[inside].mean(axis=0)
        block = laplacian[np.ix_(nodes, nodes)]
        potential = np.linalg.pinv(block, rcond=1e-13, hermitian=True) @ sources[nodes]
        degree = graph.degree[nodes]
        if degree.sum() > 0:
            potential -= degree @ potential / degree.sum()
        scores[nodes] = potential
        absent[np.ix_(nodes, np.flatnonzero(targets[inside].sum(axis=0) == 0))] = True
    reached = np.isin(graph.component, graph.component[labels.nodes])
    scores[absent] = -(np.abs(scores[reached]).max() or 1.0)
    return scores


def random_walk_form(graph: Graph, labels: Labels, n_steps: int) -> FloatArray:
    """(H2) on a connected graph: u <- u + D^-1 (b - L u), from 0."""
    laplacian = dense_laplacian(graph)
    sources = np.zeros((graph.n_nodes, labels.n_classes))
    sources[labels.nodes] = labels.targets() - labels.class_prior()
    potential = np.zeros_like(sources)
    for _ in range(n_steps):
        potential = potential + (sources - laplacian @ potential) / graph.degree[:, None]
    return potential


def poisson_mbo_scores(graph: Graph, labels: Labels, n_outer: int, n_inner: int) -> FloatArray:
    """PoissonMBO with free class sizes on a connected graph: all rounds, no early end."""
    laplacian = dense_laplacian(graph)
    sources = np.zeros((graph.n_nodes, labels.n_classes))
    sources[labels.nodes] = labels.targets() - labels.class_prior()
    step = 1.0 / graph.degree.max()
    scores = poisson_scores(graph, labels)
    for _ in range(n_outer):
        scores = np.eye(labels.n_classes)[scores.argmax(axis=1)]
        for _ in range(n_inner):
            scores = scores - step * (laplacian @ scores - sources)
    return scores
