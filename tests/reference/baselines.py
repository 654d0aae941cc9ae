"""Dense twins of the baselines, straight from section D.5, on a connected graph or features."""

import numpy as np
import scipy.linalg
from scipy.interpolate import interp1d

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from tests.reference.laplacian import dense_laplacian


def shortest_paths(graph: Graph) -> FloatArray:
    """Floyd-Warshall, an edge being 1 / weight long."""
    adjacency = graph.adjacency.toarray()
    with np.errstate(divide="ignore"):
        distance = 1.0 / adjacency
    np.fill_diagonal(distance, 0.0)
    for middle in range(graph.n_nodes):
        distance = np.minimum(distance, distance[:, [middle]] + distance[[middle]])
    return distance


def row_distances(features: FloatArray) -> FloatArray:
    return np.sqrt(((features[:, None] - features[None]) ** 2).sum(axis=2))


def nearest_classes(distance: FloatArray, labels: Labels) -> list[set[int]]:
    """Classes of the labeled nodes nearest to each node; several where they are equally near."""
    to_labels = distance[:, labels.nodes]
    return [
        set(labels.classes[np.isclose(row, row.min(), rtol=1e-9, atol=1e-9)].tolist())
        for row in to_labels
    ]


def commute_times(graph: Graph) -> FloatArray:
    """Resistances, from the pseudo-inverse."""
    inverse = np.linalg.pinv(dense_laplacian(graph), hermitian=True)
    diagonal = np.diag(inverse)
    return diagonal[:, None] + diagonal[None] - 2.0 * inverse


def eigfun_scores(
    rotated: FloatArray, labels: Labels, *, n_functions: int, n_bins: int, width: float
) -> FloatArray:
    """EigFun on coordinates that are rotated already, matrix by matrix, label weight 100."""
    found = []
    for column in rotated.T:
        low, high = np.quantile(column, [0.025, 0.975])
        edges = np.linspace(low, high, n_bins + 1)
        bins = np.clip(np.searchsorted(edges, column, side="right") - 1, 0, n_bins - 1)
        p = np.array([(bins == number).mean() for number in range(n_bins)]) + 0.01
        p /= p.sum()
        P = np.diag(p)
        c = (edges[1:] + edges[:-1]) / 2
        W = np.exp(-((c[:, None] - c[None]) ** 2) / (2 * width**2))
        D_tilde = np.diag((P @ W @ P).sum(axis=1))
        D_hat = np.diag((P @ W).sum(axis=0))
        sigma, g = scipy.linalg.eigh(D_tilde - P @ W @ P, P @ D_hat)  # real on every processor
        for number in range(1, sigma.size):
            values = interp1d(
                c, g[:, number], bounds_error=False, fill_value=(g[0, number], g[-1, number])
            )(column)
            found.append((sigma[number], values / np.linalg.norm(values)))
    found.sort(key=lambda pair: pair[0])
    sigma = np.array([value for value, _ in found[:n_functions]])
    U = np.stack([values for _, values in found[:n_functions]], axis=1)
    Lam = np.zeros((len(rotated), len(rotated)))
    Lam[labels.nodes, labels.nodes] = 100.0
    y = np.zeros((len(rotated), labels.n_classes))
    y[labels.nodes] = labels.targets() - labels.class_prior()
    alpha = np.linalg.solve(np.diag(sigma) + U.T @ Lam @ U, U.T @ Lam @ y)
    return U @ alpha + labels.class_prior()


def simple_hfs_scores(
    features: FloatArray, labels: Labels, *, n_functions: int, width: float
) -> FloatArray:
    """Least squares on the leading eigenvectors of the whole kernel."""
    K = np.exp(-(row_distances(features) ** 2) / (2 * width**2))
    _, vectors = np.linalg.eigh(K)
    phi = vectors[:, ::-1][:, :n_functions]
    centred = labels.targets() - labels.class_prior()
    alpha, *_ = np.linalg.lstsq(phi[labels.nodes], centred, rcond=None)
    return phi @ alpha + labels.class_prior()
