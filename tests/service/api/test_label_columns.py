"""Several label columns over HTTP: put, read, solved and predicted by their names."""

from typing import Any

import pyarrow as pa
import pytest

from tests.service.api.conftest import (
    ARROW,
    CSV,
    NDJSON,
    PARQUET,
    Api,
    as_arrow,
    as_parquet,
    bring_communities,
)

TABLE = pa.table({"node": ["n3", "n33", "n5"], "hue": ["red", "blue", None], "size": [1, 2, 2]})
CONTENT = {
    "application/json": b'{"labels":[{"node":"n3","hue":"red","size":1},'
    b'{"node":"n33","hue":"blue","size":2},{"node":"n5","hue":null,"size":2}]}',
    CSV: b"node,hue,size\nn3,red,1\nn33,blue,2\nn5,,2\n",
    NDJSON: b'{"node":"n3","hue":"red","size":1}\n{"node":"n33","hue":"blue","size":2}\n'
    b'{"node":"n5","size":2}\n',
    PARQUET: as_parquet(TABLE),
    ARROW: as_arrow(TABLE),
}
BOTH = "label_column=hue&label_column=size"


@pytest.fixture
def graph(api_on_any_database: Api) -> Api:
    """A graph g of two communities with two labels in the column without a name."""
    bring_communities(api_on_any_database)
    return api_on_any_database


def put(api: Api, media_type: str = CSV, query: str = BOTH, expected: int = 200) -> Any:
    answer = api.call(
        "PUT",
        f"/graphs/g/labels?{query}",
        expected,
        content=CONTENT[media_type],
        headers={"Content-Type": media_type},
    )
    return answer.json()


def without_origin(text: str) -> list[str]:
    """Lines of CSV without quotes and the columns behind the label."""
    return [line.replace('"', "").rsplit(",", 3)[0] for line in text.splitlines()]


def test_a_column_may_be_called_as_that_of_origins_is(api: Api) -> None:
    bring_communities(api)
    body = {"labels": [{"node": "n3", "origin": "Oslo"}]}
    api.call("PUT", "/graphs/g/labels?label_column=origin", 200, json=body)
    for form, told in (
        ("csv", '"node","origin","annotator","key"\n"n3","Oslo",,\n'),
        ("ndjson", '{"node":"n3","origin":"Oslo","annotator":null,"key":null}\n'),
    ):
        path = f"/graphs/g/labels?label_column=origin&format={form}"
        assert api.call("GET", path, 200).text == told


@pytest.mark.thinned(3)
@pytest.mark.parametrize("media_type", CONTENT)
def test_columns_of_any_format_are_stored_by_name(api: Api, media_type: str) -> None:
    bring_communities(api)
    assert put(api, media_type)["accepted"] == 5
    hue = api.call("GET", "/graphs/g/labels?label_column=hue&format=csv", 200)
    assert without_origin(hue.text) == ["node,hue", "n3,red", "n33,blue"]
    plain = api.call("GET", "/graphs/g/labels?format=csv", 200)
    assert without_origin(plain.text) == ["node,label", "n3,left", "n33,right"]
    found = api.call("GET", "/graphs/g/labels:columns", 200).json()["label_columns"]
    assert found == [
        {"name": "", "n_labeled": 2, "n_labels": 2},
        {"name": "hue", "n_labeled": 2, "n_labels": 2},
        {"name": "size", "n_labeled": 3, "n_labels": 2},
    ]


def test_labels_are_taken_back_from_their_column(graph: Api) -> None:
    put(graph)
    taken = graph.call("DELETE", "/graphs/g/labels?node=n3&label_column=hue", 200).json()
    assert taken["accepted"] == 1
    left = graph.call("GET", "/graphs/g/labels?label_column=hue&format=csv", 200)
    assert without_origin(left.text) == ["node,hue", "n33,blue"]
    assert "left" in graph.call("GET", "/graphs/g/labels?format=csv", 200).text


