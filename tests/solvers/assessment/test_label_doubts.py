"""Labels that the others contradict come first, and no class loses all of its own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.assessment.label_doubts import LabelDoubts

SCORES = np.array(
    [
        [0.1, 0.9, 0.0],  # of class 0: contradicted most
        [0.8, 0.1, 0.1],
        [0.4, 0.2, 0.4],  # of class 1: contradicted, but its class has no other label
        [-np.inf] * 3,  # no other label reaches it
        [np.nan] * 3,  # never left out
        [0.6, 0.0, 0.4],  # of class 2: contradicted least
        [0.1, 0.0, 0.9],
    ],
    np.float32,
)
CLASSES = np.array([0, 0, 1, 0, 0, 2, 2])


def test_the_most_contradicted_labels_come_first() -> None:
    doubts = LabelDoubts.of(SCORES, CLASSES, "probability")
    assert doubts.order.tolist() == [0, 2, 5, 1, 6]
    assert np.flatnonzero(doubts.contradicted).tolist() == [0, 2, 5]
    assert doubts.behind[[0, 1]] == pytest.approx([0.8, -0.7])
    assert np.isneginf(doubts.behind[[3, 4]]).all()


def test_probabilities_are_ranked_by_that_of_the_given_class_and_scores_by_the_gap() -> None:
    scores = np.array([[0.3, 0.7, 0.0], [0.28, 0.36, 0.36]], np.float32)
    classes = np.zeros(2, np.int64)
    assert LabelDoubts.of(scores, classes, "probability").order.tolist() == [1, 0]
    assert LabelDoubts.of(scores, classes, "class score").order.tolist() == [0, 1]


def test_a_class_keeps_its_last_label() -> None:
    doubts = LabelDoubts.of(SCORES, CLASSES, "probability")
    assert np.flatnonzero(doubts.dropped(1)).tolist() == [0]
    assert np.flatnonzero(doubts.dropped(9)).tolist() == [0, 5]
    assert not doubts.dropped(0).any()


@given(st.integers(1, 40), st.integers(2, 5), st.integers(0, 50), st.integers(0, 99))
def test_dropped_labels_are_contradicted_and_few(
    n_labels: int, n_classes: int, n_most: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, n_classes, n_labels)
    scores = rng.normal(size=(n_labels, n_classes)).astype(np.float32)
    doubts = LabelDoubts.of(scores, classes, "class score")
    is_dropped = doubts.dropped(n_most)
    assert is_dropped.sum() <= n_most
    assert (doubts.contradicted | ~is_dropped).all()
    assert set(classes[~is_dropped]) == set(classes)
