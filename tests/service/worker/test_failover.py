"""Workers as processes that are killed, frozen and stopped: every job still ends once."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql
from sqlalchemy.engine import URL

from peewit.service.database.engine import Database, open_database
from peewit.service.jobs.job import Job, JobSpec, JobStatus
from peewit.service.jobs.queue import JobQueue
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.predictions.store import PredictionStore
from peewit.service.settings import Settings
from tests.service.solvable import (
    ENDLESS_CLASSES,
    ENDLESS_SIDE,
    LONG_CLASSES,
    LONG_SIDE,
    TIGHT,
    Solvable,
    grid,
    spread_labels,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("processes")]

DEADLINE_SECONDS = 60.0

TAKEOVER_SECONDS = 15.0
"""A killed worker's job has ended again after so long."""

LEASE_SECONDS = 6.0

WORKER = """
import sys
from peewit.service.database.engine import open_database
from peewit.service.process_lifetime import StopSignal
from peewit.service.settings import Settings, prepare_environment
from peewit.service.worker.worker import Worker

if __name__ == "__main__":
    settings = Settings(home=sys.argv[1], database_url=sys.argv[2])
    prepare_environment(settings)
    with StopSignal() as stop:
        Worker(open_database(settings.database), settings).run(stop, str)
"""


def eventually(is_so: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "not so within the time"
        time.sleep(0.02)


class Farm:
    """One home, one database and any number of worker processes."""

    def __init__(self, home: Path, url: str) -> None:
        self.settings = Settings(home=home, database_url=url)
        self.database: Database = open_database(url)
        self.queue = JobQueue(self.database)
        self.predictions = PredictionStore(self.database, self.settings.graphs_directory)
        self.registry = WorkerRegistry(self.database)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._script = home / "worker.py"
        self._script.write_text(WORKER)

    def have_workers(self, n_workers: int) -> None:
        """Start as many as are missing and wait until they run."""
        for _ in range(n_workers - len(self.processes)):
            process = subprocess.Popen(
                [sys.executable, self._script, self.settings.home, self.settings.database_url],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )
            self.processes[process.pid] = process
        eventually(lambda: self.n_alive() == len(self.processes))

    def n_alive(self) -> int:
        ours = {f"-{pid}-" for pid in self.processes}
        return sum(any(pid in each.id for pid in ours) for each in self.registry.alive())

    def graph(self, name: str, side: int, n_classes: int) -> Solvable:
        graph = Solvable.create(self.database, self.settings, name)
        graph.publish(1, *grid(side))
        graph.label(spread_labels(side * side, n_classes))
        return graph

    def start_job(self, graph: Solvable) -> Job:
        """Submit a long job and wait until a child works on it."""
        spec = JobSpec(graph_id=graph.graph_id, model="hfs", parameters=TIGHT)
        job = self.queue.submit(spec)
        eventually(lambda: self.queue.get(job.id).phase is not None)
        return self.queue.get(job.id)

    def owner(self, job: Job) -> subprocess.Popen[bytes]:
        """The process that runs the job."""
        assert job.worker_id is not None
        return self.processes[int(job.worker_id.split("-")[-2])]

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()
        del self.processes[process.pid]

    def kinds(self, job: Job) -> list[str]:
        return [event.kind for event in self.queue.events(job.id)]

    def files(self, graph: Solvable) -> list[str]:
        return [path.name for path in self.predictions.directory(graph.graph_id).glob("*.arrow")]

    def close(self) -> None:
        for process in list(self.processes.values()):
            self.kill(process)
        self.database.close()


def assert_ended_once(farm: Farm, job: Job, graph: Solvable, *, n_attempts: int) -> None:
    job = farm.queue.get(job.id)
    assert (job.status, job.attempt) == (JobStatus.SUCCEEDED, n_attempts)
    assert job.result is not None
    kinds = farm.kinds(job)
    assert kinds.count("started") == n_attempts
    assert [kinds.count(kind) for kind in ("succeeded", "failed", "cancelled")] == [1, 0, 0]
    assert kinds[-1] == "succeeded"
    assert farm.files(graph) == [job.result["file"]] == [f"{job.id}-{n_attempts}.arrow"]
    assert farm.predictions.read(job).n_nodes == job.result["n_nodes"]


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory, postgres_server: URL) -> Iterator[Farm]:
    """Workers on PostgreSQL; those that a test leaves alive serve the next one."""
    name = f"peewit_test_{uuid.uuid4().hex}"
    server = postgres_server.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        url = postgres_server.set(database=name).render_as_string(hide_password=False)
        farm = Farm(tmp_path_factory.mktemp("farm"), url)
        yield farm
        farm.close()
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def sqlite_farm(tmp_path: Path) -> Iterator[Farm]:
    farm = Farm(tmp_path, f"sqlite:///{tmp_path / 'peewit.db'}")
    yield farm
    farm.close()


