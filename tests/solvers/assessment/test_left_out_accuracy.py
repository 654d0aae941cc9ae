"""Accuracy of labels left out, and the interval that it is told with."""

import numpy as np
import pytest
from scipy.stats import beta, binom

from peewit.solvers.assessment.left_out_accuracy import LeftOutAccuracy, accuracy_interval
from peewit.solvers.labels import Labels


@pytest.mark.parametrize("n_labels", [1, 10, 50, 1_000])
@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.86, 1.0])
def test_ends_are_quantiles_of_beta_distributions(accuracy: float, n_labels: int) -> None:
    low, high = accuracy_interval(accuracy, n_labels)
    n, right = 0.7 * n_labels, 0.7 * n_labels * accuracy
    assert low == (0.0 if right == 0 else pytest.approx(beta.ppf(0.025, right, n - right + 1)))
    assert high == (1.0 if right == n else pytest.approx(beta.ppf(0.975, right + 1, n - right)))
    assert low <= accuracy <= high


def test_independent_labels_are_covered_more_often_than_is_said() -> None:
    truth, n_labels = 0.8, 50
    counts = np.arange(n_labels + 1)
    covers = [low <= truth <= high for low, high in (accuracy_interval(k / 50, 50) for k in counts)]
    assert binom.pmf(counts, n_labels, truth)[covers].sum() > 0.96


def test_the_commonest_class_is_named_and_random_labels_alone_have_an_interval() -> None:
    labels = Labels.from_pairs(np.arange(5), ["b", "b", "a", "b", "a"])
    found = LeftOutAccuracy.of(labels, 0.6, 5, is_random=False)
    assert (found.commonest, found.commonest_share) == ("b", 0.6)
    assert (found.low, found.high) == (None, None)
    some = LeftOutAccuracy.of(labels, 0.5, 2, is_random=True, classes=np.array([0, 0]))
    assert (some.low, some.high) == accuracy_interval(0.5, 2)
    assert (some.commonest, some.commonest_share) == (labels.class_names[0], 1.0)
