"""Checks of the database and of the rows about work in progress."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.exc import DatabaseError

from peewit.service.database.lease_holders import is_dead
from peewit.service.database.migrations import DatabaseVersionError, require_present
from peewit.service.database.tables import files, graphs, jobs, leases, sources
from peewit.service.database.timestamps import now
from peewit.service.inbox.leaving.erasures import ErasureLog
from peewit.service.jobs.ingest_steps import IngestSteps
from peewit.service.jobs.queue import requeue_running
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.redaction import redacted, shown_url
from peewit.service.upkeep.doctor.findings import Finding, Patient, fault, information

OVERDUE_SECONDS: Final = 600.0
_OVERDUE_PAUSES: Final = 4
"""A followed source should be listed within so long, and within so many of the usual pauses."""


def check_database(patient: Patient) -> Iterator[Finding]:
    """Schema of the database and, of SQLite, damage of its file."""
    try:
        require_present(patient.database.read)
    except DatabaseVersionError as error:
        yield fault(str(error))
    if patient.database.is_sqlite:
        yield from _check_sqlite(patient)


def _check_sqlite(patient: Patient) -> Iterator[Finding]:
    with patient.database.engine.connect() as connection:  # rolled back: a damaged file
        damage = _damage(connection)  # accepts no commit, even after reading only
        for row in damage:
            yield fault(f"the file is damaged: {row}; restore a backup")
        if damage:
            return
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
        if mode != "wal":
            yield fault(f"the journal mode must be wal, it is {mode}")
        for table, row_id, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
            yield fault(f"row {row_id} of {table} refers to none of {parent}")


def check_jobs(patient: Patient) -> Iterator[Finding]:
    """Jobs marked as running that nobody runs."""
    lapsed = select(jobs.c.id, jobs.c.worker_id, jobs.c.lane).where(
        jobs.c.status == "running", jobs.c.lease_expires_at < now()
    )
    alive = {lane for worker in WorkerRegistry(patient.database).alive() for lane in worker.lanes}
    for row in patient.rows(lapsed):
        if row.lane not in alive:
            yield fault(
                f"job {row.id} was run by {row.worker_id}, which is gone, and no worker "
                "is there to take it over; start one",
                repair=partial(_requeue, patient),
            )


def check_leases(patient: Patient) -> Iterator[Finding]:
    """Unexpired leases whose holders have died on this machine."""
    statement = select(leases).where(leases.c.expires_at > now())
    for row in patient.rows(statement):
        if is_dead(row.holder):
            yield fault(
                f"the lease {row.name} is held by {row.holder}, which has died",
                repair=partial(_free, patient, row),
            )


def check_erasures(patient: Patient) -> Iterator[Finding]:
    """Nodes that should be erased by now."""
    for graph, erasure in ErasureLog(patient.database).overdue():
        yield fault(
            f"erasure {erasure.id} of graph {graph} should be done since "
            f"{erasure.erase_by:%Y-%m-%d %H:%M} UTC. Its nodes are hidden, but files still "
            f"hold them; run the ingest daemon or `peewit ingest {graph}`, and look whether "
            "a job of the graph runs without end"
        )


def check_graphs(patient: Patient) -> Iterator[Finding]:
    """Graphs whose ingest fails."""
    for failing in IngestSteps(patient.database).failing_graphs():
        yield information(str(failing))


def check_ingest(patient: Patient) -> Iterator[Finding]:
    """Ingest that stands still or is slow; `check_sources` reports failures."""
    stall_seconds = patient.settings.stall_seconds
    for step in IngestSteps(patient.database).present():
        text = f"{step.process} ({step.graph or 'no graph'}"
        text += f", source {step.url})" if step.url else ")"
        if step.is_stuck(stall_seconds):
            yield fault(f"{text}: {step.doing(stall_seconds)}; see what it reads, or restart it")
        elif step.graph and step.step_seconds >= stall_seconds:
            yield information(f"{text}: {step.doing(stall_seconds)}")


def check_sources(patient: Patient) -> Iterator[Finding]:
    """Refused files, sources that cannot be listed or are late: for their owner, no fault here."""
    failing = (
        select(graphs.c.name, sources.c.url, sources.c.error)
        .join(graphs)
        .where(sources.c.n_failures > 0, sources.c.removed_at.is_(None), graphs.c.state == "active")
    )
    refused, leaving = (
        select(graphs.c.name, func.count())
        .join(graphs)
        .where(files.c.status == status, graphs.c.state == "active")
        .group_by(graphs.c.name)
        for status in ("quarantined", "retracting")
    )
    last = func.coalesce(sources.c.listed_at, sources.c.created_at)
    overdue = (
        select(graphs.c.name, func.count())
        .join(graphs)
        .where(
            sources.c.follow,
            sources.c.n_failures == 0,
            sources.c.removed_at.is_(None),
            graphs.c.state == "active",
            last < now(-max(OVERDUE_SECONDS, _OVERDUE_PAUSES * patient.settings.list_seconds)),
        )
        .group_by(graphs.c.name)
    )
    for name, url, error in patient.rows(failing):
        text = f"source {shown_url(url)} of {name} cannot be read: {redacted(error or '')}"
        yield information(text)
    for name, n_sources in patient.rows(overdue):
        text = f"{n_sources} followed sources of {name} should have been listed long ago; see that "
        yield information(text + "`peewit ingest --follow` or `serve` runs and is not held up")
    for name, n_files in patient.rows(refused):
        text = f"{n_files} files of {name} are refused; `peewit source list {name}` says why"
        yield information(text)
    for name, n_files in patient.rows(leaving):
        text = f"{n_files} files of {name} wait to be retracted; `peewit ingest {name}` does it"
        yield information(text)


def _damage(connection: Connection) -> list[str]:
    """Damage that SQLite reports for its file."""
    try:
        rows = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
    except DatabaseError as error:  # too damaged to be checked
        return [str(error.orig)]
    return [row for row in rows if row != "ok"]


def _requeue(patient: Patient) -> str:
    with patient.database.write() as connection:
        n_jobs = requeue_running(connection, reason="its worker was gone", only_lapsed=True)
    return f"{n_jobs} such jobs wait again" if n_jobs else "it waits again"


def _free(patient: Patient, row: Row[Any]) -> str:
    mine = (leases.c.name == row.name) & (leases.c.token == row.token)
    with patient.database.write() as connection:
        connection.execute(leases.update().where(mine).values(expires_at=now()))
    return "given free"
