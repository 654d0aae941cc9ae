"""Multiple switching against enumerated labelings and identities."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.linear.finite_newton import Hinges, LinearPoint, minimize
from peewit.solvers.linear.switching import SwitchRule, _highest, _n_rounds, _switch, switch_labels
from peewit.solvers.linear.transductive_problem import Transduced, Transduction, loss_gain
from peewit.solvers.status import Status
from tests.reference.linear_machines import formed
from tests.solvers.linear_problems import small, transductive_twin, twin

SILENT = Watch(progress=None, cancelled=None)


def started(task: Transduction) -> LinearPoint:
    """The machine of the labeled rows, at all rows."""
    return minimize(task.problem, task.hinges(0.0, 0.0), LinearPoint.origin(task.problem.rows))


def switched(task: Transduction, watch: Watch = SILENT, **settings) -> Transduced:
    (found,) = path(task, [task.unlabeled_weight], watch, **settings)
    return found


def path(
    task: Transduction, weights: list[float], watch: Watch = SILENT, **settings
) -> list[Transduced]:
    given = {"max_pairs": None, "first_weight": 1e-2, "max_trainings": 100_000}
    rule = SwitchRule(**(given | settings))
    found = switch_labels([task], [started(task)], weights, rule, phase="searching", watch=watch)
    return [one for (one,) in found]


@pytest.fixture
def trainings(monkeypatch) -> list[tuple[Hinges, LinearPoint, LinearPoint]]:
    """What each training was given, and what came of it."""
    seen = []
    plain = Transduction.trained

    def trained(self, hinges, start, rtol) -> LinearPoint:
        found = plain(self, hinges, start, rtol)
        seen.append((hinges, start, found))
        return found

    monkeypatch.setattr(Transduction, "trained", trained)
    return seen


def is_last_weight(task: Transduction, hinges: Hinges) -> bool:
    return np.isclose(
        hinges.positive[task.unlabeled].max(), task.unlabeled_weight / task.n_unlabeled
    )


def margins(task: Transduction, trainings) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the unlabeled rows with the label 1 and with -1, at the end."""
    hinges, _, found = trainings[-1]
    positive = hinges.positive[task.unlabeled] > 0
    outputs = found.outputs[task.unlabeled]
    return outputs[positive], outputs[~positive]


@pytest.mark.parametrize("share", [0.02, 0.35, 0.5, 0.9])
@pytest.mark.parametrize("max_pairs", [1, 3, None])
def test_the_number_of_labels_1_stays(trainings, max_pairs, share: float) -> None:
    """(I31)."""
    task = small(1).task(share=share)
    found = switched(task, max_pairs=max_pairs)
    assert found.status is Status.CONVERGED
    assert task.n_positive == round(share * 44)
    for hinges, _, _ in trainings:
        positive, negative = hinges.positive[task.unlabeled], hinges.negative[task.unlabeled]
        assert np.count_nonzero(positive) == task.n_positive
        np.testing.assert_array_equal(positive > 0, negative == 0)
        np.testing.assert_allclose(positive + negative, positive.max(initial=negative.max()))


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("max_pairs", [1, None])
def test_neither_a_switch_nor_a_training_raises_the_objective(
    trainings, max_pairs, seed: int
) -> None:
    """(I31)."""
    case = small(seed, n_rows=150, shift=0.8)
    task = case.task(norm_penalty=1e-3)
    switched(task, max_pairs=max_pairs, first_weight=1.0)
    values = []
    for hinges, start, found in trainings:
        assert is_last_weight(task, hinges)
        dense = twin(task.problem, hinges, case.dense)
        values += [dense.objective(start.weights), dense.objective(found.weights)]
    assert task.figures.n_switches > 0
    assert (np.diff(values) <= 1e-10 * values[0]).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("max_pairs", [1, None])
def test_no_pair_is_left_to_switch(trainings, max_pairs, seed: int) -> None:
    case = small(seed, n_rows=150, shift=0.8)
    task = case.task(norm_penalty=1e-3, share=0.4)
    found = switched(task, max_pairs=max_pairs)
    hinges, _, last = trainings[-1]
    positive, negative = margins(task, trainings)
    assert found.status is Status.CONVERGED
    assert positive.min() >= negative.max()
    np.testing.assert_array_equal(found.point.weights, last.weights)
    dense = twin(task.problem, hinges, case.dense)
    assert is_last_weight(task, hinges)
    assert found.objective == pytest.approx(dense.objective(last.weights), rel=1e-10)
    least = dense.objective(dense.minimum())
    assert found.objective == pytest.approx(least, rel=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_one_pair_at_a_time_and_all_at_once_end_alike(seed: int) -> None:
    case = small(seed, n_rows=200, n_labeled=12, shift=2.5)
    share = float(case.truth.mean())
    objectives = [
        switched(case.task(share=share), max_pairs=max_pairs).objective for max_pairs in (1, None)
    ]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_it_comes_close_to_the_best_of_all_labelings(seed: int) -> None:
    case = small(seed, n_rows=14, n_labeled=6, n_columns=4, shift=2.5)
    task = case.task(norm_penalty=0.05)
    found = switched(task)
    least = transductive_twin(task, case.dense).least_objective(task.n_positive)
    assert found.objective >= least * (1 - 1e-9)
    assert found.objective <= least * 1.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, 4])
def test_it_finds_the_best_labeling_where_the_classes_are_far_apart(seed: int) -> None:
    case = small(seed, n_rows=14, n_labeled=4, n_columns=4, shift=8.0)
    share = float(np.delete(case.truth, case.nodes).mean())
    task = case.task(norm_penalty=0.05, share=share)
    least = transductive_twin(task, case.dense).least_objective(task.n_positive)
    assert switched(task).objective == pytest.approx(least, rel=1e-8)


