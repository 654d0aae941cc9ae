"""Filtered ridge beside the dense primal fit."""

import numpy as np
import pytest
import scipy.sparse as sp

from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED
from peewit.solvers.labels import Labels
from peewit.solvers.models.filtered_ridge import FilteredRidge
from tests.reference.filtered_ridge import DenseRidge, pagerank, targets_of, unit_rows

N_NODES = 120
TELEPORT = 0.1


def featured(*, seed: int = 0, is_sparse: bool = False):
    """A weighted graph of two components and an isolated node, features, classes and labels."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, N_NODES)
    u, v = rng.integers(0, N_NODES - 1, (2, 400))
    near = (u < 90) == (v < 90)
    graph = Graph.from_edges(u[near], v[near], rng.uniform(0.5, 3.0, near.sum()), n_nodes=N_NODES)
    rows = rng.standard_normal((N_NODES, 12)) + 2.0 * np.eye(3, 12)[classes]
    features = sp.csr_array(np.where(rows > 0.5, rows, 0.0)) if is_sparse else rows
    nodes = np.sort(rng.choice(N_NODES, 25, replace=False))
    return graph, features, classes, nodes


def dense(graph: Graph, features, classes: np.ndarray, nodes: np.ndarray) -> DenseRidge:
    return DenseRidge(
        points=pagerank(graph.adjacency.toarray(), TELEPORT) @ unit_rows(features),
        nodes=nodes,
        targets=targets_of(classes[nodes]),
        norm_penalty=1.0,
    )


@pytest.mark.parametrize("is_sparse", [False, True])
def test_scores_and_left_out_values_are_those_of_the_primal_fit(is_sparse: bool) -> None:
    graph, features, classes, nodes = featured(is_sparse=is_sparse)
    model = FilteredRidge(teleport=TELEPORT)
    prepared = model.prepare(graph, features)
    labels = Labels.from_pairs(nodes, classes[nodes])
    twin = dense(graph, features, classes, nodes)
    scores = model.solve(prepared, labels).scores
    np.testing.assert_allclose(scores, twin.scores(), atol=1e-4)
    left_out = model.left_out(prepared, labels, UNWATCHED)
    np.testing.assert_allclose(left_out, twin.left_out(), atol=1e-4)


def test_memory_that_keeps_nothing_changes_no_score() -> None:
    graph, features, classes, nodes = featured()
    labels = Labels.from_pairs(nodes, classes[nodes])
    model = FilteredRidge(teleport=TELEPORT)
    kept = model.solve(model.prepare(graph, features), labels).scores
    poor = model.solve(model.prepare(graph, features, kept_bytes=64), labels).scores
    np.testing.assert_allclose(poor, kept, atol=1e-5)


def test_a_label_more_is_a_column_more() -> None:
    graph, features, classes, nodes = featured()
    model = FilteredRidge(teleport=TELEPORT)
    prepared = model.prepare(graph, features)
    few = Labels.from_pairs(nodes[:-1], classes[nodes[:-1]])
    first = model.solve(prepared, few).stats["n_columns"]
    again = model.solve(prepared, few).stats["n_columns"]
    more = model.solve(prepared, Labels.from_pairs(nodes, classes[nodes])).stats["n_columns"]
    assert first == len(nodes) - 1 + 3
    assert again == 3
    assert more == 4


def test_features_that_say_nothing_give_way_to_the_graph() -> None:
    rng = np.random.default_rng(1)
    classes = np.repeat([0, 1], 150)
    u = rng.integers(0, 300, 3_000)
    v = np.where(rng.random(3_000) < 0.95, u // 150 * 150 + rng.integers(0, 150, 3_000), 0)
    graph = Graph.from_edges(u[u != v], v[u != v], np.ones((u != v).sum()), n_nodes=300)
    nodes = np.sort(rng.choice(300, 80, replace=False))
    labels = Labels.from_pairs(nodes, classes[nodes])
    noise = rng.standard_normal((300, 40))
    empty = Graph.from_edges([], [], [], n_nodes=300)
    model = FilteredRidge()
    with_graph = model.solve(model.prepare(graph, noise), labels)
    assert with_graph.stats["loo_accuracy"] > 0.9
    informed = noise + 3.0 * np.eye(2, 40)[classes]
    alone = model.solve(model.prepare(empty, informed), labels)
    assert (alone.scores.argmax(axis=1) == classes).mean() > 0.9


def test_nodes_without_features_are_reached_through_their_neighbors() -> None:
    graph, features, classes, nodes = featured()
    known = np.setdiff1d(np.arange(N_NODES), [2, 7, 11])
    rows = FeatureRows(values=features[known], nodes=known)
    model = FilteredRidge(teleport=TELEPORT)
    solution = model.solve(model.prepare(graph, rows), Labels.from_pairs(nodes, classes[nodes]))
    assert solution.stats["n_without_features"] == 3
    assert solution.reachable[[2, 7, 11]].all()
    assert np.ptp(solution.scores[[2, 7, 11]], axis=1).min() > 0


def test_a_new_point_is_as_if_it_had_been_there() -> None:
    graph, features, classes, nodes = featured()
    model = FilteredRidge(teleport=TELEPORT)
    prepared = model.prepare(graph, features)
    solution = model.solve(prepared, Labels.from_pairs(nodes, classes[nodes]))
    point = features[:1]
    alone = model.predict(prepared, solution, point)
    isolated = int(np.flatnonzero(graph.degree == 0)[0])
    same = model.predict(prepared, solution, features[isolated : isolated + 1])
    np.testing.assert_allclose(same[0], solution.scores[isolated], atol=1e-5)
    edges = sp.csr_array(graph.adjacency)[[0]]
    joined = model.predict(prepared, solution, point, edges)
    np.testing.assert_allclose(joined[0], solution.scores[0], atol=1e-4)
    assert not np.allclose(alone, joined)


@pytest.mark.parametrize("wrong", [np.ones((1, 3)), -np.ones((1, N_NODES))])
def test_edges_of_new_points_are_checked(wrong: np.ndarray) -> None:
    graph, features, classes, nodes = featured()
    model = FilteredRidge()
    prepared = model.prepare(graph, features)
    solution = model.solve(prepared, Labels.from_pairs(nodes, classes[nodes]))
    with pytest.raises(ValueError, match="edges must"):
        model.predict(prepared, solution, features[:1], wrong)
