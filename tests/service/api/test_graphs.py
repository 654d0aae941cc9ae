"""Graphs and their settings over HTTP."""

import pytest

from tests.service.api.conftest import CSV, Api


def test_a_graph_is_created_shown_changed_and_deleted(api: Api) -> None:
    made = api.call("POST", "/graphs", 201, json={"name": "papers", "epsilon": 0.5})
    assert made.headers["location"] == "/v1/graphs/papers"
    assert made.json()["settings"]["epsilon"] == made.json()["epsilon_asked"] == 0.5
    assert made.json()["settings"]["node_ids"] == "string"
    assert made.json()["snapshot"] is None
    assert api.call("GET", "/graphs/papers", 200).json() == made.json()

    auto_solve = {"model": "hfs", "parameters": {"graph_penalty": 2}}
    change = {"name": "articles", "epsilon": 0.8, "auto_solve": auto_solve, "max_edges": 10}
    changed = api.call("PATCH", "/graphs/papers", 200, json=change).json()
    assert changed["name"] == "articles"
    assert changed["settings"]["auto_solve"] == auto_solve
    assert changed["settings"]["max_edges"] == 10
    again = api.call("PATCH", "/graphs/articles", 200, json={"max_edges": None}).json()
    assert again["settings"]["max_edges"] is None
    assert again["settings"]["epsilon"] == 0.8
    assert [each["name"] for each in api.call("GET", "/graphs", 200).json()["graphs"]] == [
        "articles"
    ]

    api.call("DELETE", "/graphs/articles", 204)
    api.problem("GET", "/graphs/articles", 404)
    assert api.call("GET", "/graphs", 200).json() == {"graphs": []}


@pytest.mark.parametrize(
    ("body", "argument"),
    [
        ({"name": "No spaces"}, "name"),
        ({}, "name"),
        ({"name": "new", "epsilon": 1.5}, "epsilon"),
        ({"name": "new", "epsilon": "0.5"}, "epsilon"),
        ({"name": "new", "epsilom": 0.5}, "epsilom"),
        ({"name": "new", "node_ids": "uuid"}, "node_ids"),
        ({"name": "new", "snapshot_every": {}}, "snapshot_every"),
        ({"name": "new", "auto_solve": {"model": "magic"}}, "model"),
        ({"name": "new", "auto_solve": {"model": "hfs", "parameters": {"rtol": 2}}}, "rtol"),
        ({"name": "new", "auto_solve": {"model": "hfs", "parameter": {}}}, "auto_solve.parameter"),
        ({"name": "g\ud800"}, "name"),
    ],
)
def test_a_wrong_setting_is_named(refusing: Api, body: object, argument: str) -> None:
    problem = refusing.problem("POST", "/graphs", 422, json=body)
    assert problem["argument"] == argument
    assert argument.rpartition(".")[2] in problem["detail"]


def test_a_name_is_taken_once(api: Api) -> None:
    api.create_graph("g")
    api.create_graph("h")
    assert api.problem("POST", "/graphs", 409, json={"name": "g"})["title"] == "Graph exists"
    api.problem("PATCH", "/graphs/h", 409, json={"name": "g"})


def test_what_the_sparsifier_has_used_is_fixed(api: Api) -> None:
    api.create_graph("g")
    problem = api.problem("PATCH", "/graphs/g", 409, json={"node_ids": "int64"})
    assert problem["title"] == "Setting is fixed"
    problem = api.problem("PATCH", "/graphs/g", 422, json={"epsilon": 0})
    assert problem["argument"] == "epsilon"


def test_deleting_a_graph_cancels_its_jobs_and_frees_its_name(api: Api) -> None:
    api.create_graph("g")
    job = api.call("POST", "/graphs/g/jobs", 202, json={"model": "hfs"}).json()
    api.call("DELETE", "/graphs/g", 204)
    assert api.call("GET", f"/jobs/{job['id']}", 200).json()["status"] == "cancelled"
    api.create_graph("g")
    assert api.call("GET", "/jobs?graph=g", 200).json()["jobs"] == []


def test_the_backlog_is_shown(api: Api) -> None:
    api.create_graph("g")
    api.push(b"src,dst\na,b\n", CSV)
    shown = api.call("GET", "/graphs/g", 200).json()
    assert shown["backlog"]["n_files"] == shown["files"]["pending"] == 1
    assert shown["backlog"]["pushed_bytes"] == shown["backlog"]["n_bytes"] > 0
