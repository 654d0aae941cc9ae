import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.labels import Labels


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


def test_vector_entries_equal_to_the_marker_are_unlabeled() -> None:
    labels = Labels.from_vector(np.array([-1, 4, -1, 3]))
    np.testing.assert_array_equal(labels.nodes, [1, 3])
    assert labels.class_names == (3, 4)
    words = Labels.from_vector(np.array(["?", "cat", "dog"]), unlabeled="?")
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
