from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.assessment.tuning import tune
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.linear.calibration import fitted_sigmoid
from peewit.solvers.linear.transductive_problem import Transduction
from peewit.solvers.models.linear.linear_machine import PENALTIES
from peewit.solvers.models.linear.linear_svm import LinearSVM
from peewit.solvers.models.linear.transductive_svms import DASVM, TSVM
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from peewit.streaming.features.feature_files import ParquetFeatures
from tests.reference.kernel_machines import laplacian_power
from tests.reference.linear_machines import DenseMachine, DenseTransduction, formed, sigmoid
from tests.solvers.linear_problems import no_graph, sparse_points

MACHINES = [LinearSVM, TSVM, DASVM]
N_POINTS = 120
FINE = {"xatol": 1e-8, "fatol": 1e-14, "maxiter": 10_000}


def points(n_classes: int = 2, *, dense: bool = False, seed: int = 0, shift: float = 2.0):
    matrix, classes = sparse_points(N_POINTS, n_classes=n_classes, seed=seed, shift=shift)
    return (matrix.toarray() if dense else matrix), classes


def labels_of(classes: np.ndarray, per_class: int = 12) -> Labels:
    """Of each class the first few whose rows are hardly ever the empty ones."""
    nodes = np.concatenate(
        [np.flatnonzero(classes == code)[1 : 1 + per_class] for code in np.unique(classes)]
    )
    return Labels.from_pairs(nodes, classes[nodes])


def shares_of(classes: np.ndarray) -> dict[int, float]:
    return {int(code): float(np.mean(classes == code)) for code in np.unique(classes)}


def solved(model, matrix, labels: Labels, graph: Graph | None = None, **settings) -> Solution:
    n_nodes = matrix.n_rows if hasattr(matrix, "n_rows") else matrix.shape[0]
    prepared = model.prepare(graph or no_graph(n_nodes), matrix, **settings)
    return model.solve(prepared, labels)


def supervised_twin(
    rows: np.ndarray, labels: Labels, code: int, penalty: float, costs=None, **settings
) -> DenseMachine:
    """One class against the rest."""
    positive, negative = np.zeros((2, len(rows)))
    own = labels.classes == code
    costs = np.full(labels.n_labeled, 1 / labels.n_labeled) if costs is None else costs
    positive[labels.nodes] = np.where(own, costs, 0)
    negative[labels.nodes] = np.where(own, 0, costs)
    return DenseMachine(
        rows=rows, norm_penalty=penalty, positive=positive, negative=negative, **settings
    )


def error(solution: Solution, classes: np.ndarray, labels: Labels) -> float:
    unlabeled = np.setdiff1d(np.arange(classes.size), labels.nodes)
    return float(np.mean(solution.scores[unlabeled].argmax(axis=1) != classes[unlabeled]))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("row_length", ["unit", "given"])
@pytest.mark.parametrize("constant", [0.0, 1.0, 3.0])
def test_the_supervised_machine_is_the_dense_twin(
    dense: bool, row_length: str, constant: float
) -> None:
    matrix, classes = points(3, dense=dense)
    labels = labels_of(classes)
    model = LinearSVM(norm_penalty=0.01, row_length=row_length, constant=constant)
    solution = solved(model, matrix, labels)
    rows = formed(matrix, is_unit=row_length == "unit", constant=constant)
    total = 0.0
    for code in range(3):
        twin = supervised_twin(rows, labels, code, 0.01)
        expected = twin.minimum()
        np.testing.assert_allclose(solution.scores[:, code], rows @ expected, atol=1e-4)
        total += twin.objective(expected)
    assert solution.status is Status.CONVERGED
    assert solution.stats["objective"] == pytest.approx(total, rel=1e-8)
    assert solution.stats["rows"] == "memory"
    assert solution.stats["n_trainings"] == 3
    assert solution.stats["n_passes"] == 1
    assert solution.reachable.all()


def test_two_classes_have_opposite_scores_of_one_function() -> None:
    matrix, classes = points()
    for machine in MACHINES:
        solution = solved(machine(), matrix, labels_of(classes))
        np.testing.assert_array_equal(solution.scores[:, 0], -solution.scores[:, 1])
        assert solution.functions.weights.shape == (13, 1)


@pytest.mark.parametrize("graph_penalty", [0.0, 0.3])
@pytest.mark.parametrize("machine", [TSVM, DASVM])
def test_without_unlabeled_weight_the_machine_is_the_supervised_one(
    machine, graph_penalty: float
) -> None:
    """(I30)."""
    matrix, classes = points(3)
    labels = labels_of(classes)
    graph = chain(classes)
    common = {"norm_penalty": 0.01, "graph_penalty": graph_penalty}
    expected = solved(LinearSVM(**common), matrix, labels, graph)
    found = solved(machine(unlabeled_weight=0.0, **common), matrix, labels, graph)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert found.warnings == expected.warnings
    nearly = solved(
        machine(unlabeled_weight=1e-9, first_weight=1e-9, **common)
        if machine is TSVM
        else machine(unlabeled_weight=1e-9, **common),
        matrix,
        labels,
        graph,
    )
    np.testing.assert_allclose(nearly.scores, expected.scores, atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES)
