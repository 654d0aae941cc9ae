"""Passes over the log against a dictionary of what lives, at the moment of each snapshot."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.solvers.graph import Graph
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.log.logged_files import LogFileMissing
from peewit.streaming.passes.certificate_store import CertifySettings
from peewit.streaming.passes.certify import certify
from peewit.streaming.passes.edge_passes import EdgePasses, RawEdgesGone
from peewit.streaming.passes.raw_edge_passes import hold_edges, snapshot_edges
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from tests.reference.laplacian import dense_laplacian
from tests.reference.spectrum import spectral_error
from tests.streaming.graphs import EdgeList, two_communities

N_NODES = 200


@pytest.fixture
def graph(tmp_path: Path) -> tuple[GraphPaths, EdgeList, EdgeList]:
    """Paths of a graph, its edges, and those that live after a second file of deletes."""
    edges = two_communities(N_NODES, 0.9, 60, 0)
    is_gone = np.random.default_rng(1).random(edges.n_edges) < 0.2
    folder, paths = tmp_path / "edges", GraphPaths(root=tmp_path / "graph")
    folder.mkdir()
    columns = {"src": edges.u, "dst": edges.v, "weight": edges.weight}
    first = pa.table(columns | {"op": ["insert"] * edges.n_edges})
    pq.write_table(first, folder / "0.parquet", row_group_size=2_000)
    ends = {"src": edges.v[is_gone], "dst": edges.u[is_gone]}  # the other way round
    second = pa.table(
        ends | {"weight": np.ones(is_gone.sum()), "op": ["delete"] * int(is_gone.sum())}
    )
    pq.write_table(second, folder / "1.parquet")
    settings = StreamSettings(
        node_kind="dense",
        sparsifier=SparsifierSettings(epsilon=0.9, seed=1, expected_nodes=N_NODES),
        deletions="exact",
        snapshot_edges=1,
        max_part_rows=1 << 12,
    )
    Stream(paths, settings).ingest(EdgeFiles(folder, columns=CHANGES).list())
    pairs = edges.u * N_NODES + edges.v
    lives = ~np.isin(pairs, pairs[is_gone])
    left = (each[lives] for each in (edges.u, edges.v, edges.weight))
    u, v, weight = left
    return paths, edges, EdgeList(u=u, v=v, weight=weight, n_nodes=N_NODES)


def metas(paths: GraphPaths) -> list[SnapshotMeta]:
    return SnapshotStore(paths.snapshots).list()


def opened(edges: EdgePasses) -> EdgePasses:
    edges.open()
    return edges


def test_each_snapshot_has_the_edges_that_lived_then(
    graph: tuple[GraphPaths, EdgeList, EdgeList], tmp_path: Path
) -> None:
    paths, *lists = graph
    first, second = metas(paths)
    assert (first.log_version, second.log_version) == (0, 1)
    block = np.random.default_rng(0).normal(size=(N_NODES, 5))
    for meta, edges in zip((first, second), lists, strict=True):
        assert meta.n_live == edges.n_edges
        with snapshot_edges(
            paths, meta, spool=tmp_path / "spool", staging=tmp_path / "staging", n_threads=2
        ) as raw:
            passes = opened(raw)
            assert passes.n_edges == edges.n_edges
            laplacian = dense_laplacian(edges.graph())
            np.testing.assert_allclose(passes.laplacian_product(block), laplacian @ block)
            np.testing.assert_allclose(passes.degrees().weight, edges.graph().degree)
            assert passes.components().n_edges == edges.n_edges
            assert passes.components().n_components == edges.graph().n_components
    assert not (tmp_path / "spool").exists()


def test_a_certificate_after_deletes_tells_the_true_error(
    graph: tuple[GraphPaths, EdgeList, EdgeList],
) -> None:
    paths, _, left = graph
    number = metas(paths)[-1].number
    found = certify(
        paths, number, CertifySettings(passes=200), keep_raw=True, owner="test", n_threads=1
    )
    sparsifier: Graph = SnapshotStore(paths.snapshots).load(number).graph
    true = spectral_error(left.graph(), sparsifier)
    assert sparsifier.n_edges < left.graph().n_edges
    assert found.epsilon_least <= true + 1e-6
    assert true <= found.epsilon_certified + 1e-6
    assert found.n_edges == left.n_edges


def test_a_log_that_has_moved_on_is_told(
    graph: tuple[GraphPaths, EdgeList, EdgeList], tmp_path: Path
) -> None:
    paths, *_ = graph
    (paths.log / "dead-000000001.arrow").unlink()
    with (
        snapshot_edges(
            paths, metas(paths)[-1], spool=tmp_path, staging=tmp_path, n_threads=1
        ) as raw,
        pytest.raises(RawEdgesGone, match="moved on"),
    ):
        raw.open()


def test_a_log_that_moves_on_during_the_passes_is_told(
    graph: tuple[GraphPaths, EdgeList, EdgeList], tmp_path: Path
) -> None:
    paths, *_ = graph
    with snapshot_edges(
        paths, metas(paths)[-1], spool=tmp_path, staging=tmp_path, n_threads=1
    ) as raw:
        raw.open()
        for path in paths.log.glob("blake3*"):
            path.unlink()
        with pytest.raises(RawEdgesGone, match="moved on since the snapshot"):
            raw.components()


def test_a_missing_part_of_the_log_is_told_from_another_process() -> None:
    missing = LogFileMissing(Path("log/1.arrow"))
    again = pickle.loads(pickle.dumps(missing))
    assert (str(again), again.path) == (str(missing), missing.path)


def test_held_edges_outlive_the_log(
    graph: tuple[GraphPaths, EdgeList, EdgeList], tmp_path: Path
) -> None:
    """As a newer snapshot takes away what it does not need, under a job that reads the older."""
    paths, _, left = graph
    meta = metas(paths)[-1]
    held = hold_edges(paths, meta, tmp_path / "held")
    block = np.random.default_rng(0).normal(size=(N_NODES, 2))
    for path in paths.log.iterdir():
        path.unlink()
    with snapshot_edges(
        paths, meta, spool=tmp_path, staging=tmp_path, n_threads=1, held=held
    ) as raw:
        product = opened(raw).laplacian_product(block)
    np.testing.assert_allclose(product, dense_laplacian(left.graph()) @ block)


def test_a_log_that_has_moved_on_cannot_be_held(
    graph: tuple[GraphPaths, EdgeList, EdgeList], tmp_path: Path
) -> None:
    paths, *_ = graph
    meta = metas(paths)[-1]
    for path in paths.log.glob("blake3*"):
        path.unlink()
    with pytest.raises(LogFileMissing):
        hold_edges(paths, meta, tmp_path / "held")
