"""Predictions over HTTP: the table, one node, some nodes, and where they come from."""

import io
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet
import pytest
from pydantic import TypeAdapter

from peewit.service.wire.predictions import Lookup, NodePrediction, PredictionRows
from tests.service.api.conftest import ARROW, CSV, NDJSON, PARQUET, Api, bring_communities

COLUMNS = ["node", "label", "score", "margin", "reachable", "labeled", "score:left", "score:right"]


def read(content: bytes, media_type: str) -> pa.Table:
    file = io.BytesIO(content)
    match media_type:
        case "application/vnd.apache.arrow.stream":
            return pa.ipc.open_stream(file).read_all()
        case "application/vnd.apache.parquet":
            return pa.parquet.read_table(file)
        case "text/csv":
            return pa.csv.read_csv(file)
        case _:
            return pa.json.read_json(file)


@pytest.mark.parametrize("media_type", [ARROW, PARQUET, CSV, NDJSON])
def test_all_predictions_come_in_any_format(solved: Api, media_type: str) -> None:
    found = solved.call("GET", "/graphs/g/predictions", 200, headers={"Accept": media_type})
    table = read(found.content, media_type)
    assert table.schema.names == COLUMNS
    assert table.num_rows == 60
    labels = dict(zip(table["node"].to_pylist(), table["label"].to_pylist(), strict=True))
    assert all(labels[f"n{node}"] == ("left" if node < 30 else "right") for node in range(60))
    (job,) = solved.call("GET", "/jobs?graph=g", 200).json()["jobs"]
    assert found.headers["peewit-job"] == job["id"]
    assert found.headers["peewit-model"] == "stable-hfs"
    assert found.headers["peewit-snapshot"] == "1"
    assert found.headers["peewit-labels-seq"] == "2"
    assert found.headers["peewit-features-version"] == "0"
    assert found.headers["peewit-solver-status"] == "converged"


def test_rows_come_sorted_some_of_them_and_those_without_a_label(solved: Api) -> None:
    def rows(query: str) -> list[dict[str, Any]]:
        found = solved.call("GET", f"/graphs/g/predictions?format=arrow{query}", 200)
        return list(read(found.content, ARROW).to_pylist())

    everything = rows("")
    labeled = [row["node"] for row in everything if row["labeled"]]
    assert len(labeled) == 2
    by_right = sorted(everything, key=lambda row: -row["score:right"])
    assert rows("&sort=score:right&top=7") == by_right[:7]
    assert rows("&sort=score:right&reverse=true&unlabeled=true") == [
        row for row in sorted(everything, key=lambda row: row["score:right"]) if not row["labeled"]
    ]
    assert [row["node"] for row in rows("&unlabeled=true&top=58")] == [
        row["node"] for row in everything if row["node"] not in labeled
    ]
    tags = {
        solved.call("GET", f"/graphs/g/predictions?format=csv{query}", 200).headers["etag"]
        for query in ("", "&top=1", "&sort=node", "&unlabeled=true", "&safe_csv=true")
    }
    assert len(tags) == 5
    for wrong in ("sort=size", "top=0", "reverse=true", "sort=margin&positive=left&threshold=0"):
        solved.call("GET", f"/graphs/g/predictions?{wrong}", 422)


def test_unchanged_predictions_are_not_sent_again(solved: Api) -> None:
    found = solved.call("GET", "/graphs/g/predictions?format=csv", 200)
    headers = {"If-None-Match": f'"another", {found.headers["etag"]}'}
    same = solved.call("GET", "/graphs/g/predictions?format=csv", 304, headers=headers)
    assert (same.content, same.headers["etag"]) == (b"", found.headers["etag"])
    solved.call("GET", "/graphs/g/predictions?format=ndjson", 200, headers=headers)
    for known in ("*", f"W/{found.headers['etag']}"):
        headers = {"If-None-Match": known}
        solved.call("GET", "/graphs/g/predictions?format=csv", 304, headers=headers)


