"""What kinds of job share that work on the newest snapshot and have no parameters."""

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.jobs.job import Job
from peewit.service.tasks.job_kind import GraphKind, Options, capture_inputs
from peewit.service.tasks.newest_snapshot import newest_snapshot
from peewit.service.tasks.tasks_and_messages import Task


@dataclass(frozen=True, slots=True)
class NoOptions:
    """No parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTask(Task):
    """Work on a snapshot; fields as of `LabelsTask`."""

    snapshot: int
    n_threads: int


SnapshotTaskT = TypeVar("SnapshotTaskT", bound=SnapshotTask)


class SnapshotKind(GraphKind[SnapshotTaskT, NoOptions], Generic[SnapshotTaskT]):
    """A kind of job on the newest snapshot alone."""

    task: type[SnapshotTaskT]
    options: ClassVar[Options[NoOptions]] = Options(doc="Nothing", settings=NoOptions, docs={})

    def capture(self, job: Job, graph: GraphRecord, home: Home) -> SnapshotTaskT:
        """Task for the newest snapshot."""
        snapshot = newest_snapshot(graph)
        capture_inputs(home, job, graph, snapshot)
        return self.task(
            job_id=job.id,
            attempt=job.attempt,
            graph_id=job.graph_id,
            graph_directory=home.directory(job.graph_id),
            snapshot=snapshot,
            n_threads=home.settings.n_threads,
        )
