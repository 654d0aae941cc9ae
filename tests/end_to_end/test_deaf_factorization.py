"""A factorization that takes long costs neither the lease nor what was read before it."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.database.lease_keeper import LEASE_SECONDS, LeaseHeld, held_lease
from peewit.service.jobs.ingest_steps import IngestSteps
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.processes import REPOSITORY, Home, eventually

pytestmark = pytest.mark.usefixtures("processes", "compiled")

N_NODES = 2_000
N_ROWS = 600_000
STALL_SECONDS = 12.0
DEAF_SECONDS = 3 * LEASE_SECONDS
"""Long enough for three leases and three stalls, one after the other."""


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    src, dst = rng.integers(N_NODES, size=(2, N_ROWS))
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": src, "dst": dst}), path, row_group_size=N_ROWS // 20)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home", PEEWIT_STALL_SECONDS=str(STALL_SECONDS))
    options = ("--node-ids", "dense", "--epsilon", 0.9, "--expected-nodes", N_NODES)
    home.run("graph", "create", "g", *options)
    yield home
    home.end()


def ingest(home: Home, edges: Path, log: Path, deaf_seconds: float) -> subprocess.Popen[str]:
    variables = {"DEAF_LOG": str(log), "DEAF_SECONDS": str(deaf_seconds)}
    command = [sys.executable, "-m", "tests.end_to_end.deaf_factorization", "ingest", "g"]
    return subprocess.Popen(
        [*command, str(edges)], env=home.environment | variables, cwd=REPOSITORY, text=True
    )


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.slow
def test_a_long_factorization_costs_no_lease_and_is_not_called_dead(
    home: Home, edges: Path, tmp_path: Path
) -> None:
    log, settings = tmp_path / "log", Settings(home=home.directory, stall_seconds=STALL_SECONDS)
    database = open_database(settings.database)
    graph_id = Catalog(database).get("g").id
    steps = IngestSteps(database)
    with ingest(home, edges, log, DEAF_SECONDS) as running:
        eventually(lambda: "deaf" in lines(log))
        began = time.monotonic()
        is_asked = False
        while "heard" not in lines(log):
            assert running.poll() is None
            with (
                pytest.raises(LeaseHeld),
                held_lease(database, f"ingest:{graph_id}", purpose="ingests this graph"),
            ):
                pass
            assert steps.faults(settings.stall_seconds) == []
            if time.monotonic() - began > STALL_SECONDS + 5.0 and not is_asked:
                health = home.start("health", "ingest", stderr=subprocess.PIPE)
                assert "graph g: thinning for " in health.communicate(timeout=60.0)[1]
                assert health.returncode == 0
                is_asked = True
            time.sleep(0.5)
        assert is_asked
        assert time.monotonic() - began > 2 * LEASE_SECONDS
        assert running.wait(timeout=60.0) == 0
    graph = Catalog(database).get("g")
    snapshots = SnapshotStore(GraphPaths(root=settings.graphs_directory / graph_id).snapshots)
    assert graph.progress.edges_seen == N_ROWS
    assert graph.progress.edges_kept < N_ROWS
    assert snapshots.numbers() == [1]
    database.close()


def test_an_ingest_that_is_killed_in_a_factorization_goes_on_from_before_it(
    home: Home, edges: Path, tmp_path: Path
) -> None:
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    graph_id = Catalog(database).get("g").id
    checkpoints = GraphPaths(root=settings.graphs_directory / graph_id).checkpoints
    with ingest(home, edges, tmp_path / "first", DEAF_SECONDS) as running:
        eventually(lambda: "deaf" in lines(tmp_path / "first"))
        running.kill()
        assert running.wait() == -signal.SIGKILL
    read = sum(map(int, lines(tmp_path / "first")[:-1]))
    assert CheckpointStore(checkpoints).newest().state.n_rows_seen == read > 0
    with ingest(home, edges, tmp_path / "second", 0.0) as running:
        assert running.wait(timeout=120.0) == 0
    replayed = sum(int(line) for line in lines(tmp_path / "second") if line.isdigit())
    assert read + replayed == N_ROWS
    progress = Catalog(database).get("g").progress
    assert (progress.edges_seen, progress.snapshot) == (N_ROWS, 1)
    database.close()
