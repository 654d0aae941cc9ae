"""Graphs with a window over HTTP: what leaves, what comes too late, what is refused."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tests.service.api.conftest import ARROW, Api, as_arrow

DAY = 86_400


def edges(*rows: tuple[str, str, str]) -> bytes:
    src, dst, days = zip(*rows, strict=True)
    times = [datetime.fromisoformat(f"{day}T12:00:00+00:00") for day in days]
    return as_arrow(pa.table({"src": src, "dst": dst, "time": times}))


@pytest.fixture
def graph(api: Api) -> Api:
    """The API with a graph g of five days, which knows an edge of January 10."""
    api.create_graph("g", window={"length": "5d", "buckets": 5})
    api.push(edges(("ann", "bob", "2026-01-03"), ("bob", "cay", "2026-01-10")), ARROW)
    api.ingest()
    return api


def shown(graph: Api) -> Any:
    return graph.call("GET", "/graphs/g", 200).json()


def test_edges_leave_by_their_time(graph: Api) -> None:
    before = shown(graph)
    assert before["settings"]["deletions"] == "exact"
    assert before["settings"]["window"] == {
        "length": 5 * DAY,
        "by": "time",
        "width": DAY,
        "allowed_ahead": DAY,
        "time_unit": None,
        "relations": {},
    }
    assert before["window"] == {
        "horizon": "2026-01-05T00:00:00Z",
        "watermark": "2026-01-10T12:00:00Z",
        "n_live": 1,
        "n_expired": 1,
        "n_late": 0,
    }
    graph.push(edges(("cay", "dan", "2026-01-14"), ("ann", "cay", "2026-01-04")), ARROW)
    graph.ingest()
    assert shown(graph)["left_out"]["too_old"] == before["left_out"]["too_old"] + 1
    found = shown(graph)["window"]
    assert (found["n_live"], found["n_expired"], found["n_late"]) == (2, 1, 1)
    assert found["horizon"] == "2026-01-09T00:00:00Z"
    snapshot = graph.call("GET", "/graphs/g/snapshots", 200).json()["snapshots"][0]
    assert (snapshot["n_live"], snapshot["n_late"]) == (2, 1)
    assert snapshot["horizon"] == found["horizon"]
    assert shown(graph)["deleted"]["n_deleted"] == 0


def test_rows_that_delete_need_no_time(graph: Api) -> None:
    graph.call("DELETE", "/graphs/g/edges?src=cay&dst=bob", 202)
    graph.ingest()
    found = shown(graph)
    assert (found["window"]["n_live"], found["deleted"]["n_deleted"]) == (0, 1)


def test_a_time_too_far_ahead_refuses_its_push_alone(graph: Api) -> None:
    far = edges(("ann", "bob", "2026-01-11"), ("ann", "cay", "2126-01-11"))
    refused = graph.problem(
        "POST", "/graphs/g/edges", 422, content=far, headers={"Content-Type": ARROW}
    )
    assert "must not lie ahead of" in refused["detail"]
    assert (refused["row"], refused["value"]) == (1, "2126-01-11T12:00:00Z")
    without = as_arrow(pa.table({"src": ["ann"], "dst": ["bob"]}))
    refused = graph.problem(
        "POST", "/graphs/g/edges", 422, content=without, headers={"Content-Type": ARROW}
    )
    assert "'time' is missing" in refused["detail"]
    graph.push(edges(("ann", "bob", "2026-01-11")), ARROW)
    graph.ingest()
    assert shown(graph)["window"]["n_live"] == 2


def test_its_length_may_change_and_nothing_else(graph: Api) -> None:
    graph.push(edges(("cay", "dan", "2026-01-08")), ARROW)
    graph.ingest()
    changed = graph.call("PATCH", "/graphs/g", 200, json={"window": {"length": 2 * DAY}}).json()
    assert changed["settings"]["window"]["length"] == 2 * DAY
    assert changed["settings"]["window"]["width"] == DAY
    graph.push(edges(("ann", "bob", "2026-01-10")), ARROW)
    graph.ingest()
    assert shown(graph)["window"]["horizon"] == "2026-01-08T00:00:00Z"
    for window, told in (
        (None, "from the first edge or never"),
        ({"length": "5d", "by": "arrival"}, "window.by"),
        ({"length": "5d", "buckets": 50}, "window.width"),
        ({"length": "5d", "time_unit": "ms"}, "window.time_unit"),
        ({"length": "five days"}, "window.length"),
        ({"length": 0}, "window"),
        ({"length": "5d", "hurry": True}, "hurry"),
    ):
        status = 422 if isinstance(window, dict) and window["length"] != "5d" else 409
        status = 422 if isinstance(window, dict) and "hurry" in window else status
        problem = graph.problem("PATCH", "/graphs/g", status, json={"window": window})
        assert told in str(problem), window


def test_the_horizon_moves_by_hand(graph: Api) -> None:
    asked = graph.call(
        "POST", "/graphs/g/horizon", 202, json={"before": "2026-01-10T01:00:00+01:00"}
    ).json()
    assert asked == {
        "wanted": "2026-01-10T00:00:00Z",
        "snapshot": 1,
        "horizon": "2026-01-05T00:00:00Z",
        "relations": {},
        "n_live": 1,
        "n_expired": 1,
    }
    graph.call("POST", "/graphs/g/horizon", 202, json={"before": "2026-01-02T00:00:00Z"})
    graph.ingest()  # the later one holds
    state = graph.call("GET", "/graphs/g/horizon", 200).json()
    assert (state["wanted"], state["horizon"]) == (None, "2026-01-10T00:00:00Z")
    assert (state["snapshot"], state["n_live"], state["n_expired"]) == (2, 1, 1)
    assert shown(graph)["window"]["n_live"] == 1
    later = datetime(2062, 1, 10, tzinfo=UTC).isoformat()
    refused = graph.problem("POST", "/graphs/g/horizon", 422, json={"before": later})
    assert refused["argument"] == "before"
    assert "2026-01-10T12:00:00Z is the latest, got 2062-01-10T00:00:00Z" in refused["detail"]
    graph.ingest()
    assert shown(graph)["window"]["n_live"] == 1


def test_what_makes_no_window_is_refused(api: Api) -> None:
    for settings, told in (
        ({"deletions": "off"}, "leave deletions out, since a window makes them exact"),
        ({"window": {"length": "5d", "buckets": 0}}, "buckets"),
        ({"window": {"length": "5d", "allowed_ahead": "soon"}}, "allowed_ahead"),
        ({"window": {"length": "5d", "by": "arrival"}, "columns": {"time": "at"}}, "columns.time"),
        ({"window": None, "columns": {"time": "at"}}, "columns.time"),
    ):
        body = {"name": "x", "window": {"length": "5d"}, **settings}
        assert told in str(api.problem("POST", "/graphs", 422, json=body)), settings
    api.create_graph("plain")
    problem = api.problem(
        "POST", "/graphs/plain/horizon", 409, json={"before": "2026-01-10T00:00:00Z"}
    )
    assert problem["type"] == "urn:peewit:problem:graph-has-no-window"
    api.problem("POST", "/graphs/plain/horizon", 422, json={"before": "2026-01-10"})
    body = as_arrow(pa.table({"src": ["ann"], "dst": ["bob"], "at": [0]}))
    refused = api.problem(
        "POST", "/graphs/plain/edges?time=at", 422, content=body, headers={"Content-Type": ARROW}
    )
    assert refused["argument"] == "columns.time"
    api.create_graph("empty", window={"length": "5d"})
    refused = api.problem(
        "POST", "/graphs/empty/horizon", 422, json={"before": "2026-01-10T00:00:00Z"}
    )
    assert "there are none" in refused["detail"]
    assert api.call("GET", "/graphs/plain", 200).json()["window"] is None


def test_a_push_may_call_its_time_as_it_likes(graph: Api) -> None:
    body = as_arrow(pa.table({"src": ["ann"], "dst": ["bob"], "at": [1768046400]}))
    graph.call(
        "POST", "/graphs/g/edges?time=at", 202, content=body, headers={"Content-Type": ARROW}
    )
    graph.ingest()
    assert shown(graph)["window"]["n_live"] == 2


def test_by_arrival_no_time_is_needed(api: Api) -> None:
    api.create_graph("g", window={"length": "1h", "by": "arrival"})
    began = datetime.now(UTC).timestamp()
    api.push(as_arrow(pa.table({"src": ["ann"], "dst": ["bob"]})), ARROW)
    api.ingest()
    found = shown(api)["window"]
    assert found["n_live"] == 1
    watermark = datetime.fromisoformat(found["watermark"]).timestamp()
    assert began - 60 <= watermark <= datetime.now(UTC).timestamp() + 60


def test_relations_keep_their_own_time(api: Api) -> None:
    own = {"length": "5d", "buckets": 5, "relations": {"card": "none", "login": "2d"}}
    api.create_graph("g", window=own)
    days = ("2026-01-01", "2026-01-06", "2026-01-08")
    for relation in ("card", "login", "message"):
        rows = edges(*((relation, f"{relation}{day}", day) for day in days))
        path = f"/graphs/g/edges?relation={relation}"
        api.call("POST", path, 202, content=rows, headers={"Content-Type": ARROW})
    api.ingest()

    def told() -> dict[str, tuple[Any, ...]]:
        relations = api.call("GET", "/graphs/g/relations", 200).json()["relations"]
        return {
            each["name"]: (
                *(each["window"], each["horizon"], each["n_edges"], each["left_out"]["too_old"]),
                *(each["n_left"], each["watermark"]),
            )
            for each in relations
        }

    latest = "2026-01-08T12:00:00Z"
    assert told() == {
        "card": (None, None, 3, 0, 0, latest),
        "login": (2 * DAY, "2026-01-06T00:00:00Z", 2, 1, 0, latest),
        "message": (5 * DAY, "2026-01-03T00:00:00Z", 2, 1, 0, latest),
    }
    changed = {"window": {"relations": {"card": "3d", "login": None}}}
    settings = api.call("PATCH", "/graphs/g", 200, json=changed).json()["settings"]
    assert settings["window"]["relations"] == {"card": 3 * DAY, "login": None}
    assert settings["window"]["length"] == 5 * DAY
    api.push(edges(("a", "b", "2026-01-12")), ARROW)  # of no relation, by which others leave
    api.ingest()
    assert told() == {
        "card": (3 * DAY, "2026-01-09T00:00:00Z", 0, 0, 3, latest),
        "login": (None, "2026-01-06T00:00:00Z", 2, 1, 0, latest),
        "message": (5 * DAY, "2026-01-07T00:00:00Z", 1, 1, 1, latest),
        "": (5 * DAY, "2026-01-07T00:00:00Z", 1, 0, 0, "2026-01-12T12:00:00Z"),
    }
    note = api.call("GET", "/graphs/g/snapshots", 200).json()["snapshots"][0]["note"]
    assert note == f"no edge of card lives: the latest is of {latest}, which its window has passed"
    api.call("POST", "/graphs/g/horizon", 202, json={"before": "2026-01-12T12:00:00Z"})
    api.ingest()
    horizon = api.call("GET", "/graphs/g/horizon", 200).json()
    assert horizon["horizon"] == "2026-01-12T00:00:00Z"
    assert horizon["relations"] == {"card": "2026-01-12T00:00:00Z", "login": "2026-01-06T00:00:00Z"}
    assert [each[2] for each in told().values()] == [0, 2, 0, 1]


def test_a_new_window_must_say_how_long(api: Api) -> None:
    body = {"name": "g", "window": {"relations": {"card": "none"}}}
    refused = api.problem("POST", "/graphs", 422, json=body)
    assert "window.length must say how long edges live" in str(refused)
