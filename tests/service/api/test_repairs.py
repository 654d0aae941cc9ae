"""Repairs that somebody asks for over HTTP, and what came of them."""

import threading
from typing import Any

import pytest

from tests.service.api.conftest import ARROW, Api, as_arrow
from tests.service.repairable import SETTINGS, many_edges


@pytest.fixture
def graph(api: Api) -> Api:
    """The API with a graph g, most of whose edges were thrown away."""
    api.create_graph("g", **SETTINGS)
    for part in range(2):
        api.push(as_arrow(many_edges(part)), ARROW)
        api.ingest()
    shown = api.call("GET", "/graphs/g", 200).json()
    assert shown["edges_kept"] < shown["edges_seen"]  # otherwise there is nothing to sample
    return api


def repair(graph: Api, status: int, *, wait: float = 0, **body: bool) -> Any:
    return graph.call("POST", f"/graphs/g/repairs?wait={wait}", status, json=body).json()


def state(graph: Api) -> Any:
    return graph.call("GET", "/graphs/g/repairs", 200).json()


def test_who_waits_is_told_what_was_made(graph: Api) -> None:
    n_live = graph.call("GET", "/graphs/g", 200).json()["deleted"]["n_live"]
    assert state(graph) == {"wanted": None, "snapshot": 2, "repair": None, "fault": None}
    asked = {"wanted": "all", "snapshot": 2, "repair": None, "fault": None}
    assert repair(graph, 202, rebuild=True) == asked == state(graph)
    assert repair(graph, 202, wait=0.01) == asked  # what was asked for stays
    ingest = threading.Timer(0.2, graph.ingest)
    ingest.start()
    made = repair(graph, 200, rebuild=True, wait=60)
    ingest.join()
    assert (made["wanted"], made["snapshot"]) == (None, 3)
    assert (made["repair"]["kind"], made["repair"]["snapshot"]) == ("all", 3)
    assert made["repair"]["n_edges"] == n_live
    assert state(graph) == made


def test_a_graph_without_damage_has_nothing_to_repair(graph: Api) -> None:
    repair(graph, 202, rebuild=True)
    graph.ingest()
    assert state(graph)["repair"] is not None
    ingest = threading.Timer(0.2, graph.ingest)
    ingest.start()
    found = repair(graph, 200, wait=60)
    assert found == {"wanted": None, "snapshot": 3, "repair": None, "fault": None}
    ingest.join()


def test_a_graph_without_a_log_is_a_conflict(api: Api) -> None:
    api.create_graph("g")
    problem = api.problem("POST", "/graphs/g/repairs", 409, json={})
    assert problem["type"] == "urn:peewit:problem:graph-cannot-be-repaired"
    assert "must be exact to repair it, they are off" in problem["detail"]
    shown = api.call("GET", "/graphs/g/repairs", 200).json()
    assert shown == {"wanted": None, "snapshot": None, "repair": None, "fault": None}


def test_without_a_log_pushed_files_are_read_again_and_missing_ones_told(api: Api) -> None:
    api.create_graph("g", node_ids="dense", expected_nodes=40, seed=1, max_edges=100)
    for part in range(2):
        api.push(as_arrow(many_edges(part)), ARROW)
        api.ingest()
    repair(api, 202, rebuild=True)
    api.ingest()
    made = state(api)
    assert (made["wanted"], made["repair"]["kind"], made["fault"]) == (None, "all", None)
    (pushes,) = api.home.settings.graphs_directory.glob("*/pushes")
    contents = {path: path.read_bytes() for path in pushes.iterdir()}
    for path in contents:
        path.unlink()
    repair(api, 202, rebuild=True)
    ingest = threading.Timer(0.2, api.ingest)
    ingest.start()
    failed = repair(api, 202, rebuild=True, wait=60)
    ingest.join()
    assert failed["wanted"] == "all"
    assert "it is missing" in failed["fault"]
    assert api.call("GET", "/graphs/g", 200).json()["repair_fault"] == failed["fault"]
    for path, content in contents.items():
        path.write_bytes(content)
    api.ingest()
    assert (state(api)["wanted"], state(api)["fault"]) == (None, None)


def test_a_body_that_asks_for_nothing_is_refused(refusing: Api) -> None:
    for body, argument in (({"rebuild": "yes"}, "rebuild"), ({"everything": True}, "everything")):
        assert argument in str(refusing.problem("POST", "/graphs/g/repairs", 422, json=body))
