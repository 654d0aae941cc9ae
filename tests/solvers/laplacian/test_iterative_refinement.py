"""Refined solves: the error that they state is the error that they have."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.inner_products import (
    cross_products,
    gaussian_edge_sums,
    subtract_combination,
)
from peewit.solvers.laplacian.iterative_refinement import RefinedSolver
from tests.reference.laplacian import dense_laplacian, pseudo_inverse


def random_graph(n_nodes: int = 120, *, decades: float = 0.0, seed: int = 0) -> Graph:
    """Two components and an isolated node, weights over some orders of magnitude."""
    rng = np.random.default_rng(seed)
    half = n_nodes // 2
    u, v = rng.integers(0, half, (2, 4 * n_nodes))
    part = half * rng.integers(0, 2, 4 * n_nodes)
    weight = 10.0 ** rng.uniform(-decades / 2, decades / 2, 4 * n_nodes)
    return Graph.from_edges(u + part, v + part, weight, n_nodes=2 * half + 1)


def path(n_nodes: int) -> Graph:
    ends = np.arange(n_nodes - 1)
    weight = 10.0 ** np.random.default_rng(0).uniform(-2, 2, n_nodes - 1)
    return Graph.from_edges(ends, ends + 1, weight, n_nodes=n_nodes)


def right_sides(graph: Graph, n_columns: int = 5) -> FloatArray:
    block = np.random.default_rng(1).standard_normal((graph.n_nodes, n_columns))
    return graph.laplacian_product(block)


@pytest.mark.parametrize("name", ["random", "heavy", "path"])
def test_stated_error_is_the_true_error_in_the_energy_norm(name: str) -> None:
    graph = {
        "random": random_graph(),
        "heavy": random_graph(decades=6.0, seed=1),
        "path": path(400),
    }[name]
    rhs = right_sides(graph)
    laplacian = dense_laplacian(graph)
    exact = pseudo_inverse(laplacian) @ rhs
    solved = RefinedSolver(graph, rtol=1e-7).solve(rhs)
    wrong = solved.x - exact
    true_error = np.sqrt(np.sum(wrong * (laplacian @ wrong), axis=0))
    scale = np.sqrt(np.sum(exact * rhs, axis=0))
    assert (solved.error <= 1e-7 * scale).all()
    assert (true_error <= solved.error + 1e-10 * scale).all()
    assert np.allclose(solved.product, laplacian @ solved.x, atol=1e-9 * np.abs(rhs).max())


def test_who_runs_the_parts_changes_no_bit() -> None:
    """Of products large enough to be parted."""
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, 3_000, (2, 80_000))
    graph = Graph.from_edges(u, v, rng.uniform(0.5, 2.0, u.size), n_nodes=3_000)
    rhs, n_mapped = right_sides(graph, 8), 0
    serial = [RefinedSolver(graph).solve(rhs) for _ in range(2)]
    with ThreadPoolExecutor(3) as pool:

        def mapped(task: Callable[[int], Any], parts: Iterable[int]) -> Iterable[Any]:
            nonlocal n_mapped
            n_mapped += 1
            return pool.map(task, parts)

        parallel = RefinedSolver(graph, parallel=mapped).solve(rhs)
    assert n_mapped > 10
    for other in (serial[1], parallel):
        assert np.array_equal(other.x, serial[0].x)
        assert np.array_equal(other.error, serial[0].error)


@pytest.mark.parametrize("seed", [180, 208])
def test_a_small_eigenvalue_of_a_mixing_graph_lets_no_column_run_away(seed: int) -> None:
    """Float32 stalls beside weak shifts at a few nodes; the answer is in float64 then."""
    rng = np.random.default_rng(seed)
    n_nodes, degree = int(rng.choice([100, 150, 300, 1000])), int(rng.choice([4, 8]))
    u, v = rng.integers(0, n_nodes, (2, n_nodes * degree))
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=n_nodes)
    shift, n_labels = np.zeros(n_nodes), int(rng.choice([1, 2, 3, 6]))
    labeled = rng.integers(0, n_nodes, n_labels)
    shift[labeled] = rng.random(n_labels) * 10.0 ** rng.uniform(-3, 1)
    rhs = rng.standard_normal((n_nodes, int(rng.choice([3, 6, 10, 32]))))
    solved = RefinedSolver(graph, shift=shift).solve(rhs)
    assert (solved.error <= 2e-6 * np.sqrt((solved.x * rhs).sum(axis=0))).all()
    left = rhs - graph.laplacian_product(solved.x) - shift[:, None] * solved.x
    assert np.linalg.norm(left) <= 1e-6 * np.linalg.norm(rhs)


def test_zero_columns_have_the_zero_solution() -> None:
    graph = random_graph()
    rhs = right_sides(graph, 3)
    rhs[:, 1] = 0.0
    solved = RefinedSolver(graph).solve(rhs)
    assert not solved.x[:, 1].any()
    assert solved.error[1] == 0.0


def test_cancelled_solve_ends_and_says_how_far_it_is() -> None:
    graph = path(2_000)
    rhs = right_sides(graph, 2)
    solved = RefinedSolver(graph, cancelled=lambda: True).solve(rhs)
    assert (solved.error > 0).all() or not solved.x.any()


def test_sums_over_edges_have_the_laplacian_as_covariance() -> None:
    graph = path(5)
    adjacency = graph.adjacency
    sums = np.empty((5, 40_001))
    gaussian_edge_sums(adjacency.indptr, adjacency.indices, adjacency.data, np.uint64(7), sums)
    laplacian = dense_laplacian(graph)
    deviation = np.sqrt(np.outer(laplacian.diagonal(), laplacian.diagonal()) / sums.shape[1])
    assert (np.abs(sums @ sums.T / sums.shape[1] - laplacian) < 6 * deviation).all()
    edge = sums[0] / np.sqrt(laplacian[0, 0])
    assert abs(np.mean(edge**4) - 3.0) < 0.2
    again = np.empty_like(sums)
    gaussian_edge_sums(adjacency.indptr, adjacency.indices, adjacency.data, np.uint64(8), again)
    assert not np.array_equal(again, sums)


@pytest.mark.slow
def test_samples_prefer_no_direction_of_the_energy_norm() -> None:
    graph = random_graph(10)
    solver = RefinedSolver(graph)
    drawn = np.hstack([solver.sample(100, seed=seed).x for seed in range(50)])  # quicker than one
    laplacian = dense_laplacian(graph)
    covariance = drawn @ drawn.T / 5_000
    values, vectors = np.linalg.eigh(laplacian)
    inside = vectors[:, values > 1e-9] * np.sqrt(values[values > 1e-9])
    assert np.allclose(inside.T @ covariance @ inside, np.eye(inside.shape[1]), atol=0.1)


def test_products_of_blocks_are_those_of_matrices() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((9_000, 3)), rng.standard_normal((9_000, 2))
    product = cross_products(left, right)
    assert np.allclose(product, left.T @ right)
    block = right.copy()
    subtract_combination(block, left, product)
    assert np.allclose(block, right - left @ (left.T @ right))


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"rtol must lie in \(0, 1\), got 0"):
        RefinedSolver(path(3), rtol=0)