def test_a_node_that_is_unknown_refuses_the_labels_of_all_columns(graph: Api) -> None:
    options = {"headers": {"Content-Type": CSV}, "content": b"node,hue,size\nn3,red,1\nghost,,2\n"}
    problem = graph.problem("PUT", f"/graphs/g/labels?{BOTH}", 422, **options)
    assert (problem["refused"], problem["n_refused"]) == (["ghost"], 1)
    found = graph.call("GET", "/graphs/g/labels:columns", 200).json()["label_columns"]
    assert [each["name"] for each in found] == [""]


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ("label_column=hue&label_column=hue", "must name each column once"),
        ("label_column=node", "not that of nodes"),
        ("label_column=%20hue", "without white space around it"),
        ("label_column=", "printable text of 1 to 200 bytes"),
        ("label_column=nope", "column 'nope' is missing; the file has node, hue, size"),
        ("label_column=hue&label=size", "label must be left out beside label_column"),
    ],
)
def test_names_that_break_a_rule_are_refused(refusing: Api, query: str, rule: str) -> None:
    options = {"content": CONTENT[CSV], "headers": {"Content-Type": CSV}}
    problem = refusing.problem("PUT", f"/graphs/g/labels?{query}", 422, **options)
    assert rule in problem["detail"]


def test_columns_that_nobody_labeled_are_not_found(graph: Api) -> None:
    put(graph)
    body = {"model": "hfs", "parameters": {"label_column": "nope"}}
    for method, path, options in (
        ("GET", "labels?label_column=nope", {}),
        ("DELETE", "labels?label_column=nope&node=n3", {}),
        ("POST", "jobs", {"json": body}),
        ("POST", "jobs:estimate", {"json": body}),
        ("POST", "jobs:solve", {"json": {"model": "hfs", "label_columns": ["hue", "nope"]}}),
    ):
        problem = graph.problem(method, f"/graphs/g/{path}", 404, **options)
        assert problem["type"] == "urn:peewit:problem:label-column-not-found"
        assert "got 'nope'; graph g has 'hue', 'size'" in problem["detail"]
    assert graph.call("GET", "/jobs", 200).json()["jobs"] == []
    problem = graph.problem("GET", "/graphs/g/predictions?label_column=hue", 404)
    assert "no predictions of label column 'hue' yet" in problem["detail"]


@pytest.mark.usefixtures("processes")
def test_columns_are_solved_on_one_snapshot_and_read_by_name(graph: Api) -> None:
    put(graph)
    body = {"model": "hfs", "label_columns": ["hue", "size", ""]}
    jobs = graph.call("POST", "/graphs/g/jobs:solve", 202, json=body).json()["jobs"]
    graph.push(b"src,dst\nn1,new\n", CSV)
    graph.ingest()  # publishes another snapshot before they run
    for job in jobs:
        graph.run_job(job["id"])
    ended = [graph.call("GET", f"/jobs/{job['id']}", 200).json() for job in jobs]
    assert [job["status"] for job in ended] == ["succeeded"] * 3
    assert [job["snapshot"] for job in ended] == [1, 1, 1]
    assert graph.call("GET", "/graphs/g", 200).json()["snapshot"] == 2

    def told(query: str) -> tuple[Any, Any]:
        found = graph.call("GET", f"/graphs/g/predictions/node?id=n7{query}", 200).json()
        return found["label_column"], found["prediction"]["label"]

    assert told("&label_column=hue") == ("hue", "red")
    assert told("&label_column=size") == ("size", 1)
    assert told("") == (None, "left")
    assert told(f"&job={jobs[1]['id']}") == ("size", 1)
    wrong = f"/graphs/g/predictions?label_column=hue&job={jobs[1]['id']}"
    assert "for label column 'size'" in graph.problem("GET", wrong, 404)["detail"]
    judged = graph.call(
        "POST",
        "/graphs/g/predictions:evaluate?label_column=hue",
        200,
        content=b"node,hue\nn3,red\nn7,red\nn40,blue\n",
        headers={"Content-Type": CSV},
    ).json()["of_classes"]
    assert (judged["n_judged"], judged["n_right"], judged["n_labeled"]) == (2, 2, 1)
    body = {"nodes": ["n40"]}
    found = graph.call("POST", "/graphs/g/predictions:lookup?label_column=size", 200, json=body)
    assert found.json()["predictions"][0]["label"] == 2
    suggested = graph.call("GET", "/graphs/g/suggestions?label_column=size&k=60", 200).json()
    nodes = {each["node"] for each in suggested["suggestions"]}
    assert nodes.isdisjoint({"n3", "n33", "n5"})
    assert suggested["job"] == jobs[1]["id"]
