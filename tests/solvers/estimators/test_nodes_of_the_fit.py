"""Nodes by number or name, probabilities of scores, weights of samples, and tables of nodes."""

import pickle
from collections.abc import Iterator
from typing import Any

import networkx as nx
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.utils.validation import has_fit_parameter

import peewit
from peewit import (
    HFS,
    SVM,
    Auto,
    ClassifierOnGraph,
    FilteredRidge,
    HFSRegressor,
    LapRLSC,
    LinearSVM,
    StableHFS,
    filter_features,
)
from peewit.solvers import estimators
from peewit.solvers.assessment.calibration import CalibrationMetrics
from peewit.solvers.features import FeatureRows
from peewit.solvers.labels import Labels
from peewit.solvers.models.harmonic import harmonic
from peewit.streaming.calls.sparsify_call import Sparsified, sparsify

WEIGHING = {"DASVM", "LinearSVM", "TSVM"}


@pytest.fixture(scope="module")
def friends() -> Sparsified:
    return sparsify([("ann", "bob"), ("bob", "cid"), ("cid", "dan"), ("eve", "fay")])


@pytest.fixture(scope="module")
def blobs() -> tuple[Any, Any, Any]:
    """Points, their classes, and labels of some."""
    points, classes = make_blobs(120, centers=3, cluster_std=3.0, random_state=0)
    return points, classes, np.where(np.arange(120) % 3 == 0, classes, -1)


Y = ["west", "?", "?", "east", "?", "?"]


def named(model: Any) -> Any:
    return clone(model).set_params(unlabeled="?")


@pytest.mark.parametrize("model", [StableHFS(), HFS(), Auto()], ids=repr)
def test_nodes_of_a_graph_with_names_are_asked_for_by_name(model: Any, friends: Sparsified) -> None:
    fitted = pickle.loads(pickle.dumps(named(model).fit(friends, Y)))
    assert fitted.predict(nodes=["dan", "ann", "fay"]).tolist() == ["east", "west", "?"]
    with pytest.raises(ValueError, match="nodes of the graph, got 1 unknown, the first 'zoe'"):
        fitted.predict(nodes=["ann", "zoe"])
    with pytest.raises(ValueError, match="nodes of the graph, got 1 unknown, the first 0"):
        fitted.predict(nodes=[0])


def test_a_class_named_like_a_marker_is_told_of(friends: Sparsified) -> None:
    with pytest.warns(UserWarning, match=r"y has the class '\?'.*say unlabeled='\?' \(it is -1\)"):
        fitted = HFS().fit(friends, Y)
    assert fitted.classes_.tolist() == ["?", "east", "west"]


def test_nodes_of_a_graph_without_names_are_asked_for_by_number(friends: Sparsified) -> None:
    fitted = named(HFS()).fit(friends.adjacency, Y)
    assert fitted.predict(nodes=np.array([3, 0])).tolist() == ["east", "west"]
    assert np.array_equal(fitted.predict_proba(nodes=[3, 0]), fitted.label_distributions_[[3, 0]])
    for wrong, told in (
        ([6], r"nodes in \[0, 6\), got 6"),
        ([-1], r"nodes in \[0, 6\), got -1"),
        (["ann"], "no names of nodes, got"),
        ("ann", "a list or a vector of nodes, got 'ann'"),
    ):
        with pytest.raises(ValueError, match=told):
            fitted.predict(nodes=wrong)


def test_columns_of_a_data_frame_are_names_of_nodes(friends: Sparsified) -> None:
    names = friends.external_ids.to_pylist()
    frame = pl.DataFrame(friends.adjacency.toarray(), schema=names)
    fitted = named(StableHFS()).fit(frame, Y)
    assert fitted.predict(nodes=["dan"]).tolist() == ["east"]
    assert named(StableHFS()).fit(friends.adjacency, Y).predict(nodes=[3]).tolist() == ["east"]


