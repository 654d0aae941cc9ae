"""Several classes at once, one for each row (F9), against enumeration, scipy and two classes."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, minimize

from peewit.solvers.iteration_loop import Watch
from peewit.solvers.linear import annealing, beliefs
from peewit.solvers.linear.annealing import anneal
from peewit.solvers.linear.beliefs import class_beliefs, entropy
from peewit.solvers.linear.finite_newton import LinearPoint, LinearProblem
from peewit.solvers.linear.switching import SwitchRule, _placed, _switch, switch_labels
from peewit.solvers.linear.transductive_problem import (
    Transduced,
    Transduction,
    class_gains,
    class_sizes,
    whole_sizes,
)
from peewit.solvers.status import Status
from tests.solvers.linear.test_annealing import SCHEDULE
from tests.solvers.linear.test_switching import SILENT, started
from tests.solvers.linear_problems import in_memory, small, sparse_points, transductive_twin

RULE = SwitchRule(max_pairs=None, first_weight=1e-2, max_trainings=1000)


def tasks_of(seed: int, *, n_classes: int = 3, sizes=None, **settings) -> list[Transduction]:
    """Each class against the rest: 60 rows, of which the first 5 of each class are labeled."""
    matrix, classes = sparse_points(60, 8, n_classes=n_classes, seed=seed, shift=1.2)
    nodes = np.sort(
        np.concatenate([np.flatnonzero(classes == code)[:5] for code in range(n_classes)])
    )
    unlabeled = np.delete(classes, nodes)
    sizes = np.bincount(unlabeled, minlength=n_classes) if sizes is None else sizes
    problem = LinearProblem(rows=in_memory(matrix), norm_penalty=1e-2)
    return [
        Transduction(
            problem=problem,
            nodes=nodes,
            targets=np.where(classes[nodes] == code, 1.0, -1.0),
            costs=np.full(nodes.size, 1 / nodes.size),
            positive_share=sizes[code] / unlabeled.size,
            unlabeled_weight=settings.get("unlabeled_weight", 1.0),
        )
        for code in range(n_classes)
    ]


def mirrored(task: Transduction) -> list[Transduction]:
    """Two classes as two functions."""
    rest = replace(task, targets=-task.targets, positive_share=1 - task.positive_share)
    return [rest, task]


def annealed(tasks: list[Transduction], **settings) -> list[Transduced]:
    schedule = replace(SCHEDULE, **settings)
    start = LinearPoint.origin(tasks[0].problem.rows)
    return anneal(tasks, start, schedule, phase="", watch=SILENT)


def switched(tasks: list[Transduction], **settings) -> list[Transduced]:
    rule = replace(RULE, **settings)
    starts = [started(task) for task in tasks]
    weights = [tasks[0].unlabeled_weight]
    (found,) = switch_labels(tasks, starts, weights, rule, phase="", watch=SILENT)
    return found


def gains(seed: int, n_rows: int, n_classes: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    gain = 10.0 ** rng.uniform(-2, 2) * rng.standard_normal((n_rows, n_classes))
    gain += rng.choice([0.0, 30.0]) * rng.standard_normal(n_classes)
    gain[: n_rows // 3] = gain[0]
    return gain


def cost_of(gain: np.ndarray, classes: np.ndarray) -> float:
    return float(gain[np.arange(len(gain)), classes].sum())


@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(3, 40),
    n_classes=st.integers(1, 6),
    ratio=st.floats(-4, 3),
    is_whole=st.booleans(),
)
def test_rows_have_sum_1_and_columns_the_shares(
    seed: int, n_rows: int, n_classes: int, ratio: float, is_whole: bool
) -> None:
    """(I43)."""
    gain, rng = gains(seed, n_rows, n_classes), np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(n_classes, 0.5))
    if is_whole:
        shares = rng.multinomial(n_rows, shares) / n_rows
    temperature = (np.ptp(gain) + 1e-9) * 10.0**ratio
    belief, shift, is_met = class_beliefs(gain, temperature, shares, 5 * rng.random(n_classes))
    assert is_met
    np.testing.assert_allclose(belief.mean(axis=0), shares, atol=2e-10)
    np.testing.assert_allclose(belief.sum(axis=1), 1.0, atol=1e-12)
    held = np.flatnonzero(shares > 0)
    inner = ((shift - gain) / temperature)[:, held]
    expected = np.exp(inner - inner.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(belief[:, held], expected, atol=1e-9)
    assert not np.delete(belief, held, axis=1).any()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("temperature", [0.3, 3.0])
def test_beliefs_are_those_of_scipy(temperature: float, seed: int) -> None:
    """(F10): the least of mean p g - T entropy under the constraints, by its dual."""
    gain = np.random.default_rng(seed).standard_normal((12, 4))
    shares = np.random.default_rng(seed + 50).dirichlet(np.full(4, 5.0))

    def dual(free: np.ndarray) -> float:
        inner = (np.append(free, 0.0) - gain) / temperature
        soft = temperature * np.mean(np.logaddexp.reduce(inner, axis=1))
        return float(soft - shares[:-1] @ free)

    found = minimize(dual, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    belief, shift, _ = class_beliefs(gain, temperature, shares, np.zeros(4))
    np.testing.assert_allclose(shift[:-1] - shift[-1], found.x, atol=1e-5)
    least = np.mean(np.sum(belief * gain, axis=1)) - temperature * entropy(belief)
    assert least == pytest.approx(-found.fun, abs=1e-9)


@given(seed=st.integers(0, 10_000), ratio=st.floats(-3, 3), share=st.floats(0.05, 0.95))
def test_beliefs_of_two_classes_are_those_of_their_difference(
    seed: int, ratio: float, share: float
) -> None:
    """(I43): also where the method is that of several classes."""
    gain, shares = gains(seed, 20, 2), np.array([1 - share, share])
    temperature = np.ptp(gain) * 10.0**ratio
    belief, _, _ = class_beliefs(gain, temperature, shares, np.zeros(2))
    several, _ = beliefs._dual_minimum(gain, temperature, shares, np.zeros(2))
    np.testing.assert_allclose(several, belief, atol=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_a_low_temperature_gives_the_cheapest_classes_of_given_sizes(seed: int) -> None:
    gain = np.random.default_rng(seed).standard_normal((12, 3))
    sizes = np.array([3, 5, 4])
    rows, places = linear_sum_assignment(np.repeat(gain, sizes, axis=1))
    classes = np.repeat(np.arange(3), sizes)[places]
    belief, _, is_met = class_beliefs(gain, 1e-4, sizes / 12, np.zeros(3))
    assert is_met
    np.testing.assert_array_equal(rows, np.arange(12))
    np.testing.assert_allclose(belief, np.eye(3)[classes], atol=1e-6)


def test_means_that_rounding_forbids_are_not_met_and_said_so() -> None:
    gain = np.array([[1.0, 0.1, 0.3], [1.0 + 1e-15, 0.1, 0.3]])
    assert not class_beliefs(gain, 1e-18, np.array([0.5, 0.2, 0.3]), np.zeros(3))[2]


@pytest.mark.parametrize("seed", range(3))
def test_two_classes_at_once_are_annealed_as_one_against_the_other(seed: int) -> None:
    """(I43): twice the objective at twice the temperature."""
    case = small(seed)
    task = case.task(share=0.4, norm_penalty=0.05)
    (one,), both = annealed([task]), annealed(mirrored(task))
    np.testing.assert_allclose(both[1].point.outputs, one.point.outputs, atol=1e-4)
    np.testing.assert_allclose(both[0].point.outputs, -one.point.outputs, atol=1e-4)
    assert both[0].objective == pytest.approx(one.objective, rel=1e-6)
    assert both[1].objective == pytest.approx(one.objective, rel=1e-6)


@pytest.mark.parametrize("max_pairs", [1, None])
@pytest.mark.parametrize("seed", range(1, 4))
def test_two_classes_at_once_are_switched_as_one_against_the_other(max_pairs, seed: int) -> None:
    case = small(seed, n_rows=120, shift=0.8)
    task = case.task(norm_penalty=1e-2, share=0.4)
    (one,), both = (
        switched([task], max_pairs=max_pairs),
        switched(mirrored(task), max_pairs=max_pairs),
    )
    np.testing.assert_allclose(both[1].point.outputs, one.point.outputs, atol=1e-4)
    np.testing.assert_allclose(both[0].point.outputs, -one.point.outputs, atol=1e-4)
    assert sum(found.objective for found in both) == pytest.approx(2 * one.objective, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_at_a_temperature_neither_step_raises_the_objective(monkeypatch, seed: int) -> None:
    """(I44)."""
    tasks, temperature = tasks_of(seed), 2 * 0.1
    shares, values = class_sizes(tasks) / tasks[0].n_unlabeled, []
    twins = [transductive_twin(task, np.eye(60)) for task in tasks]

    def value(belief: np.ndarray, points: list[LinearPoint]) -> float:
        total = sum(
            replace(twin, norm_penalty=0.0).machine(own).objective(point.outputs)
            + 0.5 * twin.norm_penalty * np.sum(point.weights**2)
            for twin, own, point in zip(twins, belief.T, points, strict=True)
        )
        return total - 0.5 * temperature * entropy(belief)

    plain = annealing._train

    def trained(tasks, belief, starts, rtol) -> list[LinearPoint]:
        found = plain(tasks, belief, starts, rtol)
        if rtol > 1e-3:
            np.testing.assert_allclose(belief.mean(axis=0), shares, atol=1e-9)
            values.extend([value(belief, starts), value(belief, found)])
        return found

    monkeypatch.setattr(annealing, "_train", trained)
    found = annealed(tasks, first=0.1, max_steps=1)
    assert all(one.status is Status.CONVERGED for one in found)
    assert len(values) > 8
    assert (np.diff(values) <= 1e-9).all()


@pytest.mark.parametrize("seed", range(3))
def test_no_step_had_a_smaller_objective_than_the_classes_that_suit_best(
    monkeypatch, seed: int
) -> None:
    """(I35) of several classes."""
    tasks, steps = tasks_of(seed), []
    twins = [transductive_twin(task, np.eye(60)) for task in tasks]

    def least(points: list[LinearPoint]) -> float:
        """J by trying every class for every row."""
        outputs = np.column_stack([point.outputs for point in points])[tasks[0].unlabeled]
        total = 0.0
        for row in outputs:
            loss = [
                sum(max(0, 1 - (o if own == code else -o)) ** 2 for own, o in enumerate(row))
                for code in range(len(tasks))
            ]
            total += 0.5 * min(loss) / len(outputs)
        for twin, point in zip(twins, points, strict=True):
            own = replace(twin, norm_penalty=0.0).supervised().objective(point.outputs)
            total += own + 0.5 * twin.norm_penalty * np.sum(point.weights**2)
        return total

    plain = annealing._train

    def trained(*given) -> list[LinearPoint]:
        steps.append(plain(*given))
        return steps[-1]

    monkeypatch.setattr(annealing, "_train", trained)
    found = annealed(tasks, divergence_tol=1e9)  # one training in each step
    own = least([one.point for one in found])
    assert sum(one.objective for one in found) == pytest.approx(own, rel=1e-9)
    assert len(steps) > 5
    assert own <= min(least(points) for points in steps[:-1]) * (1 + 1e-9)


def test_unmet_means_are_a_status(monkeypatch) -> None:
    monkeypatch.setattr(beliefs, "_MAX_NEWTON", 0)
    found = annealed(tasks_of(0), max_steps=1)
    assert [one.status for one in found] == [Status.STAGNATED] * 3


@pytest.mark.parametrize("max_pairs", [1, 4, None])
@pytest.mark.parametrize("seed", range(3))
def test_switching_keeps_the_sizes_and_lowers_the_objective(
    monkeypatch, max_pairs, seed: int
) -> None:
    """(I31) of several classes."""
    tasks, values, placed = tasks_of(seed, unlabeled_weight=2.0), [], []
    plain = Transduction.trained

    def trained(self, hinges, start, rtol) -> LinearPoint:
        found = plain(self, hinges, start, rtol)
        placed.append(hinges.positive[self.unlabeled] > 0)
        values.append(
            [self.problem.objective(hinges, each.weights, each.outputs) for each in (start, found)]
        )
        return found

    starts = [started(task) for task in tasks]
    monkeypatch.setattr(Transduction, "trained", trained)
    rule = replace(RULE, max_pairs=max_pairs, first_weight=2.0)
    (found,) = switch_labels(tasks, starts, [2.0], rule, phase="", watch=SILENT)
    rounds = np.reshape(placed, (-1, 3, tasks[0].n_unlabeled))
    assert (rounds.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(rounds.sum(axis=2), np.tile(class_sizes(tasks), (len(rounds), 1)))
    totals = np.reshape(values, (-1, 3, 2)).sum(axis=1).ravel()
    assert (np.diff(totals) <= 1e-10 * totals[0]).all()
    assert sum(one.objective for one in found) == pytest.approx(totals[-1], rel=1e-12)
    assert all(one.status is Status.CONVERGED for one in found)
    gain = class_gains(tasks, [one.point for one in found], 1.0)
    assert not _switch(gain, rounds[-1].argmax(axis=0), None)


@given(seed=st.integers(0, 10_000), n_classes=st.integers(2, 4), max_pairs=st.none() | st.just(1))
def test_no_pair_is_left_whose_switch_costs_less(seed: int, n_classes: int, max_pairs) -> None:
    rng = np.random.default_rng(seed)
    gain = rng.integers(-5, 6, (9, n_classes)).astype(float)
    classes = rng.integers(n_classes, size=9)
    before, n_switched = classes.copy(), -1
    while n_switched:
        last = cost_of(gain, classes)
        n_switched = _switch(gain, classes, max_pairs)
        assert n_switched <= (max_pairs or 9**3)
        assert cost_of(gain, classes) < last or not n_switched
    np.testing.assert_array_equal(np.sort(classes), np.sort(before))
    for one in range(9):
        for other in range(one):
            turned = classes.copy()
            turned[[one, other]] = classes[[other, one]]
            assert cost_of(gain, turned) >= cost_of(gain, classes)


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_placed_and_switched_to_nearly_the_cheapest_classes(seed: int) -> None:
    gain, sizes = np.random.default_rng(seed).standard_normal((7, 3)), np.array([2, 2, 3])
    classes = _placed(gain, sizes)
    np.testing.assert_array_equal(np.bincount(classes, minlength=3), sizes)
    _switch(gain, classes, None)
    every = [
        cost_of(gain, np.array(each)) for each in set(permutations(np.repeat(range(3), sizes)))
    ]
    assert cost_of(gain, classes) <= min(every) + 0.15 * (np.mean(every) - min(every))


def test_classes_without_a_row_and_a_class_of_all() -> None:
    for sizes in ([0, 45, 0], [0, 20, 25]):
        tasks = tasks_of(1, sizes=np.array(sizes))
        for found in (annealed(tasks, max_steps=3), switched(tasks)):
            assert all(one.status is Status.CONVERGED for one in found)
            assert all(np.isfinite(one.point.outputs).all() for one in found)


def test_too_few_trainings_are_said_to_be() -> None:
    found = switched(tasks_of(0), max_trainings=2)
    assert [one.status for one in found] == [Status.MAX_ITER] * 3


def test_progress_goes_through_the_steps() -> None:
    reports = []
    watch = Watch(progress=reports.append, cancelled=None)
    tasks = tasks_of(2)
    start = LinearPoint.origin(tasks[0].problem.rows)
    anneal(tasks, start, replace(SCHEDULE, max_steps=4), phase="searching", watch=watch)
    assert {report.n_iter for report in reports} == set(range(4))


@given(shares=st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=6), n_rows=st.integers(0, 50))
def test_whole_sizes_are_within_a_row_of_the_shares(shares: list[float], n_rows: int) -> None:
    sizes = whole_sizes(np.array(shares), n_rows)
    exact = np.array(shares) / sum(shares) * n_rows
    assert sizes.sum() == n_rows
    assert (np.abs(sizes - exact) < 1 + 1e-9).all()
    up = sizes > np.floor(exact)
    rest = exact - np.floor(exact)
    assert rest[up].min(initial=1.0) >= rest[~up].max(initial=0.0) - 1e-9
