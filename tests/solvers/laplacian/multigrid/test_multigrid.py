"""The hierarchy contracts without loss, and its cycle is a preconditioner on every graph."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.multigrid.hierarchy import MAX_DENSE_NODES, Hierarchy
from peewit.solvers.laplacian.multigrid.multigrid import Multigrid
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.status import Status
from tests.strategies import graphs


def clouds(n_nodes: int, seed: int = 0, *, n_isolated: int = 0) -> Graph:
    """Neighbors on a line of random points, in random order, and a few long edges."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(n_nodes)
    offset = rng.integers(1, 8, 5 * n_nodes)
    u = rng.integers(0, n_nodes, 5 * n_nodes)
    kept = u + offset < n_nodes
    u, v = place[u[kept]], place[(u + offset)[kept]]
    return Graph.from_edges(u, v, rng.lognormal(size=u.size), n_nodes=n_nodes + n_isolated)


def operator_of(graph: Graph, shift: np.ndarray | None = None, scale: float = 1.0):
    shift = np.zeros(graph.n_nodes) if shift is None else shift
    return ShiftedLaplacian.of_graph(
        graph, scale=scale, shift=shift, zero_mean=False, dtype=np.float64
    )


@given(graphs())
def test_renumbering_back_gives_the_graph_again(graph: Graph) -> None:
    order = np.random.default_rng(0).permutation(graph.n_nodes)
    there = graph.renumbered(order)
    np.testing.assert_array_equal(
        there.adjacency.toarray(), graph.adjacency.toarray()[np.ix_(order, order)]
    )
    again = there.renumbered(np.argsort(order))
    np.testing.assert_array_equal(again.adjacency.indices, graph.adjacency.indices)
    np.testing.assert_array_equal(again.adjacency.data, graph.adjacency.data)


@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1], [0, 1, 3]])
def test_a_wrong_order_is_refused(order) -> None:
    graph = Graph.from_edges([0, 1], [1, 2], [1.0, 1.0], n_nodes=3)
    with pytest.raises(ValueError, match="order must"):
        graph.renumbered(np.array(order))


def test_levels_hold_the_weights_between_groups_of_the_nodes() -> None:
    graph = clouds(8_000, n_isolated=7)
    hierarchy = Hierarchy.of_graph(graph)
    assert len(hierarchy.levels) >= 2
    assert hierarchy.levels[-1].n_nodes <= MAX_DENSE_NODES
    np.testing.assert_array_equal(np.sort(hierarchy.order), np.arange(graph.n_nodes))
    group = np.arange(graph.n_nodes)
    u, v, weight = hierarchy.graph.edges()
    for level in hierarchy.levels:
        parent = np.searchsorted(level.first_child, np.arange(group.max() + 1), side="right") - 1
        group = np.where(group >= 0, parent[group], -1)
        group[group >= level.n_nodes] = -1
        between = (group[u] != group[v]) & (group[u] >= 0)
        total = weight[between].sum()
        np.testing.assert_allclose(level.weight.sum() / 2, total, rtol=1e-6)
        assert level.first_child[0] == 0


@pytest.mark.parametrize("has_shift", [False, True])
def test_the_cycle_is_symmetric_and_positive(has_shift: bool) -> None:
    graph = clouds(3_000, n_isolated=3)
    hierarchy = Hierarchy.of_graph(graph)
    shift = np.zeros(graph.n_nodes)
    shift[::100] = 1.0 if has_shift else 0.0
    cycle = Multigrid(operator_of(hierarchy.graph, shift, scale=20.0), hierarchy)
    block = np.random.default_rng(1).standard_normal((graph.n_nodes, 6))
    operator_of(hierarchy.graph, shift).project(block)
    out = np.empty_like(block)
    cycle.apply(block, out)
    gram = block.T @ out
    np.testing.assert_allclose(gram, gram.T, atol=1e-5 * np.abs(gram).max())
    assert np.linalg.eigvalsh(gram).min() > 0


