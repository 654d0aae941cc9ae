"""Dense twins of the harmonic models, straight from section D, component by component."""

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels, Targets
from tests.reference.laplacian import dense_laplacian


def hfs_scores(graph: Graph, labels: Targets, graph_penalty: float) -> FloatArray:
    """(D1) for a penalty of 0, else (D2); the mean label where no label lies."""
    laplacian = dense_laplacian(graph)
    scores = np.tile(labels.mean_target(), (graph.n_nodes, 1))
    for nodes, rows, targets in _labeled_components(graph, labels):
        block = laplacian[np.ix_(nodes, nodes)]
        local = np.searchsorted(nodes, rows)
        is_labeled = np.isin(np.arange(nodes.size), local)
        if graph_penalty == 0:
            free = ~is_labeled
            values = np.zeros((nodes.size, labels.n_columns))
            values[local] = targets
            pull = -block[np.ix_(free, is_labeled)] @ values[is_labeled]
            values[free] = np.linalg.solve(block[np.ix_(free, free)], pull)
        else:
            matrix = graph_penalty * labels.n_labeled * block + np.diag(is_labeled.astype(float))
            values = np.linalg.solve(matrix, _extended(nodes.size, local, targets))
        scores[nodes] = values
    return scores


def stable_hfs_scores(graph: Graph, labels: Targets, graph_penalty: float) -> FloatArray:
    """(D3) on each component with labels; the mean label elsewhere. Numbers keep their mean."""
    laplacian = dense_laplacian(graph)
    overall = labels.mean_target()
    scores = np.tile(overall, (graph.n_nodes, 1))
    for nodes, rows, targets in _labeled_components(graph, labels):
        local = np.searchsorted(nodes, rows)
        mean = targets.mean(axis=0)
        f = stable_hfs_d3(
            laplacian[np.ix_(nodes, nodes)], local, targets - mean, graph_penalty * labels.n_labeled
        )
        scores[nodes] = f + mean - (overall if isinstance(labels, Labels) else 0.0)
    return scores


def stable_hfs_d3(
    laplacian: FloatArray, labeled: np.ndarray, centred: FloatArray, kappa: float
) -> FloatArray:
    """u = M^-1 y, v = M^-1 1, f = u - mu v with mu = (1^T u) / (1^T v)."""
    n_nodes = len(laplacian)
    matrix = kappa * laplacian
    matrix[labeled, labeled] += 1.0
    u = np.linalg.solve(matrix, _extended(n_nodes, labeled, centred))
    v = np.linalg.solve(matrix, np.ones((n_nodes, 1)))
    return u - v * (u.sum(axis=0) / v.sum())


def stable_hfs_d4(
    laplacian: FloatArray, labeled: np.ndarray, centred: FloatArray, kappa: float
) -> FloatArray:
    """(P M P)^+ y."""
    n_nodes = len(laplacian)
    matrix = kappa * laplacian
    matrix[labeled, labeled] += 1.0
    projection = np.eye(n_nodes) - 1.0 / n_nodes
    inner = np.linalg.pinv(projection @ matrix @ projection, rcond=1e-13, hermitian=True)
    return inner @ _extended(n_nodes, labeled, centred)


def stable_hfs_kkt(
    laplacian: FloatArray, labeled: np.ndarray, centred: FloatArray, kappa: float
) -> FloatArray:
    """Stationarity with a multiplier for 1^T f = 0, as one bordered system."""
    n_nodes = len(laplacian)
    matrix = kappa * laplacian
    matrix[labeled, labeled] += 1.0
    bordered = np.block([[matrix, np.ones((n_nodes, 1))], [np.ones((1, n_nodes)), 0.0]])
    rhs = np.vstack([_extended(n_nodes, labeled, centred), np.zeros((1, centred.shape[1]))])
    return np.linalg.solve(bordered, rhs)[:n_nodes]


def _extended(n_nodes: int, labeled: np.ndarray, values: FloatArray) -> FloatArray:
    block = np.zeros((n_nodes, values.shape[1]))
    block[labeled] = values
    return block


def _labeled_components(graph: Graph, labels: Targets):
    """Nodes, labeled nodes and their targets of every component with a label."""
    targets = labels.targets()
    for number in np.unique(graph.component[labels.nodes]):
        inside = graph.component[labels.nodes] == number
        yield np.flatnonzero(graph.component == number), labels.nodes[inside], targets[inside]


def ends_at_other_folds(graph: Graph, labels: Labels, fold: np.ndarray) -> FloatArray:
    """(K15) walk by walk: shares of the classes at which walks from a label end, of other folds.

    Even shares where no walk does, and for labels of the fold -1.
    """
    adjacency = graph.adjacency.toarray()
    degree = adjacency.sum(axis=1)
    degree[degree == 0] = 1.0
    step = adjacency / degree[:, None]
    is_labeled = np.zeros(graph.n_nodes, bool)
    is_labeled[labels.nodes] = True
    free = np.flatnonzero(~is_labeled & np.isin(graph.component, graph.component[labels.nodes]))
    ends = np.zeros((graph.n_nodes, labels.n_labeled))
    ends[labels.nodes, np.arange(labels.n_labeled)] = 1.0
    inner = np.eye(free.size) - step[np.ix_(free, free)]
    ends[free] = np.linalg.solve(inner, step[np.ix_(free, labels.nodes)])
    shares = np.full((labels.n_labeled, labels.n_classes), 1.0 / labels.n_classes)
    for place, node in enumerate(labels.nodes.tolist()):
        if fold[place] < 0:
            continue
        counted = (step[node] @ ends) * (fold != fold[place])
        if counted.sum() > 0:
            of_classes = np.bincount(labels.classes, counted, labels.n_classes)
            shares[place] = of_classes / of_classes.sum()
    return shares
