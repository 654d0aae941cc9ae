"""Dense spectral comparison of two graphs: the slow, obvious twin of every sparsifier's promise."""

import numpy as np
import scipy.linalg

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph


def relative_spectrum(graph: Graph, sparsifier: Graph) -> FloatArray:
    """Generalized eigenvalues of ``L_sparsifier x = t L_graph x`` on the range of ``L_graph``.

    Both graphs must have the same components; each adds one eigenvalue 1 for its constant vector.
    """
    assert np.array_equal(graph.component, sparsifier.component)
    members = graph.component[:, None] == np.arange(graph.n_components)[None, :]
    # Adding the same multiple of the constants to both sides turns their eigenvalue 0/0 into 1.
    constants = (members / members.sum(axis=0)) @ members.T * graph.degree.mean()
    full = graph.laplacian().toarray() + constants
    sparse = sparsifier.laplacian().toarray() + constants
    return scipy.linalg.eigvalsh(sparse, full)


def spectral_error(graph: Graph, sparsifier: Graph) -> float:
    """Smallest epsilon with ``(1-epsilon) L_graph <= L_sparsifier <= (1+epsilon) L_graph`` (B1)."""
    spectrum = relative_spectrum(graph, sparsifier)
    return float(max(1.0 - spectrum[0], spectrum[-1] - 1.0))


def ridge_error(graph: Graph, sparsifier: Graph, ridge: float) -> float:
    """Smallest epsilon with ``|L_sparsifier - L_graph| <= epsilon (L_graph + ridge I)`` (B2)."""
    full = graph.laplacian().toarray()
    difference = sparsifier.laplacian().toarray() - full
    full[np.diag_indices_from(full)] += ridge
    return float(np.abs(scipy.linalg.eigvalsh(difference, full)).max())
