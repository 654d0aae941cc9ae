import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.solver import PATIENCE, LaplacianSolver
from peewit.solvers.status import Status
from tests.reference.laplacian import pseudo_inverse, shifted_inverse, zero_sum_projection
from tests.strategies import graphs

NAMES = ("auto", "jacobi", "multigrid", "approx-chol")


def random_rhs(n_nodes: int, n_columns: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n_nodes, n_columns))


def grid(side: int, *, decades: float = 0.0) -> Graph:
    """A square grid with random weights over a number of decades."""
    node = np.arange(side * side).reshape(side, side)
    u = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    v = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    exponent = np.random.default_rng(0).uniform(-decades / 2, decades / 2, u.size)
    return Graph.from_edges(u, v, 10.0**exponent, n_nodes=side * side)


def random_regular(n_nodes: int, degree: int) -> Graph:
    rng = np.random.default_rng(0)
    u = np.tile(np.arange(n_nodes), degree)
    return Graph.from_edges(u, rng.permutation(u), rng.uniform(0.5, 2, u.size), n_nodes=n_nodes)


@pytest.mark.parametrize("name", NAMES)
@given(graph=graphs(), data=st.data(), scale=st.sampled_from([1e-2, 1.0, 50.0]))
def test_solutions_agree_with_the_pseudo_inverse(name, graph, data, scale) -> None:
    level = st.sampled_from([0.0, 0.0, 1e-2, 1.0, 100.0])
    values = data.draw(st.lists(level, min_size=graph.n_nodes, max_size=graph.n_nodes))
    shift, zero_mean = np.array(values), data.draw(st.booleans())
    rhs = random_rhs(graph.n_nodes)
    solver = LaplacianSolver(
        graph, scale=scale, shift=shift, zero_mean=zero_mean, preconditioner=name
    )
    solution = solver.solve(rhs, project=True)
    assert solution.status is Status.CONVERGED
    assert solution.residual.max() <= solver.rtol
    inverse = shifted_inverse(graph, scale=scale, shift=shift, zero_mean=zero_mean)
    # an error is at most the inverse times the residual
    bound = solver.rtol * np.linalg.norm(inverse, 2) * np.linalg.norm(rhs, axis=0).max()
    np.testing.assert_allclose(solution.x, inverse @ rhs, atol=2 * bound)


@pytest.mark.slow
@given(graphs())
def test_every_component_is_solved_by_itself_with_zero_mean(graph: Graph) -> None:
    solution = LaplacianSolver(graph, rtol=1e-10).solve(random_rhs(graph.n_nodes), project=True)
    sums = np.zeros((graph.n_components, 3))
    np.add.at(sums, graph.component, solution.x)
    np.testing.assert_allclose(sums, 0, atol=1e-9 * max(1.0, np.abs(solution.x).max()))
    for number in range(graph.n_components):
        inside = np.flatnonzero(graph.component == number)
        alone = Graph.from_adjacency(graph.adjacency[inside][:, inside])
        part = LaplacianSolver(alone, rtol=1e-10).solve(
            random_rhs(graph.n_nodes)[inside], project=True
        )
        scale = max(1.0, np.abs(part.x).max())
        np.testing.assert_allclose(solution.x[inside], part.x, atol=1e-6 * scale)


