"""Replicas against the coins that were thrown, and against sparsifiers of other seeds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.solvers.graph import Graph
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.replicas import VariancesNotKept, replicas
from peewit.streaming.snapshots.store import Snapshot, SnapshotStore
from peewit.streaming.snapshots.variances import VARIANCES
from peewit.streaming.sparsifier.settings_and_state import Records, SparsifierSettings
from tests.streaming.snapshots.test_store import META

N_NODES = 300


def absorbed(root: Path, *, epsilon: float, seed: int = 0) -> tuple[SnapshotStore, Snapshot]:
    """Snapshots of a dense random graph in a directory of its own, and the last one."""
    u, v = np.triu_indices(N_NODES, 1)
    is_taken = np.random.default_rng(5).random(u.size) < 0.7
    root.mkdir()
    pq.write_table(pa.table({"src": u[is_taken], "dst": v[is_taken]}), root / "edges.parquet")
    sparsifier = SparsifierSettings(epsilon=epsilon, expected_nodes=N_NODES, seed=seed)
    paths = GraphPaths(root=root / "graph")
    Stream(paths, StreamSettings(node_kind="dense", sparsifier=sparsifier)).ingest(
        EdgeFiles(root).list()
    )
    store = SnapshotStore(paths.snapshots)
    return store, store.load(store.numbers()[-1])


def test_edges_that_were_thrown_for_differ_as_their_coins_would(tmp_path: Path) -> None:
    store, snapshot = absorbed(tmp_path / "a", epsilon=0.9)
    own = snapshot.graph.adjacency
    made = list(replicas(store, 1, 40))
    weights = np.stack([each.adjacency.data for each in made])
    for each in made:
        np.testing.assert_array_equal(each.adjacency.indices, own.indices)
        assert each.n_components == snapshot.graph.n_components
    # every edge weighs 1 and is one record: a conductance is 1 / p, of variance (1 - p) / p^2
    expected = np.square(own.data) - own.data
    is_sure = own.data < 1.0 + 1e-6
    assert 0 < is_sure.sum() < is_sure.size
    np.testing.assert_allclose(weights[:, is_sure], np.tile(own.data[is_sure], (40, 1)), rtol=1e-6)
    thrown = ~is_sure
    assert weights[:, thrown].mean() == pytest.approx(own.data[thrown].mean(), rel=0.02)
    told = weights[:, thrown].var(axis=0, ddof=1).mean()
    assert told == pytest.approx(expected[thrown].mean(), rel=0.1)


@pytest.mark.parametrize("unit", [1.0, 1e-24, 1e24])
def test_variances_of_parallel_records_add_up(tmp_path: Path, unit: float) -> None:
    store = SnapshotStore(tmp_path)
    records = Records(
        u=np.array([0, 1, 0, 2], np.int32),
        v=np.array([1, 0, 2, 3], np.int32),
        weight=np.array([1.0, 3.0, 2.0, 5.0], np.float32) * np.float32(unit),
        keep_probability=np.array([0.5, 0.25, 1.0, 0.0], np.float32),
        key=np.arange(4, dtype=np.uint32),
    )
    store.publish_records(replace(META, n_nodes=4, sampling_constant=1.0), [records])
    variances = np.load(store.companion(1, VARIANCES))
    np.testing.assert_allclose(variances, [(4.0 * 0.5 + 144.0 * 0.75) / 14.0**2, 0.0])
    (replica,) = replicas(store, 1, 1)
    assert replica.adjacency[0, 2] == pytest.approx(2.0 * unit)
    assert abs(replica.adjacency[0, 1] / unit - 14.0) > 1e-3


def test_replicas_are_as_far_as_sparsifiers_of_other_seeds(tmp_path: Path) -> None:
    store, snapshot = absorbed(tmp_path / "a", epsilon=0.9)
    cut = np.zeros(N_NODES)
    cut[::3] = 1.0

    def across(graph: Graph) -> float:
        return float(cut @ graph.laplacian_product(cut[:, None])[:, 0])

    own = across(snapshot.graph)
    of_replicas = [across(each) / own - 1.0 for each in replicas(store, 1, 30)]
    of_seeds = [
        across(absorbed(tmp_path / f"s{seed}", epsilon=0.9, seed=seed)[1].graph) / own - 1.0
        for seed in range(1, 13)
    ]
    assert 0.3 < np.std(of_replicas) / np.std(of_seeds) < 3.0


def test_the_same_seed_gives_the_same_replicas(tmp_path: Path) -> None:
    store, _ = absorbed(tmp_path / "a", epsilon=0.9)

    def weights(seed: int) -> list[float]:
        (only,) = replicas(store, 1, 1, seed=seed)
        return list(only.adjacency.data)

    assert weights(3) == weights(3)
    assert weights(3) != weights(4)


def test_where_every_edge_was_kept_replicas_are_the_snapshot(tmp_path: Path) -> None:
    store, snapshot = absorbed(tmp_path / "a", epsilon=0.2)
    assert snapshot.meta.sampling_constant is None
    assert not store.companion(1, VARIANCES).exists()
    (only,) = replicas(store, 1, 1)
    np.testing.assert_array_equal(only.adjacency.data, snapshot.graph.adjacency.data)


def test_a_snapshot_that_says_nothing_of_its_coins_is_refused(tmp_path: Path) -> None:
    store, _ = absorbed(tmp_path / "a", epsilon=0.9)
    store.erase(1, np.array([3], np.int32))
    with pytest.raises(VariancesNotKept, match="solve again on a newer one"):
        next(replicas(store, 1, 1))
