"""The spectral embedding of a graph: features for models that want some and have a graph only."""

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.status import Status, first_failure

EMBEDDED = "spectral embedding"
"""Stats entry ``input`` of a solve that embedded the graph."""

_DENSE_NODES = 400
_RTOL = 1e-8
_TOLERANCE = 1e-7
_MAX_RESTARTS = 100
_ACCURACY = 1e-4
"""Allowed error of inner products of points, relative to the largest of them."""


def spectral_embedding(graph: Graph, n_dimensions: int, watch: Watch) -> tuple[FloatArray, Status]:
    """Eigenvectors of the normalized Laplacian to its least eigenvalues above 0, as coordinates.

    The eigenvalues 0, one per component, are left out: they only tell components apart.

    Parameters
    ----------
    n_dimensions : int
        At most ``n_nodes - n_components`` are there.

    Returns
    -------
    (n_nodes, n_dimensions) float64, Status
        Column i is D^{-1/2} v_i / sqrt(lambda_i), so that squared distances are the part of the
        commute times (over the volume) that these eigenvectors carry. Signs are arbitrary.

    Notes
    -----
    Dense up to 400 nodes. Above, Lanczos on D^{1/2} L^+ D^{1/2}, whose greatest eigenvalues are
    well apart where the least ones of the Laplacian are not: a few Laplacian solves per dimension.
    """
    n_nonzero = graph.n_nodes - graph.n_components
    wanted = min(n_dimensions, n_nonzero)
    root = np.sqrt(graph.degree)
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    if wanted == 0:
        return np.zeros((graph.n_nodes, 1)), Status.CONVERGED
    if graph.n_nodes <= max(_DENSE_NODES, wanted + 2):
        watch.step(EMBEDDED, 0, 1)
        matrix = graph.laplacian().toarray() * np.outer(inverse, inverse)
        values, vectors = np.linalg.eigh(matrix + _trivial_part(graph, root))
        watch.step(EMBEDDED, 1, 1)
        rounding = graph.n_nodes * float(np.finfo(np.float64).eps)
        # rounding over the least eigenvalue is what the farthest points are wrong by, relatively
        is_known = bool(_ACCURACY * values[0] > rounding)
        greatest = 1.0 / np.maximum(values[:wanted], rounding)
        vectors = vectors[:, :wanted]
        status = Status.CONVERGED if is_known else Status.ILL_CONDITIONED
    else:
        greatest, vectors, status = _largest_of_inverse(graph, root, wanted, watch)
    return inverse[:, None] * vectors * np.sqrt(greatest), status


def _trivial_part(graph: Graph, root: FloatArray) -> FloatArray:
    """A matrix whose addition moves the eigenvalues 0 to 3, above all others."""
    matrix = np.diag(np.where(root > 0, 0.0, 3.0))
    for number in np.flatnonzero(graph.component_sizes() > 1):
        inside = np.flatnonzero(graph.component == number)
        vector = root[inside] / np.linalg.norm(root[inside])
        matrix[np.ix_(inside, inside)] += 3.0 * np.outer(vector, vector)
    return matrix


def _largest_of_inverse(
    graph: Graph, root: FloatArray, wanted: int, watch: Watch
) -> tuple[FloatArray, FloatArray, Status]:
    """Eigenpairs of the pseudo-inverse of the normalized Laplacian, greatest first."""
    solver = LaplacianSolver(graph, rtol=_RTOL)
    volume = np.bincount(graph.component, graph.degree, graph.n_components)
    volume[volume == 0] = 1.0
    basis = min(graph.n_nodes, max(2 * wanted + 1, 20))
    n_products, ended = 0, Status.CONVERGED

    def center(vector: FloatArray) -> FloatArray:
        sums = np.bincount(graph.component, root * vector, graph.n_components) / volume
        return vector - root * sums[graph.component]

    def product(vector: FloatArray) -> FloatArray:
        nonlocal n_products, ended
        watch.step(EMBEDDED, n_products, 3 * basis)
        n_products += 1
        answer = solver.solve(root * center(vector.ravel()), project=True)
        if answer.status is not Status.CONVERGED:
            ended = answer.status
        return center(root * answer.x)

    operator = LinearOperator((graph.n_nodes, graph.n_nodes), product, dtype=np.float64)
    first = np.random.default_rng(0).standard_normal(graph.n_nodes)
    try:
        values, vectors = eigsh(
            operator,
            wanted,
            which="LA",
            v0=center(first),
            ncv=basis,
            tol=_TOLERANCE,
            maxiter=_MAX_RESTARTS,
        )
    except ArpackNoConvergence as error:
        values, vectors, ended = error.eigenvalues, error.eigenvectors, Status.MAX_ITER
    watch.step(EMBEDDED, n_products, n_products)
    if solver.is_blind:
        ended = first_failure(ended, Status.ILL_CONDITIONED)
    order = np.argsort(values)[::-1]
    return np.maximum(values[order], 0.0), vectors[:, order], ended