@given(graph=graphs(min_nodes=2, connected=True), seed=st.integers(0, 2**32 - 1))
def test_renumbering_nodes_renumbers_solutions(graph: Graph, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(graph.n_nodes)
    rhs = random_rhs(graph.n_nodes)
    renumbered = Graph.from_adjacency(graph.adjacency[order][:, order])
    x = LaplacianSolver(graph, rtol=1e-10).solve(rhs, project=True).x
    other = LaplacianSolver(renumbered, rtol=1e-10).solve(rhs[order], project=True).x
    np.testing.assert_allclose(other, x[order], atol=1e-6 * np.abs(x).max())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shift_share", [0.0, 0.1])
def test_reported_residuals_are_the_true_ones(name: str, shift_share: float) -> None:
    graph = random_regular(3000, 4)
    shift = (np.random.default_rng(1).random(3000) < shift_share).astype(float)
    rhs = random_rhs(3000)
    solver = LaplacianSolver(graph, shift=shift, rtol=1e-6, preconditioner=name)
    solution = solver.solve(rhs, project=True)
    if not shift_share:
        rhs = zero_sum_projection(graph) @ rhs
    left = rhs - graph.laplacian_product(solution.x) - shift[:, None] * solution.x
    residual = np.linalg.norm(left, axis=0) / np.linalg.norm(rhs, axis=0)
    np.testing.assert_allclose(solution.residual, residual, rtol=1e-3)
    assert residual.max() <= 1e-6


def test_one_column_may_be_a_vector() -> None:
    graph = random_regular(100, 4)
    rhs = random_rhs(100)[:, 0]
    solver = LaplacianSolver(graph)
    vector = solver.solve(rhs, project=True)
    block = solver.solve(rhs[:, None], project=True)
    assert vector.x.shape == (100,)
    np.testing.assert_array_equal(vector.x, block.x[:, 0])


def test_zero_columns_have_zero_solutions_beside_others() -> None:
    graph = random_regular(100, 4)
    rhs = random_rhs(100)
    rhs[:, 1] = 0.0
    start = np.ones((100, 3))
    for first in (None, start):
        solution = LaplacianSolver(graph).solve(rhs, first, project=True)
        assert solution.status is Status.CONVERGED
        np.testing.assert_array_equal(solution.x[:, 1], 0.0)
        assert solution.residual[1] == 0.0


def test_graphs_without_edges_or_nodes_are_solved() -> None:
    isolated = Graph.from_edges([], [], [], n_nodes=3)
    np.testing.assert_array_equal(LaplacianSolver(isolated).solve(np.zeros(3)).x, 0.0)
    shifted = LaplacianSolver(isolated, shift=[2.0, 0.0, 1.0]).solve([4.0, 0.0, 1.0])
    np.testing.assert_allclose(shifted.x, [2.0, 0.0, 1.0])
    empty = Graph.from_edges([], [], [], n_nodes=0)
    assert LaplacianSolver(empty).solve(np.zeros((0, 2))).status is Status.CONVERGED
    assert LaplacianSolver(isolated).solve(np.zeros((3, 0))).status is Status.CONVERGED


def test_a_rhs_outside_the_range_is_refused_unless_projected() -> None:
    graph = Graph.from_edges([0, 2], [1, 3], [1.0, 1.0], n_nodes=4)
    rhs = np.array([1.0, -1.0, 2.0, 0.0])
    with pytest.raises(ValueError, match="sum to zero on every component without shift, got a sum"):
        LaplacianSolver(graph).solve(rhs)
    np.testing.assert_allclose(
        LaplacianSolver(graph).solve(rhs, project=True).x, [0.5, -0.5, 0.5, -0.5]
    )
    shifted = LaplacianSolver(graph, shift=[0.0, 0.0, 1.0, 0.0]).solve(rhs)
    np.testing.assert_allclose(shifted.x, [0.5, -0.5, 2.0, 2.0])


@pytest.mark.parametrize("name", ["jacobi", "approx-chol"])
@pytest.mark.parametrize("zero_mean", [False, True])
def test_a_start_near_the_solution_saves_iterations(name: str, zero_mean: bool) -> None:
    graph = grid(40)
    shift = np.zeros(graph.n_nodes)
    shift[::97] = 1.0
    solver = LaplacianSolver(graph, shift=shift, zero_mean=zero_mean, preconditioner=name)
    rhs = random_rhs(graph.n_nodes)
    cold = solver.solve(rhs, project=True)
    assert solver.solve(rhs, cold.x, project=True).n_iter == 0
    near = cold.x + 1e-5 * random_rhs(graph.n_nodes, seed=1) + 3.0 * zero_mean
    warm = solver.solve(rhs, near, project=True)
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-5 * np.abs(cold.x).max())