def test_unchanged_edges_of_a_snapshot_are_not_sent_again(solved: Api) -> None:
    path = "/graphs/g/snapshots/1/edges"
    found = solved.call("GET", f"{path}?format=csv", 200)
    headers = {"If-None-Match": found.headers["etag"]}
    same = solved.call("GET", f"{path}?format=csv", 304, headers=headers)
    assert (same.content, same.headers["etag"]) == (b"", found.headers["etag"])
    solved.call("GET", f"{path}?format=arrow", 200, headers=headers)
    solved.call("GET", "/graphs/g/snapshots/2/edges?format=csv", 404)


def test_answers_in_json_are_what_the_schemas_say(solved: Api) -> None:
    """Nothing checks them on their way."""
    one = solved.call("GET", "/graphs/g/predictions/node?id=n7", 200).content
    schema = TypeAdapter(NodePrediction)
    told = schema.validate_json(one, strict=True, extra="forbid")
    assert orjson.loads(schema.dump_json(told)) == orjson.loads(one)
    asked = {"nodes": ["n1", "nobody", "n2"]}
    some = solved.call("POST", "/graphs/g/predictions:lookup", 200, json=asked).content
    schema = TypeAdapter(Lookup)
    found = schema.validate_json(some, strict=True, extra="forbid")
    assert orjson.loads(schema.dump_json(found)) == orjson.loads(some)


def test_one_node_is_told_with_its_origin(solved: Api) -> None:
    found = solved.call("GET", "/graphs/g/predictions/node?id=n7", 200).json()
    assert (found["model"], found["snapshot"], found["labels_seq"]) == ("stable-hfs", 1, 2)
    assert found["score"] == "class score"
    prediction = found["prediction"]
    assert (prediction["node"], prediction["label"], prediction["reachable"]) == (
        "n7",
        "left",
        True,
    )
    scores = prediction["scores"]
    assert prediction["score"] == scores["left"] == max(scores.values())
    assert prediction["margin"] == pytest.approx(scores["left"] - scores["right"])


def test_an_unknown_node_is_not_found(solved: Api) -> None:
    problem = solved.problem("GET", "/graphs/g/predictions/node?id=nobody", 404)
    assert problem["title"] == "Node not found"


def test_some_nodes_are_looked_up_in_the_order_of_asking(solved: Api) -> None:
    nodes = ["n59", "nobody", "n0", "n59"]
    found = solved.call("POST", "/graphs/g/predictions:lookup", 200, json={"nodes": nodes}).json()
    assert [each["node"] for each in found["predictions"]] == ["n59", "n0", "n59"]
    assert (found["unknown"], found["newer"]) == (["nobody"], [])


@pytest.mark.parametrize("nodes", [[], [7], ["n0"] * 10_001, [None], ["\ud800"]])
def test_a_wrong_lookup_is_refused(solved: Api, nodes: list[object]) -> None:
    solved.problem("POST", "/graphs/g/predictions:lookup", 422, json={"nodes": nodes})


def test_predictions_of_another_model_or_job_are_not_found(solved: Api) -> None:
    (job,) = solved.call("GET", "/jobs?graph=g", 200).json()["jobs"]
    solved.call("GET", f"/graphs/g/predictions?job={job['id']}&model=stable-hfs", 200)
    solved.problem("GET", "/graphs/g/predictions?model=hfs", 404)
    solved.problem("GET", f"/graphs/g/predictions?job={job['id']}&model=hfs", 404)
    solved.problem("GET", "/graphs/g/predictions?job=none", 404)


def test_a_graph_without_predictions_says_what_to_do(refusing: Api) -> None:
    problem = refusing.problem("GET", "/graphs/g/predictions", 404)
    assert "submit a job" in problem["detail"]
    refusing.problem("GET", "/graphs/g/predictions/node?id=a", 404)


