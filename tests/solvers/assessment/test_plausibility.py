"""Warnings come where an answer is doubtful, and not where it is as it should be."""

import re

import numpy as np
import pytest

from peewit.solvers.assessment.plausibility import (
    ComparedShares,
    answer_warnings,
    drawn_by_class,
    label_warnings,
    left_out_warnings,
    share_warnings,
)
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE, DEFAULT_MODEL
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.data_sets import digits_graph, draw_per_class
from tests.streaming.graphs import random_graph


def shares(n_labels: list[int], n_predicted: list[int]) -> ComparedShares:
    return ComparedShares(
        class_names=tuple("abcdefghij"[: len(n_labels)]),
        n_labels=np.array(n_labels),
        n_compared=np.array(n_labels),
        n_predicted=np.array(n_predicted),
    )


def labels_of(*n_labels: int) -> Labels:
    names = [name for name, count in zip("abc", n_labels, strict=False) for _ in range(count)]
    return Labels.from_pairs(np.arange(len(names)), names)


def test_shares_are_counted_over_reached_nodes_without_label() -> None:
    scores = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [0, 1], [1, 0]], dtype=float)
    reachable = np.array([True, True, True, True, True, False])
    solution = Solution(scores=scores, reachable=reachable, status=Status.CONVERGED)
    found = ComparedShares.of(Labels.from_pairs([0, 1], ["x", "y"]), solution)
    assert found.n_predicted.tolist() == [1, 2]
    assert found.listed() == [
        {"label": "x", "labels": 0.5, "predicted": 1 / 3},
        {"label": "y", "labels": 0.5, "predicted": 2 / 3},
    ]


def test_many_classes_are_listed_by_their_labels() -> None:
    n_labels = np.arange(1, 301)
    listed = ComparedShares(
        class_names=tuple(range(300)), n_labels=n_labels, n_compared=n_labels, n_predicted=n_labels
    ).listed()
    assert [each["label"] for each in listed] == list(range(280, 300))


def test_labels_that_no_other_reaches_are_not_compared_with_nodes_that_labels_reach() -> None:
    """Random labels of a graph half of which is isolated pairs, all of a third class."""
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, 500, (2, 4_000)) * 2 + rng.integers(0, 2, 4_000)
    pairs = np.arange(1_000, 2_000, 2)
    graph = Graph.from_edges(np.r_[u, pairs], np.r_[v, pairs + 1], np.ones(4_500), n_nodes=2_000)
    classes = np.r_[np.arange(1_000) % 2, np.full(1_000, 2)]
    nodes = np.sort(rng.choice(2_000, 150, replace=False))
    labels = Labels.from_pairs(nodes, classes[nodes])
    scores = np.eye(3)[classes]
    reachable = np.isin(graph.component, graph.component[nodes])
    solution = Solution(scores=scores, reachable=reachable, status=Status.CONVERGED, stats={})
    told = list(share_warnings(ComparedShares.of(labels, solution)))
    assert "2 is " in told[0]
    compared = ComparedShares.of(labels, solution, graph.component)
    assert compared.n_labels[2] > 60 > compared.n_compared[2]
    assert not list(share_warnings(compared))


def test_labels_that_say_they_are_random_are_not_blamed() -> None:
    (told,) = share_warnings(shares([60, 40], [100, 900]), are_random=True)
    assert told.advice == ("other model", "threshold")
    assert "random" not in told
    assert told.endswith(
        "the model leans: solve with another model, or choose a threshold on scores"
    )


def test_a_class_that_shrinks_is_not_said_to_take_nodes_of_which_little_is_known() -> None:
    (grown,) = share_warnings(shares([70, 30], [950, 50]), scores_agree=True)
    assert "go to the commonest class" in grown
    (shrunk,) = share_warnings(shares([70, 30], [300, 700]), scores_agree=True)
    assert "go to other classes" in shrunk


@pytest.mark.parametrize(
    ("n_labels", "n_predicted", "told"),
    [
        ([150, 110], [100, 900], "more or less often than labeled"),
        ([150, 110], [560, 440], None),
        ([20, 20], [200, 800], None),  # drawn by class, whatever the nodes are
        ([20, 21, 19], [50, 800, 150], None),
        ([3, 2], [300, 700], None),  # too few to be beyond chance
        ([570, 430], [500_000, 500_000], None),  # beyond chance, and too little to matter
        ([20, 20, 20], [990, 5, 5], "nearly collapsed: 'a' takes 99.0%"),
        ([2, 98], [20, 980], None),  # one class takes nearly all of labels and nodes
        ([40, 40, 20], [600, 400, 0], r"'c' \(20 labels, 0 of 1,000 nodes\)"),
        ([40, 40, 1], [500, 500, 0], None),  # its only label may stand alone
        ([5, 5], [0, 0], None),
        ([1, 1], [0, 1], None),  # one node is of one class
        ([500, 498, 2], [60, 40, 0], None),  # none of a hundred is what such a share gives
        ([5], [10], None),
    ],
)
def test_shares_are_told_where_they_matter(
    n_labels: list[int], n_predicted: list[int], told: str | None
) -> None:
    found = list(share_warnings(shares(n_labels, n_predicted)))
    assert len(found) == (told is not None)
    assert all(re.search(told or "", each) for each in found)