def test_jacobi_serves_well_connected_graphs() -> None:
    solver = LaplacianSolver(random_regular(2000, 8), rtol=1e-2, dtype=np.float32)
    solution = solver.solve(random_rhs(2000), project=True)
    assert (solution.preconditioner, solver.chosen) == ("jacobi", "jacobi")
    assert solution.n_iter < 15
    assert solution.x.dtype == np.float32


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_stalling_jacobi_is_replaced_and_the_choice_kept(dtype) -> None:
    graph = grid(150, decades=4)
    rhs = random_rhs(graph.n_nodes)
    solver = LaplacianSolver(graph, rtol=1e-5, dtype=dtype)
    first = solver.solve(rhs, project=True)
    assert first.status is Status.CONVERGED
    assert (first.preconditioner, solver.chosen) == ("approx-chol", "approx-chol")
    assert first.n_iter < sum(PATIENCE.values())
    second = solver.solve(rhs, project=True)
    assert second.n_iter < first.n_iter
    assert second.x.dtype == dtype


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_multigrid_serves_large_grids(dtype) -> None:
    graph = grid(150)
    rhs = random_rhs(graph.n_nodes)
    solver = LaplacianSolver(graph, rtol=1e-5, dtype=dtype)
    first = solver.solve(rhs, project=True)
    assert first.status is Status.CONVERGED
    assert (first.preconditioner, solver.chosen) == ("multigrid", "multigrid")
    second = solver.solve(rhs, project=True)
    assert second.n_iter < 20
    assert second.x.dtype == dtype


def test_multigrid_is_passed_over_where_weights_lie_far_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(self: LaplacianSolver, *_: object) -> None:
        raise AssertionError("a cycle was made")

    monkeypatch.setattr(LaplacianSolver, "_cycle", refused)
    side = 60
    graph = grid(side)
    u, v, weight = graph.edges()
    weight[v == u + 1] = 1e9  # rows of heavy edges, joined by light ones
    graph = Graph.from_edges(u, v, weight, n_nodes=side * side)
    rhs = np.repeat(random_rhs(side, 1), side, axis=0)
    solver = LaplacianSolver(graph)
    solution = solver.solve(rhs, project=True)
    assert solver.is_blind
    assert solution.status is Status.CONVERGED
    assert solution.preconditioner == "approx-chol"


def test_hopeless_trials_end_before_the_others() -> None:
    graph = grid(150)
    seen: list[int] = []
    solver = LaplacianSolver(graph)
    solution = solver.solve(
        random_rhs(graph.n_nodes, 1),
        project=True,
        progress=lambda report: seen.append(report.n_iter),
    )
    assert solution.status is Status.CONVERGED
    assert seen.index(1, 1) == 10  # steps of Jacobi, whose forecast is hundreds


def test_jacobi_alone_reports_the_limit_on_a_hard_graph() -> None:
    graph = grid(60, decades=6)
    rhs = random_rhs(graph.n_nodes)
    solution = LaplacianSolver(graph, preconditioner="jacobi", max_iter=200).solve(
        rhs, project=True
    )
    assert solution.status is Status.MAX_ITER
    assert solution.n_iter == 200
    assert solution.residual.max() > 1e-8
    assert np.isfinite(solution.x).all()
    assert LaplacianSolver(graph).solve(rhs, project=True).status is Status.CONVERGED


def test_a_residual_beyond_rounding_is_reported_as_stagnation() -> None:
    """Weights over 14 decades: 1e-13 is below what float64 can reach."""
    n_nodes = 2000
    weight = 10.0 ** np.random.default_rng(0).uniform(-7, 7, n_nodes - 1)
    nodes = np.arange(n_nodes - 1)
    graph = Graph.from_edges(nodes, nodes + 1, weight, n_nodes=n_nodes)
    rhs = np.zeros(n_nodes)
    rhs[0], rhs[-1] = 1.0, -1.0
    for name in ("auto", "approx-chol"):
        solution = LaplacianSolver(graph, rtol=1e-13, preconditioner=name).solve(rhs)
        assert solution.status is Status.STAGNATED
        assert solution.residual[0] > 1e-13
        # and yet the resistance between the ends is right
        resistance = solution.x[0] - solution.x[-1]
        assert resistance == pytest.approx(np.sum(1 / weight), rel=1e-6)


