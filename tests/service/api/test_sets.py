"""Sets of labels over HTTP, and calibrated probabilities."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import TypeAdapter

from peewit.service.settings import Settings
from peewit.service.wire.evaluations import PredictionAbstention
from peewit.service.wire.predictions import DoubtfulLabels, NodePrediction, PredictionSets
from tests.service.api.conftest import Api, bring_communities, serving

PREDICTIONS, SETS = "/graphs/g/predictions", "/graphs/g/predictions/sets"


@pytest.fixture(scope="module")
def kept(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A graph whose first job kept what sets are read from, and whose last ones did not."""
    home = tmp_path_factory.mktemp("kept")
    with serving(Settings(home=home, database_url=None, admin_key_file=None)) as api:
        bring_communities(api)
        sides = {f"n{node}": "left" if node < 30 else "right" for node in range(0, 60, 5)}
        api.put_labels(sides | {"n1": "right"})
        for model, parameters in (
            ("poisson", {"without_doubtful": 1}),
            ("auto", {"sets": "marginal"}),
            ("hfs", {"probabilities": True}),
            ("stable-hfs", {}),
        ):
            api.solve(model, **parameters)
        yield api


def rows(api: Api, query: str) -> list[dict[str, Any]]:
    lines = api.call("GET", f"{PREDICTIONS}?model=auto&format=ndjson&{query}", 200).text
    return [json.loads(line) for line in lines.splitlines()]


def test_a_label_is_in_a_set_by_its_p_value_or_as_it_is_predicted(kept: Api) -> None:
    for coverage in (0.2, 0.8, 0.95):
        for row in rows(kept, f"coverage={coverage}"):
            expected = [
                side
                for side in ("left", "right")
                if row[f"p_value:{side}"] > 1 - coverage or row["label"] == side
            ]
            assert row["labels"] == expected
            assert row["certain"] == (len(expected) == 1)
    assert all("labels" not in row and "p_value:left" in row for row in rows(kept, ""))
    sizes = [
        sum(len(row["labels"]) for row in rows(kept, f"coverage={coverage}"))
        for coverage in (0.1, 0.5, 0.9, 0.99)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] == 60
    assert sizes[-1] == 120  # 15 labels leave nothing out at that coverage


def test_formats_without_lists_part_labels_by_bars(kept: Api) -> None:
    text = kept.call("GET", f"{PREDICTIONS}?model=auto&format=csv&coverage=.99", 200).text
    told = list(csv.DictReader(io.StringIO(text)))
    assert {row["labels"] for row in told} == {"left|right"}
    content = kept.call("GET", f"{PREDICTIONS}?model=auto&format=arrow&coverage=.99", 200).content
    table = pa.ipc.open_stream(content).read_all()
    assert table["labels"].to_pylist() == [["left", "right"]] * 60
    assert table["certain"].to_pylist() == [False] * 60


def test_sets_say_whom_they_promise_what(kept: Api) -> None:
    answer = kept.call("GET", f"{SETS}?model=auto&coverage=.8", 200).content
    sets = TypeAdapter(PredictionSets).validate_json(answer, extra="forbid").sets
    (group,) = sets.groups
    assert (group.labels, group.n_labels, group.excludes) == (("left", "right"), 15, True)
    assert 0.0 < group.guaranteed < 0.8
    assert sets.n_nodes == 60
    told = rows(kept, "coverage=.8")
    assert sets.mean_size == pytest.approx(sum(len(row["labels"]) for row in told) / 60)
    assert sets.certain_share == pytest.approx(sum(row["certain"] for row in told) / 60)
    few = kept.call("GET", f"{SETS}?model=auto&coverage=.95", 200).json()["sets"]
    assert not few["groups"][0]["excludes"]


def test_nodes_have_their_sets_one_by_one(kept: Api) -> None:
    answer = kept.call("GET", f"{PREDICTIONS}/node?model=auto&id=n7&coverage=.8", 200).content
    one = TypeAdapter(NodePrediction).validate_json(answer, extra="forbid").prediction
    row = next(row for row in rows(kept, "coverage=.8") if row["node"] == "n7")
    assert list(one.labels or ()) == row["labels"]
    assert one.certain == row["certain"]
    found = kept.call(
        "POST", f"{PREDICTIONS}:lookup?model=auto&coverage=.8", 200, json={"nodes": ["n7"]}
    ).json()
    assert found["predictions"][0]["labels"] == row["labels"]
    plain = kept.call("GET", f"{PREDICTIONS}/node?model=auto&id=n7", 200).json()["prediction"]
    assert (plain["labels"], plain["certain"]) == (None, None)
    assert set(plain["p_values"]) == {"left", "right"}


def test_what_makes_no_set_is_refused(kept: Api) -> None:
    for coverage in ("0", "1", "1.5", "nan"):
        refused = kept.problem("GET", f"{SETS}?model=auto&coverage={coverage}", 422)
        assert refused["argument"] == "coverage"
    for path in (f"{SETS}?model=stable-hfs&coverage=.9", f"{PREDICTIONS}?model=hfs&coverage=.9"):
        problem = kept.problem("GET", path, 409)
        assert problem["type"] == "urn:peewit:problem:no-sets-kept"
        assert "sets=auto" in problem["detail"]
    body = {"kind": "solve", "model": "hfs", "parameters": {"sets": "all"}}
    assert "sets" in str(kept.problem("POST", "/graphs/g/jobs", 422, json=body))
    body["parameters"] = {"target": "real", "probabilities": True}
    assert "probabilities" in str(kept.problem("POST", "/graphs/g/jobs", 422, json=body))


