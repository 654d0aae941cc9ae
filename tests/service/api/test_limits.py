"""What the API takes no more of, and that it says so before it costs anything."""

import io
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.api.throttling import KEYLESS, WRONG_KEYS
from peewit.service.settings import Settings
from tests.service.api.conftest import ARROW, CSV, NDJSON, PARQUET, Api, as_arrow, serving

JSON = "application/json"
LONG_ID = "x" * 2001


def changed(settings: Settings, **fields: Any) -> Settings:
    return settings.model_copy(update=fields)


def bomb() -> bytes:
    """60 M equal edges in less than a megabyte."""
    ones = pa.array(np.ones(1_000_000, dtype=np.int64))
    edges = pa.table({"src": ones, "dst": ones})
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, edges.schema) as writer:
        for _ in range(60):
            writer.write_table(edges)
    return sink.getvalue()


@pytest.mark.slow
def test_a_small_body_of_many_rows_is_too_large(api: Api) -> None:
    api.create_graph("g", node_ids="int64")
    headers = {"Content-Type": PARQUET}
    problem = api.problem("POST", "/graphs/g/edges", 413, content=bomb(), headers=headers)
    assert (problem["argument"], problem["value"]) == ("rows", "60000000")
    assert "PEEWIT_MAX_BODY_ROWS" in problem["detail"]


@pytest.mark.parametrize(
    ("method", "path", "columns"),
    [
        ("POST", "edges", {"src": ["a"] * 3, "dst": ["b"] * 3}),
        ("PUT", "features", {"node": ["a", "b", "c"], "features": [[1.0], [2.0], [3.0]]}),
        ("PUT", "labels", {"node": ["a", "b", "c"], "label": ["x", "y", "z"]}),
    ],
)
def test_rows_and_decoded_bytes_have_limits_in_every_format(
    settings: Settings, method: str, path: str, columns: dict[str, list[Any]]
) -> None:
    table = pa.table(columns)
    with serving(changed(settings, max_body_rows=2)) as api:
        api.create_graph("g")
        sink = io.BytesIO()
        pq.write_table(table, sink)
        bodies = {PARQUET: sink.getvalue(), ARROW: as_arrow(table)}
        if path == "edges":
            bodies[CSV] = b"src,dst\n" + b"a,b\n" * 3
            bodies[NDJSON] = b'{"src": "a", "dst": "b"}\n' * 3
        for media_type, content in bodies.items():
            problem = api.problem(
                method,
                f"/graphs/g/{path}",
                413,
                content=content,
                headers={"Content-Type": media_type},
            )
            assert (problem["argument"], problem["value"]) == ("rows", "3"), media_type
    with serving(changed(settings, max_decoded_bytes=20)) as api:
        problem = api.problem(
            method,
            f"/graphs/g/{path}",
            413,
            content=bodies[PARQUET],
            headers={"Content-Type": PARQUET},
        )
        assert problem["argument"] == "decoded_bytes"


def test_labels_have_a_limit_of_their_own(settings: Settings) -> None:
    with serving(changed(settings, max_label_rows=1)) as api:
        api.create_graph("g")
        for media_type, content in {
            CSV: b"node,label\na,x\nb,y\n",
            NDJSON: b'{"node": "a", "label": "x"}\n{"node": "b", "label": "y"}\n',
        }.items():
            headers = {"Content-Type": media_type}
            problem = api.problem("PUT", "/graphs/g/labels", 413, content=content, headers=headers)
            assert problem["argument"] == "label_rows"


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("POST", "edges", f"src,dst\na,b\na,{LONG_ID}\n"),
        ("PUT", "features", f"node,x\na,1\n{LONG_ID},2\n"),
        ("PUT", "labels", f"node,label\na,x\n{LONG_ID},y\n"),
    ],
)
def test_a_long_id_is_refused_with_its_row(
    refusing: Api, method: str, path: str, content: str
) -> None:
    headers = {"Content-Type": CSV}
    problem = refusing.problem(
        method, f"/graphs/g/{path}", 422, content=content.encode(), headers=headers
    )
    assert problem["row"] == 1
    assert problem["value"].startswith("xxx")
    assert "2000 bytes" in problem["rule"]