def test_all_nodes_may_be_labeled(machine) -> None:
    matrix, classes = points(3)
    labels = Labels.from_pairs(np.arange(N_POINTS), classes)
    solution = solved(machine(norm_penalty=0.01), matrix, labels)
    rows = formed(matrix, is_unit=True, constant=1.0)
    for code in range(3):
        expected = supervised_twin(rows, labels, code, 0.01).minimum()
        np.testing.assert_allclose(solution.scores[:, code], rows @ expected, atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES)
def test_several_classes_are_one_against_the_rest(machine) -> None:
    matrix, classes = points(3)
    labels = labels_of(classes)
    shares = shares_of(classes)
    settings = {"norm_penalty": 0.01}
    if machine is not LinearSVM:
        settings |= {"class_balance": shares, "multi_class": "one-against-rest"}
    together = solved(machine(**settings), matrix, labels)
    for code in range(3):
        binary = Labels.from_pairs(labels.nodes, (labels.classes == code).astype(int))
        if machine is not LinearSVM:
            settings["class_balance"] = {1: shares[code], 0: 1 - shares[code]}
        alone = solved(machine(**settings), matrix, binary)
        np.testing.assert_allclose(together.scores[:, code], alone.scores[:, 1], atol=1e-10)


@pytest.mark.parametrize("machine", [TSVM, DASVM])
def test_two_classes_at_once_are_one_against_the_other(machine) -> None:
    matrix, classes = points()
    labels = labels_of(classes)
    one, both = (
        solved(machine(norm_penalty=0.01, multi_class=way), matrix, labels)
        for way in ("one-against-rest", "one-of-k")
    )
    np.testing.assert_array_equal(one.scores, both.scores)


@pytest.mark.parametrize("machine", [TSVM, DASVM])
def test_of_several_classes_at_once_each_row_has_one(machine, monkeypatch) -> None:
    matrix, classes = points(3)
    labels, costs = labels_of(classes, 6), []
    plain = Transduction.trained

    def trained(self, hinges, start, rtol):
        costs.append(hinges.positive[self.unlabeled] * self.n_unlabeled)
        return plain(self, hinges, start, rtol)

    monkeypatch.setattr(Transduction, "trained", trained)
    model = machine(norm_penalty=0.01, multi_class="one-of-k")
    solution = solved(model, matrix, labels)
    assert solution.status is Status.CONVERGED
    for first in range(0, len(costs), 3):
        own = np.array(costs[first : first + 3])
        weight = own.sum(axis=0).max()
        np.testing.assert_allclose(own.sum(axis=0), weight, rtol=1e-8)
        np.testing.assert_allclose(own.mean(axis=1), weight / 3, rtol=1e-8)  # of 102 rows
    apart = solved(replace(model, multi_class="one-against-rest"), matrix, labels)
    assert error(solution, classes, labels) <= error(apart, classes, labels) + 0.05


@pytest.mark.parametrize("machine", [TSVM, DASVM])
def test_labels_left_out_of_several_classes_at_once_are_those_of_a_search_without_them(
    machine,
) -> None:
    matrix, classes = points(3)
    labels = labels_of(classes, 4)
    model = machine(norm_penalty=0.01, multi_class="one-of-k", unlabeled_weight=0.5)
    prepared = model.prepare(no_graph(N_POINTS), matrix)
    fold = np.arange(labels.n_labeled) % 2
    watch = Watch(progress=None, cancelled=None)
    (scores,), status = model.left_out_scores(prepared, labels, fold, [0.5], watch)
    assert status is Status.CONVERGED
    for number in range(2):
        left_out = np.flatnonzero(fold == number)
        others = labels.subset(np.flatnonzero(fold != number))
        alone = solved(model, matrix, others)
        np.testing.assert_allclose(
            scores[left_out], alone.scores[labels.nodes[left_out]], atol=1e-10
        )


@pytest.mark.parametrize("costs", [{"equal": 1, "other": 6}, "balanced", "equal"])
def test_costs_of_classes_are_those_of_a_weighted_problem(costs) -> None:
    matrix, classes = points()
    kept = np.sort(np.r_[np.flatnonzero(classes == 0)[:20], np.flatnonzero(classes == 1)[:5]])
    labels = Labels.from_pairs(kept, np.where(classes[kept] == 0, "equal", "other"))
    asked = {"equal": np.ones(2), "balanced": 1 / np.bincount(classes[kept])}
    own = np.array([1.0, 6.0]) if isinstance(costs, dict) else asked[costs]
    weight = own[classes[kept]] / own[classes[kept]].sum()
    solution = solved(LinearSVM(norm_penalty=0.01, class_costs=costs), matrix, labels)
    rows = formed(matrix, is_unit=True, constant=1.0)
    expected = supervised_twin(rows, labels, 1, 0.01, weight).minimum()
    np.testing.assert_allclose(solution.scores[:, 1], rows @ expected, atol=1e-4)
    peer = LinearSVC(C=1.0, dual=False, tol=1e-12, max_iter=100_000)
    peer.fit(rows[kept, :-1], classes[kept], sample_weight=weight / (2 * 0.01))
    np.testing.assert_allclose(
        solution.scores[:, 1], peer.decision_function(rows[:, :-1]), atol=1e-4
    )


def test_costs_need_every_class() -> None:
    matrix, classes = points()
    with pytest.raises(ValueError, match="class_costs must name every class that is labeled"):
        solved(LinearSVM(class_costs={0: 1.0}), matrix, labels_of(classes))


