"""Classifiers of scikit-learn on what graph, features and labels say of each node."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from peewit import ClassifierOnGraph, filter_features
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.relations.left_out_densities import TELEPORT, LeftOutLabels

N_NODES = 300


class Recorder(DummyClassifier):
    """A classifier that keeps what it was fitted on."""

    def fit(self, X, y):
        self.rows_, self.answers_ = np.array(X), np.array(y)
        return super().fit(X, y)


def two_blocks(seed: int = 0, p_within: float = 0.05, p_between: float = 0.01) -> np.ndarray:
    rng = np.random.default_rng(seed)
    truth = np.arange(N_NODES) % 2
    p = np.where(truth[:, None] == truth, p_within, p_between)
    upper = np.triu(rng.random((N_NODES, N_NODES)) < p, 1)
    return (upper | upper.T).astype(float)


def some_labels(n_labeled: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    truth = np.arange(N_NODES) % 2
    y = np.full(N_NODES, -1)
    known = np.random.default_rng(seed).choice(N_NODES, n_labeled, replace=False)
    y[known] = truth[known]
    return truth, y


def test_labels_see_what_other_folds_say_and_nodes_what_all_say() -> None:
    graph, (_, y) = Graph.from_adjacency(two_blocks()), some_labels()
    features = np.random.default_rng(1).normal(size=(N_NODES, 2)).astype(np.float32)
    recorder = Recorder(strategy="prior")
    model = ClassifierOnGraph(classifier=recorder).fit(graph, y, features)
    assert not hasattr(recorder, "rows_"), "it is cloned"
    labels = Labels.from_pairs(np.flatnonzero(y >= 0), y[y >= 0])
    pagerank = PersonalizedPageRank.of_graph(graph)
    expected = np.hstack(
        [
            np.log1p(np.column_stack([graph.degree, graph.degree]))[labels.nodes],
            features[labels.nodes],
            filter_features(graph, features, teleport=TELEPORT)[labels.nodes],
            LeftOutLabels.of(labels, N_NODES).log_odds(pagerank, UNWATCHED),
        ]
    )
    fitted = model.classifier_
    np.testing.assert_allclose(fitted.rows_, expected, rtol=1e-5)
    np.testing.assert_array_equal(fitted.answers_, labels.classes)
    assert model.stats_["n_columns"] == 8
    alone = LeftOutLabels.of(labels, N_NODES).log_odds_of_nodes(pagerank, UNWATCHED)
    own = (
        alone[labels.nodes, labels.classes]
        - expected[np.arange(labels.n_labeled), -2:][np.arange(labels.n_labeled), labels.classes]
    )
    assert (own > 0).all(), "a node's own label speaks for it once all labels do"


@pytest.mark.parametrize(
    "classifier",
    [None, HistGradientBoostingClassifier(min_samples_leaf=5), RandomForestClassifier(20)],
    ids=lambda made: type(made).__name__,
)
def test_any_classifier_joins_graph_and_features(classifier) -> None:
    truth, y = some_labels(90)
    rng = np.random.default_rng(2)
    features = np.column_stack([truth + rng.normal(0, 0.9, N_NODES), rng.normal(size=N_NODES)])
    model = ClassifierOnGraph(classifier=classifier).fit(two_blocks(), y, features)
    hidden = y < 0
    accuracy = np.mean(model.transduction_[hidden] == truth[hidden])
    alone = np.mean((features[hidden, 0] > 0.5) == truth[hidden])
    assert accuracy > alone + 0.1
    probabilities = model.predict_proba(nodes=np.flatnonzero(hidden))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_relations_make_columns_of_their_own_or_one_sum_of_given_weights() -> None:
    truth, y = some_labels(90)
    relations = {"good": two_blocks(), "random": two_blocks(1, 0.03, 0.03)}
    each = ClassifierOnGraph().fit(relations, y)
    assert each.stats_["n_columns"] == 8
    assert np.mean(each.transduction_[y < 0] == truth[y < 0]) > 0.8
    summed = ClassifierOnGraph(relations="random=0").fit(relations, y)
    alone = ClassifierOnGraph().fit(relations["good"], y)
    np.testing.assert_array_equal(summed.label_distributions_, alone.label_distributions_)
    empty = ClassifierOnGraph().fit({"good": two_blocks(), "none": sp.csr_array((300, 300))}, y)
    assert np.isfinite(empty.label_distributions_).all()


def test_nodes_that_no_label_reaches_have_no_class_unless_features_tell() -> None:
    adjacency = np.zeros((7, 7))
    for u, v in ((0, 1), (1, 2), (2, 3), (4, 5), (5, 6)):
        adjacency[u, v] = adjacency[v, u] = 1.0
    y = np.array([0, -1, -1, 1, -1, -1, -1])
    model = ClassifierOnGraph().fit(adjacency, y)
    assert model.reachable_.tolist() == [True] * 4 + [False] * 3
    assert model.transduction_[4:].tolist() == [-1] * 3
    features = np.array([[0.0], [0.1], [0.9], [1.0], [0.0], [1.0], [1.0]])
    assert ClassifierOnGraph().fit(adjacency, y, features).reachable_.all()


def test_a_class_of_one_label_names_and_columns_of_y() -> None:
    truth, y = some_labels()
    y[y == 1] = -1
    y[1] = 1
    model = ClassifierOnGraph().fit(two_blocks(), y)
    assert np.isfinite(model.label_distributions_).all()
    by_node = {int(node): ("even", "odd")[truth[node]] for node in range(40)}
    named = ClassifierOnGraph().fit(two_blocks(), by_node)
    assert set(named.predict(nodes=[100, 101])) <= {"even", "odd"}
    columns = ClassifierOnGraph().fit(two_blocks(), np.column_stack([y, y]))
    assert columns.transduction_.shape == (N_NODES, 2)


def test_it_is_an_estimator_of_scikit_learn() -> None:
    points, truth = make_blobs(200, centers=2, random_state=0)
    model = ClassifierOnGraph(
        classifier=RandomForestClassifier(5, random_state=0), affinity="knn", n_neighbors=5
    )
    y = np.where(np.arange(200) < 40, truth, -1)
    with pytest.raises(NotFittedError):
        model.predict(points)
    fitted = clone(model).set_params(classifier__n_estimators=7).fit(points, y, features=points)
    assert fitted.get_params()["classifier__n_estimators"] == 7
    assert np.mean(fitted.predict(points + 0.01) == truth) > 0.9
    search = GridSearchCV(model, {"classifier__max_depth": [1, 3]}, cv=2, error_score="raise")
    assert search.fit(points, truth).best_score_ > 0.9


@pytest.mark.parametrize(
    ("parameters", "features", "reason"),
    [
        ({"classifier": LinearSVC()}, None, "classifier must have predict_proba, got LinearSVC"),
        ({"relations": "a=1"}, None, "relations must be 'auto' unless X is a mapping"),
        ({}, sp.csr_array(np.eye(N_NODES)), "features must be dense"),
        ({}, np.ones((3, 1)), "features must have one row for each of the 300 nodes"),
        ({}, np.full((N_NODES, 1), np.nan), "finite"),
    ],
)
def test_what_does_not_fit_is_refused(parameters, features, reason) -> None:
    _, y = some_labels()
    with pytest.raises(ValueError, match=reason):
        ClassifierOnGraph(**parameters).fit(two_blocks(), y, features)
