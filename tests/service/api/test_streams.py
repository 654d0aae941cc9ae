"""Answers that stay open: they end with their key, are counted, and leave the others their turn."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from peewit.service.api.streams import CHECK_KEYS_SECONDS
from peewit.service.settings import Settings
from tests.end_to_end.processes import Home, Server, eventually
from tests.service.api.conftest import CSV, Api, serving

SOLVE = {"kind": "solve", "model": "stable-hfs"}
REVOKED_WITHIN_SECONDS = 2.0


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def asked(url: str, path: str) -> socket.socket:
    """A connection on which a path was asked for, whose answer nobody has read."""
    where = urlsplit(url)
    connection = socket.create_connection((where.hostname, where.port), timeout=120.0)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
    return connection


def waiting_job(api: Api) -> str:
    """A job that nobody runs."""
    api.create_graph("g")
    job: str = api.call("POST", "/graphs/g/jobs", 202, json=SOLVE).json()["id"]
    return job


@pytest.fixture
def few(settings: Settings) -> Iterator[Api]:
    """A server that takes two streams of a key, three in all."""
    limits = {"max_streams_per_key": 2, "max_streams": 3}
    with serving(settings.model_copy(update=limits)) as api:
        yield api


def test_events_end_with_their_key(api: Api) -> None:
    job = waiting_job(api)
    key = api.home.keys.create("one", ["read"])
    with api.client.stream("GET", f"/v1/jobs/{job}/events", headers=bearer(key)) as events:
        lines = events.iter_lines()
        assert next(lines) == "event: queued"
        began = time.monotonic()
        api.home.keys.revoke(key.partition(".")[0])
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)
        assert time.monotonic() - began < REVOKED_WITHIN_SECONDS


def test_a_call_that_waits_is_refused_once_its_key_is_revoked(api: Api) -> None:
    job = waiting_job(api)
    key, other = (api.home.keys.create(name, ["read"]) for name in ("one", "other"))
    answers: dict[str, tuple[int, float]] = {}

    def wait(key: str) -> None:
        answer = api.client.get(f"/v1/jobs/{job}?wait=4", headers=bearer(key))
        answers[key] = answer.status_code, time.monotonic()

    waiting = [threading.Thread(target=wait, args=(each,)) for each in (key, other)]
    for each in waiting:
        each.start()
    time.sleep(0.3)
    began = time.monotonic()
    api.home.keys.revoke(key.partition(".")[0])
    waiting[0].join()
    assert answers[key][0] == 401
    assert answers[key][1] - began < REVOKED_WITHIN_SECONDS
    assert other not in answers
    api.home.jobs.cancel(job)
    waiting[1].join()
    assert answers[other][0] == 200


def test_a_table_ends_with_its_key_and_does_not_look_whole(api: Api) -> None:
    api.create_graph("g")
    rows = "".join(f"{number:0>2000},x\n" for number in range(5_000))
    content = f"node,label\n{rows}".encode()
    headers = {"Content-Type": CSV}
    api.call("PUT", "/graphs/g/labels?unknown=keep", 200, content=content, headers=headers)
    key = api.home.keys.create("one", ["read"])
    where = urlsplit(str(api.client.base_url))
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect((where.hostname, where.port))
        head = f"GET /v1/graphs/g/labels HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}\r\n\r\n"
        reader.sendall(head.encode())
        assert reader.recv(100).startswith(b"HTTP/1.1 200")
        api.home.keys.revoke(key.partition(".")[0])
        time.sleep(2 * CHECK_KEYS_SECONDS)
        received = b""
        while piece := reader.recv(1 << 20):
            received += piece
    assert len(received) < len(content) / 2
    assert not received.endswith(b"\r\n0\r\n\r\n")


def test_streams_of_a_key_and_in_all_are_limited(few: Api) -> None:
    job = waiting_job(few)
    keys = [few.home.keys.create(name, ["read"]) for name in ("one", "two")]
    path = f"/v1/jobs/{job}"
    with ExitStack() as open_streams:
        for key in (keys[0], keys[0], keys[1]):
            stream = few.client.stream("GET", f"{path}/events", headers=bearer(key))
            assert open_streams.enter_context(stream).status_code == 200
        for key, status, setting in (
            (keys[0], 429, "PEEWIT_MAX_STREAMS_PER_KEY"),
            (keys[1], 503, "PEEWIT_MAX_STREAMS"),
        ):
            for more in (f"{path}/events", f"{path}?wait=5", "/v1/graphs/g/labels"):
                refused = few.client.get(more, headers=bearer(key))
                assert (refused.status_code, refused.headers["retry-after"]) == (status, "5")
                assert f"{setting} must be kept" in refused.json()["detail"]
            assert few.client.get(f"{path}?wait=0", headers=bearer(key)).status_code == 200
    few.home.jobs.cancel(job)
    for _ in range(5):  # what has ended counts no more
        assert few.client.get(f"{path}/events", headers=bearer(keys[0])).status_code == 200


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_a_thousand_streams_leave_the_others_their_turn(tmp_path: Path) -> None:
    home = Home(tmp_path, PEEWIT_MAX_STREAMS_PER_KEY="2000")
    seconds: list[float] = []
    try:
        server = Server(home, "api")
        server.client.create_graph("g")
        _, job = server.call("POST", "/v1/graphs/g/jobs", SOLVE)
        path = f"/v1/jobs/{job['id']}"
        with httpx.Client(base_url=server.url, timeout=60.0) as client, ExitStack() as held:
            events = [held.enter_context(asked(server.url, f"{path}/events")) for _ in range(500)]
            for _ in range(500):
                held.enter_context(asked(server.url, f"{path}?wait=300"))
            for stream in events:
                assert stream.recv(100).startswith(b"HTTP/1.1 200")
            eventually(lambda: client.get(f"{path}?wait=0.01").status_code == 503, 120.0)
            for _ in range(20):
                for other in ("/healthz", "/v1/graphs/g", path):
                    began = time.monotonic()
                    assert client.get(other).status_code == 200
                    seconds.append(time.monotonic() - began)
    finally:
        home.end()
    # nine of ten: others compute on the machine of the tests
    assert sorted(seconds)[len(seconds) * 9 // 10] < 0.5
