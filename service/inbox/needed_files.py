"""Files in the graphs' directories that rows name and somebody will read."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, exists, or_, select, true

from peewit.service.database.engine import Database
from peewit.service.database.tables import feature_sets, files, graphs, pushes, sources
from peewit.service.live_sources.kinds import FILES
from peewit.streaming.graph_paths import GraphPaths

GRAPHS = "graphs"
"""Name of the directory of the graphs' directories."""


class NeededFile(NamedTuple):
    """A file of a graph, by its path below the graph's directory."""

    graph_id: str
    path: str


def needed_files(
    connection: Connection,
    graph_id: str | None = None,
    *,
    with_raw: bool = False,
    with_retries: bool = False,
) -> Iterator[NeededFile]:
    """Waiting pushes (gathered or not), chunks of live sources and features, of one graph or all.

    ``with_raw`` adds pushed edges that are in the graph, where they are to be kept.
    ``with_retries`` adds what is read when gathered pushes are taken apart or files offered again.
    """
    is_ours = or_(files.c.push_id.is_not(None), is_chunk())
    is_ungathered: ColumnElement[bool] = pushes.c.file_id.is_(None)
    waiting: ColumnElement[bool] = files.c.status == "pending"
    if with_retries:
        may_part = exists().where(files.c.id == pushes.c.file_id, waiting)
        is_ungathered = or_(is_ungathered, may_part)
        waiting = or_(waiting, is_ours & (files.c.status != "committed"))
    if with_raw:
        is_kept = graphs.c.keep_raw & (files.c.status == "committed")
        waiting = or_(waiting, is_kept & is_ours)
    statements = [
        select(pushes.c.graph_id, pushes.c.path).where(is_ungathered, pushes.c.path != ""),
        select(files.c.graph_id, files.c.path)
        .join(graphs, graphs.c.id == files.c.graph_id)
        .where(waiting),
        select(feature_sets.c.graph_id, feature_sets.c.path).where(
            feature_sets.c.status == "pending"
        ),
    ]
    for statement in statements:
        is_mine = true() if graph_id is None else statement.selected_columns.graph_id == graph_id
        for owner, path in connection.execute(statement.where(is_mine)):
            below = path_below(path, owner)
            if below is not None:
                yield NeededFile(owner, below)


def is_chunk() -> ColumnElement[bool]:
    """The condition that a file is one of ours, with edges of a live source."""
    return exists().where(sources.c.id == files.c.source_id, sources.c.kind != FILES)


def remove_unneeded(
    database: Database, graph_id: str, directory: Path, *, older_than_seconds: float
) -> None:
    """Remove pushes and sets of a graph that nobody will read, from its directory.

    These are files that nothing names, as a process killed at the wrong line leaves them; files
    whose edges were copied into a file that has ended; and, unless raw edges are kept, files that
    are in the graph.
    """
    paths = GraphPaths(root=directory)
    before = time.time() - older_than_seconds
    old = [
        path
        for folder in (paths.pushes, paths.feature_sets)
        if folder.exists()
        for path in folder.iterdir()
        if path.stat().st_mtime < before
    ]
    if not old:
        return
    with database.read() as connection:
        rows = needed_files(connection, graph_id, with_raw=True, with_retries=True)
        needed = {directory / file.path for file in rows}
    for path in old:
        if path not in needed:
            path.unlink(missing_ok=True)


def path_below(path: str, graph_id: str) -> str | None:
    """A path relative to the directory of its graph; None for one that lies elsewhere.

    The home may have had another name when the path was stored.
    """
    _, is_below, rest = path.partition(f"/{GRAPHS}/{graph_id}/")
    return rest if is_below else None


def is_in_inbox(path: str, graph_id: str) -> bool:
    """Whether a file of a graph is a block of pushes or a chunk of a live source."""
    below = path_below(path, graph_id)
    return below is not None and Path(below).parent == GraphPaths(root=Path()).pushes


def relocated(path: str, graph_id: str, root: Path) -> str:
    """A path as it is where the directory of its graph is ``root``; one elsewhere stays."""
    below = path_below(path, graph_id)
    return path if below is None else str(root / below)
