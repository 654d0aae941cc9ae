"""Embed jobs: how a child runs them. They have no parameters."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from time import monotonic
from typing import ClassVar, Final

from peewit.service.catalog import GraphRecord
from peewit.service.jobs.job import Job
from peewit.service.tasks.estimate import newest_snapshot
from peewit.service.tasks.job_kind import Child, GraphKind, Options
from peewit.service.tasks.progress import Reporter
from peewit.service.tasks.stores import JobStores
from peewit.service.tasks.tasks_and_messages import Advanced, Done, Stopped, Task
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import EmbeddingStopped, embed

_STAGES: Final = {"embedding": "solving"}
"""What forecasts call it that the equations are solved."""


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedTask(Task):
    """Find where the nodes of a snapshot lie; fields as of `LabelsTask`."""

    kind: ClassVar[str] = "embed"

    snapshot: int
    n_threads: int


class EmbedKind(GraphKind[EmbedTask, EmbedOptions]):
    """A job that finds where the nodes of the newest snapshot lie, for suggestions."""

    name = "embed"
    options = Options(doc="Nothing", settings=EmbedOptions, docs={})

    def capture(self, job: Job, graph: GraphRecord, stores: JobStores) -> EmbedTask:
        """The newest snapshot."""
        snapshot = newest_snapshot(graph)
        stores.capture(job, graph, snapshot)
        return EmbedTask(
            job_id=job.id,
            attempt=job.attempt,
            graph_id=job.graph_id,
            graph_directory=stores.directory(job.graph_id),
            snapshot=snapshot,
            n_threads=stores.settings.n_threads,
        )

    def run(self, task: EmbedTask, child: Child) -> Done | Stopped:
        """`Done` once the embedding is on the disk, or `Stopped`.

        Raises
        ------
        OSError, MemoryError, LookupError
            Files that could not be read or written.
        """
        began = monotonic()
        solving = Reporter(child.report)
        solving.stage = _STAGES["embedding"]
        with ThreadPoolExecutor(task.n_threads, thread_name_prefix="embed") as pool:
            try:
                meta = embed(
                    GraphPaths(root=task.graph_directory),
                    task.snapshot,
                    on_phase=lambda phase: child.report(
                        Advanced(phase=phase, stage=_STAGES.get(phase, phase))
                    ),
                    cancelled=child.cancelled,
                    progress=solving,
                    parallel=pool.map,
                )
            except EmbeddingStopped:
                return Stopped()
        return Done(result={**asdict(meta), "seconds": round(monotonic() - began, 3)})
