"""The stores that kinds of job work on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from peewit.service.catalog import GraphRecord
from peewit.service.database.engine import Database
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.job import Job
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.store import PredictionStore
from peewit.service.settings import Settings
from peewit.service.tasks.estimate import Estimator


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStores:
    """The stores of one database and one home."""

    database: Database
    settings: Settings
    queue: JobQueue
    labels: LabelStore
    manifest: Manifest
    predictions: PredictionStore
    estimator: Estimator

    @classmethod
    def create(cls, database: Database, settings: Settings) -> Self:
        """The stores of a database, with the home and the memory that the settings name."""
        queue, labels = JobQueue(database), LabelStore(database)
        return cls(
            database=database,
            settings=settings,
            queue=queue,
            labels=labels,
            manifest=Manifest(database),
            predictions=PredictionStore(database, settings.graphs_directory),
            estimator=Estimator(
                jobs=queue,
                labels=labels,
                graphs_directory=settings.graphs_directory,
                memory_bytes=settings.child_memory_bytes,
            ),
        )

    def directory(self, graph_id: str) -> Path:
        """Where a graph keeps its files."""
        return self.settings.graphs_directory / graph_id

    def capture(
        self, job: Job, graph: GraphRecord, snapshot: int, *, labels_seq: int | None = None
    ) -> None:
        """Store what an attempt works on; ingest keeps the snapshots of running jobs."""
        self.queue.capture(
            job.id,
            job.attempt,
            snapshot=snapshot,
            labels_seq=graph.labels_seq if labels_seq is None else labels_seq,
            features_version=graph.features_version,
        )
