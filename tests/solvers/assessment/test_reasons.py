"""Reasons against inverted matrices and networkx, and against the densities of `auto`."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.assessment.reasons import likeliest_ways, reasons
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.walk_rows import WalkRows
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.density_arm import TELEPORT
from peewit.solvers.solution import Solution

N_NODES = 60


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Weighted, with a hub, a second component and a node without edges."""
    rng = np.random.default_rng(3)
    u, v = rng.integers(0, 50, (2, 150))
    u, v = np.append(u, [51, 52, *[7] * 40]), np.append(v, [52, 53, *range(10, 50)])
    return Graph.from_edges(u, v, rng.uniform(0.1, 3.0, u.size), n_nodes=N_NODES)


@pytest.fixture(scope="module")
def labels() -> Labels:
    return Labels.from_pairs([1, 9, 20, 30, 40, 52], ["a", "a", "b", "b", "c", "c"])


@pytest.fixture(scope="module")
def answer(graph: Graph, labels: Labels) -> Solution:
    model = Auto(rtol=1e-6)
    return model.solve(model.prepare(graph), labels)


def exact_parts(graph: Graph, nodes: Int64Array, classes: Int64Array) -> FloatArray:
    """(n_nodes, n_labeled) vol P_ij / (n_k sqrt(d_i d_j)), by a dense inverse of (K1)."""
    weights = graph.adjacency.toarray()
    n_edges = (weights > 0).sum(axis=1)
    loops = np.where(n_edges > 0, weights.sum(axis=1) / np.maximum(n_edges, 1), 1.0)
    degree = weights.sum(axis=1) + loops
    root = 1.0 / np.sqrt(degree)
    walk = root[:, None] * (weights + np.diag(loops)) * root
    filtered = TELEPORT * np.linalg.inv(np.eye(len(walk)) - (1.0 - TELEPORT) * walk)
    counts = np.bincount(classes)[classes]
    found: FloatArray = degree.sum() * (root[:, None] * filtered * root)[:, nodes] / counts
    return found


def test_parts_are_those_of_an_inverse(graph: Graph, labels: Labels) -> None:
    rows = WalkRows.of_graph(graph)
    exact = exact_parts(graph, labels.nodes, labels.classes)
    for node in range(N_NODES):
        found = reasons(rows, node, labels.nodes, labels.classes, n_classes=3, most_edges=1 << 30)
        parts = np.zeros(labels.n_labeled)
        parts[found.places] = found.added
        np.testing.assert_allclose(parts, exact[node], rtol=1e-3, atol=1e-3)
        assert found.followed == pytest.approx(1.0, abs=2e-6)
        assert np.all(np.diff(found.added) <= 0.0)
        of_classes = np.bincount(labels.classes, parts)
        np.testing.assert_allclose(found.support, of_classes, rtol=1e-12)


@pytest.mark.parametrize("most_edges", [1, 30, 300, 3_000])
def test_parts_and_what_was_not_followed_are_the_density(
    graph: Graph, labels: Labels, answer: Solution, most_edges: int
) -> None:
    rows, densities = WalkRows.of_graph(graph), answer.densities
    assert densities is not None
    exact = exact_parts(graph, labels.nodes, labels.classes)
    for node in range(N_NODES):
        found = reasons(
            rows,
            node,
            labels.nodes,
            labels.classes,
            n_classes=3,
            densities=densities,
            most_edges=most_edges,
        )
        np.testing.assert_allclose(found.support, densities[node], rtol=3e-3, atol=3e-3)
        assert np.all(found.added <= exact[node][found.places] * (1 + 1e-5))
        assert 0.0 <= found.followed <= 1.0


def test_more_edges_follow_more_walks(graph: Graph, labels: Labels) -> None:
    rows = WalkRows.of_graph(graph)
    followed = [
        reasons(rows, 7, labels.nodes, labels.classes, n_classes=3, most_edges=most).followed
        for most in (1, 100, 1_000, 100_000)
    ]
    assert followed == sorted(followed)
    assert followed[0] < 0.2
    assert followed[-1] > 0.99


def test_densities_are_those_of_an_inverse(graph: Graph, labels: Labels, answer: Solution) -> None:
    parts = exact_parts(graph, labels.nodes, labels.classes)
    of_classes = parts @ np.eye(3)[labels.classes]
    assert answer.densities is not None
    np.testing.assert_allclose(answer.densities, of_classes, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
def test_ways_are_those_of_networkx(graph: Graph) -> None:
    rows = WalkRows.of_graph(graph)
    directed = nx.DiGraph()
    coordinates = graph.adjacency.tocoo()
    for u, v, weight in zip(*coordinates.coords, coordinates.data, strict=True):
        directed.add_edge(u, v, length=-np.log(weight / rows.degree[u]))
    for node in (0, 7, 33):
        targets = [3, 14, 44, node]
        for target, way in zip(targets, likeliest_ways(rows, node, targets), strict=True):
            assert way is not None
            assert (way[0], way[-1]) == (node, target)
            expected = nx.shortest_path_length(directed, node, target, weight="length")
            own = sum(directed[u][v]["length"] for u, v in pairwise(way))
            assert own == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.slow
def test_a_way_that_is_too_far_or_leads_nowhere_is_none(graph: Graph) -> None:
    rows = WalkRows.of_graph(graph)
    assert likeliest_ways(rows, 0, [52]) == [None]
    assert likeliest_ways(rows, 59, [0, 59]) == [None, [59]]
    assert likeliest_ways(rows, 0, [0, 33], most_edges=1) == [[0], None]


def test_a_node_without_edges_speaks_for_itself_alone(graph: Graph) -> None:
    rows = WalkRows.of_graph(graph)
    nodes = np.array([5, 59])
    found = reasons(rows, 59, nodes, np.array([0, 1]), n_classes=2)
    assert found.places.tolist() == [1]
    assert found.support[0] == 0.0
    nothing = reasons(rows, 58, nodes, np.array([0, 1]), n_classes=2)
    assert nothing.places.size == 0
    assert nothing.support.tolist() == [0.0, 0.0]


def test_edges_that_no_walk_goes_along_are_passed_over() -> None:
    graph = Graph.from_edges([0, 0, 1], [1, 2, 2], [1.0, 1e-60, 1.0], n_nodes=3)
    nodes = np.array([2])
    found = reasons(WalkRows.of_graph(graph), 0, nodes, np.array([0]), n_classes=1)
    assert found.places.tolist() == [0]
    assert found.followed == pytest.approx(1.0, abs=2e-6)