@pytest.mark.parametrize("asked", [{0: 3, 1: 1}, {0: 1, 1: 1}, {0: 1, 1: 19}, "labels"])
def test_the_unlabeled_get_the_labels_in_the_shares_asked_for(monkeypatch, asked) -> None:
    """Smoothed as (l_k + 1) / (l + K) where they are those of the labels."""
    matrix, classes = points()
    kept = np.sort(np.r_[np.flatnonzero(classes == 0)[:20], np.flatnonzero(classes == 1)[:6]])
    labels = Labels.from_pairs(kept, classes[kept])
    counts = []
    plain = Transduction.trained

    def trained(self, hinges, start, rtol):
        counts.append(np.count_nonzero(hinges.positive[self.unlabeled]))
        return plain(self, hinges, start, rtol)

    monkeypatch.setattr(Transduction, "trained", trained)
    solved(TSVM(class_balance=asked, norm_penalty=0.01), matrix, labels)
    share = 7 / 28 if asked == "labels" else asked[1] / (asked[0] + asked[1])
    assert set(counts) == {round(share * (N_POINTS - 26))}


@pytest.mark.parametrize("machine", [TSVM, DASVM])
def test_the_objective_is_that_of_the_dense_twin(machine) -> None:
    matrix, classes = points()
    labels = labels_of(classes)
    solution = solved(machine(norm_penalty=0.01, unlabeled_weight=2.0), matrix, labels)
    rows = formed(matrix, is_unit=True, constant=1.0)
    twin = DenseTransduction(
        rows=rows,
        nodes=labels.nodes,
        targets=np.where(labels.classes > 0, 1.0, -1.0),
        costs=np.full(labels.n_labeled, 1 / labels.n_labeled),
        norm_penalty=0.01,
        unlabeled_weight=2.0,
    )
    weights = solution.functions.weights[:, 0]
    best = twin.best_objective(weights)
    if machine is DASVM:
        assert solution.stats["objective"] == pytest.approx(best, rel=1e-9)
        return
    order = np.argsort(-(rows[twin.unlabeled] @ weights), kind="stable")
    belief = np.zeros(order.size)
    belief[order[: round(0.5 * order.size)]] = 1
    own = twin.machine(belief)
    assert solution.stats["objective"] == pytest.approx(own.objective(weights), rel=1e-9)
    assert own.objective(weights) == pytest.approx(own.objective(own.minimum()), rel=1e-8)


def left_out_twin(rows: np.ndarray, labels: Labels, unit: float) -> float:
    """The penalty by leaving each label out, of those whose class has another."""
    counts = np.bincount(labels.classes)
    usable = np.flatnonzero(counts[labels.classes] > 1)
    codes = [1] if labels.n_classes == 2 else range(labels.n_classes)
    n_right = []
    for penalty in PENALTIES:
        right = 0
        for out in usable:
            costs = np.full(labels.n_labeled, 1 / (labels.n_labeled - 1))
            costs[out] = 0
            values = [
                float(
                    rows[labels.nodes[out]]
                    @ supervised_twin(rows, labels, code, penalty * unit, costs).minimum()
                )
                for code in codes
            ]
            won = int(values[0] > 0) if len(values) == 1 else int(np.argmax(values))
            right += won == labels.classes[out]
        n_right.append(right)
    best = max(n_right)
    return max(
        penalty * unit for penalty, right in zip(PENALTIES, n_right, strict=True) if right == best
    )


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (2, 1), (2, 2), (3, 0), (3, 1)])
def test_the_penalty_is_that_which_predicts_most_labels_left_out(n_classes: int, seed: int) -> None:
    matrix, classes = points(n_classes, seed=seed, shift=1.2)
    labels = labels_of(classes, 12 // n_classes)
    solution = solved(LinearSVM(), matrix, labels)
    rows = formed(matrix, is_unit=True, constant=1.0)
    expected = left_out_twin(rows, labels, 1.0)
    assert solution.stats["norm_penalty"] == pytest.approx(expected)
    again = solved(LinearSVM(norm_penalty=expected), matrix, labels)
    np.testing.assert_array_equal(solution.scores, again.scores)


def test_of_equal_penalties_the_largest_is_chosen() -> None:
    matrix = np.repeat([[4.0, 1.0], [-4.0, 1.0]], 20, axis=0)
    labels = Labels.from_pairs([0, 1, 2, 20, 21, 22], ["a", "a", "a", "b", "b", "b"])
    for machine in MACHINES:
        assert solved(machine(), matrix, labels).stats["norm_penalty"] == max(PENALTIES)


def test_a_label_of_each_class_leaves_no_choice_of_penalty() -> None:
    matrix, classes = points()
    solution = solved(LinearSVM(), matrix, labels_of(classes, 1))
    assert solution.stats["norm_penalty"] == 1e-2


@pytest.mark.parametrize("factor", [1e-2, 1e3])
@pytest.mark.parametrize("with_empty", [False, True])
def test_the_penalties_tried_go_along_with_the_squared_lengths_of_rows(
    with_empty: bool, factor: float
) -> None:
    matrix, classes = points()
    labels = labels_of(classes)
    is_empty = np.diff(matrix.indptr)[labels.nodes] == 0
    assert is_empty.any()
    nodes = labels.nodes if with_empty else labels.nodes[~is_empty]
    labels = Labels.from_pairs(nodes, classes[nodes])
    model = LinearSVM(row_length="given", constant=0.0)
    expected = solved(model, matrix, labels)
    found = solved(model, matrix * factor, labels)
    lengths = np.linalg.norm(matrix.toarray(), axis=1)
    typical = np.median(lengths[lengths > 0])
    for solution, unit in ((expected, 1.0), (found, factor**2)):
        ratio = solution.stats["norm_penalty"] / (typical**2 * unit)
        assert np.isclose(PENALTIES, ratio, rtol=1e-9).any()
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)


