"""Files below the graphs that rows name and that somebody will read."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, or_, select

from peewit.service.database.tables import feature_sets, files, graphs, pushes

GRAPHS = "graphs"
"""Name of the directory with the graphs' directories."""


class NeededFile(NamedTuple):
    """A file of a graph, by its path below the graph's directory."""

    graph_id: str
    path: str


def needed_files(connection: Connection, *, with_raw: bool = False) -> Iterator[NeededFile]:
    """Pushes, gathered pushes and sets of features that wait, of all graphs.

    Parameters
    ----------
    connection : Connection
        Reads.
    with_raw : bool
        Also pushed edges that are in the graph, where they are to be kept.
    """
    waiting = files.c.status == "pending"
    if with_raw:
        is_kept = graphs.c.keep_raw & (files.c.status == "committed")
        waiting = or_(waiting, is_kept & files.c.push_id.is_not(None))
    statements = [
        select(pushes.c.graph_id, pushes.c.path).where(
            pushes.c.file_id.is_(None), pushes.c.path != ""
        ),
        select(files.c.graph_id, files.c.path)
        .join(graphs, graphs.c.id == files.c.graph_id)
        .where(waiting),
        select(feature_sets.c.graph_id, feature_sets.c.path).where(
            feature_sets.c.status == "pending"
        ),
    ]
    for statement in statements:
        for graph_id, path in connection.execute(statement):
            below = path_below(path, graph_id)
            if below is not None:
                yield NeededFile(graph_id, below)


def path_below(path: str, graph_id: str) -> str | None:
    """A path relative to the directory of its graph, None for one that lies elsewhere.

    The home may have had another name when the path was stored.
    """
    _, is_below, rest = path.partition(f"/{GRAPHS}/{graph_id}/")
    return rest if is_below else None


def relocated(path: str, graph_id: str, root: Path) -> str:
    """A path as it is where the directory of its graph is ``root``; one elsewhere stays."""
    below = path_below(path, graph_id)
    return path if below is None else str(root / below)
