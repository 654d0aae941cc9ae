"""Quadratic penalties and hinges under them, in a kernel's space and on the graph: dense twins."""

import numpy as np
import pytest

from peewit.solvers.gram.feature_spaces import GramFactor
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.status import Status
from peewit.solvers.variation.hinge_fit import HingeFit
from peewit.solvers.variation.penalty_inverses import GraphInverse, PenaltyInverse, SpaceInverse
from tests.reference.kernel_machines import laplacian_power
from tests.reference.variation import Composite, Hinge
from tests.solvers.machines import Small, small

PULL, NORM, ENERGY = 0.7, 0.3, 0.2
N_NODES = 24


def penalties(problem: Small, where: str) -> tuple[PenaltyInverse, np.ndarray]:
    """A penalty's inverse, and the penalty as a dense matrix."""
    laplacian = laplacian_power(problem.graph, "combinatorial", 1)
    dense = ENERGY * laplacian + PULL * np.eye(N_NODES)
    if where == "graph":
        return GraphInverse(problem.graph, graph_penalty=ENERGY, pull=PULL), dense
    space = GramFactor(problem.space("polynomial"))
    inverse = SpaceInverse.of(
        space, problem.graph, norm_penalty=NORM, graph_penalty=ENERGY, pull=PULL
    )
    gram = problem.space("polynomial").values(np.eye(N_NODES))
    return inverse, dense + NORM * np.linalg.inv(gram)


@pytest.fixture(params=["graph", "space"])
def where(request) -> str:
    return request.param


@pytest.fixture
def problem() -> Small:
    return small(3, n_nodes=N_NODES, n_labeled=8, n_functions=2)


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(N_NODES, 2))


def test_inverses_are_those_of_the_dense_penalty(problem, where, values) -> None:
    inverse, dense = penalties(problem, where)
    np.testing.assert_allclose(inverse.apply(values), np.linalg.solve(dense, values), atol=1e-6)
    assert inverse.pull == PULL
    assert inverse.status is Status.CONVERGED
    if isinstance(inverse, SpaceInverse):
        expected = np.linalg.solve(dense, PULL * values)
        np.testing.assert_allclose(inverse.nearest(values), expected, atol=1e-6)


@pytest.mark.parametrize("weight", [0.1, 1.0, 50.0])
def test_squares_are_added_at_their_nodes(problem, where, values, weight) -> None:
    inverse, dense = penalties(problem, where)
    more = inverse.with_squares(problem.nodes, weight)
    at_nodes = np.zeros((N_NODES, N_NODES))
    at_nodes[problem.nodes, problem.nodes] = weight
    np.testing.assert_allclose(
        more.apply(values), np.linalg.solve(dense + at_nodes, values), atol=1e-6
    )
    twice = more.with_squares(problem.nodes, weight)
    np.testing.assert_allclose(
        twice.apply(values), np.linalg.solve(dense + 2.0 * at_nodes, values), atol=1e-6
    )
    np.testing.assert_allclose(inverse.apply(values), np.linalg.solve(dense, values), atol=1e-6)
    assert more.pull == PULL


def test_solves_that_begin_where_the_last_ended_are_as_good(problem, values) -> None:
    inverse, dense = penalties(problem, "graph")
    first = inverse.apply(values)
    kept = first.copy()
    for factor in (1.01, -3.0, 0.0):
        expected = np.linalg.solve(dense, factor * values)
        np.testing.assert_allclose(inverse.apply(factor * values), expected, atol=1e-6)
    narrow = np.linalg.solve(dense, values[:, :1])
    np.testing.assert_allclose(inverse.apply(values[:, :1]), narrow, atol=1e-6)
    np.testing.assert_array_equal(first, kept)


def test_a_solve_on_the_graph_ends_when_asked_to(problem, values) -> None:
    inverse = GraphInverse(
        problem.graph,
        graph_penalty=ENERGY,
        pull=PULL,
        watch=Watch(progress=None, cancelled=lambda: True),
    )
    with pytest.raises(RunStopped):
        inverse.apply(values)


@pytest.mark.parametrize("label_weight", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("margin", [1.0, 0.5])
def test_hinges_are_those_of_a_quadratic_program(
    problem, where, values, label_weight, margin
) -> None:
    inverse, dense = penalties(problem, where)
    fit = HingeFit.of(
        inverse, problem.nodes, problem.targets, N_NODES, label_weight=label_weight, margin=margin
    )
    residual, intercepts, status = fit.residual(values)
    found = inverse.apply(residual)
    assert status is Status.CONVERGED
    twin = Composite(
        graph=problem.graph,
        quadratic=dense,
        linear=PULL * values,
        hinge=Hinge(
            nodes=problem.nodes, targets=problem.targets, weight=label_weight, margin=margin
        ),
    )
    expected, free = twin.solution()
    np.testing.assert_allclose(found, expected, atol=1e-4)
    least = twin.value(expected, free)
    assert twin.value(found, intercepts) == pytest.approx(least, abs=1e-6, rel=1e-6)


def test_more_labels_than_are_solved_for_at_once(where) -> None:
    """Kernel columns are made 64 at a time."""
    problem = small(4, n_nodes=100, n_labeled=70)
    inverse: PenaltyInverse = GraphInverse(problem.graph, graph_penalty=ENERGY, pull=PULL)
    dense = ENERGY * laplacian_power(problem.graph, "combinatorial", 1) + PULL * np.eye(100)
    if where == "space":
        space = GramFactor(problem.space("linear"))
        inverse = SpaceInverse.of(
            space, problem.graph, norm_penalty=NORM, graph_penalty=ENERGY, pull=PULL
        )
    told: list[tuple[int, int]] = []
    fit = HingeFit.of(
        inverse,
        problem.nodes,
        problem.targets,
        100,
        label_weight=2.0,
        on_step=lambda done, total: told.append((done, total)),
    )
    whole = inverse.apply(np.eye(100))[np.ix_(problem.nodes, problem.nodes)]
    np.testing.assert_allclose(fit.kernel, whole, atol=1e-6)
    np.testing.assert_array_equal(fit.kernel, fit.kernel.T)
    assert told == [(0, 70), (64, 70), (70, 70)]
    if where == "graph":
        expected = np.linalg.inv(dense)[np.ix_(problem.nodes, problem.nodes)]
        np.testing.assert_allclose(whole, expected, atol=1e-6)
