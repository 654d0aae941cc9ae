"""`peewit labelstudio`: tasks that go out, and what annotators make of them."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.service.cli.conftest import Peewit
from tests.service.cli.test_cli_suggest import graph

__all__ = ["graph"]

pytestmark = pytest.mark.usefixtures("processes")


def annotated(task: dict[str, Any], number: int, choice: str, **more: Any) -> dict[str, Any]:
    """A task as an export has it, with the answer of one person."""
    (prediction,) = task["predictions"]
    result = [{**prediction["result"][0], "id": "r", "value": {"choices": [choice]}}]
    annotation = {"id": number, "completed_by": 1, "result": result, "was_cancelled": False}
    return {"id": number, **task, "annotations": [{**annotation, **more}]}


def test_suggested_nodes_come_back_as_labels(
    peewit: Peewit, graph: str, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "labels.csv").write_text("node,label\nn3,1\nn33,2\n")
    peewit("labels", "put", graph, tmp_path / "labels.csv")
    assert peewit("solve", graph, "--model", "stable-hfs").exit_code == 0
    told = home / "items" / graph
    told.mkdir(parents=True)
    for node in range(60):
        (told / f"n{node}.txt").write_text(f"about {node}")
    out, config = tmp_path / "tasks.json", tmp_path / "config.xml"
    written = peewit("labelstudio", "tasks", graph, "-o", out, "--config", config, "-k", 8)
    assert written.exit_code == 0, written.err
    assert "wrote 8 tasks" in written.err
    tasks = json.loads(out.read_text())
    suggested = peewit("suggest", graph, "-k", 8, "--json").json["suggestions"]
    assert [each["data"]["node"] for each in tasks] == [each["node"] for each in suggested]
    for task, each in zip(tasks, suggested, strict=True):
        assert task["data"]["text"] == f"about {each['node'][1:]}"
        (prediction,) = task["predictions"]
        assert prediction["score"] == pytest.approx(each["prediction"]["score"])
        choices = prediction["result"][0]["value"]["choices"]
        assert choices == [str(each["prediction"]["label"])]
        assert prediction["model_version"] == "stable-hfs, snapshot 1, labels 2"
    choices = ET.fromstring(config.read_text()).findall("Choices/Choice")
    assert [each.get("value") for each in choices] == ["1", "2"]

    export = [annotated(task, number, "2") for number, task in enumerate(tasks)]
    export[1] = annotated(tasks[1], 1, "2", was_cancelled=True)
    export[2] = annotated(tasks[2], 2, "3")
    export[3]["data"]["node"] = "nobody"
    export[4]["data"]["origin"] = "random"
    (tmp_path / "export.json").write_text(json.dumps(export))
    put = peewit("labelstudio", "labels", graph, tmp_path / "export.json", "--json")
    assert put.exit_code == 0, put.err
    answer = put.json
    assert (answer["accepted"], answer["n_skipped"], answer["n_unanswered"]) == (5, 1, 0)
    assert answer["labels_seq"] == 7
    refused = {each["task"]: each["reason"] for each in answer["refused"]}
    assert refused.keys() == {"2", "3"}
    assert "must be a class of the graph, got '3'" in refused["2"]
    assert "must know the node, got 'nobody'" in refused["3"]
    labels = peewit("labels", "list", graph, "--json").json
    origins = {each["node"]: (each["label"], each["origin"]) for each in labels}
    nodes = [each["node"] for each in suggested]
    assert origins[nodes[0]] == (2, "suggested")
    assert origins[nodes[4]] == (2, "random")
    assert len(origins) == 7

    (tmp_path / "third.json").write_text(json.dumps([export[2]]))
    alone = peewit("labelstudio", "labels", graph, tmp_path / "third.json")
    assert (alone.exit_code, "refused task 2: the choice must be" in alone.err) == (1, True)
    third = peewit("labelstudio", "labels", graph, tmp_path / "third.json", "--class", 3)
    assert third.exit_code == 0, third.err
    assert "accepted 1 labels, labels_seq 8" in third.err


def test_tasks_need_classes_and_exports_are_json(
    peewit: Peewit, graph: str, tmp_path: Path
) -> None:
    asked = ("labelstudio", "tasks", graph, "-o", tmp_path / "t.json", "--strategy", "random")
    none = peewit(*asked, "--config", tmp_path / "c.xml")
    assert (none.exit_code, "classes must be two or more, got 0" in none.err) == (1, True)
    assert not (tmp_path / "t.json").exists()
    named = peewit(*asked, "--config", tmp_path / "c.xml", "--class", "a", "--class", "b", "--json")
    assert (named.exit_code, named.json["classes"]) == (0, ["a", "b"])
    tasks = json.loads((tmp_path / "t.json").read_text())
    assert {each["data"]["origin"] for each in tasks} == {"random"}
    assert not any("predictions" in each for each in tasks)
    (tmp_path / "bad.json").write_text("[")
    bad = peewit("labelstudio", "labels", graph, tmp_path / "bad.json")
    assert (bad.exit_code, "must be JSON" in bad.err) == (1, True)
