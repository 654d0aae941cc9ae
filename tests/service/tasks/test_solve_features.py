"""Solving with features of nodes: which are used, what is kept warm, and nodes that have none."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.tasks.solving.solve import SolveTask
from peewit.service.tasks.tasks_and_messages import Done, Failed
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.service.worker.task_runner import run_task
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.streaming.features.store import FeaturesNotFound, FeatureStore, NewRows
from peewit.streaming.graph_paths import GraphPaths
from tests.service.solvable import (
    graphs_within,
    parity_features,
    publish_features,
    publish_snapshot,
)
from tests.service.tasks.solving.test_solve import (
    MEMORY_BYTES,
    context_with,
    run,
    solved,
    task,
    two_communities,
)

N_NODES = 60
BY_PARITY: dict[str, str | int] = {"n4": "even", "n36": "even", "n7": "odd", "n33": "odd"}
ON_POINTS = sorted(name for name, model in CATALOGUE.items() if model.uses_features)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two communities, and features that tell even nodes from odd ones instead."""
    publish_snapshot(tmp_path / "g", 1, *two_communities())
    publish_features(tmp_path / "g", 1, parity_features(N_NODES))
    return tmp_path / "g"


def asked_of(directory: Path, model: str = "svm", version: int = 1, **options: Any) -> SolveTask:
    asked = task(directory, BY_PARITY, model=model)
    return replace(asked, features_version=version, **options)


def table(directory: Path, answer: Done) -> Any:
    return PredictionFile(directory / "predictions" / answer.result["file"]).table()


@pytest.mark.parametrize("model", ON_POINTS)
def test_models_of_points_use_features_where_there_are_some(
    directory: Path, solver: WarmGraphs, model: str
) -> None:
    result = solved(solver, asked_of(directory, model)).result
    assert (result["input"], result["n_without_features"]) == ("features", 0)
    assert (result["features_version"], result["stats"]["input"]) == (1, "features")


def test_answers_follow_the_features(directory: Path, solver: WarmGraphs) -> None:
    found = table(directory, solved(solver, asked_of(directory)))
    node = np.array([int(name[1:]) for name in found["node"].to_pylist()])
    expected = np.where(node % 2 == 0, "even", "odd").tolist()
    assert found["label"].to_pylist() == expected


def test_without_features_the_embedding_serves(directory: Path, solver: WarmGraphs) -> None:
    result = solved(solver, asked_of(directory, version=0)).result
    assert (result["input"], result["features_version"]) == ("spectral embedding", 0)


def test_models_of_graphs_take_no_features(directory: Path, solver: WarmGraphs) -> None:
    result = solved(solver, asked_of(directory, "hfs")).result
    assert (result["input"], result["features_version"]) == ("graph", 0)


def test_nodes_without_features_get_no_label(directory: Path, solver: WarmGraphs) -> None:
    without = [5, 6, 50]
    some = np.delete(np.arange(N_NODES), without)
    publish_features(directory, 2, parity_features(N_NODES)[some], nodes=some)
    answer = solved(solver, asked_of(directory, version=2))
    assert answer.result["n_without_features"] == answer.result["n_unreachable"] == 3
    found = table(directory, answer)
    reachable = found["reachable"].to_numpy()
    np.testing.assert_array_equal(np.flatnonzero(~reachable), without)
    assert [found["label"][node].as_py() for node in without] == [None] * 3
    odd = found["score:odd"].to_numpy()
    np.testing.assert_allclose(odd[without], odd[reachable].mean(), rtol=1e-5)


def test_features_of_nodes_newer_than_the_snapshot_wait(
    directory: Path, solver: WarmGraphs
) -> None:
    publish_features(directory, 2, parity_features(N_NODES + 5))
    result = solved(solver, asked_of(directory, version=2)).result
    assert (result["n_nodes"], result["n_without_features"]) == (N_NODES, 0)


