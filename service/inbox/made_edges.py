"""Edges made from features: only the last of a graph's files of them counts."""

from pathlib import Path

from peewit.service.inbox.needed_files import path_below
from peewit.streaming.graph_paths import GraphPaths


def is_made(path: str, graph_id: str) -> bool:
    """Whether a file of a graph holds edges that were made from features."""
    below = path_below(path, graph_id)
    return below is not None and Path(below).parent == GraphPaths(root=Path()).knn
