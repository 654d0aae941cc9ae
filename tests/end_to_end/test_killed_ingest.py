"""An ingest that is killed again and again ends with the snapshot of an unbroken one."""

import json
import random
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import delete

from peewit.service.catalog import Catalog, GraphProgress
from peewit.service.database.engine import open_database
from peewit.service.database.tables import leases
from peewit.service.inbox.manifest import Manifest
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.processes import Home, eventually

N_FILES = 6
N_ROWS = 260_000  # four groups of blocks: most checkpoints lie inside a file
N_NODES = 3_000
KILLED_AFTER_FILES = (0, 1, 2)

Result = tuple[pa.Table, pa.ChunkedArray, GraphProgress]


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random edges with string ids in several files; one of the files is bad."""
    directory = tmp_path_factory.mktemp("edges")
    rng = np.random.default_rng(11)
    names = np.array([f"node-{number}" for number in range(N_NODES)])
    for number in range(N_FILES):
        ends = rng.integers(N_NODES, size=(2, N_ROWS))
        weight = rng.uniform(0.1, 1.0, N_ROWS).astype(np.float32)
        if number == N_FILES // 2:
            weight[-1] = np.nan
        table = pa.table({"src": names[ends[0]], "dst": names[ends[1]], "weight": weight})
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=N_ROWS // 4)
    return directory


def home_with_graph(directory: Path) -> Home:
    home = Home(directory, PEEWIT_CHECKPOINT_SECONDS="0")
    home.run("graph", "create", "g", "--epsilon", 0.9, "--expected-nodes", N_NODES, "--seed", 3)
    return home


def result(home: Home) -> Result:
    """Edges of the newest snapshot, ids of all nodes, counters."""
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    graph = Catalog(database).get("g")
    database.close()
    paths = GraphPaths(root=settings.graphs_directory / graph.id)
    snapshots = SnapshotStore(paths.snapshots)
    number = snapshots.numbers()[-1]
    nodes = open_nodes(paths.nodes, kind="string", writable=False)
    return (
        snapshots.edges(number),
        nodes.external_ids(0, snapshots.meta(number).n_nodes),
        replace(graph.progress, snapshot=None),  # its number tells how often one was published
    )


def kill_at_work(
    home: Home, edges: Path, rng: random.Random, n_files: int, *options: object
) -> bool:
    """Kill an ingest a random moment after a checkpoint inside a file; some files are in by then.

    Returns whether it resumes inside a file.
    """
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    manifest, graph_id = Manifest(database), Catalog(database).get("g").id
    checkpoints = GraphPaths(root=settings.graphs_directory / graph_id).checkpoints
    running = home.start("ingest", "g", edges, *options, stdout=subprocess.DEVNULL)
    eventually(lambda: manifest.counts(graph_id)["committed"] >= n_files)
    eventually(lambda: is_inside_a_file(checkpoints))
    time.sleep(rng.uniform(0.0, 0.02))  # the moment of death, not a wait
    running.kill()
    assert running.wait() == -signal.SIGKILL
    assert manifest.counts(graph_id)["committed"] < N_FILES - 1
    database.close()
    return is_inside_a_file(checkpoints)


def is_inside_a_file(checkpoints: Path) -> bool:
    """Whether the newest checkpoint is not the clean one."""
    pointer = checkpoints / "current.json"
    if not pointer.exists():
        return False
    names = json.loads(pointer.read_text())
    return names["newest"] != names["clean"]


def let_lease_run_out(home: Home) -> None:
    """What twelve seconds of waiting would do."""
    database = open_database(Settings(home=home.directory).database)
    with database.write() as connection:
        connection.execute(delete(leases))
    database.close()


@pytest.fixture(scope="module")
def unbroken(compiled: None, edges: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The result of an ingest that nobody disturbs."""
    home = home_with_graph(tmp_path_factory.mktemp("unbroken"))
    home.run("ingest", "g", edges, exit_code=1)  # the bad file
    return result(home)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_killed_ingest_ends_as_the_unbroken_one(
    edges: Path, unbroken: Result, tmp_path: Path, n_threads: int
) -> None:
    home = home_with_graph(tmp_path)
    rng = random.Random(n_threads)
    try:
        n_inside = 0
        for n_files in KILLED_AFTER_FILES:
            n_inside += kill_at_work(home, edges, rng, n_files, "--threads", n_threads)
            let_lease_run_out(home)
        assert n_inside > 0, "no kill fell inside a file: the test shows too little"
        home.run("ingest", "g", edges, "--threads", n_threads, exit_code=1)
        assert result(home) == unbroken
        assert unbroken[2].edges_seen == (N_FILES - 1) * N_ROWS
    finally:
        home.end()


def test_next_ingest_goes_on_once_the_lease_of_the_killed_one_has_run_out(
    edges: Path, unbroken: Result, tmp_path: Path
) -> None:
    home = home_with_graph(tmp_path)
    try:
        kill_at_work(home, edges, random.Random(0), 1)
        home.run("ingest", "g", edges, exit_code=1)
        assert result(home) == unbroken
    finally:
        home.end()


def test_a_stopped_ingest_ends_within_five_seconds_and_goes_on(
    edges: Path, unbroken: Result, tmp_path: Path
) -> None:
    home = home_with_graph(tmp_path)
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    graph_id = Catalog(database).get("g").id
    database.close()
    checkpoints = GraphPaths(root=settings.graphs_directory / graph_id).checkpoints
    try:
        running = home.start("ingest", "g", edges, stdout=subprocess.DEVNULL)
        eventually(lambda: is_inside_a_file(checkpoints))
        running.terminate()
        assert running.wait(timeout=5) in (130, 128 + signal.SIGTERM)
        let_lease_run_out(home)
        home.run("ingest", "g", edges, exit_code=1)
        assert result(home) == unbroken
    finally:
        home.end()
