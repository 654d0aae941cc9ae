"""Dense twins of the certificate: the whole spectrum of L_H^+ L_G."""

import numpy as np
from scipy.linalg import eigh, null_space

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from tests.reference.laplacian import dense_laplacian


def pencil_spectrum(sparsifier: Graph, graph: Graph) -> FloatArray:
    """Eigenvalues of L_H^+ L_G on the vectors of zero sum on every component of H, ascending."""
    indicator = np.zeros((sparsifier.n_components, sparsifier.n_nodes))
    indicator[sparsifier.component, np.arange(sparsifier.n_nodes)] = 1.0
    basis = null_space(indicator)
    left = basis.T @ dense_laplacian(graph) @ basis
    right = basis.T @ dense_laplacian(sparsifier) @ basis
    return eigh((left + left.T) / 2, (right + right.T) / 2, eigvals_only=True)


def spectral_epsilon(sparsifier: Graph, graph: Graph) -> float:
    """The least epsilon with (1 - epsilon) L_G <= L_H <= (1 + epsilon) L_G."""
    spectrum = 1.0 / pencil_spectrum(sparsifier, graph)
    return float(np.abs(spectrum - 1.0).max(initial=0.0))
