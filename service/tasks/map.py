"""Map jobs, which have no parameters: how a child runs them.

A graph has one map, which `peewit.streaming.passes.node_map` keeps and replaces whole.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from time import time
from typing import ClassVar

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.jobs.job import JobSpec
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.newest_snapshot import newest_snapshot
from peewit.service.tasks.progress import StageTimer, StoppedEarly
from peewit.service.tasks.snapshot_task import SnapshotKind, SnapshotTask
from peewit.service.tasks.tasks_and_messages import Done, TaskStopped
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_map import MapStore, map_of, snapshot_layout
from peewit.streaming.snapshots.store import SnapshotStore


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTask(SnapshotTask):
    """Draw the nodes of a snapshot; fields as of `SnapshotTask`."""

    kind: ClassVar[str] = "map"


class MapKind(SnapshotKind[MapTask]):
    """A job that draws a map of the newest snapshot, which stays until the next one."""

    name = "map"
    task = MapTask

    def admit(self, spec: JobSpec, graph: GraphRecord, home: Home) -> None:
        """Raise `NoSnapshot` for a graph without edges."""
        del spec, home
        newest_snapshot(graph)

    def run(self, task: MapTask, context: TaskContext) -> Done | TaskStopped:
        """`Done` once the map is on the disk, or `TaskStopped`.

        Raises OSError, MemoryError or LookupError if files cannot be read or written.
        """
        stages = StageTimer(context.report, context.cancelled)
        paths = GraphPaths(root=task.graph_directory)
        watch = Watch(progress=stages.iteration, cancelled=context.cancelled)
        try:
            with context.graphs.within_memory():
                with stages.stage("loading"):
                    snapshot = SnapshotStore(paths.snapshots).load(task.snapshot)
                with (
                    stages.stage("drawing"),
                    ThreadPoolExecutor(task.n_threads, thread_name_prefix="map") as pool,
                ):
                    points = snapshot_layout(snapshot, watch=watch, parallel=pool.map)
                with stages.stage("writing"):
                    drawn = map_of(points, snapshot, made_at=time())
                    MapStore(paths).publish(drawn)
        except (StoppedEarly, RunStopped):
            return TaskStopped()
        return Done(result={**asdict(drawn.meta), "seconds": stages.seconds})
