"""The finite Newton method against its dense twin, scikit-learn, and identities."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize_scalar
from sklearn.svm import LinearSVC

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import RunStopped
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.linear import finite_newton
from peewit.solvers.linear.finite_newton import (
    ROUGH_RTOL,
    RTOL,
    Hinges,
    LinearPoint,
    LinearProblem,
    minimize,
)
from peewit.solvers.status import Status
from tests.reference.kernel_machines import laplacian_power
from tests.reference.linear_machines import DenseMachine, ridge
from tests.solvers.linear_problems import in_memory, small, twin

PENALTIES = [1.0, 1e-2, 1e-4]


def both_sides(seed: int, n_rows: int) -> Hinges:
    """Costs on either side, on both and on none."""
    rng = np.random.default_rng(seed)
    positive, negative = rng.random((2, n_rows)) / n_rows
    positive[rng.random(n_rows) < 0.3] = 0.0
    negative[rng.random(n_rows) < 0.3] = 0.0
    return Hinges(positive=positive, negative=negative)


def random_graph(seed: int, n_nodes: int) -> Graph:
    rng = np.random.default_rng(seed)
    weight = rng.random((n_nodes, n_nodes)) * (rng.random((n_nodes, n_nodes)) < 0.1)
    weight = weight + weight.T
    np.fill_diagonal(weight, 0)
    weight[3] = weight[:, 3] = 0  # an isolated node
    return Graph.from_adjacency(weight)


def cold(problem: LinearProblem, hinges: Hinges, **settings) -> LinearPoint:
    return minimize(problem, hinges, LinearPoint.origin(problem.rows), **settings)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("norm_penalty", PENALTIES)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("of_labels", [False, True])
def test_the_minimum_is_that_of_the_dense_twin(
    of_labels: bool, is_sparse: bool, norm_penalty: float, seed: int
) -> None:
    case = small(seed, is_sparse=is_sparse)
    problem = LinearProblem(rows=case.rows(), norm_penalty=norm_penalty)
    hinges = case.hinges() if of_labels else both_sides(seed, 60)
    found = cold(problem, hinges)
    dense = twin(problem, hinges, case.dense)
    expected = dense.minimum()
    assert found.status is Status.CONVERGED
    least = dense.objective(expected)
    assert dense.objective(found.weights) == pytest.approx(least, rel=1e-9)
    outputs = case.dense @ found.weights
    np.testing.assert_allclose(outputs, case.dense @ expected, atol=1e-4)
    np.testing.assert_allclose(found.outputs, outputs, atol=1e-10)
    value = problem.objective(hinges, found.weights, found.outputs)
    assert value == pytest.approx(dense.objective(found.weights), rel=1e-12)


@pytest.mark.parametrize("norm_penalty", PENALTIES)
def test_it_is_the_machine_of_scikit_learn(norm_penalty: float) -> None:
    case = small(4, n_rows=200, n_labeled=120)
    problem = LinearProblem(rows=case.rows(), norm_penalty=norm_penalty)
    found = cold(problem, case.hinges())
    peer = LinearSVC(C=1.0, dual=False, tol=1e-12, max_iter=100_000)
    labeled = case.dense[case.nodes, :-1]
    peer.fit(labeled, case.targets, sample_weight=case.costs / (2 * norm_penalty))
    weights = np.append(peer.coef_[0], peer.intercept_[0])
    dense = twin(problem, case.hinges(), case.dense)
    assert dense.objective(found.weights) == pytest.approx(dense.objective(weights), rel=1e-8)
    np.testing.assert_allclose(found.outputs, case.dense @ weights, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_gradients_of_the_twin_agree_with_finite_differences(seed: int) -> None:
    case = small(seed)
    graph = laplacian_power(random_graph(seed, 60), "normalized", 1)
    hinges = both_sides(seed, 60)
    problem = LinearProblem(rows=case.rows(), norm_penalty=0.1, graph_penalty=0.2)
    dense = twin(problem, hinges, case.dense, graph)
    point = 2 * np.random.default_rng(seed).standard_normal(9)
    numeric = approx_fprime(point, dense.objective, 1e-7)
    np.testing.assert_allclose(dense.gradient(point), numeric, atol=1e-5)


@pytest.mark.parametrize("with_graph", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_is_zero_at_the_minimum(seed: int, with_graph: bool) -> None:
    case, graph = small(seed), random_graph(seed, 60)
    laplacian = IteratedLaplacian.of_graph(graph) if with_graph else None
    problem = LinearProblem(
        rows=case.rows(), norm_penalty=1e-2, graph_penalty=0.05, laplacian=laplacian
    )
    hinges = both_sides(seed, 60)
    found = cold(problem, hinges)
    formed_graph = laplacian_power(graph, "normalized", 1) if with_graph else None
    dense = twin(problem, hinges, case.dense, formed_graph)
    size = np.linalg.norm(dense.gradient(np.zeros(9)))
    assert np.linalg.norm(dense.gradient(found.weights)) < 10 * RTOL * size


@pytest.mark.parametrize(("laplacian", "power"), [("normalized", 1), ("combinatorial", 2)])
@pytest.mark.parametrize("graph_penalty", [1e-3, 1.0])
def test_the_graph_term_is_that_of_the_dense_twin(
    laplacian: str, power: int, graph_penalty: float
) -> None:
    case, graph = small(2), random_graph(2, 60)
    problem = LinearProblem(
        rows=case.rows(),
        norm_penalty=1e-2,
        graph_penalty=graph_penalty,
        laplacian=IteratedLaplacian.of_graph(graph, name=laplacian, power=power),
    )
    found = cold(problem, case.hinges())
    dense = twin(problem, case.hinges(), case.dense, laplacian_power(graph, laplacian, power))
    expected = dense.minimum()
    assert found.status is Status.CONVERGED
    assert dense.objective(found.weights) == pytest.approx(dense.objective(expected), rel=1e-9)
    np.testing.assert_allclose(found.outputs, case.dense @ expected, atol=1e-4)
    value = problem.objective(case.hinges(), found.weights, found.outputs)
    assert value == pytest.approx(dense.objective(found.weights), rel=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_the_objective_falls_from_step_to_step(monkeypatch, seed: int) -> None:
    """(I34)."""
    case = small(seed, n_rows=200, n_labeled=100)
    problem = LinearProblem(rows=case.rows(), norm_penalty=1e-4)
    dense = twin(problem, case.hinges(), case.dense)
    values = [dense.objective(np.zeros(9))]
    n_newton = cold(problem, case.hinges()).n_newton
    for most in range(1, n_newton + 1):
        monkeypatch.setattr(finite_newton, "_MAX_NEWTON", most)
        found = cold(problem, case.hinges())
        assert found.n_newton <= most
        assert found.status is (Status.CONVERGED if most == n_newton else Status.MAX_ITER)
        values.append(dense.objective(found.weights))
    assert n_newton > 2
    assert (np.diff(values) <= 1e-12 * values[0]).all()


@given(
    seed=st.integers(0, 10_000),
    size=st.floats(-3, 3),
    penalty=st.floats(-5, 0),
    rtol=st.sampled_from([RTOL, ROUGH_RTOL]),
    is_near=st.booleans(),
)
def test_the_objective_never_rises_from_the_start(
    seed: int, size: float, penalty: float, rtol: float, is_near: bool
) -> None:
    """(I34)."""
    case = small(seed % 7)
    problem = LinearProblem(rows=case.rows(), norm_penalty=10.0**penalty)
    hinges = both_sides(seed, 60)
    dense = twin(problem, hinges, case.dense)
    weights = 10.0**size * np.random.default_rng(seed).standard_normal(9)
    if is_near:
        weights = cold(problem, hinges).weights + 1e-3 * weights
    start = LinearPoint.at(problem.rows, weights)
    found = minimize(problem, hinges, start, rtol=rtol)
    np.testing.assert_array_equal(start.weights, weights)
    before = dense.objective(weights)
    assert dense.objective(found.weights) <= before * (1 + 1e-12)


@given(seed=st.integers(0, 10_000), size=st.floats(-3, 5))
def test_a_warm_start_ends_at_the_same_minimum(seed: int, size: float) -> None:
    case = small(seed % 5, n_rows=40)
    problem = LinearProblem(rows=case.rows(), norm_penalty=1e-2)
    weights = 10.0**size * np.random.default_rng(seed).standard_normal(9)
    expected = cold(problem, case.hinges())
    start = LinearPoint.at(problem.rows, weights)
    found = minimize(problem, case.hinges(), start)
    dense = twin(problem, case.hinges(), case.dense)
    assert found.status is Status.CONVERGED
    least = dense.objective(expected.weights)
    assert dense.objective(found.weights) == pytest.approx(least, rel=1e-8)
    np.testing.assert_allclose(found.outputs, expected.outputs, atol=1e-4)


def test_a_start_at_the_minimum_takes_one_step() -> None:
    case = small(1)
    problem = LinearProblem(rows=case.rows(), norm_penalty=1e-3)
    found = cold(problem, case.hinges())
    again = minimize(problem, case.hinges(), found)
    assert again.n_newton <= 2
    np.testing.assert_allclose(again.weights, found.weights, rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 10_000), size=st.floats(-8, 8))
def test_what_costs_nothing_leaves_weights_of_zero(seed: int, size: float) -> None:
    case = small(seed % 5, n_rows=20, n_labeled=5)
    problem = LinearProblem(rows=case.rows(), norm_penalty=0.3)
    nothing = Hinges(positive=np.zeros(20), negative=np.zeros(20))
    weights = 10.0**size * np.random.default_rng(seed).standard_normal(9)
    found = minimize(problem, nothing, LinearPoint.at(problem.rows, weights))
    np.testing.assert_allclose(found.weights, 0.0, atol=1e-6 * 10.0**size)


def test_rows_that_all_stay_inside_the_margin_are_least_squares() -> None:
    """(I34)."""
    case = small(3)
    problem = LinearProblem(rows=case.rows(), norm_penalty=20.0)
    found = cold(problem, case.hinges())
    expected = ridge(case.dense[case.nodes], case.targets, case.costs, 20.0)
    assert (case.targets * found.outputs[case.nodes] < 1).all()
    np.testing.assert_allclose(found.weights, expected, rtol=1e-5, atol=1e-9)


def test_beliefs_inside_the_margin_are_least_squares_to_their_mean() -> None:
    """(I33): p (1 - o)^2 + (1 - p) (1 + o)^2 = (o - (2 p - 1))^2 + constant."""
    case = small(3)
    belief = np.random.default_rng(3).random(60)
    hinges = Hinges(positive=belief / 60, negative=(1 - belief) / 60)
    problem = LinearProblem(rows=case.rows(), norm_penalty=1.0)
    found = cold(problem, hinges)
    expected = ridge(case.dense, 2 * belief - 1, np.full(60, 1 / 60), 1.0)
    assert (np.abs(found.outputs) < 1).all()
    np.testing.assert_allclose(found.weights, expected, rtol=1e-5, atol=1e-9)


@given(belief=st.floats(0, 1), output=st.floats(-3, 3), cost=st.floats(0.1, 10))
def test_what_a_row_of_both_labels_costs(belief: float, output: float, cost: float) -> None:
    """(I33)."""
    both = Hinges(positive=np.array([cost * belief]), negative=np.array([cost * (1 - belief)]))
    twice = belief * max(0, 1 - output) ** 2 + (1 - belief) * max(0, 1 + output) ** 2
    value = both.value(np.array([output]))
    assert value == pytest.approx(0.5 * cost * twice, abs=1e-12)
    if abs(output) <= 1:
        target = 2 * belief - 1
        square = (output - target) ** 2 + 1 - target**2
        assert value == pytest.approx(0.5 * cost * square, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("norm_penalty", PENALTIES)
def test_rows_of_both_labels_are_two_rows_of_one_each(norm_penalty: float, seed: int) -> None:
    case = small(seed)
    hinges = both_sides(seed, 60)
    once = cold(LinearProblem(rows=case.rows(), norm_penalty=norm_penalty), hinges)
    twice = LinearProblem(
        rows=in_memory(sp.csr_array(sp.vstack([case.matrix, case.matrix]))),
        norm_penalty=norm_penalty,
    )
    targets = np.repeat([1.0, -1.0], 60)
    costs = np.concatenate([hinges.positive, hinges.negative])
    expected = cold(twice, Hinges.of_targets(targets, costs))
    np.testing.assert_allclose(once.outputs, expected.outputs[:60], atol=1e-4)
    dense = DenseMachine(
        rows=np.vstack([case.dense, case.dense]),
        norm_penalty=norm_penalty,
        positive=np.where(targets > 0, costs, 0),
        negative=np.where(targets > 0, 0, costs),
    )
    least = dense.objective(expected.weights)
    assert dense.objective(once.weights) == pytest.approx(least, rel=1e-9)


@given(seed=st.integers(0, 100_000), size=st.floats(-3, 3))
def test_steps_are_minima_along_the_line(seed: int, size: float) -> None:
    """(I28)."""
    rng = np.random.default_rng(seed)
    hinges = both_sides(seed, 15)
    outputs, steps = 2 * rng.standard_normal((2, 15))
    steps *= 10.0**size
    outputs[0], outputs[1], steps[2] = 1.0, -1.0, 0.0
    weights, turn = rng.standard_normal((2, 4))
    turn *= 10.0**size

    def cost(length: float) -> float:
        moved = weights + length * turn
        return 0.1 * float(moved @ moved) / 2 + hinges.value(outputs + length * steps)

    def slope(length: float) -> float:
        moved = outputs + length * steps
        bent = hinges.negative * np.maximum(0, 1 + moved)
        bent -= hinges.positive * np.maximum(0, 1 - moved)
        return float(bent @ steps + 0.1 * (weights + length * turn) @ turn)

    if slope(0.0) > 0:
        steps, turn = -steps, -turn
    left, square = 0.1 * float(weights @ turn), 0.1 * float(turn @ turn)
    found = finite_newton._exact_length(hinges, outputs, steps, left, square)
    assert found >= 0
    assert abs(slope(found)) < 1e-9 * (1 + abs(slope(0.0)))
    best = minimize_scalar(cost, bracket=(0.0, max(found, 1e-6)), tol=1e-12)
    assert cost(found) <= best.fun * (1 + 1e-12)


def test_too_few_steps_are_said_to_be(monkeypatch) -> None:
    case = small(2, n_rows=200, n_labeled=100)
    problem = LinearProblem(rows=case.rows(), norm_penalty=1e-4)
    with monkeypatch.context() as patched:
        patched.setattr(finite_newton, "_MAX_NEWTON", 1)
        found = cold(problem, case.hinges())
        assert (found.status, found.n_newton) == (Status.MAX_ITER, 1)
    start = cold(problem, case.hinges())
    monkeypatch.setattr(finite_newton, "_MAX_CONJUGATE", 1)
    hinges = Hinges(positive=case.hinges().positive * 1.001, negative=case.hinges().negative)
    assert minimize(problem, hinges, start, rtol=1e-10).status is Status.MAX_ITER


def test_a_fall_too_small_before_the_piece_is_right_is_stagnation(monkeypatch) -> None:
    case = small(6, n_rows=200, n_labeled=100)
    problem = LinearProblem(rows=case.rows(), norm_penalty=1e-4)
    monkeypatch.setattr(finite_newton, "_LEAST_DECREASE", 0.9)
    assert cold(problem, case.hinges()).status is Status.STAGNATED


def test_a_minimum_is_one_even_if_hinges_of_no_account_go_on_to_bend(monkeypatch) -> None:
    case = small(2)
    problem = LinearProblem(rows=case.rows(), norm_penalty=1e-2)
    expected = cold(problem, case.hinges())
    monkeypatch.setattr(finite_newton, "stays", lambda *_: False)
    found = cold(problem, case.hinges())
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.outputs, expected.outputs, atol=1e-4)


@pytest.mark.parametrize("most", [0, 1, 7])
def test_who_asks_for_the_end_gets_it(most: int) -> None:
    case = small(0)
    asked = []

    def check() -> None:
        asked.append(len(asked))
        if len(asked) > most:
            raise RunStopped

    problem = LinearProblem(rows=case.rows(), norm_penalty=1e-3, check=check)
    with pytest.raises(RunStopped):
        cold(problem, case.hinges())
    assert len(asked) == most + 1


def test_every_pass_over_the_rows_is_asked_about() -> None:
    case = small(0)
    asked = []
    rows = case.rows()
    problem = LinearProblem(rows=rows, norm_penalty=1e-3, check=lambda: asked.append(1))
    found = cold(problem, case.hinges())
    assert rows.passes.count <= len(asked) + found.n_newton


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_of_the_objective_change_no_weight(scale: float) -> None:
    case = small(5)
    hinges = case.hinges()
    expected = cold(LinearProblem(rows=case.rows(), norm_penalty=1e-2), hinges)
    problem = LinearProblem(rows=case.rows(), norm_penalty=1e-2 * scale)
    found = cold(
        problem, Hinges(positive=scale * hinges.positive, negative=scale * hinges.negative)
    )
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.outputs, expected.outputs, atol=1e-4)