def test_new_features_drop_what_was_prepared_with_others_and_nothing_else(
    directory: Path, solver: WarmGraphs
) -> None:
    publish_features(directory, 2, -parity_features(N_NODES))
    assert not solved(solver, asked_of(directory)).result["warm"]
    assert not solved(solver, asked_of(directory, "hfs")).result["warm"]
    assert solved(solver, asked_of(directory)).result["warm"]
    changed = solved(solver, asked_of(directory, version=2))
    assert not changed.result["warm"]
    assert solved(solver, asked_of(directory, "hfs", version=2)).result["warm"]
    fresh = solved(graphs_within(MEMORY_BYTES), asked_of(directory, version=2))
    np.testing.assert_allclose(
        table(directory, changed)["score"], table(directory, fresh)["score"], rtol=1e-5
    )


def test_a_changed_label_stays_warm(directory: Path, solver: WarmGraphs) -> None:
    solved(solver, asked_of(directory, "lapsvm"))
    more = task(directory, BY_PARITY | {"n8": "even"}, model="lapsvm")
    assert solved(solver, replace(more, features_version=1)).result["warm"]


def test_features_that_were_removed_are_another_attempts_to_find(
    directory: Path, solver: WarmGraphs
) -> None:
    shutil.rmtree(directory / "features")
    with pytest.raises(FeaturesNotFound, match="no features_version 1, none is kept"):
        run(solver, asked_of(directory))
    answer = run_task(asked_of(directory), context_with(solver))
    assert isinstance(answer, Failed)
    assert answer.retry


def test_no_node_with_features_is_an_error_that_says_so(
    directory: Path, solver: WarmGraphs
) -> None:
    beyond = np.arange(N_NODES, N_NODES + 4)
    publish_features(directory, 2, parity_features(4), nodes=beyond)
    with pytest.raises(ValueError, match="none of the 60 nodes has features; add some"):
        run(solver, asked_of(directory, version=2))


@pytest.mark.parametrize("model", ["linear-svm", "tsvm", "da-svm"])
def test_sparse_rows_are_read_where_they_are_mapped(
    directory: Path, solver: WarmGraphs, model: str
) -> None:
    dense = parity_features(N_NODES)
    sparse = sp.csr_array(np.where(np.abs(dense) > 0.1, dense, 0.0))
    rows = NewRows(
        nodes=np.arange(N_NODES),
        n_columns=sparse.shape[1],
        lengths=np.diff(sparse.indptr).astype(np.int64),
        blocks=[sparse],
    )
    FeatureStore(GraphPaths(root=directory).features).publish(2, rows, created_at=0.0)
    answer = solved(solver, asked_of(directory, model, version=2))
    assert answer.result["stats"]["rows"] == "mapped"
    found = table(directory, answer)
    node = np.array([int(name[1:]) for name in found["node"].to_pylist()])
    expected = np.where(node % 2 == 0, "even", "odd")
    assert np.mean(np.array(found["label"].to_pylist()) == expected) > 0.95


def test_what_few_labels_cannot_tell_is_a_warning_of_the_job(
    directory: Path, solver: WarmGraphs
) -> None:
    warning = solved(solver, asked_of(directory, "tsvm")).result["warning"]
    assert "the share of each class is taken from 4 labels, to within 0.25" in warning
    known = asked_of(directory, "tsvm", parameters={"class_balance": {"even": 1, "odd": 1}})
    assert solved(solver, known).result["warning"] is None


def test_probabilities_are_told_as_such(directory: Path, solver: WarmGraphs) -> None:
    asked = asked_of(directory, "linear-svm", parameters={"scores": "probability"})
    answer = solved(solver, asked)
    file = PredictionFile(directory / "predictions" / answer.result["file"])
    assert file.meta.score == "probability"
    score = file.table()["probability"].to_numpy()
    assert ((score >= 0.5) & (score <= 1.0)).all()
