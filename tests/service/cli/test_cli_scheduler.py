"""`peewit ingest --scheduler`: a cluster by option or environment, and one that is not there."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster

from tests.service.cli.conftest import Peewit

N_ROWS = 40_000


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    sides = [pa.array([f"n{node}" for node in rng.integers(0, 200, N_ROWS)]) for _ in range(2)]
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": sides[0], "dst": sides[1]}), path, row_group_size=10_000)
    return path


@pytest.fixture
def scheduler(processes: None) -> Iterator[str]:
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
    ) as cluster:
        yield cluster.scheduler_address


def test_workers_ingest_by_option_and_by_environment(
    peewit: Peewit, home: Path, edges: Path, scheduler: str
) -> None:
    found = []
    for name, option, environment in (
        ("a", ["--scheduler", scheduler], {}),
        ("b", [], {"PEEWIT_SCHEDULER": scheduler}),
    ):
        created = ("graph", "create", name, "--seed", "1", "--epsilon", "0.9")
        assert peewit(*created, "--expected-nodes", "200").exit_code == 0
        done = subprocess.run(
            [sys.executable, "-m", "peewit", "ingest", name, edges, *option, "--json"],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "distributed" not in done.stderr  # nothing of the library's own log
        found.append(json.loads(done.stdout)["progress"])
    assert found[0] == found[1]
    assert found[0]["edges_seen"] == N_ROWS
    assert 0 < found[0]["edges_kept"] < 200 * 199 / 2


def test_a_scheduler_that_is_not_there_is_one_line_and_costs_nothing(
    peewit: Peewit, edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peewit.streaming.cluster.connection.CONNECT_SECONDS", 0.5)
    assert peewit("graph", "create", "g", "--expected-nodes", "200").exit_code == 0
    done = peewit("ingest", "g", edges, "--scheduler", "tcp://127.0.0.1:1", "--json")
    assert done.exit_code == 1
    last = done.err.strip().splitlines()[-1]
    assert "scheduler must be the address of a dask scheduler that answers" in last
    assert peewit("ingest", "g", edges, "--json").json["progress"]["edges_seen"] == N_ROWS