def test_gains_of_the_cycle_without_shift_are_found_once() -> None:
    graph = clouds(15_000)
    hierarchy, free = Hierarchy.of_graph(graph), np.zeros(graph.n_nodes)
    shifted = Multigrid(operator_of(hierarchy.graph, free + 1.0), hierarchy)
    assert not hierarchy.gains
    first = Multigrid(operator_of(hierarchy.graph, free, scale=20.0), hierarchy)
    assert len(hierarchy.gains) == len(hierarchy.levels)
    alone = Multigrid(operator_of(hierarchy.graph, free), replace(hierarchy, gains=[]))
    np.testing.assert_allclose(first._gains, alone._gains, rtol=1e-3)
    hierarchy.gains[:] = [1.25] * len(hierarchy.levels)
    again = Multigrid(operator_of(hierarchy.graph, free), hierarchy)
    assert again._gains == hierarchy.gains
    beside = Multigrid(operator_of(hierarchy.graph, free + 1.0), hierarchy)
    assert beside._gains == shifted._gains


@pytest.mark.parametrize("weight_scale", [1.0, 1e-200, 1e200])
def test_steps_do_not_grow_with_the_graph(weight_scale: float) -> None:
    steps = []
    for n_nodes in (2_000, 15_000):
        graph = clouds(n_nodes)
        scaled = Graph.from_adjacency(graph.adjacency * weight_scale)
        rhs = np.random.default_rng(2).standard_normal((n_nodes, 2))
        solution = LaplacianSolver(scaled, preconditioner="multigrid").solve(rhs, project=True)
        assert solution.status is Status.CONVERGED
        steps.append(solution.n_iter)
    assert steps[1] <= 1.6 * steps[0]


@pytest.mark.slow
def test_jacobi_takes_many_times_the_steps() -> None:
    graph, rhs = clouds(10_000), np.random.default_rng(2).standard_normal(10_000)
    jacobi, multigrid = (
        LaplacianSolver(graph, preconditioner=name, rtol=1e-4).solve(rhs, project=True).n_iter
        for name in ("jacobi", "multigrid")
    )
    assert jacobi > 10 * multigrid


@pytest.mark.slow
def test_components_of_one_node_are_solved_exactly() -> None:
    """Many components, some with a shift: the coarse graphs end in single nodes."""
    rng = np.random.default_rng(0)
    u = np.arange(0, 6_000, 2)
    graph = Graph.from_edges(u, u + 1, rng.lognormal(size=u.size), n_nodes=6_010)
    shift = np.where(np.arange(6_010) % 3 == 0, 1e-3, 0.0)
    rhs = rng.standard_normal((6_010, 2))
    solution = LaplacianSolver(graph, shift=shift, preconditioner="multigrid").solve(
        rhs, project=True
    )
    assert solution.status is Status.CONVERGED
    expected = LaplacianSolver(graph, shift=shift, preconditioner="jacobi").solve(rhs, project=True)
    np.testing.assert_allclose(solution.x, expected.x, atol=1e-5 * np.abs(expected.x).max())


def test_threads_and_one_thread_give_the_same_bits() -> None:
    graph = clouds(20_000)
    rhs = np.random.default_rng(3).standard_normal((graph.n_nodes, 3))
    one = LaplacianSolver(graph, preconditioner="multigrid").solve(rhs, project=True)
    with ThreadPoolExecutor(3) as pool:
        solver = LaplacianSolver(graph, preconditioner="multigrid", parallel=pool.map)
        other = solver.solve(rhs, project=True)
    np.testing.assert_array_equal(one.x, other.x)
    assert one.n_iter == other.n_iter


