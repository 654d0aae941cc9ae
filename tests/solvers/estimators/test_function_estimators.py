"""Estimators of the total variation family: functions of features predict new samples."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from peewit.solvers import estimators
from peewit.solvers.estimators import TVRLS, CheegerSVM, LapRLS
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from peewit.streaming.calls.sparsify_call import sparsify

NAMES = ["TVRLS", "TVSVM", "CheegerRLS", "CheegerSVM", "LapRLS", "SimplexLapSVM"]
of_family = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images of 0 to 3 in units of 1, their digits, and labels of ten each."""
    images, digits = load_digits(n_class=4, return_X_y=True)
    y = np.full(digits.size, -1)
    for digit in range(4):
        some = np.flatnonzero(digits == digit)[:10]
        y[some] = digit
    return images / 16.0, digits, y


@of_family
def test_functions_of_features_are_those_of_the_model(name, digits) -> None:
    images, _, y = digits
    seen, new = slice(0, 500), slice(500, None)
    fitted = getattr(estimators, name)(affinity="knn").fit(images[seen], y[seen], images[seen])
    model = type(fitted)._model()
    prepared = model.prepare(neighbor_graph(images[seen], 10), images[seen])
    labels = fitted._targets.labels
    expected = model.predict(prepared, model.solve(prepared, labels), images[new])
    np.testing.assert_allclose(fitted.decision_function(images[new]), expected, atol=1e-9)
    assert fitted.stats_["input"] == "features"


@of_family
def test_new_images_are_read_by_features_as_by_neighbors(name, digits) -> None:
    images, truth, y = digits
    seen, new = slice(0, 500), slice(500, None)
    alone = getattr(estimators, name)(affinity="knn").fit(images[seen], y[seen])
    featured = clone(alone).fit(images[seen], y[seen], images[seen])
    assert alone.stats_["input"] == "graph"
    assert alone.score(images[new], truth[new]) > 0.9
    assert featured.score(images[new], truth[new]) > 0.9


def test_features_stand_beside_a_graph_that_is_given(digits) -> None:
    images, truth, y = digits
    graph = neighbor_graph(images[:500], 10)
    fitted = TVRLS().fit(graph, y[:500], images[:500])
    assert np.mean(fitted.predict(images[500:]) == truth[500:]) > 0.9
    with pytest.raises(ValueError, match="new samples need a fit with affinity='knn'"):
        TVRLS().fit(graph, y[:500]).predict(images[500:])
    with pytest.raises(ValueError, match="must have 64 columns"):
        fitted.predict(images[500:, :63])


def test_columns_of_frames_keep_their_order(digits) -> None:
    images, _, y = digits
    frame = pd.DataFrame(images[:500]).rename(columns=str)
    fitted = LapRLS(affinity="knn").fit(frame, y[:500], frame)
    new = pd.DataFrame(images[500:]).rename(columns=str)
    expected = LapRLS(affinity="knn").fit(images[:500], y[:500], images[:500])
    assert np.array_equal(fitted.predict(new), expected.predict(images[500:]))
    with pytest.raises(ValueError, match="X must have the columns of the features"):
        fitted.predict(new[new.columns[::-1]])


def test_nodes_without_a_row_have_no_features() -> None:
    rng = np.random.default_rng(0)
    names = [f"n{number}" for number in range(60)]
    points = np.where(np.arange(60)[:, None] < 30, -1.0, 1.0) + 0.1 * rng.normal(size=(60, 2))
    src = rng.integers(0, 30, 400) + 30 * rng.integers(0, 2, 400)
    dst = (src // 30) * 30 + rng.integers(0, 30, 400)
    edges = pd.DataFrame({"src": np.take(names, src), "dst": np.take(names, dst)})
    graph = sparsify(edges[edges.src != edges.dst])
    features = pd.DataFrame(points[:50], index=names[:50], columns=["a", "b"])
    fitted = CheegerSVM().fit(graph, {"n1": "left", "n31": "right"}, features)
    assert fitted.predict([[-1.0, -1.0], [1.0, 1.0]]).tolist() == ["left", "right"]
    assert fitted.predict(nodes=["n2", "n40"]).tolist() == ["left", "right"]


@of_family
def test_probabilities_of_new_samples_are_given_where_functions_score_nodes(name, digits) -> None:
    images, truth, y = digits
    made = getattr(estimators, name)(affinity="knn", probabilities=True)
    fitted = made.fit(images[:500], y[:500], images[:500])
    assert fitted.score(images[500:], truth[500:]) > 0.9
    if name.startswith("Lap") or name == "SimplexLapSVM":
        found = fitted.predict_proba(images[500:])
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert np.array_equal(fitted.classes_[found.argmax(axis=1)], fitted.predict(images[500:]))
    else:
        with pytest.raises(ValueError, match="no probabilities of new samples: its probabilities"):
            fitted.predict_proba(images[500:])
    alone = made.fit(images[:500], y[:500])
    np.testing.assert_allclose(alone.predict_proba(images[500:]).sum(axis=1), 1.0)


def test_the_family_is_whole() -> None:
    models = {type(getattr(estimators, name)()._model()) for name in NAMES}
    of_kernels = {"tv-rls", "tv-svm", "cheeger-rls", "cheeger-svm", "lap-rls", "lap-svm"}
    assert models == {CATALOGUE[name] for name in of_kernels}