def test_a_file_with_a_long_id_is_quarantined_with_its_row(api: Api, tmp_path: Path) -> None:
    api.create_graph("g")
    table = pa.table({"src": ["a", "b", LONG_ID], "dst": ["b", "c", "d"]})
    pq.write_table(table, tmp_path / "long.parquet")
    api.call("POST", "/graphs/g/sources", 201, json={"url": str(tmp_path / "long.parquet")})
    api.ingest()
    (file,) = api.call("GET", "/graphs/g/files", 200).json()["files"]
    assert (file["status"], file["row"]) == ("quarantined", 2)
    assert "2000 bytes" in file["reason"]
    assert file["value"].startswith("xxx")


def test_graphs_and_sources_are_counted(settings: Settings, tmp_path: Path) -> None:
    with serving(changed(settings, max_graphs=1, max_sources=1)) as api:
        api.create_graph("g")
        problem = api.problem("POST", "/graphs", 409, json={"name": "h"})
        assert "PEEWIT_MAX_GRAPHS" in problem["detail"]
        api.call("POST", "/graphs/g/sources", 201, json={"url": str(tmp_path / "a")})
        api.call("POST", "/graphs/g/sources", 201, json={"url": str(tmp_path / "a")})
        body = {"url": str(tmp_path / "b")}
        problem = api.problem("POST", "/graphs/g/sources", 409, json=body)
        assert "PEEWIT_MAX_SOURCES" in problem["detail"]
        api.call("DELETE", "/graphs/g", 204)
        api.create_graph("h")


@pytest.mark.parametrize(
    "url", ["/etc/passwd", "file:///etc/passwd", "http://169.254.169.254/", "memory://x"]
)
def test_a_source_that_is_not_open_is_refused(refusing: Api, url: str) -> None:
    problem = refusing.problem("POST", "/graphs/g/sources", 422, json={"url": url})
    assert problem["title"] == "Source refused"
    assert "PEEWIT_SOURCE_" in problem["detail"]


NESTED = b"[" * 200_000 + b"]" * 200_000
NINES = b"9" * 100_000


