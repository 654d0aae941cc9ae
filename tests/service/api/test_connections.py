"""Connections that send the head of a request slowly or never, and how many there may be."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any

import pytest

from peewit.service.api.connections import MAX_HEAD_BYTES
from peewit.service.api.port import allow_open_files
from peewit.service.settings import Settings
from tests.service.api.conftest import CSV, Api, serving

HEAD_SECONDS = 1.0
N_SLOW = 1000
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 100


@pytest.fixture
def hurried(settings: Settings) -> Iterator[Api]:
    """A server that waits a second for heads, with a graph."""
    with serving(settings.model_copy(update={"head_seconds": HEAD_SECONDS})) as api:
        api.create_graph("g")
        yield api


@contextmanager
def connected(api: Api, seconds: float = 30.0) -> Iterator[socket.socket]:
    """A connection to the server that waits for answers so long."""
    url = api.client.base_url
    with socket.create_connection((url.host, url.port or 80), timeout=seconds) as connection:
        yield connection


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed a connection to which it had nothing to say."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def send_slowly(connection: socket.socket, content: bytes) -> None:
    """Send twenty bytes a second."""
    for byte in content:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def rest(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    found = b""
    try:
        while more := connection.recv(1 << 16):
            found += more
    except ConnectionResetError:
        pass
    return found


def test_many_slow_heads_keep_nobody_waiting_and_are_ended(settings: Settings) -> None:
    allow_open_files(2 * N_SLOW)
    with serving(settings.model_copy(update={"head_seconds": 4.0})) as api, ExitStack() as stack:
        opened = time.monotonic()
        slow = [stack.enter_context(connected(api)) for _ in range(N_SLOW)]
        took = []
        for byte in HEAD[:10]:
            for each in slow:
                if time.monotonic() < opened + 3.0:  # on a busy machine they end meanwhile
                    each.send(bytes([byte]))
            began = time.monotonic()
            api.call("GET", "/graphs", 200)
            took.append(time.monotonic() - began)
        assert not any(map(is_closed, slow)) or time.monotonic() > opened + 3.5
        assert median(took) < 0.5
        deadline = time.monotonic() + 60
        while not all(map(is_closed, slow)):
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_head_that_stops_is_given_up(hurried: Api, sent: bytes) -> None:
    with connected(hurried) as connection:
        began = time.monotonic()
        connection.sendall(sent)
        assert rest(connection) == b""
        assert HEAD_SECONDS * 0.9 < time.monotonic() - began < 20


@pytest.mark.parametrize("trickle", [HEAD, b"\r\n" * 100])
def test_a_head_that_trickles_after_an_answer_is_given_up(hurried: Api, trickle: bytes) -> None:
    with connected(hurried) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in connection.recv(1 << 16)
        began = time.monotonic()
        with pytest.raises(OSError, match=r"reset|[Bb]roken"):
            send_slowly(connection, trickle)
        assert time.monotonic() - began > HEAD_SECONDS * 0.9


def test_a_head_without_an_end_is_refused(hurried: Api) -> None:
    with connected(hurried) as connection:
        connection.sendall(HEAD + b"x" * (2 * MAX_HEAD_BYTES))
        answer = rest(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"The head of a request must have at most 65536 bytes.")


def test_the_end_of_a_refused_body_is_no_head(hurried: Api) -> None:
    rows = b"a,b\n" * MAX_HEAD_BYTES
    head = (
        f"POST /v1/graphs/none/edges HTTP/1.1\r\nHost: localhost\r\nContent-Type: {CSV}\r\n"
        f"Content-Length: {len(rows)}\r\n\r\n"
    )
    with connected(hurried) as connection:
        for _ in range(20):  # the rows may come to the server in any pieces
            connection.sendall(head.encode())
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(1 << 16)
                assert answer.startswith(b"HTTP/1.1 404 ")
            connection.sendall(rows)


@pytest.mark.parametrize(("graph", "status"), [("g", b"202"), ("none", b"404")])
def test_a_slow_body_is_no_slow_head(hurried: Api, graph: str, status: bytes) -> None:
    rows = b"src,dst\n" + b"a,b\n" * 50
    head = (
        f"POST /v1/graphs/{graph}/edges HTTP/1.1\r\nHost: localhost\r\nContent-Type: {CSV}\r\n"
        f"Content-Length: {len(rows)}\r\n\r\n"
    )
    with connected(hurried) as connection:
        connection.sendall(head.encode())
        for start in range(0, len(rows), 10):
            connection.sendall(rows[start : start + 10])
            time.sleep(2.5 * HEAD_SECONDS * 10 / len(rows))
        assert status in connection.recv(1 << 16).partition(b"\r\n")[0]


def test_a_long_wait_for_an_answer_is_no_slow_head(hurried: Api) -> None:
    body = {"kind": "solve", "model": "stable-hfs"}
    job = hurried.call("POST", "/graphs/g/jobs", 202, json=body).json()["id"]
    with connected(hurried) as connection:
        path = f"/v1/jobs/{job}?wait={2 * HEAD_SECONDS}".encode()
        connection.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\nGET /")
        assert b"200 OK" in connection.recv(1 << 16)  # though a second head has begun
        assert rest(connection).count(b"HTTP/1.1") == 0


def test_connections_are_bounded_and_new_ones_come_in(settings: Settings) -> None:
    allow_open_files(2 * N_SLOW)
    changed: dict[str, Any] = {"head_seconds": 300.0, "max_streams": 1}
    with serving(settings.model_copy(update=changed)) as api, ExitStack() as stack:
        idle = [stack.enter_context(connected(api)) for _ in range(N_SLOW)]
        api.call("GET", "/graphs", 200)
        n_open = sum(not is_closed(each) for each in idle)
        assert 500 <= n_open <= 513
        assert not is_closed(idle[-1])
