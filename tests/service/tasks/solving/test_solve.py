"""What a warm child does with a task, run in this process."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.predictions.abstention import abstention
from peewit.service.predictions.label_sets import LabelSets
from peewit.service.predictions.left_out import read_left_out
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.thresholds import class_threshold, left_out_evaluation
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.progress import Cancelled, Report
from peewit.service.tasks.solving.solve import SolveKind, SolveTask
from peewit.service.tasks.tasks_and_messages import Advanced, Done, TaskOutcome, TaskStopped
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers import graph as graph_module
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import RegressionModel
from peewit.solvers.models.linear.transductive_svms import TransductiveMachine
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.snapshots.store import SnapshotNotFound
from tests.service.solvable import (
    TIGHT,
    external_ids,
    graphs_within,
    grid,
    publish_snapshot,
    spread_labels,
    two_communities,
)

MEMORY_BYTES = 2**34
COLUMNS = ("node", "label", "score")
LABELS: dict[str, str | int] = {"n3": "left", "n7": "left", "n33": "right", "n37": "right"}


def task(
    directory: Path,
    labels: dict[str, str | int] | dict[str, float] | None = None,
    *,
    snapshot: int = 1,
    model: str = "hfs",
    parameters: dict[str, Any] | None = None,
) -> SolveTask:
    labels = dict(LABELS if labels is None else labels)
    return SolveTask(
        job_id="ab12",
        attempt=1,
        graph_id=directory.name,
        graph_directory=directory,
        snapshot=snapshot,
        labels_seq=len(labels),
        features_version=0,
        model=model,
        parameters={} if parameters is None else parameters,
        nodes=pa.array(labels, pa.large_string()),
        labels=list(labels.values()),
        origins=pa.array(["given"] * len(labels)),
    )


def takes_numbers(model: str) -> bool:
    return issubclass(CATALOGUE[model], RegressionModel)


def ignore(_advanced: Advanced) -> None:
    """Reports that no test looks at."""


def context_with(
    graphs: WarmGraphs, *, report: Report = ignore, cancelled: Cancelled = lambda: False
) -> TaskContext:
    """A child that is this process."""
    return TaskContext(graphs=graphs, report=report, cancelled=cancelled)


def run(solver: WarmGraphs, asked: SolveTask, *, stop_after: float = np.inf) -> TaskOutcome:
    """Solve, and say stop once the task was asked so often whether to go on."""
    n_asked = 0

    def cancelled() -> bool:
        nonlocal n_asked
        n_asked += 1
        return n_asked > stop_after

    return SolveKind().run(asked, context_with(solver, cancelled=cancelled))


def solved(solver: WarmGraphs, asked: SolveTask) -> Done:
    answer = run(solver, asked)
    assert isinstance(answer, Done)
    return answer


def predictions(directory: Path, answer: Done) -> PredictionFile:
    return PredictionFile(directory / "predictions" / answer.result["file"])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A graph of two communities with one snapshot."""
    publish_snapshot(tmp_path / "g", 1, *two_communities())
    return tmp_path / "g"


@pytest.mark.parametrize("model", sorted(CATALOGUE))
def test_each_community_gets_its_label(directory: Path, solver: WarmGraphs, model: str) -> None:
    answer = solved(solver, task(directory, model=model))
    file = predictions(directory, answer)
    shown = dict(zip(*(file.table()[name].to_pylist() for name in ("node", "label")), strict=True))
    assert shown == {f"n{node}": "left" if node < 30 else "right" for node in range(60)}
    assert file.meta.model == model
    assert file.meta.parameters == asdict(CATALOGUE[model]())
    assert (file.meta.snapshot, file.meta.labels_seq) == (1, 4)
    assert (file.meta.epsilon_asked, file.meta.epsilon_expected) == (0.7, 0.5)
    assert answer.result["status"] == file.meta.solver_status == "converged"
    warning = answer.result["warning"]
    if issubclass(CATALOGUE[model], TransductiveMachine):
        assert warning.startswith("the share of each class is taken from 4 labels")
    else:
        assert warning is None


