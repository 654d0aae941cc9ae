import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.labels import Labels, RealLabels


@given(st.dictionaries(st.integers(0, 10**9), st.sampled_from(["b", "a", 7, -3, "7"]), min_size=1))
def test_every_node_keeps_its_class_in_any_order(pairs: dict[int, str | int]) -> None:
    labels = Labels.from_pairs(list(pairs), list(pairs.values()))
    assert (np.diff(labels.nodes) > 0).all()
    assert {
        int(node): labels.class_names[code]
        for node, code in zip(labels.nodes, labels.classes, strict=True)
    } == pairs
    again = Labels.from_pairs(list(reversed(pairs)), list(reversed(pairs.values())))
    assert again.class_names == labels.class_names
    np.testing.assert_array_equal(again.classes, labels.classes)


def test_class_names_are_ordered_integers_before_strings() -> None:
    labels = Labels.from_pairs([0, 1, 2, 3], ["b", 10, "a", 9])
    assert labels.class_names == (9, 10, "a", "b")


def test_targets_are_one_hot_and_their_mean_is_the_prior() -> None:
    labels = Labels.from_pairs([5, 2, 9], ["x", "y", "x"])
    np.testing.assert_array_equal(labels.targets(), [[0, 1], [1, 0], [1, 0]])
    np.testing.assert_allclose(labels.class_prior(), [2 / 3, 1 / 3])
    assert (labels.n_labeled, labels.n_classes) == (3, 2)


def test_classes_of_an_array_are_plain_and_sorted() -> None:
    labels = Labels.from_pairs([1, 3], np.array([4, 3]))
    np.testing.assert_array_equal(labels.nodes, [1, 3])
    assert labels.class_names == (3, 4)
    words = Labels.from_pairs([1, 2], np.array(["cat", "dog"]))
    assert words.class_names == ("cat", "dog")
    assert all(type(name) is str for name in words.class_names)


def test_no_labels_are_labels() -> None:
    labels = Labels.from_pairs([], [])
    assert (labels.n_labeled, labels.n_classes) == (0, 0)
    assert labels.targets().shape == (0, 0)


def test_a_node_labeled_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="node 4 is labeled twice"):
        Labels.from_pairs([4, 1, 4], ["a", "b", "a"])


@pytest.mark.parametrize("value", [1.5, None, True, b"x"])
def test_labels_other_than_strings_and_integers_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="a label must be a string or an integer, got"):
        Labels.from_pairs([0], [value])  # type: ignore[list-item]


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="equal lengths, got 2 and 1"):
        Labels.from_pairs([0, 1], ["a"])


def test_a_class_without_node_is_refused() -> None:
    with pytest.raises(ValueError, match="class 'b' has no labeled node"):
        Labels(nodes=np.array([0]), classes=np.array([0]), class_names=("a", "b"))


def test_unsorted_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="nodes must be increasing"):
        Labels(nodes=np.array([1, 0]), classes=np.array([0, 0]), class_names=("a",))


def test_numbers_are_sorted_by_node_and_make_one_column() -> None:
    labels = RealLabels.from_pairs([7, 2, 5], [1.5, -2, 3])
    np.testing.assert_array_equal(labels.nodes, [2, 5, 7])
    np.testing.assert_array_equal(labels.targets(), [[-2.0], [3.0], [1.5]])
    assert labels.targets().dtype == np.float64
    assert (labels.n_labeled, labels.n_columns) == (3, 1)
    np.testing.assert_allclose(labels.mean_target(), [2.5 / 3])
    np.testing.assert_array_equal(RealLabels.from_pairs([], []).mean_target(), [0.0])


@pytest.mark.parametrize(
    ("nodes", "values", "error", "message"),
    [
        ([1, 2], [1.0], ValueError, "equal lengths, got 2 and 1"),
        ([1, 1], [1.0, 2.0], ValueError, "node 1 is labeled twice"),
        ([1, 2], [1.0, np.nan], ValueError, "values must be finite, got nan at node 2"),
        ([2, 1], [-np.inf, 1.0], ValueError, "values must be finite, got -inf at node 2"),
        ([1, 2], ["a", "b"], TypeError, "values must be real numbers"),
        ([1, 2], [True, False], TypeError, "values must be real numbers"),
        ([1], [[1.0]], ValueError, "one-dimensional"),
    ],
)
def test_wrong_numbers_are_refused(nodes, values, error, message) -> None:
    with pytest.raises(error, match=message):
        RealLabels.from_pairs(nodes, values)


def test_numbers_whose_nodes_do_not_increase_are_refused() -> None:
    with pytest.raises(ValueError, match=r"use RealLabels\.from_pairs"):
        RealLabels(nodes=np.array([2, 1]), values=np.array([1.0, 2.0]))


def test_subsets_keep_class_names_and_may_not_lose_a_class() -> None:
    labels = Labels.from_pairs([1, 2, 3], ["a", "b", "a"])
    part = labels.subset(np.array([0, 1]))
    assert part.class_names == ("a", "b")
    np.testing.assert_array_equal(part.nodes, [1, 2])
    with pytest.raises(ValueError, match="class 'b' has no labeled node"):
        labels.subset(np.array([0, 2]))
    numbers = RealLabels.from_pairs([1, 2], [0.5, 1.5]).subset(np.array([1]))
    np.testing.assert_array_equal(numbers.values, [1.5])