@pytest.mark.parametrize(
    ("method", "path", "media_type", "content"),
    [
        ("POST", "/graphs", JSON, NESTED),
        ("POST", "/graphs", JSON, b'{"name": "x", "expected_nodes": %b}' % NINES),
        ("POST", "/graphs", JSON, b'{"name": "x", "expected_nodes": 1e999}'),
        ("POST", "/graphs", JSON, b'{"name": "x", "epsilon": NaN}'),
        ("POST", "/graphs", JSON, b'{"name": "a\\u0000b"}'),
        ("POST", "/graphs", JSON, b'{"name": "\\ud800"}'),
        ("POST", "/graphs", JSON, b'{"name": "a\\r\\nSet-Cookie: b"}'),
        ("POST", "/graphs", JSON, b'{"name": "../x"}'),
        ("POST", "/graphs", JSON, b'{"name": "x"'),
        ("PUT", "/graphs/g/labels", JSON, b'{"labels": %b}' % NESTED),
        ("PUT", "/graphs/g/labels", JSON, b'{"labels": [{"node": "a", "label": %b}]}' % NINES),
        ("PUT", "/graphs/g/labels", JSON, b'{"labels": [{"node": "a", "label": "x\\u0000"}]}'),
        ("POST", "/graphs/g/edges", NDJSON, NESTED),
        ("POST", "/graphs/g/edges", NDJSON, b'{"src": "\\ud800", "dst": "a"}'),
        ("POST", "/graphs/g/jobs", JSON, b'{"model": "hfs", "parameters": %b}' % NESTED),
        ("POST", "/graphs/g/jobs", JSON, b'{"model": "h\\u0000"}'),
        ("GET", "/graphs/%00", JSON, b""),
        ("GET", "/graphs/a%0d%0aX:%20y", JSON, b""),
        ("GET", "/graphs/" + "a" * 5000, JSON, b""),
        ("GET", "/graphs/%ed%a0%80", JSON, b""),
        ("GET", "/jobs/%00", JSON, b""),
        ("GET", "/jobs/" + "a" * 5000, JSON, b""),
        ("GET", "/jobs?page=%00", JSON, b""),
        ("GET", "/jobs?page=" + "9" * 5000, JSON, b""),
        ("GET", "/graphs/g/files?page=" + "9" * 30, JSON, b""),
        ("GET", "/graphs/g/pushes/%00", JSON, b""),
        ("GET", "/graphs/g/features/sets/%00", JSON, b""),
        ("GET", "/graphs/g/predictions?job=%0d%0aX:%20y", JSON, b""),
        ("GET", "/graphs/g/predictions/node?id=" + "a" * 50_000, JSON, b""),
        ("DELETE", "/graphs/g/sources/%00", JSON, b""),
        ("DELETE", "/graphs/g/labels?node=%00", JSON, b""),
        ("POST", "/jobs/%00:cancel", JSON, b""),
    ],
)
def test_odd_names_and_odd_json_are_the_callers_fault(
    refusing: Api, method: str, path: str, media_type: str, content: bytes
) -> None:
    answer = refusing.client.request(
        method, f"/v1{path}", content=content, headers={"Content-Type": media_type}
    )
    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert not {"x", "set-cookie"} & set(answer.headers)


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b'{"name": "g",}', "the body must be JSON ("),
        (b"\x0e\xff{}", "the body must be JSON"),
        (b"[1]", "the body must be a JSON object"),
    ],
)
def test_a_body_that_is_no_json_is_called_so(refusing: Api, content: bytes, detail: str) -> None:
    headers = {"Content-Type": "application/json"}
    problem = refusing.problem("POST", "/graphs", 422, content=content, headers=headers)
    assert problem["detail"].startswith(detail)
    assert problem["title"] == "Invalid argument"
    assert "argument" not in problem


def test_a_long_idempotency_key_is_refused(refusing: Api) -> None:
    headers = {"Content-Type": CSV, "Idempotency-Key": "k" * 256}
    content = b"src,dst\na,b\n"
    refusing.problem("POST", "/graphs/g/edges", 422, content=content, headers=headers)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def code(client: httpx.Client, path: str, **headers: str) -> int:
    return client.get(path, headers=headers).status_code


def test_each_key_has_a_rate_and_health_has_none(settings: Settings) -> None:
    with serving(changed(settings, rate_limit=0.001)) as api:
        keys = [api.home.keys.create(name, ["read"]) for name in ("one", "two")]
        for key in keys:
            assert code(api.client, "/v1/graphs", **bearer(key)) == 200
            refused = api.client.get("/v1/graphs", headers=bearer(key))
            assert refused.status_code == 429
            assert refused.json()["title"] == "Too many requests"
            assert 900 < int(refused.headers["retry-after"]) <= 1000
            assert key.partition(".")[2] not in refused.text
        for _ in range(3):
            assert code(api.client, "/healthz") == code(api.client, "/readyz") == 200


def test_without_keys_each_address_has_a_rate(settings: Settings) -> None:
    with serving(changed(settings, rate_limit=0.001)) as api:
        assert [code(api.client, "/v1/graphs") for _ in range(2)] == [200, 429]