@pytest.mark.parametrize("kind", ["string", "int64", "dense"])
def test_nodes_of_every_kind_are_found_and_shown(
    tmp_path: Path, solver: WarmGraphs, kind: NodeKind
) -> None:
    u, v = two_communities()
    publish_snapshot(tmp_path / "g", 1, u, v, kind=kind)
    nodes = external_ids(np.array([3, 33]), kind)
    labels = dict(zip(map(str, nodes.to_pylist()), [10, 20], strict=True))
    file = predictions(tmp_path / "g", solved(solver, task(tmp_path / "g", labels)))
    table = file.table()
    assert table["node"].type == (pa.large_string() if kind == "string" else pa.int64())
    found = dict(zip(table["node"].to_pylist(), table["label"].to_pylist(), strict=True))
    assert [found[node] for node in nodes.to_pylist()] == [10, 20]


def test_labels_of_nodes_newer_than_the_snapshot_wait(directory: Path, solver: WarmGraphs) -> None:
    result = solved(solver, task(directory, LABELS | {"new": "left", "newer": "up"})).result
    assert (result["n_labels"], result["n_labels_waiting"], result["n_classes"]) == (4, 2, 2)


def test_class_sizes_may_be_known(directory: Path, solver: WarmGraphs) -> None:
    parameters = {"class_balance": {"left": 2, "right": 1}}
    answer = solved(solver, task(directory, model="poisson", parameters=parameters))
    labels = predictions(directory, answer).table()["label"].to_pylist()
    won = labels.count("left") / len(labels)
    assert answer.result["stats"]["share_miss"] == pytest.approx(abs(won - 2 / 3))
    meta = predictions(directory, answer).meta
    assert meta.parameters["class_balance"] == parameters["class_balance"]


def test_nodes_that_no_label_reaches_are_counted_and_get_no_label(
    tmp_path: Path, solver: WarmGraphs
) -> None:
    u, v = two_communities()
    apart = np.array([60, 61])
    publish_snapshot(tmp_path / "g", 1, np.append(u, apart[0]), np.append(v, apart[1]))
    answer = solved(solver, task(tmp_path / "g"))
    assert answer.result["n_unreachable"] == 2
    table = predictions(tmp_path / "g", answer).table()
    lost = table.filter(pa.compute.invert(table["reachable"]))
    assert set(lost["node"].to_pylist()) == {"n60", "n61"}
    assert lost["label"].to_pylist() == [None, None]
    reached = table.filter(table["reachable"])["probability:left"].to_numpy()
    shares = lost[
        "probability:left"
    ].to_numpy()  # what is predicted of the others, not of the labels
    np.testing.assert_allclose(shares, reached.mean(), rtol=1e-6)


def test_a_second_solve_of_a_snapshot_is_warm_and_agrees(
    directory: Path, solver: WarmGraphs
) -> None:
    first = solved(solver, task(directory))
    cold = predictions(directory, first).table()
    second = solved(solver, replace(task(directory), attempt=2))
    warm = predictions(directory, second).table()
    assert not first.result["warm"]
    assert second.result["warm"]
    assert second.result["stats"]["n_iter"] == 0
    np.testing.assert_allclose(warm["probability:left"], cold["probability:left"], atol=1e-5)


def test_the_order_in_memory_is_kept_with_the_snapshot(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_module, "LEAST_ORDERED", 10)
    tables = []
    for _ in range(2):
        answer = solved(graphs_within(MEMORY_BYTES), task(directory, model="auto"))
        tables.append(predictions(directory, answer).table())
        (kept,) = directory.rglob("order.npy")
        np.testing.assert_array_equal(np.sort(np.load(kept)), np.arange(60))
        monkeypatch.setattr(graph_module, "memory_order", no_order)
    assert tables[0].equals(tables[1])


def no_order(_adjacency: Any) -> np.ndarray:
    raise AssertionError("the order was found already")


def test_a_solve_with_other_classes_does_not_start_from_the_last_one(
    directory: Path, solver: WarmGraphs
) -> None:
    swapped: dict[str, str | int] = {
        node: {"left": "right", "right": "left"}[str(label)] for node, label in LABELS.items()
    }
    renamed: dict[str, str | int] = {node: f"{label}!" for node, label in LABELS.items()}
    for labels in (LABELS, swapped, renamed):
        table = predictions(directory, solved(solver, task(directory, labels))).table()
        at = table["node"].to_pylist().index("n3")
        assert table["label"][at].as_py() == labels["n3"]


