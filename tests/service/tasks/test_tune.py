"""Jobs that choose hyperparameters: what they may be asked, and what a child answers."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peewit.service.tasks.solving.solve_options import validate_solve
from peewit.service.tasks.tasks_and_messages import Done, Failed, TaskStopped
from peewit.service.tasks.tune import TuneKind, TuneTask, validate_tune
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.service.worker.task_runner import run_task
from peewit.solvers.assessment.tuning import PENALTIES
from peewit.solvers.models.machines.lapsvm import LapSVM
from tests.service.solvable import parity_features, publish_features, publish_snapshot
from tests.service.tasks.solving.test_solve import context_with, task, two_communities

LABELS: dict[str, str | int] = {
    f"n{node}": "even" if node % 2 == 0 else "odd" for node in range(24)
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two communities, and features that tell even nodes from odd ones instead."""
    publish_snapshot(tmp_path / "g", 1, *two_communities())
    publish_features(tmp_path / "g", 1, parity_features(60))
    return tmp_path / "g"


def asked_of(
    directory: Path, labels: Any = None, model: str = "lapsvm", **parameters: Any
) -> TuneTask:
    asked = task(directory, LABELS if labels is None else labels, model=model)
    fields = asdict(asked) | {"parameters": parameters, "features_version": 1}
    return TuneTask(**fields | {"nodes": asked.nodes})


def test_the_result_names_what_to_solve_with(directory: Path, solver: WarmGraphs) -> None:
    asked = asked_of(directory, grid={"norm_penalty": [100.0, 0.01], "power": [1, 2]}, width=3.0)
    answer = TuneKind().run(asked, context_with(solver))
    assert isinstance(answer, Done)
    result = answer.result
    assert len(result["trials"]) == 4
    assert result["n_left_out"] == 24
    assert result["accuracy"] == max(trial["accuracy"] for trial in result["trials"])
    assert result["accuracy"] > 0.9
    assert result["parameters"]["width"] == 3.0
    model, _ = validate_solve("lapsvm", result["parameters"])
    assert all(getattr(model, name) == value for name, value in result["best"].items())
    assert not result["warm"]
    again = TuneKind().run(asked, context_with(solver))
    assert isinstance(again, Done)
    assert again.result["warm"]
    assert again.result["trials"] == result["trials"]


def test_models_of_graphs_are_tuned_too(directory: Path, solver: WarmGraphs) -> None:
    asked = asked_of(directory, model="stable-hfs", grid={"graph_penalty": [1.0, 0.1]}, folds=3)
    answer = TuneKind().run(asked, context_with(solver))
    assert isinstance(answer, Done)
    assert answer.result["n_folds"] == 3


def test_progress_is_true_and_a_stop_is_obeyed(directory: Path, solver: WarmGraphs) -> None:
    reports: list[Any] = []
    context = context_with(solver, report=reports.append, cancelled=lambda: len(reports) > 4)
    answer = TuneKind().run(asked_of(directory), context)
    assert isinstance(answer, TaskStopped)
    assert any(report.phase == "tuning" for report in reports)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"n0": "a", "n1": "b"}, "each class has a single one; label more nodes"),
        ({"n0": 0.5, "n1": 1.5}, "labels are real numbers"),
        ({"n0": "a", "n1": "a"}, "labels hold 1 classes; at least two needed"),
    ],
)
def test_labels_that_do_not_suffice_fail_the_job(
    directory: Path, solver: WarmGraphs, labels: Any, message: str
) -> None:
    answer = run_task(asked_of(directory, labels), context_with(solver))
    assert isinstance(answer, Failed)
    assert message in answer.error
    assert not answer.retry


def test_parameters_fixed_are_left_out_of_the_default_grid() -> None:
    request = validate_tune("lapsvm", {"norm_penalty": 0.5})
    assert request.model == LapSVM(norm_penalty=0.5)
    assert request.grid == {"graph_penalty": PENALTIES["graph_penalty"]}
    assert request.n_folds == 5


def test_a_grid_may_have_a_thousand_combinations() -> None:
    grid = {"norm_penalty": [1.0] * 25, "graph_penalty": [1.0] * 40}
    assert validate_tune("lapsvm", {"grid": grid}).grid == grid


@pytest.mark.parametrize(
    ("model", "parameters", "message"),
    [
        ("lapvsm", {}, "model must be one of"),
        ("lapsvm", {"sigma": 1}, "has no parameter 'sigma'"),
        ("lapsvm", {"folds": 1}, "folds must be an integer >= 2, got 1"),
        ("lapsvm", {"folds": True}, "folds must be an integer >= 2, got True"),
        ("lapsvm", {"grid": [1]}, r"grid must hold lists of values by hyperparameter, got \[1\]"),
        ("lapsvm", {"grid": {}}, "grid must name at least one hyperparameter, got none"),
        ("lapsvm", {"grid": {"width": 1.0}}, "grid must hold a list of values for width, got 1.0"),
        ("lapsvm", {"grid": {"width": ["wide"]}}, "width must be a finite number > 0 or 'auto'"),
        (
            "lapsvm",
            {"grid": {name: [1.0] * 10_000 for name in ("width", "norm_penalty", "graph_penalty")}},
            "grid must have at most 1000 combinations, got 1000000000000",
        ),
        ("lapsvm", {"grid": {"width": [1.0] * 1001}}, "at most 1000 combinations, got 1001"),
        ("lapsvm", {"grid": {"power": [1.5]}}, "power must be an integer >= 1, got 1.5"),
        ("lapsvm", {"grid": {"power": [1]}, "power": 2}, "power must be fixed or in the grid"),
        ("lapsvm", {"cross_validate": 3}, "cross_validate must be left out of a tune job, got 3"),
        ("poisson", {}, "grid must name settings of Poisson"),
        (
            "lapsvm",
            {"norm_penalty": 1.0, "graph_penalty": 1.0},
            "grid must name at least one hyperparameter, got none",
        ),
    ],
)
def test_parameters_that_break_a_rule_are_refused(
    model: str, parameters: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        validate_tune(model, parameters)


def test_a_choice_no_better_than_the_commonest_class_is_a_warning(
    directory: Path, solver: WarmGraphs
) -> None:
    grid = {"norm_penalty": [0.01], "graph_penalty": [0.0]}
    told = TuneKind().run(asked_of(directory, grid=grid, width=3.0), context_with(solver))
    assert isinstance(told, Done)
    assert told.result["warning"] is None
    rng = np.random.default_rng(1)
    labels = {f"n{node}": str(rng.choice(["a", "b"])) for node in range(40)}
    told = TuneKind().run(asked_of(directory, labels, grid=grid, width=3.0), context_with(solver))
    assert isinstance(told, Done)
    assert "labels left out were predicted right. Always saying" in told.result["warning"]