def test_labels_are_blamed_only_where_probabilities_disagree_with_them() -> None:
    graph = random_graph(1_050, 0.02, seed=1).graph()
    labels = Labels.from_pairs(np.arange(50), ["x"] * 30 + ["y"] * 20)
    scores = np.tile([0.6, 0.4], (graph.n_nodes, 1))
    scores[:150] = [0.4, 0.6]

    def told(stats: dict[str, float | int | str]) -> list[str]:
        solution = Solution(
            scores=scores,
            reachable=np.ones(graph.n_nodes, bool),
            status=Status.CONVERGED,
            stats={"n_iter": 1, **stats},
        )
        compared = ComparedShares.of(labels, solution)
        return [
            each
            for each in answer_warnings(labels, graph, solution, compared)
            if "more or less often than labeled" in each
        ]

    (agreeing,) = told({"sample_p_value": 0.5})
    assert "no random sample" not in agreeing
    assert "choose a threshold" in agreeing
    (unknown,) = told({})
    assert "no random sample" in unknown
    assert told({"sample_p_value": 1e-5}) == []


def test_false_alarms_of_random_labels_are_rare() -> None:
    rng = np.random.default_rng(0)
    true = np.array([0.45, 0.3, 0.15, 0.1])
    n_alarms = 0
    for _ in range(500):
        n_labels = rng.multinomial(100, true)
        n_alarms += len(list(share_warnings(shares(n_labels.tolist(), (true * 5000).tolist()))))
    assert n_alarms <= 2


def test_labels_drawn_by_class_are_told_from_random_ones() -> None:
    assert drawn_by_class(np.array([20, 20, 20, 19]))
    assert drawn_by_class(np.array([100, 97, 100, 101, 99, 100]))
    assert not drawn_by_class(np.array([150, 110]))
    rng = np.random.default_rng(0)
    skewed = [drawn_by_class(rng.multinomial(200, [0.4, 0.3, 0.2, 0.1])) for _ in range(200)]
    assert sum(skewed) == 0


@pytest.mark.parametrize(
    ("n_labels", "accuracy", "n_left_out", "is_told"),
    [
        ((50, 50), 0.59, 100, True),
        ((50, 50), 0.61, 100, False),
        ((90, 10), 0.91, 100, True),
        ((90, 10), 0.97, 100, False),
        ((3, 3), 0.5, 6, False),  # too few to say anything
    ],
)
def test_left_out_accuracy_is_told_where_guessing_is_as_good(
    n_labels: tuple[int, int], accuracy: float, n_left_out: int, is_told: bool
) -> None:
    found = list(left_out_warnings(labels_of(*n_labels), accuracy, n_left_out))
    assert len(found) == is_told
    assert all(f"Always saying 'a' is right for {n_labels[0]:.1f}%" in each for each in found)
    # of a common class accuracy does not tell whether the rare one can be found
    assert all(("choose a threshold" in each) == (n_labels[0] == 90) for each in found)


def test_labels_of_one_class_are_told() -> None:
    graph = random_graph(200, 0.05, seed=1).graph()
    nodes = np.random.default_rng(0).choice(200, 30, replace=False)
    dominated = Labels.from_pairs(nodes, ["ok"] * 29 + ["fraud"])
    (told,) = label_warnings(dominated, graph)
    assert told.startswith("29 of the 30 labels are 'ok'; 1 say little")
    assert list(label_warnings(Labels.from_pairs(nodes, ["ok", "fraud"] * 15), graph)) == []


def two_rings(n_side: int) -> Graph:
    ring = np.arange(n_side)
    u = np.concatenate([ring, ring + n_side])
    v = np.concatenate([(ring + 1) % n_side, (ring + 1) % n_side + n_side])
    return Graph.from_edges(u, v, np.ones(2 * n_side), n_nodes=2 * n_side)


def test_labels_of_one_component_are_told() -> None:
    graph = two_rings(100)
    (told,) = label_warnings(Labels.from_pairs([0, 20, 50], ["x", "x", "y"]), graph)
    assert told.startswith("all labels lie in one of 2 components, and 50.0% of the nodes")
    assert list(label_warnings(Labels.from_pairs([0, 20, 150], ["x", "x", "y"]), graph)) == []


def test_one_label_a_class_is_told_to_be_luck() -> None:
    (told,) = label_warnings(Labels.from_pairs([0, 150], ["x", "y"]), two_rings(100))
    assert told.startswith("each class has one label: how many nodes are right is luck")


def test_labels_of_one_neighborhood_are_told() -> None:
    graph = two_rings(500)
    side_by_side = Labels.from_pairs([*range(20), *range(500, 520)], ["x", "y"] * 20)
    (told,) = label_warnings(side_by_side, graph)
    assert told.startswith(
        "the labels lie close together: 38 edges join two labeled nodes, and 1.6"
    )
    drawn = np.random.default_rng(0).choice(1000, 40, replace=False)
    assert list(label_warnings(Labels.from_pairs(drawn, ["x", "y"] * 20), graph)) == []


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["by class", "at random"])
@pytest.mark.parametrize("name", [DEFAULT_MODEL, "poisson", "stable-hfs"])
def test_nothing_is_told_of_digits(name: str, draw: str) -> None:
    graph, classes = digits_graph()
    model = CATALOGUE[name]()
    prepared = model.prepare(graph)
    for seed in range(3):
        nodes = draw_per_class(classes, 10, seed=seed)
        if draw == "at random":
            rng = np.random.default_rng(seed)
            nodes = np.sort(rng.choice(len(classes), 100, replace=False))
        labels = Labels.from_pairs(nodes, classes[nodes])
        solution = model.solve(prepared, labels)
        told = [
            *share_warnings(ComparedShares.of(labels, solution)),
            *label_warnings(labels, graph),
        ]
        assert told == []
