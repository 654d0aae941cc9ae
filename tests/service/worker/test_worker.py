"""The worker with its real children, in this process, on SQLite."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pytest
from sqlalchemy import event, update

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database, open_database
from peewit.service.database.leases import LeaseStore
from peewit.service.database.tables import jobs
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import AutoSolve, GraphSettings
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.jobs.job import Job, JobSpec, JobStatus, Lane
from peewit.service.jobs.queue import JobQueue
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.store import PredictionStore
from peewit.service.settings import Settings
from peewit.service.worker.heartbeats import AnotherWorkerRunsError
from peewit.service.worker.run_one_job import run_until_finished
from peewit.service.worker.worker import Worker
from tests.fresh_databases import fresh
from tests.service.lost_answers import first_success_fails
from tests.service.solvable import (
    ENDLESS_CLASSES,
    ENDLESS_SIDE,
    TIGHT,
    Solvable,
    grid,
    spread_labels,
    two_communities,
)

pytestmark = pytest.mark.usefixtures("processes")

DEADLINE_SECONDS = 60.0

QUICK: dict[str, str | int] = {"n3": "left", "n33": "right"}


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "not so within the time"
        time.sleep(0.02)


class Service:
    """A home with a database, and what tests do to it."""

    def __init__(self, home: Path) -> None:
        self.settings = Settings(home=home, database_url=None)
        self.database: Database = open_database(fresh(self.settings.database))
        self.queue = JobQueue(self.database)
        self.predictions = PredictionStore(self.database, self.settings.graphs_directory)
        self.registry = WorkerRegistry(self.database)

    def quick(self, name: str) -> Solvable:
        """A graph that is solved at once."""
        graph = Solvable.create(self.database, self.settings, name)
        graph.publish(1, *two_communities())
        graph.label(QUICK)
        return graph

    def endless(self, name: str) -> Solvable:
        """A graph whose solve with `TIGHT` outlasts every test."""
        graph = Solvable.create(self.database, self.settings, name)
        graph.publish(1, *grid(ENDLESS_SIDE))
        graph.label(spread_labels(ENDLESS_SIDE**2, ENDLESS_CLASSES))
        return graph

    def submit(
        self,
        graph: Solvable,
        parameters: Mapping[str, Any] | None = None,
        *,
        model: str = "hfs",
        lane: Lane = "fast",
    ) -> Job:
        spec = JobSpec(graph_id=graph.graph_id, model=model, parameters=parameters or {}, lane=lane)
        return self.queue.submit(spec)

    def ended(self, job: Job) -> Job:
        job = self.queue.wait(job.id, DEADLINE_SECONDS)
        assert job.status.is_final
        return job

    def is_iterating(self, job: Job) -> bool:
        return self.queue.get(job.id).progress is not None

    def kinds(self, job: Job) -> list[str]:
        return [event.kind for event in self.queue.events(job.id)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A home with a worker that runs during all tests of this module."""
    service = Service(tmp_path_factory.mktemp("home"))
    stop = Event()
    thread = Thread(target=Worker(service.database, service.settings).run, args=(stop.is_set, str))
    thread.start()
    eventually(lambda: bool(service.registry.alive()))
    yield service
    stop.set()
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    assert not service.registry.alive()
    assert LeaseStore(service.database).holder("worker") is None
    assert not children()
    service.database.close()


