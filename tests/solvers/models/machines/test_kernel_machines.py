"""The three ways to the minimum against the dense twin, against each other, and identities."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize_scalar

from peewit.solvers.gram.feature_spaces import GramFactor
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.gram.landmarks import LandmarkMap
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.status import Status
from peewit.solvers.svm.conjugate_gradients import ConjugateGradients, descend
from peewit.solvers.svm.dual import maximize
from peewit.solvers.svm.labeled_system import (
    DenseInverse,
    FactoredInverse,
    LabeledProblem,
    LabeledSystem,
    NoGraphPenalty,
)
from peewit.solvers.svm.line_search import exact_step
from peewit.solvers.svm.newton import minimize
from peewit.solvers.svm.regularized_problem import Minimum, Problem
from peewit.solvers.svm.stopping import MEASURES, RTOL, EarlyStop, Validation
from tests.reference.kernel_machines import laplacian_power
from tests.solvers.machines import objectives, small, twin

BIASES = ["none", "free", "penalized"]
LAPLACIANS = [("normalized", 1), ("normalized", 2), ("combinatorial", 1), ("combinatorial", 3)]


def system_of(problem: Problem, *, factored: bool = False) -> LabeledSystem:
    if problem.graph_penalty == 0:
        inverse = NoGraphPenalty(space=problem.space, norm_penalty=problem.norm_penalty)
    elif factored:
        inverse = FactoredInverse.of(GramFactor(problem.space), problem.laplacian)
        inverse = inverse.with_penalties(problem.norm_penalty, problem.graph_penalty)
    else:
        inverse = DenseInverse(
            problem.space, problem.laplacian, problem.norm_penalty, problem.graph_penalty
        )
    constant = problem.graph_penalty * problem.laplacian.of_ones()
    return LabeledSystem.of(inverse, problem.nodes, constant, problem.bias)


def newton(problem: Problem, *, factored: bool = False) -> Minimum:
    system, is_hinge = system_of(problem, factored=factored), problem.loss != "squared"
    return minimize(system, problem.targets, is_hinge=is_hinge, max_iter=50).lifted(system)


def dual_of(problem: Problem) -> Minimum:
    system = system_of(problem)
    return maximize(system, problem.targets, loss=problem.loss, max_iter=100).lifted(system)


def decisions_of(problem: Problem, minimum: Minimum) -> np.ndarray:
    return problem.space.values(minimum.coef) + minimum.intercept


@pytest.mark.parametrize(("laplacian", "power"), LAPLACIANS)
def test_products_are_those_of_the_power(laplacian: str, power: int) -> None:
    graph = small().graph
    operator = IteratedLaplacian.of_graph(graph, name=laplacian, power=power)
    expected = laplacian_power(graph, laplacian, power)
    product = operator.product(np.eye(graph.n_nodes))
    np.testing.assert_allclose(product, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.thinned(4)
@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("loss", ["squared-hinge", "squared"])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize(("laplacian", "power"), LAPLACIANS)
def test_newton_and_conjugate_gradients_find_the_minimum(
    laplacian: str, power: int, bias: str, loss: str, seed: int
) -> None:
    """(I24), against the steps (E7) on a dense matrix."""
    case = small(seed, n_functions=2)
    problem = case.problem(laplacian=laplacian, power=power, bias=bias, loss=loss)
    exact, iterated = newton(problem), descend(problem, max_iter=20_000)
    factored = newton(problem, factored=True)
    assert exact.status is iterated.status is factored.status is Status.CONVERGED
    in_factor = GramFactor(problem.space).values(factored.coef) + factored.intercept
    np.testing.assert_allclose(in_factor, decisions_of(problem, exact), atol=1e-7)
    for column in range(2):
        dense = twin(problem, case.graph, column, laplacian, power)
        expected = dense.newton()
        outputs = dense.gram @ expected[1:] + expected[0]
        for minimum in (exact, iterated):
            found = decisions_of(problem, minimum)[:, column]
            np.testing.assert_allclose(found, outputs, atol=1e-5)
            objective = objectives(problem, minimum.coef, minimum.intercept)[column]
            assert objective == pytest.approx(dense.objective(expected), rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bias", BIASES)
def test_the_dual_of_the_squared_hinge_is_the_same_problem(bias: str, seed: int) -> None:
    """(I24)."""
    problem = small(seed, n_functions=2).problem(bias=bias)
    exact = newton(problem)
    dual = dual_of(problem)
    assert dual.status is Status.CONVERGED
    np.testing.assert_allclose(decisions_of(problem, dual), decisions_of(problem, exact), atol=1e-5)
    np.testing.assert_allclose(
        objectives(problem, dual.coef, dual.intercept),
        objectives(problem, exact.coef, exact.intercept),
        rtol=1e-8,
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bias", BIASES)
def test_the_dual_of_the_hinge_is_its_minimum(bias: str, seed: int) -> None:
    """(E1): no direction leads down, and the slopes at the labels are the dual's."""
    case = small(seed)
    problem = case.problem(bias=bias, loss="hinge")
    dual = dual_of(problem)
    dense = twin(problem, case.graph, 0, "normalized", 2)
    found = np.concatenate([dual.intercept, dual.coef[:, 0]])
    least = dense.objective(found)
    assert objectives(problem, dual.coef, dual.intercept)[0] == pytest.approx(least, rel=1e-12)
    rng = np.random.default_rng(seed)
    for _ in range(200):
        step = rng.standard_normal(found.size) * 10.0 ** rng.uniform(-6, 0)
        step[0] *= bias != "none"
        assert dense.objective(found + step) >= least - 1e-7 * abs(least)


