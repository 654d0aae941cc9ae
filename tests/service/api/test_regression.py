"""Numbers over HTTP: put, solved, looked up, downloaded."""

import io
import json

import pyarrow as pa
import pyarrow.csv
import pytest

from tests.service.api.conftest import (
    ARROW,
    CSV,
    NDJSON,
    PARQUET,
    Api,
    as_arrow,
    as_parquet,
    community_edges,
)

TABLE = pa.table({"node": ["n3", "n33"], "label": [-0.5, 1e3]})
CONTENT = {
    "application/json": b'{"labels":[{"node":"n3","label":-0.5},{"node":"n33","label":1000.0}]}',
    CSV: b"node,label\nn3,-0.5\nn33,1000.0\n",
    NDJSON: b'{"node":"n3","label":-0.5}\n{"node":"n33","label":1000.0}\n',
    PARQUET: as_parquet(TABLE),
    ARROW: as_arrow(TABLE),
}


WORTH = {"variance": True, "cross_validate": 3}


@pytest.fixture
def graph(api: Api) -> Api:
    """The API with a graph g of two communities, n60-n61 apart."""
    api.create_graph("g", seed=1)
    api.push(community_edges(PARQUET), PARQUET)
    api.push(b"src,dst\nn60,n61\n", CSV)
    api.ingest()
    return api


def test_numbers_of_every_format_are_stored_and_read_again(graph: Api) -> None:
    for media_type, content in CONTENT.items():
        headers = {"Content-Type": media_type}
        graph.call("PUT", "/graphs/g/labels", 200, content=content, headers=headers)
        found = graph.call("GET", "/graphs/g/labels?format=ndjson", 200)
        read = [json.loads(line) for line in found.content.splitlines()]
        put = [json.loads(line) for line in CONTENT[NDJSON].splitlines()]
        assert [
            each | {"origin": row["origin"], "annotator": None, "key": None}
            for each, row in zip(put, read, strict=True)
        ] == read


@pytest.mark.usefixtures("processes")
def test_numbers_are_predicted_and_read_by_node_and_as_a_table(graph: Api) -> None:
    graph.put_labels({"n3": -0.5, "n4": -0.25, "n33": 2})
    body = {
        "kind": "solve",
        "model": "hfs",
        "parameters": {"target": "real", "graph_penalty": 0} | WORTH,
    }
    job = graph.call("POST", "/graphs/g/jobs", 202, json=body).json()
    graph.run_job(job["id"])
    done = graph.call("GET", f"/jobs/{job['id']}", 200).json()
    assert (done["status"], done["result"]["n_unreachable"]) == ("succeeded", 2)

    answer = graph.call("GET", "/graphs/g/predictions/node?id=n3", 200).json()
    assert answer["score"] == "value"
    labeled = answer["prediction"]
    assert (labeled["label"], labeled["score"], labeled["margin"]) == (-0.5, -0.5, None)
    assert (labeled["scores"], labeled["variance"]) == (None, 0.0)
    assert done["result"]["stats"]["variance"]["relative_error"] == 0.125
    assert done["result"]["stats"]["cross_validation"]["n_left_out"] == 3
    body = {"nodes": ["n60", "n33", "n1"]}
    found = graph.call("POST", "/graphs/g/predictions:lookup", 200, json=body).json()
    lost, whole, other = found["predictions"]
    assert (lost["label"], lost["reachable"], lost["variance"]) == (None, False, None)
    assert lost["score"] == pytest.approx(1.25 / 3, rel=1e-6)
    assert whole["label"] == 2.0
    assert -0.5 <= other["label"] <= 2.0
    assert other["variance"] > 0
    assert other["score"] == pytest.approx(other["label"], rel=1e-6)

    told = graph.call("GET", "/graphs/g/predictions?format=csv", 200).content
    table = pa.csv.read_csv(io.BytesIO(told))
    assert table.schema.names == [
        "node",
        "label",
        "score",
        "margin",
        "reachable",
        "labeled",
        "variance",
    ]
    assert table["label"].null_count == table["variance"].null_count == 2
    lines = graph.call("GET", "/graphs/g/predictions?format=ndjson", 200).text.splitlines()
    assert any('"node":"n3","label":-0.5,"score":-0.5,"margin":null' in line for line in lines)


@pytest.mark.usefixtures("processes")
def test_numbers_and_words_are_told_apart(graph: Api) -> None:
    graph.problem("PUT", "/graphs/g/labels", 422, json={"labels": [{"node": "n3", "label": True}]})
    mixed = [{"node": "n3", "label": 0.5}, {"node": "n33", "label": "x"}]
    problem = graph.problem("PUT", "/graphs/g/labels", 422, json={"labels": mixed})
    assert "label of node 'n33' must be a number" in problem["detail"]
    graph.put_labels({"n3": 0.5, "n33": 1})
    done = graph.solve("hfs")
    assert done["status"] == "failed"
    assert "set target=real to predict them: node 'n3' has 0.5" in done["error"]


def test_a_target_that_is_none_is_refused(refusing: Api) -> None:
    body = {"kind": "solve", "model": "hfs", "parameters": {"target": "rank"}}
    problem = refusing.problem("POST", "/graphs/g/jobs", 422, json=body)
    assert "target must be 'class' or 'real'" in problem["detail"]