def test_either_new_samples_or_nodes_are_given(blobs: tuple[Any, Any, Any]) -> None:
    points, _, y = blobs
    for model in (StableHFS(affinity="knn"), HFSRegressor(affinity="knn"), SVM(), FilteredRidge()):
        fitted = model.fit(points, y)
        assert np.array_equal(fitted.predict(nodes=[5, 2]), fitted.transduction_[[5, 2]])
        assert fitted.predict(points[:2]).shape == (2,)
        with pytest.raises(ValueError, match="got neither"):
            fitted.predict()
        with pytest.raises(ValueError, match="got both"):
            fitted.predict(points, nodes=[1])


def test_columns_are_predicted_side_by_side(friends: Sparsified) -> None:
    both = np.array([Y, ["?", "?", "x", "z", "?", "?"]]).T
    fitted = named(StableHFS()).fit(friends, both)
    assert fitted.predict(nodes=["ann", "cid"]).tolist() == [["west", "x"], ["east", "x"]]
    with pytest.raises(ValueError, match="y had 2 columns"):
        fitted.predictions()
    assert fitted.estimators_[1].predictions().table["node"].to_pylist()[2] == "cid"


@pytest.mark.parametrize("model", [StableHFS(), HFS()], ids=repr)
def test_predictions_are_a_table_with_names(model: Any, friends: Sparsified) -> None:
    fitted = named(model).fit(friends, Y)
    found = fitted.predictions()
    rows = {row["node"]: row for row in pl.DataFrame(found).to_dicts()}
    assert [row["label"] for row in rows.values()] == ["west", "west", "east", "east", None, None]
    assert [row["reachable"] for row in rows.values()] == [True] * 4 + [False] * 2
    kind = "probability" if isinstance(model, HFS) else "class score"
    scores = fitted.label_distributions_ if kind == "probability" else fitted.decision_
    assert found.score == kind
    name = "probability" if kind == "probability" else "score"
    assert [rows["ann"][f"{name}:east"], rows["ann"][f"{name}:west"]] == scores[0].tolist()
    assert rows["ann"][name] == scores[0].max()
    assert rows["ann"]["margin"] == scores[0, 1] - scores[0, 0]
    graph = friends.to_networkx(found)
    assert graph.nodes["bob"]["label"] == "west"
    assert "label" not in graph.nodes["eve"]


