"""The choice by labels: noise is found, beliefs know their doubt, and an old choice is kept."""

from dataclasses import replace

import numpy as np
import pytest

from peewit.solvers.iteration_loop import UNWATCHED, RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.relations.choice import MOST_CANDIDATES, RelationChoice, choose
from peewit.solvers.relations.left_out_densities import (
    TELEPORT,
    LeftOutLabels,
    judged,
    precisions_of,
)
from peewit.solvers.relations.relation_graphs import RelationGraphs
from tests.solvers.relations.made import edges_of, graph_of, labels_of, made


def test_log_odds_of_left_out_labels_are_those_of_dense_personalized_pagerank() -> None:
    relations, classes = made({"a": 0.8}, n_nodes=120)
    graph, labels = relations.graphs[0], labels_of(classes, 8)
    left_out = LeftOutLabels.of(labels, graph.n_nodes)
    pagerank = PersonalizedPageRank.of_graph(graph)
    adjacency = graph.adjacency.toarray()
    counts = (adjacency > 0).sum(axis=1)
    degree = graph.degree * (counts + 1) / np.maximum(counts, 1)
    degree[counts == 0] = 1.0
    loops = np.diag(np.where(counts > 0, graph.degree / np.maximum(counts, 1), 1.0))
    root = 1.0 / np.sqrt(degree)
    walk = root[:, None] * (adjacency + loops) * root
    filtered = TELEPORT * np.linalg.inv(np.eye(120) - (1 - TELEPORT) * walk)
    densities = degree.sum() * root[:, None] * filtered * root
    found = left_out.log_odds(pagerank, UNWATCHED)
    for place in left_out.used:
        others = left_out.fold != left_out.fold[place]
        values = [
            densities[labels.nodes[place], labels.nodes[others & (labels.classes == each)]].mean()
            for each in range(3)
        ]
        logs = np.log(np.array(values) + 0.3)
        np.testing.assert_allclose(found[place], logs - logs.mean(), atol=0.1)


def test_precisions_are_those_at_the_ranks_of_the_class() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.7, 0.1])
    is_rare = np.array([True, False, True, False, False])
    assert precisions_of(scores, is_rare).tolist() == [1.0, 0.5]


@pytest.mark.parametrize("per_class", [5, 20])
def test_a_relation_of_random_edges_is_left_out(per_class: int) -> None:
    relations, classes = made({"login": 0.8, "random": 0.0, "card": 0.7})
    choice = choose(relations, labels_of(classes, per_class))
    assert choice.best.weights[1] < 0.2 * choice.best.weights[0]
    by_name = {report.name: report for report in choice.relations}
    assert by_name["random"].reading in {"left out", "damped"}
    assert by_name["random"].loss_without < by_name["login"].loss_without
    assert by_name["login"].loss_alone < by_name["random"].loss_alone
    assert len(choice.candidates) <= MOST_CANDIDATES + 3


def test_what_is_chosen_depends_on_labels_and_graphs_alone() -> None:
    relations, classes = made({"a": 0.8, "b": 0.3, "c": 0.5})
    labels = labels_of(classes, 6)
    first, second = choose(relations, labels), choose(relations, labels)
    assert first.candidates == second.candidates
    heavier = [relations.combined(row) for row in 8.0 * np.eye(3)]
    scaled = RelationGraphs.of(dict(zip(relations.names, heavier, strict=True)))
    third = choose(scaled, labels)
    assert [each.weights for each in third.candidates] == [
        each.weights for each in first.candidates
    ]
    np.testing.assert_allclose(
        [each.belief for each in third.candidates],
        [each.belief for each in first.candidates],
        atol=1e-3,
    )


def test_few_labels_tell_less_than_many() -> None:
    relations, classes = made({"a": 0.7, "random": 0.0})
    concentrations = []
    for per_class in (2, 40):
        choices = [choose(relations, labels_of(classes, per_class, seed=each)) for each in range(6)]
        beliefs = [[each.belief for each in choice.candidates] for choice in choices]
        concentrations.append(np.mean([np.square(each).sum() for each in beliefs]))
    assert concentrations[0] < 0.8 * concentrations[1]


def test_without_a_label_to_leave_out_both_scalings_count_alike() -> None:
    rng = np.random.default_rng(0)
    classes = np.arange(300) % 3
    graphs = {
        "large": graph_of(*edges_of(classes, 900, 0.8, rng), 300),
        "small": graph_of(*edges_of(classes, 90, 0.8, rng), 300),
    }
    choice = choose(RelationGraphs.of(graphs), labels_of(classes, 1))
    assert [each.belief for each in choice.used] == [0.5, 0.5]
    assert choice.best.weights == (1.0, 1.0)


def with_changed(labels: Labels, n_changed: int, classes: np.ndarray) -> Labels:
    """With other nodes in place of the last ones."""
    free = np.setdiff1d(np.arange(classes.size), labels.nodes)[:n_changed]
    nodes = np.concatenate([labels.nodes[: labels.n_labeled - n_changed], free])
    return Labels.from_pairs(nodes, classes[nodes])


def test_an_earlier_choice_stays_until_labels_speak_against_it() -> None:
    relations, classes = made({"a": 0.8, "random": 0.0})
    labels = labels_of(classes, 20)
    choice = choose(relations, labels)
    assert choose(relations, with_changed(labels, 3, classes), previous=choice) is choice
    later = choose(relations, with_changed(labels, 20, classes), previous=choice)
    assert later is not choice
    assert later.best.weights == choice.best.weights
    wrong = replace(choice, used=(replace(choice.used[0], weights=(0.0, 1.0), belief=1.0),))
    mended = choose(relations, with_changed(labels, 20, classes), previous=wrong)
    assert mended.best.weights[0] > mended.best.weights[1]


def test_average_precision_counts_where_a_class_is_rare() -> None:
    relations, classes = made({"a": 0.8})
    rare = np.where(np.arange(600) % 30 == 0, 1, 0)
    nodes = np.concatenate([np.flatnonzero(rare)[:12], np.flatnonzero(rare == 0)[:120]])
    labels = Labels.from_pairs(nodes, rare[nodes])
    left_out = LeftOutLabels.of(labels, 600)
    judgement = judged(left_out, relations.graphs[0], UNWATCHED)
    gap = judgement.losses - judgement.log_losses
    assert 0 < judgement.precision <= 1
    assert (gap[labels.classes[left_out.used] == 0] == 0).all()
    np.testing.assert_allclose(
        np.exp(-gap[labels.classes[left_out.used] == 1]).mean(), judgement.precision
    )
    assert np.isnan(
        judged(
            LeftOutLabels.of(labels_of(classes, 9), 600), relations.graphs[0], UNWATCHED
        ).precision
    )


def test_a_choice_that_is_cancelled_stops() -> None:
    relations, classes = made({"a": 0.8, "b": 0.5})
    with pytest.raises(RunStopped):
        choose(relations, labels_of(classes, 5), watch=Watch(cancelled=lambda: True))


def test_given_weights_are_told_as_they_can_be_asked_for() -> None:
    choice = RelationChoice.given((3.0, 0.0), ("card", "message"))
    assert choice.stats == {"relations": "card=3,message=0"}
