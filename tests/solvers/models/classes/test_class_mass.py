import numpy as np
import pytest
from hypothesis import given

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.classes.class_mass import (
    class_priors,
    contrast_shares,
    contrasts,
    normalized_masses,
)
from peewit.solvers.models.harmonic.harmonic import HFS
from tests.data_sets import accuracy, digits_graph, draw_per_class
from tests.reference import class_mass as reference
from tests.reference.harmonic import hfs_scores
from tests.strategies import problems
from tests.streaming.graphs import random_graph


def reached(graph: Graph, labels: Labels) -> np.ndarray:
    return np.isin(graph.component, graph.component[labels.nodes])


@given(problems())
def test_hfs_normalizes_class_masses_as_its_twin(problem) -> None:
    graph, labels = problem
    model = HFS(graph_penalty=0.0, class_mass="labels", rtol=1e-10)
    scores = model.solve(model.prepare(graph), labels).scores
    expected = reference.normalized_masses(hfs_scores(graph, labels, 0), labels, graph)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    np.testing.assert_allclose(scores[labels.nodes], labels.targets(), atol=1e-12)


def test_rounding_is_no_mass_of_a_class_without_labels() -> None:
    path = np.arange(3)
    graph = Graph.from_edges(
        np.r_[path, path + 4], np.r_[path + 1, path + 5], np.ones(6), n_nodes=8
    )
    labels = Labels.from_pairs([0, 3, 4], ["a", "b", "c"])
    scores = np.repeat(np.eye(3), [2, 2, 4], axis=0) + 1e-17
    found = normalized_masses(scores, labels, graph)
    np.testing.assert_array_equal(found[:4, 2], 0.0)
    np.testing.assert_array_equal(found[4:, :2], 0.0)


def test_known_class_masses_are_met() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 3, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    asked = 1.0 + np.arange(10) % 2
    sizes = {name: float(size) for name, size in enumerate(asked)}
    plain = HFS(graph_penalty=0.0)
    known = HFS(graph_penalty=0.0, class_mass=sizes)
    scores = known.solve(known.prepare(graph), labels).scores
    # what multiplies each class is the share asked for over the mass there was
    before = plain.solve(plain.prepare(graph), labels).scores
    factors = asked / asked.sum() / before.sum(axis=0)
    expected = before * factors
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scores, expected, atol=1e-6)


@given(problems())
def test_contrasts_agree_with_their_twin(problem) -> None:
    graph, labels = problem
    scores = hfs_scores(graph, labels, 0)
    rows = reached(graph, labels)
    expected = reference.contrasts(scores, labels, graph)[rows]
    found = contrasts(scores, labels, graph)[rows]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@given(problems())
def test_no_class_wins_a_contrast_in_a_component_without_its_label(problem) -> None:
    graph, labels = problem
    winners = contrasts(hfs_scores(graph, labels, 0), labels, graph).argmax(axis=1)
    for node in np.flatnonzero(reached(graph, labels)):
        inside = graph.component[labels.nodes] == graph.component[node]
        assert winners[node] in labels.classes[inside]


def test_a_decided_function_is_compared_as_it_is() -> None:
    graph = random_graph(30, 0.3, seed=0).graph()
    labels = Labels.from_pairs([0, 1, 2, 3], [0, 1, 1, 2])
    decided = np.eye(3)[np.arange(30) % 3]
    np.testing.assert_allclose(contrasts(decided, labels, graph), decided, atol=1e-12)


def test_a_flat_function_is_compared_by_relative_excess() -> None:
    graph = random_graph(30, 0.3, seed=0).graph()
    labels = Labels.from_pairs([0, 1, 2, 3], [0, 1, 1, 2])
    bumps = np.random.default_rng(0).standard_normal((30, 3))
    bumps -= bumps.mean(axis=1, keepdims=True)
    bumps -= graph.degree @ bumps / graph.degree.sum()
    mean, size = np.array([0.7, 0.2, 0.1]), 1e-6
    expected = class_priors(labels, graph) * bumps / mean
    found = contrasts(mean + size * bumps, labels, graph) / size
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def test_flat_masses_with_unequal_shares_elect_the_largest_class() -> None:
    """Why `contrasts` exists: normalised masses of a flat function only repeat the label counts."""
    graph = random_graph(30, 0.3, seed=0).graph()
    labels = Labels.from_pairs([0, 1, 2, 3], [0, 1, 1, 2])
    bumps = np.random.default_rng(0).standard_normal((30, 3))
    bumps -= bumps.mean(axis=1, keepdims=True)
    flat = np.array([0.7, 0.2, 0.1]) + 1e-3 * bumps
    assert (normalized_masses(flat, labels, graph).argmax(axis=1) == 1).all()
    assert np.unique(contrasts(flat, labels, graph).argmax(axis=1)).size == 3


@pytest.mark.slow
def test_class_masses_repair_hfs_at_one_label_per_class_on_digits() -> None:
    graph, classes = digits_graph()
    gained = []
    for seed in range(2):
        nodes = draw_per_class(classes, 1, seed=seed)
        labels = Labels.from_pairs(nodes, classes[nodes])
        plain, weighed = HFS(graph_penalty=0.0), HFS(graph_penalty=0.0, class_mass="labels")
        prepared = plain.prepare(graph)
        before = plain.solve(prepared, labels).scores
        after = weighed.solve(prepared, labels).scores
        gained.append(accuracy(after, classes, nodes) - accuracy(before, classes, nodes))
    assert np.mean(gained) > 0.05


def test_shares_of_any_size_give_distributions() -> None:
    graph = Graph.from_edges(np.array([0, 1, 2]), np.array([1, 2, 3]), np.ones(3), n_nodes=4)
    labels = Labels.from_pairs(np.array([0, 3]), ["a", "b"])
    model = HFS(graph_penalty=0.0, class_mass={"a": 1e-320, "b": 1e10})
    scores = model.solve(model.prepare(graph), labels).scores
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    np.testing.assert_allclose(scores[0], [1.0, 0.0], atol=1e-12)


@given(problems(connected=True))
def test_contrasts_as_distributions_keep_their_order(problem) -> None:
    graph, labels = problem
    scores = hfs_scores(graph, labels, 1.0)
    shares, leaning = (way(scores, labels, graph) for way in (contrast_shares, contrasts))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert shares.min() >= 0.0
    sums = np.ptp(leaning, axis=1, keepdims=True)
    ratio = np.ptp(shares, axis=1, keepdims=True)
    differences = leaning - leaning.min(axis=1, keepdims=True)
    again = shares - shares.min(axis=1, keepdims=True)
    np.testing.assert_allclose(again * sums, differences * ratio, atol=1e-9)