def test_predicted_numbers_are_a_table_too(friends: Sparsified) -> None:
    y = [0.0, np.nan, np.nan, 3.0, np.nan, np.nan]
    table = pa.table(HFSRegressor(graph_penalty=0).fit(friends, y).predictions())
    assert table["label"].to_pylist() == pytest.approx([0.0, 1.0, 2.0, 3.0, None, None], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", [StableHFS(affinity="knn"), LapRLSC(), FilteredRidge()], ids=repr)
def test_probabilities_of_scores_are_calibrated(model: Any) -> None:
    """Truer than a softmax of the scores, on labels that were not given."""
    images, digits = (part[:500] for part in load_digits(return_X_y=True))
    hidden = np.arange(500) >= 100
    y = np.where(hidden, -1, digits)
    fitted = clone(model).set_params(probabilities=True).fit(images, y)
    told = fitted.label_distributions_
    assert told.shape == (500, 10)
    assert np.allclose(told.sum(axis=1), 1.0)
    assert np.array_equal(fitted.predict_proba(nodes=[4, 2]), told[[4, 2]])
    assert np.allclose(fitted.predict_proba(images[:5]).sum(axis=1), 1.0)
    reached = fitted.reachable_
    assert np.array_equal(fitted.transduction_[reached], fitted.classes_[told.argmax(1)][reached])
    own = fitted.predict_proba(images[:20]).argmax(1)
    assert fitted.predict(images[:20]).tolist() == fitted.classes_[own].tolist()
    assert np.array_equal(fitted.decision_, clone(model).fit(images, y).decision_)
    softmax = np.exp(fitted.decision_)
    softmax /= softmax.sum(axis=1, keepdims=True)
    ours, plain = (
        CalibrationMetrics.of(each[hidden], digits[hidden].astype(np.int64))
        for each in (told, softmax)
    )
    assert ours.expected_calibration_error < 0.12 < plain.expected_calibration_error
    assert ours.brier_score < plain.brier_score
    scored = fitted.predictions()
    assert scored.score == "probability"
    assert scored.table["label"].to_pylist() == fitted.transduction_.tolist()
    assert min(filter(None, scored.table["margin"].to_pylist())) >= 0


def test_probabilities_at_nodes_that_no_label_reaches_are_the_prior(friends: Sparsified) -> None:
    y = ["west", "west", "?", "east", "?", "?"]
    fitted = named(StableHFS(probabilities=True)).fit(friends, y)
    assert fitted.predict_proba(nodes=["eve"]).tolist() == [pytest.approx([1 / 3, 2 / 3])]
    with pytest.raises(ValueError, match="a class with two labels or more"):
        named(StableHFS(probabilities=True)).fit(friends, Y)


def test_scores_are_no_probabilities_unless_asked_to_be(blobs: tuple[Any, Any, Any]) -> None:
    points, _, y = blobs
    fitted = SVM().fit(points, y)
    assert not hasattr(fitted, "predict_proba")
    assert not hasattr(fitted, "label_distributions_")
    again = fitted.set_params(probabilities=True).fit(points, y)
    assert again.label_distributions_.shape == (120, 3)
    assert not hasattr(again.set_params(probabilities=False).fit(points, y), "label_distributions_")
    linear = LinearSVM(scores="probability").fit(points, y)
    assert np.array_equal(linear.predict_proba(nodes=[7]), linear.label_distributions_[[7]])


@pytest.mark.parametrize("name", estimators.__all__)
def test_weights_are_heeded_or_refused_by_name(name: str, blobs: tuple[Any, Any, Any]) -> None:
    points, _, y = blobs
    model = getattr(peewit, name)()
    assert has_fit_parameter(model, "sample_weight") == (name in WEIGHING)
    if name not in WEIGHING:
        with pytest.raises(TypeError, match=f"^{name} cannot weigh samples, got sample_weight"):
            model.fit(points, y, sample_weight=np.ones(120))
    with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weights'"):
        model.fit(points, y, sample_weights=np.ones(120))


@pytest.mark.parametrize("class_costs", ["equal", "balanced"])
def test_a_weight_is_so_many_equal_samples(blobs: tuple[Any, Any, Any], class_costs: Any) -> None:
    points, classes, _ = blobs
    weights = np.random.default_rng(0).integers(0, 4, 120)
    model = LinearSVM(norm_penalty=0.1, row_length="given", class_costs=class_costs)
    weighed = model.fit(points, classes, sample_weight=weights).decision_function(points)
    repeated = clone(model).fit(np.repeat(points, weights, 0), np.repeat(classes, weights))
    assert np.allclose(weighed, repeated.decision_function(points), atol=1e-4)
    assert not np.allclose(weighed, clone(model).fit(points, classes).decision_, atol=1e-2)


def test_wrong_weights_are_refused(blobs: tuple[Any, Any, Any]) -> None:
    points, classes, y = blobs
    model = LinearSVM()
    for weights, told in (
        (np.ones(7), r"must have shape \(120,\), got \(7,\)"),
        (np.full(120, -1.0), "finite and >= 0"),
        (np.where(classes == 0, 1.0, 0.0), "one class only"),
    ):
        with pytest.raises(ValueError, match=told):
            model.fit(points, y, sample_weight=weights)
    assert not hasattr(model, "_sample_weight")


def test_models_refuse_weights_of_labels_that_they_do_not_heed(friends: Sparsified) -> None:
    labels = Labels(
        nodes=np.array([0, 3]),
        classes=np.array([0, 1]),
        class_names=("east", "west"),
        weights=np.array([1.0, 2.0]),
    )
    assert labels.subset(np.array([0, 1])).weights is not None
    model = harmonic.StableHFS()
    with pytest.raises(ValueError, match="StableHFS weighs no labels"):
        model.solve(model.prepare(friends.graph), labels)


def test_a_graph_of_networkx_is_sent_through_what_keeps_its_names() -> None:
    graph = nx.path_graph(["ann", "bob", "cid"])
    for estimator, y in (HFS(), ["west", None, "east"]), (HFSRegressor(), {"ann": 1.0, "cid": 2.0}):
        with pytest.raises(TypeError, match=r"got one of networkx; give peewit.sparsify\(X\)"):
            estimator.fit(graph, y)
    fitted = HFS(unlabeled=None).fit(sparsify(graph), ["west", None, "east"])
    assert fitted.predict(nodes=["cid"]).tolist() == ["east"]


class Series:
    """What a Series of pandas is to a caller: values, and the nodes that they are of."""

    ndim = 1

    def __init__(self, values: list[object], index: list[object]) -> None:
        self.values, self.index = values, index

    def __iter__(self) -> Iterator[object]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.values, dtype)


