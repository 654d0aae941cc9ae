"""An objective and class shares at every door that reads an answer: all agree on labels."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.labels.store import CurrentLabels
from peewit.service.operations.which import provenance
from peewit.service.predictions.abstention import abstention
from peewit.service.predictions.doubtful_labels import doubtful_labels
from peewit.service.predictions.evaluation import evaluate
from peewit.service.predictions.left_out import read_left_out
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.thresholds import (
    class_threshold,
    left_out_evaluation,
    with_threshold,
)
from peewit.service.tables.uploads import UploadedLabels
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.solving.solve import SolveKind, SolveTask
from peewit.service.tasks.tasks_and_messages import Done
from peewit.service.wire.solve_lines import solve_lines, warning_text
from peewit.solvers.decision import decided
from tests.service.solvable import graphs_within, publish_snapshot

SIZES = (260, 40)
SHARES = {"c1": 40 / 300}
MACRO = {"objective": "macro-f1", "class_shares": SHARES, "cross_validate": 4}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A snapshot of two blocks of unequal size that mix much, and two nodes apart."""
    rng = np.random.default_rng(0)
    block = np.repeat([0, 1], SIZES)
    u = rng.integers(0, 300, 1800)
    inside = np.where(block[u] == 0, rng.integers(0, 260, u.size), rng.integers(260, 300, u.size))
    v = np.where(rng.random(u.size) < 0.3, inside, rng.integers(0, 300, u.size))
    different = u != v
    publish_snapshot(tmp_path / "g", 1, np.r_[u[different], 300], np.r_[v[different], 301])
    return tmp_path / "g"


def labels_of(n_each: int) -> dict[str, str]:
    nodes = [*range(0, 13 * n_each, 13), *range(260, 260 + 2 * n_each, 2)]
    return {f"n{node}": "c0" if node < 260 else "c1" for node in nodes}


def solved(
    directory: Path, parameters: dict[str, Any], *, n_each: int = 10
) -> tuple[dict[str, Any], PredictionFile]:
    labels = labels_of(n_each)
    task = SolveTask(
        job_id="ab12",
        attempt=1,
        graph_id=directory.name,
        graph_directory=directory,
        snapshot=1,
        labels_seq=len(labels),
        features_version=0,
        model="auto",
        parameters=parameters,
        nodes=pa.array(labels, pa.large_string()),
        labels=list(labels.values()),
        origins=pa.array(["given"] * len(labels)),
    )
    context = TaskContext(
        graphs=graphs_within(2**34), report=lambda _: None, cancelled=lambda: False
    )
    answer = SolveKind().run(task, context)
    assert isinstance(answer, Done)
    return answer.result, PredictionFile(directory / "predictions" / answer.result["file"])


def test_probabilities_stay_and_every_door_has_the_labels_of_the_objective(directory: Path) -> None:
    _, plain = solved(directory, {**MACRO, "objective": "accuracy"})
    before = plain.table()
    result, file = solved(directory, MACRO)
    table, rule = file.table(), file.meta.rule
    columns = ("probability:c0", "probability:c1")
    scores = np.column_stack([table[name].to_numpy() for name in columns])
    for name in columns:
        np.testing.assert_array_equal(table[name], before[name])
    assert plain.meta.rule is None
    assert rule is not None
    reachable = table["reachable"].to_numpy()
    place = decided(scores, rule)
    names = np.array(["c0", "c1"])
    labels = table["label"].to_pylist()
    assert labels == [
        str(name) if is_reached else None
        for name, is_reached in zip(names[place], reachable, strict=True)
    ]
    assert labels != before["label"].to_pylist()
    np.testing.assert_array_equal(
        table["probability"], np.take_along_axis(scores, place[:, None], 1)[:, 0]
    )
    margin = table["margin"].to_numpy()
    assert (margin[reachable] >= 0.0).all()
    assert (margin[~reachable] == 0.0).all()
    rows = file.lookup(np.arange(10))
    assert [each["label"] for each in rows] == labels[:10]
    # counts of classes and the objective in the job's result and provenance
    known = labels_of(10)
    others = [
        label
        for node, label in zip(table["node"].to_pylist(), labels, strict=True)
        if node not in known and label is not None
    ]
    shares = {each["label"]: each["predicted"] for each in result["class_shares"]}
    assert shares["c1"] == pytest.approx(np.mean([label == "c1" for label in others]))
    assert provenance(file)["objective"] == "macro-f1"
    assert provenance(plain)["objective"] == "accuracy"
    (line, *_) = solve_lines(result)
    assert "the mean F-measure of the classes is" in line


