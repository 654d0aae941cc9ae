"""SIGTERM ends ingest within five seconds, whatever a slow store keeps it waiting for."""

import http.server
import signal
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from tests.end_to_end.object_store import needs_object_store
from tests.end_to_end.processes import Home, eventually

STOP_SECONDS = 5.0
N_BYTES = 1 << 30


class SlowStore(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """A web server that is slow to answer, or slow to send what it has promised."""

    daemon_threads = True
    answers = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), SlowAnswer)
        self.n_asked = 0
        self.n_sent = 0
        self.is_over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/edges.parquet"


class SlowAnswer(http.server.BaseHTTPRequestHandler):
    """One request."""

    server: SlowStore

    def do_HEAD(self) -> None:
        self.server.n_asked += 1
        if not self.server.answers:
            self.server.is_over.wait()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(N_BYTES))
        self.send_header("ETag", '"1"')
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        try:
            while self.server.answers and not self.server.is_over.wait(0.1):
                self.wfile.write(b"x" * 1000)
                self.server.n_sent += 1000
        except OSError:
            return

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def store() -> Iterator[SlowStore]:
    store = SlowStore()
    thread = threading.Thread(target=store.serve_forever)
    thread.start()
    yield store
    store.is_over.set()
    store.shutdown()
    store.server_close()
    thread.join()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home", PEEWIT_SETTLE_SECONDS="0", PEEWIT_LOG_LEVEL="warning")
    home.run("graph", "create", "g", "--expected-nodes", 100, "--seed", 1)
    yield home
    home.end()


def add_source(home: Home, url: str, *, follow: bool) -> None:
    database = open_database(Settings(home=home.directory).database)
    Manifest(database).sources.add(Catalog(database).get("g").id, url, follow=follow)
    database.close()


@needs_object_store
@pytest.mark.parametrize("state", ["listing", "copying"])
@pytest.mark.parametrize("command", ["daemon", "one pass"])
def test_a_slow_store_keeps_ingest_from_stopping_for_five_seconds_at_most(
    home: Home, store: SlowStore, state: str, command: str
) -> None:
    store.answers = state == "copying"
    add_source(home, store.url, follow=False)
    running = home.start("ingest", *(["--follow"] if command == "daemon" else ["g"]))
    eventually(lambda: (store.n_sent if state == "copying" else store.n_asked) > 0, 180.0)
    started = time.monotonic()
    running.terminate()
    code = running.wait(timeout=STOP_SECONDS)
    assert time.monotonic() - started < STOP_SECONDS
    assert code in {0, 130, 128 + signal.SIGTERM}
    if state == "copying":
        # The copy that was broken off is swept by the next one that may write the graph.
        staged = list(home.directory.rglob("staged-*"))
        database = open_database(Settings(home=home.directory).database)
        ingestor = Ingestor(database, Settings(home=home.directory))
        with ingestor.open_graph(Catalog(database).get("g").id, should_stop=lambda: False):
            assert not any(copy.exists() for copy in staged)
        database.close()


def test_an_ingest_that_waits_for_another_stops_at_once(home: Home, tmp_path: Path) -> None:
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    graph_id = Catalog(database).get("g").id
    ingestor = Ingestor(database, settings)
    (tmp_path / "edges.parquet").write_bytes(b"PAR1")
    add_source(home, str(tmp_path / "edges.parquet"), follow=False)
    ingestor.discover(graph_id)
    with ingestor.open_graph(graph_id, should_stop=lambda: False):
        log = tmp_path / "log"
        with log.open("w") as errors:
            waiting = home.start("ingest", "g", stderr=errors)
            eventually(lambda: "waiting for it" in log.read_text())
            waiting.terminate()
            assert waiting.wait(timeout=STOP_SECONDS) == 130
    database.close()
