"""Retractions: files that are to leave a graph, and contents that must not come back.

Requests are stored here; ingest carries them out between two files and tells the manifest.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, select, update

from peewit.service.catalog import lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.tables import files
from peewit.service.inbox.inbox_records import (
    REPLACED,
    FileNotListed,
    FileRecord,
    RetractionRefused,
)


class Retractions:
    """Retractions by graph."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def want(self, graph_id: str, file_id: int, *, inserts_only: bool = False) -> FileRecord:
        """Make ingest take a file out of the graph, or leave out one that waits.

        A file that is retracted already, or to be, stays so. With ``inserts_only`` a file that
        deleted or set edges of others may lose what it inserted, but those edges are not brought
        back. Raises `GraphNotFound`, `FileNotListed`, or `RetractionRefused`, which says why.
        """
        with self._database.write() as connection:
            graph = lock_graph(connection, graph_id)
            file = _file(connection, graph_id, file_id)
            if file.status != "retracted":
                inserts_only |= file.inserts_only
                _require_retractable(connection, graph, file, inserts_only=inserts_only)
                values = {"status": "retracting", "inserts_only": inserts_only, "reason": None}
                statement = update(files).where(files.c.id == file_id).values(**values)
                connection.execute(statement)
                file = _file(connection, graph_id, file_id)
        return file

    def waiting(self, graph_id: str) -> Sequence[FileRecord]:
        """Files that are to be retracted, oldest first."""
        statement = select(files).where(is_leaving(graph_id)).order_by(files.c.id)
        with self._database.read() as connection:
            return [FileRecord.of(row) for row in connection.execute(statement)]

    def done(self, graph_id: str, versions: Mapping[str, str]) -> Sequence[FileRecord]:
        """Retracted files among some paths with their versions."""
        statement = select(files).where(files.c.graph_id == graph_id, files.c.status == "retracted")
        with self._database.read() as connection:
            retracted = [FileRecord.of(row) for row in connection.execute(statement)]
        return [file for file in retracted if versions.get(file.path) == file.version]

    def withheld(self, graph_id: str) -> Mapping[str, str]:
        """Digest, by path, of the last content where that was retracted."""
        later = files.alias()
        came = later.c.status.in_(("committed", "duplicate", "retracting", "retracted"))
        is_last = ~exists().where(
            later.c.graph_id == graph_id,
            later.c.path == files.c.path,
            later.c.id > files.c.id,
            came,
        )
        statement = select(files.c.path, files.c.digest).where(
            files.c.graph_id == graph_id,
            files.c.status == "retracted",
            files.c.digest.is_not(None),
            files.c.reason.is_distinct_from(REPLACED),
            is_last,
        )
        with self._database.read() as connection:
            return {row.path: row.digest for row in connection.execute(statement)}

    def of_path(self, graph_id: str, path: str) -> Sequence[FileRecord]:
        """All versions of a file, the newest first."""
        statement = (
            select(files)
            .where(files.c.graph_id == graph_id, files.c.path == path)
            .order_by(files.c.id.desc())
        )
        with self._database.read() as connection:
            return [FileRecord.of(row) for row in connection.execute(statement)]


def is_leaving(graph_id: str | ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a file of the graph is to be retracted."""
    return and_(files.c.graph_id == graph_id, files.c.status == "retracting")


def _file(connection: Connection, graph_id: str, file_id: int) -> FileRecord:
    statement = select(files).where(files.c.graph_id == graph_id, files.c.id == file_id)
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise FileNotListed(f"no file {file_id} in the manifest of this graph")
    return FileRecord.of(row)


def _require_retractable(
    connection: Connection, graph: Row[Any], file: FileRecord, *, inserts_only: bool
) -> None:
    if file.push_id is not None:
        raise RetractionRefused(
            f"file {file.id} must be one of a source, it holds pushed edges: delete these instead"
        )
    if file.status == "quarantined":
        raise RetractionRefused(f"file {file.id} must be in the graph, it was refused")
    if file.status == "duplicate":
        same = and_(files.c.graph_id == graph.id, files.c.digest == file.digest)
        is_in = files.c.status.in_(("committed", "retracting"))
        original = connection.execute(select(files.c.id).where(same, is_in)).scalar()
        raise RetractionRefused(
            f"file {file.id} must have brought its content, which came with "
            f"{'another' if original is None else f'file {original}'}; retract that"
        )
    if file.status == "pending":
        return
    if graph.deletions == "off":
        raise RetractionRefused(
            f"deletions of {graph.name} must be exact to take files out, they are off; "
            "create another graph with --deletions exact"
        )
    if file.retractable == "inserts_only" and not inserts_only:
        raise RetractionRefused(
            f"file {file.id} deleted or set edges of other files, which are not brought back; ask "
            "for its inserts only"
        )
