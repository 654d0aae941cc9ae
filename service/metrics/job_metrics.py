"""Prometheus metrics of jobs, workers and leases, as the database has them.

Jobs that ended long ago are removed, so the number of ended jobs is a gauge; workers count their
attempts themselves, see `peewit.service.worker.worker_metrics`. Kinds, lanes and statuses are few,
and so are the series.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from peewit.service.database.engine import Database
from peewit.service.database.tables import jobs, leases
from peewit.service.database.timestamps import now
from peewit.service.jobs.job import LANES, JobStatus
from peewit.service.jobs.worker_registry import WorkerRegistry

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


class JobCollector(Collector):
    """Metrics of all jobs, read from the database at each scrape.

    ``kinds`` of job have a series even without jobs.
    """

    def __init__(self, database: Database, kinds: Collection[str]) -> None:
        self._database = database
        self._kinds = tuple(kinds)
        self._workers = WorkerRegistry(database)

    def describe(self) -> Iterable[Metric]:
        """The metrics without numbers: the database is not asked before a scrape."""
        return _families(_Figures())

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment."""
        return _families(self._figures())

    def _figures(self) -> _Figures:
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
        figures = _Figures(n_jobs=Counter(dict.fromkeys(product(_WAITING, self._kinds, LANES), 0)))
        with self._database.read() as connection:
            for row in connection.execute(counted):
                figures.n_jobs[row.status, row.kind, row.lane] = row.n_jobs
            figures.n_retries = int(connection.execute(again).scalar() or 0)
            for row in connection.execute(oldest):
                figures.oldest_seconds[row.lane] = max(0.0, (row.at - row.since).total_seconds())
            figures.n_leases.update(
                name.partition(":")[0] for name in connection.execute(held).scalars()
            )
        for worker in self._workers.alive():
            figures.n_workers.update(worker.lanes or (INGEST,))
        return figures


def _families(figures: _Figures) -> Sequence[Metric]:
    known = "Jobs that the database remembers, finished ones for 30 days."
    oldest = "Age of the oldest job that waits."
    again = "Attempts after the first at the jobs that are remembered."
    alive = "Processes with a fresh heartbeat, by role."
    held = "Leases that have not run out, by what they are for."
    return [
        _gauge("peewit_jobs", known, ["status", "kind", "lane"], figures.n_jobs),
        _gauge("peewit_oldest_queued_job_seconds", oldest, ["lane"], figures.oldest_seconds),
        _gauge("peewit_job_retries", again, [], {(): figures.n_retries}),
        _gauge("peewit_workers_alive", alive, ["role"], figures.n_workers),
        _gauge("peewit_leases_held", held, ["for"], figures.n_leases),
    ]


def _gauge(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for each, value in values.items():
        family.add_metric([each] if isinstance(each, str) else list(each), value)
    return family
