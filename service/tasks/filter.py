"""Filter jobs: their parameters, and how a child runs them.

Each leaves one file of smoothed features; `peewit.service.graphs.filtered_feature_files` finds,
reads and retires it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.filtered_feature_files import KIND, FilteredFeatureFiles, file_name
from peewit.service.home import Home
from peewit.service.jobs.job import Job, JobSpec
from peewit.service.tasks.job_kind import GraphKind, Options, TaskContext, capture_inputs
from peewit.service.tasks.knn import require_features
from peewit.service.tasks.newest_snapshot import newest_snapshot
from peewit.service.tasks.progress import StageTimer, StoppedEarly
from peewit.service.tasks.tasks_and_messages import Done, Task, TaskStopped
from peewit.solvers.arguments import BadArgument
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.streaming.durable_files import fsync_directory, fsync_file
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore

_MAX_BYTES: Final = 1 << 30
_MEMORY_SHARE: Final = 4
"""Columns held at once may take this part (1 / 4) of a child's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterSettings:
    """Smoothing of features; raises ValueError for a bad value.

    ``teleport`` is as in `peewit.solvers.estimators.feature_filter.filter_features`.
    """

    teleport: float = 0.1

    def __post_init__(self) -> None:
        teleport = self.teleport
        if isinstance(teleport, bool) or not isinstance(teleport, int | float):
            raise BadArgument("teleport", f"must be a number, got {teleport!r}")
        if not 0.0 < teleport <= 1.0:
            raise BadArgument("teleport", f"must lie in (0, 1], got {teleport}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterTask(Task):
    """Smooth the features of a snapshot's nodes; fields as of `LabelsTask`."""

    kind: ClassVar[str] = KIND

    snapshot: int
    features_version: int
    parameters: Mapping[str, Any]
    max_bytes: int  # of the columns that are held at once


class FilterKind(GraphKind[FilterTask, FilterSettings]):
    """A job that smooths features along the edges of the newest snapshot, for download."""

    name = KIND
    options = Options(
        doc="How far to smooth",
        settings=FilterSettings,
        docs={"teleport": "Part of the result that is a node's own, in (0, 1]; less is farther."},
    )

    def admit(self, spec: JobSpec, graph: GraphRecord, home: Home) -> None:
        """Raise `NoSnapshot` or `NoFeatures` for a graph that lacks edges or features."""
        del spec, home
        newest_snapshot(graph)
        require_features(graph)

    def capture(self, job: Job, graph: GraphRecord, home: Home) -> FilterTask:
        """Task for the newest snapshot and the present features."""
        snapshot = newest_snapshot(graph)
        require_features(graph)
        capture_inputs(home, job, graph, snapshot)
        return FilterTask(
            job_id=job.id,
            attempt=job.attempt,
            graph_id=job.graph_id,
            graph_directory=home.directory(job.graph_id),
            snapshot=snapshot,
            features_version=graph.features_version,
            parameters=job.parameters,
            max_bytes=min(_MAX_BYTES, home.settings.child_memory_bytes // _MEMORY_SHARE),
        )

    def run(self, task: FilterTask, context: TaskContext) -> Done | TaskStopped:
        """`Done` once the file is on the disk, or `TaskStopped`.

        Raises ValueError for a wrong parameter, `FeaturesNotFound` if newer features replaced those
        of the task, and OSError, MemoryError or LookupError if files cannot be read or written.
        """
        stages = StageTimer(context.report, context.cancelled)
        try:
            with context.graphs.within_memory():
                return Done(result=self._filtered(task, stages, context))
        except (StoppedEarly, RunStopped):
            return TaskStopped()

    def sweep(self, graph_id: str, home: Home) -> None:
        """Remove files that later ones replaced, and those of failed attempts."""
        files_of(home).clean(graph_id)

    def _filtered(
        self, task: FilterTask, stages: StageTimer, context: TaskContext
    ) -> dict[str, Any]:
        # with scikit-learn, which only this kind of job needs
        from peewit.solvers.estimators.feature_filter import filter_features  # noqa: PLC0415

        paths = GraphPaths(root=task.graph_directory)
        directory = paths.filtered_features
        path = directory / file_name(task.job_id, task.attempt)
        with stages.stage("loading"):
            snapshot = SnapshotStore(paths.snapshots).load(task.snapshot)
            store = FeatureStore(paths.features)
            rows = store.load(task.features_version, snapshot.meta.n_nodes)
            directory.mkdir(exist_ok=True)
            for left in directory.glob(f"*{task.job_id}-*"):
                left.unlink()  # of an attempt that died
        with stages.stage("filtering"):
            n_nodes, n_columns = filter_features(
                snapshot.graph,
                rows,
                path,
                teleport=self.read(task.parameters).teleport,
                max_bytes=task.max_bytes,
                watch=Watch(progress=stages.iteration, cancelled=context.cancelled),
            ).shape
        with stages.stage("writing"):
            fsync_file(path)
            fsync_directory(directory)
        return {
            "file": path.name,
            "snapshot": task.snapshot,
            "features_version": task.features_version,
            "n_nodes": n_nodes,
            "n_features": n_columns,
            "seconds": stages.seconds,
        }


def files_of(home: Home) -> FilteredFeatureFiles:
    """Store of the files that filter jobs leave."""
    return FilteredFeatureFiles(jobs=home.jobs, graphs_directory=home.settings.graphs_directory)