def children() -> list[psutil.Process]:
    """Solving processes of this one that live."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # a zombie is one
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def test_a_job_ends_with_predictions_that_name_what_was_solved(service: Service) -> None:
    graph = service.quick("named")
    job = service.ended(service.submit(graph))
    assert (job.status, job.error, job.attempt) == (JobStatus.SUCCEEDED, None, 1)
    assert (job.snapshot, job.labels_seq, job.features_version) == (1, 2, 0)
    assert job.result is not None
    assert job.result["status"] == "converged"
    file = service.predictions.read(job)
    assert (file.meta.job_id, file.meta.snapshot, file.meta.labels_seq) == (job.id, 1, 2)
    assert file.n_nodes == job.result["n_nodes"] == 60
    latest = service.predictions.latest(graph.graph_id)
    assert latest is not None
    assert latest.id == job.id
    kinds = service.kinds(job)
    assert kinds[:3] == ["queued", "started", "captured"]
    assert kinds[-1] == "succeeded"
    assert set(kinds[3:-1]) == {"progress"}


def test_a_changed_label_is_solved_warm(service: Service) -> None:
    graph = service.quick("changed")
    service.ended(service.submit(graph))
    graph.label({"n3": "other"})
    job = service.ended(service.submit(graph))
    assert job.result is not None
    assert job.result["warm"]
    assert job.labels_seq == 3
    assert set(service.predictions.read(job).meta.class_names) == {"other", "right"}


def test_a_label_leads_to_a_solve_by_itself(service: Service) -> None:
    graph = service.quick("auto")
    auto_solve = AutoSolve(model="stable-hfs")
    Catalog(service.database).update(
        graph.graph_id, lambda _: GraphSettings(name="auto", seed=_.seed, auto_solve=auto_solve)
    )
    with service.database.write() as connection:
        receipt = LabelStore(service.database).put(
            graph.graph_id, ["n4"], ["left"], connection=connection
        )
        (job,) = request_auto_solve(connection, graph.graph_id)
    assert service.ended(job).labels_seq == receipt.labels_seq


def test_a_long_job_in_one_lane_does_not_hold_up_the_other_and_can_be_cancelled(
    service: Service,
) -> None:
    graph = service.endless("long")
    long = service.submit(graph, TIGHT, lane="heavy")
    eventually(lambda: service.is_iterating(long))
    quick = service.ended(service.submit(service.quick("short")))
    assert quick.status is JobStatus.SUCCEEDED
    assert service.queue.cancel(long.id).status is JobStatus.RUNNING
    assert service.ended(long).status is JobStatus.CANCELLED
    assert not list(service.predictions.directory(graph.graph_id).glob("*"))


def test_a_cancel_is_seen_between_heartbeats_though_the_child_tells_nothing(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = service.submit(service.endless("deaf"), TIGHT)
    eventually(lambda: service.is_iterating(job))
    deaf = children()
    monkeypatch.setattr("peewit.service.worker.heartbeats.HEARTBEAT_SECONDS", 3600.0)
    try:
        for child in deaf:
            child.suspend()
        service.queue.cancel(job.id)
        assert service.ended(job).status is JobStatus.CANCELLED
        assert len(psutil.wait_procs(deaf, 1.0)[0]) == 1  # the one of the other lane lives on
    finally:
        for child in deaf:
            if child.is_running():
                child.resume()


def test_jobs_that_cannot_be_done_fail_once_and_say_why(service: Service) -> None:
    empty = Solvable.create(service.database, service.settings, "empty")
    unlabeled = Solvable.create(service.database, service.settings, "unlabeled")
    unlabeled.publish(1, *two_communities())
    one_class = Solvable.create(service.database, service.settings, "one-class")
    one_class.publish(1, *two_communities())
    one_class.label({"n3": "left", "n4": "left"})
    good = service.quick("good")
    expected = {
        service.submit(empty).id: "graph empty has no snapshot yet; ingest edges first",
        service.submit(unlabeled).id: "graph unlabeled has no labels",
        service.submit(one_class).id: "one class only ('left')",
        service.submit(good, {"gamma": 1}).id: "model hfs has no parameter 'gamma'",
        service.submit(good, model="oracle").id: "model must be one of",
    }
    for job_id, reason in expected.items():
        job = service.ended(service.queue.get(job_id))
        assert (job.status, job.attempt) == (JobStatus.FAILED, 1)
        assert job.error is not None
        assert reason in job.error


def test_a_job_whose_child_is_killed_is_tried_again_until_it_is_given_up(service: Service) -> None:
    job = service.submit(service.endless("poison"), TIGHT, lane="heavy")
    for attempt in (1, 2, 3):
        eventually(
            lambda attempt=attempt: (
                service.queue.get(job.id).attempt == attempt  # type: ignore[misc]
                and service.is_iterating(job)
            )
        )
        for child in children():
            os.kill(child.pid, signal.SIGKILL)
    failed = service.ended(job)
    assert failed.status is JobStatus.FAILED
    assert failed.error == (
        "the solving process was killed by SIGKILL, perhaps for want of memory; "
        "given up after 3 attempts"
    )
    kinds = service.kinds(job)
    assert (kinds.count("started"), kinds.count("requeued"), kinds.count("failed")) == (3, 2, 1)
    assert service.ended(service.submit(service.quick("next"))).status is JobStatus.SUCCEEDED


def test_a_worker_that_lost_a_job_stops_it_and_takes_the_next(service: Service) -> None:
    graph = service.endless("lost")
    job = service.submit(graph, TIGHT)
    eventually(lambda: service.is_iterating(job))

    thief = JobQueue(service.database, lease_seconds=10 * DEADLINE_SECONDS)

    def is_stolen() -> bool:
        with service.database.write() as connection:
            lapse = update(jobs).where(jobs.c.id == job.id).values(lease_expires_at=now(-1.0))
            connection.execute(lapse)
        return thief.claim("thief", ("fast",), job_id=job.id) is not None

    eventually(is_stolen)
    assert service.ended(service.submit(service.quick("after"))).status is JobStatus.SUCCEEDED
    stolen = service.queue.get(job.id)
    assert (stolen.status, stolen.attempt, stolen.worker_id) == (JobStatus.RUNNING, 2, "thief")
    assert service.queue.finish(job.id, 2, {"file": "none"}).status is JobStatus.SUCCEEDED
    assert not list(service.predictions.directory(graph.graph_id).glob("*"))


def test_the_worker_is_known_to_be_alive(service: Service) -> None:
    (record,) = service.registry.alive("heavy")
    assert record.lanes == ("fast", "heavy")
    assert record.heartbeat_at >= record.started_at


def test_a_second_worker_on_sqlite_is_refused(service: Service) -> None:
    (first,) = service.registry.alive()
    second = Worker(service.database, service.settings)
    with pytest.raises(AnotherWorkerRunsError, match=f"worker {first.id} runs on this SQLite"):
        second.run(lambda: True, str)
    assert [record.id for record in service.registry.alive()] == [first.id]


def test_waiting_for_a_job_leaves_it_to_the_worker_that_is_alive(service: Service) -> None:
    seen: list[Job] = []
    job = service.submit(service.quick("awaited"))
    (record,) = service.registry.alive()
    ended = run_until_finished(service.database, service.settings, job.id, on_change=seen.append)
    assert (ended.status, ended.worker_id) == (JobStatus.SUCCEEDED, record.id)
    assert seen[-1] == ended


def test_waiting_for_a_job_runs_it_when_no_worker_is_alive(tmp_path: Path) -> None:
    service = Service(tmp_path)
    job = service.submit(service.quick("alone"))
    ended = run_until_finished(service.database, service.settings, job.id)
    assert ended.status is JobStatus.SUCCEEDED
    assert service.predictions.read(ended).meta.job_id == job.id
    assert run_until_finished(service.database, service.settings, job.id) == ended
    service.database.close()


def test_a_one_job_worker_that_is_told_to_stop_gives_the_job_back(tmp_path: Path) -> None:
    service = Service(tmp_path)
    job = service.submit(service.endless("alone"), TIGHT)
    ended = run_until_finished(
        service.database, service.settings, job.id, should_stop=lambda: service.is_iterating(job)
    )
    assert (ended.status, ended.attempt, ended.max_attempts) == (JobStatus.QUEUED, 1, 4)
    service.database.close()


@pytest.mark.parametrize("is_carried_out", [False, True])
def test_a_result_outlasts_a_database_that_is_away_when_the_job_ends(
    tmp_path: Path, is_carried_out: bool
) -> None:
    service = Service(tmp_path)
    job = service.submit(service.quick("away"))
    with first_success_fails(service.database, is_carried_out=is_carried_out):
        ended = Worker(service.database, service.settings).run_one(job.id)
    assert (ended.status, ended.attempt) == (JobStatus.SUCCEEDED, 1)
    assert service.kinds(job).count("succeeded") == 1
    assert service.predictions.read(ended).meta.job_id == job.id
    service.database.close()


@pytest.mark.slow
def test_a_wait_looks_less_and_less_often(tmp_path: Path) -> None:
    database = open_database(fresh(Settings(home=tmp_path).database))
    graph = Catalog(database).create(GraphSettings(name="g"))
    spec = JobSpec(graph_id=graph.id, model="hfs", parameters={})
    job = JobQueue(database).submit(spec)
    WorkerRegistry(database).register("w", ("fast", "heavy"))
    statements: list[str] = []
    event.listen(database.engine, "before_cursor_execute", lambda *told: statements.append(told[2]))
    end = time.monotonic() + 2.0
    run_until_finished(
        database, Settings(home=tmp_path), job.id, should_stop=lambda: time.monotonic() > end
    )
    database.close()
    assert len([each for each in statements if each.startswith("SELECT")]) < 45
