import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

from peewit.solvers.estimators import RLSC, SVM, LapRLSC, LapSVM
from peewit.solvers.graph import Graph
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from tests.data_sets import labels_in

ALL = [LapSVM, LapRLSC, SVM, RLSC]
LAPLACIAN = [LapSVM, LapRLSC]
each = pytest.mark.parametrize("estimator", ALL)


def made(estimator, **settings):
    return estimator(**settings, **({"n_neighbors": 3} if estimator in LAPLACIAN else {}))


@pytest.mark.sweep(13)
@parametrize_with_checks(
    [made(estimator) for estimator in ALL],
    expected_failed_checks=lambda _: {
        "check_classifiers_classes": "labels {-1, 1}: -1 marks nodes without label",
        "check_classifier_multioutput": "classes_ is a list of the classes of each column",
    },
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


@each
def test_scikit_learn_check_of_classes_with_another_marker(estimator) -> None:
    check_classifiers_classes(estimator.__name__, made(estimator, unlabeled=None))


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
def test_untuned_defaults_beat_the_labels_alone_on_digits(digits) -> None:
    points, classes, y = digits
    right = {
        estimator: np.mean(estimator().fit(points, y).transduction_ == classes) for estimator in ALL
    }
    assert right[LapSVM] > 0.94
    assert right[LapRLSC] > 0.94
    assert right[LapSVM] > right[SVM] + 0.05
    assert right[LapRLSC] > right[RLSC] + 0.05


@pytest.mark.slow
@each
def test_fitted_samples_are_predicted_as_they_were_found(estimator, digits) -> None:
    points, _, y = digits
    fitted = estimator().fit(points, y)
    np.testing.assert_allclose(
        fitted.decision_function(points[:100]), fitted.decision_[:100], atol=1e-6
    )
    np.testing.assert_array_equal(fitted.predict(points), fitted.transduction_)
    sparse = clone(fitted).fit(sp.csr_array(points), y)
    np.testing.assert_allclose(sparse.decision_, fitted.decision_, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", LAPLACIAN)
def test_new_samples_are_predicted_as_well_as_those_fitted(estimator, digits) -> None:
    points, classes, y = digits
    seen = np.arange(classes.size) % 2 == 0
    seen |= y >= 0
    fitted = estimator().fit(points[seen], y[seen])
    within = np.mean(fitted.transduction_ == classes[seen])
    assert np.mean(fitted.predict(points[~seen]) == classes[~seen]) > within - 0.03


def test_a_svm_of_labels_is_libsvm_on_them(digits) -> None:
    points, classes, y = digits
    two = classes < 2
    points, y = points[two] / 16, y[two]
    ours = SVM(width=2.0, norm_penalty=0.5, method="dual", bias="free").fit(points, y)
    known = y >= 0
    # (E1): sum hinge + gamma |f|^2 is libsvm's 1/2 |f|^2 + C sum hinge with C = 1 / (2 gamma)
    theirs = SVC(C=1.0, kernel="rbf", gamma=1 / 8, tol=1e-8).fit(points[known], y[known])
    np.testing.assert_allclose(
        ours.decision_function(points), theirs.decision_function(points), atol=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("estimator", LAPLACIAN)
def test_a_graph_given_is_used(estimator, digits) -> None:
    points, _, y = digits
    graph = neighbor_graph(points.astype(np.float64), 10, weights="heat", symmetrize="max")
    by_default = estimator().fit(points, y)
    for given in (graph, graph.adjacency, graph.adjacency.toarray()):
        np.testing.assert_array_equal(
            estimator().fit(points, y, graph=given).decision_, by_default.decision_
        )
    with pytest.raises(ValueError, match="graph must have one node per sample, got 3 nodes for"):
        estimator().fit(points, y, graph=np.zeros((3, 3)))
    with pytest.raises(ValueError, match="matrix must be symmetric"):
        estimator().fit(points, y, graph=np.triu(graph.adjacency.toarray()))


@pytest.mark.slow
def test_estimators_are_their_models(digits) -> None:
    points, _, y = digits
    fitted = LapSVM(norm_penalty=0.1, power=1).fit(points, y)
    model = LapSVM._model(norm_penalty=0.1, power=1)
    graph = neighbor_graph(points.astype(np.float64), 10, weights="heat", symmetrize="max")
    labels = labels_in(y)
    expected = model.solve(model.prepare(graph, points, kept_bytes=4 << 30), labels)
    np.testing.assert_array_equal(fitted.decision_, expected.scores)
    assert fitted.stats_ == expected.stats


@pytest.mark.slow
def test_every_method_gives_the_same_answer(digits) -> None:
    points, classes, y = digits
    few = classes < 3
    points, y = points[few], y[few]
    newton = LapSVM(method="newton").fit(points, y)
    for method, settings in [
        ("pcg", {}),
        ("pcg", {"gram": "blocked"}),
        ("dual", {"loss": "squared-hinge"}),
        ("newton", {"gram": "landmarks", "n_landmarks": 10_000}),
    ]:
        other = LapSVM(method=method, **settings).fit(points, y)
        np.testing.assert_allclose(other.decision_, newton.decision_, atol=1e-5)
    pcg = LapRLSC(method="pcg").fit(points, y)
    closed = LapRLSC(method="closed-form").fit(points, y)
    np.testing.assert_allclose(pcg.decision_, closed.decision_, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["stability", "validation", "mixed"])
def test_early_stops_say_which_rule_ended_them(stop: str, digits) -> None:
    points, classes, y = digits
    fitted = LapSVM(method="pcg", stop=stop, norm_penalty=1e-4).fit(points, y)
    assert fitted.stats_["stopped_by"] == stop
    assert np.mean(fitted.transduction_ == classes) > 0.9


def test_validation_needs_labels_to_hold_out() -> None:
    points = np.random.default_rng(0).standard_normal((20, 2))
    y = np.full(20, -1)
    y[:2] = [0, 1]
    with pytest.raises(ValueError, match="each class has a single one; label more nodes"):
        LapSVM(method="pcg", stop="mixed", n_neighbors=3).fit(points, y)


def test_a_gram_matrix_that_does_not_fit_is_refused_or_approximated(digits) -> None:
    points, classes, y = digits
    with pytest.raises(ValueError, match=r"gram .dense. in float32 needs 38 MiB for 1797 nodes"):
        LapSVM(gram="dense", max_bytes=10 << 20, n_landmarks=100).fit(points, y)
    with pytest.raises(ValueError, match="allow it more memory"):
        LapSVM(max_bytes=1).fit(points, y)
    with pytest.raises(
        ValueError, match=r"gram 'blocked' in float64 needs .* allow it more memory"
    ):
        SVM(max_bytes=1).fit(points, y)
    fitted = LapSVM(max_bytes=300 << 20, n_landmarks=500, method="newton", gram="landmarks")
    assert np.mean(fitted.fit(points, y).transduction_ == classes) > 0.9


def test_newton_needs_something_to_factor(digits) -> None:
    points, _, y = digits
    with pytest.raises(
        ValueError, match="gram must not be 'blocked' with newton, which factors it"
    ):
        LapSVM(method="newton", gram="blocked").fit(points, y)


@pytest.mark.slow
def test_a_run_cut_short_warns(digits) -> None:
    points, _, y = digits
    with pytest.warns(ConvergenceWarning, match="LapSVM did not converge in 3 iterations"):
        LapSVM(method="pcg", max_iter=3).fit(points, y)


@each
def test_predictions_need_a_fit(estimator) -> None:
    with pytest.raises(NotFittedError):
        estimator().predict(np.zeros((1, 2)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_bytes": 0}, "max_bytes must be an integer >= 1, got 0"),
        ({"width": 0.0}, "width must be a finite number > 0 or 'auto', got 0.0"),
        ({"norm_penalty": 0.0}, "norm_penalty must be a finite number > 0 or .auto., got 0.0"),
        ({"kernel": "rbf"}, "or 'linear' or 'wendland', got 'rbf'"),
        ({"loss": "hinge", "method": "pcg"}, "loss 'hinge' must stand beside method='dual'"),
        (
            {"stop": "mixed", "method": "newton"},
            "stop must be 'optimal' unless pcg is the method, got 'mixed' with newton",
        ),
        ({"stop": "mixed", "loss": "hinge"}, "got 'mixed' with dual"),
        (
            {"gram": "blocked", "loss": "hinge"},
            "gram must not be 'blocked' with dual, which factors it",
        ),
        ({"n_neighbors": 0}, "n_neighbors must be an integer >= 1, got 0"),
        ({"n_neighbors": 20}, "n_neighbors must be below"),
    ],
)
def test_arguments_that_break_a_rule_are_named(settings, message: str) -> None:
    points, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    with pytest.raises(ValueError, match=message):
        LapSVM(**settings).fit(points, y)


def test_equal_samples_and_isolated_nodes_leave_finite_scores() -> None:
    points, y = np.ones((12, 3)), np.full(12, -1)
    y[:4] = [0, 0, 1, 1]
    graph = Graph.from_edges([5], [6], [1.0], n_nodes=12)
    for estimator in ALL:
        assert np.isfinite(estimator().fit(points, y, graph=graph).decision_).all()


def test_a_column_that_counts_the_samples_is_told() -> None:
    rng = np.random.default_rng(0)
    y = np.array([0, 1] * 20)
    X = np.column_stack([y + rng.normal(0, 0.1, 40), np.arange(40)])
    with pytest.warns(UserWarning, match="LapRLSC: column 1 counts the rows"):
        LapRLSC(n_neighbors=3).fit(X, y)
