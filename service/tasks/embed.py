"""Embed jobs: how a child runs them. They have no parameters."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from time import monotonic

from peewit.service.tasks.messages import Advanced, Embedded, EmbedTask, Stopped
from peewit.streaming.passes.embedding import EmbeddingStopped, embed
from peewit.streaming.snapshots.store import GraphPaths


def embed_task(
    task: EmbedTask,
    *,
    report: Callable[[Advanced], None],
    cancelled: Callable[[], bool],
) -> Embedded | Stopped:
    """`Embedded` once the embedding is on the disk, or `Stopped`.

    Raises
    ------
    OSError, MemoryError, LookupError
        Files that could not be read or written.
    """
    began = monotonic()
    with ThreadPoolExecutor(task.n_threads, thread_name_prefix="embed") as pool:
        try:
            meta = embed(
                GraphPaths(root=task.graph_directory),
                task.snapshot,
                on_phase=lambda phase: report(Advanced(phase=phase, stage=phase)),
                cancelled=cancelled,
                parallel=pool.map,
            )
        except EmbeddingStopped:
            return Stopped()
    return Embedded(result={**asdict(meta), "seconds": round(monotonic() - began, 3)})
