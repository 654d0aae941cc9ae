"""The job queue, one fact per test, on SQLite and on PostgreSQL."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from sqlalchemy import update

from peewit.service.catalog import Catalog, GraphNotFound
from peewit.service.database.engine import Database
from peewit.service.database.tables import graphs, jobs
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import AutoSolve, GraphSettings
from peewit.service.jobs.auto_solve import renew_given_up, request_auto_solve
from peewit.service.jobs.job import (
    IdempotencyConflict,
    Job,
    JobSpec,
    JobStatus,
    LeaseLost,
    UnknownJob,
)
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.store import LabelStore

AUTO_SOLVE = AutoSolve(model="stable-hfs", parameters={"graph_penalty": 1.0})


@pytest.fixture
def queue(database: Database) -> JobQueue:
    return JobQueue(database)


@pytest.fixture
def graph_id(database: Database) -> str:
    return Catalog(database).create(GraphSettings(name="g", auto_solve=AUTO_SOLVE)).id


@pytest.fixture
def spec(graph_id: str) -> JobSpec:
    return JobSpec(graph_id=graph_id, model="hfs", parameters={"rtol": 1e-6})


def claimed(queue: JobQueue, worker_id: str = "w1") -> Job:
    job = queue.claim(worker_id, ("fast", "heavy"))
    assert job is not None
    return job


def lapse(database: Database, job: Job) -> None:
    """The lease of a job ends now instead of in six seconds."""
    with database.write() as connection:
        connection.execute(
            update(jobs).where(jobs.c.id == job.id).values(lease_expires_at=now(-0.001))
        )


def kinds(queue: JobQueue, job: Job) -> list[str]:
    return [event.kind for event in queue.events(job.id)]


def test_a_submitted_job_is_found_again_as_it_was_asked_for(queue: JobQueue, spec: JobSpec) -> None:
    job = queue.submit(replace(spec, lane="heavy", priority=3))
    assert queue.get(job.id) == job
    assert (job.status, job.attempt, job.lane, job.priority) == ("queued", 0, "heavy", 3)
    assert (job.model, job.parameters) == ("hfs", {"rtol": 1e-6})
    assert job.created_at.tzinfo is not None


def test_unknown_jobs_and_graphs_are_named(queue: JobQueue, spec: JobSpec) -> None:
    with pytest.raises(UnknownJob, match="no job 'nope'"):
        queue.get("nope")
    with pytest.raises(GraphNotFound):
        queue.submit(replace(spec, graph_id="nope"))


def test_a_deleted_graph_takes_no_jobs_and_loses_those_it_has(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    running = queue.submit(spec)
    claimed(queue)
    waiting = queue.submit(spec)
    Catalog(database).delete(spec.graph_id, cancel_jobs=queue.cancel_graph)
    assert queue.get(waiting.id).status is JobStatus.CANCELLED
    assert queue.get(running.id).cancel_requested
    with pytest.raises(GraphNotFound):
        queue.submit(spec)


def test_the_same_key_and_spec_give_the_same_job(queue: JobQueue, spec: JobSpec) -> None:
    spec = replace(spec, idempotency_key="k")
    first = queue.submit(spec)
    assert queue.submit(spec).id == first.id
    claim = claimed(queue)
    queue.finish(claim.id, claim.attempt, {})
    assert queue.submit(spec).status is JobStatus.SUCCEEDED


def test_the_same_key_with_another_spec_is_a_conflict(queue: JobQueue, spec: JobSpec) -> None:
    spec = replace(spec, idempotency_key="k")
    queue.submit(spec)
    with pytest.raises(IdempotencyConflict, match="with model 'hfs', got 'stable-hfs'"):
        queue.submit(replace(spec, model="stable-hfs"))
    with pytest.raises(IdempotencyConflict, match="parameters"):
        queue.submit(replace(spec, parameters={}))


def test_concurrent_submissions_with_one_key_make_one_job(queue: JobQueue, spec: JobSpec) -> None:
    spec = replace(spec, idempotency_key="k")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: queue.submit(spec).id, range(16)))
    assert len(set(found)) == 1
    assert len(queue.list().jobs) == 1


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_an_idempotency_key_of_the_wrong_length_is_refused(spec: JobSpec, key: str) -> None:
    with pytest.raises(ValueError, match="Idempotency-Key must have 1 to 255 characters"):
        replace(spec, idempotency_key=key)


def test_a_job_and_the_callers_write_are_stored_together_or_not_at_all(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    with suppress(InterruptedError), database.write() as connection:
        queue.submit(spec, connection)
        raise InterruptedError
    assert not queue.list().jobs


def test_claims_go_by_priority_then_age(queue: JobQueue, spec: JobSpec) -> None:
    old = queue.submit(spec)
    young = queue.submit(spec)
    urgent = queue.submit(replace(spec, priority=1))
    assert [claimed(queue).id for _ in range(3)] == [urgent.id, old.id, young.id]
    assert queue.claim("w1", ("fast", "heavy")) is None


def test_a_worker_gets_jobs_of_its_lanes_only(queue: JobQueue, spec: JobSpec) -> None:
    heavy = queue.submit(replace(spec, lane="heavy"))
    assert queue.claim("w1", ("fast",)) is None
    claim = queue.claim("w1", ("heavy",))
    assert claim is not None
    assert claim.id == heavy.id


def test_a_one_job_worker_claims_its_job_past_older_ones(queue: JobQueue, spec: JobSpec) -> None:
    queue.submit(spec)
    mine = queue.submit(spec)
    claim = queue.claim("w1", ("fast",), job_id=mine.id)
    assert claim is not None
    assert claim.id == mine.id
    assert queue.claim("w1", ("fast",), job_id=mine.id) is None


def test_concurrent_claims_never_share_a_job(queue: JobQueue, spec: JobSpec) -> None:
    submitted = {queue.submit(spec).id for _ in range(12)}

    def claim_all(worker: int) -> list[str]:
        found = []
        while (job := queue.claim(f"w{worker}", ("fast",))) is not None:
            found.append(job.id)
        return found

    with ThreadPoolExecutor(4) as pool:
        found = [job_id for ids in pool.map(claim_all, range(4)) for job_id in ids]
    assert sorted(found) == sorted(submitted)


def test_progress_and_capture_show_on_the_job_and_in_its_history(
    queue: JobQueue, spec: JobSpec
) -> None:
    queue.submit(spec)
    job = claimed(queue)
    queue.capture(job.id, job.attempt, snapshot=7, labels_seq=3, features_version=0)
    assert not queue.progress(job.id, job.attempt, phase="solving", fraction=0.5, seconds_left=60.0)
    seen = queue.get(job.id)
    assert (seen.snapshot, seen.labels_seq, seen.features_version) == (7, 3, 0)
    assert (seen.phase, seen.progress, seen.worker_id) == ("solving", 0.5, "w1")
    assert kinds(queue, job) == ["queued", "started", "captured", "progress"]
    last = queue.events(job.id, after_seq=3)
    assert [(event.seq, event.data) for event in last] == [
        (4, {"phase": "solving", "fraction": 0.5, "seconds_left": 60.0})
    ]
    assert seen.started_at is not None
    assert seen.expected_end_at is not None
    assert 55 < (seen.expected_end_at - seen.started_at).total_seconds() < 600
    queue.progress(job.id, job.attempt, phase="writing")
    assert queue.get(job.id).expected_end_at is None
    queue.progress(job.id, job.attempt, phase="writing", seconds_left=1.0)
    assert queue.finish(job.id, job.attempt, {}).expected_end_at is None


def test_a_finished_job_never_changes_again(queue: JobQueue, spec: JobSpec) -> None:
    queue.submit(spec)
    job = claimed(queue)
    done = queue.finish(job.id, job.attempt, {"file": "f"})
    assert (done.status, done.result, done.progress) == ("succeeded", {"file": "f"}, 1.0)
    for write in (
        lambda: queue.finish(job.id, job.attempt, {}),
        lambda: queue.fail(job.id, job.attempt, "no"),
        lambda: queue.cancelled(job.id, job.attempt),
        lambda: queue.release(job.id, job.attempt),
        lambda: queue.heartbeat(job.id, job.attempt),
        lambda: queue.progress(job.id, job.attempt, phase="p"),
        lambda: queue.capture(job.id, job.attempt, snapshot=1, labels_seq=1, features_version=0),
    ):
        with pytest.raises(LeaseLost, match="attempt 1 of job"):
            write()
    assert queue.cancel(job.id) == done
    assert kinds(queue, job) == ["queued", "started", "succeeded"]


def test_a_waiting_job_is_cancelled_at_once(queue: JobQueue, spec: JobSpec) -> None:
    job = queue.cancel(queue.submit(spec).id)
    assert job.status is JobStatus.CANCELLED
    assert job.finished_at is not None
    assert queue.claim("w1", ("fast",)) is None


def test_a_running_job_is_asked_to_stop_and_then_ends_cancelled(
    queue: JobQueue, spec: JobSpec
) -> None:
    queue.submit(spec)
    job = claimed(queue)
    assert not queue.heartbeat(job.id, job.attempt)
    assert queue.cancel(job.id).status is JobStatus.RUNNING
    queue.cancel(job.id)
    assert queue.heartbeat(job.id, job.attempt)
    assert queue.progress(job.id, job.attempt, phase="solving")
    assert queue.cancelled(job.id, job.attempt).status is JobStatus.CANCELLED
    assert kinds(queue, job).count("cancel_requested") == 1


@pytest.mark.parametrize("ending", ["finish", "fail", "release"])
def test_a_job_asked_to_stop_ends_cancelled_however_the_attempt_ends(
    queue: JobQueue, spec: JobSpec, ending: str
) -> None:
    queue.submit(spec)
    job = claimed(queue)
    queue.cancel(job.id)
    match ending:
        case "finish":
            ended = queue.finish(job.id, job.attempt, {"file": "f"})
        case "fail":
            ended = queue.fail(job.id, job.attempt, "died", retry=True)
        case _:
            ended = queue.release(job.id, job.attempt)
    assert (ended.status, ended.result) == (JobStatus.CANCELLED, None)


def test_a_lapsed_job_is_taken_over_and_its_old_owner_fenced_out(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    queue.submit(spec)
    first = claimed(queue, "w1")
    queue.capture(first.id, first.attempt, snapshot=7, labels_seq=3, features_version=0)
    lapse(database, first)
    second = claimed(queue, "w2")
    assert (second.id, second.attempt, second.labels_seq) == (first.id, 2, None)
    assert second.snapshot == 7  # on which the jobs asked for with it work, too
    with pytest.raises(LeaseLost):
        queue.finish(first.id, first.attempt, {"file": "first"})
    assert queue.finish(second.id, second.attempt, {"file": "second"}).result == {"file": "second"}
    assert kinds(queue, second).count("succeeded") == 1


def test_a_late_heartbeat_keeps_a_job_that_nobody_took(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    queue.submit(spec)
    job = claimed(queue)
    lapse(database, job)
    queue.heartbeat(job.id, job.attempt)
    assert queue.claim("w2", ("fast",)) is None


def test_a_job_whose_workers_die_fails_after_its_last_attempt(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    job = queue.submit(spec)
    for _ in range(3):
        lapse(database, claimed(queue))
    assert queue.claim("w2", ("heavy",)) is None
    job = queue.get(job.id)
    assert job.status is JobStatus.FAILED
    assert job.error is not None
    assert "w1 stopped answering during attempt 3 of 3" in job.error


def test_a_lapsed_job_that_was_asked_to_stop_is_cancelled(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    job = queue.submit(spec)
    lapse(database, claimed(queue))
    queue.cancel(job.id)
    assert queue.claim("w2", ("fast",)) is None
    assert queue.get(job.id).status is JobStatus.CANCELLED


def test_an_error_that_would_come_again_fails_the_job_at_once(
    queue: JobQueue, spec: JobSpec
) -> None:
    queue.submit(spec)
    job = claimed(queue)
    failed = queue.fail(job.id, job.attempt, "class 'a' has no labeled node")
    assert (failed.status, failed.error) == (JobStatus.FAILED, "class 'a' has no labeled node")


def test_an_attempt_that_died_is_repeated_until_none_is_left(
    queue: JobQueue, spec: JobSpec
) -> None:
    queue.submit(replace(spec, max_attempts=2))
    job = claimed(queue)
    assert queue.fail(job.id, job.attempt, "killed", retry=True).status is JobStatus.QUEUED
    job = claimed(queue)
    failed = queue.fail(job.id, job.attempt, "killed", retry=True)
    assert failed.status is JobStatus.FAILED
    assert failed.error == "killed; given up after 2 attempts"


def test_a_released_attempt_does_not_count(queue: JobQueue, spec: JobSpec) -> None:
    queue.submit(replace(spec, max_attempts=1))
    job = claimed(queue)
    assert queue.release(job.id, job.attempt).status is JobStatus.QUEUED
    again = claimed(queue)
    assert again.attempt == 2
    assert queue.finish(again.id, again.attempt, {}).status is JobStatus.SUCCEEDED


def test_equal_coalesced_jobs_wait_as_one_beside_the_one_that_runs(
    queue: JobQueue, spec: JobSpec
) -> None:
    first = queue.submit_coalesced(spec)
    assert queue.submit_coalesced(spec).id == first.id
    running = claimed(queue)
    second = queue.submit_coalesced(spec)
    assert second.id != first.id
    assert queue.submit_coalesced(spec).id == second.id
    assert queue.claim("w2", ("fast",)) is None  # its equal runs
    queue.finish(running.id, running.attempt, {})
    assert claimed(queue).id == second.id


def test_coalesced_jobs_differ_by_graph_model_and_parameters(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    other = Catalog(database).create(GraphSettings(name="other")).id
    specs = [
        spec,
        replace(spec, graph_id=other),
        replace(spec, model="stable-hfs"),
        replace(spec, parameters={}),
    ]
    assert len({queue.submit_coalesced(each).id for each in specs}) == 4
    reordered = [{"a": 1, "b": 2}, {"b": 2, "a": 1}]
    found = {queue.submit_coalesced(replace(spec, parameters=each)).id for each in reordered}
    assert len(found) == 1


def test_a_returned_job_gives_way_to_the_newer_equal_one_that_waits(
    queue: JobQueue, spec: JobSpec
) -> None:
    queue.submit_coalesced(spec)
    running = claimed(queue)
    newer = queue.submit_coalesced(spec)
    replaced = queue.release(running.id, running.attempt)
    assert replaced.status is JobStatus.CANCELLED
    assert replaced.error is not None
    assert "newer equal job" in replaced.error
    assert claimed(queue).id == newer.id


def test_a_waiting_job_does_not_start_before_the_change_it_answers_is_stored(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    if database.is_sqlite:
        pytest.skip("SQLite has one writer at a time, so there is nothing to race")
    waiting = queue.submit_coalesced(spec)
    with database.write() as connection:
        assert queue.submit_coalesced(spec, connection).id == waiting.id
        assert queue.claim("w1", ("fast",)) is None
    assert claimed(queue).id == waiting.id


def make_solvable(
    database: Database, graph_id: str, labels: Sequence[str] = ("x", "y"), **changes: Any
) -> None:
    """Give a graph a snapshot and labels, in its rows only."""
    LabelStore(database).put(graph_id, [f"n{each}" for each in range(len(labels))], labels)
    with database.write() as connection:
        values = {"snapshot": 1, **changes}
        connection.execute(update(graphs).where(graphs.c.id == graph_id).values(**values))


def test_no_change_is_lost_between_concurrent_changes_and_workers(
    database: Database, queue: JobQueue, graph_id: str
) -> None:
    """Whatever the interleaving, the last job to start sees the last change."""
    n_changes = 25
    changed = Event()
    seen: list[int] = []

    def work() -> None:
        while True:
            all_changed = changed.is_set()
            job = queue.claim("w", ("fast",))
            if job is None:
                if all_changed:
                    return
                continue
            seq = Catalog(database).get_by_id(graph_id).labels_seq
            seen.append(seq)
            queue.finish(job.id, job.attempt, {})

    def change() -> None:
        for _ in range(n_changes):
            with database.write() as connection:
                store.put(graph_id, ["a", "b"], ["x", "y"], connection=connection)
                request_auto_solve(connection, graph_id)

    store = LabelStore(database)
    make_solvable(database, graph_id)
    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work) for _ in range(2)]
        changers = [pool.submit(change) for _ in range(2)]
        for each in changers:
            each.result()
        changed.set()
        for each in workers:
            each.result()
    assert max(seen) == 2 + 2 * 2 * n_changes
    assert all(job.status is JobStatus.SUCCEEDED for job in queue.list(limit=100).jobs)


@pytest.mark.parametrize(
    ("labels", "changes", "requested"),
    [
        (["x", "y"], {}, True),
        (["x", "y"], {"snapshot": None}, False),
        ([], {}, False),
        (["x", "x"], {}, False),
        (["x", "y"], {"auto_solve": None}, False),
    ],
)
def test_auto_solve_waits_for_a_snapshot_and_two_classes(
    database: Database, graph_id: str, labels: list[str], changes: dict[str, None], requested: bool
) -> None:
    make_solvable(database, graph_id, labels, **changes)
    with database.write() as connection:
        jobs = request_auto_solve(connection, graph_id)
    assert bool(jobs) == requested
    for job in jobs:
        assert (job.model, job.parameters) == (AUTO_SOLVE.model, AUTO_SOLVE.parameters)


@pytest.mark.parametrize(("refine", "lane"), [(True, "heavy"), (False, "fast")])
def test_auto_solve_that_takes_long_keeps_out_of_the_fast_lane(
    database: Database, graph_id: str, refine: bool, lane: str
) -> None:
    auto_solve = {"model": "stable-hfs", "parameters": {"refine": refine}}
    make_solvable(database, graph_id, auto_solve=auto_solve)
    with database.write() as connection:
        (job,) = request_auto_solve(connection, graph_id)
    assert job.lane == lane


def asked(database: Database, graph_id: str) -> Job:
    make_solvable(database, graph_id)
    with database.write() as connection:
        (job,) = request_auto_solve(connection, graph_id)
    return job


def wear_out(queue: JobQueue) -> Job:
    """Every attempt at the next job dies."""
    while True:
        job = claimed(queue)
        ended = queue.fail(job.id, job.attempt, "killed", retry=True)
        if ended.status is JobStatus.FAILED:
            return ended


def ended_ago(database: Database, job: Job, seconds: float) -> None:
    """A job has ended earlier than it did."""
    with database.write() as connection:
        connection.execute(
            update(jobs).where(jobs.c.id == job.id).values(finished_at=now(-seconds))
        )


def test_an_auto_solve_that_was_given_up_is_asked_for_again_and_again(
    database: Database, queue: JobQueue, graph_id: str
) -> None:
    job = asked(database, graph_id)
    for rest in (10.0, 20.0, 40.0):
        assert wear_out(queue).id == job.id
        assert renew_given_up(database) == []
        ended_ago(database, job, rest - 1.0)
        assert renew_given_up(database) == []
        ended_ago(database, job, rest + 1.0)
        (job,) = renew_given_up(database)
        assert renew_given_up(database) == []
    job = claimed(queue)
    queue.finish(job.id, job.attempt, {})
    job = asked(database, graph_id)
    wear_out(queue)
    ended_ago(database, job, 11.0)
    assert len(renew_given_up(database)) == 1  # what was given up before the success is forgotten


def test_what_only_a_change_can_help_is_not_asked_for_again(
    database: Database, queue: JobQueue, graph_id: str, spec: JobSpec
) -> None:
    of_itself = asked(database, graph_id)
    job = claimed(queue)
    queue.fail(job.id, job.attempt, "one class only")
    by_hand = queue.submit(spec)
    assert wear_out(queue).id == by_hand.id
    cancelled = asked(database, graph_id)
    queue.cancel(cancelled.id)
    for each in (of_itself, by_hand, cancelled):
        ended_ago(database, each, 1e6)
    assert renew_given_up(database) == []


@pytest.mark.parametrize("change", [{"auto_solve": {"model": "hfs"}}, {"state": "deleted"}])
def test_what_the_graph_no_longer_asks_for_is_not_asked_for_again(
    database: Database, queue: JobQueue, graph_id: str, change: dict[str, Any]
) -> None:
    asked(database, graph_id)
    ended_ago(database, wear_out(queue), 1e6)
    with database.write() as connection:
        connection.execute(update(graphs).where(graphs.c.id == graph_id).values(**change))
    assert renew_given_up(database) == []


def test_pages_list_every_job_once_newest_first(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    submitted = {queue.submit(spec).id for _ in range(5)}
    found: list[Job] = []
    page = None
    while True:
        part = queue.list(graph_id=spec.graph_id, limit=2, page=page)
        found += part.jobs
        page = part.next_page
        if page is None:
            break
    assert {job.id for job in found} == submitted
    assert len(found) == 5
    created = [job.created_at for job in found]
    assert created == sorted(created, reverse=True)


def test_jobs_are_listed_by_graph_and_status(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    other = Catalog(database).create(GraphSettings(name="other")).id
    job = queue.submit(spec)
    elsewhere = queue.submit(replace(spec, graph_id=other))
    queue.cancel(job.id)
    assert [each.id for each in queue.list(graph_id=other).jobs] == [elsewhere.id]
    assert [each.id for each in queue.list(status=JobStatus.CANCELLED).jobs] == [job.id]


def test_jobs_that_ended_long_ago_are_forgotten_except_those_to_keep(
    database: Database, queue: JobQueue, spec: JobSpec
) -> None:
    old, kept, fresh, waiting = (queue.submit(spec) for _ in range(4))
    for job in (old, kept, fresh):
        queue.cancel(job.id)
    with database.write() as connection:
        long_ago = update(jobs).where(jobs.c.id.in_([old.id, kept.id]))
        connection.execute(long_ago.values(finished_at=now(-100.0)))
    assert queue.forget(spec.graph_id, older_than_seconds=50.0, keep=[kept.id]) == 1
    assert {job.id for job in queue.list().jobs} == {kept.id, fresh.id, waiting.id}


def test_waiting_ends_when_the_job_does_or_the_time_is_over(queue: JobQueue, spec: JobSpec) -> None:
    job = queue.submit(spec)
    assert queue.wait(job.id, 0.0).status is JobStatus.QUEUED
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(queue.wait, job.id, 30.0)
        queue.cancel(job.id)
        assert waiting.result().status is JobStatus.CANCELLED
