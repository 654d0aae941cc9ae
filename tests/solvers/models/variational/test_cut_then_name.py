"""Clusters of the graph that labels name: planted ones, few labels, odd graphs, kept cuts."""

import numpy as np
import pytest
from hypothesis import given, settings

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport, RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.solvers.models.variational.cut_then_name import Cuts, NamedCut, cut_then_name
from tests.strategies import problems

SILENT = Watch(progress=None, cancelled=None)


def named(graph: Graph, labels: Labels, known: Cuts | None = None, watch: Watch = SILENT):
    """The cut, from the harmonic function that models give it."""
    model = HFS(graph_penalty=0.0)
    harmonic = model.solve(model.prepare(graph), labels).scores
    return cut_then_name(graph, labels, harmonic, {} if known is None else known, watch=watch)


def same(one: NamedCut, other: NamedCut) -> None:
    np.testing.assert_array_equal(one.classes, other.classes)
    assert (one.n_cuts, one.n_missed) == (other.n_cuts, other.n_missed)


def clusters(n_clusters: int, size: int = 20, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Dense clusters, each pair joined by one light edge."""
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(n_clusters), size)
    u, v = np.triu_indices(classes.size, 1)
    inside = classes[u] == classes[v]
    kept = inside & (rng.random(u.size) < 0.5)
    kept |= inside & (v == u + 1)
    kept |= ~inside & (u % size == 3) & (v % size == 5)
    weight = np.where(inside, 1.0, 0.3)
    return Graph.from_edges(u[kept], v[kept], weight[kept], n_nodes=classes.size), classes


def joined(one: Graph, other: Graph) -> Graph:
    """Both, as components beside each other."""
    u, v, weight = one.edges()
    s, t, heavy = other.edges()
    return Graph.from_edges(
        np.concatenate([u, s + one.n_nodes]),
        np.concatenate([v, t + one.n_nodes]),
        np.concatenate([weight, heavy]),
        n_nodes=one.n_nodes + other.n_nodes,
    )


@pytest.mark.parametrize("n_clusters", [2, 3, 4, 5])
def test_planted_clusters_are_named_by_one_label_each(n_clusters) -> None:
    graph, classes = clusters(n_clusters)
    assert graph.n_components == 1
    nodes = 20 * np.arange(n_clusters) + 7
    names = np.random.default_rng(n_clusters).permutation(n_clusters)
    found = named(graph, Labels.from_pairs(nodes, names))
    np.testing.assert_array_equal(found.classes, names[classes])
    assert found.n_missed == 0
    assert found.n_cuts == n_clusters - 1


def test_names_go_by_the_majority() -> None:
    graph, classes = clusters(2)
    labels = Labels.from_pairs([0, 4, 9, 20, 25], ["b", "b", "a", "a", "a"])
    found = named(graph, labels)
    np.testing.assert_array_equal(found.classes, 1 - classes)
    assert found.n_missed == 1


def test_labels_outvote_what_the_harmonic_function_leans_to() -> None:
    graph, classes = clusters(2)
    against = np.eye(2)[1 - classes]
    labels = Labels.from_pairs([7, 27], [0, 1])
    found = cut_then_name(graph, labels, against, {}, watch=SILENT)
    np.testing.assert_array_equal(found.classes, classes)


def test_labels_in_one_cluster_leave_a_class_to_each() -> None:
    graph, classes = clusters(2)
    found = named(graph, Labels.from_pairs([1, 2], ["a", "b"]))
    assert found.n_cuts == 1
    assert found.n_missed == 1
    assert np.unique(found.classes[classes == 0]).size == 1
    np.testing.assert_array_equal(found.classes, np.where(classes, *found.classes[[20, 0]]))
    assert found.classes[0] != found.classes[20]


def test_components_are_cut_into_their_own_classes() -> None:
    one, inside = clusters(2)
    other, _ = clusters(1, size=15)
    graph = joined(joined(one, other), other)
    labels = Labels.from_pairs([0, 20, 41], ["a", "b", "b"])
    found = named(graph, labels)
    np.testing.assert_array_equal(found.classes[:40], inside)
    assert (found.classes[40:55] == 1).all()
    assert (found.classes[55:] == -1).all()
    assert found.n_cuts == 1


def test_labeled_nodes_without_edges_keep_their_class() -> None:
    one, inside = clusters(2)
    alone = Graph.from_edges([], [], [], n_nodes=3)
    labels = Labels.from_pairs([0, 20, 40, 41], ["a", "b", "c", "a"])
    found = named(joined(one, alone), labels)
    np.testing.assert_array_equal(found.classes, [*inside, 2, 0, -1])
    assert found.n_missed == 0


def test_more_classes_than_a_component_has_nodes_left() -> None:
    """Every node of a path is labeled, each by another class."""
    path = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], np.ones(4), n_nodes=5)
    labels = Labels.from_pairs(np.arange(5), [3, 1, 4, 0, 2])
    found = named(path, labels)
    np.testing.assert_array_equal(found.classes, labels.classes)
    assert found.n_missed == 0


def test_a_star_cut_into_as_many_classes_as_leaves() -> None:
    star = Graph.from_edges(np.zeros(4, int), np.arange(1, 5), np.ones(4), n_nodes=5)
    labels = Labels.from_pairs([1, 2, 3, 4], ["a", "b", "c", "d"])
    found = named(star, labels)
    np.testing.assert_array_equal(found.classes[1:], labels.classes)


@pytest.mark.slow
@settings(max_examples=60)
@given(problems(max_nodes=14))
def test_every_node_that_labels_reach_gets_a_class_of_its_component(problem) -> None:
    graph, labels = problem
    known: Cuts = {}
    found = named(graph, labels, known)
    reached = np.isin(graph.component, graph.component[labels.nodes])
    np.testing.assert_array_equal(found.classes >= 0, reached)
    for number in np.unique(graph.component[labels.nodes]):
        inside = graph.component == number
        own = labels.classes[graph.component[labels.nodes] == number]
        assert np.isin(found.classes[inside], own).all()
        if np.unique(own).size <= 2:  # one cut at most, each side with a class
            np.testing.assert_array_equal(np.unique(found.classes[inside]), np.unique(own))
    assert found.n_missed == np.count_nonzero(found.classes[labels.nodes] != labels.classes)
    assert len(known) == found.n_cuts
    same(named(graph, labels, known), found)
    assert len(known) == found.n_cuts


def test_kept_cuts_are_not_made_again() -> None:
    graph, classes = clusters(3)
    known: Cuts = {}
    first = named(graph, Labels.from_pairs([0, 20, 40], [0, 1, 2]), known)
    kept = set(known)
    again = named(graph, Labels.from_pairs([5, 30, 45], [0, 1, 2]), known)
    same(again, first)
    assert set(known) == kept
    for key in list(known):  # what is known is what is used
        bits, status = known[key]
        known[key] = np.packbits(np.arange(bits.size * 8) % 2), status
    other = named(graph, Labels.from_pairs([0, 20, 40], [0, 1, 2]), known)
    assert (other.classes != classes).any()


def test_progress_ends_at_one_and_a_cancelled_cut_stops() -> None:
    graph, _ = clusters(3)
    labels = Labels.from_pairs([0, 20, 40], [0, 1, 2])
    reports: list[ProgressReport] = []
    named(graph, labels, watch=Watch(progress=reports.append, cancelled=None))
    cuts = [report.fraction for report in reports if report.phase == "cut"]
    assert cuts == sorted(cuts)
    assert cuts[-1] == 1.0
    with pytest.raises(RunStopped):
        named(graph, labels, watch=Watch(progress=None, cancelled=lambda: True))
