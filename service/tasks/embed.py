"""Embed jobs, which have no parameters: how a child runs them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from time import monotonic
from typing import ClassVar, Final

from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.progress import Reporter
from peewit.service.tasks.snapshot_task import SnapshotKind, SnapshotTask
from peewit.service.tasks.tasks_and_messages import Advanced, Done, TaskStopped
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import EmbeddingStopped, embed

_STAGES: Final = {"embedding": "solving"}
"""Names of stages in forecasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedTask(SnapshotTask):
    """Find where the nodes of a snapshot lie; fields as of `SnapshotTask`."""

    kind: ClassVar[str] = "embed"


class EmbedKind(SnapshotKind[EmbedTask]):
    """A job that finds where the nodes of the newest snapshot lie, for suggestions."""

    name = "embed"
    task = EmbedTask

    def run(self, task: EmbedTask, context: TaskContext) -> Done | TaskStopped:
        """`Done` once the embedding is on the disk, or `TaskStopped`.

        Raises OSError, MemoryError or LookupError if files cannot be read or written.
        """
        began = monotonic()
        solving = Reporter(context.report)
        solving.turn_to(stage=_STAGES["embedding"])
        with ThreadPoolExecutor(task.n_threads, thread_name_prefix="embed") as pool:
            try:
                meta = embed(
                    GraphPaths(root=task.graph_directory),
                    task.snapshot,
                    on_phase=lambda phase: context.report(
                        Advanced(phase=phase, stage=_STAGES.get(phase, phase))
                    ),
                    cancelled=context.cancelled,
                    progress=solving,
                    parallel=pool.map,
                )
            except EmbeddingStopped:
                return TaskStopped()
        return Done(result={**asdict(meta), "seconds": round(monotonic() - began, 3)})
