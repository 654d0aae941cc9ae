"""The queue behaves like a dict of jobs, whatever submitters and workers do in whatever order.

The model is a plain dict from job id to (status, attempt, key); the queue in the database is run
beside it. Leases lapse when the machine says so, not when time passes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete, update

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database, open_database
from peewit.service.database.tables import graphs, jobs
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import GraphSettings
from peewit.service.jobs.job import IdempotencyConflict, Job, JobSpec, JobStatus, LeaseLost
from peewit.service.jobs.queue import JobQueue, coalesce_key

FINAL = {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}
MAX_ATTEMPTS = 2

specs = st.builds(
    JobSpec,
    graph_id=st.just("set by the rule"),
    model=st.sampled_from(["hfs", "stable-hfs"]),
    parameters=st.sampled_from([{}, {"graph_penalty": 1.0}]),
    lane=st.sampled_from(["fast", "heavy"]),
    priority=st.integers(0, 2),
    max_attempts=st.just(MAX_ATTEMPTS),
)


@dataclass
class Expected:
    """What the model knows of one job."""

    spec: JobSpec
    coalesce: str | None
    status: JobStatus = JobStatus.QUEUED
    attempt: int = 0
    attempts_left: int = MAX_ATTEMPTS
    has_lapsed: bool = False
    cancel_requested: bool = False


class QueueMachine(RuleBasedStateMachine):
    """Submitters, workers and time, as rules."""

    database: Database

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        with self.database.write() as connection:
            connection.execute(delete(graphs))
        self.graph_id = Catalog(self.database).create(GraphSettings(name="g")).id
        self.queue = JobQueue(self.database, lease_seconds=3600.0)
        self.expected: dict[str, Expected] = {}
        self.keys: dict[str, str] = {}

    @rule(spec=specs, key=st.sampled_from([None, None, "a", "b"]))
    def submit(self, spec: JobSpec, key: str | None) -> None:
        spec = replace(spec, graph_id=self.graph_id, idempotency_key=key)
        if key not in self.keys:
            job = self.queue.submit(spec)
            assert job.id not in self.expected
            self.expected[job.id] = Expected(spec, None)
            if key is not None:
                self.keys[key] = job.id
        elif self.expected[self.keys[key]].spec == spec:
            assert self.queue.submit(spec).id == self.keys[key]
        else:
            with pytest.raises(IdempotencyConflict):
                self.queue.submit(spec)

    @rule(spec=specs)
    def submit_coalesced(self, spec: JobSpec) -> None:
        spec = replace(spec, graph_id=self.graph_id)
        waiting = self._waiting_equal(coalesce_key(spec))
        job = self.queue.submit_coalesced(spec)
        if waiting is None:
            assert job.id not in self.expected
            self.expected[job.id] = Expected(spec, coalesce_key(spec))
        else:
            assert job.id == waiting

    @rule(target=claims, lanes=st.sampled_from([("fast",), ("heavy",), ("fast", "heavy")]))
    def claim(self, lanes: tuple[str, ...]) -> tuple[str, int] | None:
        for expected in self.expected.values():
            if expected.has_lapsed and expected.cancel_requested:
                self._end(expected, JobStatus.CANCELLED)
            elif expected.has_lapsed and not expected.attempts_left:
                self._end(expected, JobStatus.FAILED)
        offered = {
            job_id: each
            for job_id, each in self.expected.items()
            if each.spec.lane in lanes and self._is_offered(each)
        }
        job = self.queue.claim("w", lanes)
        if job is None:
            assert not offered
            return None
        assert job.id in offered
        assert job.id == max(offered, key=lambda each: offered[each].spec.priority)
        claimed = self.expected[job.id]
        claimed.status, claimed.has_lapsed = JobStatus.RUNNING, False
        claimed.attempt += 1
        claimed.attempts_left -= 1
        return job.id, claimed.attempt

    @rule(claim=claims)
    def lapse(self, claim: tuple[str, int] | None) -> None:
        if claim is not None and self._is_current(claim):
            self.expected[claim[0]].has_lapsed = True
            with self.database.write() as connection:
                connection.execute(
                    update(jobs).where(jobs.c.id == claim[0]).values(lease_expires_at=now(-1.0))
                )

    @rule(claim=claims)
    def heartbeat(self, claim: tuple[str, int] | None) -> None:
        if claim is None:
            return
        if self._is_current(claim):
            expected = self.expected[claim[0]]
            assert self.queue.heartbeat(*claim) == expected.cancel_requested
            expected.has_lapsed = False
        else:
            with pytest.raises(LeaseLost):
                self.queue.heartbeat(*claim)

    @rule(claim=consumes(claims))
    def finish(self, claim: tuple[str, int] | None) -> None:
        self._leave(claim, lambda *held: self.queue.finish(*held, {"file": "f"}), self._finished)

    @rule(claim=consumes(claims))
    def fail(self, claim: tuple[str, int] | None) -> None:
        self._leave(claim, lambda *held: self.queue.fail(*held, "wrong"), self._failed)

    @rule(claim=consumes(claims))
    def die(self, claim: tuple[str, int] | None) -> None:
        self._leave(claim, lambda *held: self.queue.fail(*held, "d", retry=True), self._died)

    @rule(claim=consumes(claims))
    def release(self, claim: tuple[str, int] | None) -> None:
        self._leave(claim, self.queue.release, self._released)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if not self.expected:
            return
        job_id = data.draw(st.sampled_from(list(self.expected)))
        expected = self.expected[job_id]
        self.queue.cancel(job_id)
        if expected.status is JobStatus.QUEUED:
            self._end(expected, JobStatus.CANCELLED)
        elif expected.status is JobStatus.RUNNING:
            expected.cancel_requested = True

    @invariant()
    def queue_and_dict_agree(self) -> None:
        found = {job.id: job for job in self.queue.list(limit=1000).jobs}
        assert found.keys() == self.expected.keys()
        for job_id, expected in self.expected.items():
            assert (found[job_id].status, found[job_id].attempt) == (
                expected.status,
                expected.attempt,
            )

    @invariant()
    def equal_jobs_run_and_wait_once_at_most(self) -> None:
        for status in (JobStatus.QUEUED, JobStatus.RUNNING):
            active = [
                job.coalesce_key
                for job in self.queue.list(status=status, limit=1000).jobs
                if job.coalesce_key is not None
            ]
            assert len(active) == len(set(active))

    def teardown(self) -> None:
        for job_id, expected in self.expected.items():
            kinds = [event.kind for event in self.queue.events(job_id)]
            assert sum(kind in FINAL for kind in kinds) == (expected.status in FINAL)
            assert kinds.count("started") == expected.attempt

    def _leave(
        self,
        claim: tuple[str, int] | None,
        write: Callable[[str, int], Job],
        expect: Callable[[Expected], None],
    ) -> None:
        """A worker's last write: refused unless its attempt is the current one."""
        if claim is None:
            return
        if not self._is_current(claim):
            with pytest.raises(LeaseLost):
                write(*claim)
            return
        write(*claim)
        expected = self.expected[claim[0]]
        expected.has_lapsed = False
        if expected.cancel_requested:
            self._end(expected, JobStatus.CANCELLED)
        else:
            expect(expected)

    def _finished(self, expected: Expected) -> None:
        self._end(expected, JobStatus.SUCCEEDED)

    def _failed(self, expected: Expected) -> None:
        self._end(expected, JobStatus.FAILED)

    def _died(self, expected: Expected) -> None:
        if expected.attempts_left:
            self._requeue(expected)
        else:
            self._end(expected, JobStatus.FAILED)

    def _released(self, expected: Expected) -> None:
        expected.attempts_left += 1
        self._requeue(expected)

    def _requeue(self, expected: Expected) -> None:
        if expected.coalesce is not None and self._waiting_equal(expected.coalesce) is not None:
            self._end(expected, JobStatus.CANCELLED)
        else:
            expected.status = JobStatus.QUEUED

    def _end(self, expected: Expected, status: JobStatus) -> None:
        expected.status, expected.has_lapsed = status, False

    def _is_current(self, claim: tuple[str, int]) -> bool:
        expected = self.expected[claim[0]]
        return expected.status is JobStatus.RUNNING and expected.attempt == claim[1]

    def _waiting_equal(self, key: str) -> str | None:
        waiting = [
            job_id
            for job_id, each in self.expected.items()
            if each.coalesce == key and each.status is JobStatus.QUEUED
        ]
        return waiting[0] if waiting else None

    def _is_offered(self, each: Expected) -> bool:
        if each.status is JobStatus.RUNNING:
            return each.has_lapsed
        return each.status is JobStatus.QUEUED and not any(
            other.coalesce == each.coalesce and other.status is JobStatus.RUNNING
            for other in self.expected.values()
            if each.coalesce is not None
        )


@pytest.mark.slow
def test_the_queue_behaves_like_a_dict(database_url: str) -> None:
    database = open_database(database_url)
    machine = type("Machine", (QueueMachine,), {"database": database})
    try:
        run_state_machine_as_test(
            machine, settings=settings(max_examples=15, stateful_step_count=40)
        )
    finally:
        database.close()