def with_one_more_label(
    n_columns: int, graph: Graph | None = None, rtol: float = 1e-6
) -> tuple[LaplacianSolver, np.ndarray, np.ndarray]:
    """A system, its right-hand sides, and the solution it had before one more label."""
    graph = graph or random_regular(2_000, 4)
    rng = np.random.default_rng(1)
    nodes = rng.choice(graph.n_nodes, 60, replace=False)
    values = np.eye(n_columns)[rng.integers(n_columns, size=nodes.size)]
    answers = []
    for known in (nodes[:-1], nodes):
        shift, rhs = np.zeros(graph.n_nodes), np.zeros((graph.n_nodes, n_columns))
        shift[known] = 1.0
        rhs[known] = values[: known.size] - values[: known.size].mean(axis=0)
        solver = LaplacianSolver(
            graph, scale=0.3, shift=shift, zero_mean=True, rtol=rtol, preconditioner="jacobi"
        )
        answers.append(solver.solve(rhs).x)
    return solver, rhs, answers[0]


@pytest.mark.parametrize("name", NAMES)
def test_one_more_label_costs_two_columns_whatever_the_number_of_classes(name: str) -> None:
    solver, rhs, before = with_one_more_label(8)
    operands = {"scale": solver.scale, "shift": solver.shift, "zero_mean": True, "rtol": 1e-6}
    solver = LaplacianSolver(solver.graph, preconditioner=name, **operands)
    with products() as seen:
        warm = solver.solve(rhs, before)
    widths = [width for width, _ in seen]
    assert (warm.status, widths.count(8)) == (Status.CONVERGED, 1)  # the residual of the start
    assert max(width for width in widths if width != 8) <= 2
    assert (true_residual(solver, rhs, warm.x) <= warm.residual * (1 + 1e-6)).all()
    assert (warm.residual <= 1e-6).all()


@contextmanager
def products() -> Iterator[list[tuple[int, np.dtype]]]:
    """Number of columns and type of every product that is made in here."""
    seen = []
    product = ShiftedLaplacian.product

    def noted(self: ShiftedLaplacian, block: np.ndarray, out: np.ndarray) -> None:
        seen.append((block.shape[1], self.dtype))
        product(self, block, out)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ShiftedLaplacian, "product", noted)
        yield seen


def true_residual(solver: LaplacianSolver, rhs: np.ndarray, x: np.ndarray) -> np.ndarray:
    """By dense algebra, in float64."""
    left = solver.scale * solver.graph.laplacian_product(x) + solver.shift[:, None] * x - rhs
    if solver.zero_mean:
        left = zero_sum_projection(solver.graph) @ left
        rhs = zero_sum_projection(solver.graph) @ rhs
    return np.linalg.norm(left, axis=0) / np.linalg.norm(rhs, axis=0)


def test_steps_in_float32_give_what_is_asked_in_float64() -> None:
    solver, rhs, before = with_one_more_label(8, rtol=1e-7)
    with products() as seen:
        warm = solver.solve(rhs, before)
    assert warm.status is Status.CONVERGED
    n_single = sum(dtype == np.float32 for _, dtype in seen)
    assert n_single > 5 * (len(seen) - n_single)  # only true residuals are taken in float64
    assert (true_residual(solver, rhs, warm.x) <= 1e-7).all()


@pytest.mark.slow
def test_where_float32_comes_to_no_more_float64_goes_on() -> None:
    solver, rhs, before = with_one_more_label(8, grid(40, decades=6.0))
    with products() as seen:
        warm = solver.solve(rhs, before)
    assert [width for width, _ in seen].count(8) == 1  # still for directions
    n_single = sum(dtype == np.float32 for _, dtype in seen)
    n_later = len(seen) - max(i for i, (_, dtype) in enumerate(seen) if dtype == np.float32)
    assert n_later > n_single > 10
    assert warm.status is Status.CONVERGED
    assert (true_residual(solver, rhs, warm.x) <= 1e-6).all()


