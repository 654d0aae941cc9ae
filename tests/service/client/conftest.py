"""Clients of real servers: the API in a thread, and a small server that fails as it is told to."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from peewit.service.client import Client, Retries
from tests.service.api.conftest import Api, api, refusing, settings, solved
from tests.service.solvable import two_communities

__all__ = ["api", "refusing", "settings", "solved"]

QUICK = Retries(n_retries=3, first_pause_seconds=0.01)


def edge_table() -> pa.Table:
    """Two halves n0..n29 and n30..n59, joined by one edge."""
    u, v = two_communities()
    return pa.table({"src": [f"n{each}" for each in u], "dst": [f"n{each}" for each in v]})


@pytest.fixture
def client(api: Api) -> Iterator[Client]:
    """A client of a server on an empty home."""
    with Client(str(api.client.base_url)) as client:
        yield client


@pytest.fixture
def reader(solved: Api) -> Iterator[Client]:
    """A client of a server with predictions, which must only be looked at."""
    with Client(str(solved.client.base_url)) as client:
        yield client


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request that has arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answering = Callable[["FailingAnswer"], None]


@dataclass
class FailingServer:
    """A server that answers each request with the next of some functions."""

    url: str
    answers: list[Answering] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def client(self, **options: object) -> Client:
        return Client(self.url, **{"retries": QUICK, **options})


class FailingAnswer(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    script: FailingServer

    def handle_one(self) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while n_bytes := int(self.rfile.readline(), 16):
                body += self.rfile.read(n_bytes)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.script.seen.append(
            Seen(method=self.command, path=self.path, headers=headers, body=body)
        )
        self.script.answers.pop(0)(self)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_one  # noqa: N815 (http.server's names)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""

    def head(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def hang_up(self) -> None:
        self.close_connection = True


def answer(status: int, content: bytes = b"", **headers: str) -> Answering:
    """A whole answer."""

    def answering(request: FailingAnswer) -> None:
        request.head(status, Content_Length=str(len(content)), **headers)
        request.wfile.write(content)

    return answering


def half(content: bytes, **headers: str) -> Answering:
    """An answer that promises twice as much as it sends before the connection ends."""

    def answering(request: FailingAnswer) -> None:
        request.head(200, Content_Length=str(2 * len(content)), **headers)
        request.wfile.write(content)
        request.hang_up()

    return answering


def until_closed(content: bytes, **headers: str) -> Answering:
    """An answer whose end is that of the connection."""

    def answering(request: FailingAnswer) -> None:
        request.head(200, Connection="close", **headers)
        request.wfile.write(content)
        request.hang_up()

    return answering


def hang_up(request: FailingAnswer) -> None:
    """No answer at all."""
    request.hang_up()


@contextmanager
def failing_server() -> Iterator[FailingServer]:
    """A `FailingServer` on loopback."""
    script = FailingServer(url="")
    handler = type("Answer", (FailingAnswer,), {"script": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def failing() -> Iterator[FailingServer]:
    """A server that fails as it is told to."""
    with failing_server() as server:
        yield server