@pytest.mark.parametrize("factor", [1e-6, 1e-5, 1e-3, 1e3, 1e6])
def test_units_of_features_change_no_score(factor: float) -> None:
    matrix, classes = points()
    labels = labels_of(classes)
    model = LinearSVM(row_length="given", constant=0.0, norm_penalty=0.01)
    expected = solved(model, matrix, labels)
    scaled = replace(model, norm_penalty=0.01 * factor**2)
    found = solved(scaled, matrix * factor, labels)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-3)


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_have_sum_1(machine, n_classes: int) -> None:
    matrix, classes = points(n_classes)
    labels = labels_of(classes, 8)
    model = machine(norm_penalty=0.01, scores="probability")
    prepared = model.prepare(no_graph(N_POINTS), matrix)
    solution = model.solve(prepared, labels)
    assert model.score_kind == "probability"
    assert ((solution.scores >= 0) & (solution.scores <= 1)).all()
    np.testing.assert_allclose(solution.scores.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        model.predict(prepared, solution, matrix), solution.scores, atol=1e-12
    )
    decision = solved(replace(model, scores="decision"), matrix, labels)
    if n_classes == 2:
        order = np.argsort(decision.scores[:, 1])
        assert (np.diff(solution.scores[order, 1]) >= 0).all()
    assert error(solution, classes, labels) <= error(decision, classes, labels) + 0.1


@pytest.mark.parametrize("seed", range(4))
def test_the_sigmoid_is_the_most_likely_one_of_smoothed_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    targets = np.where(rng.random(40) < 0.3, 1.0, -1.0)
    values = 10.0 ** (seed - 2) * (targets + 2 * rng.standard_normal(40))
    n_positive = np.count_nonzero(targets > 0)
    likely = np.where(targets > 0, (n_positive + 1) / (n_positive + 2), 1 / (40 - n_positive + 2))
    unit = np.abs(values).max()

    def unlikeliness(both: np.ndarray) -> float:
        inner = both[0] * values / unit + both[1]
        return float(np.sum(np.logaddexp(0, inner) - likely * inner))

    best = minimize(unlikeliness, np.zeros(2), method="Nelder-Mead", options=FINE).x
    found = fitted_sigmoid(values, targets)
    assert found is not None
    slope, offset = found
    assert slope * unit == pytest.approx(best[0], abs=1e-4)
    assert offset == pytest.approx(best[1], abs=1e-4)


@pytest.mark.parametrize("n_labeled", [4, 5])
def test_probabilities_are_fitted_to_labels_left_out_one_by_one(n_labeled: int) -> None:
    matrix, classes = points(shift=8.0)
    kept = np.r_[np.flatnonzero(classes == 0)[1:3], np.flatnonzero(classes == 1)[1:4]]
    labels = Labels.from_pairs(kept[:n_labeled], classes[kept[:n_labeled]])
    rows = formed(matrix, is_unit=True, constant=1.0)
    values = []
    for out in range(n_labeled):
        costs = np.full(n_labeled, 1 / (n_labeled - 1))
        costs[out] = 0
        weights = supervised_twin(rows, labels, 1, 0.01, costs).minimum()
        values.append(rows[labels.nodes[out]] @ weights)
    found = fitted_sigmoid(np.array(values), 2.0 * labels.classes - 1)
    assert found is not None
    slope, offset = found
    weights = supervised_twin(rows, labels, 1, 0.01).minimum()
    expected = sigmoid(slope * (rows @ weights) + offset)
    model = LinearSVM(norm_penalty=0.01, scores="probability")
    np.testing.assert_allclose(solved(model, matrix, labels).scores[:, 1], expected, atol=1e-4)


def test_probabilities_need_two_labels_of_every_class() -> None:
    matrix, classes = points()
    nodes = np.r_[np.flatnonzero(classes == 0)[:4], np.flatnonzero(classes == 1)[:1]]
    labels = Labels.from_pairs(nodes, np.where(classes[nodes] > 0, "ham", "spam"))
    with pytest.raises(ValueError, match=r"at least two labels of every class.*got one of 'ham'"):
        solved(LinearSVM(scores="probability", norm_penalty=0.1), matrix, labels)


