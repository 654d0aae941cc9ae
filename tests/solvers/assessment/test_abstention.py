"""Thresholds below which nothing is answered, against counts and against the errors they allow."""

import numpy as np
import pytest
from scipy.stats import binom

from peewit.solvers.assessment.abstention import RiskCurve


def drawn(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Answers that are right as often as they say, in steps of a hundredth."""
    rng = np.random.default_rng(seed)
    certainty = rng.integers(50, 101, n) / 100
    return rng.random(n) < certainty, certainty


def test_a_curve_counts_all_that_are_as_sure() -> None:
    is_right, certainty = drawn(300, 0)
    curve = RiskCurve.of(is_right, certainty)
    assert curve.certainty.tolist() == sorted(set(certainty.tolist()), reverse=True)
    for at, threshold in enumerate(curve.certainty.tolist()):
        answered = certainty >= threshold
        assert curve.n_answered[at] == answered.sum()
        assert curve.n_wrong[at] == (answered & ~is_right).sum()


def test_the_greatest_error_is_the_one_that_makes_so_few_mistakes_unlikely() -> None:
    curve = RiskCurve.of(*drawn(200, 1))
    for at, bound in enumerate(curve.greatest_error(0.9).tolist()):
        n, wrong = int(curve.n_answered[at]), int(curve.n_wrong[at])
        assert wrong == n or binom.cdf(wrong, n, bound) == pytest.approx(0.1)
    all_wrong = RiskCurve.of(np.zeros(3, bool), np.ones(3))
    assert all_wrong.greatest_error(0.9).tolist() == [1.0]


def test_what_is_chosen_errs_more_than_asked_in_one_of_ten_draws_at_most() -> None:
    n_bad = n_found = 0
    for seed in range(200):
        curve = RiskCurve.of(*drawn(1_000, seed))
        place = curve.threshold_place(0.1, 0.9)
        if place is None:
            continue
        n_found += 1
        above = np.arange(round(100 * curve.certainty[place]), 101) / 100
        n_bad += (1.0 - above).mean() > 0.1
    assert n_found > 190
    assert n_bad <= 33  # 20 and three standard errors


def test_one_mistake_among_the_surest_does_not_end_the_search() -> None:
    is_right = np.ones(600, bool)
    is_right[3] = False
    curve = RiskCurve.of(is_right, np.arange(600, 0, -1) / 600)
    assert curve.threshold_place(0.05, 0.9) == 599


def test_few_labels_know_of_no_threshold() -> None:
    curve = RiskCurve.of(np.ones(66, bool), np.arange(66) / 66)
    assert curve.threshold_place(0.05, 0.9) is None
    curve = RiskCurve.of(np.ones(67, bool), np.arange(67) / 67)
    assert curve.threshold_place(0.05, 0.9) == 66
    nothing = RiskCurve.of(np.zeros(0, bool), np.zeros(0))
    assert nothing.threshold_place(0.05, 0.9) is None


def test_a_search_ends_at_the_first_threshold_that_fails() -> None:
    is_right = np.ones(900, bool)
    is_right[200:250] = False
    curve = RiskCurve.of(is_right, np.arange(900, 0, -1) / 900)
    place = curve.threshold_place(0.1, 0.9)
    assert place is not None
    assert 200 <= place < 225
    assert curve.greatest_error(0.967)[-1] < 0.1  # though all of them would do again


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, np.nan])
def test_parts_lie_between_nothing_and_all(value: float) -> None:
    curve = RiskCurve.of(*drawn(10, 2))
    with pytest.raises(ValueError, match="max_error"):
        curve.threshold_place(value, 0.9)
    with pytest.raises(ValueError, match="confidence"):
        curve.threshold_place(0.1, value)