def test_wrong_keys_are_slowed_and_lock_nobody_out(api: Api) -> None:
    used, unused = (api.home.keys.create(name, ["read"]) for name in ("used", "unused"))
    assert code(api.client, "/v1/graphs", **bearer(used)) == 200
    wrong = [bearer(f"lw_000000000000.{number:043d}") for number in range(WRONG_KEYS + 1)]
    codes = [code(api.client, "/v1/graphs", **each) for each in wrong]
    assert codes == [401] * WRONG_KEYS + [429]
    assert code(api.client, "/v1/graphs", **bearer(unused)) == 429
    assert code(api.client, "/v1/graphs", **bearer(used)) == 200
    assert code(api.client, "/healthz") == 200


def test_only_a_trusted_proxy_is_believed_who_calls(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    stranger = {"X-Forwarded-For": "203.0.113.7"}
    with serving(settings) as api:
        assert code(api.client, "/v1/graphs", **stranger) == 200
    with serving(changed(settings, trusted_proxies=("127.0.0.0/8",))) as api:
        assert code(api.client, "/v1/graphs") == 200
        assert code(api.client, "/v1/graphs", **stranger) == 401
    with serving(changed(settings, trusted_proxies=("10.0.0.0/8",))) as api:
        assert code(api.client, "/v1/graphs", **stranger) == 200


def test_made_up_addresses_gain_no_more_tries(api: Api) -> None:
    api.home.keys.create("one", ["read"])
    codes = [
        code(
            api.client,
            "/v1/graphs",
            **bearer(f"lw_000000000000.{number:043d}"),
            **{"X-Forwarded-For": f"203.0.113.{number}"},
        )
        for number in range(WRONG_KEYS + 1)
    ]
    assert codes == [401] * WRONG_KEYS + [429]


def test_calls_without_a_key_are_counted_though_they_are_refused(settings: Settings) -> None:
    with serving(changed(settings, rate_limit=0.001)) as api:
        api.home.keys.create("one", ["read"])
        assert [code(api.client, "/v1/graphs") for _ in range(2)] == [401, 429]


@pytest.mark.slow
def test_without_a_rate_refused_calls_are_slowed_and_lock_no_key_out(api: Api) -> None:
    key = api.home.keys.create("one", ["read"])
    codes = [code(api.client, "/v1/graphs") for _ in range(3 * KEYLESS)]
    assert codes[:KEYLESS] == [401] * KEYLESS
    assert 429 in codes
    assert code(api.client, "/v1/graphs", **bearer(key)) == 200


def sent_slowly(api: Api, head: str, pieces: list[bytes], pause_seconds: float) -> bytes:
    """All that a server answers to a body that comes in pieces, until it closes the connection."""
    where = urlsplit(str(api.client.base_url))
    with socket.create_connection((where.hostname, where.port), timeout=10) as connection:
        connection.sendall(f"{head}\r\nHost: localhost\r\n\r\n".encode())
        received = b""
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause_seconds)
        while more := connection.recv(1 << 16):
            received += more
        return received


@pytest.mark.parametrize(
    ("path", "media_type"), [("/v1/graphs", JSON), ("/v1/graphs/g/edges", CSV)]
)
@pytest.mark.parametrize("length", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
def test_a_body_that_stalls_is_given_up(
    settings: Settings, path: str, media_type: str, length: str
) -> None:
    with serving(changed(settings, body_seconds=0.2)) as api:
        api.create_graph("g")
        head = f"POST {path} HTTP/1.1\r\nContent-Type: {media_type}\r\n{length}"
        answer = sent_slowly(api, head, [b"1\r\na\r\n"], 0)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"PEEWIT_BODY_SECONDS" in answer


def test_a_body_that_trickles_is_given_up(settings: Settings) -> None:
    with serving(changed(settings, body_seconds=0.3)) as api:
        api.create_graph("g")
        head = f"POST /v1/graphs/g/edges HTTP/1.1\r\nContent-Type: {CSV}\r\nContent-Length: 9999"
        answer = sent_slowly(api, head, [b"x"] * 5, 0.1)
        assert answer.startswith(b"HTTP/1.1 408")
