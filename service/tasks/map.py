"""Map jobs: how a child runs them. They have no parameters.

They leave one map of the graph, which `peewit.streaming.passes.node_map` keeps and replaces whole.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from time import time
from typing import ClassVar

from peewit.service.catalog import GraphRecord
from peewit.service.jobs.job import Job, JobSpec
from peewit.service.tasks.estimate import newest_snapshot
from peewit.service.tasks.job_kind import Child, GraphKind, Options
from peewit.service.tasks.progress import Phases, StoppedEarly
from peewit.service.tasks.stores import JobStores
from peewit.service.tasks.tasks_and_messages import Done, Stopped, Task
from peewit.solvers.iteration_loop import Stopped as IterationStopped
from peewit.solvers.iteration_loop import Watch
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_map import MapStore, drawn, map_of
from peewit.streaming.snapshots.store import SnapshotStore


@dataclass(frozen=True, slots=True)
class MapOptions:
    """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTask(Task):
    """Draw the nodes of a snapshot; fields as of `LabelsTask`."""

    kind: ClassVar[str] = "map"

    snapshot: int
    n_threads: int


class MapKind(GraphKind[MapTask, MapOptions]):
    """A job that draws a map of the newest snapshot, which stays until the next one."""

    name = "map"
    options = Options(doc="Nothing", settings=MapOptions, docs={})

    def admit(self, spec: JobSpec, graph: GraphRecord, stores: JobStores) -> None:
        """Raise `NoSnapshot` for a graph without edges."""
        del spec, stores
        newest_snapshot(graph)

    def capture(self, job: Job, graph: GraphRecord, stores: JobStores) -> MapTask:
        """The newest snapshot."""
        snapshot = newest_snapshot(graph)
        stores.capture(job, graph, snapshot)
        return MapTask(
            job_id=job.id,
            attempt=job.attempt,
            graph_id=job.graph_id,
            graph_directory=stores.directory(job.graph_id),
            snapshot=snapshot,
            n_threads=stores.settings.n_threads,
        )

    def run(self, task: MapTask, child: Child) -> Done | Stopped:
        """`Done` once the map is on the disk, or `Stopped`.

        Raises
        ------
        OSError, MemoryError, LookupError
            Files that could not be read or written.
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
                    points = drawn(snapshot, watch=watch, parallel=pool.map)
                with phases.phase("writing"):
                    found = map_of(points, snapshot, made_at=time())
                    MapStore(paths).publish(found)
        except (StoppedEarly, IterationStopped):
            return Stopped()
        return Done(result={**asdict(found.meta), "seconds": phases.seconds})
