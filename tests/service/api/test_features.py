"""Features over HTTP: durable before the answer, then in the graph, or refused with the row."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.ingest.daemon import IngestDaemon
from peewit.service.settings import Settings
from tests.service.api.conftest import (
    ARROW,
    CSV,
    NDJSON,
    PARQUET,
    Api,
    as_arrow,
    as_parquet,
    serving,
)

ROWS = b"node,x,y\na,1,2\nb,3,4\n"


def give(
    api: Api,
    content: bytes,
    expected: int,
    *,
    method: str = "PUT",
    media_type: str = CSV,
    **query: Any,
) -> Any:
    return api.call(
        method,
        "/graphs/g/features",
        expected,
        content=content,
        headers={"Content-Type": media_type},
        params=query,
    )


@pytest.fixture
def daemon(api: Api) -> Iterator[None]:
    """What brings sets in while a request waits."""
    stopped = threading.Event()
    running = IngestDaemon(api.home.database, api.home.settings)

    def run() -> None:
        while not stopped.wait(0.02):
            running.serve_once(stopped.is_set)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    stopped.set()
    thread.join()
    running.close()


def test_features_are_on_disk_when_they_are_accepted_and_in_the_graph_after_ingest(
    api_on_any_database: Api,
) -> None:
    api = api_on_any_database
    api.create_graph()
    answer = give(api, ROWS, 202)
    taken = answer.json()
    assert (taken["status"], taken["mode"], taken["kind"]) == ("pending", "replace", "dense")
    assert (taken["n_rows"], taken["n_columns"], taken["features_version"]) == (2, 2, None)
    assert "path" not in taken
    waiting = api.call("GET", "/graphs/g/features", 200).json()
    assert (waiting["features_version"], waiting["n_pending"]) == (0, 1)
    api.ingest()
    location = answer.headers["location"].removeprefix("/v1")
    ended = api.call("GET", location, 200).json()
    assert (ended["status"], ended["features_version"], ended["n_new_nodes"]) == ("committed", 1, 2)
    assert api.call("GET", "/graphs/g/features", 200).json() == {
        "features_version": 1,
        "kind": "dense",
        "n_rows": 2,
        "n_columns": 2,
        "n_missing": 0,
        "n_pending": 0,
        "refused": None,
    }
    graph = api.call("GET", "/graphs/g", 200).json()
    assert (graph["nodes"], graph["snapshot"], graph["features_version"]) == (2, 1, 1)
    assert graph["features"]["n_rows"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("media_type", [ARROW, PARQUET, NDJSON])
def test_posted_rows_join_those_there_are(api: Api, media_type: str) -> None:
    api.create_graph()
    give(api, ROWS, 202)
    table = pa.table({"node": ["b", "c"], "features": [[5.0, 6.0], [7.0, 8.0]]})
    lines = b"".join(
        b'{"node":"%s","features":[%d,%d]}\n' % row for row in [(b"b", 5, 6), (b"c", 7, 8)]
    )
    bodies = {ARROW: as_arrow(table), PARQUET: as_parquet(table), NDJSON: lines}
    give(api, bodies[media_type], 202, method="POST", media_type=media_type)
    api.push(b"src,dst\na,d\n", CSV)
    api.ingest()
    features = api.call("GET", "/graphs/g/features", 200).json()
    assert (features["features_version"], features["n_rows"], features["n_missing"]) == (2, 3, 1)


def test_an_answer_can_wait_for_the_graph(api: Api, daemon: None) -> None:
    api.create_graph()
    ended = give(api, ROWS, 200, wait=30).json()
    assert (ended["features_version"], ended["n_rows"], ended["n_columns"]) == (1, 2, 2)
    assert ended["n_new_nodes"] == 2
    sparse = b'{"node":"a","indices":[4],"values":[1.5]}\n'
    ended = give(api, sparse, 200, media_type=NDJSON, wait=30).json()
    assert (ended["features_version"], ended["kind"], ended["n_columns"]) == (2, "sparse", 5)


@pytest.mark.slow
def test_what_only_ingest_can_see_is_told_to_whoever_waits(api: Api, daemon: None) -> None:
    api.create_graph()
    problem = give(api, b"node,x\na,1\nb,2\na,3\n", 422, wait=30).json()
    assert problem["type"] == "urn:peewit:problem:features-break-the-contract"
    assert (problem["argument"], problem["row"], problem["value"]) == ("node", 2, "a")
    refused = api.call("GET", "/graphs/g/features", 200).json()["refused"]
    assert refused["reason"] == "features must have one row of each node; leave the second out"
    give(api, ROWS, 200, wait=30)
    assert api.call("GET", "/graphs/g/features", 200).json()["refused"] is None


@pytest.mark.parametrize(
    ("content", "media_type", "argument", "row"),
    [
        (b"node,x\na,1\nb,nan\n", CSV, "x", 1),
        (b"node,x\n", CSV, None, None),
        (b"", PARQUET, None, None),
        (b'{"node":"a","features":[1]}\n{"node":"b","features":[1,2]}\n', NDJSON, "features", 1),
        (b'{"node":"a","indices":[-1],"values":[1]}\n', NDJSON, "indices", 0),
        (as_parquet(pa.table({"node": [1], "features": [[1.0]]})), PARQUET, "node", None),
        (as_arrow(pa.table({"node": ["a"], "features": ["x"]})), ARROW, "features", None),
        (as_parquet(pa.table({"node": ["a", "b"]}))[:-20], PARQUET, None, None),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_what_breaks_the_contract_is_refused_at_the_door(
    refusing: Api, method: str, content: bytes, media_type: str, argument: Any, row: Any
) -> None:
    problem = refusing.problem(
        method, "/graphs/g/features", 422, content=content, headers={"Content-Type": media_type}
    )
    assert (problem.get("argument"), problem.get("row")) == (argument, row)
    assert refusing.call("GET", "/graphs/g/features", 200).json()["n_pending"] == 0


def test_other_bodies_and_graphs_are_refused(refusing: Api) -> None:
    path = "/graphs/g/features"
    refusing.problem("PUT", path, 415, content=b"{}", headers={"Content-Type": "text/html"})
    refusing.problem(
        "PUT", "/graphs/none/features", 404, content=ROWS, headers={"Content-Type": CSV}
    )
    refusing.problem("GET", f"{path}/sets/none", 404)


def test_features_over_a_cap_are_refused(tmp_path: Path) -> None:
    settings = Settings(
        home=tmp_path / "home", database_url=None, max_body_bytes=1_000, max_backlog_bytes=10
    )
    with serving(settings) as api:
        api.create_graph()
        rows = np.ones((100, 4)).tolist()
        table = pa.table({"node": [f"n{row}" for row in range(100)], "features": rows})
        give(api, as_arrow(table), 413, media_type=ARROW)
        give(api, ROWS, 202)
        answer = give(api, ROWS, 429)
        assert answer.headers["retry-after"] == "5"
        api.ingest()
        give(api, ROWS, 202)


def test_labels_of_nodes_whose_features_wait_are_taken(api: Api) -> None:
    api.create_graph()
    give(api, ROWS, 202)
    assert api.put_labels({"a": "left"})["accepted"] == 1


def test_columns_of_texts_are_named_with_the_table(api: Api) -> None:
    api.call("POST", "/graphs", 201, json={"name": "t"})
    body = b"node,about,x\n" + b"".join(b"n%d,lamp no %d,%d\n" % (k, k, k) for k in range(20))
    path = "/graphs/t/features?text=about"
    taken = api.call("PUT", path, 202, content=body, headers={"Content-Type": CSV}).json()
    assert (taken["n_rows"], taken["n_columns"]) == (20, 256 + 1)
    problem = api.problem(
        "PUT", "/graphs/t/features?text=a", 422, content=body, headers={"Content-Type": CSV}
    )
    assert problem["argument"] == "text"
