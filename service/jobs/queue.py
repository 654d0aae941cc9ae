"""Job queue: one table of leases, on SQLite and on PostgreSQL.

A claim sets the worker, the next attempt number and the end of the lease. Heartbeats move that end,
and a job whose lease has ended may be claimed again. All times are the database's.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from secrets import token_hex
from time import monotonic, sleep, time_ns
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError

from peewit.service.catalog import lock_graph
from peewit.service.database.engine import Database, insert_into
from peewit.service.database.tables import feature_sets, files, graphs, job_events, jobs, pushes
from peewit.service.database.timestamps import now
from peewit.service.jobs.job import (
    IdempotencyConflict,
    Job,
    JobEvent,
    JobPage,
    JobSpec,
    JobStatus,
    Lane,
    LeaseLost,
    UnknownJob,
)
from peewit.service.tracing.spans import traceparent
from peewit.solvers.arguments import BadArgument

LEASE_SECONDS: Final = 6.0
"""A job is taken over when its worker has been silent this long."""

_LEAST_ENDING: Final = 6
_MOST_NAMED: Final = 10
_FIRST_POLL_SECONDS: Final = 0.02
_LAST_POLL_SECONDS: Final = 0.25

_UNFINISHED_LANES: Final = (
    select(jobs.c.lane).distinct().where(jobs.c.status.in_([JobStatus.QUEUED, JobStatus.RUNNING]))
)
_is_running = jobs.c.status == JobStatus.RUNNING
_has_lapsed = _is_running & (jobs.c.lease_expires_at < now())


class JobQueue:
    """The durable queue, in the table ``jobs``.

    Submitters use `submit` to `wait`, workers the rest. A method that takes ``connection`` joins
    the caller's transaction, so that a label and the job it leads to are stored together or not at
    all; without one it commits before it returns. Methods that take ``attempt`` raise `LeaseLost`
    unless that attempt is the current one and still running; without a heartbeat it stays so for
    ``lease_seconds``.
    """

    def __init__(self, database: Database, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self._lease_seconds = lease_seconds

    def submit(self, spec: JobSpec, connection: Connection | None = None) -> Job:
        """The new job, or the earlier one with the same Idempotency-Key.

        Raises `GraphNotFound`, or `IdempotencyConflict` where the key belongs to a job with another
        spec.
        """
        with self._database.joined(connection) as joined:
            lock_graph(joined, spec.graph_id)
            statement = insert_into(joined, jobs).values(_new_row(spec))
            row = joined.execute(
                statement.on_conflict_do_nothing(
                    index_elements=[jobs.c.graph_id, jobs.c.idempotency_key]
                ).returning(*jobs.c)
            ).one_or_none()
            if row is None:
                return _earlier_submission(joined, spec)
            return _announce(joined, row)

    def submit_coalesced(self, spec: JobSpec, connection: Connection | None = None) -> Job:
        """A job that starts after this transaction commits: the waiting equal one, or a new one.

        However often it is called, at most one equal job waits beside the one that runs. A job that
        starts later sees what the caller's transaction wrote. Raises as `submit` does.
        """
        if spec.idempotency_key is not None:
            raise ValueError(
                "a coalesced job takes no idempotency_key: submitting it again is harmless"
            )
        with self._database.joined(connection) as joined:
            return submit_coalesced(joined, spec)

    def get(self, job_id: str, *, owner: str | None = None) -> Job:
        """The job, of an owner or of anybody; raises `UnknownJob`."""
        with self._database.read() as connection:
            return job_from_row(_find(connection, _of_owner(owner), job_id))

    def full_id(self, ending: str) -> str:
        """The only job id with this ending, of which people see eight characters; or `UnknownJob`.

        Fewer than six characters name no job: a slip must not cancel one.
        """
        if len(ending) < _LEAST_ENDING:
            raise UnknownJob(
                f"a job is named by its id, or by at least {_LEAST_ENDING} characters of its end, "
                f"got {ending!r}"
            )
        ends_so = jobs.c.id.endswith(ending, autoescape=True)
        candidates = select(jobs.c.id).where(ends_so).limit(_MOST_NAMED)
        with self._database.read() as connection:
            ids = connection.execute(candidates).scalars().all()
        if len(ids) == 1:
            return str(ids[0])
        if ending in ids or not ids:
            return ending
        more = " and more" if len(ids) == _MOST_NAMED else ""
        raise UnknownJob(f"several jobs end with {ending!r}: {', '.join(sorted(ids))}{more}")

    def list(
        self,
        *,
        graph_id: str | None = None,
        status: JobStatus | None = None,
        kind: str | None = None,
        owner: str | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> JobPage:
        """Jobs, newest first; ``page`` is the ``next_page`` of the page before."""
        if limit < 1:
            raise BadArgument("limit", f"must be at least 1, got {limit}")
        shown = _of_owner(owner)
        statement = shown.order_by(jobs.c.created_at.desc(), jobs.c.id.desc())
        if graph_id is not None:
            statement = statement.where(jobs.c.graph_id == graph_id)
        if status is not None:
            statement = statement.where(jobs.c.status == status)
        if kind is not None:
            statement = statement.where(jobs.c.kind == kind)
        with self._database.read() as connection:
            if page is not None:
                last = _find(connection, shown, page)
                same_time = and_(jobs.c.created_at == last.created_at, jobs.c.id < last.id)
                statement = statement.where(or_(jobs.c.created_at < last.created_at, same_time))
            rows = connection.execute(statement.limit(limit + 1)).all()
        records = [job_from_row(row) for row in rows[:limit]]
        return JobPage(jobs=records, next_page=records[-1].id if len(rows) > limit else None)

    def newest(self, graph_id: str, kind: str) -> Job | None:
        """The job of a kind that was submitted last; None before the first."""
        statement = (
            select(jobs)
            .where(jobs.c.graph_id == graph_id, jobs.c.kind == kind)
            .order_by(jobs.c.created_at.desc(), jobs.c.id.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            row = connection.execute(statement).one_or_none()
        return None if row is None else job_from_row(row)

    def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> Sequence[JobEvent]:
        """The job's history after an event, oldest first; raises `UnknownJob`."""
        with self._database.read() as connection:
            _find(connection, select(jobs.c.id), job_id)
            rows = connection.execute(
                select(job_events)
                .where(job_events.c.job_id == job_id, job_events.c.seq > after_seq)
                .order_by(job_events.c.seq)
                .limit(limit)
            ).all()
        return [JobEvent(**row._mapping) for row in rows]

    def cancel(self, job_id: str, connection: Connection | None = None) -> Job:
        """Cancel a waiting job at once, ask a running one to stop, leave a finished one alone."""
        with self._database.joined(connection) as joined:
            return _cancel(joined, _find(joined, select(jobs).with_for_update(), job_id))

    def cancel_graph(self, graph_id: str, connection: Connection | None = None) -> int:
        """Cancel every unfinished job of a graph; how many there were."""
        unfinished = jobs.c.status.in_([JobStatus.QUEUED, JobStatus.RUNNING])
        with self._database.joined(connection) as joined:
            rows = joined.execute(
                select(jobs)
                .where(jobs.c.graph_id == graph_id, unfinished)
                .order_by(jobs.c.id)
                .with_for_update()
            ).all()
            for row in rows:
                _cancel(joined, row)
        return len(rows)

    def forget(self, graph_id: str, *, older_than_seconds: float, keep: Collection[str]) -> int:
        """Delete jobs of a graph that ended long ago, with their history and keys; how many.

        Jobs with an id in ``keep`` stay.
        """
        statement = delete(jobs).where(
            jobs.c.graph_id == graph_id,
            jobs.c.finished_at < now(-older_than_seconds),
            jobs.c.id.not_in(keep),
        )
        with self._database.write() as connection:
            return len(connection.execute(statement.returning(jobs.c.id)).all())

    def wait(self, job_id: str, timeout_seconds: float) -> Job:
        """The job once it is finished, or as it stands when the time is over.

        Polls every 20 ms at first, every 250 ms in the end.
        """
        deadline = monotonic() + timeout_seconds
        pause = _FIRST_POLL_SECONDS
        while True:
            job = self.get(job_id)
            remaining = deadline - monotonic()
            if job.status.is_final or remaining <= 0:
                return job
            sleep(min(pause, remaining))
            pause = min(2 * pause, _LAST_POLL_SECONDS)

    def claim(
        self, worker_id: str, lanes: Collection[Lane], *, job_id: str | None = None
    ) -> Job | None:
        """Start an attempt at the first job in these lanes; None where there is none.

        Waiting jobs and jobs whose worker is silent are offered alike, by priority, then age. With
        ``job_id`` only that job is considered. Where there is none this only reads, which leaves
        SQLite's only writer free.
        """
        offered = _startable_jobs().where(jobs.c.lane.in_(lanes))
        if job_id is not None:
            offered = offered.where(jobs.c.id == job_id)
        with self._database.read() as connection:
            if not connection.execute(
                select(or_(offered.exists(), _lapsed_jobs().exists()))
            ).scalar():
                return None
        with self._database.write() as connection:
            for lapsed in connection.execute(_lapsed_jobs().with_for_update(skip_locked=True)):
                _end_lapsed(connection, lapsed)
            row = connection.execute(
                offered.order_by(jobs.c.priority.desc(), jobs.c.created_at, jobs.c.id)
                .limit(1)
                .with_for_update(of=jobs, skip_locked=True)
            ).one_or_none()
            return None if row is None else self._start(connection, row, worker_id)

    def unfinished_lanes(self) -> set[Lane]:
        """Lanes of jobs that wait or run (their workers may die); nothing is written."""
        with self._database.read() as connection:
            return set(connection.execute(_UNFINISHED_LANES).scalars())

    def heartbeat(self, job_id: str, attempt: int) -> bool:
        """Extend the lease; True when the job was asked to stop."""
        statement = (
            update(jobs)
            .where(jobs.c.id == job_id, jobs.c.attempt == attempt, _is_running)
            .values(lease_expires_at=now(self._lease_seconds))
            .returning(jobs.c.cancel_requested)
        )
        with self._database.write() as connection:
            row = connection.execute(statement).one_or_none()
        if row is None:
            raise _lease_lost(job_id, attempt)
        return bool(row.cancel_requested)

    def asked_to_stop(self, job_ids: Collection[str]) -> set[str]:
        """The jobs among these that were asked to stop; nothing is written."""
        query = select(jobs.c.id).where(jobs.c.id.in_(job_ids), jobs.c.cancel_requested)
        with self._database.read() as connection:
            return set(connection.execute(query).scalars())

    def capture(
        self, job_id: str, attempt: int, *, snapshot: int, labels_seq: int, features_version: int
    ) -> None:
        """Store what this attempt works on."""
        captured = {
            "snapshot": snapshot,
            "labels_seq": labels_seq,
            "features_version": features_version,
        }
        with self._database.write() as connection:
            row = _current(connection, job_id, attempt)
            _change(connection, row, captured)
            _record(connection, job_id, "captured", captured)

    def progress(
        self,
        job_id: str,
        attempt: int,
        *,
        phase: str,
        fraction: float | None = None,
        seconds_left: float | None = None,
    ) -> bool:
        """Store how far the attempt is; True when the job was asked to stop."""
        event = {"phase": phase, "fraction": fraction, "seconds_left": seconds_left}
        expected = None if seconds_left is None else now(seconds_left)
        with self._database.write() as connection:
            row = _current(connection, job_id, attempt)
            changes = {"phase": phase, "progress": fraction, "expected_end_at": expected}
            _change(connection, row, changes)
            _record(connection, job_id, "progress", event)
            return bool(row.cancel_requested)

    def finish(
        self,
        job_id: str,
        attempt: int,
        result: Mapping[str, Any],
        connection: Connection | None = None,
    ) -> Job:
        """End the job with its result, or as cancelled when that was requested before."""
        with self._database.joined(connection) as joined:
            row = _current(joined, job_id, attempt)
            return _end_or_cancel(joined, row, JobStatus.SUCCEEDED, result=dict(result))

    def fail(self, job_id: str, attempt: int, error: str, *, retry: bool = False) -> Job:
        """End the job with a reason; with ``retry`` only when no attempt is left."""
        with self._database.write() as connection:
            row = _current(connection, job_id, attempt)
            if retry and row.attempt < row.max_attempts:
                return _requeue(connection, row, reason=error)
            if retry:
                error = f"{error}; given up after {row.attempt} attempts"
            return _end_or_cancel(connection, row, JobStatus.FAILED, error=error)

    def cancelled(self, job_id: str, attempt: int) -> Job:
        """End a job that has stopped because it was asked to."""
        with self._database.write() as connection:
            return _end(connection, _current(connection, job_id, attempt), JobStatus.CANCELLED)

    def release(self, job_id: str, attempt: int) -> Job:
        """Give the job back without counting the attempt.

        Attempt numbers fence and are never used twice, so one more attempt is allowed instead.
        """
        with self._database.write() as connection:
            row = _current(connection, job_id, attempt)
            return _give_back(connection, row, reason="the worker was stopped")

    def _start(self, connection: Connection, row: Row[Any], worker_id: str) -> Job:
        """A new attempt at the job; labels, features and reports of an earlier one are forgotten.

        Its snapshot stays, unless the job is coalesced and takes the newest.
        """
        started = {
            "status": JobStatus.RUNNING,
            "attempt": row.attempt + 1,
            "worker_id": worker_id,
            "lease_expires_at": now(self._lease_seconds),
            "started_at": now(),
        }
        forgotten = dict.fromkeys(
            ("phase", "progress", "expected_end_at", "labels_seq", "features_version", "error")
        )
        if row.coalesce_key is not None:
            forgotten["snapshot"] = None
        changed = _change(connection, row, started | forgotten)
        data = {"attempt": changed.attempt, "worker": worker_id}
        if row.status == JobStatus.RUNNING:
            data["taken_over_from"] = row.worker_id
        _record(connection, row.id, "started", data)
        return changed


