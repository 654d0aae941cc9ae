"""The formats of Label Studio: what tasks look like, and what exports come to."""

import json
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from peewit.service.label_studio.annotations import Answer, agreed, read_export
from peewit.service.label_studio.tasks import completed, labeling_config, shown_keys, task


def annotated(node: Any, *annotations: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A task of an export in JSON."""
    data = {"node": node, "graph": "g", "origin": "suggested"}
    return {"id": 7, "data": data, "annotations": list(annotations), "project": 1, **more}


def chosen(*choices: str, by: object = 1, at: str = "2026-03-01T10:00:00Z", **more: Any) -> Any:
    """An annotation with a choice."""
    result = [
        {
            "id": "x1",
            "from_name": "label",
            "to_name": "node",
            "type": "choices",
            "origin": "manual",
            "value": {"choices": list(choices)},
        }
    ]
    return {
        "id": 3,
        "completed_by": by,
        "result": result if choices else [],
        "was_cancelled": False,
        "created_at": "2026-03-01T09:00:00.123456Z",
        "updated_at": at,
        "lead_time": 4.2,
        **more,
    }


def labels_of(*tasks: dict[str, Any]) -> dict[str, str]:
    """Choices that people agree on, by node; nothing may be refused."""
    export = read_export(list(tasks), graph="g")
    found, ties = agreed(export.answers)
    assert [*export.refused, *ties] == []
    return {each.node: each.choice for each in found}


def test_a_task_has_what_is_predicted_and_choices_that_fit_it() -> None:
    made = completed(
        [
            task(
                5,
                graph="g",
                origin="suggested",
                prediction={"label": "a & b", "score": 0.75},
                model_version="auto, snapshot 1",
                shown={"text": "spam?"},
            ),
            task("6", graph="g", origin="random", prediction={"label": None, "score": 0.1}),
        ]
    )
    first, second = json.loads(json.dumps(made))
    assert first["data"] == {"node": "5", "graph": "g", "origin": "suggested", "text": "spam?"}
    assert second == {"data": {"node": "6", "graph": "g", "origin": "random", "text": ""}}
    (prediction,) = first["predictions"]
    assert (prediction["model_version"], prediction["score"]) == ("auto, snapshot 1", 0.75)
    view = ET.fromstring(labeling_config(["a & b", 2], shown=shown_keys(made)))
    tags = {each.get("name"): each for each in view.iter() if each.get("name")}
    (result,) = prediction["result"]
    control = tags[result["from_name"]]
    assert (control.tag.lower(), control.get("toName")) == (result["type"], result["to_name"])
    assert control.get("choice") == "single"
    values = [each.get("value") for each in control]
    assert values == ["a & b", "2"]
    assert set(result["value"]["choices"]) <= set(values)
    shown = {each.get("value") for name, each in tags.items() if name != "label"}
    assert shown == {"$node", "$text"}


@pytest.mark.parametrize("classes", [["a"], ["1", 1]])
def test_choices_are_two_or_more_that_differ(classes: list[Any]) -> None:
    with pytest.raises(ValueError, match="classes must be"):
        labeling_config(classes)


def test_the_last_of_each_person_counts_and_then_the_most_people() -> None:
    later = "2026-03-02T10:00:00Z"
    assert labels_of(
        annotated("a", chosen("x", by=1), chosen("y", by=2), chosen("y", by={"email": "c@d"})),
        annotated("b", chosen("y", by=1, at=later), chosen("x", by=1)),
        annotated("c", chosen("x", by=1), chosen("y", by=2)),
        annotated("c", chosen("y", by=1, at=later)),
    ) == {"a": "y", "b": "y", "c": "y"}


def test_a_tie_is_refused_with_its_task() -> None:
    found, ties = agreed(
        read_export([annotated("a", chosen("x"), chosen("y", by=2))], graph="g").answers
    )
    assert found == []
    assert [(each.task, "'x' and 'y'" in each.reason) for each in ties] == [("7", True)]


def test_order_of_an_export_changes_nothing() -> None:
    answers = [
        Answer(
            node="a", choice=choice, origin="suggested", task="1", annotator=str(person), at=None
        )
        for person, choice in enumerate("xyyxy")
    ]
    assert agreed(answers)[0][0].choice == agreed(answers[::-1])[0][0].choice == "y"


def test_what_was_skipped_or_not_answered_says_nothing() -> None:
    export = read_export(
        [
            annotated("a", chosen("x", was_cancelled=True), chosen(by=2)),
            annotated("b"),
            annotated("c", chosen("x"), predictions=[{"result": []}], drafts=[]),
        ],
        graph="g",
    )
    assert [(each.node, each.choice) for each in export.answers] == [("c", "x")]
    assert (export.n_skipped, export.n_unanswered, export.refused) == (1, 2, [])


def test_json_min_is_read_as_json_is() -> None:
    row = {
        "node": "a",
        "graph": "g",
        "origin": "random",
        "text": "t",
        "id": 4,
        "label": "x",
        "annotator": 1,
        "annotation_id": 9,
        "lead_time": 1.5,
        "created_at": "2026-03-01T09:00:00Z",
        "updated_at": "2026-03-01T09:00:00Z",
    }
    unanswered = {"node": "b", "graph": "g", "id": 5, "annotator": None, "annotation_id": None}
    export = read_export([row, unanswered], graph="g")
    (answer,) = export.answers
    assert (answer.node, answer.choice, answer.origin) == ("a", "x", "random")
    assert (answer.annotator, answer.task, export.n_unanswered) == ("1", "4", 1)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (annotated(None, chosen("x")), "data must have 'node'"),
        (annotated(True, chosen("x")), "data must have 'node'"),
        ({"id": 7, "data": [], "annotations": []}, "data must be an object"),
        (annotated("a") | {"data": {"node": "a", "graph": "other"}}, "must be of graph 'g'"),
        (annotated("a", chosen("x", "y")), "must be one choice, got ['x', 'y']"),
        (annotated("a", chosen("x", at="yesterday")), "updated_at must be a time as of ISO"),
        (annotated("a", chosen("x") | {"result": "x"}), "result must be a list"),
        (annotated("a") | {"annotations": [12]}, "must be objects"),
        (annotated("a") | {"annotations": 12}, "must be a list"),
        ({"id": 7, "data": {"node": "a"}, "completions": []}, "data must have 'node'"),
        ({"id": 7, "node": "a", "label": {"rating": 3}}, "must be one choice"),
        ({"id": 7, "node": "a", "label": ["x", "y"]}, "must be one choice"),
        ({"id": 7, "node": "a", "label": {"choices": 5}}, "as Label Studio writes it"),
        (annotated("a", chosen("x", at="0001-01-01T00:00:00")), "updated_at must be a time"),
    ],
)
def test_a_bad_task_is_refused_alone(row: dict[str, Any], reason: str) -> None:
    export = read_export([row, annotated("b", chosen("x"), id=8)], graph="g")
    assert [each.node for each in export.answers] == ["b"]
    (refused,) = export.refused
    assert refused.task == "7"
    assert reason in refused.reason


def test_what_is_no_task_is_refused_alone() -> None:
    export = read_export([5, annotated("b", chosen("x")), None], graph="g")
    assert [each.node for each in export.answers] == ["b"]
    assert [each.task for each in export.refused] == ["0", "2"]


@pytest.mark.parametrize("exported", [{}, [1], "x", None])
def test_an_export_is_a_list_of_tasks(exported: object) -> None:
    with pytest.raises(ValueError, match="must be a list of tasks"):
        read_export(exported, graph="g")


def test_tasks_that_nobody_has_seen_are_no_export() -> None:
    with pytest.raises(ValueError, match="must hold annotations, got bare tasks"):
        read_export([{"data": {"node": "a", "graph": "g"}, "predictions": []}], graph="g")
