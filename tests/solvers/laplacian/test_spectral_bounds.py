from functools import partial

import numpy as np
import pytest
from hypothesis import given

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import iterate
from peewit.solvers.laplacian.preconditioned_chebyshev import Chebyshev
from peewit.solvers.laplacian.preconditioners import ApproximateCholesky, Jacobi
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.spectral_bounds import Lanczos, SpectralBounds, bounds_of_ritz_values
from peewit.solvers.status import Status
from tests.reference.laplacian import dense_laplacian, pseudo_inverse, zero_sum_projection
from tests.strategies import graphs
from tests.streaming.graphs import heavy_tailed, random_graph, two_communities

RUN = partial(iterate, phase="test")


def operator_of(graph: Graph) -> ShiftedLaplacian:
    return ShiftedLaplacian.of_graph(
        graph, scale=1.0, shift=np.zeros(graph.n_nodes), zero_mean=False, dtype=np.float64
    )


def bounds_of(graph: Graph, kind=Jacobi) -> SpectralBounds:
    operator = operator_of(graph)
    lanczos = Lanczos(operator=operator, preconditioner=kind(operator), seed=0)
    return bounds_of_ritz_values(RUN(lanczos, max_iter=500))


def nonzero_spectrum(graph: Graph, kind=Jacobi) -> np.ndarray:
    """Eigenvalues of L^(1/2) M^-1 L^(1/2) without the null space, from dense matrices."""
    inverse = np.empty((graph.n_nodes, graph.n_nodes))
    kind(operator_of(graph)).apply(np.eye(graph.n_nodes), inverse)
    values, vectors = np.linalg.eigh(dense_laplacian(graph))
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    spectrum = np.linalg.eigvalsh(root @ inverse @ root)
    return spectrum[graph.n_components :]


@pytest.mark.parametrize("kind", [Jacobi, ApproximateCholesky])
@pytest.mark.parametrize(
    "edges",
    [
        random_graph(300, 0.1, seed=0),
        two_communities(300, 0.3, 1, seed=0),
        heavy_tailed(300, 0.1, seed=0),
    ],
    ids=["random", "communities", "heavy-tailed"],
)
def test_bounds_hold_the_spectrum_and_little_more(kind, edges) -> None:
    graph = edges.graph()
    bounds = bounds_of(graph, kind)
    spectrum = nonzero_spectrum(graph, kind)
    assert bounds.status is Status.CONVERGED
    assert spectrum[0] / 2 < bounds.lowest < spectrum[0] * 1.05
    assert spectrum[-1] * 0.95 < bounds.highest < spectrum[-1] * 1.1


@given(graphs(max_nodes=12))
def test_bounds_hold_for_every_small_graph(graph: Graph) -> None:
    if graph.n_edges:
        bounds, spectrum = bounds_of(graph), nonzero_spectrum(graph)
        assert bounds.lowest <= spectrum[0] * (1 + 1e-6)
        assert bounds.highest >= spectrum[-1] * (1 - 1e-6)


@pytest.mark.slow
def test_hardly_a_seed_overlooks_a_weak_cut() -> None:
    """Its direction is one part in 400 of a random vector, and of some much less."""
    graph = two_communities(400, 0.3, 3, seed=0).graph()
    operator, spectrum = operator_of(graph), nonzero_spectrum(graph)
    assert spectrum[0] < 1e-3 * spectrum[1]
    jacobi = Jacobi(operator)
    for seed in range(200):
        lanczos = Lanczos(operator=operator, preconditioner=jacobi, seed=seed)
        assert bounds_of_ritz_values(RUN(lanczos, max_iter=500)).lowest < spectrum[0]


def test_well_connected_graphs_need_a_dozen_steps() -> None:
    assert bounds_of(random_graph(1000, 0.05, seed=0).graph()).n_iter <= 12


def test_a_graph_without_edges_has_bounds() -> None:
    bounds = bounds_of(Graph.from_edges([], [], [], n_nodes=3))
    assert bounds.status is Status.CONVERGED
    assert 0 < bounds.lowest < bounds.highest


@pytest.mark.parametrize("rtol", [0.1, 1e-4])
def test_chebyshev_reduces_every_direction_alike(rtol: float) -> None:
    graph = two_communities(200, 0.3, 1, seed=0).graph()
    operator = operator_of(graph)
    inverse = pseudo_inverse(dense_laplacian(graph))
    directions = np.linalg.eigh(dense_laplacian(graph))[1][:, 1:]
    method = Chebyshev(
        operator=operator,
        preconditioner=Jacobi(operator),
        rhs=np.ascontiguousarray(directions),
        bounds=bounds_of(graph),
        rtol=rtol,
    )
    exact = inverse @ directions
    outcome = RUN(method, max_iter=1000)
    assert outcome.status is Status.CONVERGED
    assert outcome.n_iter == method.bounds.n_chebyshev_steps(rtol)
    missed = zero_sum_projection(graph) @ (outcome.state.iterate - exact)
    energy = np.einsum("ij,ij->j", missed, operator_product(operator, missed))
    whole = np.einsum("ij,ij->j", exact, operator_product(operator, exact))
    assert np.sqrt(energy / whole).max() <= rtol


def operator_product(operator: ShiftedLaplacian, block: np.ndarray) -> np.ndarray:
    out = np.empty_like(block)
    operator.product(np.ascontiguousarray(block), out)
    return out


@pytest.mark.parametrize(("lowest", "highest"), [(0.9, 1.1), (0.7, 1.2)])
def test_wrong_bounds_are_noticed_and_widened(lowest: float, highest: float) -> None:
    graph = random_graph(100, 0.2, seed=0).graph()
    operator = operator_of(graph)
    rhs = zero_sum_projection(graph) @ np.random.default_rng(0).standard_normal((100, 3))
    method = Chebyshev(
        operator=operator,
        preconditioner=Jacobi(operator),
        rhs=rhs.copy(),
        bounds=SpectralBounds(lowest=lowest, highest=highest, status=Status.CONVERGED, n_iter=0),
        rtol=1e-3,
    )
    outcome = RUN(method, max_iter=1000)
    assert outcome.status is Status.CONVERGED
    assert outcome.state.n_cycles > 1
    left = rhs - operator_product(operator, outcome.state.iterate)
    assert np.linalg.norm(left) <= 3e-3 * np.linalg.norm(rhs)


def test_bounds_beyond_repair_end_as_stagnation() -> None:
    graph = random_graph(100, 0.2, seed=0).graph()
    operator = operator_of(graph)
    rhs = zero_sum_projection(graph) @ np.random.default_rng(0).standard_normal((100, 3))
    method = Chebyshev(
        operator=operator,
        preconditioner=Jacobi(operator),
        rhs=rhs,
        bounds=SpectralBounds(lowest=1e-3, highest=0.5, status=Status.CONVERGED, n_iter=0),
        rtol=1e-3,
    )
    assert RUN(method, max_iter=1000).status is Status.STAGNATED
