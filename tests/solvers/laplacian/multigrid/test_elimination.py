"""Elimination and error bounds: no error of an entry is above its bound."""

from fractions import Fraction

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.error_bounds import error_bounds
from peewit.solvers.laplacian.multigrid.elimination import Elimination
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.status import Status
from tests.reference import rational
from tests.solvers.far_apart_graphs import drawn


def exact_solution(
    graph: Graph, shift: np.ndarray, rhs: np.ndarray, *, zero_mean: bool
) -> rational.Rows:
    """Of a connected graph, with zero mean where asked for or free."""
    n_nodes = graph.n_nodes
    matrix = [[Fraction(value) for value in row] for row in _matrix(graph, shift)]
    right = [[Fraction(value)] for value in rhs.tolist()]
    if zero_mean or not shift.any():  # bordered by the constraint and its multiplier
        matrix = [[*row, Fraction(1)] for row in matrix] + [[Fraction(1)] * n_nodes + [Fraction(0)]]
        right.append([Fraction(0)])
    return rational.solved(matrix, right)[:n_nodes]


def _matrix(graph: Graph, shift: np.ndarray) -> rational.Rows:
    matrix = rational.laplacian(graph, np.arange(graph.n_nodes), Fraction(1))
    for node, more in enumerate(shift.tolist()):
        matrix[node][node] += Fraction(more)
    return matrix


@pytest.mark.parametrize("zero_mean", [False, True])
@pytest.mark.parametrize("has_shift", [False, True])
def test_no_error_is_above_its_bound(has_shift: bool, zero_mean: bool) -> None:
    n_checked = 0
    for seed in range(40):
        graph = drawn(seed).graph
        if graph.n_components > 1:
            continue
        rng = np.random.default_rng(seed)
        shift = (rng.random(graph.n_nodes) < 0.3) * 10.0 ** rng.uniform(-9, 9, graph.n_nodes)
        shift = shift if has_shift else np.zeros(graph.n_nodes)
        rhs = rng.integers(-3, 4, graph.n_nodes).astype(float)
        rhs[-1] -= rhs.sum()
        system = Elimination(graph, scale=1.0, shift=shift, zero_mean=zero_mean)
        found = system.solve(rhs[:, None])
        exact = exact_solution(graph, shift, rhs, zero_mean=zero_mean)
        for own, bound, (value,) in zip(found.x[:, 0], found.bound[:, 0], exact, strict=True):
            assert abs(Fraction(float(own)) - value) <= Fraction(float(bound)), seed
            n_checked += 1
    assert n_checked > 200


@pytest.mark.parametrize("has_shift", [False, True])
def test_residuals_and_paths_bound_what_iterations_leave(has_shift: bool) -> None:
    rng = np.random.default_rng(0)
    n_nodes = 300
    nodes = np.arange(n_nodes - 1)
    graph = Graph.from_edges(
        nodes, nodes + 1, 10.0 ** rng.uniform(-3, 3, nodes.size), n_nodes=n_nodes
    )
    shift = np.where(np.arange(n_nodes) % 50 == 7, 1.0, 0.0) if has_shift else np.zeros(n_nodes)
    rhs = rng.normal(size=(n_nodes, 2))
    rhs -= rhs.mean(axis=0)
    true = Elimination(graph, scale=2.0, shift=shift, zero_mean=False).solve(rhs)
    rough = true.x + 1e-3 * rng.normal(size=rhs.shape)
    rough -= 0.0 if has_shift else rough.mean(axis=0)
    for x in (rough, true.x):
        bound = error_bounds(graph, x, rhs, scale=2.0, shift=shift)
        assert (np.abs(x - true.x) <= bound + true.bound).all()
    assert bound.max() < 1e-5 * np.abs(true.x).max()


def test_a_bound_is_infinite_where_a_weight_is_lost() -> None:
    graph = Graph.from_edges([0, 1], [1, 2], [1e-300, 1e300], n_nodes=3)
    solution = LaplacianSolver(graph).solve(np.array([1.0, 0.0, -1.0]))
    assert solution.status is Status.ILL_CONDITIONED
    assert np.isinf(solution.residual).all()


def test_a_cancelled_solve_eliminates_nothing() -> None:
    graph = Graph.from_edges([0, 1], [1, 2], [1.0, 1e-9], n_nodes=3)
    solution = LaplacianSolver(graph).solve(np.array([1.0, 0.0, -1.0]), cancelled=lambda: True)
    assert solution.status is Status.CANCELLED
