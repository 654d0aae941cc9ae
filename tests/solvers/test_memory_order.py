"""Memory order: a permutation that brings neighbors together, and changes no answer."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings

from peewit.solvers import graph as graph_module
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.clusters import propagate_clusters
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian import solver as solver_module
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.laplacian.walks.neighbor_means import NeighborMeans
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.memory_order import memory_order
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.poisson.poisson_mbo import PoissonMBO
from tests.strategies import graphs


def communities(n_nodes: int = 2_000, size: int = 50, seed: int = 0) -> Graph:
    """Blocks under shuffled numbers, with a tenth of the edges between them."""
    rng = np.random.default_rng(seed)
    u = rng.integers(0, n_nodes, 8 * n_nodes)
    v = u // size * size + rng.integers(0, size, u.size)
    far = rng.random(u.size) < 0.1
    v[far] = rng.integers(0, n_nodes, np.count_nonzero(far))
    name, apart = rng.permutation(n_nodes), u != v
    return Graph.from_edges(
        name[u[apart]], name[v[apart]], rng.uniform(0.5, 2.0, apart.sum()), n_nodes=n_nodes
    )


def distance(graph: Graph) -> float:
    """Median difference of the numbers of two neighbors."""
    u, v, _ = graph.edges()
    return float(np.median(v - u))


@given(graphs())
@settings(max_examples=50)
def test_every_node_has_one_place(graph: Graph) -> None:
    order = memory_order(graph.adjacency)
    np.testing.assert_array_equal(np.sort(order), np.arange(graph.n_nodes))
    np.testing.assert_array_equal(order, memory_order(graph.adjacency))


def test_neighbors_come_near_each_other() -> None:
    graph = communities()
    assert distance(graph) > 400
    assert distance(graph.renumbered(memory_order(graph.adjacency))) < 50


def test_roads_are_laid_out_along_themselves() -> None:
    rng = np.random.default_rng(0)
    node = np.arange(90_000).reshape(300, 300)
    u = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    v = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    name = rng.permutation(node.size)
    graph = Graph.from_edges(name[u], name[v], np.ones(u.size), n_nodes=node.size)
    assert distance(graph.renumbered(memory_order(graph.adjacency))) < 600 < distance(graph)


@pytest.mark.parametrize("most", [10, 80, 10_000])
def test_clusters_keep_to_their_bound_and_to_their_neighbors(most: int) -> None:
    graph = communities()
    cluster = np.arange(graph.n_nodes, dtype=np.int32)
    size = np.ones(graph.n_nodes, np.int32)
    adjacency = graph.adjacency
    propagate_clusters(adjacency.indptr, adjacency.indices, cluster, size, most, 5)
    np.testing.assert_array_equal(size, np.bincount(cluster, minlength=graph.n_nodes))
    assert size.max() <= most
    u, v, _ = graph.edges()
    if most >= 50:
        assert (cluster[u] == cluster[v]).mean() > 0.7


def test_small_graphs_stay_as_they_are() -> None:
    assert communities().near_in_memory is None


def test_both_precisions_share_a_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "LEAST_ORDERED", 100)
    for single_first in (True, False):
        graph = communities()
        near = graph.near_in_memory
        assert near is not None
        single, double = (
            (near.in_single, near.graph) if single_first else (near.graph, near.in_single)[::-1]
        )
        assert single is not None
        assert single.adjacency.data.dtype == np.float32
        assert double.adjacency.data.dtype == np.float64
        assert np.shares_memory(single.adjacency.indices, double.adjacency.indices)
        np.testing.assert_array_equal(single.adjacency.data, double.weight_in_single)
        np.testing.assert_allclose(single.degree, double.degree, rtol=1e-14)
        near.forget_graph()
        assert near.in_single is single
        assert near.graph is not double


def test_a_graph_goes_with_its_last_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "LEAST_ORDERED", 100)
    graph = communities()
    near = graph.near_in_memory
    assert near is not None
    assert near.in_single is not None
    gone = weakref.ref(graph)
    gc.disable()
    try:
        del graph, near
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_weights_out_of_range_stay_in_double(factor: float, monkeypatch) -> None:
    monkeypatch.setattr(graph_module, "LEAST_ORDERED", 100)
    plain = communities()
    graph = Graph.from_adjacency(plain.adjacency * factor)
    near = graph.near_in_memory
    assert near is not None
    assert not graph.fits_single
    assert graph.in_single is None
    assert near.in_single is None
    block = np.random.default_rng(3).normal(size=(plain.n_nodes, 6)).astype(np.float32)
    walked, expected = np.empty((2, *block.shape), np.float32)
    NeighborMeans.of(graph, map).step(block, walked)
    NeighborMeans.of(plain, map).step(block, expected)
    np.testing.assert_allclose(walked, expected, rtol=1e-4, atol=1e-6)
    filtered = PersonalizedPageRank.of_graph(graph).filtered(block, 0.1)
    np.testing.assert_allclose(
        filtered, PersonalizedPageRank.of_graph(plain).filtered(block, 0.1), atol=1e-5
    )


def test_a_solver_orders_nodes_once_its_products_are_worth_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (graph_module, solver_module):
        monkeypatch.setattr(module, "LEAST_ORDERED", 100)
    right = np.random.default_rng(1).normal(size=(communities().n_nodes, 20))
    block = LaplacianSolver(graph := communities(), rtol=1e-6)
    block.solve(right, project=True)
    assert graph.known_order is not None  # a block is worth it at once
    single = LaplacianSolver(graph := communities(), rtol=1e-6)
    expected = single.solve(right[:, 0], project=True)
    assert expected.preconditioner == "jacobi"
    assert graph.known_order is None
    for _ in range(99 // expected.n_iter + 1):
        found = single.solve(right[:, 0], project=True)
    assert graph.known_order is not None
    np.testing.assert_allclose(found.x, expected.x, atol=1e-5 * np.abs(expected.x).max())


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> Graph:
    """A graph that counts as large, beside which the same one is not."""
    graph = communities()
    monkeypatch.setattr(graph_module, "LEAST_ORDERED", 100)
    near = graph.near_in_memory
    assert near is not None
    assert (near.graph.adjacency != graph.adjacency[near.order][:, near.order]).nnz == 0
    monkeypatch.undo()
    return graph


def test_linear_solves_are_those_in_the_given_order(ordered: Graph) -> None:
    plain = communities()
    rng = np.random.default_rng(1)
    right, shift = rng.normal(size=(plain.n_nodes, 3)), rng.uniform(0.0, 1.0, plain.n_nodes)
    for settings_ in ({}, {"shift": shift}, {"shift": shift, "zero_mean": True}):
        found, expected = (
            LaplacianSolver(graph, rtol=1e-10, preconditioner="jacobi", **settings_).solve(
                right, project=True
            )
            for graph in (ordered, plain)
        )
        np.testing.assert_allclose(found.x, expected.x, atol=1e-8)


def test_pagerank_is_that_in_the_given_order(ordered: Graph) -> None:
    found, expected = (PersonalizedPageRank.of_graph(graph) for graph in (ordered, communities()))
    np.testing.assert_allclose(found.inverse_root, expected.inverse_root)
    block = np.random.default_rng(2).normal(size=(ordered.n_nodes, 4))
    for teleport in (0.05, 0.5, 1.0):
        np.testing.assert_allclose(
            found.filtered(block, teleport), expected.filtered(block, teleport), atol=1e-5
        )


@pytest.mark.parametrize("model", [Auto(), HarmonicMBO(), PoissonMBO()])
def test_models_answer_alike(ordered: Graph, model) -> None:
    plain = communities()
    nodes = np.arange(0, plain.n_nodes, 40)
    labels = Labels.from_pairs(nodes, (nodes // 40 % 3).tolist())
    found, expected = (
        model.solve(model.prepare(graph), labels).scores for graph in (ordered, plain)
    )
    agree = found.argmax(axis=1) == expected.argmax(axis=1)
    assert agree.mean() > 0.98  # ties of walks in single precision go either way
