"""What a knn job may be asked, what a child does with one, and how its edges come in."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy.exc import OperationalError

from peewit.service.database.engine import Database
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import REPLACED
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.daemon import IngestDaemon
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.jobs.job import Job, JobStatus, LeaseLost
from peewit.service.settings import Settings
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.knn import (
    ConnectedBefore,
    KnnKind,
    KnnTask,
    edges_file,
    require_connectable,
)
from peewit.service.tasks.progress import Cancelled, Report
from peewit.service.tasks.tasks_and_messages import Advanced, Done, TaskStopped
from peewit.service.worker.worker import Worker
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from peewit.streaming.events import Committed, IngestEvent, Progress
from peewit.streaming.neighbors.knn import KnnSettings
from peewit.streaming.snapshots.store import SnapshotStore
from tests.service.featured import Featured, clusters
from tests.service.lost_answers import commits_unanswered
from tests.service.solvable import graphs_within


def task_of(graph: Featured, job: Job) -> KnnTask:
    record = graph.record
    return KnnTask(
        job_id=job.id,
        attempt=job.attempt,
        graph_id=graph.graph_id,
        graph_directory=graph.paths.root,
        node_kind="string",
        features_version=record.features_version,
        n_nodes=record.progress.n_nodes,
        seed=1,
        parameters=job.parameters,
    )


def claimed(graph: Featured, **parameters: Any) -> Job:
    job = graph.queue.claim("w", ("heavy",), job_id=graph.submit(**parameters).id)
    assert job is not None
    return job


def run(
    task: KnnTask, *, report: Report = lambda _: None, cancelled: Cancelled = lambda: False
) -> Done | TaskStopped:
    graphs = graphs_within(2**30)
    return KnnKind().run(task, TaskContext(graphs=graphs, report=report, cancelled=cancelled))


def answer_to(graph: Featured, job: Job) -> Done:
    answer = run(task_of(graph, job))
    assert isinstance(answer, Done)
    return answer


def finished(graph: Featured, job: Job, answer: Done) -> Job:
    home = Home(graph.database, graph.settings)
    return KnnKind().publish(job, answer.result, home)


def edges_of(graph: Featured, job: Job) -> Path:
    return edges_file(graph.paths, job.id, job.attempt)


def test_parameters_are_the_fields_of_the_settings() -> None:
    read = KnnKind().read
    assert read({}) == KnnSettings()
    assert read({"k": 3, "weights": "heat", "width": 2}).width == 2
    with pytest.raises(ValueError, match="knn has no parameter 'neighbors'; it has k, method"):
        read({"neighbors": 3})
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        read({"k": 0})


def test_task_leaves_a_file_of_edges_and_says_what_they_are(graph: Featured) -> None:
    seen: list[Advanced] = []
    job = claimed(graph, k=5)
    answer = run(task_of(graph, job), report=seen.append)
    assert isinstance(answer, Done)
    path = edges_of(graph, job)
    expected = neighbor_graph(clusters(), 5)
    assert pq.read_metadata(path).num_rows == expected.n_edges
    assert answer.result["n_edges"] == expected.n_edges
    assert (answer.result["features_version"], answer.result["k"]) == (1, 5)
    assert [each.phase for each in seen] == ["looking at features", "searching", "writing edges"]
    assert graph.files() == [path]


def test_task_that_is_told_to_stop_leaves_no_edges(graph: Featured) -> None:
    task = task_of(graph, claimed(graph))
    assert run(task, cancelled=lambda: True) == TaskStopped()
    assert not list(graph.paths.knn.glob("*"))


class InProcess:
    """A child that is this process, and acts when the search begins."""

    def __init__(self, graph: Featured, act: Any) -> None:
        self.graph, self.act = graph, act
        self.before_the_stop: list[Path] = []

    def run(self, task: KnnTask, *, progress: Any, interrupted: Any) -> Any:
        def report(advanced: Advanced) -> None:
            if advanced.phase == "searching":
                self.act()
                self.before_the_stop = self.graph.files()
            progress(advanced)

        return run(task, report=report, cancelled=interrupted)


def test_job_cancelled_in_the_middle_of_the_search_leaves_nothing(
    graph: Featured, database: Database, settings: Settings
) -> None:
    job = claimed(graph)
    child = InProcess(graph, lambda: graph.queue.cancel(job.id))
    Worker(database, settings)._run_job(job, child, lambda: False)
    assert graph.queue.get(job.id).status is JobStatus.CANCELLED
    assert child.before_the_stop
    assert graph.files() == []


def test_lists_of_a_worker_that_stops_wait_for_the_next_until_the_job_is_cancelled(
    graph: Featured, database: Database, settings: Settings
) -> None:
    job = claimed(graph)
    is_stopping: list[bool] = []
    child = InProcess(graph, lambda: is_stopping.append(True))
    Worker(database, settings)._run_job(job, child, lambda: bool(is_stopping))
    assert graph.queue.get(job.id).status is JobStatus.QUEUED
    assert graph.files() == child.before_the_stop != []
    KnnKind().sweep(graph.graph_id, Home(database, settings))
    assert graph.files() == child.before_the_stop
    graph.queue.cancel(job.id)
    daemon = IngestDaemon(database, settings)
    daemon.serve_once(lambda: False)
    daemon.close()
    assert graph.files() == []


def test_what_a_dead_attempt_left_goes_to_the_next(graph: Featured) -> None:
    first = task_of(graph, claimed(graph))
    with pytest.raises(ValueError, match="k must be below"):
        run(replace(first, n_nodes=5))
    left = graph.paths.knn_work / f"{first.job_id}-1"
    left.mkdir(exist_ok=True)
    unlisted = graph.paths.knn / f"{first.job_id}-1.parquet"
    unlisted.write_bytes(b"")
    assert isinstance(run(replace(first, attempt=2)), Done)
    assert graph.files() == [edges_file(graph.paths, first.job_id, 2)]


def test_job_and_its_file_are_told_together(graph: Featured, database: Database) -> None:
    job = claimed(graph)
    answer = answer_to(graph, job)
    ended = finished(graph, job, answer)
    assert ended.status is JobStatus.SUCCEEDED
    (file,) = Manifest(database).files_in(graph.graph_id, graph.paths.knn)
    assert (file.path, file.status) == (str(edges_of(graph, job)), "pending")
    graph.ingest()
    (file,) = Manifest(database).files_in(graph.graph_id, graph.paths.knn)
    assert (file.status, file.n_rows) == ("committed", answer.result["n_edges"])
    progress = graph.record.progress
    assert progress.edges_seen == answer.result["n_edges"]
    snapshot = SnapshotStore(graph.paths.snapshots).load(progress.snapshot or 0)
    assert snapshot.graph.n_components == 2


def test_cancelled_job_gives_no_edges(graph: Featured, database: Database) -> None:
    job = claimed(graph)
    answer = answer_to(graph, job)
    graph.queue.cancel(job.id)
    assert finished(graph, job, answer).status is JobStatus.CANCELLED
    assert graph.files() == []
    assert Manifest(database).files_in(graph.graph_id, graph.paths.knn) == []


def test_attempt_that_lost_its_lease_gives_no_edges(graph: Featured, database: Database) -> None:
    job = claimed(graph)
    answer = answer_to(graph, job)
    graph.queue.release(job.id, job.attempt)
    graph.queue.claim("other", ("heavy",), job_id=job.id)
    with pytest.raises(LeaseLost):
        finished(graph, job, answer)
    assert graph.files() == []


def test_edges_stay_whose_commit_was_not_answered(graph: Featured, database: Database) -> None:
    job = claimed(graph)
    answer = answer_to(graph, job)
    with commits_unanswered(database), pytest.raises(OperationalError):
        finished(graph, job, answer)
    with pytest.raises(LeaseLost):  # the job has ended, by this very attempt
        finished(graph, job, answer)
    graph.ingest()
    assert graph.record.progress.edges_seen == answer.result["n_edges"]


def test_of_two_jobs_that_run_together_one_gives_its_edges(
    graph: Featured, database: Database
) -> None:
    jobs = [claimed(graph, k=3), claimed(graph, k=4)]
    answers = [answer_to(graph, job) for job in jobs]
    ended = [finished(graph, job, answer) for job, answer in zip(jobs, answers, strict=True)]
    assert [job.status for job in ended] == [JobStatus.SUCCEEDED, JobStatus.FAILED]
    assert graph.files() == [edges_of(graph, jobs[0])]
    assert len(Manifest(database).files_in(graph.graph_id, graph.paths.knn)) == 1


@pytest.fixture
def deleting(database: Database, settings: Settings) -> Featured:
    graph = Featured.create(database, settings, deletions="exact")
    graph.give(clusters())
    return graph


def connect(graph: Featured, **parameters: Any) -> Path:
    job = claimed(graph, **parameters)
    assert finished(graph, job, answer_to(graph, job)).status is JobStatus.SUCCEEDED
    return edges_of(graph, job)


def holds(graph: Featured, *tables: Path) -> None:
    """The newest snapshot is of these files exactly, and the manifest says so."""
    edges = SnapshotStore(graph.paths.snapshots).edges(graph.record.progress.snapshot or 0)
    held = sum(pq.read_metadata(path).num_rows for path in tables)
    assert edges.num_rows == held
    listed = graph.manifest.list_files(graph.graph_id, status="committed")
    assert {file.path for file in listed} == {str(path) for path in tables}


def test_edges_take_the_place_of_those_before_at_once(deleting: Featured) -> None:
    first = connect(deleting, k=3)
    deleting.ingest()
    same = connect(deleting, k=3)
    deleting.ingest()
    holds(deleting, first)
    snapshot = deleting.record.progress.snapshot or 0
    second = connect(deleting, k=5)
    holds(deleting, first)
    deleting.ingest()
    holds(deleting, second)
    assert deleting.record.progress.snapshot == snapshot + 1
    for path in (first, same):
        gone = deleting.manifest.retractions.of_path(deleting.graph_id, str(path))
        assert [(file.status, file.reason) for file in gone] == [("retracted", REPLACED)]
    assert len(deleting.manifest.sources.list(deleting.graph_id)) == 1
    KnnKind().sweep(deleting.graph_id, Home(deleting.database, deleting.settings))
    assert deleting.files() == [second]
    third = connect(deleting, k=4)
    fourth = connect(deleting, k=2)  # before the third is in
    deleting.ingest()
    holds(deleting, fourth)
    KnnKind().sweep(deleting.graph_id, Home(deleting.database, deleting.settings))
    assert (fourth.exists(), third.exists()) == (True, False)


def test_edges_that_are_refused_leave_those_before(deleting: Featured) -> None:
    first = connect(deleting, k=3)
    deleting.ingest()
    second = connect(deleting, k=5)
    second.write_bytes(b"no table")
    deleting.ingest()
    holds(deleting, first)
    (refused,) = deleting.manifest.list_files(deleting.graph_id, status="quarantined")
    assert refused.path == str(second)
    holds(deleting, first)


class Crash(Exception):
    """The process dies here."""


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", [Progress, Committed])
def test_a_kill_loses_neither_the_edges_before_nor_those_after(
    deleting: Featured, dies_at: type[IngestEvent]
) -> None:
    first = connect(deleting, k=3)
    deleting.ingest()
    second = connect(deleting, k=5)

    def die(event: IngestEvent) -> None:
        if isinstance(event, dies_at):
            raise Crash

    with pytest.raises(Crash):
        Ingestor(deleting.database, deleting.settings).ingest_graph(deleting.graph_id, on_event=die)
    if dies_at is Progress:
        holds(deleting, first)
    deleting.ingest()
    holds(deleting, second)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        ({}, "its deletions are off; make another graph, with --deletions exact and"),
        ({"deletions": "exact", "parallel": "replace"}, "they took the place of others"),
    ],
)
def test_edges_that_cannot_leave_refuse_others(
    database: Database, settings: Settings, chosen: dict[str, Any], reason: str
) -> None:
    graph = Featured.create(database, settings, **chosen)
    graph.give(clusters())
    first, other = claimed(graph, k=3), claimed(graph, k=4)
    answer = answer_to(graph, other)
    finished(graph, first, answer_to(graph, first))
    graph.ingest()
    with pytest.raises(ConnectedBefore, match=reason):
        require_connectable(graph.manifest, graph.record, graph.paths.root)
    failed = finished(graph, other, answer)  # which began before the first was there
    assert (failed.status, edges_of(graph, other).exists()) == (JobStatus.FAILED, False)
    assert reason in (failed.error or "")
    holds(graph, edges_of(graph, first))


def test_edges_come_once_unless_their_file_was_refused(graph: Featured, database: Database) -> None:
    manifest = Manifest(database)
    require_connectable(manifest, graph.record, graph.paths.root)
    job = claimed(graph)
    finished(graph, job, answer_to(graph, job))
    with pytest.raises(ConnectedBefore, match="pending\\), which cannot be replaced"):
        require_connectable(manifest, graph.record, graph.paths.root)
    (source,) = manifest.sources.list(graph.graph_id)
    manifest.sources.remove(graph.graph_id, source.id)
    require_connectable(manifest, graph.record, graph.paths.root)


@pytest.mark.usefixtures("processes")
def test_worker_runs_the_job_and_says_what_is_missing(
    database: Database, settings: Settings
) -> None:
    graph = Featured.create(database, settings)
    assert "graph g has no features yet" in str(graph.connected().error)
    graph.give(clusters())
    failed = graph.connected(k=60)
    assert failed.error == "k must be below the number of nodes with features, got 60 for 60 nodes"
    job = graph.connected(k=5, weights="binary", symmetrize="max")
    assert (job.status, job.features_version) == (JobStatus.SUCCEEDED, 1)
    assert job.result is not None
    graph.ingest()
    assert graph.record.progress.edges_seen == job.result["n_edges"]
    assert "has edges from knn already" in str(graph.connected(k=4).error)
