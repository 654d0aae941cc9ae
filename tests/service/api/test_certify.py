"""Certify jobs over HTTP, and where the measured accuracy is shown."""

from typing import Any

import pytest

from tests.service.api.conftest import CSV, Api

CERTIFY = {"kind": "certify", "parameters": {"gap": 0.5}}


def csv_edges(seed: int = 0, n_nodes: int = 30) -> bytes:
    rows = [f"n{u},n{v},{1 + (u * v + seed) % 3}" for v in range(n_nodes) for u in range(v)]
    return "\n".join(["src,dst,weight", *rows]).encode()


@pytest.fixture
def graph(api: Api) -> Api:
    api.create_graph("g", expected_nodes=30)
    api.push(csv_edges(), CSV)
    api.ingest()
    return api


def certified(api: Api, **parameters: Any) -> Any:
    """The job after its end."""
    body = CERTIFY | {"parameters": CERTIFY["parameters"] | parameters}
    job = api.call("POST", "/graphs/g/jobs", 202, json=body).json()
    assert (job["kind"], job["model"], job["parameters"]) == ("certify", None, body["parameters"])
    api.run_job(job["id"])
    return api.call("GET", f"/jobs/{job['id']}", 200).json()


@pytest.mark.usefixtures("processes")
def test_accuracy_is_shown_once_it_is_measured_and_its_snapshot_stays(graph: Api) -> None:
    before = graph.call("GET", "/graphs/g", 200).json()
    assert (before["epsilon_certified"], before["certificate"]) == (None, None)
    job = certified(graph)
    assert (job["status"], job["snapshot"]) == ("succeeded", 1)
    assert job["result"]["status"] == "converged"
    assert job["result"]["n_edges"] == before["edges_seen"]
    for number in range(1, 8):  # more than ingest keeps of those that nobody needs
        graph.push(csv_edges(seed=number), CSV)
        graph.ingest()
    after = graph.call("GET", "/graphs/g", 200).json()
    assert after["snapshot"] == 8
    assert after["certificate"]["snapshot"] == 1
    assert after["epsilon_certified"] == job["result"]["epsilon_certified"]
    listed = graph.call("GET", "/graphs/g/snapshots", 200).json()["snapshots"]
    numbers = [each["number"] for each in listed]
    assert numbers[0] == 8
    assert numbers[-1] == 1
    assert 2 not in numbers
    shown = {each["number"]: each["certificate"] for each in listed}
    assert shown.pop(1)["epsilon_certified"] == job["result"]["epsilon_certified"]
    assert not any(shown.values())
    newest = certified(graph)
    assert newest["result"]["snapshot"] == 8
    details = graph.call("GET", "/graphs/g", 200).json()
    assert details["certificate"]["snapshot"] == 8


def test_snapshot_that_is_not_kept_fails_at_once(graph: Api) -> None:
    job = certified(graph, snapshot=5)
    assert (job["status"], job["attempt"]) == ("failed", 1)
    assert job["error"] == "snapshot must be one that graph g keeps, got 5; it keeps 1"
