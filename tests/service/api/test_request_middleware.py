"""Every request has an id, in answers and in problems, and one host; HEAD goes where GET does."""

import re
import socket
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from peewit.service.api.request_middleware import HEADER
from tests.service.api.conftest import Api


@pytest.mark.parametrize("given", ["a", "deploy-7.x:3_~", "x" * 128])
def test_a_safe_id_of_the_client_is_kept(refusing: Api, given: str) -> None:
    answer = refusing.client.get("/v1/version", headers={HEADER: given})
    assert answer.headers[HEADER] == given
    problem = refusing.client.get("/v1/graphs/none", headers={HEADER: given})
    assert (problem.headers[HEADER], problem.json()["request_id"]) == (given, given)


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", 'a"b', "a,b", "é", "{a}", "a/b"])
def test_another_one_is_replaced(refusing: Api, given: str) -> None:
    answer = refusing.client.get("/v1/version", headers={HEADER: given.encode("latin-1")})
    assert re.fullmatch("[0-9a-f]{32}", answer.headers[HEADER])


def test_two_requests_have_two_ids(refusing: Api) -> None:
    ids = {refusing.client.get("/healthz").headers[HEADER] for _ in range(20)}
    assert len(ids) == 20


def test_errors_before_any_route_have_one_too(refusing: Api) -> None:
    for method, path in (("GET", "/made-up"), ("DELETE", "/v1/models"), ("POST", "/v1/graphs")):
        answer = refusing.client.request(method, path)
        assert answer.status_code >= 400
        assert answer.json()["request_id"] == answer.headers[HEADER]


def answer_to(api: Api, head: str) -> bytes:
    """All that comes back to a request as it stands here."""
    where = urlsplit(str(api.client.base_url))
    with socket.create_connection((where.hostname, where.port)) as connection:
        connection.sendall(f"{head}Connection: close\n\n".replace("\n", "\r\n").encode())
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_a_request_names_one_host(refusing: Api) -> None:
    one = "GET /healthz HTTP/1.1\nHost: a\n"
    assert answer_to(refusing, one).startswith(b"HTTP/1.1 200")
    for hosts in ("", "Host: a\nHost: a\n", "Host: a\nhost: b\n"):
        answer = answer_to(refusing, f"GET /healthz HTTP/1.1\n{hosts}")
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"Host must stand once" in answer


def test_head_is_get_without_the_body(solved: Api) -> None:
    described = solved.client.get("/openapi.json").json()["paths"]
    for path in [each for each, methods in described.items() if "get" in methods] + ["/docs"]:
        filled = path.format(
            graph="g",
            number=1,
            file_id=1,
            **dict.fromkeys("zxy", 0),
            **dict.fromkeys(("job_id", "push_id", "set_id", "erasure_id"), "none"),
        )
        with capture_logs() as logs:
            got, head = (solved.client.request(each, filled) for each in ("GET", "HEAD"))
        assert {"GET", "HEAD"} <= {entry.get("method") for entry in logs}, path
        assert head.status_code == got.status_code, path
        assert head.headers["content-type"] == got.headers["content-type"]
        assert head.content == b""
    assert solved.client.head("/v1/graphs/g/jobs").status_code == 405


def test_head_of_a_stream_ends(api: Api) -> None:
    api.create_graph("g")
    body = {"kind": "solve", "model": "stable-hfs"}
    job = api.call("POST", "/graphs/g/jobs", 202, json=body).json()
    events = f"/v1/jobs/{job['id']}/events"
    assert api.client.head(events, timeout=5).status_code == 200
    assert api.client.head(events, timeout=5).headers["content-type"].startswith("text/event-")
    metrics = api.client.get("/metrics").text
    assert 'method="HEAD",route="/v1/jobs/{job_id}/events"' in metrics
