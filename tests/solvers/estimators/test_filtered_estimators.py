import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

from peewit import FilteredRidge, filter_features
from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from tests.reference.filtered_ridge import pagerank


@pytest.mark.sweep(13)
@parametrize_with_checks(
    [FilteredRidge(n_neighbors=3)],
    expected_failed_checks=lambda _: {
        "check_classifiers_classes": "labels {-1, 1}: -1 marks nodes without label",
        "check_classifier_multioutput": "classes_ is a list of the classes of each column",
    },
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


def test_scikit_learn_check_of_classes_with_another_marker() -> None:
    check_classifiers_classes("FilteredRidge", FilteredRidge(n_neighbors=3, unlabeled=None))


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, classes, and the classes of the first hundred."""
    points, classes = load_digits(return_X_y=True)
    return points, classes, np.where(np.arange(classes.size) < 100, classes, -1)


def test_new_samples_are_predicted_by_features_and_better_by_edges(digits) -> None:
    points, classes, y = digits
    seen = np.arange(classes.size) < 1200
    adjacency = neighbor_graph(points, 10, weights="heat", symmetrize="max").adjacency
    fitted = FilteredRidge().fit(points[seen], y[seen], graph=adjacency[seen][:, seen])
    edges = adjacency[~seen][:, seen]
    alone = np.mean(fitted.predict(points[~seen]) == classes[~seen])
    joined = np.mean(fitted.predict(points[~seen], edges) == classes[~seen])
    assert alone > 0.75
    assert joined > alone + 0.05
    scores = fitted.decision_function(points[~seen], edges)
    np.testing.assert_array_equal(
        fitted.classes_[scores.argmax(axis=1)], fitted.predict(points[~seen], edges)
    )


def test_of_two_classes_the_decision_is_a_difference(digits) -> None:
    points, classes, y = digits
    two = classes < 2
    fitted = FilteredRidge(n_neighbors=5).fit(points[two], y[two])
    decision = fitted.decision_function(points[two])
    assert decision.ndim == 1
    np.testing.assert_array_equal(
        fitted.classes_[(decision > 0).astype(int)], fitted.predict(points[two])
    )


def some_graph(n_nodes: int = 200) -> Graph:
    u, v = np.random.default_rng(0).integers(0, n_nodes - 2, (2, 4 * n_nodes))
    return Graph.from_edges(u, v, np.ones(u.size), n_nodes=n_nodes)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_filtered_features_are_pagerank_times_features(tmp_path: Path, is_sparse: bool) -> None:
    graph = some_graph()
    rows = np.random.default_rng(1).standard_normal((200, 70)).clip(min=0.0)
    expected = pagerank(graph.adjacency.toarray(), 0.2) @ rows
    features = sp.csr_array(rows) if is_sparse else rows
    whole = filter_features(graph, features, teleport=0.2)
    np.testing.assert_allclose(whole, expected, atol=1e-5)
    path = tmp_path / "filtered.npy"
    mapped = filter_features(graph.adjacency, features, path, teleport=0.2, max_bytes=200 * 4 * 33)
    np.testing.assert_array_equal(mapped, whole)
    np.testing.assert_array_equal(np.load(path, mmap_mode="r"), whole)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "filtered.npy"
    path.write_bytes(b"what was there")
    with pytest.raises(OSError, match="gone"):
        filter_features(some_graph(), VanishingRows(), path, max_bytes=200 * 4 * 33)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"what was there"


class VanishingRows:
    """Rows that can be read twice."""

    n_rows, n_columns, is_sparse = 200, 70, False
    n_reads = 0

    def blocks(self, n_bytes: int = 0):
        self.n_reads += 1
        if self.n_reads == 3:
            raise OSError("the file is gone")
        yield slice(0, 200), np.ones((200, 70), np.float32)


def test_nodes_without_features_get_those_of_neighbors() -> None:
    graph = some_graph()
    rows = np.random.default_rng(1).standard_normal((190, 3))
    known = np.arange(5, 195)
    padded = np.zeros((200, 3))
    padded[known] = rows
    found = filter_features(graph, FeatureRows(values=rows, nodes=known))
    np.testing.assert_array_equal(found, filter_features(graph, padded))
    assert found[0].any()


@pytest.mark.slow
def test_features_that_are_filtered_to_a_file_are_never_all_in_memory(tmp_path: Path) -> None:
    graph = some_graph(20_000)
    features = sp.random_array(
        (20_000, 1_000), density=0.01, format="csr", rng=np.random.default_rng(2), dtype=np.float32
    )
    filter_features(graph, features[:, :40])  # kernels are compiled
    tracemalloc.start()
    filter_features(graph, features, tmp_path / "filtered.npy", max_bytes=4 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000 * 1_000 * 4 / 3


def test_filtered_features_serve_other_classifiers(digits) -> None:
    points, classes, y = digits
    known = y >= 0
    graph = neighbor_graph(points, 10, weights="heat", symmetrize="max")
    accuracies = []
    for features in (points / 16, filter_features(graph, points / 16)):
        fitted = LogisticRegression(max_iter=1000).fit(features[known], y[known])
        accuracies.append(np.mean(fitted.predict(features) == classes))
    assert accuracies[1] > accuracies[0] + 0.03


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"teleport": 0.0}, r"teleport must lie in \(0, 1\], got 0.0"),
        ({"teleport": 1.5}, r"teleport must lie in \(0, 1\], got 1.5"),
        ({"max_bytes": 0}, "max_bytes must be at least 1, got 0"),
    ],
)
def test_settings_that_break_their_rule_are_refused(settings, message) -> None:
    with pytest.raises(ValueError, match=message):
        filter_features(some_graph(), np.ones((200, 2)), **settings)
