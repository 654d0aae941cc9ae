"""Prometheus metrics of jobs, workers and leases, as the database has them.

Jobs that ended long ago are removed, so the number of ended jobs is a gauge; workers count their
attempts themselves, see `peewit.service.worker.worker_metrics`. Kinds, lanes and statuses are few,
and so are the series.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from operator import attrgetter
from typing import Final

from sqlalchemy import func, select

from peewit.service.database.engine import Database
from peewit.service.database.tables import jobs, leases
from peewit.service.database.timestamps import now
from peewit.service.jobs.job import LANES, JobStatus
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.metrics.metric_rows import MetricRow, RowCollector

INGEST: Final = "ingest"
"""Role of a process that runs no jobs but shows that it is alive."""

_WAITING: Final = (JobStatus.QUEUED, JobStatus.RUNNING)


@dataclass(slots=True, kw_only=True)
class _Figures:
    """Figures of the database at one moment; zero where it has none."""

    n_jobs: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    n_retries: int = 0
    oldest_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(LANES, 0.0))
    n_workers: Counter[str] = field(
        default_factory=lambda: Counter(dict.fromkeys((*LANES, INGEST), 0))
    )
    n_leases: Counter[str] = field(default_factory=Counter)


def job_collector(database: Database, kinds: Collection[str]) -> RowCollector[_Figures]:
    """Metrics of all jobs; ``kinds`` of job have a series even without jobs."""
    return RowCollector(_ROWS, partial(_read, database, kinds))


def _read(database: Database, kinds: Collection[str]) -> _Figures:
    counted = select(
        jobs.c.status, jobs.c.kind, jobs.c.lane, func.count().label("n_jobs")
    ).group_by(jobs.c.status, jobs.c.kind, jobs.c.lane)
    again = select(func.sum(jobs.c.attempt - 1)).where(jobs.c.attempt > 1)
    oldest = (
        select(jobs.c.lane, func.min(jobs.c.created_at).label("since"), now().label("at"))
        .where(jobs.c.status == JobStatus.QUEUED)
        .group_by(jobs.c.lane)
    )
    held = select(leases.c.name).where(leases.c.expires_at > now())
    figures = _Figures(n_jobs=Counter(dict.fromkeys(product(_WAITING, kinds, LANES), 0)))
    with database.read() as connection:
        for row in connection.execute(counted):
            figures.n_jobs[row.status, row.kind, row.lane] = row.n_jobs
        figures.n_retries = int(connection.execute(again).scalar() or 0)
        for row in connection.execute(oldest):
            figures.oldest_seconds[row.lane] = max(0.0, (row.at - row.since).total_seconds())
        figures.n_leases.update(
            name.partition(":")[0] for name in connection.execute(held).scalars()
        )
    for worker in WorkerRegistry(database).alive():
        figures.n_workers.update(worker.lanes or (INGEST,))
    return figures


_ROWS: Final[tuple[MetricRow[_Figures], ...]] = (
    MetricRow(
        "peewit_jobs",
        "Jobs that the database remembers, finished ones for 30 days.",
        ("status", "kind", "lane"),
        attrgetter("n_jobs"),
    ),
    MetricRow(
        "peewit_oldest_queued_job_seconds",
        "Age of the oldest job that waits.",
        ("lane",),
        attrgetter("oldest_seconds"),
    ),
    MetricRow(
        "peewit_job_retries",
        "Attempts after the first at the jobs that are remembered.",
        (),
        lambda figures: {(): figures.n_retries},
    ),
    MetricRow(
        "peewit_workers_alive",
        "Processes with a fresh heartbeat, by role.",
        ("role",),
        attrgetter("n_workers"),
    ),
    MetricRow(
        "peewit_leases_held",
        "Leases that have not run out, by what they are for.",
        ("for",),
        attrgetter("n_leases"),
    ),
)
