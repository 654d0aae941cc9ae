"""Predictors: written and read whole, equal to what was solved, removed with the predictions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from peewit.service.predictions.checked_points import checked_points
from peewit.service.predictions.prediction_files import (
    PredictionFile,
    class_columns,
    label_values,
    predictor_path,
    score_column,
)
from peewit.service.predictions.predictors import inductive_models, read_functions, write_predictor
from peewit.service.tables.uploads import json_point_batches
from peewit.solvers.features import FeatureRows
from peewit.solvers.gram.kernel_functions import KERNELS, KernelFunction, KernelName
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge
from peewit.streaming.features.checked_tables import BadFeatures
from tests.service.solvable import (
    graphs_within,
    parity_features,
    publish_features,
    publish_snapshot,
    two_communities,
)
from tests.service.tasks.solving.test_solve import MEMORY_BYTES, solved, task

N_NODES = 60
THREE: dict[str, str | int] = {"n4": 10, "n36": 10, "n7": 20, "n33": 20, "n8": 30, "n10": 30}
TWO: dict[str, str | int] = {"n4": "even", "n36": "even", "n7": "odd", "n33": "odd"}


OTHERS = ["cheeger-rls", "cheeger-svm", "filtered-ridge", "tv-rls", "tv-svm"]
"""Models that score nodes by more than functions of their features."""

ON_SIMPLEX = ["lap-rls", "lap-svm"]
"""Models that do so up to ``rtol``, of more than two classes."""


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_is_written_is_read_again(tmp_path: Path, kernel: KernelName, is_sparse: bool) -> None:
    rng = np.random.default_rng(0)
    given: Any = rng.normal(size=(20, 4)) * (rng.random((20, 4)) < 0.5)
    rows = FeatureRows.of(sp.csr_array(given) if is_sparse else given, 20)
    fitted = KernelFunction.fitted(kernel, rows, width=None, degree=3)
    space = DenseGram.of(fitted, rows, np.float64)
    functions = space.expansion(rng.normal(size=(20, 2)), np.array([0.5, -0.5]))
    path = tmp_path / "sub" / "a.npz"
    write_predictor(path, functions)
    again = read_functions(path)
    degree = 4 if kernel == "wendland" else 3  # of four columns
    assert (again.kernel.name, again.kernel.degree) == (kernel, degree)
    points = rng.normal(size=(5, 4))
    np.testing.assert_array_equal(again.values(points), functions.values(points))
    assert [each.name for each in path.parent.iterdir()] == ["a.npz"]


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("labels", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        *((model, {}) for model in inductive_models() if model not in OTHERS + ON_SIMPLEX),
        *((model, {"rtol": 1e-6, "max_iter": 20_000}) for model in ON_SIMPLEX),
        ("lapsvm", {"gram": "sparse", "n_nearest": 20}),
        ("laprlsc", {"gram": "sparse", "kernel": "wendland", "width": 1.0}),
        *((model, {"kernel": "linear", "bias": "free"}) for model in ("lapsvm", "svm", "rlsc")),
        ("laprlsc", {"kernel": "linear", "bias": "free"}),
        *((model, {"scores": "probability"}) for model in ("linear-svm", "tsvm", "da-svm")),
        ("linear-svm", {"row_length": "given", "constant": 2.0}),
    ],
    ids=str,
)
def test_training_rows_are_predicted_as_they_were_solved(
    tmp_path: Path, model: str, parameters: dict[str, Any], labels: dict[str, str | int]
) -> None:
    directory, points = tmp_path / "g", parity_features(N_NODES)
    publish_snapshot(directory, 1, *two_communities())
    publish_features(directory, 1, points)
    asked = task(directory, labels, model=model, parameters=parameters)
    solver = graphs_within(MEMORY_BYTES)
    result = solved(solver, replace(asked, features_version=1)).result
    assert result["inductive"]
    file = PredictionFile(directory / "predictions" / result["file"])
    functions = read_functions(predictor_path(file.path))
    scores = functions.class_scores(points)
    names = label_values(file.meta.class_names)
    told = class_columns(names, scores, np.ones(N_NODES, bool), score_column(file.meta.score))
    stored = file.table()
    assert told["label"].to_pylist() == stored["label"].to_pylist()
    for name in set(told) - {"label"}:
        np.testing.assert_allclose(told[name], stored[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_filtered_ridge_predicts_points_by_features_as_nodes_without_edges(
    tmp_path: Path, is_sparse: bool
) -> None:
    points = parity_features(N_NODES)
    u, v = two_communities()
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=N_NODES)
    model, labels = FilteredRidge(), Labels.from_pairs([4, 36, 7, 33], ["a", "a", "b", "b"])
    prepared = model.prepare(graph, points)
    solution = model.solve(prepared, labels)
    assert solution.functions is not None
    write_predictor(tmp_path / "a.npz", solution.functions.trimmed())
    given = sp.csr_array(points) if is_sparse else points
    scores = read_functions(tmp_path / "a.npz").class_scores(given)
    no_edges = np.zeros((len(points), N_NODES))
    expected = model.predict(prepared, solution, points, no_edges)
    np.testing.assert_allclose(scores, expected, atol=1e-6)


def test_a_point_of_zeros_has_no_features_after_it_is_read_either(tmp_path: Path) -> None:
    points = parity_features(N_NODES) + 1.0
    u, v = two_communities()
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=N_NODES)
    model, labels = FilteredRidge(teleport=0.5), Labels.from_pairs([4, 36, 7], ["a", "a", "b"])
    functions = model.solve(model.prepare(graph, points), labels).functions
    assert functions is not None
    write_predictor(tmp_path / "a.npz", functions)
    nothing = np.zeros((1, points.shape[1]))
    read = read_functions(tmp_path / "a.npz").class_scores(nothing)
    np.testing.assert_allclose(read, functions.class_scores(nothing))
    np.testing.assert_allclose(read[0], functions.weights[-1])


@pytest.mark.parametrize(("model", "version"), [("svm", 0), ("nearest-neighbor", 1), ("hfs", 1)])
def test_no_features_or_no_functions_are_no_predictor(
    tmp_path: Path, model: str, version: int
) -> None:
    directory = tmp_path / "g"
    publish_snapshot(directory, 1, *two_communities())
    publish_features(directory, 1, parity_features(N_NODES))
    asked = replace(task(directory, TWO, model=model), features_version=version)
    assert not solved(graphs_within(MEMORY_BYTES), asked).result["inductive"]
    suffixes = {path.suffix for path in (directory / "predictions").iterdir()}
    assert suffixes == {".arrow", ".labels"}


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[1.0, 2.0]], "must hold 3 numbers, as those the model was trained on, got 2 in row 0"),
        ([[1.0, 2.0, 3.0], [1.0]], "must hold 3 numbers in every row, .* got 1 in row 1"),
        ([[1.0, 2.0, None]], "'features' must not hold null, got null in row 0"),
        ([[1.0, 2.0, 1e300]], r"finite numbers as 32-bit floats, got 1e\+300 in row 0"),
    ],
)
def test_dense_points_that_do_not_fit_are_refused(points: list[Any], message: str) -> None:
    batches = json_point_batches([{"features": each} for each in points], "string")
    with pytest.raises(BadFeatures, match=message):
        checked_points(batches, n_columns=3, model="svm")


def test_rows_are_counted_over_all_batches() -> None:
    good = pa.record_batch({"features": [[1.0, 2.0, 3.0]] * 4})
    bad = pa.record_batch({"features": [[1.0, 2.0, 3.0], [1.0, np.nan, 3.0]]})
    with pytest.raises(BadFeatures, match="got nan in row 5"):
        checked_points([good, good.slice(0, 0), bad], n_columns=3, model="svm")


def test_sparse_points_have_the_columns_of_the_model() -> None:
    rows = [{"indices": [1], "values": [2.0]}, {"indices": [], "values": []}]
    (block,) = checked_points(json_point_batches(rows, "string"), n_columns=3, model="svm")
    np.testing.assert_array_equal(block.features.toarray(), [[0, 2, 0], [0, 0, 0]])
    beyond = [*rows, {"indices": [0, 3], "values": [1.0, 1.0]}]
    with pytest.raises(BadFeatures, match=r"must lie in \[0, 2\], .* got 3 in row 2"):
        checked_points(json_point_batches(beyond, "string"), n_columns=3, model="svm")