def test_a_given_hierarchy_is_used_for_every_shift() -> None:
    graph = clouds(5_000)
    hierarchy = Hierarchy.of_graph(graph)
    rhs = np.random.default_rng(4).standard_normal((graph.n_nodes, 2))
    for scale in (1e-3, 1.0, 1e3):
        shift = np.zeros(graph.n_nodes)
        shift[:5] = 1.0
        solver = LaplacianSolver(graph, scale=scale, shift=shift, hierarchy=hierarchy)
        solution = solver.solve(rhs)
        assert solver.hierarchy is hierarchy
        assert (solution.preconditioner, solution.status) == ("multigrid", Status.CONVERGED)
        assert solution.n_iter < 60


@pytest.mark.parametrize("scale", [1e4, 1e6])
def test_a_shift_that_is_light_beside_the_weights_is_no_obstacle(scale: float) -> None:
    graph = clouds(5_000)
    shift = np.zeros(graph.n_nodes)
    shift[:10] = 1.0
    rhs = np.random.default_rng(5).standard_normal((graph.n_nodes, 2))
    solver = LaplacianSolver(graph, scale=scale, shift=shift, preconditioner="multigrid", rtol=1e-6)
    solution = solver.solve(rhs)
    assert solution.status is Status.CONVERGED
    assert solution.n_iter < 40


def test_an_easy_solve_does_not_settle_the_choice() -> None:
    n_nodes = 20_000
    u = np.arange(n_nodes - 1)
    graph = Graph.from_edges(
        np.append(u, n_nodes), np.append(u + 1, n_nodes + 1), np.ones(n_nodes), n_nodes=n_nodes + 2
    )
    solver = LaplacianSolver(graph, rtol=1e-6)
    on_the_pair = np.zeros(graph.n_nodes)
    on_the_pair[-2:] = 1.0, -1.0
    assert solver.solve(on_the_pair).n_iter <= 2
    on_the_path = np.zeros(graph.n_nodes)
    on_the_path[[0, n_nodes - 1]] = 1.0, -1.0
    assert solver.solve(on_the_path).n_iter < 200


def test_nodes_that_a_shift_holds_do_not_hold_their_aggregates() -> None:
    graph = clouds(5_000)
    held = np.arange(0, graph.n_nodes, 40)
    right = np.zeros((graph.n_nodes, 1))
    right[1::40] = 1.0
    steps = []
    for shift in (1e2, 1e12):
        at_held = np.zeros(graph.n_nodes)
        at_held[held] = shift
        solver = LaplacianSolver(graph, shift=at_held, preconditioner="multigrid")
        solution = solver.solve(right)
        assert solution.status is Status.CONVERGED
        steps.append(solution.n_iter)
    free = np.setdiff1d(np.arange(graph.n_nodes), held)
    rows = graph.adjacency[free]
    part = LaplacianSolver(
        Graph.from_adjacency(rows[:, free]),
        shift=rows[:, held].sum(axis=1),
        preconditioner="multigrid",
    ).solve(right[free])
    np.testing.assert_allclose(solution.x[free], part.x, atol=1e-7)
    np.testing.assert_allclose(solution.x[held], 0.0, atol=1e-9)
    assert steps[1] <= 1.3 * part.n_iter


def test_a_cluster_that_light_edges_tie_to_held_nodes_is_solved() -> None:
    """Its mean hardly costs energy: float32 would lose it beside the weights within."""
    cluster = clouds(3_000)
    u, v, weight = cluster.edges()
    light = np.array([1e-6, 1e-6, 2e-6])
    graph = Graph.from_edges(
        np.concatenate([u, [3_000, 3_001, 3_002]]),
        np.concatenate([v, [1, 1_000, 2_000]]),
        np.concatenate([weight, light]),
        n_nodes=3_003,
    )
    shift = np.zeros(3_003)
    shift[3_000:] = 1e12
    rhs = np.zeros((3_003, 1))
    rhs[2_000] = 2e-6
    solution = LaplacianSolver(graph, shift=shift, preconditioner="multigrid").solve(rhs)
    assert solution.status is Status.CONVERGED
    inside = cluster.component[:3_000] == cluster.component[1]
    np.testing.assert_allclose(solution.x[:3_000][inside], 0.5, atol=1e-3)
