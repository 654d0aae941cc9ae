"""Fits of labels under quadratic penalties, in a kernel's space and on the graph: dense twins."""

import numpy as np
import pytest

from solvers.gram.feature_maps import GramFactor
from solvers.laplacian.solver import LaplacianSolver
from solvers.solution import Status
from solvers.variation.label_fit import GraphInverse, LabelFit, PenaltyInverse, SpaceInverse
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
        shift = np.full(N_NODES, PULL)
        return GraphInverse(LaplacianSolver(problem.graph, scale=ENERGY, shift=shift), PULL), dense
    space = GramFactor.of(problem.space("polynomial"))
    inverse = SpaceInverse(space, problem.graph, norm_penalty=NORM, graph_penalty=ENERGY, pull=PULL)
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
    if isinstance(inverse, SpaceInverse):
        expected = np.linalg.solve(dense, PULL * values)
        np.testing.assert_allclose(inverse.nearest(values), expected, atol=1e-6)
    else:
        assert inverse.status is Status.CONVERGED


def test_a_fit_without_loss_is_the_smoothing(problem, where, values) -> None:
    inverse, dense = penalties(problem, where)
    fit = LabelFit.of(
        inverse, problem.nodes, problem.targets, N_NODES, loss="none", label_weight=3.0
    )
    found, intercepts, status = fit.nearest(values)
    np.testing.assert_allclose(found, np.linalg.solve(dense, PULL * values), atol=1e-6)
    assert not intercepts.any()
    assert status is Status.CONVERGED


@pytest.mark.parametrize("label_weight", [0.1, 1.0, 50.0])
def test_squares_are_least_in_closed_form(problem, where, values, label_weight) -> None:
    inverse, dense = penalties(problem, where)
    fit = LabelFit.of(
        inverse,
        problem.nodes,
        problem.targets,
        N_NODES,
        loss="squared",
        label_weight=label_weight,
    )
    before = values.copy()
    found, intercepts, _ = fit.nearest(values)
    np.testing.assert_array_equal(values, before)
    pulled, matrix = PULL * values, dense.copy()
    pulled[problem.nodes] += label_weight * problem.targets
    matrix[problem.nodes, problem.nodes] += label_weight
    np.testing.assert_allclose(found, np.linalg.solve(matrix, pulled), atol=1e-6)
    assert not intercepts.any()


@pytest.mark.parametrize("label_weight", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("margin", [1.0, 0.5])
@pytest.mark.parametrize("offset", [None, np.array([0.3, -0.8])], ids=["free", "given"])
def test_hinges_are_those_of_a_quadratic_program(
    problem, where, values, label_weight, margin, offset
) -> None:
    inverse, dense = penalties(problem, where)
    fit = LabelFit.of(
        inverse,
        problem.nodes,
        problem.targets,
        N_NODES,
        loss="hinge",
        label_weight=label_weight,
        offset=offset,
        margin=margin,
    )
    found, intercepts, status = fit.nearest(values)
    assert status is Status.CONVERGED
    twin = Composite(
        graph=problem.graph,
        quadratic=dense,
        linear=PULL * values,
        hinge=Hinge(
            nodes=problem.nodes,
            targets=problem.targets,
            weight=label_weight,
            margin=margin,
            offset=offset,
        ),
    )
    expected, free = twin.solution()
    np.testing.assert_allclose(found, expected, atol=1e-4)
    least = twin.value(expected, free)
    assert twin.value(found, intercepts) == pytest.approx(least, abs=1e-6, rel=1e-6)
    assert offset is None or not intercepts.any()


def test_more_labels_than_are_solved_for_at_once(where) -> None:
    """Kernel columns are made 64 at a time."""
    problem = small(4, n_nodes=100, n_labeled=70)
    shift = np.full(100, PULL)
    inverse = GraphInverse(LaplacianSolver(problem.graph, scale=ENERGY, shift=shift), PULL)
    dense = ENERGY * laplacian_power(problem.graph, "combinatorial", 1) + PULL * np.eye(100)
    if where == "space":
        space = GramFactor.of(problem.space("linear"))
        inverse = SpaceInverse(
            space, problem.graph, norm_penalty=NORM, graph_penalty=ENERGY, pull=PULL
        )
    told: list[tuple[int, int]] = []
    fit = LabelFit.of(
        inverse,
        problem.nodes,
        problem.targets,
        100,
        loss="squared",
        label_weight=2.0,
        teller=lambda done, total: told.append((done, total)),
    )
    whole = inverse.apply(np.eye(100))[np.ix_(problem.nodes, problem.nodes)]
    np.testing.assert_allclose(fit.kernel, whole, atol=1e-6)
    np.testing.assert_array_equal(fit.kernel, fit.kernel.T)
    assert told == [(0, 70), (64, 70), (70, 70)]
    if where == "graph":
        expected = np.linalg.inv(dense)[np.ix_(problem.nodes, problem.nodes)]
        np.testing.assert_allclose(whole, expected, atol=1e-6)
