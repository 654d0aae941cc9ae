"""Accuracy counts what was to be found out, and nothing else."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from sklearn import metrics

from peewit.service.labels.store import CurrentLabels
from peewit.service.predictions.evaluation import evaluate, evaluate_numbers
from peewit.service.tables.uploads import UploadedLabels


def labels_of(*nodes: str) -> CurrentLabels:
    return CurrentLabels(
        nodes=pa.array(nodes, pa.large_string()),
        labels=[1] * len(nodes),
        origins=pa.array(["given"] * len(nodes)),
        annotators=pa.nulls(len(nodes), pa.string()),
        keys=pa.nulls(len(nodes), pa.string()),
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


def judged_at_random(n_nodes: int, names: list[str], seed: int) -> tuple[pa.Table, dict, dict]:
    """Predictions with scores, some unreachable; their truth; and columns to compare with."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n_nodes, len(names))).astype(np.float32)
    true = rng.integers(0, len(names), n_nodes)
    scores[np.arange(n_nodes), true] += 1
    reachable = rng.random(n_nodes) < 0.9
    winner = pa.array(scores.argmax(axis=1), pa.int32(), mask=~reachable)
    nodes = [f"n{node}" for node in range(n_nodes)]
    table = pa.table(
        {
            "node": nodes,
            "label": pa.DictionaryArray.from_arrays(winner, pa.array(names)),
            **{f"score:{name}": column for name, column in zip(names, scores.T, strict=True)},
        }
    )
    batched = pa.Table.from_batches(table.to_batches(max_chunksize=7))
    truth = {node: names[code] for node, code in zip(nodes, true.tolist(), strict=True)}
    return batched, truth, {"scores": scores, "true": true, "reachable": reachable}


@pytest.mark.parametrize("seed", range(3))
def test_figures_are_those_of_scikit_learn(seed: int) -> None:
    names = ["a", "b", "c", "d", "e"]
    predictions, truth, told = judged_at_random(200, names, seed)
    labels = CurrentLabels(
        nodes=pa.array(["n0", "n1", "z"], pa.large_string()),
        labels=["a", "b", "a"],
        origins=pa.array(["given"] * 3),
        annotators=pa.nulls(3, pa.string()),
        keys=pa.nulls(3, pa.string()),
        labels_seq=3,
    )
    found = evaluate(predictions, truth_of(**truth), labels)
    rows = slice(2, None)
    true, reachable = told["true"][rows], told["reachable"][rows]
    scores = np.where(reachable[:, None], told["scores"][rows], -100)
    predicted = np.where(reachable, scores.argmax(axis=1), len(names))
    known = {"labels": range(5), "zero_division": 0}
    assert found.accuracy == pytest.approx(metrics.accuracy_score(true, predicted))
    with warnings.catch_warnings():  # unreachable nodes are of a class that the truth has not
        warnings.simplefilter("ignore")
        balanced = metrics.balanced_accuracy_score(true, predicted)
    assert found.balanced_accuracy == pytest.approx(balanced)
    assert found.macro_f1 == pytest.approx(
        metrics.f1_score(true, predicted, average="macro", **known)
    )
    precision, recall, f1, support = metrics.precision_recall_fscore_support(
        true, predicted, **known
    )
    for place, each in enumerate(found.classes):
        is_class = true == place
        assert (each.label, each.n_judged) == (names[place], support[place])
        assert each.precision == pytest.approx(precision[place])
        assert each.recall == pytest.approx(recall[place])
        assert each.f1 == pytest.approx(f1[place])
        assert each.roc_auc == pytest.approx(metrics.roc_auc_score(is_class, scores[:, place]))
        expected = metrics.average_precision_score(is_class, scores[:, place])
        assert each.average_precision == pytest.approx(expected)
        assert each.true_share == pytest.approx(is_class.mean())
        assert each.predicted_share == pytest.approx((predicted == place).mean())
        assert each.label_share == pytest.approx({"a": 2 / 3, "b": 1 / 3}.get(names[place], 0))
    matrix = metrics.confusion_matrix(true, predicted, labels=range(6))
    assert np.array(found.confusion.counts)[:5, :5].tolist() == matrix[:5, :5].tolist()
    assert [row[-1] for row in found.confusion.counts[:5]] == matrix[:5, 5].tolist()
    off = matrix[:5, :5] - np.diag(np.diag(matrix[:5, :5]))
    assert found.most_confused[0].n_nodes == off.max()
    assert found.majority_accuracy == pytest.approx(np.bincount(true).max() / true.size)
    assert found.n_unreachable == (~reachable).sum()
    for k in (1, 2, 4):
        ranked = np.argsort(-scores, axis=1)[:, :k]
        is_found = (ranked == true[:, None]).any(axis=1) & reachable
        again = evaluate(predictions, truth_of(**truth), labels, top_k=k)
        assert again.top_k_accuracy == pytest.approx(is_found.mean())
    assert found.top_k == 3


def test_figures_that_nothing_defines_are_none() -> None:
    predictions = pa.table({"node": ["a", "b"], "label": ["x", "x"]})  # no score columns
    found = evaluate(predictions, truth_of(a="x", b="y"), labels_of())
    x, y = found.classes
    assert (x.precision, y.precision, y.recall, y.f1) == (0.5, None, 0.0, 0.0)
    assert (found.top_k, found.top_k_accuracy, found.macro_roc_auc) == (None, None, None)
    assert (x.label_share, x.roc_auc, x.average_precision) == (None, None, None)
    nothing = evaluate(predictions, truth_of(), labels_of())
    assert (nothing.majority_accuracy, nothing.balanced_accuracy) == (None, None)


def test_hundreds_of_classes_are_told_in_bounds() -> None:
    rng = np.random.default_rng(0)
    true = rng.zipf(1.3, 5000) % 400
    nodes = np.arange(5000)
    predictions = pa.table({"node": nodes, "label": np.where(rng.random(5000) < 0.5, true, 0)})
    found = evaluate(
        predictions, UploadedLabels(nodes=nodes.tolist(), labels=true.tolist()), labels_of()
    )
    assert found.n_classes > 300
    assert (len(found.classes), len(found.most_confused)) == (100, 10)
    counts = np.array(found.confusion.counts)
    assert counts.shape == (21, 22)
    assert counts.sum() == 5000
    assert found.n_right == (true == predictions["label"].to_numpy()).sum()
    sizes = np.bincount(true)
    assert min(each.n_judged for each in found.classes if each.label) >= np.sort(sizes)[-101]


@pytest.mark.parametrize(
    ("top_k", "text"),
    [(5, "top_k must lie between 1 and 4, below all classes, got 5"), (0, "top_k .* got 0")],
)
def test_a_top_k_that_says_nothing_is_refused(top_k: int, text: str) -> None:
    predictions, truth, _ = judged_at_random(20, list("abcde"), 0)
    with pytest.raises(ValueError, match=text):
        evaluate(predictions, truth_of(**truth), labels_of(), top_k=top_k)
    bare = predictions.select(["node", "label"])
    with pytest.raises(ValueError, match="top_k needs a score of each class"):
        evaluate(bare, truth_of(**truth), labels_of(), top_k=2)
