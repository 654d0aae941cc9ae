"""Jobs over HTTP: submitted once, watched, cancelled."""

import threading
from typing import Any

import httpx
import pytest

from tests.service.api.conftest import Api

SOLVE = {"kind": "solve", "model": "stable-hfs", "parameters": {"graph_penalty": 1.0}}


@pytest.fixture
def graph(api: Api) -> Api:
    """The API with an empty graph g."""
    api.create_graph("g")
    return api


def test_a_job_waits_and_tells_where_it_is(graph: Api) -> None:
    submitted = graph.call("POST", "/graphs/g/jobs", 202, json=SOLVE | {"priority": 5})
    job = submitted.json()
    assert submitted.headers["location"] == f"/v1/jobs/{job['id']}"
    assert (job["status"], job["parameters"]) == ("queued", {"graph_penalty": 1.0})
    assert (job["priority"], job["lane"]) == (5, "fast")
    assert graph.call("GET", f"/jobs/{job['id']}?wait=0.1", 200).json() == job


def test_the_same_idempotency_key_is_the_same_job(graph: Api) -> None:
    headers = {"Idempotency-Key": "monday"}
    first = graph.call("POST", "/graphs/g/jobs", 202, json=SOLVE, headers=headers).json()
    again = graph.call("POST", "/graphs/g/jobs", 202, json=SOLVE, headers=headers).json()
    assert again["id"] == first["id"]
    other = SOLVE | {"model": "hfs"}
    graph.problem("POST", "/graphs/g/jobs", 409, json=other, headers=headers)
    empty = {"Idempotency-Key": ""}
    graph.problem("POST", "/graphs/g/jobs", 422, json=SOLVE, headers=empty)


@pytest.mark.parametrize(
    ("body", "argument"),
    [
        ({"model": "magic"}, "model"),
        ({"kind": "dance", "model": "hfs"}, "kind"),
        ({"model": "hfs", "parameters": {"graph_penalty": -1}}, "graph_penalty"),
        ({"model": "hfs", "parameters": {"graph_penalty": True}}, "graph_penalty"),
        ({"model": "hfs", "parameters": {"penalty": 1}}, None),
        ({"model": ""}, "model"),
        ({"model": "hfs", "priority": 101}, "priority"),
        ({"model": "hfs", "priority": 1.5}, "priority"),
        ({"kind": "tune", "model": "lapsvm", "parameters": {"folds": 0}}, "folds"),
        ({"kind": "tune", "model": "lapsvm", "parameters": {"grid": {"width": [-1]}}}, "width"),
        ({"kind": "knn", "parameters": {"k": 2**31}}, "k"),
        ({"kind": "knn", "parameters": {"n_probes": 2**31}}, "n_probes"),
        ({"kind": "knn", "parameters": {"k": "many"}}, "parameters.k"),
        ({"kind": "knn", "parameters": {"weights": "gauss"}}, "parameters.weights"),
        ({"kind": "knn", "parameters": {"width": 1.0}}, "width"),
        ({"kind": "knn", "parameters": {"weights": "heat", "width": -1.0}}, "width"),
        ({"kind": "knn", "parameters": {"method": "fast"}}, "parameters.method"),
        ({"kind": "certify", "parameters": {"gap": 2}}, "gap"),
        ({"kind": "certify", "parameters": {"probability": "much"}}, "parameters.probability"),
        ({"kind": "filter", "parameters": {"teleport": 0}}, "teleport"),
        ({"kind": "filter", "parameters": {"teleport": 1.5}}, "teleport"),
    ],
)
def test_a_wrong_job_is_refused(refusing: Api, body: Any, argument: str | None) -> None:
    problem = refusing.problem("POST", "/graphs/g/jobs", 422, json=body)
    assert problem.get("argument") == argument
    assert refusing.call("GET", "/jobs", 200).json()["jobs"] == []


def test_a_waiting_job_is_cancelled_and_those_who_wait_for_it_hear(graph: Api) -> None:
    job = graph.call("POST", "/graphs/g/jobs", 202, json=SOLVE).json()
    answers: list[httpx.Response] = []
    path = f"/jobs/{job['id']}?wait=60"
    waiting = threading.Thread(target=lambda: answers.append(graph.call("GET", path, 200)))
    waiting.start()
    graph.call("POST", f"/jobs/{job['id']}:cancel", 200)
    waiting.join()
    assert answers[0].json()["status"] == "cancelled"
    assert graph.call("POST", f"/jobs/{job['id']}:cancel", 200).json()["status"] == "cancelled"


def test_an_unknown_job_is_not_found(refusing: Api) -> None:
    refusing.problem("GET", "/jobs/none", 404)
    refusing.problem("GET", "/jobs/none?wait=10", 404)
    refusing.problem("POST", "/jobs/none:cancel", 404)
    refusing.problem("GET", "/jobs/none/events", 404)
    refusing.problem("GET", "/jobs?graph=none", 404)
    refusing.problem("GET", "/jobs?status=lost", 422)


def test_the_history_of_a_job_is_a_stream_of_events(graph: Api) -> None:
    job = graph.call("POST", "/graphs/g/jobs", 202, json=SOLVE).json()
    lines: list[str] = []

    def watch() -> None:
        with graph.client.stream("GET", f"/v1/jobs/{job['id']}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines.extend(stream.iter_lines())

    watching = threading.Thread(target=watch)
    watching.start()
    graph.call("POST", f"/jobs/{job['id']}:cancel", 200)
    watching.join()
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event")]
    assert kinds == ["queued", "cancelled"]
    assert [line for line in lines if line.startswith("id")] == ["id: 1", "id: 2"]
    headers = {"Last-Event-ID": "1"}
    rest = graph.call("GET", f"/jobs/{job['id']}/events", 200, headers=headers).text
    assert rest.startswith("event: cancelled\ndata: {")
    assert rest.endswith("}\nid: 2\n\n")
