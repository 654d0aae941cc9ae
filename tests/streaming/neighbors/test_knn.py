import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs

from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport, RunStopped, Watch
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from peewit.streaming.neighbors.knn import KnnPlace, KnnSettings, KnnSummary, make_knn
from peewit.streaming.nodes.index import DenseNodes, NodeIndex, Nodes

QUIET = Watch(progress=None, cancelled=None)
POINTS = make_blobs(400, n_features=4, random_state=0)[0].astype(np.float32)


def place_in(directory: Path, node_kind: str = "dense") -> KnnPlace:
    return KnnPlace(
        output=directory / "edges.parquet", work=directory / "work", node_kind=node_kind
    )


def made(
    directory: Path,
    values,
    settings: KnnSettings,
    *,
    nodes: Nodes | None = None,
    owners=None,
    node_kind: str = "dense",
    watch: Watch = QUIET,
) -> KnnSummary:
    return make_knn(
        FeatureRows(values=values, nodes=owners),
        DenseNodes(n_nodes=values.shape[0]) if nodes is None else nodes,
        settings,
        place_in(directory, node_kind),
        features_version=1,
        seed=0,
        watch=watch,
    )


def graph_of(directory: Path, n_nodes: int) -> Graph:
    table = pq.read_table(directory / "edges.parquet")
    return Graph.from_edges(
        *(table[name].to_numpy() for name in ("src", "dst", "weight")), n_nodes=n_nodes
    )


@pytest.mark.parametrize("weights", ["self-tuned", "heat", "binary"])
@pytest.mark.parametrize("symmetrize", ["mean", "max"])
def test_file_holds_the_graph_of_the_rows_each_edge_once(
    weights: str, symmetrize: str, tmp_path: Path
) -> None:
    settings = KnnSettings(k=7, weights=weights, symmetrize=symmetrize)
    summary = made(tmp_path, POINTS, settings)
    expected = neighbor_graph(POINTS, 7, weights=weights, symmetrize=symmetrize)
    found = graph_of(tmp_path, 400)
    np.testing.assert_array_equal(found.adjacency.indices, expected.adjacency.indices)
    np.testing.assert_allclose(found.adjacency.data, expected.adjacency.data, rtol=1e-6)
    assert (
        summary.n_edges == expected.n_edges == pq.read_metadata(tmp_path / "edges.parquet").num_rows
    )
    assert (summary.method, summary.recall, summary.n_short) == ("exact", 1.0, 0)
    assert (summary.width is not None) == (weights == "heat")
    assert not (tmp_path / "work").exists()


def test_edges_join_external_ids_of_the_nodes_that_have_features(tmp_path: Path) -> None:
    names = pa.array([f"n{number}" for number in range(12)], pa.large_string())
    nodes = NodeIndex.open(tmp_path / "nodes", kind="string")
    nodes.add(names)
    owners = np.array([1, 4, 5, 9])
    values = np.array([[0.0], [1.0], [10.0], [11.0]], np.float32)
    settings = KnnSettings(k=1, weights="binary")
    summary = made(tmp_path, values, settings, nodes=nodes, owners=owners, node_kind="string")
    table = pq.read_table(tmp_path / "edges.parquet")
    assert table.schema.field("src").type == pa.large_string()
    assert table.select(["src", "dst"]).to_pylist() == [
        {"src": "n1", "dst": "n4"},
        {"src": "n5", "dst": "n9"},
    ]
    assert (summary.n_nodes, summary.n_without_features) == (12, 8)


def test_sparse_rows_make_the_graph_of_dense_ones(tmp_path: Path) -> None:
    values = np.random.default_rng(0).poisson(0.5, (100, 30)).astype(np.float32) + np.eye(
        100, 30, dtype=np.float32
    )
    values[:, 0] += 1
    settings = KnnSettings(k=4, metric="cosine")
    made(tmp_path, sp.csr_array(values), settings)
    expected = neighbor_graph(values, 4, metric="cosine")
    np.testing.assert_allclose(
        graph_of(tmp_path, 100).adjacency.toarray(), expected.adjacency.toarray(), rtol=1e-5
    )