def requeue_running(connection: Connection, *, reason: str, only_lapsed: bool = False) -> int:
    """Requeue running jobs whose workers are known to be gone; how many there were.

    It does not count as an attempt. A job is cancelled where that was requested or a newer equal
    job waits. With ``only_lapsed`` jobs that a worker may still hold are left alone.
    """
    chosen = _has_lapsed if only_lapsed else _is_running
    statement = select(jobs).where(chosen).with_for_update(skip_locked=only_lapsed)
    rows = connection.execute(statement).all()
    for row in rows:
        _give_back(connection, row, reason=reason)
    return len(rows)


def coalesce_key(spec: JobSpec) -> str:
    """Equal for jobs that ask for the same thing, whatever the order of their parameters."""
    fields = [spec.kind, spec.model, spec.lane, dict(spec.parameters)]
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def submit_coalesced(connection: Connection, spec: JobSpec) -> Job:
    """Submit a job in the caller's transaction, unless an equal one waits; then that one."""
    lock_graph(connection, spec.graph_id)
    values = _new_row(spec) | {"coalesce_key": coalesce_key(spec)}
    statement = insert_into(connection, jobs).values(values)
    # An update, not "do nothing": it locks the waiting job until the caller commits, so that no
    # worker starts it before the caller's writes are visible.
    row = connection.execute(
        statement.on_conflict_do_update(
            index_elements=[jobs.c.graph_id, jobs.c.coalesce_key],
            index_where=text("status = 'queued' AND coalesce_key IS NOT NULL"),
            set_={"coalesce_key": statement.excluded.coalesce_key},
        ).returning(*jobs.c)
    ).one()
    return _announce(connection, row) if row.id == values["id"] else job_from_row(row)


