"""The newest snapshot of a graph, which jobs work on."""

from peewit.service.catalog import GraphRecord
from peewit.streaming.problems import Conflict


class NoSnapshot(Conflict, ValueError):
    """The graph has no snapshot to solve on yet."""

    title = "No snapshot yet"


def newest_snapshot(graph: GraphRecord) -> int:
    """Number of the newest snapshot; raises `NoSnapshot` if there is none yet."""
    if graph.progress.snapshot is None:
        raise NoSnapshot(f"graph {graph.settings.name} has no snapshot yet; ingest edges first")
    return graph.progress.snapshot