def test_probabilities_that_say_little_are_warned_of() -> None:
    rng = np.random.default_rng(0)
    labels = Labels.from_pairs(np.arange(30), np.arange(30) % 2)
    seen = [
        warning
        for seed in range(8)
        for warning in solved(
            LinearSVM(scores="probability", norm_penalty=0.1),
            np.random.default_rng(seed).standard_normal((60, 3)),
            labels,
        ).warnings
    ]
    assert any("say little" in warning for warning in seen)
    informative = rng.standard_normal((60, 3)) + 4 * (np.arange(60) % 2)[:, None]
    assert not solved(
        LinearSVM(scores="probability", norm_penalty=0.1), informative, labels
    ).warnings


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_never_turn_decisions_around(n_classes: int) -> None:
    """Few labels left out are easily predicted worse than by chance."""
    said_little = 0
    for seed in range(12):
        matrix, classes = points(n_classes, dense=True, seed=seed, shift=1.0)
        labels = labels_of(classes, 3)
        decided, likely = (
            solved(LinearSVM(norm_penalty=1e-2, scores=scores), matrix, labels)
            for scores in ("decision", "probability")
        )
        if likely.warnings:
            said_little += 1
            np.testing.assert_array_equal(
                likely.scores.argmax(axis=1), decided.scores.argmax(axis=1)
            )
    assert said_little > 0


def test_what_labels_do_not_suffice_for_is_said_before_any_work() -> None:
    matrix, classes = points()
    labels = labels_of(classes, 1)
    model = DASVM(scores="probability")
    prepared, reports = model.prepare(no_graph(N_POINTS), matrix), []
    with pytest.raises(ValueError, match="at least two labels of every class"):
        model.solve(prepared, labels, progress=reports.append)
    with pytest.raises(ValueError, match="class_balance must name every class"):
        TSVM(class_balance={"z": 1}).solve(prepared, labels, progress=reports.append)
    with pytest.raises(ValueError, match="class_costs must name every class"):
        LinearSVM(class_costs={"z": 1}).solve(prepared, labels, progress=reports.append)
    assert reports == []


def test_cross_validation_judges_decisions() -> None:
    matrix, classes = points()
    labels = labels_of(classes, 2)
    model = LinearSVM(scores="probability", norm_penalty=0.01)
    prepared = model.prepare(no_graph(N_POINTS), matrix)
    found = cross_validate(model, prepared, labels, n_folds=4)
    assert found == cross_validate(replace(model, scores="decision"), prepared, labels, n_folds=4)
    grid = {"norm_penalty": [1e-1, 1e-2]}
    assert len(tune(model, prepared, labels, grid=grid, n_folds=4).trials) == 2


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("change", ["column", "mean", "row"])
def test_uneven_features_are_solved_to_the_minimum(machine, change: str) -> None:
    matrix, classes = points(dense=True, shift=3.0)
    labels = labels_of(classes)
    matrix = matrix.copy()
    if change == "column":
        matrix[:, 0] *= 1e3
    elif change == "mean":
        matrix += 1e3
    else:
        matrix[np.setdiff1d(np.arange(N_POINTS), labels.nodes)[0]] *= 1e3
    model = machine(norm_penalty=1e-2, row_length="given")
    solution = solved(model, matrix, labels)
    assert solution.status is Status.CONVERGED
    if machine is LinearSVM:
        target = 2.0 * classes[labels.nodes] - 1.0
        rows = np.hstack([matrix[labels.nodes], np.ones((labels.n_labeled, 1))])
        theirs = LinearSVC(
            C=1.0 / (2e-2 * labels.n_labeled), tol=1e-10, max_iter=1_000_000, fit_intercept=False
        ).fit(rows, target)
        missed = np.maximum(0.0, 1.0 - target * (rows @ theirs.coef_[0]))
        least = 0.5 * (1e-2 * np.sum(theirs.coef_**2) + np.mean(missed**2))
        assert solution.stats["objective"] <= least * (1 + 1e-3)
    assert error(solution, classes, labels) < 0.25


@pytest.mark.parametrize("row_length", ["unit", "given"])
@pytest.mark.parametrize("dense", [False, True])
def test_features_beyond_squares_are_refused(row_length: str, dense: bool) -> None:
    matrix, classes = points(dense=dense)
    with pytest.raises(
        ValueError, match=r"features must lie within -1e\+150 and 1e\+150, got .*down"
    ):
        solved(LinearSVM(row_length=row_length), matrix * 1e155, labels_of(classes))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("machine", MACHINES)
def test_new_points_are_predicted_as_the_rows_they_equal(machine, dense: bool) -> None:
    matrix, classes = points(3, dense=dense)
    model = machine(norm_penalty=0.01)
    prepared = model.prepare(no_graph(N_POINTS), matrix)
    solution = model.solve(prepared, labels_of(classes))
    near = {"atol": 1e-12}
    some = np.arange(5, 60)
    np.testing.assert_allclose(
        model.predict(prepared, solution, matrix[some]), solution.scores[some], **near
    )
    with pytest.raises(ValueError, match="features must have 12 columns"):
        model.predict(prepared, solution, matrix[:, :5])


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("row_length", ["unit", "given"])
def test_new_points_may_be_dense_or_sparse_whatever_the_rows_were(
    row_length: str, dense: bool
) -> None:
    matrix, classes = points(dense=dense)
    model = LinearSVM(norm_penalty=0.01, row_length=row_length)
    prepared = model.prepare(no_graph(N_POINTS), matrix)
    solution = model.solve(prepared, labels_of(classes))
    other = sp.csr_array(matrix) if dense else matrix.toarray()
    np.testing.assert_allclose(
        model.predict(prepared, solution, other), solution.scores, atol=1e-12
    )


