"""The embedding of a graph: what it says of distances, kept whole, replaced whole."""

from pathlib import Path

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import N_PROBES, EmbeddingStopped, EmbeddingStore, embed
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore
from tests.service.solvable import grid, publish_snapshot


@pytest.fixture
def paths(tmp_path: Path) -> GraphPaths:
    u, v = grid(9)
    publish_snapshot(tmp_path, 1, np.append(u, 81), np.append(v, 82))
    return GraphPaths(root=tmp_path)


def exact_resistance(graph: Graph) -> np.ndarray:
    inverse = np.linalg.pinv(np.diag(graph.degree) - graph.adjacency.toarray())
    diagonal = np.diag(inverse)
    return diagonal[:, None] + diagonal[None, :] - 2 * inverse


def test_distances_tell_resistances_within_a_component(paths: GraphPaths) -> None:
    phases: list[str] = []
    told: list[ProgressReport] = []
    meta = embed(paths, 1, on_phase=phases.append, progress=told.append)
    assert 0.0 < max(each.fraction for each in told) <= 1.0
    assert phases == ["loading", "embedding", "writing"]
    assert (meta.snapshot, meta.n_nodes, meta.n_coordinates) == (1, 83, N_PROBES)
    assert meta.status == "converged"
    found = EmbeddingStore(paths).open()
    assert found is not None
    assert found.meta == meta
    graph = SnapshotStore(paths.snapshots).load(1).graph
    assert np.array_equal(found.component, graph.component)
    points = found.points.astype(np.float64)
    for component in range(graph.n_components):
        assert np.abs(points[graph.component == component].mean(axis=0)).max() < 1e-6
    inside = np.flatnonzero(graph.component == graph.component[0])
    gaps = np.linalg.norm(points[inside, None] - points[None, inside], axis=2) ** 2
    known = exact_resistance(graph)[np.ix_(inside, inside)]
    degree, weight = graph.degree[inside], graph.adjacency.toarray()[np.ix_(inside, inside)]
    direct = 1 / degree[:, None] + 1 / degree[None, :] - 2 * weight / np.outer(degree, degree)
    rest = known - direct
    far = rest > np.quantile(rest, 0.5)
    assert abs((gaps[far] / rest[far]).mean() - 1) < 0.15
    assert (gaps[far] / rest[far]).std() < 0.4


def test_embedding_is_replaced_whole_or_not_at_all(paths: GraphPaths) -> None:
    store = EmbeddingStore(paths)
    assert (store.open(), store.version()) == (None, None)
    with pytest.raises(EmbeddingStopped):
        embed(paths, 1, cancelled=lambda: True)
    assert store.open() is None
    embed(paths, 1)
    first, version = store.open(), store.version()
    assert first is not None
    before = first.points.copy()
    u, v = grid(10)
    publish_snapshot(paths.root / "other", 2, u, v)
    (paths.root / "other" / "snapshots" / "00000002").rename(paths.snapshots / "00000002")
    with pytest.raises(EmbeddingStopped):
        embed(paths, 2, cancelled=iter([False, *[True] * 1000]).__next__)
    assert store.version() == version
    embed(paths, 2)
    second = store.open()
    assert second is not None
    assert (second.meta.snapshot, second.meta.n_nodes) == (2, 100)
    assert store.version() != version
    assert np.array_equal(first.points, before)  # whoever reads the old one may go on
    assert not [path for path in paths.embedding.iterdir() if path.name.startswith(".tmp")]


def test_an_embedding_is_the_same_every_time(paths: GraphPaths) -> None:
    embed(paths, 1)
    store = EmbeddingStore(paths)
    first = store.open()
    embed(paths, 1)
    again = store.open()
    assert first is not None
    assert again is not None
    assert np.array_equal(first.points, again.points)


def test_a_snapshot_that_is_not_kept_cannot_be_embedded(paths: GraphPaths) -> None:
    with pytest.raises(SnapshotNotFound):
        embed(paths, 7)
