"""A disk that fills up: refusals say so, nothing is lost, and with room again all goes on."""

import csv
import io
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from peewit.service.catalog import Catalog
from peewit.service.database.disk_full_errors import is_disk_full
from peewit.service.database.engine import Database, open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.daemon import IngestDaemon
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.jobs.job import JobSpec, JobStatus
from peewit.service.jobs.queue import JobQueue
from peewit.service.settings import Settings
from peewit.service.worker.worker import Worker
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.processes import Home, Server, eventually
from tests.service.solvable import Solvable, two_communities

DISK_BYTES: Final = 32 << 20
N_PUSHES: Final = 12
RECOVERY_SECONDS: Final = 180.0

ROOMS: Final = (*(size << 12 for size in range(12)), *(1 << power for power in range(16, 22)))
"""Bytes left free, so that the disk is full at another line each time."""

ROOM_OF_DATABASE: Final = 300 << 10
"""Enough for the rows of a job, too little for its predictions."""

Edge = frozenset[str]


class Disk:
    """A small file system of its own, which can be filled to the last byte."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._filler = directory / "filler"

    def fill(self, room: int = 0) -> None:
        """Leave so many bytes, of which others may use up some."""
        free = shutil.disk_usage(self.directory).free
        if room:
            with self._filler.open("ab", buffering=0) as file:
                if free > room:
                    end = os.fstat(file.fileno()).st_size
                    os.posix_fallocate(file.fileno(), end, free - room)
            return
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while file.write(bytes(size)) == size:
                        pass
                except OSError:
                    continue

    def make_room(self) -> None:
        """Give back all that was filled."""
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    directory = tmp_path / "disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("needs a small file system; there is no command mount")
    if done.returncode:
        pytest.skip(f"needs a small file system; run as root ({done.stderr.strip()})")
    try:
        yield Disk(directory)
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.fixture
def home(disk: Disk) -> Iterator[Home]:
    home = Home(
        disk.directory / "home",
        PEEWIT_CHECKPOINT_SECONDS="0",
        PEEWIT_LOG_LEVEL="warning",
        PEEWIT_MIN_FREE_BYTES="1",  # the whole disk is smaller than what is asked for by default
    )
    yield home
    home.end()


def edges_of(number: int, n_edges: int = 30) -> list[tuple[str, str]]:
    """Edges of one push: a chain of new nodes that hangs on the one before."""
    nodes = [f"p{number}-{end}" for end in range(n_edges)]
    return list(zip([f"p{max(number - 1, 0)}-0", *nodes], nodes, strict=False))


def push(server: Server, number: int) -> tuple[int, Any]:
    lines = "".join(f"{u},{v}\n" for u, v in edges_of(number))
    headers = {"Content-Type": "text/csv", "Idempotency-Key": f"push-{number}"}
    return server.call("POST", "/v1/graphs/g/edges", f"src,dst\n{lines}".encode(), headers)


def require_said(status: int, answer: Any) -> None:
    """The answer is a problem that says that the disk is full."""
    assert status == 507, answer
    assert answer["type"] == "urn:peewit:problem:disk-full"
    assert "disk" in answer["detail"]


def stored_edges(server: Server) -> set[Edge]:
    """Edges of the newest snapshot, by external ids; none before the first one."""
    number = server.get("/v1/graphs/g")[1]["snapshot"]
    if number is None:
        return set()
    status, content = server.get(f"/v1/graphs/g/snapshots/{number}/edges?format=csv")
    assert status == 200
    rows = csv.DictReader(io.StringIO(content.decode()))
    return {frozenset((row["src"], row["dst"])) for row in rows}


def require_ingested(server: Server, numbers: set[int]) -> None:
    """The graph comes to hold the edges of these pushes, and no others."""
    wanted = [edge for number in numbers for edge in edges_of(number)]
    loops = sum(u == v for u, v in wanted)

    def is_in() -> bool:
        backlog = server.get("/v1/graphs/g")[1]
        return bool(backlog["edges_seen"] >= len(wanted))

    eventually(is_in, RECOVERY_SECONDS)
    graph = server.get("/v1/graphs/g")[1]
    assert graph["edges_seen"] == len(wanted)
    assert graph["left_out"]["self_loops"] == loops
    eventually(
        lambda: stored_edges(server) == {frozenset(edge) for edge in wanted if edge[0] != edge[1]},
        RECOVERY_SECONDS,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_server_outlives_a_full_disk(disk: Disk, home: Home) -> None:
    home.run("graph", "create", "g", "--expected-nodes", 1000, "--seed", 1, "--epsilon", 0.2)
    server = Server(home)
    acknowledged = {number for number in range(N_PUSHES) if push(server, number)[0] in {200, 202}}
    assert len(acknowledged) == N_PUSHES
    labels = {"labels": [{"node": "p0-3", "label": "a"}, {"node": "p7-3", "label": "b"}]}
    require_ingested(server, acknowledged)
    before = server.get("/v1/graphs/g")[1]
    disk.fill()
    refused = 0
    for number in range(N_PUSHES, 10 * N_PUSHES):
        status, answer = push(server, number)
        disk.fill()
        if status in {200, 202}:  # the database had pages to spare
            acknowledged.add(number)
            continue
        require_said(status, answer)
        refused += 1
        if refused >= 5:
            break
    assert refused >= 5
    csv_headers = {"Content-Type": "text/csv"}
    body = b"src,dst\n" + b"x" * 1000 + b",y\n" * (1 << 20)
    require_said(*server.call("POST", "/v1/graphs/g/edges", body, csv_headers))
    require_said(*server.call("PUT", "/v1/graphs/g/labels", labels))
    features = b"node,x\np0-3,1\n"
    require_said(*server.call("PUT", "/v1/graphs/g/features", features, csv_headers))
    job = {"kind": "solve", "model": "hfs"}
    require_said(*server.call("POST", "/v1/graphs/g/jobs", job))
    assert server.get("/v1/graphs/g")[1]["snapshot"] >= before["snapshot"]
    assert stored_edges(server) >= {
        frozenset(edge) for edge in edges_of(1)
    }  # what was published stays whole
    process = home.start("graph", "create", "h", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert err.startswith("peewit: ")
    assert "full" in err
    assert err.count("\n") == 1
    disk.make_room()
    for number in range(N_PUSHES, 2 * N_PUSHES):  # those that were taken are known by their keys
        status, answer = push(server, number)
        assert status in {200, 202}, answer
        acknowledged.add(number)
    require_ingested(server, acknowledged)
    assert server.call("PUT", "/v1/graphs/g/labels", labels)[0] == 200
    status, job = server.call("POST", "/v1/graphs/g/jobs", job)
    assert status == 202, job
    status, job = server.get(f"/v1/jobs/{job['id']}?wait=120")
    assert job["status"] == "succeeded", job


def write_source(directory: Path, number: int) -> None:
    u, v = zip(*edges_of(number), strict=True)
    pq.write_table(pa.table({"src": u, "dst": v}), directory / f"{number:03}.parquet")


def made(home: Path, database: Path | None = None) -> tuple[Settings, Database]:
    settings = Settings(
        home=home,
        database_url=database and f"sqlite:///{database}",
        threads=1,
        settle_seconds=0,
        list_seconds=0.05,
    )
    home.mkdir()
    return settings, open_database(settings.database)


def graph_of(database: Database, source: Path) -> str:
    asked = GraphSettings(name="g", epsilon=0.2, expected_nodes=1000, seed=1, keep_raw=False)
    graph_id = Catalog(database).create(asked).id
    Manifest(database).sources.add(graph_id, str(source), follow=True)
    return graph_id


def snapshot_edges(settings: Settings, graph_id: str) -> list[tuple[int, int, float]]:
    store = SnapshotStore(GraphPaths(root=settings.graphs_directory / graph_id).snapshots)
    u, v, weight = store.load(store.latest() or 0).graph.edges()
    return list(zip(u.tolist(), v.tolist(), weight.tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("database_is_full_too", [True, False])
def test_ingest_that_meets_a_full_disk_at_any_point_takes_every_edge_once(
    disk: Disk, tmp_path: Path, database_is_full_too: bool
) -> None:
    source = tmp_path / "edges"
    source.mkdir()
    elsewhere = None if database_is_full_too else tmp_path / "peewit.db"
    settings, database = made(disk.directory / "home", elsewhere)
    graph_id = graph_of(database, source)
    seconds = itertools.count(step=1000.0)  # no rest outlasts a round
    daemon = IngestDaemon(database, settings, clock=lambda: next(seconds))
    n_full = 0
    with capture_logs() as logs:
        for number, room in enumerate(ROOMS):
            write_source(source, number)
            disk.fill(room)
            for _ in range(4):
                try:
                    daemon.serve_once(lambda: False)
                except OperationalError as error:
                    assert is_disk_full(error), error  # noqa: PT017 - one of several ways
                    n_full += 1
                daemon.lister.wait(RECOVERY_SECONDS)
                disk.fill(room)
            if number:
                assert snapshot_edges(settings, graph_id)  # the newest is whole at any time
            disk.make_room()
            if number == 0:
                eventually(lambda: daemon.serve_once(lambda: False) > 0, RECOVERY_SECONDS)
    n_full += sum(log["event"] == "disk full" for log in logs)
    assert n_full >= 3, logs
    assert not [log for log in logs if log["event"] in {"file quarantined", "ingest failed"}], logs
    wanted = sum(len(edges_of(number)) for number in range(len(ROOMS)))

    def has_all() -> bool:
        daemon.serve_once(lambda: False)
        return Catalog(database).get("g").progress.edges_seen >= wanted

    eventually(has_all, RECOVERY_SECONDS)
    daemon.close()
    assert Catalog(database).get("g").progress.edges_seen == wanted
    calm_settings, calm = made(tmp_path / "calm")
    calm_id = graph_of(calm, source)
    Ingestor(calm, calm_settings).ingest_graph(calm_id)
    assert snapshot_edges(settings, graph_id) == snapshot_edges(calm_settings, calm_id)
    database.close()
    calm.close()


@pytest.mark.slow
def test_a_worker_waits_for_room_and_then_ends_the_job(disk: Disk) -> None:
    settings, database = made(disk.directory / "home")
    graph = Solvable.create(database, settings, "g")
    graph.publish(1, *two_communities(20_000))
    graph.label({"n3": "left", "n10003": "right"})
    queue = JobQueue(database)
    spec = JobSpec(graph_id=graph.graph_id, kind="solve", model="hfs", parameters={}, lane="fast")
    job = queue.submit(spec)
    disk.fill(ROOM_OF_DATABASE)
    stopped = Event()
    worker = Worker(database, settings)
    thread = Thread(target=worker.run, args=(stopped.is_set, str))
    with capture_logs() as logs:
        thread.start()
        try:
            eventually(lambda: any(log["event"] == "disk full" for log in logs), RECOVERY_SECONDS)
            assert not queue.get(job.id).status.is_final
            disk.make_room()
            eventually(lambda: queue.get(job.id).status.is_final, RECOVERY_SECONDS)
        finally:
            stopped.set()
            thread.join()
    assert queue.get(job.id).status is JobStatus.SUCCEEDED
    database.close()
