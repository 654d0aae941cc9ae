"""Certify jobs: their parameters, and how a child runs them."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.jobs.job import Job, JobSpec
from peewit.service.tasks.job_kind import GraphKind, Options, TaskContext, capture_inputs
from peewit.service.tasks.newest_snapshot import newest_snapshot
from peewit.service.tasks.progress import Reporter
from peewit.service.tasks.tasks_and_messages import Done, Task, TaskStopped
from peewit.solvers.arguments import BadArgument
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.certificate_store import CertifySettings
from peewit.streaming.passes.certify import certify
from peewit.streaming.passes.edge_passes import PassStopped, RawEdgesGone
from peewit.streaming.passes.raw_edge_passes import require_raw_edges
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyOptions(CertifySettings):
    """Snapshot to certify (None for the newest) and effort; raises ValueError for bad values."""

    snapshot: int | None = None

    def __post_init__(self) -> None:
        snapshot = self.snapshot
        if snapshot is not None and (isinstance(snapshot, bool) or not isinstance(snapshot, int)):
            raise BadArgument("snapshot", f"must be an integer, got {snapshot!r}")
        if snapshot is not None and snapshot < 1:
            raise BadArgument("snapshot", f"must be at least 1, got {snapshot}")
        CertifySettings.__post_init__(self)  # a class with slots has no super() of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyTask(Task):
    """Measure one snapshot against its raw edges; fields as of `LabelsTask`."""

    kind: ClassVar[str] = "certify"

    snapshot: int
    parameters: Mapping[str, Any]
    keep_raw: bool
    n_threads: int
    scheduler: str | None


class CertifyKind(GraphKind[CertifyTask, CertifyOptions]):
    """A job that measures the spectral error of a snapshot against its raw edges."""

    name = "certify"
    options = Options(
        doc="What to certify, and how hard to try",
        settings=CertifyOptions,
        docs={
            "snapshot": "Number; the newest when left out.",
            "passes": "Most passes over the raw edges.",
            "n_vectors": "Vectors of one pass.",
            "gap": "How far above the least possible epsilon is close enough.",
            "probability": "Chance that the outer bounds hold.",
            "seed": "Draws the start.",
        },
    )

    def admit(self, spec: JobSpec, graph: GraphRecord, home: Home) -> None:
        """Raise `RawEdgesMovedOn` for a snapshot whose raw edges are no longer known."""
        number = self.read(spec.parameters).snapshot or graph.progress.snapshot
        paths = GraphPaths(root=home.directory(graph.id))
        with suppress(SnapshotNotFound):  # the job says so
            if number is not None:
                require_raw_edges(paths, SnapshotStore(paths.snapshots).meta(number))

    def capture(self, job: Job, graph: GraphRecord, home: Home) -> CertifyTask:
        """Task for the named snapshot, or the newest."""
        number = self.read(job.parameters).snapshot
        snapshot = newest_snapshot(graph) if number is None else number
        capture_inputs(
            home, job, graph, snapshot
        )  # first of all, so that ingest keeps the snapshot
        directory = home.directory(job.graph_id)
        numbers = SnapshotStore(GraphPaths(root=directory).snapshots).numbers()
        # a newest one that is gone is taken anew
        if number is not None and snapshot not in numbers:
            raise ValueError(
                f"snapshot must be one that graph {graph.settings.name} keeps, got {snapshot}; "
                f"it keeps {', '.join(map(str, numbers)) or 'none'}"
            )
        return CertifyTask(
            job_id=job.id,
            attempt=job.attempt,
            graph_id=job.graph_id,
            graph_directory=directory,
            snapshot=snapshot,
            parameters=job.parameters,
            keep_raw=graph.settings.keep_raw,
            n_threads=home.settings.n_threads,
            scheduler=home.settings.scheduler,
        )

    def run(self, task: CertifyTask, context: TaskContext) -> Done | TaskStopped:
        """`Done` once the certificate is on the disk, or `TaskStopped`.

        Raises ValueError if raw edges are missing or changed or a parameter is wrong, and OSError,
        MemoryError, LookupError or RuntimeError if files cannot be read or written.
        """
        try:
            certificate = certify(
                GraphPaths(root=task.graph_directory),
                task.snapshot,
                self.read(task.parameters),
                keep_raw=task.keep_raw,
                owner=task.job_id,
                n_threads=task.n_threads,
                scheduler=task.scheduler,
                progress=Reporter(context.report),
                cancelled=context.cancelled,
            )
        except PassStopped:
            return TaskStopped()
        except RawEdgesGone as error:
            raise with_remedy(error, keep_raw=task.keep_raw) from error
        return Done(result={**asdict(certificate), "message": certificate.message})


def with_remedy(error: RawEdgesGone, *, keep_raw: bool) -> ValueError:
    """The error as a ValueError that names the setting which would have kept the edges."""
    return ValueError(str(error) if keep_raw else f"{error}; pushed edges stay only with keep_raw")
