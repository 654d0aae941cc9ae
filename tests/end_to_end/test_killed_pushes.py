"""Pushes go on while ingest is killed again and again: none is lost, none counts twice."""

import random
import threading
import time
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa
import pytest

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.inbox.manifest import Manifest
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from tests.end_to_end.processes import Home, Server, eventually, free_port

N_KILLS = 4
N_CLIENTS = 3
PAUSE_SECONDS = 0.05
"""Between two pushes of a client: shorter than a round of ingest, which is never out of work."""


class Pusher(threading.Thread):
    """Pushes chains of three new edges, each with a key, some twice, until told to stop."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__(name=name)
        self.n_pushed = 0
        self.must_stop = threading.Event()
        self._peewit = server.client

    def run(self) -> None:
        while not self.must_stop.wait(PAUSE_SECONDS):
            nodes = [f"{self.name}-{self.n_pushed}-{end}" for end in range(4)]
            edges = pa.table({"src": nodes[:-1], "dst": nodes[1:]})
            for _ in range(2 if self.n_pushed % 5 == 0 else 1):
                self._peewit.push_edges("g", edges, key=f"{self.name}-{self.n_pushed}")
            self.n_pushed += 1


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("keep_raw", [True, False])
def test_pushes_survive_an_ingest_that_is_killed_at_any_moment(
    tmp_path: Path, keep_raw: bool
) -> None:
    rng = random.Random(int(keep_raw))
    home = Home(tmp_path / "home", PEEWIT_CHECKPOINT_SECONDS="0", PEEWIT_LOG_LEVEL="warning")
    keep = "--keep-raw" if keep_raw else "--no-keep-raw"
    home.run("graph", "create", "g", "--expected-nodes", 100, "--seed", 1, keep)
    database = open_database(Settings(home=home.directory).database)
    manifest, graph_id = Manifest(database), Catalog(database).get("g").id
    server = Server(home, "api")
    clients = [Pusher(server, f"c{number}") for number in range(N_CLIENTS)]
    try:
        for client in clients:
            client.start()
        n_before = 0
        for _ in range(N_KILLS):
            ingest = home.start("ingest", "--follow")
            eventually(lambda: Catalog(database).get("g").progress.edges_seen > n_before, 120.0)  # noqa: B023
            time.sleep(rng.uniform(0.0, 0.5))  # the moment of death, not a wait
            ingest.kill()
            ingest.wait()
            n_before = Catalog(database).get("g").progress.edges_seen
        for client in clients:
            client.must_stop.set()
        for client in clients:
            client.join()
        n_edges = 3 * sum(client.n_pushed for client in clients)
        port = free_port()
        ingest = home.start("ingest", "--follow", "--metrics-port", port)
        eventually(lambda: manifest.backlog(graph_id).n_files == 0, 120.0)
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            metrics = answer.read().decode()
        assert 'peewit_block_seconds_count{graph="g"}' in metrics
        assert 'peewit_backlog_bytes{graph="g"} 0.0' in metrics
        progress = Catalog(database).get("g").progress
        assert progress.edges_seen == n_edges
        assert progress.n_nodes == 4 * sum(client.n_pushed for client in clients)
        assert manifest.backlog(graph_id).pushed_bytes == 0
        counts = manifest.counts(graph_id)
        assert (counts["quarantined"], counts["duplicate"]) == (0, 0)
        assert counts["committed"] < n_edges / 3, "some were gathered"
        ingest.terminate()
        assert ingest.wait(timeout=5) == 0
        blocks = list(
            GraphPaths(root=Settings(home=home.directory).graphs_directory / graph_id).pushes.glob(
                "*.parquet"
            )
        )
        if keep_raw:
            named = {file.path for file in manifest.list_files(graph_id, limit=1000)}
            assert named <= {str(path) for path in blocks}
    finally:
        for client in clients:
            client.must_stop.set()
        for client in clients:
            if client.is_alive():
                client.join()
        home.end()
        database.close()
