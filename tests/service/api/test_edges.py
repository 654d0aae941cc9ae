"""Pushed edges: checked at the door, durable before the answer, in the graph in the end."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pyarrow.parquet
import pytest

from peewit.service.settings import Settings
from peewit.streaming.edges.table_formats import Format
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

TWO_EDGES = pa.table({"src": ["a", "b"], "dst": ["b", "c"], "weight": [1.0, 2.0]})
CONTENT = {
    ARROW: as_arrow(TWO_EDGES),
    PARQUET: as_parquet(TWO_EDGES),
    CSV: b"src,dst,weight\na,b,1\nb,c,2\n",
    NDJSON: b'{"src":"a","dst":"b","weight":1}\n{"src":"b","dst":"c","weight":2}\n',
    "application/parquet": as_parquet(TWO_EDGES),
    "text/csv; charset=utf-8": b"src,dst,weight\na,b,1\nb,c,2\n",
}


def blocks(api: Api, name: str = "g") -> list[Path]:
    """Files below the pushes of a graph, finished or not."""
    graph = api.home.catalog.get(name)
    directory = api.home.settings.graphs_directory / graph.id / "pushes"
    return sorted(directory.iterdir()) if directory.exists() else []


@pytest.fixture
def graph(api: Api) -> Api:
    """The API with an empty graph g of string ids."""
    api.create_graph("g")
    return api


@pytest.mark.slow
@pytest.mark.parametrize("media_type", CONTENT)
def test_a_push_of_any_format_ends_in_the_graph(graph: Api, media_type: str) -> None:
    pushed = graph.push(CONTENT[media_type], media_type)
    assert (pushed["n_rows"], pushed["status"], pushed["file"]) == (2, "pending", None)
    graph.ingest()
    (block,) = blocks(graph)
    assert pyarrow.parquet.read_table(block).num_rows == 2
    file = graph.call("GET", f"/graphs/g/pushes/{pushed['id']}", 200).json()["file"]
    assert (file["status"], file["n_rows"], file["push_id"]) == ("committed", 2, pushed["id"])
    assert graph.call("GET", f"/graphs/g/files/{file['id']}", 200).json() == file
    shown = graph.call("GET", "/graphs/g", 200).json()
    assert (shown["nodes"], shown["edges_seen"], shown["snapshot"]) == (3, 2, 1)
    edges = graph.call("GET", "/graphs/g/snapshots/1/edges?format=ndjson", 200).text
    assert edges.splitlines() == [
        '{"src":"a","dst":"b","weight":1.0}',
        '{"src":"b","dst":"c","weight":2.0}',
    ]


def test_a_push_can_wait_until_it_is_committed(graph: Api) -> None:
    answers: list[httpx.Response] = []

    def push() -> None:
        headers = {"Content-Type": CSV}
        path = "/graphs/g/edges?wait=60"
        content = CONTENT[CSV] + b"b,?,1\n"
        answers.append(graph.call("POST", path, 200, content=content, headers=headers))

    waiting = threading.Thread(target=push)
    waiting.start()
    deadline = time.monotonic() + 60
    while not graph.call("GET", "/graphs/g", 200).json()["backlog"]["n_files"]:
        assert time.monotonic() < deadline
    graph.ingest()
    waiting.join()
    (answer,) = answers
    assert answer.json()["status"] == "committed"
    assert "'?' became a node" in answer.json()["note"]
    assert answer.headers["location"] == f"/v1/graphs/g/pushes/{answer.json()['id']}"


def test_odd_ids_of_a_push_are_told_once(graph: Api) -> None:
    content = "src,dst\na,?\nb,?\n1.0,1\n007,7\n\ufeffa,mu\u0308ller\n".encode()
    options = {"content": content, "headers": {"Content-Type": CSV}}
    note = graph.call("POST", "/graphs/g/edges", 202, **options).json()["note"]
    for told in (
        "'?' became a node",
        "1 new id is written as 1.0, as columns with gaps are: 1 is another node",
        "1 new id is written with zeros before them, too, the first '7': these are two nodes",
        "2 new ids are written with blanks, invisible",
    ):
        assert told in note
    graph.ingest()
    assert graph.call("POST", "/graphs/g/edges", 202, **options).json()["note"] is None


@pytest.mark.parametrize("kind", [CSV, NDJSON])
def test_columns_of_a_push_that_nobody_reads_are_told(graph: Api, kind: str) -> None:
    content = b"src,dst,w,op\na,b,2,i\n"
    if kind == NDJSON:
        content = b'{"src": "a", "dst": "b", "w": 2, "op": "i"}\n'
    headers = {"Content-Type": kind}
    answer = graph.call("POST", "/graphs/g/edges", 202, content=content, headers=headers)
    for name in ("w", "op"):
        assert f"column {name!r} is passed over" in answer.json()["note"]


@pytest.mark.parametrize("media_type", [CSV, NDJSON, PARQUET, ARROW])
def test_rows_of_a_push_that_hold_no_more_are_told(graph: Api, media_type: str) -> None:
    rows = pa.table(
        {
            "src": ["a", "b"],
            "dst": ["b", "c"],
            "is_active": [False, True],
            "valid_to": ["2020-01-01", ""],
            "state": ["new", "old"],
        }
    )
    content = {
        CSV: b"src,dst,is_active,valid_to,state\na,b,false,2020-01-01,new\nb,c,true,,old\n",
        NDJSON: b"".join(orjson.dumps(row) + b"\n" for row in rows.to_pylist()),
        PARQUET: as_parquet(rows),
        ARROW: as_arrow(rows),
    }[media_type]
    options = {"content": content, "headers": {"Content-Type": media_type}}
    note = graph.call("POST", "/graphs/g/edges", 202, **options).json()["note"]
    for name in ("is_active", "valid_to"):
        assert f"column {name!r} is passed over, and says that 1 of the first rows does not" in note
    assert "'state'" not in note


def test_a_parameter_that_stands_twice_is_refused_unless_it_may(graph: Api) -> None:
    options = {"content": CONTENT[CSV], "headers": {"Content-Type": CSV}}
    problem = graph.problem("POST", "/graphs/g/edges?src=src&src=dst", 422, **options)
    assert problem["argument"] == "src"
    assert "src must stand once in a query, got src and dst" in problem["detail"]
    graph.call("DELETE", "/graphs/g/labels?node=a&node=b", 200)


def test_ids_of_two_columns_of_a_push_are_told(graph: Api) -> None:
    options = {"content": b"user,item\n1,2\n2,7\n", "headers": {"Content-Type": CSV}}
    note = graph.call("POST", "/graphs/g/edges?src=user&dst=item", 202, **options).json()["note"]
    assert note.startswith("2 is in 'user' and in 'item': one node.")


def test_a_wait_without_an_end_answers_202(graph: Api) -> None:
    headers = {"Content-Type": CSV}
    path = "/graphs/g/edges?wait=0.05"
    graph.call("POST", path, 202, content=CONTENT[CSV], headers=headers)


def test_what_only_ingest_can_see_is_quarantined_with_the_reason(api: Api) -> None:
    api.create_graph("g", max_nodes=2)
    pushed = api.push(CONTENT[CSV], CSV)
    api.ingest()
    file = api.call("GET", f"/graphs/g/pushes/{pushed['id']}?wait=5", 200).json()["file"]
    assert file["status"] == "quarantined"
    assert "max_nodes" in file["reason"]
    assert (file["row"], file["value"]) == (1, "c")


@pytest.mark.parametrize(
    ("media_type", "content", "row", "value", "argument"),
    [
        (CSV, b"src,dst,weight\na,b,1\nb,c,-2\n", 1, "-2.0", "weight"),
        (CSV, b"src,dst,weight\na,b,1\nb,c,inf\n", 1, "inf", "weight"),
        (CSV, b"src,dst,weight\na,b,1\nb,c,heavy\n", 1, "heavy", "weight"),
        (CSV, b"from,to\na,b\n", None, None, "src"),
        (NDJSON, b'{"src":"a","dst":null}\n', 0, "null", "dst"),
        (NDJSON, b'{"src":"a","dst":7}\n', 0, "7", "dst"),
        (PARQUET, CONTENT[PARQUET][:-20], None, None, None),
        (ARROW, b"not arrow at all", None, None, None),
        (PARQUET, as_parquet(pa.table({"src": [1], "dst": [2]})), None, None, "src"),
    ],
)
def test_a_bad_body_is_named_and_nothing_of_it_is_stored(
    refusing: Api,
    media_type: str,
    content: bytes,
    row: int | None,
    value: str | None,
    argument: str | None,
) -> None:
    before = blocks(refusing)
    headers = {"Content-Type": media_type}
    problem = refusing.problem("POST", "/graphs/g/edges", 422, content=content, headers=headers)
    assert problem.get("row") == row
    assert problem.get("value") == value
    assert problem.get("argument") == argument
    assert problem["rule"] in problem["detail"]
    assert blocks(refusing) == before
    assert len(refusing.call("GET", "/graphs/g/files", 200).json()["files"]) == 1


BAD_ROWS = [("a", "b", 1.0), ("", "c", 1.0), ("b", "c", -1.0), ("", "d", 2.0), ("b", "d", 2.0)]


def in_format(media_type: str) -> bytes:
    src, dst, weight = zip(*BAD_ROWS, strict=True)
    table = pa.table({"src": src, "dst": dst, "weight": weight})
    if media_type == CSV:
        return b"src,dst,weight\n" + b"".join(f"{u},{v},{w}\n".encode() for u, v, w in BAD_ROWS)
    if media_type == NDJSON:
        return b"".join(orjson.dumps(row) + b"\n" for row in table.to_pylist())
    return as_parquet(table) if media_type == PARQUET else as_arrow(table)


@pytest.mark.parametrize("media_type", [CSV, NDJSON, PARQUET, ARROW])
def test_bad_rows_of_a_push_are_counted_and_left_out_where_that_is_allowed(
    api: Api, media_type: str
) -> None:
    api.create_graph("g")
    options: dict[str, Any] = {
        "content": in_format(media_type),
        "headers": {"Content-Type": media_type, "Idempotency-Key": "key"},
    }
    for allowed in (0, 1, 2):
        path = f"/graphs/g/edges?max_bad_rows={allowed}"
        problem = api.problem("POST", path, 422, **options)
        assert problem["rule"].startswith("3 rows are bad, max_bad_rows 3 leaves them out; one of")
        assert str(api.home.settings.home) not in str(problem)
    taken = api.call("POST", "/graphs/g/edges?max_bad_rows=3", 202, **options).json()
    assert (taken["n_rows"], taken["n_bad_rows"]) == (2, 3)
    again = api.call("POST", "/graphs/g/edges", 202, **options).json()
    assert (again["id"], again["n_bad_rows"]) == (taken["id"], 3)
    other = {"content": b"src,dst\na,\nx,y\n", "headers": {"Content-Type": CSV}}
    api.call("POST", "/graphs/g/edges?max_bad_rows=9", 202, **other)
    api.ingest()
    shown = api.call("GET", "/graphs/g", 200).json()
    assert (shown["edges_seen"], shown["n_bad_rows"]) == (3, 4)
    assert api.call("GET", "/graphs/g/files", 200).json()["files"][0]["n_bad_rows"] == 4
    assert list(api.home.settings.graphs_directory.glob("*/uploads/looks/*")) == []


def test_dense_ids_stay_below_max_nodes(api: Api) -> None:
    api.create_graph("g", node_ids="dense", max_nodes=10)
    headers = {"Content-Type": CSV}
    content = b"src,dst\n1,2\n3,10\n"
    problem = api.problem("POST", "/graphs/g/edges", 422, content=content, headers=headers)
    assert (problem["row"], problem["value"]) == (1, "10")


def test_the_same_idempotency_key_is_the_same_push(graph: Api) -> None:
    key = {"Idempotency-Key": "monday"}
    first = graph.push(CONTENT[CSV], CSV, **key)
    assert graph.push(CONTENT[CSV], CSV, **key) == first
    headers = {"Content-Type": CSV, **key}
    other = b"src,dst\nx,y\n"
    problem = graph.problem("POST", "/graphs/g/edges", 409, content=other, headers=headers)
    assert problem["title"] == "Idempotency-Key in use"
    assert graph.call("GET", "/graphs/g", 200).json()["backlog"]["n_files"] == 1


@pytest.mark.parametrize("media_type", [CSV, NDJSON, PARQUET, ARROW])
def test_a_push_without_rows_changes_nothing(graph: Api, media_type: str) -> None:
    names = pa.table({name: pa.array([], pa.string()) for name in ("src", "dst")})
    content = {CSV: b"src,dst\n", NDJSON: b"", PARQUET: as_parquet(names), ARROW: as_arrow(names)}[
        media_type
    ]
    key = {"Idempotency-Key": "hourly"}
    graph.push(CONTENT[CSV], CSV)
    graph.ingest()
    before = graph.call("GET", "/graphs/g", 200).json()
    pushed = graph.push(content, media_type, **key)
    assert (pushed["n_rows"], pushed["status"]) == (0, "pending")
    assert graph.push(content, media_type, **key)["id"] == pushed["id"]
    graph.ingest()
    assert (
        graph.call("GET", f"/graphs/g/pushes/{pushed['id']}", 200).json()["status"] == "committed"
    )
    after = graph.call("GET", "/graphs/g", 200).json()
    assert after["files"]["committed"] == before["files"]["committed"] + 1
    assert {**after, "files": before["files"]} == before


def test_a_push_without_columns_is_refused(graph: Api) -> None:
    for content, rule in ((b"", "CSV with a header line"), (b"from,to\n", "'src' is missing")):
        headers = {"Content-Type": CSV}
        problem = graph.problem("POST", "/graphs/g/edges", 422, content=content, headers=headers)
        assert rule in problem["detail"]


def test_of_calls_at_once_with_one_key_only_one_is_stored(graph: Api) -> None:
    def push(_number: int) -> str:
        pushed = graph.push(CONTENT[CSV], CSV, **{"Idempotency-Key": "rush"})
        return str(pushed["id"])

    with ThreadPoolExecutor(8) as clients:
        assert len(set(clients.map(push, range(8)))) == 1
    assert graph.call("GET", "/graphs/g", 200).json()["backlog"]["n_files"] == 1


def test_equal_edges_pushed_twice_count_twice(graph: Api) -> None:
    graph.push(CONTENT[CSV], CSV)
    graph.push(CONTENT[CSV], CSV)
    graph.ingest()
    assert graph.call("GET", "/graphs/g", 200).json()["edges_seen"] == 4
    assert (
        '"weight":4.0' in graph.call("GET", "/graphs/g/snapshots/1/edges?format=ndjson", 200).text
    )


@pytest.mark.parametrize("media_type", ["application/x-www-form-urlencoded", "application/xml", ""])
def test_an_unknown_content_type_is_refused(refusing: Api, media_type: str) -> None:
    headers = {"Content-Type": media_type}
    problem = refusing.problem("POST", "/graphs/g/edges", 415, content=b"x", headers=headers)
    assert Format.CSV.media_type in problem["detail"]


@pytest.mark.parametrize(
    ("media_type", "content"),
    [
        ("text/tab-separated-values", b"src\tdst\na\tb\nb\tc\n"),
        ("application/json", b'{"src": "a", "dst": "b"}\n{"src": "b", "dst": "c"}\n'),
    ],
)
def test_bodies_come_in_every_format_of_files(graph: Api, media_type: str, content: bytes) -> None:
    before = graph.call("GET", "/graphs/g", 200).json()["edges_seen"]
    graph.push(content, media_type)
    graph.ingest()
    assert graph.call("GET", "/graphs/g", 200).json()["edges_seen"] == before + 2


def test_an_unknown_encoding_of_a_body_is_refused(refusing: Api) -> None:
    headers = {"Content-Type": CSV, "Content-Encoding": "br"}
    refusing.problem("POST", "/graphs/g/edges", 415, content=b"x", headers=headers)


def test_a_body_over_the_cap_is_refused(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url=None, max_body_bytes=2_000_000)
    edges = b"src,dst\n" + b"a,b\n" * 600_000

    def pieces() -> Iterator[bytes]:  # sent without Content-Length
        for start in range(0, len(edges), 50_000):
            yield edges[start : start + 50_000]

    with serving(settings) as api:
        api.create_graph("g")
        for content in (edges, pieces()):
            headers = {"Content-Type": CSV}
            problem = api.problem("POST", "/graphs/g/edges", 413, content=content, headers=headers)
            assert "2000000 bytes" in problem["detail"]
        assert blocks(api) == []
        largest = b"src,dst\n" + b"a,b\n" * 499_998
        assert api.push(largest, CSV)["n_rows"] == 499_998


def test_nobody_is_asked_to_send_what_will_be_refused(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url=None, max_body_bytes=1000)
    with serving(settings) as api:
        api.create_graph("g")
        url = api.client.base_url
        with socket.create_connection((url.host, url.port)) as connection:
            connection.sendall(
                b"POST /v1/graphs/g/edges HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
                b"Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n"
            )
            assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_json_has_a_cap_of_its_own(refusing: Api) -> None:
    content = b'{"name":"' + b"x" * (16 << 20) + b'"}'
    headers = {"Content-Type": "application/json"}
    refusing.problem("POST", "/graphs", 413, content=content, headers=headers)


def test_a_full_backlog_refuses_until_ingest_has_caught_up(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url=None, max_backlog_bytes=1)
    with serving(settings) as api:
        api.create_graph("g")
        api.push(CONTENT[CSV], CSV)
        refused = api.client.post(
            "/v1/graphs/g/edges", content=CONTENT[CSV], headers={"Content-Type": CSV}
        )
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "5"
        assert refused.json()["title"] == "Backlog full"
        api.ingest()
        api.push(CONTENT[CSV], CSV)


def test_the_backlog_of_all_graphs_is_bounded_too(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url=None, max_total_backlog_bytes=1)
    with serving(settings) as api:
        api.create_graph("g")
        api.create_graph("h")
        api.push(CONTENT[CSV], CSV)
        for name in ("g", "h"):
            refused = api.client.post(
                f"/v1/graphs/{name}/edges", content=CONTENT[CSV], headers={"Content-Type": CSV}
            )
            assert refused.status_code == 429
            assert "of all graphs" in refused.json()["detail"]
        api.ingest()
        api.push(CONTENT[CSV], CSV, name="h")


def test_many_small_pushes_become_one_file(graph: Api) -> None:
    pushes = [graph.push(b"src,dst\na,b%d\n" % number, CSV) for number in range(20)]
    shown = graph.call("GET", "/graphs/g", 200).json()
    assert (shown["backlog"]["n_files"], shown["files"]["pending"]) == (20, 20)
    graph.ingest()
    found = [graph.call("GET", f"/graphs/g/pushes/{push['id']}", 200).json() for push in pushes]
    assert {push["file"]["id"] for push in found} == {found[0]["file"]["id"]}
    assert {push["status"] for push in found} == {"committed"}
    shown = graph.call("GET", "/graphs/g", 200).json()
    assert (shown["edges_seen"], shown["files"]["committed"]) == (20, 1)
    assert shown["backlog"] == {"n_files": 0, "n_bytes": 0, "pushed_bytes": 0}
    assert len(blocks(graph)) == 1


def test_a_push_that_only_ingest_can_refuse_does_not_spoil_its_neighbors(api: Api) -> None:
    api.create_graph("g", max_nodes=3)
    pushes = [api.push(body, CSV) for body in (b"src,dst\na,b\n", CONTENT[CSV], b"src,dst\nc,d\n")]
    pushes.append(api.push(b"src,dst\nc,a\n", CSV))
    api.ingest()
    found = [api.call("GET", f"/graphs/g/pushes/{push['id']}", 200).json() for push in pushes]
    assert [push["status"] for push in found] == [
        "committed",
        "committed",
        "quarantined",
        "committed",
    ]
    assert (found[2]["file"]["row"], found[2]["file"]["value"]) == (0, "d")
    shown = api.call("GET", "/graphs/g", 200).json()
    assert (shown["edges_seen"], shown["nodes"]) == (4, 3)
    assert shown["backlog"]["pushed_bytes"] == 0


def test_a_large_push_is_a_file_of_its_own(graph: Api) -> None:
    content = b"src,dst\n" + b"".join(b"n%d,m%d\n" % (each, each) for each in range(20_000))
    large = graph.push(content, CSV)
    (block,) = blocks(graph)
    graph.ingest()
    file = graph.call("GET", f"/graphs/g/pushes/{large['id']}", 200).json()["file"]
    assert (file["path"], file["n_rows"]) == (str(block), 20_000)


def test_an_unknown_push_is_not_found(graph: Api) -> None:
    graph.problem("GET", "/graphs/g/pushes/none", 404)


def test_a_client_that_hangs_up_leaves_nothing(graph: Api) -> None:
    url = graph.client.base_url
    with socket.create_connection((url.host, url.port)) as connection:
        connection.sendall(
            b"POST /v1/graphs/g/edges HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
            b"Content-Length: 100\r\n\r\nsrc,dst\na,b\n"
        )
    graph.push(CONTENT[CSV], CSV)
    assert blocks(graph) == []
    assert graph.call("GET", "/graphs/g", 200).json()["backlog"]["n_files"] == 1


def test_a_push_to_no_graph_is_not_read(refusing: Api) -> None:
    headers = {"Content-Type": CSV}
    refusing.problem("POST", "/graphs/none/edges", 404, content=CONTENT[CSV], headers=headers)