TRIANGLES = [("a", "b"), ("b", "c"), ("c", "a"), ("x", "y"), ("y", "z"), ("z", "x"), ("a", "x")]


@pytest.mark.parametrize("known", [{"a": "left", "x": "right"}, {"x": 2, "a": 1}])
def test_labels_are_given_by_the_names_of_nodes(known: dict[str, object]) -> None:
    graph = sparsify(TRIANGLES)
    names = graph.external_ids.to_pylist()
    y = np.array([known.get(name, -1) for name in names], object)
    expected = StableHFS().fit(graph, y if isinstance(known["a"], str) else y.astype(int))
    for given in (known, Series(list(known.values()), list(known))):
        found = StableHFS().fit(graph, given)
        assert found.predictions().table == expected.predictions().table
        assert found.predict(nodes=["b", "z"]).tolist() == [known["a"], known["x"]]


def test_numbers_are_given_by_the_names_of_nodes() -> None:
    graph = sparsify(TRIANGLES)
    found = HFSRegressor().fit(graph, {"a": 1.0, "x": 3.0})
    near, far = found.predict(nodes=["b", "z"])
    assert 1.0 <= near < 2.0 < far <= 3.0


def test_labels_of_nodes_that_are_none_are_refused() -> None:
    with pytest.raises(
        ValueError, match="y must name nodes of the graph, got 1 unknown, the first 'q'"
    ):
        StableHFS().fit(sparsify(TRIANGLES), {"a": 1, "q": 2})
    square = np.ones((3, 3)) - np.eye(3)
    with pytest.raises(ValueError, match=r"y must name nodes in \[0, 3\), got 7"):
        StableHFS().fit(square, {0: 1, 7: 2})
    assert StableHFS().fit(square, {0: 1, 2: 2}).predict(nodes=[0, 2]).tolist() == [1, 2]


def test_a_series_beside_rows_of_features_goes_by_place(blobs: tuple[Any, Any, Any]) -> None:
    points, _, y = blobs
    frame = pl.DataFrame(points, schema=["one", "two"])
    shuffled = Series(y.tolist(), list(range(1000, 1000 + len(y))))  # as of a part of other rows
    found = Auto(affinity="knn").fit(frame, shuffled)
    expected = Auto(affinity="knn").fit(frame, y)
    assert np.array_equal(found.transduction_, expected.transduction_)


ROWS = {"a": [0.0, 1.0], "x": [5.0, 1.0], "z": [6.0, 2.0], "b": [1.0, 0.0], "c": [0.5, 0.5]}
KNOWN = {"a": "left", "x": "right", "z": "right", "b": "left"}


def by_name(rows: dict[str, list[float]]) -> pl.DataFrame:
    """Features beside the names of their nodes, as in tables of the service."""
    table = {"node": list(rows), "one": [row[0] for row in rows.values()]}
    return pl.DataFrame(table | {"two": [row[1] for row in rows.values()]})


def in_order(graph: Any) -> FeatureRows:
    names = graph.external_ids.to_pylist()
    nodes = np.array([place for place, name in enumerate(names) if name in ROWS])
    return FeatureRows(values=np.array([ROWS[names[node]] for node in nodes]), nodes=nodes)


