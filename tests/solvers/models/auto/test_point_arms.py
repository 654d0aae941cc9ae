"""Arms on points of nodes: each label left out as a ridge without it would have it."""

import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.structural_points import structural_rows
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.point_arms import (
    MOST_POINT_PASSES,
    POINT_ARMS,
    node_points,
    point_arm,
    points_by_passes,
    points_of_all_edges,
)
from peewit.solvers.models.auto.preparation import NodePoints
from peewit.solvers.models.left_out.label_groups import LabelGroups
from tests.solvers.laplacian.test_points import blocks

N_NODES = 300


def labels_of(n_labeled: int, n_classes: int, seed: int = 0) -> Labels:
    rng = np.random.default_rng(seed)
    classes = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n_labeled)])
    nodes = np.sort(rng.choice(N_NODES, classes.size, replace=False))
    return Labels(nodes=nodes, classes=classes, class_names=tuple(range(n_classes)))


def ridge(points: FloatArray, labels: Labels, without: int | None = None) -> FloatArray:
    """Scores of all nodes, by a solve without a label whose targets and scale stay (K5)."""
    counts = np.bincount(labels.classes)
    targets = np.eye(labels.n_classes)[labels.classes] / np.sqrt(counts)
    targets -= targets.mean(axis=1, keepdims=True)
    rows = points[labels.nodes]
    size = np.square(rows).sum() / len(rows)
    kept = np.delete(np.arange(len(rows)), [] if without is None else without)
    rows, targets = rows[kept], targets[kept]
    system = rows.T @ rows / size + np.eye(rows.shape[1])
    return points @ np.linalg.solve(system, rows.T @ targets / size)


@pytest.mark.parametrize(("n_labeled", "n_columns", "n_classes"), [(4, 9, 2), (40, 9, 3)])
def test_left_out_values_are_those_of_a_ridge_without_the_label(
    n_labeled: int, n_columns: int, n_classes: int
) -> None:
    points = np.random.default_rng(1).standard_normal((N_NODES, n_columns)).astype(np.float32)
    labels = labels_of(n_labeled, n_classes)
    groups = LabelGroups.of(labels, N_NODES)
    arm = point_arm(NodePoints(rows=points), groups, np.ones(N_NODES, bool))
    whole = ridge(points.astype(np.float64), labels)
    whole -= whole.mean(axis=1, keepdims=True)
    size = np.sqrt(np.square(whole).mean())
    assert np.allclose(arm.values, whole / size, atol=1e-4)
    for place, node in enumerate(labels.nodes):
        other = ridge(points.astype(np.float64), labels, without=place)[node]
        assert np.allclose(arm.left_out[place], (other - other.mean()) / size, atol=1e-4)
    assert np.allclose(arm.left_out[labels.n_labeled :], arm.values[groups.stand_ins], atol=1e-6)


def test_nodes_that_no_label_reaches_are_told_nothing() -> None:
    points = np.random.default_rng(1).standard_normal((N_NODES, 4)).astype(np.float32)
    groups = LabelGroups.of(labels_of(10, 2), N_NODES)
    reachable = np.arange(N_NODES) % 2 == 0
    arm = point_arm(NodePoints(rows=points), groups, reachable)
    assert not arm.values[1::2].any()
    assert arm.values[::2].any()


def test_points_are_made_in_blocks_where_they_are_needed() -> None:
    rows = np.random.default_rng(1).standard_normal((N_NODES, 3)).astype(np.float32)
    groups = LabelGroups.of(labels_of(10, 2), N_NODES)
    reachable = np.ones(N_NODES, bool)
    made = point_arm(NodePoints(rows=rows, of_rows=lambda each: each[:, :2]), groups, reachable)
    told = point_arm(NodePoints(rows=rows[:, :2]), groups, reachable)
    assert np.array_equal(made.values, told.values)