def test_approximate_search_says_its_recall(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(4000, 8)).astype(np.float32)
    few = made(tmp_path, values, KnnSettings(method="approximate", n_probes=1))
    assert few.method == "approximate"
    assert 0.1 < few.recall < 0.9
    assert few.recall_rows == 1000
    many = made(tmp_path, values, KnnSettings(method="approximate", n_probes=10_000))
    assert many.recall == 1.0


def test_without_its_package_only_the_exact_search_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)  # what a missing package looks like
    assert made(tmp_path, POINTS, KnnSettings()).method == "exact"
    with pytest.raises(ValueError, match=r"'approximate' needs faiss .*peewit\[knn\]"):
        made(tmp_path, POINTS, KnnSettings(method="approximate"))
    monkeypatch.setattr("peewit.streaming.neighbors.knn.EXACT_PRODUCTS", 1)
    with pytest.raises(ValueError, match="'auto' needs faiss for these rows"):
        made(tmp_path, POINTS, KnnSettings())


def test_weights_that_underflow_are_counted(tmp_path: Path) -> None:
    values = np.array([[0.0], [1.0], [1e6]], np.float32)
    summary = made(tmp_path, values, KnnSettings(k=1, weights="heat", width=1.0))
    assert (summary.n_edges, summary.n_least) == (2, 1)
    assert pq.read_table(tmp_path / "edges.parquet")["weight"].to_numpy().min() > 0


def test_phases_tell_true_fractions(tmp_path: Path) -> None:
    reports: list[ProgressReport] = []
    watch = Watch(progress=reports.append, cancelled=None)
    made(tmp_path, POINTS, KnnSettings(method="approximate"), watch=watch)
    phases = list(dict.fromkeys(report.phase for report in reports))
    assert phases == [
        "looking at features",
        "learning cells",
        "filling cells",
        "searching",
        "measuring recall",
        "writing edges",
    ]
    assert all(0 <= report.fraction <= 1 for report in reports)


@pytest.mark.parametrize("n_steps", [0, 1, 2, 3])
def test_nothing_is_published_when_it_is_stopped(n_steps: int, tmp_path: Path) -> None:
    reports: list[ProgressReport] = []
    watch = Watch(progress=reports.append, cancelled=lambda: len(reports) >= n_steps)
    with pytest.raises(RunStopped):
        made(tmp_path, POINTS, KnnSettings(), watch=watch)
    assert not (tmp_path / "edges.parquet").exists()


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        (POINTS[:5], KnnSettings(k=5), "k must be below the number of nodes with features, got 5"),
        (np.ones((9, 2), np.float32), KnnSettings(k=2), "features must differ between nodes"),
        (sp.csr_array(np.ones((9, 2))), KnnSettings(k=2), "features must differ between nodes"),
        (
            np.diag([1, 1, 0, 1]).astype(np.float32),
            KnnSettings(k=2, metric="cosine"),
            "got zeros for node 2",
        ),
        (sp.csr_array(POINTS), KnnSettings(method="approximate"), "needs dense features"),
    ],
)
def test_features_that_make_no_graph_are_refused(
    values, settings: KnnSettings, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        made(tmp_path, values, settings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 0}, "k must be at least 1, got 0"),
        ({"k": 2.0}, "k must be an integer, got 2.0"),
        ({"k": True}, "k must be an integer, got True"),
        ({"n_probes": 0}, "n_probes must be at least 1, got 0"),
        ({"method": "fast"}, "method must be one of auto, exact, approximate, got 'fast'"),
        ({"metric": "l1"}, "metric must be one of euclidean, cosine, got 'l1'"),
        ({"weights": ["heat"]}, "weights must be one of"),
        ({"width": "1"}, "width must be a number, got '1'"),
        ({"width": 1.0}, "width must be left out with self-tuned weights"),
    ],
)
def test_wrong_settings_are_named(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(KnnSettings(), **change)