def _new_row(spec: JobSpec) -> dict[str, Any]:
    return {
        "id": f"{time_ns():016x}{token_hex(8)}",  # sorts by age, which settles equal times
        "graph_id": spec.graph_id,
        "kind": spec.kind,
        "lane": spec.lane,
        "priority": spec.priority,
        "model": spec.model,
        "parameters": dict(spec.parameters),
        "idempotency_key": spec.idempotency_key,
        "max_attempts": spec.max_attempts,
        "owner": spec.owner,
        "snapshot": spec.snapshot,
        "after_ingest": spec.after_ingest,
        "traceparent": traceparent(),
    }


def _announce(connection: Connection, row: Row[Any]) -> Job:
    _record(connection, row.id, "queued", {})
    return job_from_row(row)


def _earlier_submission(connection: Connection, spec: JobSpec) -> Job:
    """The job that has this spec's Idempotency-Key, provided that it asks for the same."""
    earlier = job_from_row(
        connection.execute(
            select(jobs).where(
                jobs.c.graph_id == spec.graph_id, jobs.c.idempotency_key == spec.idempotency_key
            )
        ).one()
    )
    for field in ("kind", "model", "parameters", "lane", "priority"):
        before, value = getattr(earlier, field), getattr(spec, field)
        if before != value:
            raise IdempotencyConflict(
                f"Idempotency-Key {spec.idempotency_key!r} belongs to job {earlier.id} with "
                f"{field} {before!r}, got {value!r}; use a new key for a new job"
            )
    return earlier