@pytest.mark.postgres
def test_a_frozen_worker_that_comes_back_is_fenced_out(farm: Farm) -> None:
    graph = farm.graph("frozen", LONG_SIDE, LONG_CLASSES)
    farm.have_workers(2)
    job = farm.start_job(graph)
    frozen = farm.owner(job)
    frozen.send_signal(signal.SIGSTOP)  # its child works on, and answers into the pipe
    ended = farm.queue.wait(job.id, DEADLINE_SECONDS)
    assert ended.status is JobStatus.SUCCEEDED
    assert farm.owner(ended) is not frozen
    eventually(lambda: len(farm.files(graph)) == 2)
    frozen.send_signal(signal.SIGCONT)
    eventually(lambda: len(farm.files(graph)) == 1)
    assert_ended_once(farm, job, graph, n_attempts=2)
    endless = farm.graph("endless", ENDLESS_SIDE, ENDLESS_CLASSES)
    both = [farm.start_job(endless) for _ in range(2)]
    assert {farm.owner(again) for again in both} == set(farm.processes.values())
    for again in both:
        farm.queue.cancel(again.id)
    for again in both:
        assert farm.queue.wait(again.id, DEADLINE_SECONDS).status is JobStatus.CANCELLED


@pytest.mark.postgres
def test_a_killed_workers_job_is_ended_once_by_the_other(farm: Farm) -> None:
    graph = farm.graph("killed", LONG_SIDE, LONG_CLASSES)
    farm.have_workers(2)
    job = farm.start_job(graph)
    killed = farm.owner(job)
    orphans = psutil.Process(killed.pid).children(recursive=True)
    began = time.monotonic()
    farm.kill(killed)
    ended = farm.queue.wait(job.id, TAKEOVER_SECONDS)
    seconds = time.monotonic() - began
    assert ended.status is JobStatus.SUCCEEDED
    assert seconds < TAKEOVER_SECONDS
    assert ended.worker_id != job.worker_id
    assert_ended_once(farm, job, graph, n_attempts=2)
    psutil.wait_procs(orphans, timeout=DEADLINE_SECONDS)
    assert not any(orphan.is_running() for orphan in orphans)


@pytest.mark.postgres
def test_a_stopped_worker_gives_back_a_job_that_heartbeats_have_kept(farm: Farm) -> None:
    graph = farm.graph("kept", ENDLESS_SIDE, ENDLESS_CLASSES)
    farm.have_workers(2)
    job = farm.start_job(graph)
    first = farm.owner(job)
    began = time.monotonic()
    while time.monotonic() < began + LEASE_SECONDS + 1.0:
        assert farm.queue.get(job.id).attempt == 1
        time.sleep(0.1)
    first.terminate()
    assert first.wait(DEADLINE_SECONDS) == 0
    del farm.processes[first.pid]
    eventually(lambda: farm.queue.get(job.id).attempt == 2)
    taken = farm.queue.get(job.id)
    assert (taken.status, taken.max_attempts) == (JobStatus.RUNNING, job.max_attempts + 1)
    assert "requeued" in farm.kinds(job)
    assert farm.n_alive() == 1
    farm.queue.cancel(job.id)
    assert farm.queue.wait(job.id, DEADLINE_SECONDS).status is JobStatus.CANCELLED
    assert not farm.files(graph)


def test_a_worker_started_again_on_sqlite_ends_the_job_of_the_killed_one(sqlite_farm: Farm) -> None:
    farm = sqlite_farm
    graph = farm.graph("again", LONG_SIDE, LONG_CLASSES)
    farm.have_workers(1)
    job = farm.start_job(graph)
    farm.kill(farm.owner(job))
    farm.have_workers(1)
    assert farm.queue.wait(job.id, DEADLINE_SECONDS).status is JobStatus.SUCCEEDED
    assert_ended_once(farm, job, graph, n_attempts=2)
