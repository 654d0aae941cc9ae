import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

from peewit.solvers.estimators import DASVM, TSVM, LinearSVM
from peewit.solvers.graph import Graph
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from tests.data_sets import labels_in

ALL = [LinearSVM, TSVM, DASVM]
TRANSDUCTIVE = [TSVM, DASVM]
each = pytest.mark.parametrize("estimator", ALL)


WEIGHED = (
    "a sample of weight 0 is one without label, whose features still count, and labels, not their "
    "copies, are dealt to folds by norm_penalty 'auto'; with neither, a weight is so many samples"
)


@pytest.mark.sweep(13)
@parametrize_with_checks(
    [estimator() for estimator in ALL],
    expected_failed_checks=lambda _: {
        "check_classifiers_classes": "labels {-1, 1}: -1 marks nodes without label",
        "check_classifier_multioutput": "classes_ is a list of the classes of each column",
        "check_sample_weight_equivalence_on_dense_data": WEIGHED,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHED,
    },
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.slow
@each
def test_scikit_learn_check_of_classes_with_another_marker(estimator) -> None:
    check_classifiers_classes(estimator.__name__, estimator(unlabeled=None))


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, classes, and classes with five known of each."""
    points, classes = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    known = np.concatenate(
        [rng.choice(np.flatnonzero(classes == digit), 5, replace=False) for digit in range(10)]
    )
    y = np.full(classes.size, -1)
    y[known] = classes[known]
    return points, classes, y


@pytest.mark.slow
def test_unlabeled_samples_lower_the_error_by_default(digits) -> None:
    points, classes, y = digits
    wrong = {
        estimator: np.mean(estimator().fit(points, y).transduction_ != classes) for estimator in ALL
    }
    assert wrong[LinearSVM] < 0.2
    for estimator in TRANSDUCTIVE:
        assert wrong[estimator] < 0.9 * wrong[LinearSVM]


@pytest.mark.slow
@each
def test_fitted_samples_are_predicted_as_they_were_found(estimator, digits) -> None:
    points, _, y = digits
    fitted = estimator(norm_penalty=0.01).fit(points, y)
    np.testing.assert_allclose(
        fitted.decision_function(points[:100]), fitted.decision_[:100], atol=1e-9
    )
    np.testing.assert_array_equal(fitted.predict(points), fitted.transduction_)
    given = clone(fitted).set_params(row_length="given", norm_penalty=100.0)
    dense, sparse = given.fit(points, y).decision_, given.fit(sp.csr_array(points), y).decision_
    np.testing.assert_allclose(sparse, dense, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", TRANSDUCTIVE)
def test_new_samples_are_predicted_as_well_as_those_fitted(estimator, digits) -> None:
    points, classes, y = digits
    seen = (np.arange(classes.size) % 2 == 0) | (y >= 0)
    fitted = estimator().fit(points[seen], y[seen])
    within = np.mean(fitted.transduction_ == classes[seen])
    assert np.mean(fitted.predict(points[~seen]) == classes[~seen]) > within - 0.05


def test_probabilities_on_request(digits) -> None:
    points, classes, y = digits
    few = classes < 3
    points, y = points[few], y[few]
    fitted = LinearSVM(scores="probability").fit(points, y)
    assert not hasattr(fitted, "decision_function")
    assert not hasattr(LinearSVM(), "predict_proba")
    shares = fitted.predict_proba(points)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(shares, fitted.decision_, atol=1e-9)
    sure = shares.max(axis=1) > 0.8
    assert np.mean(fitted.predict(points)[sure] == classes[few][sure]) > 0.95


@each
def test_a_graph_counts_with_a_penalty_only(estimator, digits) -> None:
    points, classes, y = digits
    few = classes < 2
    points, y = points[few], y[few]
    graph = neighbor_graph(points, 10, weights="heat", symmetrize="max")
    with_shares = {"class_balance": {0: 1, 1: 1}} if estimator in TRANSDUCTIVE else {}
    plain = estimator(norm_penalty=0.01, **with_shares).fit(points, y)
    ignored = estimator(norm_penalty=0.01, **with_shares).fit(points, y, graph=graph)
    np.testing.assert_array_equal(ignored.decision_, plain.decision_)
    joined = estimator(norm_penalty=0.01, graph_penalty=1.0, **with_shares)
    given = clone(joined).fit(points, y, graph=graph).decision_
    made = clone(joined).fit(points, y).decision_
    np.testing.assert_allclose(given, made, atol=1e-9)
    assert np.abs(given - plain.decision_).max() > 1e-3
    laplacian = Graph.laplacian(graph).toarray()
    energy, before = (
        values @ laplacian @ values for values in (given[:, 1], plain.decision_[:, 1])
    )
    assert energy < before


def test_estimators_are_their_models(digits) -> None:
    points, classes, y = digits
    few = classes < 2
    points, y = points[few], y[few]
    with pytest.warns(UserWarning, match="DASVM: the share of each class is taken from 10 labels"):
        fitted = DASVM(norm_penalty=0.1).fit(points, y)
    model = DASVM._model(norm_penalty=0.1)
    empty = Graph.from_edges([], [], [], n_nodes=len(points))
    expected = model.solve(model.prepare(empty, points), labels_in(y))
    assert len(expected.warnings) == 1
    np.testing.assert_array_equal(fitted.decision_, expected.scores)
    assert fitted.stats_ == expected.stats


def test_a_search_cut_short_warns(digits) -> None:
    points, classes, y = digits
    few = (classes == 3) | (classes == 8)
    shares = {3: 1, 8: 1}
    with pytest.warns(ConvergenceWarning, match="TSVM did not converge"):
        TSVM(class_balance=shares, max_pairs=1, max_iter=1).fit(points[few], y[few])


def test_parameters_can_be_searched(digits) -> None:
    points, classes, _ = digits
    search = GridSearchCV(LinearSVM(unlabeled=None), {"norm_penalty": [1e-1, 1e-3]}, cv=2)
    search.fit(points[:300], classes[:300])
    assert search.best_score_ > 0.8
