"""The edges around a node, against the whole adjacency matrix."""

from pathlib import Path

import numpy as np
import pytest

from peewit.service.dashboard.neighborhoods import neighborhood
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots import edge_files
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore
from tests.service.solvable import publish_snapshot, two_communities


@pytest.mark.parametrize("batch_rows", [7, 1 << 18])
def test_strongest_edges_and_those_among_them(
    tmp_path: Path, batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_files, "_BATCH_ROWS", batch_rows)
    u, v = two_communities()
    publish_snapshot(tmp_path, 1, u, v)
    store = SnapshotStore(GraphPaths(root=tmp_path).snapshots)
    adjacency = store.load(1).graph.adjacency.toarray()
    for node in range(len(adjacency)):
        found = neighborhood(store, 1, node, n_strongest=5)
        row = adjacency[node]
        assert found.n_neighbors == np.count_nonzero(row)
        assert found.degree == pytest.approx(row.sum())
        assert len(found.neighbors) == min(5, found.n_neighbors)
        assert node not in found.neighbors
        assert np.array_equal(row[found.neighbors], found.weights)
        assert np.array_equal(np.sort(row)[::-1][: len(found.weights)], found.weights)
        among = adjacency[np.ix_(found.neighbors, found.neighbors)]
        expected = {tuple(sorted(pair)) for pair in np.argwhere(among > 0).tolist()}
        assert {tuple(sorted(pair)) for pair in found.pairs.tolist()} == expected
        assert len(found.pairs) == len(expected)
        for pair, weight in zip(found.pairs, found.pair_weights, strict=True):
            assert among[tuple(pair)] == weight


def test_a_node_without_edges_and_a_snapshot_that_is_not_there(tmp_path: Path) -> None:
    publish_snapshot(tmp_path, 1, np.array([0, 2]), np.array([1, 2]))
    store = SnapshotStore(GraphPaths(root=tmp_path).snapshots)
    alone = neighborhood(store, 1, 2)
    assert (alone.n_neighbors, alone.degree, len(alone.pairs)) == (0, 0.0, 0)
    assert neighborhood(store, 1, 99).n_neighbors == 0
    with pytest.raises(SnapshotNotFound):
        neighborhood(store, 2, 0)


def test_erased_nodes_are_no_neighbors(tmp_path: Path) -> None:
    u, v = two_communities()
    publish_snapshot(tmp_path, 1, u, v)
    store = SnapshotStore(GraphPaths(root=tmp_path).snapshots)
    before = neighborhood(store, 1, 0, n_strongest=5)
    erased = np.sort(before.neighbors[:2])
    after = neighborhood(store, 1, 0, without=erased, n_strongest=5)
    assert after.n_neighbors == before.n_neighbors - 2
    assert not np.isin(after.neighbors, erased).any()