@pytest.mark.parametrize("model", [Auto(), ClassifierOnGraph()], ids=repr)
def test_features_are_given_by_the_names_of_nodes(model: Any) -> None:
    graph = sparsify(TRIANGLES)
    found = clone(model).fit(graph, KNOWN, features=by_name(ROWS))
    expected = clone(model).fit(graph, KNOWN, features=in_order(graph))
    assert found.predictions().table == expected.predictions().table
    if isinstance(found, ClassifierOnGraph):  # two of sizes and of walks, and one whose rows are
        assert found.stats_["n_columns"] == 2 + 2 * (2 + 1) + 2
    with pytest.raises(ValueError, match=r"features must have rows of nodes .* first 'q'"):
        clone(model).fit(graph, KNOWN, features=by_name(ROWS | {"q": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="must have one row of each node, got several of 'c'"):
        clone(model).fit(graph, KNOWN, features=pl.concat([by_name(ROWS), by_name(ROWS)[-1:]]))


def test_smoothed_features_are_given_by_the_names_of_nodes() -> None:
    graph = sparsify(TRIANGLES)
    found, expected = (filter_features(graph, each) for each in (by_name(ROWS), in_order(graph)))
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("model", [FilteredRidge(), LinearSVM(), LapRLSC(), SVM()], ids=repr)
def test_samples_are_nodes_where_rows_have_names(model: Any) -> None:
    graph = sparsify(TRIANGLES)
    found = clone(model).fit(by_name(ROWS), KNOWN, graph=graph)
    assert found.transduction_.shape == (6,)
    assert found.predict(nodes=["c", "z"]).tolist() == ["left", "right"]
    assert found.predict(by_name(ROWS).drop("node")).tolist()[:2] == ["left", "right"]
    by_row = [KNOWN.get(name, -1) for name in ROWS]
    by_table = pl.DataFrame(TRIANGLES, schema=["src", "dst"], orient="row")
    for y, source in ((by_row, graph), (KNOWN, by_table)):
        again = clone(model).fit(by_name(ROWS), y, graph=source)
        assert again.predictions().table == found.predictions().table


def test_weights_of_named_rows_are_those_of_their_nodes() -> None:
    graph, weights = sparsify(TRIANGLES), [1.0, 3.0, 0.0, 2.0, 1.0]
    found = LinearSVM().fit(by_name(ROWS), KNOWN, graph=graph, sample_weight=weights)
    features = np.array([ROWS.get(name, [0.0, 0.0]) for name in "abcxyz"])
    y = [KNOWN.get(name, -1) for name in "abcxyz"]
    expected = LinearSVM().fit(features, y, sample_weight=[1.0, 2.0, 1.0, 3.0, 1.0, 0.0])
    assert found.predict(nodes=["y"]).tolist() == [-1]  # of no features, and edges count nothing
    known = np.array([0, 1, 2, 3, 5])
    assert found.predict(nodes=list("abcxz")).tolist() == expected.transduction_[known].tolist()


def test_rows_in_the_order_of_nodes_take_labels_by_name(friends: Sparsified) -> None:
    points = np.array([[-1.0], [-0.9], [0.9], [1.0], [-1.0], [1.0]])
    found = FilteredRidge().fit(points, {"ann": "west", "dan": "east"}, graph=friends)
    assert found.predict(nodes=["bob", "fay"]).tolist() == ["west", "east"]
    edges = pl.DataFrame({"src": ["ann"], "dst": ["bob"]})
    with pytest.raises(ValueError, match="X must name the node of each row"):
        FilteredRidge().fit(points[:2], [1, 2], graph=edges)


def test_frames_of_pandas_are_matched_by_their_index() -> None:
    pandas = pytest.importorskip("pandas")
    graph, frame = sparsify(TRIANGLES), pandas.DataFrame.from_dict(ROWS, orient="index")
    frame.columns = ["one", "two"]
    expected = Auto().fit(graph, KNOWN, features=in_order(graph)).predictions().table
    mixed = frame.assign(one=frame["one"].astype("Float64"))
    for features in (frame, frame.rename_axis("node").reset_index(), mixed):
        found = Auto().fit(graph, pandas.Series(KNOWN), features=features)
        assert found.predictions().table == expected
    found = FilteredRidge().fit(frame, pandas.Series(KNOWN), graph=graph)
    assert found.predict(nodes=["c", "z"]).tolist() == ["left", "right"]


@pytest.mark.parametrize("table", [pl.DataFrame, pa.table])
def test_columns_that_are_no_numbers_are_named_with_the_way_out(table: Any) -> None:
    words = {"age": [1, 2], "town": ["Rome", "Oslo"], "old": [True, False], "job": ["a", None]}
    square = np.ones((2, 2)) - np.eye(2)
    told = r"{} must hold numbers, got none in column 'town', 'job'; .* skrub.TableVectorizer"
    for model in (Auto(), ClassifierOnGraph()):
        with pytest.raises(ValueError, match=told.format("features")):
            model.fit(square, [1, 2], features=table(words))
    for model in (Auto(affinity="knn", n_neighbors=1), FilteredRidge(n_neighbors=1)):
        with pytest.raises(ValueError, match=told.format("X")):
            model.fit(table(words), [1, 2])
    with pytest.raises(ValueError, match=r"X must be a square .* has columns src and dst"):
        Auto().fit(pl.DataFrame({"id_1": [1, 2, 3], "id_2": [2, 3, 1]}), {1: "a", 3: "b"})
    with pytest.raises(ValueError, match=r"none in column 'from', 'to'.* has columns src and dst"):
        HFS().fit(table({"from": ["a", "b"], "to": ["c", "d"]}), {"a": 1, "b": 2})


LOGINS = {"user": [1, 2, 3, 4], "device": ["a", "a", "b", "b"]}


@pytest.mark.parametrize("model", [StableHFS(), Auto(), HFSRegressor()], ids=repr)
def test_predictions_are_of_the_kinds_that_have_labels(model: Any) -> None:
    graph = sparsify(pa.table(LOGINS), src="account:user", dst="device:device")
    fitted = clone(model).fit(graph, {"account:1": 0, "account:4": 1})
    rows = fitted.predictions().table
    assert rows.column_names[:4] == ["node", "kind", "id", "label"]
    assert rows["node"].to_pylist() == [f"account:{user}" for user in (1, 2, 3, 4)]
    assert set(rows["kind"].to_pylist()) == {"account"}
    assert rows["id"].to_pylist() == ["1", "2", "3", "4"]
    devices = fitted.predictions(kinds="device").table
    assert devices["node"].to_pylist() == ["device:a", "device:b"]
    assert fitted.predictions(kinds=["device", "account"]).table.num_rows == 6
    with pytest.raises(ValueError, match="kinds must be kinds of nodes, account, device, got 'c'"):
        fitted.predictions(kinds="c")


def test_class_sizes_are_those_of_the_kinds_that_have_labels() -> None:
    graph = sparsify(pa.table(LOGINS), src="account:user", dst="device:device")
    fitted = ProbeOfLabels().fit(graph, {"account:1": 0, "account:4": 1})
    names = graph.external_ids.to_pylist()
    assert fitted.among == [name.startswith("account:") for name in names]


class ProbeOfLabels(StableHFS):
    """Keeps which nodes are asked about."""

    def _learn(self, prepared: Any, targets: Any, solution: Any) -> None:
        self.among = targets.labels.among.tolist()
        super()._learn(prepared, targets, solution)


def test_kinds_are_refused_where_nodes_have_none(friends: Sparsified) -> None:
    fitted = named(HFS()).fit(friends, Y)
    assert "kind" not in fitted.predictions().table.column_names
    with pytest.raises(ValueError, match="must be left out where not all nodes are named KIND:ID"):
        fitted.predictions(kinds="account")
