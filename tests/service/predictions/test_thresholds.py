"""Thresholds: read with the labels left out, judged by counting, applied row by row."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.predictions.left_out import NotCrossValidated, write_left_out
from peewit.service.predictions.prediction_files import (
    PredictionFile,
    PredictionMeta,
    write_predictions,
)
from peewit.service.predictions.thresholds import (
    asked_threshold,
    class_threshold,
    left_out_evaluation,
    with_threshold,
)
from tests.service.predictions.test_prediction_files import META, NODES, REACHABLE, SCORES, written

JUDGED = replace(META, parameters={"cross_validate": 5})
TRUE = np.array([0, 0, 0, 1, 1, 2, 2])
LEFT_OUT = np.array(
    [
        [0.9, 0.0, 0.1],
        [0.4, 0.6, 0.0],
        [-np.inf, -np.inf, -np.inf],
        [0.3, 0.7, 0.0],
        [0.5, 0.6, 0.1],
        [0.1, 0.2, 0.7],
        [np.nan, np.nan, np.nan],  # the only one of its class in a fold: never left out
    ],
    np.float32,
)


@pytest.fixture
def file(tmp_path: Path) -> PredictionFile:
    found = written(tmp_path, JUDGED)
    write_left_out(found.path, np.arange(TRUE.size), TRUE, LEFT_OUT)
    return found


def test_a_threshold_is_judged_on_labels_left_out(file: PredictionFile) -> None:
    chosen = class_threshold(file, "cat", threshold=0.45, cost_fn=4.0, cost_fp=2.0)
    found = left_out_evaluation(file, chosen)
    assert (found.positive, found.n_nodes, found.n_positive) == ("cat", 6, 3)
    by = found.by_threshold
    assert (by.n_found, by.precision, by.recall) == (2, 0.5, pytest.approx(1 / 3))
    assert by.f1 == pytest.approx(0.4)
    assert by.cost == pytest.approx((2 * 4 + 1 * 2) / 6)
    largest = found.by_largest_score
    assert (largest.n_found, largest.precision, largest.recall) == (1, 1.0, pytest.approx(1 / 3))
    assert largest.cost == pytest.approx(2 * 4 / 6)


def test_a_known_share_weighs_both_sorts(file: PredictionFile) -> None:
    chosen = class_threshold(file, "cat", threshold=0.45, cost_fn=4.0, positive_share=0.1)
    by = left_out_evaluation(file, chosen).by_threshold
    assert by.precision == pytest.approx(0.1 / 3 / (0.1 / 3 + 0.9 / 3))
    assert by.cost == pytest.approx(4 * 0.1 * 2 / 3 + 0.9 / 3)


@pytest.mark.parametrize(("p_value", "share", "warns"), [(1e-5, None, True), (1e-5, 0.1, False)])
def test_a_share_that_the_job_doubts_is_told(
    tmp_path: Path, p_value: float, share: float | None, warns: bool
) -> None:
    doubted = written(tmp_path, replace(JUDGED, stats={"sample_p_value": p_value}))
    write_left_out(doubted.path, np.arange(TRUE.size), TRUE, LEFT_OUT)
    chosen = class_threshold(doubted, "cat", cost_fn=4.0, positive_share=share)
    warning = left_out_evaluation(doubted, chosen).warning
    assert warning is not None
    assert warning.startswith("only 3 of the labels left out are 'cat', so recall and")
    assert ("count on 50% of the nodes being 'cat', which is hardly so" in warning) == warns


def test_a_threshold_is_chosen_for_its_goal(file: PredictionFile) -> None:
    assert class_threshold(file, "cat", min_precision=1.0).threshold == pytest.approx(0.7)
    assert class_threshold(file, "cat", min_recall=0.6).threshold == pytest.approx(0.35)
    missed = class_threshold(file, "cat", cost_fn=0.1, cost_fp=100.0)
    assert left_out_evaluation(file, missed).by_threshold.n_found == 1


@pytest.mark.parametrize("class_names", [("cat", "dog", "eel"), (3, 5, 9)])
def test_rows_are_decided_by_the_threshold(
    tmp_path: Path, class_names: tuple[str | int, ...]
) -> None:
    rng = np.random.default_rng(0)
    scores, reachable = rng.random((40, 3)), rng.random(40) < 0.8
    meta = replace(META, class_names=class_names)
    nodes = pa.array([f"n{node}" for node in range(40)], pa.large_string())
    path = write_predictions(tmp_path, meta, nodes=nodes, scores=scores, reachable=reachable)
    file = PredictionFile(path)
    chosen = class_threshold(file, str(class_names[1]), threshold=0.6)
    found = pa.Table.from_batches(with_threshold(file, file.batches(), chosen))
    assert found.schema == file.schema
    single = scores.astype(np.float32)
    for row, told in enumerate(found.to_pylist()):
        others = [single[row, 0], -1, single[row, 2]]
        place = 1 if single[row, 1] >= 0.6 else int(np.argmax(others))
        assert told["label"] == (class_names[place] if reachable[row] else None)
        assert told["score"] == single[row, place]
        margin = abs(single[row, 1] - 0.6) if reachable[row] else 0
        assert told["margin"] == pytest.approx(margin, abs=1e-6)
    unchanged = [name for name in file.schema.names if name not in {"label", "score", "margin"}]
    assert found.select(unchanged).equals(file.table().select(unchanged))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"positive": "cow", "threshold": 0.5}, "positive must be one of .* cat, dog, eel, got 'c"),
        ({"positive": "cat", "threshold": float("nan")}, "threshold must be finite, got nan"),
        ({"positive": "cat", "threshold": 0.5, "min_recall": 0.5}, "must stand without min_recall"),
        ({"positive": None, "threshold": 0.5}, "positive must name the class that threshold"),
        ({"positive": None, "cost_fn": 2.0}, "positive must name the class that cost_fn"),
        ({"positive": "cat"}, "threshold must be chosen for one of"),
        ({"positive": "cat", "min_recall": 2.0}, r"min_recall must lie in \(0, 1\]"),
        ({"positive": "cat", "min_recall": 1.0}, r"min_recall must be at most 0\.6667"),
    ],
)
def test_what_breaks_a_rule_is_refused(file: PredictionFile, asked: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        asked_threshold(file, **asked)


def test_without_arguments_there_is_no_threshold(file: PredictionFile) -> None:
    assert asked_threshold(file, positive=None, min_recall=None) is None


def of_score(directory: Path, meta: PredictionMeta, scores: np.ndarray) -> PredictionFile:
    path = write_predictions(directory, meta, nodes=NODES, scores=scores, reachable=REACHABLE)
    return PredictionFile(path)


def test_predictions_without_scores_of_classes_take_none(tmp_path: Path) -> None:
    numbers = of_score(tmp_path, replace(META, score="value", class_names=()), SCORES[:, :1])
    with pytest.raises(ValueError, match="positive must be left out where numbers"):
        class_threshold(numbers, "cat", threshold=0.5)
    many = of_score(tmp_path, replace(META, class_names=tuple(range(40))), np.zeros((3, 40)))
    with pytest.raises(ValueError, match="positive needs a score of each class, kept of up to 32"):
        class_threshold(many, "7", threshold=0.5)


def test_a_job_that_left_no_labels_out_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        NotCrossValidated, match=r"kept no scores of labels left out.*cross_validate=5"
    ):
        class_threshold(written(tmp_path), "cat", min_recall=0.5)
    with pytest.raises(NotCrossValidated, match="kept no scores"):
        class_threshold(written(tmp_path, JUDGED), "cat", min_recall=0.5)
