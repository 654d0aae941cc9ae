"""Dense twins of the posterior variance, by inversion and as Gaussian-process regression."""

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Targets
from tests.reference.laplacian import dense_laplacian, pseudo_inverse


def variance_by_inversion(graph: Graph, labels: Targets, kappa: float) -> FloatArray:
    """Diagonal of (L + I_S / kappa)^-1, or of L_UU^-1 for kappa = 0; infinite without a label."""
    laplacian = dense_laplacian(graph)
    variance = np.full(graph.n_nodes, np.inf)
    for number in np.unique(graph.component[labels.nodes]):
        nodes = np.flatnonzero(graph.component == number)
        is_labeled = np.isin(nodes, labels.nodes)
        block = laplacian[np.ix_(nodes, nodes)]
        if kappa == 0:
            free = nodes[~is_labeled]
            variance[nodes[is_labeled]] = 0.0
            variance[free] = np.diag(np.linalg.inv(block[np.ix_(~is_labeled, ~is_labeled)]))
        else:
            variance[nodes] = np.diag(np.linalg.inv(block + np.diag(is_labeled / kappa)))
    return variance


def variance_by_conditioning(graph: Graph, labels: Targets, kappa: float) -> FloatArray:
    """Of a connected graph: kernel regression with a free constant (universal kriging)."""
    kernel = pseudo_inverse(dense_laplacian(graph))
    cross = kernel[:, labels.nodes]
    inverse = np.linalg.inv(
        kernel[np.ix_(labels.nodes, labels.nodes)] + kappa * np.eye(len(cross.T))
    )
    fit_of_ones = 1.0 - cross @ inverse.sum(axis=1)
    known = np.einsum("ij,jk,ik->i", cross, inverse, cross)
    variance: FloatArray = np.diag(kernel) - known + fit_of_ones**2 / inverse.sum()
    return variance
