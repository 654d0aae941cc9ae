"""Predictions judged over HTTP, and thresholds chosen and applied there."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from peewit.service.settings import Settings
from peewit.service.wire.evaluations import PredictionEvaluation, Threshold
from tests.service.api.conftest import CSV, Api, bring_communities, serving

EVALUATE, THRESHOLD = "/graphs/g/predictions:evaluate", "/graphs/g/predictions/threshold"
SIDE = {f"n{node}": "left" if node < 30 else "right" for node in range(60)}
TRUTH = {"labels": [{"node": node, "label": label} for node, label in SIDE.items()]}


@pytest.fixture(scope="module")
def judged(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A graph that was solved with labels left out by hfs, and without by stable-hfs."""
    home = tmp_path_factory.mktemp("judged")
    with serving(Settings(home=home, database_url=None, admin_key_file=None)) as api:
        bring_communities(api)
        api.put_labels({"n5": "left", "n9": "left", "n35": "right", "n39": "right"})
        api.solve("stable-hfs")
        api.solve("hfs", graph_penalty=0.1, cross_validate=3)
        yield api


def test_predictions_are_judged_by_a_body(judged: Api) -> None:
    answer = judged.call("POST", EVALUATE, 200, json=TRUTH).content
    schema = TypeAdapter(PredictionEvaluation)
    told = schema.validate_json(answer, extra="forbid")
    assert orjson.loads(schema.dump_json(told)) == orjson.loads(answer)
    found = told.of_classes
    assert found is not None
    assert (found.accuracy, found.n_judged, found.n_labeled) == (1.0, 54, 6)
    assert [each.roc_auc for each in found.classes] == [1.0, 1.0]
    assert found.confusion.counts == ((27, 0, 0, 0), (0, 27, 0, 0), (0, 0, 0, 0))
    assert (told.model, told.of_numbers, found.threshold) == ("hfs", None, None)
    assert told.note is None
    table = "id,side\n" + "".join(f"{node},{label}\n" for node, label in SIDE.items())
    options: dict[str, Any] = {"content": table, "headers": {"Content-Type": CSV}}
    path = f"{EVALUATE}?model=stable-hfs&node=id&label=side"
    again = judged.call("POST", path, 200, **options).json()
    assert (again["model"], again["of_classes"]["accuracy"]) == ("stable-hfs", 1.0)


def test_what_the_truth_may_have_meant_otherwise_is_told(judged: Api) -> None:
    rows = [{"node": node, "label": label.title()} for node, label in SIDE.items()]
    note = judged.call("POST", EVALUATE, 200, json={"labels": rows[:30] + TRUTH["labels"][30:]})
    assert note.json()["note"] == (
        "30 rows have class 'Left', which no label has; did you mean 'left'?"
    )
    rows = [{"node": "U1", "label": "left"}, {"node": "n5", "label": "left"}]
    told = judged.call("POST", EVALUATE, 200, json={"labels": rows}).json()
    assert told["note"] == (
        "nothing is judged: of the 2 nodes of the truth 1 carry a label and 1 have no prediction"
    )


def test_a_threshold_is_chosen_judged_and_applied(judged: Api) -> None:
    chosen = judged.call("GET", f"{THRESHOLD}?positive=left&cost_fn=5", 200).content
    told = TypeAdapter(Threshold).validate_json(chosen, extra="forbid").chosen
    assert (told.n_nodes, told.n_positive, told.by_threshold.recall) == (6, 3, 1.0)
    query = f"positive=left&threshold={told.threshold}"
    body = judged.call("POST", f"{EVALUATE}?{query}&cost_fn=5", 200, json=TRUTH).json()
    found = body["of_classes"]["threshold"]
    assert found["threshold"] == told.threshold
    same = judged.call("POST", f"{EVALUATE}?positive=left&cost_fn=5", 200, json=TRUTH).json()
    assert same["of_classes"]["threshold"] == found
    listed = judged.call("GET", f"/graphs/g/predictions?format=ndjson&{query}", 200)
    rows = [orjson.loads(line) for line in listed.text.splitlines()]
    left = {row["node"] for row in rows if row["label"] == "left"}
    assert left == {row["node"] for row in rows if row["probability:left"] >= told.threshold}
    n_unlabeled = len(left - {"n3", "n5", "n9", "n33", "n35", "n39"})
    assert n_unlabeled == found["by_threshold"]["n_found"]


def test_tables_of_other_thresholds_are_other_tables(judged: Api) -> None:
    path = "/graphs/g/predictions?format=arrow"
    plain = judged.call("GET", path, 200)
    decided = f"{path}&positive=left&threshold=0.9"
    headers = {"If-None-Match": plain.headers["etag"]}
    other = judged.call("GET", decided, 200, headers=headers)
    assert other.content != plain.content
    judged.call("GET", decided, 304, headers={"If-None-Match": other.headers["etag"]})
    lower = f"{path}&positive=left&threshold=0.2"
    judged.call("GET", lower, 200, headers={"If-None-Match": other.headers["etag"]})


@pytest.mark.parametrize(
    ("method", "path", "argument"),
    [
        ("POST", f"{EVALUATE}?top_k=2", "top_k"),
        ("POST", f"{EVALUATE}?threshold=0.5", "positive"),
        ("POST", f"{EVALUATE}?positive=middle&threshold=0.5", "positive"),
        ("POST", f"{EVALUATE}?positive=left&threshold=nan", "threshold"),
        ("GET", f"{THRESHOLD}?positive=left", "threshold"),
        ("GET", THRESHOLD, "positive"),
        ("GET", f"{THRESHOLD}?positive=left&min_recall=2", "min_recall"),
        ("GET", f"{THRESHOLD}?positive=left&min_precision=0", "min_precision"),
        ("GET", f"{THRESHOLD}?positive=left&cost_fn=0", "cost_fn"),
        ("GET", f"{THRESHOLD}?positive=left&cost_fp=inf", "cost_fp"),
        ("GET", f"{THRESHOLD}?positive=left&cost_fn=1&positive_share=1", "positive_share"),
        ("GET", f"{THRESHOLD}?positive=left&min_recall=0.5&cost_fn=1", "min_recall"),
        ("GET", "/graphs/g/predictions?positive=middle&threshold=1", "positive"),
        ("GET", "/graphs/g/predictions?threshold=1", "positive"),
    ],
)
def test_an_argument_that_breaks_its_rule_is_named(
    judged: Api, method: str, path: str, argument: str
) -> None:
    options: dict[str, Any] = {"json": TRUTH} if method == "POST" else {}
    assert judged.problem(method, path, 422, **options)["argument"] == argument