def _startable_jobs() -> Select[Any]:
    """Jobs that may start now: waiting ones whose equal is not running, and lapsed ones.

    Those that wait for ingest have waited until all is read.
    """
    equal = jobs.alias("equal")
    equal_runs = (
        select(equal.c.id)
        .where(
            equal.c.graph_id == jobs.c.graph_id,
            equal.c.coalesce_key == jobs.c.coalesce_key,
            equal.c.status == JobStatus.RUNNING,
        )
        .correlate(jobs)
        .exists()
    )
    is_due = or_(~jobs.c.after_ingest, _all_is_read())
    waits = and_(jobs.c.status == JobStatus.QUEUED, ~equal_runs, is_due)
    return select(jobs).where(or_(waits, _has_lapsed))


def _all_is_read() -> ColumnElement[bool]:
    """Whether the job's graph has edges, and nothing that was sent to it waits for ingest."""
    sent = (
        (pushes, pushes.c.file_id.is_(None)),
        (files, and_(files.c.status == "pending", files.c.push_id.is_not(None))),
        (feature_sets, feature_sets.c.status == "pending"),
    )
    waits = [exists().where(each.c.graph_id == jobs.c.graph_id, rule) for each, rule in sent]
    has_edges = and_(graphs.c.edges_seen > 0, graphs.c.at_rest.is_not(None))
    return and_(exists().where(graphs.c.id == jobs.c.graph_id, has_edges), ~or_(*waits))


