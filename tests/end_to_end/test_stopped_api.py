"""SIGTERM to the API: what is in hand ends properly, what is new is refused, the process ends."""

import json
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.processes import Home, Server, eventually

EDGES = b"src,dst\na,b\n"


@pytest.fixture
def home(home: Home) -> Home:
    home.environment["PEEWIT_FINISH_SECONDS"] = "20"
    return home


class Call:
    """A request on a connection of its own, whose bytes the test sends when it wants to."""

    def __init__(self, server: Server, head: str) -> None:
        self._connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.send(head.replace("\n", "\r\n").encode() + b"\r\nHost: localhost\r\n\r\n")

    def send(self, content: bytes) -> None:
        """Send more."""
        self._connection.sendall(content)

    def read_until(self, end: bytes) -> bytes:
        """What comes up to some bytes."""
        found = b""
        while end not in found:
            received = self._connection.recv(1 << 16)
            assert received, f"ended without {end!r}: {found!r}"
            found += received
        return found

    def rest(self) -> bytes:
        """What comes until the other side ends."""
        with self._connection:
            found = b""
            while received := self._connection.recv(1 << 16):
                found += received
            return found


def refuses(server: Server) -> bool:
    """Whether nobody listens any more."""
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def queued_job(server: Server) -> str:
    """A job that waits for a worker that never comes."""
    create_graph(server)
    body = {"kind": "tune", "model": "hfs"}
    status, job = server.call("POST", "/v1/graphs/g/jobs", body)
    assert status == 202, job
    return str(job["id"])


def create_graph(server: Server) -> None:
    status, answer = server.call("POST", "/v1/graphs", {"name": "g"})
    assert status == 201, answer


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("n_processes", [1, 2])
def test_requests_in_hand_end_and_new_ones_are_refused(
    home: Home, tmp_path: Path, n_processes: int
) -> None:
    with (tmp_path / "stderr").open("w") as stderr:
        server = Server(home, "api", "--workers", n_processes, stderr=stderr)
    create_graph(server)
    upload = Call(
        server,
        "POST /v1/graphs/g/edges HTTP/1.1\nContent-Type: text/csv\n"
        f"Content-Length: {len(EDGES)}\nExpect: 100-continue",
    )
    upload.read_until(b"100 Continue\r\n\r\n")
    upload.send(EDGES[:5])
    waiting = Call(
        server,
        "POST /v1/graphs/g/edges?wait=120 HTTP/1.1\nContent-Type: text/csv\n"
        f"Content-Length: {len(EDGES)}\nExpect: 100-continue",
    )
    waiting.read_until(b"100 Continue\r\n\r\n")
    waiting.send(EDGES)
    eventually(lambda: server.get("/v1/graphs/g")[1]["files"]["pending"] >= 0)
    started = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    eventually(lambda: refuses(server))
    assert server.process.poll() is None  # the upload keeps it
    assert b"202 Accepted" in waiting.rest()
    upload.send(EDGES[5:])
    answer = upload.rest()
    assert b"202 Accepted" in answer
    assert b'"n_rows":1' in answer.replace(b" ", b"")
    assert server.process.wait(timeout=60) == 0
    assert time.monotonic() - started < 20 + 30
    told = lines(tmp_path / "stderr")
    assert not [line for line in told if line["level"] in {"error", "critical"}]


def test_an_event_stream_ends_as_a_whole_answer(home: Home) -> None:
    server = Server(home, "api")
    job_id = queued_job(server)
    stream = Call(server, f"GET /v1/jobs/{job_id}/events HTTP/1.1")
    stream.read_until(b"event: queued")
    server.process.terminate()
    assert stream.rest().endswith(b"0\r\n\r\n")  # the end of a chunked answer
    assert server.process.wait(timeout=60) == 0


def test_a_request_that_takes_too_long_is_cut_and_the_process_ends(home: Home) -> None:
    home.environment["PEEWIT_FINISH_SECONDS"] = "1"
    server = Server(home, "api")
    create_graph(server)
    upload = Call(
        server,
        "POST /v1/graphs/g/edges HTTP/1.1\nContent-Type: text/csv\nContent-Length: 100\n"
        "Expect: 100-continue",
    )
    upload.read_until(b"100 Continue\r\n\r\n")
    server.process.terminate()
    assert server.process.wait(timeout=60) == 0
    assert upload.rest().startswith(b"HTTP/1.1 503")


@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_balancer_is_told_before_connections_are_refused(home: Home, n_processes: int) -> None:
    home.environment["PEEWIT_DRAIN_SECONDS"] = "10"
    server = Server(home, "api", "--workers", n_processes)
    server.process.terminate()
    eventually(lambda: server.get("/readyz")[0] == 503)
    assert "stop" in server.get("/readyz")[1]["detail"]
    assert server.get("/healthz")[0] == 200
    assert server.get("/v1/version")[0] == 200
    eventually(lambda: refuses(server))
    assert server.process.wait(timeout=60) == 0
