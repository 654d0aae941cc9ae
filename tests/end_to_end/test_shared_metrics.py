"""Metrics of an API of several processes: whichever is asked knows what all of them did."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end.processes import Home, Server, descendants, eventually

N_REQUESTS = 40
N_SCRAPES = 12
N_WAITING = 8
EDGES = b"src,dst\na,b\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`peewit api` as two processes; their files lie in ``temporary`` beside the home."""
    directory = tmp_path_factory.mktemp("shared")
    (directory / "temporary").mkdir()
    home = Home(directory / "home", TMPDIR=str(directory / "temporary"))
    yield Server(home, "api", "--workers", 2)
    home.end()


def scraped(server: Server) -> dict[str, Metric]:
    """The families of one scrape by a new connection, as Prometheus reads them."""
    with urlopen(f"{server.url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = list(text_string_to_metric_families(text))
    assert len({family.name for family in found}) == len(found)
    for family in found:
        assert family.documentation, family.name
        assert family.type != "unknown", family.name
        series = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
        assert len(set(series)) == len(series), family.name
    return {family.name: family for family in found}


def value(families: dict[str, Metric], family: str, name: str, **labels: str) -> float:
    """The sum of the samples that have these labels."""
    return sum(
        sample.value
        for sample in families[family].samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def answered(families: dict[str, Metric], **labels: str) -> float:
    """Requests that were counted."""
    family = "peewit_http_requests"
    return value(families, family, f"{family}_total", **labels) if family in families else 0.0


def serving_processes(server: Server) -> list[psutil.Process]:
    """uvicorn's children."""
    found = []
    for child in descendants(server.process.pid):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def counting_processes(server: Server) -> set[int]:
    """Processes that have counted a request, by the names of their files."""
    return {
        int(path.stem.rpartition("_")[2])
        for path in (server.home.directory.parent / "temporary").glob(
            "peewit-metrics-*/counter_*.db"
        )
    }


def test_every_scrape_counts_the_requests_of_all_processes(shared: Server) -> None:
    for _ in range(N_REQUESTS):
        assert shared.get("/v1/version")[0] == 200  # each by a connection of its own
        assert shared.get("/v1/graphs/no%2Fsuch")[0] == 404
        assert shared.get("/made/up/by/a/client")[0] == 404
    eventually(lambda: shared.get("/healthz")[0] == 200 and len(counting_processes(shared)) == 2)
    for _ in range(N_SCRAPES):
        found = scraped(shared)
        assert answered(found, route="/v1/version") == N_REQUESTS
        assert answered(found, route="/v1/version", method="GET", status="2xx") == N_REQUESTS
        assert answered(found, route="(none)", status="4xx") == 2 * N_REQUESTS
        family = "peewit_http_request_seconds"
        for name in (f"{family}_count", f"{family}_bucket"):
            at_most = {"le": "+Inf"} if name.endswith("bucket") else {}
            assert value(found, family, name, route="/v1/version", **at_most) == N_REQUESTS
        in_flight = "peewit_http_requests_in_flight"
        assert value(found, in_flight, in_flight) == 1  # the scrape itself
        assert "such" not in str(found)
        assert value(found, "process_resident_memory_bytes", "process_resident_memory_bytes") > 1e7


def test_counters_never_fall_and_gauges_forget_a_process_that_was_killed(shared: Server) -> None:
    assert shared.call("POST", "/v1/graphs", {"name": "g"})[0] == 201
    with ExitStack() as stack:
        waiting = [stack.enter_context(pushing(shared)) for _ in range(N_WAITING)]
        in_flight = "peewit_http_requests_in_flight"
        eventually(lambda: value(scraped(shared), in_flight, in_flight) == N_WAITING + 1)
        before = scraped(shared)
        processor = value(before, "process_cpu_seconds", "process_cpu_seconds_total")
        killed, *_ = serving_processes(shared)
        os.kill(killed.pid, signal.SIGKILL)
        eventually(lambda: len(set(serving_processes(shared)) - {killed}) == 2)
        n_left = sum(not is_closed(each) for each in waiting)
        assert n_left < N_WAITING
        for _ in range(N_SCRAPES):
            found = scraped(shared)
            for sample in before["peewit_http_requests"].samples:
                assert answered(found, **sample.labels) >= sample.value
            assert value(found, in_flight, in_flight) == n_left + 1
            assert value(found, "process_cpu_seconds", "process_cpu_seconds_total") >= processor


def pushing(server: Server) -> socket.socket:
    """A push whose answer waits for an ingest that never comes."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(
        b"POST /v1/graphs/g/edges?wait=120 HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: text/csv\r\nContent-Length: %d\r\n\r\n%b" % (len(EDGES), EDGES)
    )
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Whether the other side has ended."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_the_files_of_a_run_end_with_it(home: Home, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    home.environment["TMPDIR"] = str(temporary)
    server = Server(home, "api", "--workers", 2)
    assert list(temporary.glob("peewit-metrics-*"))
    server.process.terminate()
    assert server.process.wait(timeout=60) == 0
    assert not list(temporary.glob("peewit-metrics-*"))


def test_the_files_of_a_killed_run_end_with_the_next_one(home: Home, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    home.environment["TMPDIR"] = str(temporary)
    other = temporary / "peewit-metrics-of-another-kind"
    other.mkdir()
    killed = Server(home, "api", "--workers", 2)
    (left,) = set(temporary.glob("peewit-metrics-*")) - {other}
    for process in [*descendants(killed.process.pid), psutil.Process(killed.process.pid)]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    killed.process.wait(timeout=60)
    assert left.exists()
    server = Server(home, "api", "--workers", 2)
    (present,) = set(temporary.glob("peewit-metrics-*")) - {other}
    assert present != left
    assert server.get("/metrics")[0] == 200
