"""Reasons by features against the dense sums that they are parts of."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from peewit.service.predictions.feature_reasons import FeatureWeights, feature_reasons
from peewit.service.predictions.prediction_files import PredictionFile, features_path
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.walks.walk_rows import WalkRows
from peewit.streaming.edges.node_ids import nodes_of_kinds
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.passes.relation_counts import CountsStore
from peewit.streaming.snapshots.store import SnapshotStore
from tests.reference.filtered_ridge import DenseRidge, pagerank, targets_of, unit_rows
from tests.service.solvable import graphs_within, publish_features, publish_snapshot
from tests.service.tasks.solving.test_solve import MEMORY_BYTES, solved, task
from tests.service.tasks.test_solve_counts import asked_of, graph_of_messages

N_NODES = 60


@pytest.fixture
def solver() -> WarmGraphs:
    return graphs_within(MEMORY_BYTES)


def test_parts_are_those_of_the_dense_sums(tmp_path: Path, solver: WarmGraphs) -> None:
    rng = np.random.default_rng(0)
    paths = GraphPaths(root=tmp_path / "g")
    path = np.arange(N_NODES - 1)
    u, v = (np.append(path + end, rng.integers(0, N_NODES, 150)) for end in (0, 1))
    u, v = u[u != v], v[u != v]
    weight = rng.random(u.size) + 0.1
    graph = Graph.from_edges(u, v, weight, n_nodes=N_NODES)
    publish_snapshot(paths.root, 1, u, v, weight)
    classes = np.arange(N_NODES) % 3
    features = rng.normal(size=(N_NODES, 4)) + 2.0 * np.eye(3, 4)[classes]
    publish_features(paths.root, 1, features.astype(np.float32))
    labels = {f"n{node}": "abc"[classes[node]] for node in range(24)}
    parameters = {"teleport": 0.3}
    asked = task(paths.root, labels, model="filtered-ridge", parameters=parameters)
    answer = solved(solver, replace(asked, features_version=1))
    file = PredictionFile(paths.predictions / answer.result["file"])
    smoothed = pagerank(graph.adjacency.toarray(), 0.3) @ unit_rows(features)
    twin = DenseRidge(
        points=smoothed, nodes=np.arange(24), targets=targets_of(classes[:24]), norm_penalty=1.0
    )
    scale = np.square(smoothed[:24]).sum() / 24
    labeled = twin.rows[:24]
    dual = np.linalg.solve(labeled @ labeled.T + np.eye(24), twin.targets)
    weights = smoothed[:24].T @ dual / scale
    ids, rows = file.table()["node"], WalkRows.of_graph(graph)
    for node in (0, 30, 59):
        for supported in range(3):
            added = smoothed[node] * (weights[:, supported] - weights.mean(axis=1))
            found = feature_reasons(paths, file, ids, rows, node, supported, k=4)
            order = np.argsort(-np.abs(added))
            assert [each.name for each in found] == [f"feature {place}" for place in order]
            parts = added[order] / np.abs(added).sum()
            np.testing.assert_allclose([each.part for each in found], parts, atol=1e-3)
            own = features[node, order]
            np.testing.assert_allclose([each.value for each in found], own, rtol=1e-3)


def test_parts_of_several_relations_are_those_of_the_dense_sums(
    tmp_path: Path, solver: WarmGraphs
) -> None:
    directory = graph_of_messages(tmp_path)
    paths = GraphPaths(root=directory)
    answer = solved(solver, asked_of(directory, "filtered-ridge", directed=("message",)))
    file = PredictionFile(paths.predictions / answer.result["file"])
    kept, store = FeatureWeights.read(file.path), SnapshotStore(paths.snapshots)
    assert kept is not None
    assert len(kept.relations) > 1
    whole = store.weighed(file.meta.relation_weights).load(2).graph
    relations = store.load_relations(2)
    graphs = [whole, *(relations[name] for name in kept.relations)]
    counts = CountsStore(paths).open()
    assert counts is not None
    assert kept.counts is not None
    nodes = np.arange(whole.n_nodes)
    ids = open_nodes(paths.nodes, kind="typed", writable=False).external_ids()
    has_row = nodes_of_kinds(ids, file.meta.answers)
    points = kept.counts.scaling.scaled(counts.rows(kept.counts.directed, nodes)).astype(float)
    unit = (points - kept.form.center) * kept.form.scale(points)[:, None] * has_row[:, None]
    of_class = file.meta.class_names.index("buyer")
    added = np.zeros(unit.shape)
    for graph, weights in zip(graphs, kept.weights, strict=True):
        over_all = weights[:, of_class] - weights.mean(axis=1)
        added += pagerank(graph.adjacency.toarray(), kept.teleport) @ unit * over_all
    rows = WalkRows.of_graph(whole)
    for node in np.flatnonzero(has_row)[:5].tolist():
        found = feature_reasons(paths, file, ids, rows, node, of_class, k=3)
        order = np.argsort(-np.abs(added[node]))[:3]
        parts = added[node, order] / np.abs(added[node]).sum()
        np.testing.assert_allclose([each.part for each in found], parts, atol=2e-3)


def test_counts_are_told_as_people_count_them(tmp_path: Path, solver: WarmGraphs) -> None:
    directory = graph_of_messages(tmp_path)
    paths = GraphPaths(root=directory)
    answer = solved(solver, asked_of(directory, "filtered-ridge", directed=("message",)))
    file = PredictionFile(paths.predictions / answer.result["file"])
    snapshot = SnapshotStore(paths.snapshots).weighed(file.meta.relation_weights).load(2)
    rows = WalkRows.of_graph(snapshot.graph)
    ids = open_nodes(paths.nodes, kind="typed", writable=False).external_ids()
    counts = CountsStore(paths).open()
    assert counts is not None
    node = int(np.argmax(counts.columns["message", "sent"]))
    buyer = file.meta.class_names.index("buyer")
    found = {each.name: each for each in feature_reasons(paths, file, ids, rows, node, buyer, k=7)}
    sent = found["message sent"]
    assert sent.value == counts.columns["message", "sent"][node]
    assert abs(sent.part) > 0.05
    assert sum(abs(each.part) for each in found.values()) == pytest.approx(1.0)
    device = counts.meta.n_nodes - 1  # asked of no one, and without a row
    assert {each.value for each in feature_reasons(paths, file, ids, rows, device, buyer, k=7)} <= {
        None
    }
    for gone in (paths.counts / "counts.arrow", features_path(file.path)):
        gone.unlink()
        assert feature_reasons(paths, file, ids, rows, node, buyer, k=7) == ()
