"""Prometheus metrics of one worker since its start: attempts, solves, solving processes."""

import os
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

from peewit.service.database.engine import Database
from peewit.service.jobs.job import Job, Lane
from peewit.service.metrics.process_tree_metrics import process_tree_collector
from peewit.service.metrics.store_metrics import store_registry
from peewit.service.settings import Settings
from peewit.service.tasks.kind_list import KINDS

Outcome = Literal["succeeded", "failed", "cancelled", "retried", "released", "lost"]
"""End of an attempt: the first three are final; after the next two its job waits again."""

_SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)


class WorkerMetrics:
    """Metrics of one worker and its solving processes; ``registry`` also has those of the home."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.registry: CollectorRegistry = store_registry(database, settings, KINDS)
        self.registry.register(process_tree_collector(os.getpid()))
        self._attempts = Counter(
            "peewit_attempts",
            "Attempts at jobs that ended in this worker, by how.",
            ["kind", "lane", "outcome"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "peewit_attempt_seconds",
            "Seconds of an attempt, from its claim to its last write.",
            ["kind", "lane"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._solves = Counter(
            "peewit_solves",
            "Solves and searches that were done, by whether the graph was prepared already.",
            ["kind", "start"],
            registry=self.registry,
        )
        self._starts = Counter(
            "peewit_child_starts",
            "Starts of solving processes; each after the first of a lane replaces one that died.",
            ["lane"],
            registry=self.registry,
        )

    def note_attempt(self, job: Job, outcome: Outcome, seconds: float) -> None:
        """Count an attempt that has ended."""
        self._attempts.labels(job.kind, job.lane, outcome).inc()
        self._seconds.labels(job.kind, job.lane).observe(seconds)

    def note_solve(self, job: Job, *, is_warm: bool) -> None:
        """Count a solve that has a result."""
        self._solves.labels(job.kind, "warm" if is_warm else "cold").inc()

    def note_start(self, lane: Lane) -> None:
        """Count the start of a solving process."""
        self._starts.labels(lane).inc()
