import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.base import RegressorMixin, clone, is_regressor
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from peewit.solvers import estimators
from peewit.solvers.graph import Graph
from peewit.solvers.labels import RealLabels
from peewit.solvers.status import Status
from tests.reference.neighbors import harmonic_extension
from tests.strategies import problems

REGRESSORS = [
    made
    for made in (getattr(estimators, name) for name in estimators.__all__)
    if issubclass(made, RegressorMixin)
]
each = pytest.mark.parametrize("estimator", REGRESSORS)

NAN = np.nan
PATH = np.diag([1.0, 2.0, 1.0, 0.0], 1) + np.diag([1.0, 2.0, 1.0, 0.0], -1)
"""Nodes 0 - 1 - 2 - 3 in a row; node 4 is alone."""


@pytest.mark.sweep(13)
@parametrize_with_checks(
    [made(affinity="knn", n_neighbors=5, graph_penalty=0.001) for made in REGRESSORS]
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.slow
@each
@settings(max_examples=20)
@given(problems())
def test_numbers_are_those_of_the_model(estimator, problem) -> None:
    graph, labels = problem
    values = np.sin(labels.nodes.astype(float))
    y = np.full(graph.n_nodes, NAN)
    y[labels.nodes] = values
    fitted = estimator().fit(graph, y)
    model = estimator._model()
    solution = model.solve(model.prepare(graph), RealLabels.from_pairs(labels.nodes, values))
    np.testing.assert_array_equal(fitted.reachable_, solution.reachable)
    np.testing.assert_array_equal(np.isnan(fitted.transduction_), ~solution.reachable)
    known = solution.reachable
    np.testing.assert_allclose(fitted.transduction_[known], solution.scores[known, 0], atol=1e-6)


@each
@pytest.mark.parametrize(
    "y", [[-1.0, NAN, NAN, 5.0, NAN], np.array([-1, None, None, 5, None], object)]
)
def test_nan_marks_unknown_numbers_and_minus_one_is_a_number(estimator, y) -> None:
    fitted = estimator(graph_penalty=1e-6).fit(PATH, y)
    # Currents through conductances 1, 2, 1: 2/5, 1/5 and 2/5 of the way from -1 to 5.
    np.testing.assert_allclose(fitted.transduction_, [-1, 1.4, 2.6, 5, NAN], atol=1e-3)
    assert fitted.n_features_in_ == 5


@each
def test_columns_of_numbers_are_predicted_as_each_alone(estimator) -> None:
    y = np.array([[-1, NAN], [NAN, 3], [NAN, NAN], [5, 1], [NAN, NAN]])
    fitted = estimator(graph_penalty=1e-6).fit(PATH, y)
    alone = [estimator(graph_penalty=1e-6).fit(PATH, column).transduction_ for column in y.T]
    np.testing.assert_allclose(fitted.transduction_, np.column_stack(alone), atol=1e-6)


def test_hard_harmonic_functions_keep_the_labels() -> None:
    fitted = estimators.HFSRegressor(graph_penalty=0).fit(PATH, [-1, NAN, NAN, 5, NAN])
    np.testing.assert_allclose(fitted.transduction_, [-1, 1.4, 2.6, 5, NAN], atol=1e-6)


@each
@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([NAN] * 5, ValueError, "every entry of y is nan"),
        ([1, np.inf, NAN, NAN, 2], ValueError, "infinity"),
        ([1, NAN, NAN, 2], ValueError, "4"),
        ([[1, NAN]] * 5, ValueError, "column 1: every entry of y is nan"),
        ([[[1], [2]]] * 5, ValueError, "dim"),
        (["a", "b", "a", "b", "a"], TypeError, "values must be real numbers"),
        (None, ValueError, "requires y"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, Graph.from_adjacency])
def test_targets_that_pose_no_problem_are_refused(estimator, form, y, error, message) -> None:
    with pytest.raises(error, match=message):
        estimator().fit(form(PATH), y)


@each
def test_new_samples_take_the_mean_of_their_neighbors(estimator) -> None:
    points, numbers = make_friedman1(80, random_state=0)
    y = np.where(np.arange(80) % 2 == 0, numbers, NAN)
    fitted = estimator(affinity="knn", n_neighbors=4).fit(points, y)
    new = make_friedman1(20, random_state=1)[0]
    expected = harmonic_extension(points, new, fitted.transduction_[:, None], 4)
    np.testing.assert_allclose(fitted.predict(new), expected[:, 0], atol=1e-12)


@each
def test_no_number_is_invented_where_no_label_reaches(estimator) -> None:
    places = np.array([0.0, 1.0, 2.0, 7.0, 8.0, 9.0, 14.0, 15.0, 16.0])[:, None]
    y = [3.0, NAN, NAN, 4.0, NAN, NAN, NAN, NAN, NAN]
    fitted = estimator(affinity="knn", n_neighbors=2, graph_penalty=0.1).fit(places, y)
    np.testing.assert_allclose(fitted.transduction_, np.repeat([3, 4, NAN], 3), atol=1e-6)
    between = [[11.4], [11.6]]  # neighbors: 9, which is reached, and 14, which is not
    np.testing.assert_allclose(fitted.predict([*between, [15.0]]), [4, 4, NAN], atol=1e-6)


@each
def test_new_samples_need_features(estimator) -> None:
    with pytest.raises(ValueError, match="fit with affinity='knn'"):
        estimator().fit(PATH, [1, NAN, NAN, 2, NAN]).predict(PATH)


@each
def test_a_solve_that_stops_early_warns(estimator) -> None:
    points, numbers = make_friedman1(300, random_state=0)
    made = estimator(affinity="knn", graph_penalty=10.0, max_iter=1, rtol=1e-12)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        made.fit(points, np.where(np.arange(300) < 9, numbers, NAN))
    assert made.status_ is Status.MAX_ITER


@each
def test_a_copy_a_pickle_and_a_search(estimator) -> None:
    assert is_regressor(estimator())
    points, numbers = make_friedman1(200, noise=0.1, random_state=0)
    search = GridSearchCV(
        estimator(affinity="knn"),
        {"n_neighbors": np.array([3, 8]), "graph_penalty": np.array([1e-3, 10.0])},
        cv=3,
        error_score="raise",
    )
    search.fit(points, numbers)
    assert search.best_score_ > 0.3
    best = search.best_estimator_
    assert clone(best).get_params() == best.get_params()
    loaded = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(loaded.predict(points), search.predict(points))
