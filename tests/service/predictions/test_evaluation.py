"""Accuracy counts what was to be found out, and nothing else."""

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.labels.store import CurrentLabels
from peewit.service.predictions.evaluation import evaluate, evaluate_numbers
from peewit.service.tables.uploads import UploadedLabels


def labels_of(*nodes: str) -> CurrentLabels:
    return CurrentLabels(
        nodes=pa.array(nodes, pa.large_string()),
        labels=[1] * len(nodes),
        labels_seq=len(nodes),
    )


def truth_of(**labels: str | float) -> UploadedLabels:
    return UploadedLabels(nodes=list(labels), labels=list(labels.values()))


def test_labeled_and_absent_nodes_do_not_count() -> None:
    predictions = pa.table({"node": ["a", "b", "c", "d"], "label": [1, 1, 2, 2]})
    result = evaluate(predictions, truth_of(a=1, b=1, c=1, z=1), labels_of("a"))
    assert (result.n_judged, result.n_right, result.accuracy) == (2, 1, 0.5)
    assert (result.n_labeled, result.n_absent, result.n_unreachable) == (1, 1, 0)


def test_node_that_no_label_reaches_is_wrong() -> None:
    predictions = pa.table({"node": ["a", "b"], "label": pa.array([None, 1], pa.int64())})
    result = evaluate(predictions, truth_of(a=1, b=1), labels_of())
    assert (result.n_judged, result.n_right, result.n_unreachable) == (2, 1, 1)


def test_classes_sum_to_the_whole_and_come_in_order() -> None:
    predictions = pa.table({"node": ["a", "b", "c"], "label": ["10", "9", "x"]})
    result = evaluate(predictions, truth_of(a=10, b=9, c="y"), labels_of())
    assert [each.label for each in result.classes] == [9, 10, "x", "y"]
    assert sum(each.n_judged for each in result.classes) == result.n_judged
    assert sum(each.n_right for each in result.classes) == result.n_right == 2


def test_dictionary_labels_and_integer_nodes_are_compared_as_shown() -> None:
    label = pa.array(["cat", "dog"]).dictionary_encode()
    predictions = pa.table({"node": pa.array([5, 6], pa.int64()), "label": label})
    truth = UploadedLabels(nodes=[5, 6], labels=["cat", "cat"])
    assert evaluate(predictions, truth, labels_of()).accuracy == 0.5


def test_nothing_to_judge_has_no_accuracy() -> None:
    predictions = pa.table({"node": ["a"], "label": [1]})
    assert evaluate(predictions, truth_of(a=1), labels_of("a")).accuracy is None


NUMBERS = pa.table(
    {
        "node": ["a", "b", "c", "d"],
        "label": pa.array([1.0, 2.0, None, 4.5], pa.float64()),
        "score": pa.array([1.0, 2.0, 3.0, 4.5], pa.float32()),
    }
)


def test_numbers_are_judged_by_their_misses() -> None:
    result = evaluate_numbers(NUMBERS, truth_of(a=1, b=4.0, c=7, d=9.5, z=1), labels_of("a"))
    assert (result.n_judged, result.n_labeled, result.n_absent) == (3, 1, 1)
    missed, true = np.array([2.0, 4.0, 5.0]), np.array([4.0, 7.0, 9.5])
    assert result.n_unreachable == 1  # c, which is predicted the mean
    assert result.rmse == pytest.approx(np.sqrt(np.mean(missed**2)))
    assert result.mae == pytest.approx(missed.mean())
    assert result.r2 == pytest.approx(1 - np.sum(missed**2) / np.sum((true - true.mean()) ** 2))


def test_perfect_numbers_have_an_r2_of_one_and_constant_truth_has_none() -> None:
    assert evaluate_numbers(NUMBERS, truth_of(a=1.0, b=2.0), labels_of()).r2 == 1.0
    constant = evaluate_numbers(NUMBERS, truth_of(a=1.0, b=1.0), labels_of())
    assert (constant.r2, constant.mae) == (None, 0.5)


def test_no_number_to_judge_has_no_figures() -> None:
    result = evaluate_numbers(NUMBERS, truth_of(a=1.0), labels_of("a"))
    assert (result.rmse, result.mae, result.r2, result.n_judged) == (None, None, None, 0)


def test_truth_of_another_kind_is_refused_with_its_node() -> None:
    with pytest.raises(ValueError, match=r"must be numbers, .* got 'x' of node 'b'"):
        evaluate_numbers(NUMBERS, truth_of(a=1, b="x"), labels_of())
    predictions = pa.table({"node": ["a"], "label": [1]})
    with pytest.raises(ValueError, match=r"must be classes, .* got 1\.5 of node 'a'"):
        evaluate(predictions, truth_of(a=1.5), labels_of())


def test_truth_without_a_class_of_the_labels_is_refused() -> None:
    predictions = pa.table({"node": ["a", "b"], "label": [1, 1]})
    with pytest.raises(ValueError, match="classes of the labels, such as '1', got 'one'"):
        evaluate(predictions, truth_of(a="one", b="two"), labels_of("c"))
    assert evaluate(predictions, truth_of(a="one", b="1"), labels_of("c")).accuracy == 0.5