def test_a_column_starts_from_its_own_last_solution(directory: Path, solver: WarmGraphs) -> None:
    def started_from(column: str, labels: dict[str, str | int]) -> tuple[bool, int | None]:
        asked = task(directory, labels, parameters={"label_column": column} if column else {})
        result = solved(solver, asked).result
        return result["warm"], result["started_from"]

    swapped: dict[str, str | int] = {"n3": "right", "n33": "left"}  # the same classes
    assert started_from("", LABELS) == (False, None)
    assert started_from("side", swapped) == (True, None)
    assert started_from("", LABELS) == (True, 1)
    assert started_from("side", swapped) == (True, 1)
    for number in range(8):  # each as large as predictions: not all can stay
        started_from(f"c{number}", swapped)
    assert started_from("side", swapped) == (True, None)


def test_a_new_snapshot_replaces_the_old_one_and_starts_from_its_solution(
    directory: Path, solver: WarmGraphs
) -> None:
    first = solved(solver, task(directory))
    assert first.result["started_from"] is None
    u, v = two_communities()
    publish_snapshot(directory, 2, np.append(u, 3), np.append(v, 60))
    answer = solved(solver, task(directory, snapshot=2))
    assert not answer.result["warm"]
    assert answer.result["started_from"] == 1
    assert answer.result["n_nodes"] == 61
    file = predictions(directory, answer)
    assert file.meta.snapshot == 2
    assert file.lookup(np.array([60]))[0]["label"] == "left"
    assert solver.n_graphs == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("hfs", {"graph_penalty": 1e-3, "rtol": 1e-8}),
        ("harmonic-mbo", {"rtol": 1e-8}),
        ("poisson-mbo", {"rtol": 1e-8}),
    ],
)
def test_a_start_from_an_older_snapshot_saves_iterations(
    tmp_path: Path, model: str, asked: dict[str, Any]
) -> None:
    """Nodes that came since, in chains off the old ones, start at what their neighbors have."""
    labels = spread_labels(900, 3)
    u, v = grid(30)
    publish_snapshot(tmp_path / "g", 1, u, v)
    old, new = np.arange(0, 900, 30), np.arange(900, 930)
    publish_snapshot(tmp_path / "g", 2, np.concatenate([u, old]), np.concatenate([v, new]))
    publish_snapshot(
        tmp_path / "g", 3, np.concatenate([u, old, new]), np.concatenate([v, new, new + 30])
    )
    solver = graphs_within(MEMORY_BYTES)
    cold = [
        solved(
            graphs_within(MEMORY_BYTES),
            replace(
                task(tmp_path / "g", labels, snapshot=number, model=model, parameters=asked),
                attempt=number,
            ),
        )
        for number in (1, 2, 3)
    ]
    warm = [
        solved(
            solver,
            replace(
                task(tmp_path / "g", labels, snapshot=number, model=model, parameters=asked),
                attempt=10 + number,
            ),
        )
        for number in (1, 2, 3)
    ]
    assert [each.result["started_from"] for each in cold] == [None, None, None]
    assert [each.result["started_from"] for each in warm] == [None, 1, 2]
    for one, other in zip(cold[1:], warm[1:], strict=True):
        assert other.result["stats"]["n_iter"] < 0.9 * one.result["stats"]["n_iter"]
        first, second = (predictions(tmp_path / "g", each).table() for each in (one, other))
        score = next(name for name in first.schema.names if name.endswith(":1"))
        np.testing.assert_allclose(first[score], second[score], atol=1e-5)


@pytest.mark.slow
def test_graphs_beyond_the_memory_are_forgotten(tmp_path: Path) -> None:
    for name in ("a", "b"):
        publish_snapshot(tmp_path / name, 1, *two_communities())
    roomy, tight = graphs_within(MEMORY_BYTES), graphs_within(1, resident_bytes=2)
    for name in ("a", "b", "a"):
        roomy_answer = solved(roomy, task(tmp_path / name))
        tight_answer = solved(tight, task(tmp_path / name))
    assert (roomy.n_graphs, roomy_answer.result["warm"]) == (2, True)
    assert (tight.n_graphs, tight_answer.result["warm"]) == (0, False)