def written(path: Path, matrix, *, group: int = 50) -> ParquetFeatures:
    """Rows of a file, some at a time; sparse ones have empty rows."""
    if sp.issparse(matrix):
        parts = [matrix[[row]] for row in range(matrix.shape[0])]
        table = {
            "indices": [part.indices.astype(np.int32) for part in parts],
            "values": [part.data.astype(np.float32) for part in parts],
        }
    else:
        table = {"features": list(matrix.astype(np.float32))}
    node = {"node": np.arange(matrix.shape[0])}
    pq.write_table(pa.table(node | table), path / "points.parquet", row_group_size=group)
    return ParquetFeatures.open(path / "points.parquet", n_columns=matrix.shape[1])


@pytest.mark.slow
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    ("machine", "settings"),
    [
        (LinearSVM, {}),
        (LinearSVM, {"row_length": "given", "graph_penalty": 0.1}),
        (TSVM, {"norm_penalty": 0.01}),
        (TSVM, {"row_length": "given", "norm_penalty": 1.0, "constant": 0.0}),
        (DASVM, {"norm_penalty": 0.01, "max_iter": 4}),
    ],
)
def test_rows_read_anew_give_the_answer_of_rows_in_memory(
    tmp_path: Path, machine, settings, dense: bool
) -> None:
    matrix, classes = points(dense=dense)
    labels, graph = labels_of(classes), chain(classes)
    source = written(tmp_path, matrix)
    model = machine(**settings)
    found = solved(model, source, labels, graph, kept_bytes=0)
    kept = solved(model, source, labels, graph)
    expected = solved(model, matrix.astype(np.float32), labels, graph)
    stored = matrix.size
    if sp.issparse(matrix):
        stored = matrix.nnz + np.count_nonzero(np.diff(matrix.indptr) == 0)
    assert source.n_values == stored
    assert found.stats["rows"] == "streamed"
    assert kept.stats["rows"] == expected.stats["rows"] == "memory"
    assert found.stats["norm_penalty"] == pytest.approx(expected.stats["norm_penalty"])
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-9)
    np.testing.assert_allclose(kept.scores, expected.scores, atol=1e-9)
    assert found.stats["n_passes"] == expected.stats["n_passes"]


@pytest.mark.parametrize("dense", [False, True])
def test_passes_over_rows_read_anew_are_counted(tmp_path: Path, monkeypatch, dense: bool) -> None:
    matrix, classes = points(dense=dense)
    model = TSVM(norm_penalty=0.01, first_weight=0.1)
    prepared = model.prepare(no_graph(N_POINTS), written(tmp_path, matrix), kept_bytes=0)
    opened = []
    plain = ParquetFeatures.blocks

    def blocks(self, *given):
        opened.append(1)
        return plain(self, *given)

    monkeypatch.setattr(ParquetFeatures, "blocks", blocks)
    solution = model.solve(prepared, labels_of(classes))
    before_the_search = 2 + dense  # the labeled rows, the scales, and the mean of dense rows
    assert len(opened) == solution.stats["n_passes"] + before_the_search
    assert solution.stats["n_passes"] > solution.stats["n_trainings"] > 5


def test_mapped_rows_are_read_where_they_lie(tmp_path: Path) -> None:
    matrix, classes = points()
    labels = labels_of(classes)
    np.save(tmp_path / "dense.npy", matrix.toarray())
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(matrix, name))
    parts = [
        np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr")
    ]
    mapped = [
        (np.load(tmp_path / "dense.npy", mmap_mode="r"), matrix.toarray()),
        (sp.csr_array(tuple(parts), shape=matrix.shape), matrix),
    ]
    for given, loaded in mapped:
        found = solved(TSVM(norm_penalty=0.01), given, labels)
        expected = solved(TSVM(norm_penalty=0.01), loaded, labels)
        np.testing.assert_array_equal(found.scores, expected.scores)
        assert found.stats["rows"] == "mapped"


def chain(classes: np.ndarray, *, aligned: bool = True) -> Graph:
    """Each node joined to the next two, of its class or of any."""
    groups = [np.flatnonzero(classes == code) for code in np.unique(classes)]
    if not aligned:
        groups = [np.random.default_rng(5).permutation(classes.size)]
    u = np.concatenate([group[:-step] for group in groups for step in (1, 2)])
    v = np.concatenate([group[step:] for group in groups for step in (1, 2)])
    return Graph.from_edges(u, v, np.ones(u.size), n_nodes=classes.size)


