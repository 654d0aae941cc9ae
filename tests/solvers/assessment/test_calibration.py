"""Calibration against scores whose probabilities are known, and its errors against their sums."""

import numpy as np
import pytest
from scipy.special import softmax

from peewit.solvers.assessment.calibration import CalibrationMetrics
from peewit.solvers.models.classes.score_calibration import Calibration, fitted_without_fold


def drawn(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, the probabilities that they stand for, and classes drawn by these."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, 3)) / 40.0
    true = softmax(80.0 * scores + np.array([0.7, 0.0, -0.7]), axis=1)
    return scores, true, (rng.random((n, 1)) > true.cumsum(axis=1)).sum(axis=1)


def test_the_probabilities_that_scores_stand_for_are_found() -> None:
    scores, true, classes = drawn(8_000, 0)
    found = Calibration.fitted(scores, classes)
    assert found.factor == pytest.approx(80.0, rel=0.06)
    np.testing.assert_allclose(found.probabilities(scores), true, atol=0.04)
    told = CalibrationMetrics.of(found.probabilities(scores), classes)
    assert told.expected_calibration_error < 0.02
    raw = CalibrationMetrics.of(softmax(scores, axis=1), classes)
    assert raw.expected_calibration_error > 0.2
    assert told.brier_score < raw.brier_score


def test_few_labels_are_not_believed_to_be_certain() -> None:
    scores = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    found = Calibration.fitted(scores, np.array([0, 1, 0]))
    assert found.probabilities(scores).max() < 0.9999
    nothing = Calibration.fitted(np.full((2, 2), -np.inf), np.array([0, 1]))
    np.testing.assert_allclose(nothing.probabilities(scores), 0.5)
    upside_down = Calibration.fitted(scores, np.array([1, 0, 1]))
    assert upside_down.factor < 0.1  # never below 0: the order of scores is the model's


def test_no_label_is_judged_by_a_calibration_that_saw_it() -> None:
    scores, _, classes = drawn(60, 2)
    fold = np.arange(60) % 3
    told = fitted_without_fold(scores, classes, fold)
    for number in range(3):
        own = fold == number
        other = Calibration.fitted(scores[~own], classes[~own])
        np.testing.assert_array_equal(told[own], other.probabilities(scores[own]))


def test_errors_are_sums_over_bins_and_labels() -> None:
    rng = np.random.default_rng(3)
    probabilities = rng.dirichlet([1.0, 1.0, 1.0], 500)
    classes = rng.integers(0, 3, 500)
    told = CalibrationMetrics.of(probabilities, classes, n_bins=10)
    error = brier = 0.0
    for low in np.arange(10) / 10:
        largest = probabilities.max(axis=1)
        rows = np.flatnonzero((low <= largest) & (largest < low + 0.1))
        if rows.size:
            right = (probabilities[rows].argmax(axis=1) == classes[rows]).mean()
            error += rows.size / 500 * abs(largest[rows].mean() - right)
    for row, code in zip(probabilities, classes, strict=True):
        brier += sum((p - (place == code)) ** 2 for place, p in enumerate(row)) / 500
    assert told.expected_calibration_error == pytest.approx(error)
    assert told.brier_score == pytest.approx(brier)
    assert np.isnan(CalibrationMetrics.of(np.zeros((0, 3)), np.zeros(0, np.int64)).brier_score)