def changed_once(directory: Path, solver: WarmGraphs) -> SolveTask:
    """Solve with more labels than a solve asks columns for, change one, and name a next change."""
    publish_snapshot(directory, 1, *grid(40))
    labels = {f"n{node}": int(node % 3) for node in range(0, 1_000, 20)}
    parameters = {"graph_penalty": 0.1}
    solved(solver, task(directory, labels, parameters=parameters))
    solved(solver, task(directory, labels | {"n1111": 1}, parameters=parameters))
    return task(directory, labels | {"n1111": 1, "n1234": 2}, parameters=parameters)


def test_work_done_ahead_makes_the_next_solve_a_direct_one(
    tmp_path: Path, solver: WarmGraphs
) -> None:
    asked = changed_once(tmp_path / "g", solver)
    while solver.work_ahead(lambda: False):
        pass
    ahead = solved(solver, asked)
    cold = solved(graphs_within(MEMORY_BYTES), asked)
    assert ahead.result["stats"]["preconditioner"] == "kernel"
    assert cold.result["stats"]["preconditioner"] != "kernel"
    first, second = (predictions(tmp_path / "g", each).table() for each in (ahead, cold))
    np.testing.assert_allclose(first["probability:1"], second["probability:1"], atol=1e-5)


def test_no_work_is_done_ahead_where_no_label_changed(directory: Path, solver: WarmGraphs) -> None:
    assert not solver.work_ahead(lambda: False)
    solved(solver, task(directory))
    assert not solver.work_ahead(lambda: False)


@pytest.mark.slow
def test_work_ahead_keeps_to_the_memory(tmp_path: Path) -> None:
    solver = graphs_within(1, resident_bytes=2)
    changed_once(tmp_path / "g", solver)
    assert not solver.work_ahead(lambda: False)
    assert solver.n_graphs == 0


@pytest.mark.parametrize("stop_after", range(8))
def test_a_task_stops_wherever_it_is_told_to(
    directory: Path, solver: WarmGraphs, stop_after: int
) -> None:
    asked = task(directory, parameters={"graph_penalty": 1.0, "rtol": 1e-12})
    assert run(solver, asked, stop_after=stop_after) == TaskStopped()
    assert not list(directory.glob("predictions/*"))
    assert solved(solver, asked).result["status"] == "converged"


def test_phases_are_reported_in_order_and_timed(directory: Path, solver: WarmGraphs) -> None:
    seen: list[Advanced] = []
    answer = SolveKind().run(task(directory), context_with(solver, report=seen.append))
    phases = list(dict.fromkeys(advanced.phase for advanced in seen))
    assert phases[:3] == ["loading", "preparing", "solving"]
    assert phases[-1] == "writing"
    fractions = [advanced.fraction for advanced in seen if advanced.fraction is not None]
    assert fractions
    assert all(0 <= fraction <= 1 for fraction in fractions)
    assert isinstance(answer, Done)
    assert answer.result["seconds"].keys() == {
        "loading",
        "preparing",
        "solving",
        "judging",
        "writing",
    }


def test_auto_says_what_each_arm_took(directory: Path, solver: WarmGraphs) -> None:
    result = solved(solver, task(directory, model="auto")).result
    arms = result["phase_seconds"]["solving"]
    assert arms.keys() == {"points", "potentials", "densities", "harmonic", "walks", "weighing"}
    assert 0 < sum(arms.values()) <= result["seconds"]["solving"]


def test_weights_too_far_apart_are_a_result_with_a_warning(
    tmp_path: Path, solver: WarmGraphs
) -> None:
    """Nodes that only the hub joins are at exactly 0, in no class."""
    hub, leaves = np.zeros(5, np.int64), np.arange(1, 6)
    weight = np.array([1e20, 3.0, 1e-6, 7e3, 2.0])
    publish_snapshot(tmp_path / "g", 1, hub, leaves, weight)
    one, other, third = external_ids(np.array([1, 2, 3]), "string").to_pylist()
    asked = task(tmp_path / "g", {one: "a", other: "b", third: "b"}, model="poisson")
    answer = solved(solver, asked)
    assert answer.result["status"] == "ill-conditioned"
    assert answer.result["stats"]["n_uncertain"] == 3
    assert "narrow the range of weights" in answer.result["warning"]
    assert predictions(tmp_path / "g", answer).meta.solver_status == "ill-conditioned"


