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
from peewit.service.tasks.job_kind import Child
from peewit.service.tasks.progress import Phases, StoppedEarly
from peewit.service.tasks.snapshot_task import SnapshotKind, SnapshotTask
from peewit.service.tasks.solving.estimate import newest_snapshot
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

    def run(self, task: MapTask, child: Child) -> Done | TaskStopped:
        """`Done` once the map is on the disk, or `TaskStopped`.

        Raises OSError, MemoryError or LookupError if files cannot be read or written.
        """
        phases = Phases(child.report, child.cancelled)
        paths = GraphPaths(root=task.graph_directory)
        watch = Watch(progress=phases.iteration, cancelled=child.cancelled)
        try:
            with child.graphs.within_memory():
                with phases.phase("loading"):
                    snapshot = SnapshotStore(paths.snapshots).load(task.snapshot)
                with (
                    phases.phase("drawing"),
                    ThreadPoolExecutor(task.n_threads, thread_name_prefix="map") as pool,
                ):
                    points = snapshot_layout(snapshot, watch=watch, parallel=pool.map)
                with phases.phase("writing"):
                    drawn = map_of(points, snapshot, made_at=time())
                    MapStore(paths).publish(drawn)
        except (StoppedEarly, RunStopped):
            return TaskStopped()
        return Done(result={**asdict(drawn.meta), "seconds": phases.seconds})