@pytest.mark.usefixtures("processes")
def test_integers_push_label_solve_and_predict(api_on_any_database: Api) -> None:
    """Two parts, one without labels; ids that only strings can carry; a node after the solve."""
    api = api_on_any_database
    large = 2**60
    api.create_graph("g", node_ids="int64")
    api.push(f"src,dst\n{large},1\n1,2\n2,3\n100,101\n".encode(), CSV)
    api.ingest()
    api.put_labels({str(large): 0, 3: 1})
    job = api.solve("hfs")
    done = api.call("GET", f"/jobs/{job['id']}?wait=30", 200).json()
    assert (done["status"], done["result"]["n_unreachable"]) == ("succeeded", 2)

    found = api.call("GET", f"/graphs/g/predictions/node?id={large}", 200).json()["prediction"]
    assert (found["node"], found["label"]) == (str(large), 0)
    unreached = api.call("GET", "/graphs/g/predictions/node?id=100", 200).json()["prediction"]
    assert (unreached["label"], unreached["reachable"]) == (None, False)
    problem = api.problem("GET", "/graphs/g/predictions/node?id=x", 422)
    assert problem["argument"] == "id"

    api.push(b"src,dst\n3,4\n", CSV)
    for _ in ("while the push waits", "once it is committed"):
        problem = api.problem("GET", "/graphs/g/predictions/node?id=4", 404)
        assert "newer than snapshot 1" in problem["detail"]
        body = {"nodes": [4, "1", 77]}
        looked_up = api.call("POST", "/graphs/g/predictions:lookup", 200, json=body).json()
        assert (looked_up["newer"], looked_up["unknown"]) == ([4], [77])
        assert looked_up["predictions"][0]["node"] == 1
        api.ingest()


def test_snapshots_are_listed_and_downloaded(solved: Api) -> None:
    (snapshot,) = solved.call("GET", "/graphs/g/snapshots", 200).json()["snapshots"]
    assert (snapshot["number"], snapshot["n_nodes"], snapshot["epsilon_asked"]) == (1, 60, None)
    path = "/graphs/g/snapshots/1/edges"
    table = read(solved.call("GET", path, 200, headers={"Accept": PARQUET}).content, PARQUET)
    assert table.num_rows == snapshot["edges_kept"]
    assert set(table["src"].to_pylist()) <= {f"n{node}" for node in range(60)}
    problem = solved.problem("GET", "/graphs/g/snapshots/2/edges", 404)
    assert "the newest is 1" in problem["detail"]
    solved.problem("GET", "/graphs/g/snapshots/0/edges", 422)


@pytest.mark.usefixtures("processes")
def test_the_freshest_predictions_are_told_as_soon_as_their_job_has_ended(
    api_on_any_database: Api,
) -> None:
    api = api_on_any_database
    bring_communities(api)
    for labels_seq, label in enumerate(("right", "left", "right"), start=3):
        api.put_labels({"n7": label})
        job = api.call("POST", "/graphs/g/jobs", 202, json={"model": "harmonic-mbo"}).json()["id"]
        api.run_job(job)
        found = api.call("GET", "/graphs/g/predictions/node?id=n7", 200).json()
        assert (found["job"], found["labels_seq"]) == (job, labels_seq)
        assert found["prediction"]["label"] == label


def test_pages_of_rows_are_the_table(solved: Api) -> None:
    found = solved.call("GET", "/graphs/g/predictions?format=csv", 200)
    table = read(found.content, CSV)
    told, first = [], 0
    while first is not None:
        answer = solved.call("GET", f"/graphs/g/predictions/rows?first={first}&limit=7", 200)
        page = TypeAdapter(PredictionRows).validate_json(answer.content, extra="forbid")
        assert 0 < len(page.predictions) <= 7
        told += [each.node for each in page.predictions]
        first = page.next_row
    assert told == table["node"].to_pylist()


def test_rows_are_those_of_a_class_and_of_small_margin(solved: Api) -> None:
    answer = solved.call("GET", "/graphs/g/predictions/rows?limit=1000", 200).json()
    everything = answer["predictions"]
    lefts = [each for each in everything if each["label"] == "left"]
    margin = sorted(each["margin"] for each in lefts)[20]
    score = sorted(each["score"] for each in lefts)[5]
    query = f"label=left&margin_below={margin}&score_from={score}"
    some = solved.call("GET", f"/graphs/g/predictions/rows?{query}", 200).json()["predictions"]
    assert some == [each for each in lefts if each["margin"] < margin and each["score"] >= score]
    assert 0 < len(some) < len(lefts) < len(everything)
    problem = solved.problem("GET", "/graphs/g/predictions/rows?label=middle", 422)
    assert problem["argument"] == "label"
    problem = solved.problem("GET", "/graphs/g/predictions/rows?margin=0.1", 422)
    assert problem["argument"] == "margin"
    assert "must be one of first, job, label, label_column, limit" in problem["detail"]