def test_labels_left_out_are_decided_by_the_same_rule(directory: Path) -> None:
    result, file = solved(directory, {name: MACRO[name] for name in ("objective", "class_shares")})
    left_out = read_left_out(file)
    predicted = decided(left_out.scores, file.meta.rule)
    is_right = predicted == left_out.classes
    assert result["judged"]["accuracy"] == pytest.approx(is_right.mean())
    assert is_right.tolist() != (left_out.scores.argmax(axis=1) == left_out.classes).tolist()
    doubted = doubtful_labels(file, k=100)
    assert doubted.n_contradicted == np.count_nonzero(~is_right)
    for each in doubted.labels:
        row = file.table()["node"].to_pylist().index(each.node)
        place = left_out.nodes.tolist().index(row)
        assert each.predicted == ("c0", "c1")[predicted[place]]
    curve = abstention(file, max_error=0.2, confidence=0.9).curve
    assert curve[-1].error == pytest.approx(1.0 - is_right.mean())
    chosen = left_out_evaluation(file, class_threshold(file, "c1", threshold=0.5))
    assert chosen.by_largest_score.n_found == np.count_nonzero(predicted == 1)


def test_a_threshold_overrules_the_objective_for_its_class(directory: Path) -> None:
    _, file = solved(directory, MACRO)
    chosen = class_threshold(file, "c1", threshold=0.3)
    decisions = pa.Table.from_batches(with_threshold(file, file.batches(), chosen))
    reached = decisions.filter(decisions["reachable"])
    expected = ["c1" if p >= 0.3 else "c0" for p in reached["probability:c1"].to_pylist()]
    assert reached["label"].to_pylist() == expected


def test_an_evaluation_has_accuracy_and_macro_f1_of_these_labels(directory: Path) -> None:
    truth = {f"n{node}": "c0" if node < 260 else "c1" for node in range(300)}
    known = labels_of(10)
    uploaded = UploadedLabels(nodes=list(truth), labels=list(truth.values()))
    current = CurrentLabels(
        nodes=pa.array(list(known), pa.large_string()),
        labels=list(known.values()),
        origins=pa.array(["given"] * len(known)),
        annotators=pa.nulls(len(known), pa.string()),
        keys=pa.nulls(len(known), pa.string()),
        labels_seq=len(known),
    )
    f1 = {}
    for objective in ("accuracy", "macro-f1"):
        _, file = solved(directory, {**MACRO, "objective": objective})
        result = evaluate(file.table(), uploaded, current)
        judged = {
            node: label
            for node, label in zip(
                file.table()["node"].to_pylist(), file.table()["label"].to_pylist(), strict=True
            )
            if node in truth and node not in known
        }
        right = [label == truth[node] for node, label in judged.items()]
        assert result.accuracy == pytest.approx(np.mean(right))
        f1[objective] = result.macro_f1
    assert f1["macro-f1"] > f1["accuracy"]


def test_nodes_that_no_label_reaches_have_the_given_shares(directory: Path) -> None:
    _, file = solved(directory, {"class_shares": SHARES})
    table = file.table().filter(pa.array(~file.table()["reachable"].to_numpy()))
    assert table.num_rows == 2
    assert table["probability:c1"].to_pylist() == pytest.approx([40 / 300] * 2)
    assert table["label"].to_pylist() == [None, None]


def test_shares_are_asked_for_where_labels_are_equally_many(directory: Path) -> None:
    asked = "labels are equally many of each class, 5; where classes are not, say their shares"
    result, _ = solved(directory, {}, n_each=5)
    assert asked in result["warning"]
    assert "--set class_shares=CLASS=.02" in str(warning_text(result, graph="g"))
    told, _ = solved(directory, {"class_shares": "c1=.13"}, n_each=5)
    assert asked not in (told["warning"] or "")
    single, _ = solved(directory, {}, n_each=1)
    assert "each class has one label: how many nodes are right is luck" in single["warning"]