def test_a_solution_given_as_start_costs_one_product() -> None:
    solver, rhs, _ = with_one_more_label(8)
    once = solver.solve(rhs)
    with products() as seen:
        again = solver.solve(rhs, once.x)
    assert seen == [(8, np.float64)]
    assert (again.status, again.n_iter) == (Status.CONVERGED, 0)
    np.testing.assert_allclose(again.residual, true_residual(solver, rhs, again.x), rtol=1e-3)
    np.testing.assert_allclose(again.x, once.x, rtol=0, atol=1e-14 * np.abs(once.x).max())


@pytest.mark.parametrize("name", NAMES)
def test_blocks_are_overwritten_only_where_that_is_allowed(name: str) -> None:
    system, rhs, before = with_one_more_label(8)
    operands = {"scale": system.scale, "shift": system.shift, "zero_mean": True, "rtol": 1e-6}
    solver = LaplacianSolver(system.graph, preconditioner=name, **operands)
    solver.solve(rhs)  # settles on a preconditioner
    kept = rhs.copy(), before.copy()
    expected = solver.solve(rhs, before)
    np.testing.assert_array_equal(rhs, kept[0])
    np.testing.assert_array_equal(before, kept[1])
    found = solver.solve(rhs, before, overwrite=True)
    np.testing.assert_array_equal(found.x, expected.x)
    assert np.shares_memory(found.x, before) == (name in {"auto", "jacobi", "approx-chol"})


@pytest.mark.parametrize("scale", [1e-20, 1e-9, 1e9, 1e20])
@pytest.mark.parametrize("name", NAMES)
def test_a_common_factor_of_the_matrix_divides_the_solution(name: str, scale: float) -> None:
    graph, shift = grid(20), np.zeros(400)
    shift[::7] = 0.5
    rhs, start = random_rhs(400), random_rhs(400, seed=1)
    plain = LaplacianSolver(graph, shift=shift, preconditioner=name, rtol=1e-10)
    scaled = LaplacianSolver(
        graph, scale=scale, shift=scale * shift, preconditioner=name, rtol=1e-10
    )
    expected, found = plain.solve(rhs, start), scaled.solve(rhs, start / scale)
    assert found.status is expected.status is Status.CONVERGED
    assert abs(found.n_iter - expected.n_iter) <= 2
    np.testing.assert_allclose(scale * found.x, expected.x, atol=1e-8 * np.abs(expected.x).max())


@pytest.mark.slow
def test_weights_are_shared_by_solvers_of_a_graph() -> None:
    graph = random_regular(50, 4)
    for scale in (1.0, 0.3):
        double = LaplacianSolver(graph, scale=scale, preconditioner="jacobi")
        single = LaplacianSolver(graph, scale=scale, preconditioner="jacobi", dtype=np.float32)
        for solver, weight in ((double, graph.adjacency.data), (single, graph.weight_in_single)):
            solver.solve(random_rhs(50), project=True)
            assert np.shares_memory(solver._prepared.operator.weight, weight)
        rounded = double._prepared.operator.in_single()
        assert np.shares_memory(rounded.weight, graph.weight_in_single)
    np.testing.assert_array_equal(
        graph.weight_in_single, graph.adjacency.data.astype(np.float32), strict=True
    )


def test_changes_of_every_column_are_solved_as_a_block() -> None:
    solver, rhs, before = with_one_more_label(8)
    noise = 1e-3 * random_rhs(solver.graph.n_nodes, 8)
    warm, cold = solver.solve(rhs, before + noise), solver.solve(rhs)
    assert warm.status is Status.CONVERGED
    np.testing.assert_allclose(warm.x, cold.x, atol=1e-4 * np.abs(cold.x).max())


