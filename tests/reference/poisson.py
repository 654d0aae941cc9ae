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


def poisson_mbo_shares(graph: Graph, labels: Labels, n_outer: int, n_inner: int) -> FloatArray:
    """Shares of the last walks of PoissonMBO at the sizes of the labels, on a connected graph.

    Offsets are found on a grid: for two classes whose nodes all differ.
    """
    walk = graph.adjacency.toarray() / graph.degree[:, None]
    scores = poisson_scores(graph, labels)
    one_hot = np.eye(labels.n_classes)
    for number in range(n_outer):
        classes = _balanced(scores, labels)
        shares = one_hot[classes]
        by_chance = float((shares.mean(axis=0) ** 2).sum())
        part = (1, 1, 1, 4, 8)[5 * number // n_outer]
        for _ in range(-(-n_inner // part)):
            shares = walk @ shares
            shares[labels.nodes] = one_hot[labels.classes]
            if shares[np.arange(len(shares)), classes].mean() < by_chance + 0.5 * (1 - by_chance):
                break
        scores = shares
    return scores


def _balanced(scores: FloatArray, labels: Labels) -> FloatArray:
    """The first class for its share of the nodes, where most lean to it; labels keep theirs."""
    n_first = round(labels.class_prior()[0] * len(scores))
    classes = np.ones(len(scores), dtype=np.int64)
    classes[np.argsort(scores[:, 1] - scores[:, 0], kind="stable")[:n_first]] = 0
    classes[labels.nodes] = labels.classes
    return classes
