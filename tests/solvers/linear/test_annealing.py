"""Annealing against a root finder, duplicated rows and identities."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.linear import annealing
from peewit.solvers.linear.annealing import Schedule, anneal
from peewit.solvers.linear.beliefs import beliefs, divergence, entropy
from peewit.solvers.linear.finite_newton import LinearPoint
from peewit.solvers.linear.transductive_problem import Transduced, Transduction, loss_gain
from peewit.solvers.status import Status
from tests.reference.linear_machines import root_beliefs
from tests.solvers.linear.test_switching import SILENT, switched
from tests.solvers.linear_problems import small, transductive_twin

SCHEDULE = Schedule(first=10.0, cooling=1.5, divergence_tol=1e-6, entropy_tol=1e-6, max_steps=30)

SHARES = st.floats(1e-9, 1 - 1e-9) | st.floats(0.05, 0.95)


def annealed(task: Transduction, watch: Watch = SILENT, **settings) -> Transduced:
    start = LinearPoint.origin(task.problem.rows)
    schedule = replace(SCHEDULE, **settings)
    (found,) = anneal([task], start, schedule, phase="annealing", watch=watch)
    return found


def both(belief: np.ndarray) -> np.ndarray:
    """Beliefs in either label."""
    return np.column_stack([1 - belief, belief])


@pytest.fixture
def trainings(monkeypatch) -> list[tuple[np.ndarray, LinearPoint]]:
    """Beliefs and what was trained with them."""
    seen = []
    plain = annealing._train

    def trained(tasks, belief, starts, rtol) -> list[LinearPoint]:
        found = plain(tasks, belief, starts, rtol)
        seen.append((belief[:, 1], found[0]))
        return found

    monkeypatch.setattr(annealing, "_train", trained)
    return seen


def gains(draw, *, largest: float) -> np.ndarray:
    n_rows = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    spread = largest * 10.0 ** draw(st.floats(-6, 0))
    gain = np.clip(
        rng.uniform(-spread, spread, n_rows) + draw(st.floats(-1, 1)) * largest, -largest, largest
    )
    if draw(st.booleans()):
        gain[: n_rows // 2] = gain[0]
    return gain


@given(data=st.data(), share=SHARES, size=st.floats(-6, 6), ratio=st.floats(-5, 8))
def test_the_mean_belief_is_the_share(data, share: float, size: float, ratio: float) -> None:
    """(I32)."""
    gain = gains(data.draw, largest=10.0**size)
    temperature = 10.0 ** (size + ratio)
    guess = data.draw(st.just(0.0) | st.floats(-1e7, 1e7))
    belief, shift = beliefs(gain, temperature, share, guess)
    assert ((belief >= 0) & (belief <= 1)).all()
    assert abs(belief.mean() - share) <= 1e-10
    offset = temperature * np.log((1 - share) / share)
    room = 1e-9 * (temperature + 10.0**size)
    assert gain.min() - offset - room <= shift <= gain.max() - offset + room


@given(data=st.data(), share=st.floats(0.02, 0.98), ratio=st.floats(-3, 3))
def test_beliefs_are_those_of_a_root_finder(data, share: float, ratio: float) -> None:
    gain = gains(data.draw, largest=5.0)
    belief, _ = beliefs(gain, 10.0**ratio, share)
    np.testing.assert_allclose(belief, root_beliefs(gain, 10.0**ratio, share), atol=1e-8)


@given(seed=st.integers(0, 10_000), share=SHARES, ratio=st.floats(6, 200))
def test_next_to_nothing_of_a_temperature_decides(seed: int, share: float, ratio: float) -> None:
    """(I32): where exponentials overflow, too."""
    gain = np.random.default_rng(seed).permutation(np.linspace(-4, 4, 33))
    belief, _ = beliefs(gain, 10.0**-ratio, share)
    assert ((belief >= 0) & (belief <= 1)).all()
    assert abs(belief.mean() - share) <= 1 / 33
    assert np.count_nonzero((belief > 1e-6) & (belief < 1 - 1e-6)) <= 1
    assert (np.diff(belief[np.argsort(gain)]) <= 0).all()


@given(data=st.data(), share=SHARES)
def test_a_high_temperature_leaves_every_belief_at_the_share(data, share: float) -> None:
    """(I32)."""
    gain = gains(data.draw, largest=10.0)
    belief, _ = beliefs(gain, 1e9, share)
    np.testing.assert_allclose(belief, share, rtol=1e-6, atol=1e-9)


def test_a_low_temperature_gives_the_label_1_to_the_share_of_the_smallest_gains() -> None:
    """(I32)."""
    gain = np.random.default_rng(0).permutation(np.arange(40.0))
    belief, _ = beliefs(gain, 1e-3, 0.3)
    np.testing.assert_allclose(belief, gain < 12, atol=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 1e-3, 1e-12, 1e-30])
def test_equal_gains_have_equal_beliefs_of_the_share(temperature: float) -> None:
    belief, _ = beliefs(np.full(9, 0.7), temperature, 0.3)
    np.testing.assert_allclose(belief, 0.3, atol=1e-9)


@given(output=st.floats(-4, 4), weight=st.floats(1e-3, 1e3), ratio=st.floats(-2, 2))
def test_the_best_beliefs_make_a_soft_minimum(output: float, weight: float, ratio: float) -> None:
    """(I33): no balance is asked for where nu is 0."""
    temperature = weight * 10.0**ratio
    one, other = weight * max(0, 1 - output) ** 2, weight * max(0, 1 + output) ** 2
    gain = float(loss_gain(np.array([output]), weight)[0])
    assert gain == pytest.approx(one - other, rel=1e-12, abs=1e-12 * weight)

    def cost(belief: float) -> float:
        inner = np.array([belief])
        return belief * one + (1 - belief) * other - temperature * entropy(both(inner))

    soft = -temperature * float(np.logaddexp(-one / temperature, -other / temperature))
    share = 1 / (1 + np.exp(min(700, gain / temperature)))
    room = 1e-9 * (weight * 25 + temperature)
    assert cost(share) == pytest.approx(soft, abs=room)
    found = minimize_scalar(cost, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    assert found.fun >= soft - room
    if 1e-9 < share < 1 - 1e-9:
        own, shift = beliefs(np.array([gain]), temperature, share)
        assert own[0] == pytest.approx(share, abs=1e-10)
        assert shift == pytest.approx(0.0, abs=1e-5 * (abs(gain) + temperature) / share)


@given(data=st.data(), share=st.floats(0.1, 0.9))
def test_no_beliefs_of_the_same_mean_cost_less(data, share: float) -> None:
    """(F5) in p."""
    gain = gains(data.draw, largest=5.0)
    temperature = 10.0 ** data.draw(st.floats(-1, 1))

    def cost(belief: np.ndarray) -> float:
        return float(np.mean(belief * gain)) - temperature * entropy(both(belief))

    belief, _ = beliefs(gain, temperature, share)
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    for _ in range(5):
        turn = rng.standard_normal(gain.size)
        other = np.clip(belief + 1e-3 * (turn - turn.mean()), 0, 1)
        slack = float(np.abs(gain).max() + 40 * temperature) * abs(other.mean() - belief.mean())
        assert cost(other) >= cost(belief) - slack - 1e-9


def test_entropy_and_divergence_are_what_they_say() -> None:
    belief, last = np.array([0.2, 0.5, 0.0]), np.array([0.4, 0.5, 0.0])
    assert entropy(both(np.array([0.0, 1.0]))) == 0
    assert entropy(both(np.full(3, 0.5))) == pytest.approx(np.log(2))
    own = 0.2 * np.log(0.2 / 0.4) + 0.8 * np.log(0.8 / 0.6)
    assert divergence(both(belief), both(last)) == pytest.approx(own / 3)
    assert divergence(both(last), both(last)) == 0
    certain = divergence(both(np.array([1.0])), both(np.array([0.0])))
    assert certain == pytest.approx(np.log(1e8), rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("norm_penalty", [1e-3, 1e-1])
def test_the_weights_of_given_beliefs_are_those_of_rows_of_both_labels(
    norm_penalty: float, seed: int
) -> None:
    case = small(seed)
    task = case.task(norm_penalty=norm_penalty, unlabeled_weight=3.0)
    belief = np.random.default_rng(seed).random(task.n_unlabeled)
    belief[:3] = 0.0
    belief[3:5] = 1.0
    start = LinearPoint.origin(task.problem.rows)
    (found,) = annealing._train([task], both(belief), [start], 1e-6)
    machine = transductive_twin(task, case.dense).machine(belief)
    expected = machine.minimum()
    least = machine.objective(expected)
    assert machine.objective(found.weights) == pytest.approx(least, rel=1e-9)
    np.testing.assert_allclose(found.outputs, case.dense @ expected, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("norm_penalty", [1e-3, 1e-1])
def test_no_step_had_a_smaller_objective_than_the_answer(
    trainings, norm_penalty: float, seed: int
) -> None:
    """(I35)."""
    case = small(seed, n_rows=120, n_labeled=8, shift=1.0)
    task = case.task(norm_penalty=norm_penalty)
    dense = transductive_twin(task, case.dense)
    steps = []

    def note(report) -> None:
        if report.n_iter == len(steps):
            steps.append(dense.best_objective(trainings[-1][1].weights))

    found = annealed(task, Watch(progress=note, cancelled=None))
    own = dense.best_objective(found.point.weights)
    assert len(steps) > 5
    assert found.status is Status.CONVERGED
    assert found.objective == pytest.approx(own, rel=1e-9)
    assert own <= min(steps) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_beliefs_keep_their_mean_and_end_decided(trainings, seed: int) -> None:
    case = small(seed, n_rows=100, n_labeled=10, shift=2.0)
    task = case.task(share=0.4)
    annealed(task, entropy_tol=1e-3)
    first, _ = trainings[0]
    np.testing.assert_array_equal(first, 0.4)
    for belief, _ in trainings[:-1]:
        assert belief.mean() == pytest.approx(0.4, abs=1e-9)
    means = [entropy(both(belief)) for belief, _ in trainings]
    assert means[-2] < 0.1 * means[0]


@pytest.mark.slow
def test_annealing_finds_no_larger_objective_than_switching_among_local_minima() -> None:
    gaps = []
    for seed in range(8):
        case = small(seed, n_rows=150, n_labeled=6, shift=1.2)
        share = float(case.truth.mean())
        objective = []
        for search in (switched, annealed):
            task = case.task(share=share, norm_penalty=1e-3)
            dense = transductive_twin(task, case.dense)
            objective.append(dense.best_objective(search(task).point.weights))
        gaps.append((objective[1] - objective[0]) / objective[0])
    assert np.mean(gaps) < 0
    assert np.median(gaps) <= 1e-3


@pytest.mark.parametrize("n_steps", [0, 3])
def test_who_asks_for_the_end_gets_it(n_steps: int) -> None:
    reports = []
    watch = Watch(progress=reports.append, cancelled=lambda: len(reports) > n_steps)
    with pytest.raises(RunStopped):
        annealed(small(1).task(), watch)
    assert len(reports) == n_steps + 1


def test_a_single_unlabeled_row_is_annealed() -> None:
    case = small(1, n_rows=17, n_labeled=16)
    task = case.task(share=0.7)
    found = annealed(task)
    assert task.n_unlabeled == task.n_positive == 1
    assert found.status is Status.CONVERGED
    assert found.point.outputs[task.unlabeled][0] > 0


def test_beliefs_end_decided_where_the_share_is_no_whole_number_of_rows() -> None:
    case = small(0, n_rows=200, n_labeled=12, shift=4.0)
    whole, broken = case.task(share=94 / 188), case.task(share=94.3 / 188)
    assert whole.n_positive == broken.n_positive
    assert annealed(whole).objective == annealed(broken).objective


@pytest.mark.parametrize("share", [1e-9, 1 - 1e-9])
def test_shares_next_to_nothing_are_annealed(share: float) -> None:
    case = small(1)
    task = case.task(share=share)
    found = annealed(task)
    assert found.status is Status.CONVERGED
    assert np.isfinite(found.objective)
