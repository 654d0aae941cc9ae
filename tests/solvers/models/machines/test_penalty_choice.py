"""Which penalties labels left out choose."""

import numpy as np
import pytest

from peewit.solvers.labels import Labels
from peewit.solvers.models.machines.penalty_choice import Penalties, choose_penalties

PAIRS: list[Penalties] = [(0.01, 1.0), (0.01, 10.0), (1e-4, 1.0)]


def labels_of(n_per_class: int, n_classes: int = 4) -> Labels:
    classes = np.tile(np.arange(n_classes), n_per_class)
    return Labels.from_pairs(np.arange(classes.size), classes)


class Predictor:
    """Scores that are wrong at so many labels with each pair; notes what it is asked."""

    def __init__(self, *n_wrong: int) -> None:
        self.n_wrong = dict(zip(PAIRS, n_wrong, strict=True))
        self.n_labels: list[int] = []
        self.folds: list[np.ndarray] = []

    def __call__(self, pair: Penalties, labels: Labels, fold: np.ndarray) -> np.ndarray:
        self.n_labels.append(labels.n_labeled)
        self.folds.append(fold)
        told = labels.classes.copy()
        told[: self.n_wrong[pair]] += 1
        return np.eye(labels.n_classes)[told % labels.n_classes]


@pytest.mark.parametrize(
    ("n_wrong", "chosen"),
    [
        ((9, 9, 9), 0),  # ties stay
        ((9, 5, 9), 1),  # right at 4 more, of 4 that differ
        ((9, 8, 9), 0),  # 1 more is no more than the root of 1
        ((9, 7, 6), 2),  # 3 more of 3
        ((0, 3, 9), 0),
    ],
)
def test_another_pair_must_be_clearly_better(n_wrong: tuple[int, ...], chosen: int) -> None:
    stats: dict[str, object] = {}
    left_out = Predictor(*n_wrong)
    assert choose_penalties(PAIRS, labels_of(5), left_out, stats, seed=0) == PAIRS[chosen]
    assert stats == {"loo_accuracy": 1.0 - n_wrong[chosen] / 20, "loo_labels": 20}
    assert all(set(fold) == set(range(5)) for fold in left_out.folds)


def test_of_many_labels_some_of_each_class_choose() -> None:
    stats: dict[str, object] = {}
    left_out = Predictor(0, 0, 0)
    assert choose_penalties(PAIRS, labels_of(600), left_out, stats, seed=0) == PAIRS[0]
    assert set(left_out.n_labels) == {480}
    assert stats["loo_labels"] == 480


def test_where_no_label_can_be_left_out_none_is_chosen() -> None:
    stats: dict[str, object] = {}
    left_out = Predictor(0, 0, 0)
    assert choose_penalties(PAIRS, labels_of(1), left_out, stats, seed=0) is None
    assert not stats
    assert not left_out.n_labels