def test_a_solve_for_directions_can_be_cut_short() -> None:
    solver, rhs, before = with_one_more_label(8)
    stopped = solver.solve(rhs, before, cancelled=lambda: True)
    assert stopped.status is Status.CANCELLED
    solver.max_iter = 3
    short = solver.solve(rhs, before)
    assert (short.status, short.n_iter) == (Status.MAX_ITER, 3)


@pytest.mark.parametrize("n_columns", [1, 2, 4])
@pytest.mark.parametrize("size", [1e20, 1e60, 1e160, 1e300])
def test_a_start_far_from_everything_is_forgotten(size: float, n_columns: int) -> None:
    """Rounding of it would be more than the answer, and its squares no numbers."""
    graph = random_regular(400, 6)
    rhs, start = np.random.default_rng(0).normal(size=(2, 400, n_columns))
    solution = LaplacianSolver(graph).solve(rhs, size * start, project=True)
    assert solution.status is Status.CONVERGED
    expected = LaplacianSolver(graph).solve(rhs, project=True)
    np.testing.assert_allclose(solution.x, expected.x, atol=1e-6)


def test_a_cancelled_solve_returns_what_it_has() -> None:
    graph = grid(40)
    asked = iter(range(100))
    solution = LaplacianSolver(graph).solve(
        random_rhs(graph.n_nodes), project=True, cancelled=lambda: next(asked) >= 5
    )
    assert solution.status is Status.CANCELLED
    assert 0 < solution.n_iter < 5
    assert 1e-8 < solution.residual.max() <= 1.0


def test_progress_grows_to_the_end() -> None:
    reports: list[ProgressReport] = []
    graph = random_regular(500, 6)
    LaplacianSolver(graph).solve(
        random_rhs(500), project=True, phase="here", progress=reports.append
    )
    assert {report.phase for report in reports} == {"here"}
    assert reports[-1].fraction == 1.0
    assert max(report.fraction for report in reports[: len(reports) // 2]) > 0.1


def test_float32_reaches_what_float32_can() -> None:
    graph = random_regular(300, 6)
    rhs = random_rhs(300)
    solution = LaplacianSolver(graph, rtol=1e-5, dtype=np.float32).solve(rhs, project=True)
    assert solution.status is Status.CONVERGED
    expected = pseudo_inverse(graph.laplacian().toarray()) @ rhs
    np.testing.assert_allclose(solution.x, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("rtol", "dtype"), [(1e-2, np.float32), (1e-5, np.float64)])
def test_multigrid_iterates_in_float32_where_that_reaches_what_is_asked(rtol, dtype) -> None:
    graph, shift = grid(60), np.zeros(3_600)
    shift[::50] = 1e8
    rhs = random_rhs(3_600, 3)
    rhs[::50] = 0.0
    solver = LaplacianSolver(
        graph, shift=shift, rtol=rtol, preconditioner="multigrid", dtype=np.float32
    )
    solution = solver.solve(rhs)
    assert solution.status is Status.CONVERGED
    assert solver.cycle.operator.dtype == dtype
    assert solution.x.dtype == np.float32
    exact = LaplacianSolver(graph, shift=shift, rtol=1e-10).solve(rhs).x
    apart = np.linalg.norm(solution.x - exact, axis=0) / np.linalg.norm(exact, axis=0)
    assert apart.max() < 5 * rtol


def test_columns_do_not_feel_each_other() -> None:
    graph = random_regular(500, 6)
    rhs = random_rhs(500, 4)
    solver = LaplacianSolver(graph, rtol=1e-10)
    together = solver.solve(rhs, project=True).x
    alone = solver.solve(rhs[:, 2], project=True).x
    np.testing.assert_allclose(together[:, 2], alone, atol=1e-8 * np.abs(alone).max())


def test_solves_in_two_threads_equal_solves_in_one() -> None:
    graph = random_regular(2000, 6)
    blocks = [random_rhs(2000, 3, seed) for seed in range(6)]

    def solve(rhs: np.ndarray) -> np.ndarray:
        return LaplacianSolver(graph).solve(rhs, project=True).x

    serial = [solve(rhs) for rhs in blocks]
    with ThreadPoolExecutor(2) as pool:
        for one, other in zip(serial, pool.map(solve, blocks), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("processes")
def test_results_do_not_depend_on_the_number_of_threads() -> None:
    program = """
import hashlib
import numpy as np
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.effective_resistance import resistance_embedding
from peewit.solvers.laplacian.solver import LaplacianSolver
rng = np.random.default_rng(0)
n_nodes = 20_000
u = np.tile(np.arange(n_nodes), 3)
graph = Graph.from_edges(u, rng.permutation(u), rng.uniform(0.5, 2, u.size), n_nodes=n_nodes)
shift = (rng.random(n_nodes) < 0.01).astype(float)
for name in ("jacobi", "approx-chol"):
    solver = LaplacianSolver(graph, shift=shift, preconditioner=name)
    x = solver.solve(rng.standard_normal((n_nodes, 4)), project=True).x
    print(hashlib.sha256(x.tobytes()).hexdigest())
    embedding = resistance_embedding(
        *graph.edges(), np.arange(graph.n_edges, dtype=np.uint64),
        n_nodes=n_nodes, n_probes=8, seed=0, preconditioner=name,
    )
    print(hashlib.sha256(embedding.vectors.tobytes()).hexdigest())
"""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **dict.fromkeys(names, n_threads)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n_threads in ("1", "2")
    }
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scale": 0.0}, "scale must be finite and > 0, got 0.0"),
        ({"scale": np.inf}, "scale must be finite and > 0, got inf"),
        ({"rtol": 0.0}, r"rtol must lie in \(0, 1\), got 0.0"),
        ({"max_iter": 0}, "max_iter must be >= 1, got 0"),
        ({"preconditioner": "magic"}, "one of auto, jacobi, multigrid, approx-chol, got 'magic'"),
        ({"dtype": np.float16}, "dtype must be float64 or float32, got float16"),
        ({"shift": [1.0]}, r"shift must have shape \(2,\), got \(1,\)"),
        ({"shift": [0.0, -1.0]}, "shift must be finite and >= 0, got -1.0 at node 1"),
        ({"shift": [np.nan, 1.0]}, "shift must be finite and >= 0, got nan at node 0"),
    ],
)
def test_bad_settings_are_refused(settings, message) -> None:
    graph = Graph.from_edges([0], [1], [1.0], n_nodes=2)
    with pytest.raises(ValueError, match=message):
        LaplacianSolver(graph, **settings)


