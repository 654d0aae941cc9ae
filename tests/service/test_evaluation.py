"""Accuracy counts what was to be found out, and nothing else."""

import numpy as np
import pyarrow as pa

from service.evaluation import evaluate
from service.labels import CurrentLabels
from service.uploads import LabelRow


def labels_of(*nodes: str) -> CurrentLabels:
    return CurrentLabels(
        nodes=pa.array(nodes, pa.large_string()),
        labels=[1] * len(nodes),
        seqs=np.arange(len(nodes)),
        labels_seq=len(nodes),
    )


def truth_of(**labels: int | str) -> list[LabelRow]:
    return [LabelRow(node=node, label=label) for node, label in labels.items()]


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
    assert [each.label for each in result.classes] == [9, 10, "y"]
    assert sum(each.n_judged for each in result.classes) == result.n_judged
    assert sum(each.n_right for each in result.classes) == result.n_right == 2


def test_dictionary_labels_and_integer_nodes_are_compared_as_shown() -> None:
    label = pa.array(["cat", "dog"]).dictionary_encode()
    predictions = pa.table({"node": pa.array([5, 6], pa.int64()), "label": label})
    truth = [LabelRow(node=5, label="cat"), LabelRow(node=6, label="cat")]
    assert evaluate(predictions, truth, labels_of()).accuracy == 0.5


def test_nothing_to_judge_has_no_accuracy() -> None:
    predictions = pa.table({"node": ["a"], "label": [1]})
    assert evaluate(predictions, truth_of(a=1), labels_of("a")).accuracy is None