@pytest.mark.parametrize("loss", ["squared-hinge", "squared"])
@pytest.mark.parametrize("bias", BIASES)
def test_gradients_agree_with_finite_differences(bias: str, loss: str) -> None:
    """(I29): of the twin, and the descent's gradient is the twin's."""
    case = small(7)
    problem = case.problem(bias=bias, loss=loss)
    dense = twin(problem, case.graph, 0, "normalized", 2)
    point = np.random.default_rng(1).standard_normal(61)
    point[0] *= bias != "none"
    if bias != "none":
        size = np.linalg.norm(dense.gradient(point))
        assert check_grad(dense.objective, dense.gradient, point, epsilon=1e-7) < 1e-4 * size
    coef, intercept = point[1:, None], point[:1]
    live = ConjugateGradients(problem, coef, intercept, measure="gradient", rtol=1e-8).init().live
    found = np.concatenate([live.gradient_intercept, live.gradient_values[:, 0]])
    np.testing.assert_allclose(found, dense.gradient(point), rtol=1e-9, atol=1e-9)
    assert live.objective[0] == pytest.approx(dense.objective(point), rel=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_every_measure_ends_at_the_optimum(measure: str) -> None:
    problem = small(3, n_functions=3).problem(bias="penalized")
    minimum = descend(problem, measure=measure, rtol=RTOL[measure], max_iter=5_000)
    assert minimum.status is Status.CONVERGED
    assert minimum.stopped_by == measure
    exact = newton(problem)
    tolerance = 1e-3 if measure == "objective" else 1e-5
    np.testing.assert_allclose(
        objectives(problem, minimum.coef, minimum.intercept),
        objectives(problem, exact.coef, exact.intercept),
        rtol=tolerance,
    )


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("is_hinge", [True, False])
def test_exact_steps_are_minima_along_the_line(seed: int, is_hinge: bool) -> None:
    """(I28)."""
    rng = np.random.default_rng(seed)
    outputs, steps = rng.standard_normal((2, 12, 3)) * 2
    targets = np.where(rng.random((12, 3)) < 0.5, 1.0, -1.0)
    outputs[0] = targets[0]  # on the margin
    steps[1] = 0
    quadratic, linear = rng.random(3) + 0.01, -20 * rng.random(3)

    def cost(size: float, column: int) -> float:
        miss = targets[:, column] - outputs[:, column] - size * steps[:, column]
        if is_hinge:
            miss = np.maximum(0, targets[:, column] * miss)
        return 0.5 * miss @ miss + linear[column] * size + 0.5 * quadratic[column] * size**2

    found = exact_step(outputs, steps, targets, linear, quadratic, is_hinge=is_hinge)
    for column in range(3):
        best = minimize_scalar(cost, args=(column,), bracket=(0, 1), tol=1e-12)
        if best.x > 0:
            assert found[column] == pytest.approx(best.x, rel=1e-5)
        slope = (cost(found[column] + 1e-6, column) - cost(found[column] - 1e-6, column)) / 2e-6
        if found[column] > 0:
            assert abs(slope) < 1e-4


@pytest.mark.parametrize("bias", BIASES)
def test_the_objective_falls_at_every_iteration(bias: str) -> None:
    """(I28)."""
    problem = small(5).problem(bias=bias)
    zero = np.zeros((problem.space.n_coef, 1)), np.zeros(1)
    method = ConjugateGradients(problem, *zero, measure="gradient", rtol=1e-12)
    state = method.init()
    objectives = [float(state.live.objective[0])]
    for _ in range(60):
        state = method.step(state)
        objectives.append(float(state.live.objective[0]))
    assert (np.diff(objectives) < 1e-12 * objectives[0]).all()
    assert objectives[-1] < 0.9 * objectives[0]


def test_coefficients_sum_to_zero_only_where_constants_are_free() -> None:
    """(I25)."""
    case = small(2)
    free = newton(case.problem(laplacian="combinatorial", power=1, bias="free"))
    assert abs(free.coef.sum()) < 1e-9 * np.abs(free.coef).sum()
    normalized = newton(case.problem(laplacian="normalized", power=1, bias="free"))
    assert abs(normalized.coef.sum()) > 1e-6 * np.abs(normalized.coef).sum()


def test_a_penalized_intercept_is_free_where_the_laplacian_ignores_constants() -> None:
    problem = small(2).problem(laplacian="combinatorial", bias="penalized")
    free = newton(replace(problem, bias="free"))
    np.testing.assert_allclose(
        decisions_of(problem, newton(problem)), decisions_of(problem, free), atol=1e-9
    )


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("n_neighbors", [1, 2, 5, 7])
def test_a_penalized_intercept_is_free_on_regular_graphs(n_neighbors: int, power: int) -> None:
    """L_sym 1 = 0 there, but for rounding."""
    case = small(3)
    n_nodes = len(case.points)
    node = np.arange(n_nodes)
    u = np.concatenate([node] * n_neighbors)
    v = np.concatenate([(node + step) % n_nodes for step in range(1, n_neighbors + 1)])
    regular = replace(case, graph=Graph.from_edges(u, v, np.full(u.size, 0.3), n_nodes=n_nodes))
    problem = regular.problem(power=power, bias="penalized")
    np.testing.assert_array_equal(problem.laplacian.of_ones(), 0)
    free = newton(replace(problem, bias="free"))
    np.testing.assert_allclose(
        decisions_of(problem, newton(problem)), decisions_of(problem, free), atol=1e-8
    )


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_penalties_too_far_apart_are_said_not_to_be_solved(precision) -> None:
    """A ratio that no factors can carry is a status, never scores of zero that look right."""
    case = small(1)
    space = DenseGram.of(case.kernel(), case.rows, precision)
    for norm_penalty, graph_penalty in [(1e-2, 1e12), (1e-12, 1e12), (1e-300, 1.0)]:
        problem = case.problem(space=space, norm_penalty=norm_penalty, graph_penalty=graph_penalty)
        found = newton(problem)
        if found.status is Status.CONVERGED:
            exact = newton(replace(problem, space=case.space()), factored=True)
            factor = GramFactor(case.space())
            expected = factor.values(exact.coef)
            np.testing.assert_allclose(decisions_of(problem, found), expected, atol=1e-3)
        else:
            assert found.status is Status.STAGNATED
            assert found.stopped_by == "stagnated"


@pytest.mark.parametrize("penalties", [(1e-6, 1e-2), (1e-6, 1.0), (1e-4, 1.0)])
def test_penalties_of_the_paper_are_solved(penalties) -> None:
    """Residuals of the coefficients stay far above rounding here; values do not."""
    case = small(1, n_functions=2)
    settings = {"norm_penalty": penalties[0], "graph_penalty": penalties[1], "power": 5}
    problem = case.problem(**settings)
    found = newton(problem)
    # the second is at the edge of what refinement can tell of itself, on some processors beyond
    at_the_edge = {Status.STAGNATED} if penalties == (1e-6, 1.0) else set()
    assert found.status in {Status.CONVERGED} | at_the_edge
    factored = newton(problem, factored=True)
    expected = GramFactor(problem.space).values(factored.coef)
    np.testing.assert_allclose(decisions_of(problem, found), expected, atol=1e-6)


def test_a_search_cut_short_leaves_no_half_made_factors() -> None:
    problem = small(1).problem(norm_penalty=1e-9)
    inverse = DenseInverse(problem.space, problem.laplacian, 1e-9, 0.1)
    first, _ = inverse.at(problem.nodes)
    again, _ = inverse.at(problem.nodes[:-1])
    np.testing.assert_allclose(again, first[:-1, :-1], rtol=1e-4, atol=1e-4 * np.abs(first).max())


def test_kernels_that_rounding_made_indefinite_are_solved() -> None:
    rng = np.random.default_rng(0)
    vector = 1e10 * rng.standard_normal((12, 1))
    kernel = vector @ vector.T
    kernel -= 1e4 * np.eye(12)
    targets = np.where(rng.random((12, 1)) < 0.5, 1.0, -1.0)
    problem = LabeledProblem(kernel=kernel, has_free_bias=False)
    found = minimize(problem, targets, is_hinge=False)
    assert np.isfinite(found.dual).all()


def test_all_labels_active_is_least_squares() -> None:
    """(I26): with penalties so large that no label reaches its margin."""
    problem = small(4).problem(norm_penalty=50.0, graph_penalty=50.0)
    hinge, squares = newton(problem), newton(replace(problem, loss="squared"))
    assert (problem.targets * decisions_of(problem, hinge)[problem.nodes] < 1).all()
    np.testing.assert_allclose(hinge.coef, squares.coef, rtol=1e-9)
    assert hinge.n_iter == 1


@pytest.mark.parametrize("seed", range(5))
def test_without_a_graph_penalty_only_active_labels_have_coefficients(seed: int) -> None:
    """(I27); both methods."""
    problem = small(seed).problem(graph_penalty=0.0)
    exact, iterated = newton(problem), descend(problem, max_iter=20_000)
    outside = np.setdiff1d(np.arange(problem.space.n_rows), problem.nodes)
    assert (exact.coef[outside] == 0).all()
    margin = (problem.targets * decisions_of(problem, exact)[problem.nodes])[:, 0]
    beyond = problem.nodes[margin > 1 + 1e-9]
    assert (exact.coef[beyond] == 0).all()
    np.testing.assert_allclose(
        decisions_of(problem, iterated), decisions_of(problem, exact), atol=1e-5
    )


@pytest.mark.parametrize("bias", ["none", "free"])
def test_flipping_the_labels_flips_the_function(bias: str) -> None:
    problem = small(6).problem(bias=bias)
    flipped = replace(problem, targets=-problem.targets)
    np.testing.assert_allclose(
        decisions_of(problem, newton(flipped)), -decisions_of(problem, newton(problem)), atol=1e-10
    )


@pytest.mark.parametrize("bias", BIASES)
def test_explicit_features_take_the_steps_of_the_kernel(bias: str) -> None:
    """With every node a landmark the two spaces are one, and so are the iterates."""
    case = small(8)
    problem = case.problem(bias=bias, norm_penalty=0.1)
    landmarks = LandmarkMap(case.kernel(), case.rows, case.points, np.float64, kept_bytes=0)
    explicit = replace(problem, space=landmarks)
    for n_iter in (1, 2, 5):
        by_kernel = descend(problem, measure="mixed-product", max_iter=n_iter)
        by_features = descend(explicit, measure="mixed-product", max_iter=n_iter)
        assert by_kernel.status is by_features.status is Status.MAX_ITER
        np.testing.assert_allclose(
            decisions_of(explicit, by_features), decisions_of(problem, by_kernel), atol=1e-6
        )


def test_a_start_from_the_solution_ends_at_once() -> None:
    problem = small(1, n_functions=3).problem(norm_penalty=0.1)
    cold = descend(problem, rtol=1e-8)
    warm = descend(problem, start=(cold.coef, cold.intercept), rtol=1e-7)
    assert warm.n_iter == 0
    np.testing.assert_array_equal(warm.coef, cold.coef)
    changed = replace(problem, norm_penalty=0.11)
    again = descend(changed, start=(cold.coef, cold.intercept))
    assert again.n_iter < descend(changed).n_iter
    np.testing.assert_allclose(
        decisions_of(changed, again), decisions_of(changed, newton(changed)), atol=1e-5
    )


def test_functions_found_together_are_those_found_alone() -> None:
    problem = small(9, n_functions=4).problem()
    together = descend(problem, max_iter=5_000)
    for column in range(4):
        one = replace(problem, targets=problem.targets[:, column : column + 1])
        alone = descend(one, max_iter=5_000)
        np.testing.assert_allclose(together.coef[:, column], alone.coef[:, 0], rtol=1e-6, atol=1e-8)


def test_ill_conditioned_penalties_are_solved_or_said_not_to_be() -> None:
    problem = small(3).problem(norm_penalty=1e-9, graph_penalty=1e-7)
    exact = newton(problem)
    assert exact.status is Status.CONVERGED
    iterated = descend(problem, max_iter=50)
    assert iterated.status is Status.MAX_ITER
    assert iterated.stopped_by == "max-iter"
    outputs = decisions_of(problem, exact)[problem.nodes]
    assert (problem.targets * outputs > 0.99).all()  # separable, and hardly penalised


class Settling:
    """Scores that change class at fewer and fewer nodes."""

    def __init__(self, n_changed: list[int]) -> None:
        scores, self.all = np.ones((1000, 1)), []
        for n in n_changed:
            scores = scores.copy()
            scores[:n] *= -1
            self.all.append(scores)


def test_stability_waits_until_few_nodes_change() -> None:
    rule = EarlyStop(rule="stability", unlabeled=np.ones(1000, bool))
    assert rule.every == 16
    stop = [
        rule.is_met(16 * look, scores) for look, scores in enumerate(Settling([500, 15, 14]).all)
    ]
    assert stop == [False, False, True]
    assert not rule.is_met(17, np.ones((1000, 1)))


def test_labeled_nodes_do_not_count_for_stability() -> None:
    unlabeled = np.ones(1000, bool)
    unlabeled[:100] = False
    rule = EarlyStop(rule="stability", unlabeled=unlabeled)
    first, second = np.ones((1000, 1)), np.ones((1000, 1))
    second[:100] = -1
    assert not rule.is_met(0, first)
    assert rule.is_met(16, second)


@pytest.mark.parametrize(("rule", "expected"), [("validation", 1), ("mixed", 2)])
def test_validation_goes_on_while_one_more_is_right(rule: str, expected: int) -> None:
    validation = Validation(nodes=np.arange(4), classes=np.ones(4, np.int64))
    looks = []
    for n_wrong, n_changed in [(3, 0), (3, 500), (3, 0), (3, 0)]:
        scores = np.ones((1000, 1))
        scores[:n_wrong] = -1
        scores[4 : 4 + n_changed] = -1
        looks.append(scores)
    looks[2] = looks[1]
    early = EarlyStop(rule=rule, unlabeled=np.ones(1000, bool), validation=validation)
    met = [early.is_met(16 * number, scores) for number, scores in enumerate(looks)]
    assert met.index(True) == expected


def test_validation_needs_validation_nodes() -> None:
    with pytest.raises(ValueError, match="stop 'mixed' needs validation nodes, got none"):
        EarlyStop(rule="mixed", unlabeled=np.ones(5, bool))


@pytest.mark.slow
def test_early_stops_end_before_the_optimum_with_its_predictions() -> None:
    case = small(0, n_nodes=300, n_labeled=40)
    problem = case.problem(norm_penalty=1e-4, graph_penalty=1e-3)
    unlabeled = np.ones(300, bool)
    unlabeled[case.nodes] = False
    early = descend(problem, early=EarlyStop(rule="stability", unlabeled=unlabeled))
    full = descend(problem, max_iter=20_000)
    assert early.status is Status.CONVERGED
    assert early.stopped_by == "stability"
    assert early.n_iter < full.n_iter / 2
    signs = [np.sign(decisions_of(problem, each)) for each in (early, full)]
    assert (signs[0] == signs[1]).mean() > 0.9


def test_a_float32_gram_matrix_is_factored_once_and_solved_to_float64() -> None:
    given, begun = small(), []
    gram = DenseGram.of(given.kernel(), given.rows, np.float32)
    problem = given.problem(space=gram)

    def on_step(n_done: int, n_rows: int) -> None:
        begun.extend([n_rows] * (n_done == 0))

    inverse = DenseInverse(gram, problem.laplacian, 1e-2, 1e-1, on_step=on_step)
    right = np.eye(gram.n_rows)[:, :5]
    coef = inverse.apply(right)
    penalty = problem.laplacian.product(gram.matrix.astype(np.float64) @ coef)
    np.testing.assert_allclose(1e-2 * coef + 1e-1 * penalty, right, atol=1e-9)
    assert begun == [gram.n_rows]
