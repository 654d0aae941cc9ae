import doctest
import inspect
import pickle
import re
from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from sklearn.base import ClassifierMixin, clone, is_classifier
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

import peewit
from peewit.solvers import estimators
from peewit.solvers.estimators import (
    HFS,
    Auto,
    FilteredRidge,
    HarmonicMBO,
    HFSRegressor,
    LapRLS,
    LapSVM,
    Poisson,
    StableHFS,
)
from peewit.solvers.estimators.base import GraphEstimator
from peewit.solvers.estimators.calibrated_scores import CalibratedScores
from peewit.solvers.estimators.classifier import Classifier
from peewit.solvers.estimators.variational import FunctionClassifier
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import RegressionModel
from peewit.solvers.status import Status
from peewit.streaming.calls.sparsify_call import sparsify
from tests.reference.neighbors import harmonic_extension, self_tuned_adjacency
from tests.strategies import problems

ESTIMATORS = [getattr(estimators, name) for name in estimators.__all__]
CLASSIFIERS = [
    made
    for made in ESTIMATORS
    if issubclass(made, ClassifierMixin) and issubclass(made, GraphEstimator)
]
both = pytest.mark.parametrize("estimator", CLASSIFIERS)
iterative = pytest.mark.parametrize(
    "estimator",
    [
        made
        for made in CLASSIFIERS
        if "max_iter" in inspect.signature(made).parameters and made is not LapRLS  # one solve here
    ],
)

PATH = np.diag([1.0, 2.0, 1.0, 0.0], 1) + np.diag([1.0, 2.0, 1.0, 0.0], -1)
"""Nodes 0 - 1 - 2 - 3 in a row; node 4 is alone."""


CLASSES_OF_COLUMNS = "classes_ is a list of the classes of each column, not one array"

OF_A_KERNEL = {
    "degree",
    "gram",
    "kernel",
    "n_dimensions",
    "n_landmarks",
    "norm_penalty",
    "precision",
    "seed",
    "width",
}
LEFT_OUT = {
    Auto: OF_A_KERNEL | {"walks"},  # each fit prepares the graph, and begins anew
    HFSRegressor: {"class_mass"},
}
"""What models have and these estimators do not."""


def with_penalty(estimator, penalty: float, **parameters):
    """The estimator with that graph penalty, where its model has one; 'auto' takes longer."""
    has_penalty = "graph_penalty" in inspect.signature(estimator).parameters
    return estimator(**parameters, **({"graph_penalty": penalty} if has_penalty else {}))


def beyond_the_contract(estimator: object) -> dict[str, str]:
    failures = {"check_classifiers_classes": "labels {-1, 1}: -1 marks nodes without label"}
    if hasattr(estimator, "decision_function"):
        failures["check_classifier_multioutput"] = CLASSES_OF_COLUMNS
    return failures