def _lapsed_jobs() -> Select[Any]:
    """Running jobs without a worker that nobody may take over: to be cancelled or given up."""
    has_no_attempt_left = jobs.c.attempt >= jobs.c.max_attempts
    return select(jobs).where(_has_lapsed, or_(jobs.c.cancel_requested, has_no_attempt_left))


def _end_lapsed(connection: Connection, row: Row[Any]) -> None:
    error = (
        f"worker {row.worker_id} stopped answering during attempt {row.attempt} of "
        f"{row.max_attempts}; see its log, then submit the job again"
    )
    _end_or_cancel(connection, row, JobStatus.FAILED, error=error)


def _cancel(connection: Connection, row: Row[Any]) -> Job:
    if row.status == JobStatus.QUEUED:
        return _end(connection, row, JobStatus.CANCELLED)
    if row.status == JobStatus.RUNNING and not row.cancel_requested:
        _record(connection, row.id, "cancel_requested", {})
        return _change(connection, row, {"cancel_requested": True})
    return job_from_row(row)


def _end_or_cancel(connection: Connection, row: Row[Any], status: JobStatus, **outcome: Any) -> Job:
    """The job ended as `_end` does, or cancelled when that was requested before."""
    if row.cancel_requested:
        return _end(connection, row, JobStatus.CANCELLED)
    return _end(connection, row, status, **outcome)