def test_of_equal_outputs_those_that_come_first_get_the_label_1(trainings) -> None:
    case = small(0, n_rows=20, n_labeled=4)
    matrix = case.matrix.toarray()
    matrix[np.setdiff1d(np.arange(20), case.nodes)] = 0.0
    task = replace(case, matrix=sp.csr_array(matrix)).task(share=0.25)
    switched(task)
    for hinges, _, _ in trainings:
        np.testing.assert_array_equal(
            hinges.positive[task.unlabeled] > 0, np.arange(16) < task.n_positive
        )
    assert task.figures.n_switches == 0


@given(outputs=st.lists(st.integers(-3, 3), min_size=1, max_size=12), data=st.data())
def test_the_highest_are_those_of_a_stable_order(outputs: list[int], data) -> None:
    n_highest = data.draw(st.integers(0, len(outputs)))
    order = sorted(range(len(outputs)), key=lambda row: (-outputs[row], row))
    chosen = _highest(np.array(outputs, float), n_highest)
    assert set(np.flatnonzero(chosen)) == set(order[:n_highest])


@given(
    rows=st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=14),
    max_pairs=st.none() | st.integers(1, 4),
)
def test_pairs_change_places_from_the_furthest_apart_on(rows, max_pairs) -> None:
    outputs = np.array([output for output, _ in rows], float)
    before = np.array([int(label) for _, label in rows])
    low = sorted((outputs[row], row) for row in np.flatnonzero(before))
    high = sorted((-outputs[row], row) for row in np.flatnonzero(before == 0))
    pairs = [
        (first, second)
        for (one, first), (other, second) in zip(low, high, strict=False)
        if one < -other
    ][:max_pairs]
    expected = before.copy()
    for first, second in pairs:
        expected[first], expected[second] = 0, 1
    after, gain = before.copy(), np.column_stack([0 * outputs, loss_gain(outputs, 1.0)])
    assert _switch(gain, after, max_pairs) == len(pairs)
    np.testing.assert_array_equal(after, expected)


@given(positive=st.floats(-5, 5), negative=st.floats(-5, 5))
def test_a_pair_in_the_wrong_order_costs_less_the_other_way_round(
    positive: float, negative: float
) -> None:
    def cost(one: float, other: float) -> float:
        return max(0, 1 - one) ** 2 + max(0, 1 + other) ** 2

    if positive < negative:
        assert cost(negative, positive) <= cost(positive, negative)


@pytest.mark.parametrize("first_weight", [1e-5, 1e-2, 0.7, 5.0])
def test_the_weight_grows_by_half_to_the_one_asked_for(trainings, first_weight: float) -> None:
    task = small(2).task(unlabeled_weight=0.8)
    switched(task, first_weight=first_weight)
    weights = [
        task.n_unlabeled * hinges.positive[task.unlabeled].max() for hinges, _, _ in trainings
    ]
    rounds = [weights[0]]
    for weight in weights[1:]:
        if not np.isclose(weight, rounds[-1]):
            rounds.append(weight)
    expected = [min(first_weight, 0.8)]
    while expected[-1] < 0.8:
        expected.append(min(1.5 * expected[-1], 0.8))
    np.testing.assert_allclose(rounds, expected)
    assert _n_rounds(first_weight, 0.8) == len(expected)


def test_one_search_through_all_weights_gives_what_one_for_each_gives() -> None:
    weights = [0.005, 0.3, 1.0, 3.0]
    together = path(small(3, n_rows=150, shift=0.8).task(norm_penalty=1e-3), weights)
    for weight, found in zip(weights, together, strict=True):
        own = small(3, n_rows=150, shift=0.8).task(norm_penalty=1e-3, unlabeled_weight=weight)
        alone = switched(own)
        np.testing.assert_array_equal(found.point.weights, alone.point.weights)
        assert (found.objective, found.status) == (alone.objective, alone.status)


@pytest.mark.parametrize("max_trainings", [1, 4])
def test_too_few_trainings_are_said_to_be(max_trainings: int) -> None:
    task = small(1).task()
    found = switched(task, max_trainings=max_trainings)
    assert found.status is Status.MAX_ITER
    assert task.figures.n_trainings == max_trainings
    assert np.isfinite(found.objective)


@pytest.mark.parametrize("n_steps", [0, 3])
def test_who_asks_for_the_end_gets_it(n_steps: int) -> None:
    reports = []
    watch = Watch(progress=reports.append, cancelled=lambda: len(reports) > n_steps)
    with pytest.raises(RunStopped):
        switched(small(1).task(), watch=watch)
    assert len(reports) == n_steps + 1


def test_progress_goes_through_the_rounds() -> None:
    reports = []
    switched(small(1).task(), watch=Watch(progress=reports.append, cancelled=None))
    done = [report.n_iter for report in reports]
    assert done == sorted(done)
    assert {report.max_iter for report in reports} == {_n_rounds(1e-2, 1.0)}
    assert done[-1] == reports[-1].max_iter - 1


@pytest.mark.parametrize("share", [1e-9, 1 - 1e-9])
def test_one_label_for_all_is_a_labeling(share: float) -> None:
    case = small(1)
    task = case.task(share=share)
    found = switched(task)
    dense = transductive_twin(task, formed(case.matrix, is_unit=True, constant=1.0))
    machine = dense.machine(np.full(task.n_unlabeled, round(share)))
    assert found.status is Status.CONVERGED
    assert found.objective == pytest.approx(machine.objective(machine.minimum()), rel=1e-8)
