"""Points of nodes that need no labels: ends of the spectrum, and degrees near a node."""

import numpy as np
import pytest
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.laplacian.adjacency_spectrum import rank_of, spectral_subspace
from peewit.solvers.laplacian.structural_points import fourier_points, structural_rows
from peewit.solvers.laplacian.walks.adjacency_product import AdjacencyProduct
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank


def random_graph(n_nodes: int, n_edges: int, seed: int, scale: float = 1.0) -> Graph:
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, n_nodes, (2, n_edges))
    is_edge = u != v
    weight = scale * np.exp(rng.normal(size=n_edges))
    return Graph.from_edges(u[is_edge], v[is_edge], weight[is_edge], n_nodes=n_nodes)


def blocks(n_nodes: int, inside: float, seed: int = 0) -> tuple[Graph, FloatArray]:
    """Two blocks, and the share of edges that stay inside one."""
    rng = np.random.default_rng(seed)
    side = rng.permutation(np.arange(n_nodes) % 2)
    u, v = rng.integers(0, n_nodes, (2, 60 * n_nodes))
    keeps = rng.random(u.size) < np.where(side[u] == side[v], inside, 1.0 - inside)
    keeps &= u != v
    u, v = u[keeps][: 8 * n_nodes], v[keeps][: 8 * n_nodes]
    return Graph.from_edges(u, v, np.ones(u.size), n_nodes=n_nodes), side


def dense_kernel(graph: Graph) -> FloatArray:
    """Inner products of the rows of U |Lambda|^2 of unit length."""
    adjacency = graph.adjacency.toarray().astype(np.float64)
    root = 1.0 / np.sqrt(graph.degree + graph.degree.mean())
    values, vectors = np.linalg.eigh(root[:, None] * adjacency * root)
    largest = np.argsort(-np.abs(values))[: rank_of(graph.n_nodes)]
    rows = vectors[:, largest] * values[largest] ** 2
    length = np.linalg.norm(rows, axis=1)
    rows /= np.maximum(length, 0.1 * np.median(length))[:, None]
    return rows @ rows.T


def points_of(graph: Graph) -> FloatArray:
    pagerank = PersonalizedPageRank.of_graph(graph)
    return spectral_subspace(graph, pagerank).points().astype(np.float64)


@pytest.mark.parametrize("dense", [0, 400])
@pytest.mark.parametrize("scale", [1.0, 1e-60, 1e60])
def test_points_become_those_of_a_dense_decomposition(
    monkeypatch: pytest.MonkeyPatch, scale: float, dense: int
) -> None:
    monkeypatch.setattr("peewit.solvers.laplacian.adjacency_spectrum._ENOUGH", 0.0)
    monkeypatch.setattr("peewit.solvers.laplacian.adjacency_spectrum._MOST_ROUNDS", 400)
    monkeypatch.setattr("peewit.solvers.laplacian.adjacency_spectrum._DENSE_NODES", dense)
    graph = random_graph(200, 1_600, 3, scale)
    points = points_of(graph)
    assert points.shape == (200, rank_of(200)) == (200, 24)
    assert np.allclose(points @ points.T, dense_kernel(random_graph(200, 1_600, 3)), atol=2e-3)


@pytest.mark.parametrize("inside", [0.9, 0.1])
def test_points_tell_two_sides_whether_like_meets_like_or_not(inside: float) -> None:
    graph, side = blocks(1_000, inside)
    points = points_of(graph)
    kernel = points @ points.T
    same = side[:, None] == side
    assert kernel[same].mean() > kernel[~same].mean() + 0.1


def test_points_do_not_depend_on_the_unit_of_weights_or_on_memory_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, other = random_graph(500, 3_000, 1), random_graph(500, 3_000, 1, 1e5)
    assert np.allclose(points_of(graph), points_of(other), atol=1e-4)
    monkeypatch.setattr("peewit.solvers.graph.LEAST_ORDERED", 1)
    ordered = random_graph(500, 3_000, 1)
    assert ordered.near_in_memory is not None
    mine, theirs = points_of(graph), points_of(ordered)
    assert np.allclose(mine @ mine.T, theirs @ theirs.T, atol=1e-3)


@pytest.mark.parametrize("n_nodes", [0, 1, 2, 5])
def test_tiny_and_empty_graphs_have_points(n_nodes: int) -> None:
    graph = Graph.from_edges(*np.zeros((2, 0), np.int64), np.zeros(0), n_nodes=n_nodes)
    pagerank = PersonalizedPageRank.of_graph(graph)
    points = spectral_subspace(graph, pagerank).points()
    assert points.shape == (n_nodes, n_nodes // 3)
    assert not points.any()
    assert not structural_rows(graph).any()


def test_isolated_nodes_are_at_the_origin() -> None:
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], np.ones(4), n_nodes=9)
    points = points_of(graph)
    assert not points[5:].any()
    assert np.isfinite(points).all()


def test_structural_rows_are_those_of_a_dense_twin() -> None:
    graph = random_graph(300, 900, 5)
    adjacency = graph.adjacency.toarray().astype(np.float64)
    degree = adjacency.sum(axis=1)
    walk = adjacency / np.where(degree > 0, degree, 1.0)[:, None]
    own = np.log1p(degree / adjacency[adjacency > 0].mean())
    own -= own.mean()
    near = walk @ own
    spread = np.sqrt(np.maximum(walk @ own**2 - near**2, 0.0))
    expected = np.stack([own, near, spread, walk @ near], axis=1)
    expected = (expected - expected.mean(axis=0)) / expected.std(axis=0)
    for scale in (1.0, 1e-50, 1e50):
        scaled = Graph.from_adjacency(sp.csr_array(scale * adjacency))
        rows = structural_rows(scaled)
        assert np.allclose(rows, expected, atol=1e-3)


def test_a_regular_graph_has_no_roles() -> None:
    ring = np.arange(50)
    graph = Graph.from_edges(ring, np.roll(ring, 1), np.ones(50), n_nodes=50)
    assert np.allclose(structural_rows(graph), 0.0, atol=1e-3)


def test_fourier_points_approach_a_gaussian_kernel() -> None:
    rows = np.random.default_rng(2).standard_normal((40, 4)).astype(np.float32)
    points = fourier_points(rows).astype(np.float64)
    assert np.allclose(np.square(points).sum(axis=1), 1.0, atol=1e-5)
    squares = np.square(rows[:, None] - rows).sum(axis=2)
    assert np.abs(points @ points.T - np.exp(-squares / 8.0)).mean() < 0.12


def test_products_are_those_of_the_scaled_matrix() -> None:
    graph = random_graph(80, 300, 8)
    scale = np.random.default_rng(1).random(80) + 0.5
    product = AdjacencyProduct(PersonalizedPageRank.of_graph(graph), scale)
    block = np.random.default_rng(2).standard_normal((80, 3)).astype(np.float32)
    expected = scale[:, None] * (graph.adjacency @ (scale[:, None] * block))
    assert np.allclose(product.by_node(product.times(product.in_order(block))), expected, atol=1e-4)


def test_somebody_may_stop_it() -> None:
    graph = random_graph(100, 400, 1)
    with pytest.raises(RunStopped):
        spectral_subspace(
            graph, PersonalizedPageRank.of_graph(graph), watch=Watch(cancelled=lambda: True)
        )