def _end(
    connection: Connection,
    row: Row[Any],
    status: JobStatus,
    *,
    result: Mapping[str, Any] | None = None,
    error: str | None = None,
) -> Job:
    """The job in a final status; its history gets its last line."""
    ended = {
        "status": status,
        "result": result,
        "error": error,
        "progress": 1.0 if status is JobStatus.SUCCEEDED else row.progress,
        "expected_end_at": None,
        "lease_expires_at": None,
        "finished_at": now(),
    }
    _record(connection, row.id, status, {"attempt": row.attempt, "error": error})
    return _change(connection, row, ended)


def _give_back(connection: Connection, row: Row[Any], *, reason: str) -> Job:
    """The job as after `_requeue`, without counting the attempt."""
    return _requeue(connection, row, reason=reason, max_attempts=row.max_attempts + 1)


def _requeue(connection: Connection, row: Row[Any], *, reason: str, **changes: Any) -> Job:
    """The job back in the queue; cancelled if requested, or if a newer equal one waits there."""
    if row.cancel_requested:
        return _end(connection, row, JobStatus.CANCELLED)
    waiting = {
        "status": JobStatus.QUEUED,
        "phase": None,
        "progress": None,
        "expected_end_at": None,
        "lease_expires_at": None,
        "error": reason,
    }
    try:
        with connection.begin_nested():
            changed = _change(connection, row, waiting | changes)
    except IntegrityError:  # the partial unique index on waiting coalesced jobs
        replaced = f"replaced by a newer equal job that waits already, after: {reason}"
        return _end(connection, row, JobStatus.CANCELLED, error=replaced)
    _record(connection, row.id, "requeued", {"attempt": row.attempt, "reason": reason})
    return changed


def _change(connection: Connection, row: Row[Any], values: Mapping[str, Any]) -> Job:
    changed = update(jobs).where(jobs.c.id == row.id).values(dict(values)).returning(*jobs.c)
    return job_from_row(connection.execute(changed).one())


def _record(connection: Connection, job_id: str, kind: str, data: Mapping[str, Any]) -> None:
    """Append to the job's history; the caller holds the job's row."""
    events = job_events
    last = select(func.coalesce(func.max(events.c.seq), 0)).where(events.c.job_id == job_id)
    connection.execute(
        insert(events).values(
            job_id=job_id, seq=last.scalar_subquery() + 1, kind=kind, data=dict(data)
        )
    )


def _of_owner(owner: str | None) -> Select[Any]:
    return select(jobs) if owner is None else select(jobs).where(jobs.c.owner == owner)


def _find(connection: Connection, statement: Select[Any], job_id: str) -> Row[Any]:
    row = connection.execute(statement.where(jobs.c.id == job_id)).one_or_none()
    if row is None:
        raise UnknownJob(f"no job {job_id!r}")
    return row


def _current(connection: Connection, job_id: str, attempt: int) -> Row[Any]:
    """The job's row, locked, provided that this attempt may still write to it."""
    statement = select(jobs).where(jobs.c.id == job_id).with_for_update()
    row = connection.execute(statement).one_or_none()
    if row is None or row.status != JobStatus.RUNNING or row.attempt != attempt:
        raise _lease_lost(job_id, attempt)
    return row


def _lease_lost(job_id: str, attempt: int) -> LeaseLost:
    return LeaseLost(f"attempt {attempt} of job {job_id} is no longer the current one")


def job_from_row(row: Row[Any]) -> Job:
    """The job in a row of all columns of ``jobs``."""
    values = dict(row._mapping)
    del values["lease_expires_at"]
    return Job(**values | {"status": JobStatus(row.status)})
