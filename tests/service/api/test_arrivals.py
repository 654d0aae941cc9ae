"""A clock that is wrong once: what arrives by it waits, and nothing leaves the window for it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from sqlalchemy import text

from peewit.service.ingest.ingestor import Ingestor
from peewit.service.upkeep.doctor.database_and_rows import check_graphs
from peewit.service.upkeep.doctor.findings import Patient
from tests.service.api.conftest import ARROW, Api, as_arrow

AHEAD = """
CREATE TRIGGER ahead AFTER INSERT ON files BEGIN
    UPDATE files SET created_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+40 days')
    WHERE id = new.id;
END"""
COMMAND = "`peewit graph set g --clock-right`"


@contextmanager
def clock_ahead(api: Api) -> Iterator[None]:
    """The database's clock tells arrivals that lie 40 days ahead."""
    with api.home.database.write() as connection:
        connection.execute(text(AHEAD))
    try:
        yield
    finally:
        with api.home.database.write() as connection:
            connection.execute(text("DROP TRIGGER ahead"))


def push(api: Api, src: str) -> str:
    return str(api.push(as_arrow(pa.table({"src": [src], "dst": ["hub"]})), ARROW)["id"])


@pytest.fixture
def graph(api: Api) -> Api:
    """The API with a graph by arrival, of 30 days, that knows one edge."""
    api.create_graph("g", window={"length": "30d", "by": "arrival"})
    push(api, "ann")
    api.ingest()
    return api


def state(api: Api, push_id: str) -> tuple[str, str]:
    found = api.call("GET", f"/graphs/g/pushes/{push_id}", 200).json()
    return found["status"], found["note"] or ""


def counts(api: Api) -> tuple[int, int, int]:
    window = api.call("GET", "/graphs/g", 200).json()["window"]
    return window["n_live"], window["n_expired"], window["n_late"]


def test_an_arrival_far_ahead_waits_and_harms_no_other(graph: Api) -> None:
    with clock_ahead(graph):
        ahead = push(graph, "bob")
        graph.ingest()
    later = push(graph, "cay")
    graph.ingest()
    assert state(graph, later) == ("committed", "")
    assert counts(graph) == (2, 0, 0)
    status, note = state(graph, ahead)
    assert status == "pending"
    assert "40 d after all before them" in note
    assert COMMAND in note
    ready = graph.client.get("/readyz").json()
    assert any(COMMAND in str(each) for each in ready["ingest"])
    patient = Patient(database=graph.home.database, settings=graph.home.settings, now=0.0)
    assert COMMAND in next(check_graphs(patient)).text


def test_what_waits_goes_on_once_the_clock_is_said_to_be_right(graph: Api) -> None:
    with clock_ahead(graph):
        ahead = push(graph, "bob")
        graph.ingest()
    graph.home.manifest.wishes.confirm_clock(graph.home.catalog.get("g").id)
    graph.ingest()
    assert state(graph, ahead) == ("committed", "")
    later = push(graph, "cay")
    graph.ingest()
    assert state(graph, later) == ("committed", "")
    assert counts(graph) == (3, 0, 0)


def test_a_process_that_runs_on_believes_its_monotonic_clock(graph: Api) -> None:
    seconds = 0.0
    graph_id = graph.home.catalog.get("g").id
    ingestor = Ingestor(graph.home.database, graph.home.settings, monotonic=lambda: seconds)
    ingestor.ingest_graph(graph_id)
    push(graph, "eve")
    ingestor.ingest_graph(graph_id)  # from now on it knows what time it is
    with clock_ahead(graph):
        ahead = push(graph, "bob")
        ingestor.ingest_graph(graph_id)
        assert state(graph, ahead)[0] == "pending"
        seconds = 40 * 86_400.0
        ingestor.ingest_graph(graph_id)
    assert state(graph, ahead)[0] == "committed"
    assert counts(graph) == (1, 2, 0)


def test_a_latest_time_in_the_future_is_told(api: Api) -> None:
    api.create_graph("g", window={"length": "30d", "by": "arrival"})
    with clock_ahead(api):
        push(api, "ann")
        api.ingest()
    push(api, "bob")
    api.ingest()
    assert counts(api) == (1, 0, 1)
    (fault,) = api.client.get("/readyz").json()["ingest"]
    assert "edges with the right time come too late" in str(fault)