@pytest.mark.parametrize(
    ("rhs", "start", "message"),
    [
        (np.zeros(3), None, r"rhs must have shape \(2,\) or \(2, k\), got \(3,\)"),
        (np.array([np.nan, 0.0]), None, "rhs must be finite"),
        (np.zeros(2), np.zeros((2, 2)), "start must have the shape of rhs"),
        (np.zeros(2), np.array([np.inf, 0.0]), "start must be finite"),
    ],
)
def test_bad_blocks_are_refused(rhs, start, message) -> None:
    graph = Graph.from_edges([0], [1], [1.0], n_nodes=2)
    with pytest.raises(ValueError, match=message):
        LaplacianSolver(graph).solve(rhs, start)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("of_weights", "of_rhs"), [(-700, 0), (900, 0), (0, -900), (-500, 400)])
def test_units_at_the_ends_of_the_range_change_nothing(name, of_weights: int, of_rhs: int) -> None:
    plain = grid(40, decades=3.0)
    scaled = Graph.from_adjacency(plain.adjacency * 2.0**of_weights)
    rhs = random_rhs(plain.n_nodes)
    one = LaplacianSolver(plain, preconditioner=name, rtol=1e-10).solve(rhs, project=True)
    other = LaplacianSolver(scaled, preconditioner=name, rtol=1e-10).solve(
        np.ldexp(rhs, of_rhs), project=True
    )
    assert other.status is one.status is Status.CONVERGED
    back = np.ldexp(other.x, of_weights - of_rhs)
    np.testing.assert_allclose(back, one.x, atol=1e-8 * np.abs(one.x).max())