@pytest.mark.parametrize(("laplacian", "power"), [("normalized", 1), ("combinatorial", 2)])
def test_the_graph_penalty_is_that_of_the_dense_twin(laplacian: str, power: int) -> None:
    matrix, classes = points(3)
    labels, graph = labels_of(classes), chain(classes)
    model = LinearSVM(norm_penalty=0.01, graph_penalty=0.7, laplacian=laplacian, power=power)
    solution = solved(model, matrix, labels, graph)
    rows = formed(matrix, is_unit=True, constant=1.0)
    penalty = 0.7 / N_POINTS * laplacian_power(graph, laplacian, power)
    total = 0.0
    for code in range(3):
        twin = supervised_twin(rows, labels, code, 0.01, graph=penalty)
        expected = twin.minimum()
        np.testing.assert_allclose(solution.scores[:, code], rows @ expected, atol=1e-4)
        total += twin.objective(expected)
    assert solution.stats["objective"] == pytest.approx(total, rel=1e-8)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_graph_of_the_classes_lowers_the_error(machine) -> None:
    errors = np.zeros((4, 2))
    for seed in range(4):
        matrix, classes = points(seed=seed, shift=1.0)
        labels = labels_of(classes, 5)
        for column, graph_penalty in enumerate((0.0, 3.0)):
            model = machine(norm_penalty=1e-3, graph_penalty=graph_penalty)
            solution = solved(model, matrix, labels, chain(classes))
            errors[seed, column] = error(solution, classes, labels)
    assert errors[:, 1].mean() < errors[:, 0].mean() - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_threads_change_no_score(machine) -> None:
    matrix, classes = sparse_points(3000, 300, shift=4.0)
    labels = labels_of(classes, 30)
    model = machine(norm_penalty=0.1, graph_penalty=0.1)
    expected = solved(model, matrix, labels, chain(classes))
    with ThreadPoolExecutor(2) as pool:
        found = solved(model, matrix, labels, chain(classes), parallel=pool.map)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("machine", [TSVM, DASVM])
def test_unlabeled_nodes_lower_the_error(machine) -> None:
    errors = np.zeros((6, 2))
    for seed in range(6):
        matrix, classes = sparse_points(400, 12, seed=seed, shift=2.5)
        labels = labels_of(classes, 3)
        settings = {"norm_penalty": 0.01}
        errors[seed, 0] = error(solved(LinearSVM(**settings), matrix, labels), classes, labels)
        model = machine(class_balance=shares_of(classes), **settings)
        errors[seed, 1] = error(solved(model, matrix, labels), classes, labels)
    assert errors[:, 1].mean() < errors[:, 0].mean()


@pytest.mark.parametrize("machine", [TSVM, DASVM])
def test_shares_from_few_labels_are_warned_of(machine) -> None:
    matrix, classes = points()
    few = solved(machine(norm_penalty=0.01), matrix, labels_of(classes, 3))
    assert any("the share of each class is taken from 6 labels" in text for text in few.warnings)
    known = machine(norm_penalty=0.01, class_balance=shares_of(classes))
    assert not solved(known, matrix, labels_of(classes, 3)).warnings
    enough = labels_of(classes, 15)
    assert not solved(machine(norm_penalty=0.01), matrix, enough).warnings
    many, three = points(3)[0], points(3)[1]
    warnings = solved(machine(norm_penalty=0.01), many, labels_of(three, 3)).warnings
    assert len(warnings) == len(set(warnings)) == 1


def test_one_class_for_every_node_is_warned_of() -> None:
    matrix, classes = points()
    nodes = np.r_[np.flatnonzero(classes == 0)[:9], np.flatnonzero(classes == 1)[:2]]
    labels = Labels.from_pairs(nodes, np.where(classes[nodes] > 0, "ham", "spam"))
    heavy = solved(LinearSVM(norm_penalty=100.0), matrix, labels)
    assert (heavy.scores.argmax(axis=1) == 1).all()
    assert len(heavy.warnings) == 1
    assert "every node gets the class 'spam': lower norm_penalty, 100 here" in heavy.warnings[0]
    assert not solved(LinearSVM(norm_penalty=0.01), matrix, labels).warnings


def test_classes_that_no_label_has_are_warned_of() -> None:
    matrix, classes = points()
    shares = {0: 1, 1: 1, "egg": 1}
    for model in (TSVM(class_balance=shares), LinearSVM(class_costs=shares)):
        told = solved(model, matrix, labels_of(classes)).warnings
        assert [each for each in told if "names 'egg', which no label has; it was left out" in each]


@pytest.mark.parametrize(
    ("name", "value"), [("unlabeled_weight", 1e300), ("first_weight", 1e-300), ("constant", 1e200)]
)
def test_weights_that_no_search_ends_with_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a finite number"):
        TSVM(**{name: value})


def test_one_switching_too_few_is_a_status() -> None:
    matrix, classes = points()
    solution = solved(TSVM(norm_penalty=0.01, max_iter=2), matrix, labels_of(classes))
    assert solution.status is Status.MAX_ITER
    assert np.isfinite(solution.scores).all()


def test_pairs_at_once_change_the_work_and_hardly_the_objective() -> None:
    matrix, classes = sparse_points(300, 12, shift=1.0)
    labels = labels_of(classes, 3)
    one, every = (
        solved(TSVM(norm_penalty=0.01, max_pairs=pairs), matrix, labels).stats
        for pairs in (1, "all")
    )
    assert one["objective"] == pytest.approx(every["objective"], rel=1e-3)
    assert one["n_trainings"] > every["n_trainings"]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("settings", [{"graph_penalty": 0.1}, {"scores": "probability"}])