@pytest.mark.parametrize("per_class", [5, 20])
def test_buyers_and_sellers_are_told_apart(per_class: int) -> None:
    graph, side = blocks(2_000, 0.15)
    nodes = np.concatenate([np.flatnonzero(side == each)[:per_class] for each in (0, 1)])
    order = np.argsort(nodes)
    labels = Labels(nodes=nodes[order], classes=side[nodes[order]], class_names=(0, 1))
    solution = Auto().solve(Auto().prepare(graph), labels)
    assert solution.stats["belief"] == "spectral"
    assert np.mean(solution.scores.argmax(axis=1) == side) > 0.9


def test_roles_are_told_apart() -> None:
    # hubs of stars and their leaves, the hubs in a ring
    hubs, n_leaves = np.arange(200), 9
    leaves = 200 + np.arange(200 * n_leaves)
    u = np.concatenate([hubs, np.repeat(hubs, n_leaves)])
    v = np.concatenate([np.roll(hubs, 1), leaves])
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=leaves[-1] + 1)
    classes = np.arange(graph.n_nodes) >= 200
    nodes = np.concatenate([hubs[::20], leaves[::180]])
    labels = Labels(nodes=nodes, classes=classes[nodes].astype(int), class_names=(0, 1))
    solution = Auto().solve(Auto().prepare(graph), labels)
    assert solution.stats["loo_structural"] > 0.95
    assert np.mean(solution.scores.argmax(axis=1) == classes) > 0.95


def test_points_do_not_depend_on_labels_and_are_made_once() -> None:
    graph, side = blocks(600, 0.2)
    model = Auto()
    prepared = model.prepare(graph)
    nodes = np.arange(30)
    labels = Labels(nodes=nodes, classes=side[nodes], class_names=(0, 1))
    model.solve(prepared, labels)
    first = prepared.points
    assert first is not None
    more = Labels(nodes=np.arange(31), classes=side[:31], class_names=(0, 1))
    warm = model.solve(prepared, more)
    assert prepared.points is first
    anew = Auto(walks="anew").solve(model.prepare(graph), more)
    assert warm.stats["loo_spectral"] == anew.stats["loo_spectral"]


def test_points_by_passes_are_nearly_those_of_all_edges() -> None:
    graph, _ = blocks(800, 0.85)
    u, v, weight = graph.edges()
    is_kept = np.random.default_rng(0).random(u.size) < 0.5
    thin = u[is_kept], v[is_kept], 2.0 * weight[is_kept]
    sparsifier = Graph.from_edges(*thin, n_nodes=graph.n_nodes)
    model = Auto()
    whole, some = model.prepare(graph), model.prepare(sparsifier)
    adjacency = graph.adjacency
    degrees = FullDegrees(weight=np.asarray(graph.degree), n_edges=np.diff(adjacency.indptr))
    made = points_by_passes(some, graph.laplacian_product, degrees, UNWATCHED)
    assert np.allclose(made["structural"].rows, structural_rows(graph), atol=1e-4)
    of_all, by_passes, of_some = (
        np.corrcoef(points.rows @ points.rows.T)
        for points in (
            node_points(whole, UNWATCHED)["spectral"],
            made["spectral"],
            node_points(some, UNWATCHED)["spectral"],
        )
    )
    assert np.abs(by_passes - of_all).mean() < np.abs(of_some - of_all).mean()


@pytest.mark.parametrize("n_nodes", [60, 800])
def test_points_by_passes_alone_are_those_of_a_graph_that_keeps_all_edges(n_nodes: int) -> None:
    """Rotations aside, which ridge does not see."""
    rng = np.random.default_rng(n_nodes)
    u, v = rng.integers(0, n_nodes, (2, 8 * n_nodes))
    v = np.where(rng.random(u.size) < 0.5, v // 4 * 4 + u % 4, v)
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=n_nodes)
    passes: list[int] = []

    def product(block: FloatArray) -> FloatArray:
        passes.append(block.shape[1])
        return graph.laplacian_product(block)

    degrees = FullDegrees(graph.degree, np.diff(graph.adjacency.indptr))
    found = points_of_all_edges(product, degrees, UNWATCHED)
    expected = node_points(Auto().prepare(graph), UNWATCHED)
    assert 2 <= len(passes) <= MOST_POINT_PASSES
    for name in POINT_ARMS:
        ours, theirs = found[name].rows, expected[name].rows
        assert np.allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-5)