def test_scores_become_probabilities_that_are_judged(kept: Api) -> None:
    job = kept.call("GET", "/jobs?graph=g", 200).json()["jobs"]
    told = {each["model"]: each["result"]["stats"] for each in job}
    for model in ("auto", "hfs"):
        truth = told[model]["calibration"]
        assert truth["is_calibrated"]
        assert 0.0 <= truth["expected_calibration_error"] <= 0.5
        assert 0.0 <= truth["brier_score"] < 0.5
        assert truth["n_left_out"] == 15
    assert "calibration" not in told["stable-hfs"]
    one = kept.call("GET", f"{PREDICTIONS}/node?model=hfs&id=n7", 200).json()
    assert one["score"] == "probability"
    assert sum(one["prediction"]["scores"].values()) == pytest.approx(1.0)
    plain = kept.call("GET", f"{PREDICTIONS}/node?model=stable-hfs&id=n7", 200).json()
    assert plain["score"] == "class score"


def test_a_wrong_label_is_the_most_doubtful(kept: Api) -> None:
    for model in ("auto", "hfs"):
        answer = kept.call("GET", f"{PREDICTIONS}/doubtful-labels?model={model}&k=3", 200).content
        found = TypeAdapter(DoubtfulLabels).validate_json(answer, extra="forbid").doubtful
        assert (found.n_left_out, len(found.labels)) == (15, 3)
        first = found.labels[0]
        assert (first.node, first.label, first.predicted) == ("n1", "right", "left")
        assert first.behind > 0 > found.labels[-1].behind
        assert first.probability is not None
        assert 0.0 <= first.probability < 0.5
        assert found.n_contradicted == sum(each.behind > 0 for each in found.labels)
    kept.problem("GET", f"{PREDICTIONS}/doubtful-labels?model=stable-hfs", 409)


def test_a_doubtful_label_that_the_answer_does_without_is_said_to_be_dropped(kept: Api) -> None:
    for model, n_dropped in (("poisson", 1), ("auto", 0)):
        listed = kept.call("GET", f"{PREDICTIONS}/doubtful-labels?model={model}", 200).json()
        told = {each["node"]: each["dropped"] for each in listed["doubtful"]["labels"]}
        assert len(told) == 15
        assert told["n1"] == bool(n_dropped)
        assert sum(told.values()) == n_dropped
    one = kept.call("GET", f"{PREDICTIONS}/node?model=poisson&id=n1", 200).json()["prediction"]
    assert one["label"] == "left"
    assert '"n1","right"' in kept.call("GET", "/graphs/g/labels", 200).text
    for value in (-1, "many", True):
        body = {"kind": "solve", "model": "hfs", "parameters": {"without_doubtful": value}}
        assert "without_doubtful" in str(kept.problem("POST", "/graphs/g/jobs", 422, json=body))


def test_answers_are_given_where_few_are_wrong(kept: Api) -> None:
    path = "/graphs/g/predictions/abstention"
    answer = kept.call("GET", f"{path}?model=auto&max_error=.4", 200).content
    found = TypeAdapter(PredictionAbstention).validate_json(answer, extra="forbid").abstention
    assert (found.n_left_out, found.confidence) == (15, 0.9)
    assert found.chosen is not None
    assert found.chosen.greatest_error <= 0.4
    assert found.curve[-1].answered == 1.0
    told = rows(kept, "")
    sure = sum(row["probability"] >= np.float32(found.chosen.score) for row in told) / 60
    assert found.answered_nodes == pytest.approx(sure)
    few = kept.call("GET", f"{path}?model=hfs&max_error=.01", 200).json()["abstention"]
    assert (few["chosen"], few["answered_nodes"]) == (None, None)
    assert kept.problem("GET", f"{path}?model=auto&max_error=0", 422)["argument"] == "max_error"
    refused = kept.problem("GET", f"{path}?model=stable-hfs&max_error=.1", 422)
    assert "probabilities=true" in refused["detail"]


def test_few_labels_are_refused_by_what_was_asked(kept: Api) -> None:
    labels = {"labels": [{"node": "n3", "few": "one"}, {"node": "n4", "few": "two"}]}
    kept.call("PUT", "/graphs/g/labels?label_column=few", 200, json=labels)
    error = kept.solve("auto", sets="auto", label_column="few")["error"]
    assert error.startswith("sets leaves labels out in 5 folds")
    assert "each class keeps one" in error


@pytest.mark.usefixtures("processes")
def test_labels_of_suggested_nodes_judge_no_answer(api: Api) -> None:
    bring_communities(api)
    nodes = [f"n{number}" for number in range(0, 60, 2)]
    for origin, chosen in (("suggested", nodes[::2]), ("random", nodes[1::2])):
        rows = [{"node": n, "label": "left" if int(n[1:]) < 30 else "right"} for n in chosen]
        api.call("PUT", f"/graphs/g/labels?origin={origin}", 200, json={"labels": rows})
    told = api.solve("auto", sets="marginal")["result"]
    assert told["stats"]["n_suggested"] == 15
    said = "15 labels of suggested nodes help to predict, and do not judge the answer; 17 others do"
    assert said in told["warning"]
    assert api.call("GET", f"{SETS}?coverage=.9", 200).json()["sets"]["warning"] == said
    path = f"{PREDICTIONS}/abstention?max_error=.5"
    found = api.call("GET", path, 200).json()["abstention"]
    assert (found["n_left_out"], found["warning"]) == (17, said)