@pytest.mark.sweep(13)
@pytest.mark.filterwarnings("ignore:Auto. the edges say nothing")  # classes are drawn at random
@parametrize_with_checks(
    [with_penalty(made, 0.1, affinity="knn", n_neighbors=5) for made in CLASSIFIERS],
    expected_failed_checks=beyond_the_contract,
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


@both
def test_scikit_learn_check_of_classes_with_another_marker(estimator) -> None:
    made = estimator(affinity="knn", n_neighbors=5, unlabeled=None)
    check_classifiers_classes(estimator.__name__, made)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_bear_the_names_of_their_models(estimator) -> None:
    model = estimator._model
    assert estimator.__name__.removesuffix("Regressor") == model.__name__
    assert model in CATALOGUE.values()
    assert f"{model.__name__}Regressor" in estimators.__all__ or not issubclass(
        model, RegressionModel
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_is_documented(estimator) -> None:
    _, _, documented = estimator.__doc__.partition("\nParameters\n----------\n")
    names = re.findall(r"^(\w+) : \S.*\n    \S", documented, re.MULTILINE)
    assert sorted(names) == sorted(inspect.signature(estimator).parameters)


def test_a_subclass_may_have_a_constructor_and_documentation_of_its_own() -> None:
    class Near(StableHFS):
        """Labels count more."""

        def __init__(self, *, n_neighbors: int = 3) -> None:
            super().__init__(graph_penalty=0.1, affinity="knn", n_neighbors=n_neighbors)

    assert Near.__doc__ == "Labels count more."
    assert Near().get_params() == {"n_neighbors": 3}
    assert Near().graph_penalty == 0.1


@both
def test_scores_that_are_probabilities_are_called_so(estimator) -> None:
    made = estimator()
    assert hasattr(made, "predict_proba") == (estimator._model().score_kind == "probability")
    assert hasattr(made, "decision_function") != hasattr(made, "predict_proba")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_are_those_of_the_model(estimator) -> None:
    given = {
        name: parameter.default
        for name, parameter in inspect.signature(estimator).parameters.items()
    }
    of_graph, of_classes = (issubclass(estimator, kind) for kind in (GraphEstimator, Classifier))
    has_kernel = issubclass(estimator, FunctionClassifier)
    of_kind = set() if has_kernel else OF_A_KERNEL if of_graph else {"n_dimensions"}
    left_out = LEFT_OUT.get(estimator, of_kind)
    model = {
        parameter.name: parameter.default
        for parameter in fields(estimator._model)
        if parameter.name not in left_out
    }
    own: dict[str, object] = {"max_bytes": 4 << 30}
    if of_graph:
        own = {"affinity": "precomputed", "n_neighbors": 10, "relations": "auto"}
    own |= {"unlabeled": -1, "sets": False} if of_classes else {}
    own |= {"probabilities": False} if issubclass(estimator, CalibratedScores) else {}
    takes_edges = "graph_penalty" in model or estimator is FilteredRidge
    own |= {"n_neighbors": 10} if takes_edges else {}
    assert given == model | own
    assert estimator().get_params() == given


def vector_of(labels: Labels, n_nodes: int) -> np.ndarray:
    y = np.full(n_nodes, -1)
    y[labels.nodes] = labels.classes
    return y


@pytest.mark.slow
@pytest.mark.thinned(5)
@both
@settings(max_examples=20)
@given(problems())
def test_scores_are_those_of_the_model(estimator, problem) -> None:
    graph, labels = problem
    y = vector_of(labels, graph.n_nodes)
    fitted = estimator().fit(graph, y)
    model = estimator._model()
    solution = model.solve(model.prepare(graph), labels)
    np.testing.assert_allclose(fitted._scores(), solution.scores, atol=1e-6)
    np.testing.assert_array_equal(fitted.reachable_, solution.reachable)
    assert fitted.status_ is solution.status
    assert fitted.stats_ == solution.stats
    expected = np.where(solution.reachable, fitted._scores().argmax(axis=1), -1)
    np.testing.assert_array_equal(fitted.transduction_, expected)


@pytest.mark.thinned(4)
@both
def test_every_form_of_a_graph_gives_the_same(estimator) -> None:
    y = [0, -1, -1, 1, -1]
    with_loops = PATH + np.diag([3.0, 0.0, 1.0, 0.0, 2.0])
    expected = estimator().fit(Graph.from_adjacency(PATH), y)
    for form in (
        PATH,
        PATH.tolist(),
        PATH.astype(int),
        with_loops,
        sp.csr_array(PATH),
        sp.csc_matrix(PATH),
        sp.coo_array(PATH),
    ):
        fitted = estimator().fit(form, y)
        np.testing.assert_array_equal(fitted._scores(), expected._scores())
        assert fitted.n_features_in_ == 5
    assert expected.n_features_in_ == 5
    assert expected.transduction_[[0, 3, 4]].tolist() == [0, 1, -1]


def test_probabilities_are_distributions() -> None:
    points, classes = make_blobs(200, random_state=0)
    y = np.where(np.arange(200) < 20, classes, -1)
    fitted = HFS(affinity="knn").fit(points, y)
    for rows in (fitted.label_distributions_, fitted.predict_proba(points[:50] + 0.1)):
        assert rows.min() >= 0
        np.testing.assert_allclose(rows.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("y", "unlabeled", "transduction"),
    [
        ([0, -1, -1, 1, -1], -1, [0, 0, 1, 1, -1]),
        ([7.0, -1.0, -1.0, 9.0, -1.0], -1, [7.0, 7.0, 9.0, 9.0, -1.0]),
        (["cat", -1, -1, "dog", -1], -1, ["cat", "cat", "dog", "dog", "-1"]),
        (
            np.array(["cat", -1, -1, "dog", -1], object),
            -1,
            np.array(["cat", "cat", "dog", "dog", -1], object),
        ),
        (
            np.array(["cat", "-1", "-1", "dog", "-1"], object),
            -1,
            np.array(["cat", "cat", "dog", "dog", -1], object),
        ),
        (["cat", "?", "?", "dog", "?"], "?", ["cat", "cat", "dog", "dog", "?"]),
        (["a", "unknown", "unknown", "b", "unknown"], "unknown", ["a", "a", "b", "b", "unknown"]),
        (
            ["cat", None, None, "dog", None],
            None,
            np.array(["cat", "cat", "dog", "dog", None], object),
        ),
        ([-1, 0, 0, 1, 0], 0, [-1, -1, 1, 1, 0]),
        ([-1, -9, -9, 1, -9], -9, [-1, -1, 1, 1, -9]),
        (
            np.array([200, 255, 255, 100, 255], np.uint8),
            255,
            np.array([200, 200, 100, 100, 255], np.uint8),
        ),
        (
            np.array([200, 3, 3, 100, 3], np.uint8),
            np.int64(3),
            np.array([200, 200, 100, 100, 3], np.uint8),
        ),
        (
            np.array([True, None, None, False, None], object),
            None,
            np.array([True, True, False, False, None], object),
        ),
    ],
)
def test_the_marker_stands_for_no_label_and_classes_keep_their_type(
    y, unlabeled, transduction
) -> None:
    fitted = StableHFS(graph_penalty=1.0, unlabeled=unlabeled).fit(PATH, y)
    expected = np.asarray(transduction)
    assert fitted.transduction_.tolist() == expected.tolist()
    assert fitted.transduction_.dtype.kind == expected.dtype.kind
    assert fitted.classes_.tolist() == sorted({expected.tolist()[0], expected.tolist()[3]})


@pytest.mark.thinned(11)
@both
@pytest.mark.parametrize(
    ("y", "unlabeled", "error", "message"),
    [
        ([-1, 1, 1, -1, 1], -1, ValueError, r"one class only \(1\) beside the marker -1 .*None"),
        (["-1", "1", "1", "-1", "1"], -1, ValueError, r"one class only \('1'\) beside the marker"),
        ([-1] * 5, -1, ValueError, "every entry of y is the marker -1"),
        ([2] * 5, -1, ValueError, r"one class only \(2\); at least two"),
        ([0.5, -1, -1, 1, 0], -1, ValueError, "continuous value 0.5"),
        ([0, np.nan, 1, 1, 0], -1, ValueError, "y contains NaN; say unlabeled=None"),
        ([0, -1, -1, 1], -1, ValueError, "4"),
        ([[0, 1]] * 5, -1, ValueError, r"column 0: y holds one class only \(0\)"),
        ([[0, -1], [1, -1]] * 2 + [[0, -1]], -1, ValueError, "column 1: every entry of y is the"),
        ([[0, 1.5]] * 4 + [[1, 0]], -1, ValueError, "column 1: .*continuous value 1.5"),
        ([[[0], [1]]] * 5, -1, ValueError, "dim"),
        (None, -1, ValueError, "requires y"),
        (np.array(["a", 1, -1, -1, -1], object), -1, TypeError, "got int and str"),
        ([0, -1, -1, 1, -1], 0.5, TypeError, "unlabeled must be an integer, a string or None"),
        ([0, -1, -1, 1, -1], True, TypeError, "unlabeled must be an integer, a string or None"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, Graph.from_adjacency])
def test_targets_that_pose_no_problem_are_refused(
    estimator, form, y, unlabeled, error, message
) -> None:
    with pytest.raises(error, match=message):
        estimator(unlabeled=unlabeled).fit(form(PATH), y)


def columns_of_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, three columns to predict of each, and the same with few known, others in each."""
    images, digits = load_digits(return_X_y=True)
    truth = np.column_stack([digits, digits % 2, digits >= 5])[:600]
    known = np.full(truth.shape, -1)
    rng = np.random.default_rng(0)
    for column in range(3):
        rows = rng.choice(600, 60, replace=False)
        known[rows, column] = truth[rows, column]
    return images[:600], truth, known


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "estimator", [HFS, StableHFS, HarmonicMBO, Poisson, LapSVM, FilteredRidge, Auto]
)
def test_columns_are_predicted_as_each_alone(estimator) -> None:
    images, _, known = columns_of_digits()
    settings = {} if estimator in {LapSVM, FilteredRidge} else {"affinity": "knn"}
    fitted = estimator(**settings).fit(images, known)
    for place, column in enumerate(known.T):
        alone = estimator(**settings).fit(images, column)
        np.testing.assert_array_equal(fitted.transduction_[:, place], alone.transduction_)
        np.testing.assert_array_equal(fitted.classes_[place], alone.classes_)
        np.testing.assert_array_equal(
            fitted.predict(images[:9])[:, place], alone.predict(images[:9])
        )
        ask = "predict_proba" if hasattr(alone, "predict_proba") else "decision_function"
        np.testing.assert_allclose(
            getattr(fitted, ask)(images[:9])[place], getattr(alone, ask)(images[:9]), atol=1e-4
        )
    assert fitted.transduction_.dtype == known.dtype
    assert len(fitted.status_) == len(fitted.stats_) == len(fitted.estimators_) == 3


@pytest.mark.slow
def test_several_labels_of_a_node_are_columns_of_zeros_and_ones() -> None:
    images, truth, known = columns_of_digits()
    tags = np.where(known[:, 1:] < 0, -1, known[:, 1:] > 0)
    fitted = StableHFS(affinity="knn").fit(images, tags)
    assert np.mean(fitted.transduction_ == truth[:, 1:]) > 0.9
    assert fitted.decision_function(images[:4]).shape == (4, 2)
    indicator = (truth[:, 1:] > 0).astype(int)
    dense = HFS(affinity="knn").fit(images, indicator)
    sparse = HFS(affinity="knn").fit(images, sp.csr_array(indicator))
    np.testing.assert_array_equal(dense.transduction_, sparse.transduction_)


def test_columns_of_words_and_numbers_keep_their_types() -> None:
    y = np.array([["a", 1], ["a", 2], ["b", None], [None, None], [None, None]], object)
    fitted = HFS(unlabeled=None).fit(PATH, y)
    assert fitted.transduction_.tolist() == [["a", 1], ["a", 2], ["b", 2], ["b", 2], [None, None]]


@pytest.mark.parametrize("unlabeled", [-1, None])
def test_what_a_mask_hides_is_no_label(unlabeled: int | None) -> None:
    y = np.ma.masked_array([0, 1, 0, 1, 1], [False, True, True, False, True])
    fitted = HFS(unlabeled=unlabeled).fit(PATH, y)
    assert fitted.transduction_.tolist()[:4] == [0, 0, 1, 1]


def test_a_vector_after_columns_leaves_nothing_of_them() -> None:
    images, _, known = columns_of_digits()
    fitted = HFS(affinity="knn").fit(images, known).fit(images, known[:, 0])
    assert fitted.predict(images[:9]).shape == (9,)
    assert not hasattr(fitted, "estimators_")


@pytest.mark.thinned(3)
@both
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.where(PATH > 1, np.nan, PATH), "NaN"),
        (np.where(PATH > 1, np.inf, PATH), "infinity"),
        (sp.csr_array(np.where(PATH > 1, np.nan, PATH)), "NaN"),
        (np.triu(PATH), "symmetric"),
        (-PATH, ">= 0"),
        (PATH[:, :4], r"square .*got shape \(5, 4\); say affinity='knn'"),
        (PATH.astype(complex), "Complex"),
    ],
)
def test_matrices_that_are_no_graph_are_refused(estimator, matrix, message) -> None:
    with pytest.raises(ValueError, match=message):
        estimator().fit(matrix, [0, -1, -1, 1, -1])


@pytest.mark.thinned(3)
@both
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"affinity": "rbf"}, ValueError, r"affinity must be one of .*got 'rbf'"),
        ({"affinity": "knn", "n_neighbors": 0}, ValueError, "n_neighbors must be an integer >= 1"),
        ({"affinity": "knn", "n_neighbors": 5}, ValueError, "got 5 neighbors for 5 samples"),
        ({"affinity": "knn", "n_neighbors": 2.5}, TypeError, "n_neighbors must be an integer"),
    ],
)
def test_parameters_that_break_their_rule_are_refused(
    estimator, parameters, error, message
) -> None:
    with pytest.raises(error, match=message):
        estimator(**parameters).fit(PATH, [0, -1, -1, 1, -1])


@iterative
def test_parameters_that_break_their_models_rule_are_refused(estimator) -> None:
    with pytest.raises(ValueError, match="max_iter must be an integer >= 1"):
        estimator(max_iter=0).fit(PATH, [0, -1, -1, 1, -1])


def test_a_graph_with_neighbors_to_find_is_refused() -> None:
    with pytest.raises(ValueError, match="affinity must be 'precomputed' when a Graph"):
        StableHFS(affinity="knn").fit(Graph.from_adjacency(PATH), [0, -1, -1, 1, -1])


@both
def test_new_samples_need_features(estimator) -> None:
    made = estimator()
    with pytest.raises(NotFittedError):
        made.predict(PATH)
    made.fit(PATH, [0, -1, -1, 1, -1])
    with pytest.raises(ValueError, match="fit with affinity='knn'"):
        made.predict(PATH)
    with pytest.raises(ValueError, match="fit with affinity='knn'"):
        made.set_params(affinity="knn").predict(PATH)


@pytest.mark.thinned(4)
@both
def test_neighbors_make_the_self_tuned_graph(estimator) -> None:
    points, classes = make_blobs(60, random_state=0)
    points[:4] = 50.0  # four in one place are three neighbors of each at distance 0
    y = np.where(np.arange(60) % 6 == 0, classes, -1)
    by_features = with_penalty(estimator, 1.0, affinity="knn", n_neighbors=3).fit(points, y)
    by_graph = with_penalty(estimator, 1.0).fit(self_tuned_adjacency(points, 3), y)
    np.testing.assert_allclose(by_features._scores(), by_graph._scores(), atol=1e-6)
    sparse = clone(by_features).fit(sp.csr_array(points), y)
    np.testing.assert_allclose(by_features._scores(), sparse._scores(), atol=1e-6)


@both
def test_new_samples_take_the_mean_of_their_neighbors(estimator) -> None:
    points, classes = make_blobs(60, random_state=0)
    y = np.where(np.arange(60) % 6 == 0, classes, -1)
    fitted = estimator(affinity="knn", n_neighbors=4).fit(points, y)
    new = np.concatenate([points[:3], make_blobs(20, random_state=1)[0]])
    expected = harmonic_extension(points, new, fitted._scores(), 4)
    np.testing.assert_allclose(fitted._new_scores(new)[0], expected, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(new), fitted.classes_[expected.argmax(axis=1)])


@both
def test_no_class_is_invented_where_no_label_reaches(estimator) -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(center, 0.1, (20, 2)) for center in (0, 10, 20)])
    y = np.full(60, -1)
    y[[0, 20]] = [3, 4]
    fitted = with_penalty(estimator, 0.1, affinity="knn", n_neighbors=3).fit(points, y)
    np.testing.assert_array_equal(fitted.transduction_, np.repeat([3, 4, -1], 20))
    np.testing.assert_array_equal(fitted.reachable_, np.repeat([True, True, False], 20))
    assert fitted.predict([[0.0, 0.0], [10.0, 10.0], [20.0, 20.0]]).tolist() == [3, 4, -1]


@both
def test_only_nodes_that_a_label_reaches_lend_their_scores(estimator) -> None:
    places = np.array([0.0, 1.0, 2.0, 7.0, 8.0, 9.0, 14.0, 15.0, 16.0])[:, None]
    y = [0, -1, -1, 1, -1, -1, -1, -1, -1]
    fitted = with_penalty(estimator, 0.1, affinity="knn", n_neighbors=2).fit(places, y)
    np.testing.assert_array_equal(fitted.transduction_, np.repeat([0, 1, -1], 3))
    between = [[11.4], [11.6]]  # neighbors: 9, which is reached, and 14, which is not
    np.testing.assert_allclose(fitted._new_scores(between)[0], fitted._scores()[[5, 5]], atol=1e-12)
    assert fitted.predict(between).tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore:Auto. harmonic functions of the labels did not converge")
@iterative
def test_a_solve_that_stops_early_warns(estimator) -> None:
    points, classes = make_blobs(300, centers=4, random_state=0)
    y = np.where(np.arange(300) < 40, classes, -1)
    tight = {"rtol": 1e-12} if "rtol" in inspect.signature(estimator).parameters else {}
    made = with_penalty(estimator, 10.0, affinity="knn", max_iter=1, **tight)
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 1 iterations: the iteration"):
        made.fit(points, y)
    assert made.status_ is Status.MAX_ITER
    assert made.n_iter_ == 1


@both
def test_a_copy_and_a_pickle_answer_alike(estimator) -> None:
    points, classes = make_blobs(60, random_state=0)
    y = np.where(np.arange(60) % 6 == 0, classes, -1)
    made = with_penalty(estimator, 0.5, affinity="knn", n_neighbors=4)
    copied = clone(made)
    assert copied.get_params() == made.get_params()
    fitted = made.fit(points, y)
    assert not hasattr(copied, "classes_")
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict(points), fitted.predict(points))
    np.testing.assert_array_equal(loaded.transduction_, fitted.transduction_)
    assert loaded.status_ is fitted.status_
    on_graph = with_penalty(estimator, 0.5).fit(PATH, [0, -1, -1, 1, -1])
    loaded = pickle.loads(pickle.dumps(on_graph))
    np.testing.assert_array_equal(loaded.transduction_, on_graph.transduction_)


@both
def test_a_second_fit_forgets_the_first(estimator) -> None:
    points, classes = make_blobs(60, random_state=0)
    made = estimator(affinity="knn", n_neighbors=4).fit(points, classes)
    made.set_params(affinity="precomputed").fit(PATH, ["a", -1, -1, "b", -1])
    again = estimator(n_neighbors=4).fit(PATH, ["a", -1, -1, "b", -1])
    np.testing.assert_array_equal(made._scores(), again._scores())
    assert made.n_features_in_ == again.n_features_in_ == 5
    assert vars(made).keys() == vars(again).keys()


@pytest.mark.slow
@pytest.mark.thinned(5)
@both
def test_a_search_over_parameters_in_a_pipeline(estimator) -> None:
    assert is_classifier(estimator())
    points, classes = make_blobs(120, random_state=0)
    name = estimator.__name__.lower()
    grid = {f"{name}__n_neighbors": np.array([3, 8])}
    if "max_iter" in estimator().get_params():
        grid[f"{name}__max_iter"] = np.array([100, 1000])
    search = GridSearchCV(
        make_pipeline(StandardScaler(), estimator(affinity="knn")), grid, cv=3, error_score="raise"
    )
    search.fit(points, classes)
    assert search.best_score_ > 0.9
    assert search.predict(points).shape == (120,)


def test_ten_labels_of_digits_tell_the_rest() -> None:
    images, digits = load_digits(return_X_y=True)
    first = [int(np.argmax(digits == digit)) for digit in range(10)]
    y = np.full(digits.size, -1)
    y[first] = digits[first]
    fitted = StableHFS(affinity="knn").fit(images, y)
    assert (fitted.transduction_ == digits).mean() > 0.8


def test_the_example_says_what_is_printed() -> None:
    results = doctest.testmod(estimators)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("kind", [int, float, str])
def test_known_class_sizes_are_named_as_classes_are(kind: type) -> None:
    X, y = load_digits(return_X_y=True)
    known = np.arange(y.size) % 30 == 0
    marker = "-1" if kind is str else -1
    marked = np.where(known, y.astype(kind), np.array(marker, dtype=y.astype(kind).dtype))
    names, counts = np.unique(y.astype(kind), return_counts=True)
    sizes = dict(zip(names.tolist(), counts, strict=True))  # counts are numpy's
    fitted = Poisson(class_balance=sizes, affinity="knn").fit(X, marked)
    assert (fitted.transduction_ == y.astype(kind)).mean() > 0.9


def test_what_sparsify_returns_is_a_graph() -> None:
    edges = [("a", "b", 1.0), ("b", "c", 2.0), ("c", "d", 1.0)]
    sparse = sparsify(edges, epsilon=0.5)
    y = np.array([0, -1, -1, 1])
    fitted = StableHFS().fit(sparse, y)
    by_hand = StableHFS().fit(sparse.graph, y)
    assert fitted.transduction_.tolist() == by_hand.transduction_.tolist()
    X = np.arange(8.0).reshape(4, 2)
    of_graph = LapSVM().fit(X, y, graph=sparse.graph).predict(X)
    assert LapSVM().fit(X, y, graph=sparse).predict(X).tolist() == of_graph.tolist()


@pytest.mark.parametrize("name", [*estimators.__all__, "ClassifierOnGraph"])
def test_fit_says_of_each_argument_what_it_is(name: str) -> None:
    fit = getattr(peewit, name).fit
    told = re.findall(r"^ *(\*{0,2}\w+)(?: : \S|$)", inspect.getdoc(fit) or "", re.MULTILINE)
    assert set(inspect.signature(fit).parameters) - {"self"} <= {one.strip("*") for one in told}
    assert "unlabeled" in fit.__doc__ or "nan where it is not known" in fit.__doc__