def test_a_cancelled_solve_ends_wherever_it_is(machine, settings) -> None:
    matrix, classes = points()
    labels, asked = labels_of(classes, 6), []
    model = machine(**settings)
    prepared = model.prepare(chain(classes), matrix)

    def solve_until(most: float) -> Solution:
        asked.clear()

        def cancelled() -> bool:
            asked.append(1)
            return len(asked) > most

        return model.solve(prepared, labels, cancelled=cancelled)

    whole = solve_until(np.inf)
    for most in (0, len(asked) // 3, len(asked) - 1):
        stopped = solve_until(most)
        assert len(asked) == most + 1
        assert stopped.status is Status.CANCELLED
        np.testing.assert_allclose(stopped.scores.sum(axis=1), 1.0)
        with pytest.raises(ValueError, match="got one that was cancelled"):
            model.predict(prepared, stopped, matrix)
    np.testing.assert_array_equal(model.solve(prepared, labels).scores, whole.scores)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_a_start_changes_no_answer(machine) -> None:
    matrix, classes = points(3)
    model = machine(norm_penalty=0.01, graph_penalty=0.1)
    prepared = model.prepare(chain(classes), matrix)
    labels, fewer = labels_of(classes), labels_of(classes, 9)
    first = model.solve(prepared, fewer)
    cold = model.solve(prepared, labels)
    warm = model.solve(prepared, labels, start=first)
    np.testing.assert_allclose(warm.scores, cold.scores, atol=1e-4)
    if machine is LinearSVM:
        again = model.solve(prepared, labels, start=cold)
        assert again.stats["n_iter"] < cold.stats["n_iter"]
    else:
        np.testing.assert_array_equal(warm.scores, cold.scores)
    two = Labels.from_pairs(labels.nodes, (labels.classes > 0).astype(int))
    unused = model.solve(prepared, two, start=first)
    np.testing.assert_array_equal(unused.scores, model.solve(prepared, two).scores)


@pytest.mark.parametrize("seed", [5, 23, 25, 37, 41])
def test_a_start_whose_margins_hold_every_label_is_solved(seed: int) -> None:
    """As after those inside the margin were taken back."""
    matrix, classes = sparse_points(60, seed=seed)
    model = LinearSVM(norm_penalty=0.01)
    prepared = model.prepare(no_graph(60), matrix)
    first = model.solve(prepared, Labels.from_pairs(np.arange(60), classes))
    kept = np.flatnonzero(first.scores[np.arange(60), classes] > 1)
    labels = Labels.from_pairs(kept, classes[kept])
    warm = model.solve(prepared, labels, start=first)
    np.testing.assert_allclose(warm.scores, model.solve(prepared, labels).scores, atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES)
def test_without_features_the_points_are_the_spectral_embedding(machine) -> None:
    _, classes = points()
    labels = labels_of(classes, 10)
    bridge = Graph.from_edges(
        [0], [int(np.flatnonzero(classes != classes[0])[0])], [0.1], n_nodes=N_POINTS
    )
    joined = chain(classes).adjacency + bridge.adjacency
    model = machine(norm_penalty=1e-3, n_dimensions=6)
    prepared = model.prepare(Graph.from_adjacency(joined.toarray()))
    solution = model.solve(prepared, labels)
    assert solution.stats["input"] == "spectral embedding"
    assert error(solution, classes, labels) < 0.25
    with pytest.raises(ValueError, match="new points need a model of features"):
        model.predict(prepared, solution, np.zeros((1, 6)))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dense", [False, True])
def test_rows_of_nothing_but_zeros_have_the_score_of_the_constant(machine, dense: bool) -> None:
    matrix = np.zeros((30, 4))
    labels = Labels.from_pairs([0, 1, 2, 3], [0, 0, 0, 1])
    given = matrix if dense else sp.csr_array(matrix)
    solution = solved(machine(norm_penalty=0.01), given, labels)
    assert solution.status is Status.CONVERGED
    np.testing.assert_array_equal(solution.scores, np.tile(solution.scores[0], (30, 1)))
    assert np.isfinite(solution.scores).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_without_anything_to_go_by_nothing_is_found(machine) -> None:
    labels = Labels.from_pairs([0, 1, 2, 3], [0, 0, 0, 1])
    solution = solved(machine(norm_penalty=0.01, constant=0.0), np.zeros((30, 4)), labels)
    np.testing.assert_array_equal(solution.scores, 0.0)


def test_models_of_one_preparation_do_not_mix_their_rows() -> None:
    matrix, classes = points(dense=True)
    labels = labels_of(classes)
    models = [
        LinearSVM(norm_penalty=0.01),
        LinearSVM(norm_penalty=0.01, row_length="given"),
        TSVM(norm_penalty=0.01, constant=2.0),
        LinearSVM(norm_penalty=0.01),
        DASVM(norm_penalty=0.01, graph_penalty=0.1),
    ]
    graph = chain(classes)
    prepared = models[0].prepare(graph, matrix)
    for model in models:
        alone = solved(model, matrix, labels, graph)
        np.testing.assert_array_equal(model.solve(prepared, labels).scores, alone.scores)


def test_progress_names_what_is_done() -> None:
    matrix, classes = points(3)
    reports = []
    model = DASVM(multi_class="one-against-rest")
    prepared = model.prepare(no_graph(N_POINTS), matrix)
    model.solve(prepared, labels_of(classes), progress=reports.append)
    phases = list(dict.fromkeys(report.phase for report in reports))
    searches = [f"searching, class {code} of 3" for code in (1, 2, 3)]
    assert phases == ["choosing norm_penalty", *searches, "predicting"]
    assert all(0 <= report.fraction <= 1 for report in reports)