def test_a_solver_that_falls_short_is_a_result_with_a_warning(
    tmp_path: Path, solver: WarmGraphs
) -> None:
    publish_snapshot(tmp_path / "g", 1, *grid(30))
    asked = task(tmp_path / "g", spread_labels(900, 3), parameters=TIGHT | {"max_iter": 3})
    answer = solved(solver, asked)
    assert answer.result["status"] == "max-iter"
    assert "raise max_iter" in answer.result["warning"]
    assert predictions(tmp_path / "g", answer).meta.solver_status == "max-iter"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"nobody": "left"}, "none of the 1 labeled nodes is in snapshot 1"),
        ({"n1": "left", "n2": "left"}, "one class only"),
        ({"n1": 3, "n2": "3"}, "got 3 both as a number and as a string"),
    ],
)
def test_labels_that_pose_no_problem_are_refused(
    directory: Path, solver: WarmGraphs, labels: dict[str, str | int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(solver, task(directory, labels))


REAL = {"target": "real"}
NUMBERS: dict[str, float] = {"n3": -1.5, "n7": -1, "n33": 2.5, "n37": 2.25}


@pytest.mark.parametrize("model", [name for name in CATALOGUE if takes_numbers(name)])
def test_each_community_gets_a_number_near_its_labels(
    directory: Path, solver: WarmGraphs, model: str
) -> None:
    answer = solved(solver, task(directory, NUMBERS, model=model, parameters=REAL))
    file = predictions(directory, answer)
    table = file.table()
    assert (file.meta.score, file.meta.class_names) == ("value", ())
    assert file.meta.parameters["target"] == "real"
    assert answer.result["n_classes"] is None
    for node, label, score in zip(*(table[name].to_pylist() for name in COLUMNS), strict=True):
        assert -1.6 < label < -0.4 if int(node[1:]) < 30 else 1.6 < label < 2.6
        assert score == np.float32(label)


def test_nodes_that_no_number_reaches_have_no_label_and_the_mean_as_score(
    tmp_path: Path, solver: WarmGraphs
) -> None:
    u, v = two_communities()
    publish_snapshot(tmp_path / "g", 1, np.append(u, 60), np.append(v, 61))
    answer = solved(solver, task(tmp_path / "g", NUMBERS, parameters=REAL))
    assert answer.result["n_unreachable"] == 2
    table = predictions(tmp_path / "g", answer).table()
    lost = table.filter(pa.compute.invert(table["reachable"]))
    assert lost["label"].to_pylist() == [None, None]
    assert lost["score"].to_pylist() == [0.5625, 0.5625]


def test_classes_and_numbers_take_turns_on_one_warm_graph(
    directory: Path, solver: WarmGraphs
) -> None:
    first = predictions(directory, solved(solver, task(directory, NUMBERS, parameters=REAL)))
    numbers = first.table()["label"].to_pylist()
    solved(solver, task(directory))
    again = solved(solver, task(directory, NUMBERS, parameters=REAL))
    assert again.result["warm"]
    np.testing.assert_allclose(
        predictions(directory, again).table()["label"].to_pylist(), numbers, atol=1e-4
    )
    again = solved(solver, task(directory, NUMBERS, parameters=REAL))
    assert again.result["stats"]["n_iter"] == 0


def test_whole_numbers_are_numbers_where_the_target_is_real(
    directory: Path, solver: WarmGraphs
) -> None:
    answer = solved(solver, task(directory, {"n3": 1, "n33": 3}, parameters=REAL))
    labels = predictions(directory, answer).table()["label"].to_pylist()
    assert min(labels) >= 1 - 1e-6
    assert max(labels) <= 3 + 1e-6


@pytest.mark.parametrize(
    ("labels", "parameters", "message"),
    [
        ({"n3": 1.5, "n33": "x"}, REAL, "labels must all be numbers .* node 'n33' has 'x'"),
        ({"n3": 1, "n33": 2.5}, {}, r"set target=real to predict them: node 'n33' has 2\.5"),
        ({"n3": "x", "n33": 2.5}, {}, "must all be text or all numbers; .* node 'n33' has 2.5"),
        ({"nobody": 1.5}, REAL, "none of the 1 labeled nodes is in snapshot 1"),
    ],
)
def test_labels_of_another_kind_than_the_target_are_refused(
    directory: Path, solver: WarmGraphs, labels: Any, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(solver, task(directory, labels, parameters=parameters))


@pytest.mark.parametrize(("model", "kind"), [("hfs", "probability"), ("stable-hfs", "class score")])
def test_the_schema_says_what_scores_are(
    directory: Path, solver: WarmGraphs, model: str, kind: str
) -> None:
    file = predictions(directory, solved(solver, task(directory, model=model)))
    assert file.meta.score == kind
    name = "probability" if kind == "probability" else "score"
    sums = np.add(file.table()[f"{name}:left"], file.table()[f"{name}:right"])
    np.testing.assert_allclose(sums, 1.0 if kind == "probability" else 0.0, atol=1e-5)


def asked_of(
    directory: Path, solver: WarmGraphs, model: str, labels: Any = None, **options: Any
) -> tuple[Done, pa.Table]:
    answer = solved(solver, task(directory, labels, model=model, parameters=options))
    json.dumps(answer.result, allow_nan=False)
    return answer, predictions(directory, answer).table()


@pytest.mark.parametrize("labels", [LABELS, NUMBERS])
def test_variance_is_a_column_that_grows_away_from_the_labels(
    tmp_path: Path, solver: WarmGraphs, labels: Any
) -> None:
    line = np.arange(30)
    u, v = np.append(line, 40), np.append(line + 1, 41)
    publish_snapshot(tmp_path / "g", 1, u, v)
    nodes = {"n0": labels["n3"], "n1": labels["n33"]}
    options = {"target": "real"} if labels is NUMBERS else {}
    answer, table = asked_of(
        tmp_path / "g", solver, "hfs", nodes, variance=True, graph_penalty=0, **options
    )
    assert table.schema.names[4:7] == ["reachable", "labeled", "variance"]
    assert table["variance"].type == pa.float32()
    found = dict(zip(table["node"].to_pylist(), table["variance"].to_pylist(), strict=True))
    assert (found["n0"], found["n1"], found["n40"]) == (0.0, 0.0, None)
    for node in (2, 10, 30):
        assert found[f"n{node}"] == pytest.approx(node - 1, rel=0.5)
    told = answer.result["stats"]["variance"]
    assert told == {"relative_error": 0.125, "n_probes": 128, "status": "converged"}


def test_without_the_option_there_is_no_variance(directory: Path, solver: WarmGraphs) -> None:
    answer, table = asked_of(directory, solver, "hfs")
    assert "variance" not in table.schema.names
    assert not {"variance", "cross_validation"} & answer.result["stats"].keys()


@pytest.mark.thinned(4)
@pytest.mark.parametrize("model", sorted(CATALOGUE))
def test_labels_left_out_are_predicted_by_every_model(
    directory: Path, solver: WarmGraphs, model: str
) -> None:
    labels = LABELS | {"n5": "left", "n35": "right", "n50": "rare"}
    answer, _ = asked_of(directory, solver, model, labels, cross_validate=3)
    told = answer.result["stats"]["cross_validation"]
    assert told["always_kept"] == ["rare"]
    assert (told["n_left_out"], len(told["folds"])) == (6, 3)
    assert 0 <= told["accuracy"] <= 1
    assert "cross-validation" in answer.result["seconds"]


def test_scores_of_labels_left_out_are_kept_beside_the_predictions(
    directory: Path, solver: WarmGraphs
) -> None:
    labels = LABELS | {"n5": "left", "n35": "right", "n50": "rare"}
    answer, _ = asked_of(directory, solver, "hfs", labels, cross_validate=3)
    left_out = read_left_out(predictions(directory, answer))
    assert np.bincount(left_out.classes).tolist() == [3, 0, 3]
    is_right = left_out.scores.argmax(axis=1) == left_out.classes
    assert is_right.mean() == answer.result["stats"]["cross_validation"]["accuracy"]
    plain, _ = asked_of(directory, solver, "hfs", labels)
    assert plain.result["stats"].get("cross_validation") is None


SIDES = {f"n{node}": "left" if node < 30 else "right" for node in range(0, 60, 2)}


def suggested_but(directory: Path, others: set[str], model: str, **options: Any) -> SolveTask:
    """A solve with labels that were suggested, but for those of some nodes."""
    asked = task(directory, SIDES, model=model, parameters=options)
    origins = ["random" if name in others else "suggested" for name in SIDES]
    return replace(asked, origins=pa.array(origins))


@pytest.mark.parametrize("model", ["auto", "hfs"])
def test_suggested_labels_are_not_judged_by(
    directory: Path, solver: WarmGraphs, model: str
) -> None:
    others = {"n58", "n4", "n12", "n34", "n42", "n8"}  # not in the order of the nodes
    options: dict[str, Any] = {"sets": "marginal", "cross_validate": 3}
    if model == "hfs":
        options["probabilities"] = True
    answer = solved(solver, suggested_but(directory, others, model, **options))
    json.dumps(answer.result, allow_nan=False)
    told = answer.result["stats"]
    assert told["n_suggested"] == 24
    assert told["cross_validation"]["n_left_out"] == told["calibration"]["n_left_out"] == 6
    assert told["sets"]["n_compared"] == [6, 6]
    said = "24 labels of suggested nodes help to predict, and do not judge the answer; 6 others do"
    assert said in answer.result["warning"]
    file = predictions(directory, answer)
    left_out = read_left_out(file)
    assert left_out.nodes is not None
    names = file.table()["node"].take(pa.array(left_out.nodes)).to_pylist()
    assert set(names) == others
    assert LabelSets.of(file, 0.8).summary().warning == said
    assert abstention(file, max_error=0.5, confidence=0.5).warning == said
    chosen = class_threshold(file, "left", min_recall=0.5)
    warning = left_out_evaluation(file, chosen).warning or ""
    assert warning.startswith(f"{said}; only 3 of the labels left out are 'left'")


def test_few_labels_that_were_not_suggested_are_left_out_one_by_one(
    directory: Path, solver: WarmGraphs
) -> None:
    asked = suggested_but(directory, {"n4", "n12", "n34"}, "hfs", sets="marginal")
    told = solved(solver, asked).result["stats"]
    assert told["sets"]["n_folds"] == len(told["cross_validation"]["folds"]) == 3


@pytest.mark.parametrize(
    ("others", "who"), [(set(), "all labels"), ({"n4"}, "29 of 30 labels"), (set(SIDES), None)]
)
def test_where_hardly_a_label_was_not_suggested_all_are_judged_by(
    directory: Path, solver: WarmGraphs, others: set[str], who: str | None
) -> None:
    answer = solved(solver, suggested_but(directory, others, "hfs", sets="marginal"))
    told = answer.result["stats"]
    assert (told["n_suggested"], told["cross_validation"]["n_left_out"]) == (0, 30)
    summary = LabelSets.of(predictions(directory, answer), 0.8).summary()
    if who is None:
        assert (answer.result["warning"], summary.warning) == (None, None)
        return
    assert summary.warning is not None
    assert summary.warning.startswith(f"{who} were suggested. So")
    assert "promise nothing of other nodes" in summary.warning
    assert summary.warning in answer.result["warning"]


def test_suggested_numbers_are_not_judged_by(directory: Path, solver: WarmGraphs) -> None:
    parameters = {"cross_validate": 2, "target": "real"}
    asked = task(directory, NUMBERS, parameters=parameters)
    origins = pa.array(["given"] * 2 + ["suggested"] * (len(NUMBERS) - 2))
    told = solved(solver, replace(asked, origins=origins)).result["stats"]
    assert (told["n_suggested"], told["cross_validation"]["n_left_out"]) == (len(NUMBERS) - 2, 2)


def test_what_a_job_tells_is_of_the_probabilities_that_it_gives(
    directory: Path, solver: WarmGraphs
) -> None:
    labels = {f"n{node}": "left" if node < 30 else "right" for node in range(0, 60, 3)}
    labels |= {"n1": "right", "n31": "left"}
    answer, table = asked_of(
        directory, solver, "stable-hfs", labels, probabilities=True, cross_validate=4
    )
    shares = {each["label"]: each["predicted"] for each in answer.result["class_shares"]}
    others = [row for row in table.to_pylist() if row["node"] not in labels]
    for side, share in shares.items():
        told = np.mean([row["label"] == side for row in others])
        assert share == pytest.approx(told)
    file = predictions(directory, answer)
    assert file.meta.score == "probability"
    left_out = read_left_out(file)
    assert left_out.nodes is not None
    is_right = left_out.scores.argmax(axis=1) == left_out.classes
    cross = answer.result["stats"]["cross_validation"]
    assert cross["accuracy"] == pytest.approx(is_right.mean())
    assert np.mean(cross["folds"]) == pytest.approx(cross["accuracy"], abs=0.03)
    np.testing.assert_allclose(left_out.scores.sum(axis=1), 1.0, rtol=1e-5)
    names = dict(zip(file.table()["node"].to_pylist(), range(60), strict=True))
    assert sorted(names[name] for name in labels) == sorted(left_out.nodes.tolist())


def test_shares_of_classes_are_told(directory: Path, solver: WarmGraphs) -> None:
    answer, _ = asked_of(directory, solver, "hfs")
    told = answer.result["class_shares"]
    assert [each["label"] for each in told] == ["left", "right"]
    assert [each["labels"] for each in told] == [0.5, 0.5]
    assert [each["predicted"] for each in told] == pytest.approx([0.5, 0.5], abs=0.1)
    assert answer.result["warning"] is None
    of_numbers, _ = asked_of(directory, solver, "hfs", NUMBERS, target="real")
    assert of_numbers.result["class_shares"] is None


def test_shares_that_disagree_with_the_labels_are_a_warning(
    tmp_path: Path, solver: WarmGraphs
) -> None:
    publish_snapshot(tmp_path / "g", 1, *two_communities(400))
    labels = {
        f"n{node}": "left" if node < 200 else "right" for node in [*range(40), *range(200, 212)]
    }
    asked = task(tmp_path / "g", labels, model="stable-hfs", parameters={"graph_penalty": 1.0})
    told = solved(solver, asked).result["warning"]
    assert "z-test of shares" in told
    assert "'left' is 76.9% of the 52 labels" in told


def test_labels_that_are_guessed_no_better_than_by_the_commonest_are_a_warning(
    directory: Path, solver: WarmGraphs
) -> None:
    rng = np.random.default_rng(0)
    labels = {f"n{node}": str(rng.choice(["a", "b"])) for node in range(0, 60, 2)}
    asked = {"cross_validate": 5, "graph_penalty": 0.1}
    answer, _ = asked_of(directory, solver, "hfs", labels, **asked)
    assert "labels left out were predicted right. Always saying" in answer.result["warning"]
    answer, _ = asked_of(directory, solver, "stable-hfs", labels)  # which leaves labels out itself
    assert "labels left out were predicted right" in answer.result["warning"]


def test_numbers_left_out_are_missed_by_little(directory: Path, solver: WarmGraphs) -> None:
    asked = {"cross_validate": 2, "target": "real"}
    answer, _ = asked_of(directory, solver, "hfs", NUMBERS, **asked)
    told = answer.result["stats"]["cross_validation"]
    assert told["rmse"] < np.std(list(NUMBERS.values()))
    with pytest.raises(ValueError, match=r"that can be left out, 4 .* got 5"):
        asked_of(directory, solver, "hfs", NUMBERS, cross_validate=5, target="real")


@pytest.mark.parametrize("stop_after", [5, 8, 12, 16, 20])
def test_an_assessment_stops_wherever_it_is_told_to(
    directory: Path, solver: WarmGraphs, stop_after: int
) -> None:
    options = {"variance": True, "cross_validate": 2, "graph_penalty": 1.0}
    asked = task(directory, model="stable-hfs", parameters=options)
    assert run(solver, asked, stop_after=stop_after) == TaskStopped()
    assert not list(directory.glob("predictions/*"))


def test_what_falls_short_in_an_assessment_is_a_warning(
    directory: Path, solver: WarmGraphs
) -> None:
    options = {"cross_validate": 2, "graph_penalty": 1.0, "max_iter": 1, "rtol": 1e-9}
    answer, _ = asked_of(directory, solver, "hfs", **options)
    assert answer.result["stats"]["cross_validation"]["status"] == "max-iter"
    assert "cross_validation: the iteration limit" in answer.result["warning"]


def test_a_snapshot_that_is_gone_is_named(directory: Path, solver: WarmGraphs) -> None:
    with pytest.raises(SnapshotNotFound, match="no snapshot 5, the newest is 1"):
        run(solver, task(directory, snapshot=5))
