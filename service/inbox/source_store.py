"""Sources of all graphs: where ingest looks for files, and how the last look ended."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from peewit.service.catalog import lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.tables import files, sources
from peewit.service.database.timestamps import now
from peewit.service.inbox.file_outcomes import offer_again
from peewit.service.inbox.inbox_records import SourceNotFound, SourceRecord, TooManySources
from peewit.service.inbox.typed_graphs import kinds_named, make_typed
from peewit.service.live_sources.contract import Position
from peewit.service.live_sources.kinds import FILES, require_holding, require_kind
from peewit.service.live_sources.node_columns import Holds
from peewit.solvers.arguments import BadArgument

MAX_BAD_ROWS: Final = 1_000_000
"""Most of one file, as they are in memory until they are reported."""

_OF_ALL: Final = select(sources).where(sources.c.removed_at.is_(None)).order_by(sources.c.url)
_OF_GRAPH: Final = _OF_ALL.where(sources.c.graph_id == bindparam("graph"))
_AT_ONCE: Final = 500
_MAX_PATH_BYTES: Final = 2000
"""PostgreSQL's indexes take no longer entries."""


def live_sources(graph_id: str | ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a source of the graph is read by position, and not removed."""
    is_live = sources.c.kind != FILES
    return and_(sources.c.graph_id == graph_id, sources.c.removed_at.is_(None), is_live)


class Reading(NamedTuple):
    """How the files of a source are read; fields as in `SourceRecord`."""

    columns: Mapping[str, str] | None
    max_bad_rows: int
    replaces: bool
    again: bool = False
    is_live: bool = False


class SourceStore:
    """Sources by graph. Methods that take a graph and write raise `GraphNotFound` without it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        graph_id: str,
        url: str,
        *,
        kind: str = FILES,
        holds: Holds = "edges",
        label_column: str | None = None,
        start: Position | None = None,
        follow: bool | None = None,
        columns: Mapping[str, str] | None = None,
        max_bad_rows: int | None = None,
        replaces: bool | None = None,
        again: bool | None = None,
        confined_to: str | None = None,
        max_sources: int | None = None,
    ) -> SourceRecord:
        """The source of this URL, added unless it is there.

        A removed source that is added again goes on where it was. New columns, bad rows or
        replacing make it forget its refused files, so that they are tried again; ``again`` offers
        its duplicates. Without ``follow``, ``columns``, ``max_bad_rows``, ``replaces`` or ``again``
        a present source keeps its own; a new one has them off, the graph's column names, and no bad
        rows. ``start`` is where to begin a live source; by default where it was, or at the
        beginning. ``confined_to`` is what it may read, from `peewit.service.inbox.confinement`; a
        source that the machine's owner has added without it stays unconfined until it is removed.

        Raises `TooManySources`, or a ValueError where the URL, kind or number of rows breaks its
        rule, such a source cannot hold that, or the source is there and reads something else.
        """
        require_path("url", url)
        require_kind(kind)
        require_holding(kind, holds, label_column)
        if max_bad_rows is not None and not 0 <= max_bad_rows <= MAX_BAD_ROWS:
            raise BadArgument(
                "max_bad_rows", f"must lie in 0 to {MAX_BAD_ROWS}, got {max_bad_rows}"
            )
        if max_bad_rows and holds != "edges":
            raise BadArgument(
                "max_bad_rows", f"must be 0 for a source of {holds}, got {max_bad_rows}"
            )
        for name, is_on in {"replaces": replaces, "again": again}.items():
            if is_on and kind != FILES:
                raise BadArgument(name, f"must be off for a source of kind {kind!r}, got on")
        what = {"kind": kind, "holds": holds, "label_column": label_column}
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            make_typed(connection, graph_id, kinds_named(columns or {}))
            mine = and_(sources.c.graph_id == graph_id, sources.c.url == url)
            known = connection.execute(select(sources).where(mine)).one_or_none()
            if known is None or known.removed_at is not None:
                _require_source_room(connection, graph_id, max_sources)
            else:
                for name, value in what.items():
                    if (was := getattr(known, name)) != value:
                        rule = f"must be {was!r} as the source was added, got {value!r}"
                        raise BadArgument(name, rule)
                follow = known.follow if follow is None else follow
                confined_to = confined_to if known.confined_to else None
                said = (
                    known.columns if columns is None else (columns or None),
                    known.max_bad_rows if max_bad_rows is None else max_bad_rows,
                    known.replaces if replaces is None else replaces,
                )
                is_said_anew = said != (known.columns, known.max_bad_rows, known.replaces)
                if is_said_anew and kind == FILES:  # chunks of a live source do not come again
                    connection.execute(delete(files).where(_is_refused(known.id)))
                columns, max_bad_rows, replaces = said
                if again and not known.again:
                    mine_only = files.c.source_id == known.id
                    offer_again(connection, graph_id, mine_only, statuses=("duplicate",))
                again = known.again if again is None else again
            follow, max_bad_rows = bool(follow), max_bad_rows or 0
            reading = {
                "columns": columns or None,
                "max_bad_rows": max_bad_rows,
                "replaces": bool(replaces),
                "again": bool(again),
                **what,
            }
            moved: dict[str, Any] = {"lag": None}  # is looked at again
            is_other = known is not None and any(
                getattr(known, name) != value for name, value in what.items()
            )
            if start is not None or is_other:
                moved |= {"position": start, "n_reads": sources.c.n_reads + 1}
            row = connection.execute(
                update(sources)
                .where(mine)
                .values(follow=follow, removed_at=None, confined_to=confined_to, **reading, **moved)
                .returning(sources)
            ).one_or_none()
            if row is None:
                values = {
                    "id": uuid4().hex,
                    "position": start,
                    "graph_id": graph_id,
                    "url": url,
                    "follow": follow,
                    "confined_to": confined_to,
                    **reading,
                }
                statement = insert(sources).values(**values).returning(sources)
                row = connection.execute(statement).one()
        return SourceRecord.of(row)

    def list(self, graph_id: str) -> Sequence[SourceRecord]:
        """The sources that are not removed, by URL."""
        with self._database.read() as connection:
            rows = connection.execute(_OF_GRAPH, {"graph": graph_id})
            return [SourceRecord.of(row) for row in rows]

    def of_all_graphs(self) -> Mapping[str, Sequence[SourceRecord]]:
        """The sources that are not removed, by URL, of each graph that has some."""
        found: dict[str, list[SourceRecord]] = {}
        with self._database.read() as connection:
            for row in connection.execute(_OF_ALL):
                found.setdefault(row.graph_id, []).append(SourceRecord.of(row))
        return found

    def confinements(self, graph_id: str) -> Mapping[str, str]:
        """What sources added over HTTP may read, by id, removed ones included."""
        statement = select(sources.c.id, sources.c.confined_to).where(
            sources.c.graph_id == graph_id, sources.c.confined_to.is_not(None)
        )
        with self._database.read() as connection:
            return {row.id: row.confined_to for row in connection.execute(statement)}

    def remove(self, graph_id: str, source_id: str) -> None:
        """Read nothing more from a source; what is committed stays in the graph.

        Its pending files are not offered any more, unless another source lists them, and its
        refused files are forgotten. Raises `SourceNotFound`.
        """
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            require_source(connection, graph_id, source_id)
            statement = update(sources).where(sources.c.id == source_id)
            connection.execute(statement.values(removed_at=now()))
            connection.execute(delete(files).where(_is_refused(source_id)))

    def readings(self, graph_id: str) -> Mapping[str, "Reading"]:
        """How the files of each source are read, by its id, removed sources included."""
        statement = select(
            *(sources.c.id, sources.c.columns, sources.c.max_bad_rows, sources.c.replaces),
            sources.c.again,
            sources.c.kind != FILES,
        ).where(sources.c.graph_id == graph_id)
        with self._database.read() as connection:
            return {source_id: Reading(*said) for source_id, *said in connection.execute(statement)}

    def note_listing(self, source_id: str, *, error: str | None = None) -> None:
        """Store how the last try to list or read a source ended; nothing when it was removed."""
        values: dict[str, Any] = (
            {"listed_at": now(), "error": None, "error_at": None, "n_failures": 0}
            if error is None
            else {"error": error, "error_at": now(), "n_failures": sources.c.n_failures + 1}
        )
        with self._database.write() as connection:
            connection.execute(update(sources).where(sources.c.id == source_id).values(**values))

    def note_listed(self, source_ids: Collection[str]) -> None:
        """Store that sources were listed, as they were before; nothing for those that failed."""
        ids = list(source_ids)
        with self._database.write() as connection:
            for start in range(0, len(ids), _AT_ONCE):
                mine = sources.c.id.in_(ids[start : start + _AT_ONCE])
                is_well = and_(mine, sources.c.n_failures == 0)
                connection.execute(update(sources).where(is_well).values(listed_at=now()))


def _is_refused(source_id: str) -> ColumnElement[bool]:
    return and_(files.c.source_id == source_id, files.c.status == "quarantined")


def require_path(name: str, path: str) -> None:
    """Refuse a path that the database's indexes cannot hold."""
    try:
        length = len(path.encode())
    except UnicodeEncodeError as error:
        raise BadArgument(name, f"must be valid Unicode, got {path!r}") from error
    if not 0 < length <= _MAX_PATH_BYTES or "\0" in path:
        raise BadArgument(
            name,
            f"must have 1 to {_MAX_PATH_BYTES} bytes and no NUL, got {length} bytes, {path[:80]!r}",
        )


def _require_source_room(connection: Connection, graph_id: str, max_sources: int | None) -> None:
    present = and_(sources.c.graph_id == graph_id, sources.c.removed_at.is_(None))
    n_sources = connection.execute(select(func.count()).where(present)).scalar_one()
    if max_sources is not None and n_sources >= max_sources:
        raise TooManySources(
            f"the graph must have at most {max_sources} sources, got one more; remove one, or "
            "raise PEEWIT_MAX_SOURCES"
        )


def require_source(connection: Connection, graph_id: str, source_id: str) -> None:
    """Raise `SourceNotFound` unless the graph has the source."""
    statement = select(sources.c.id).where(
        sources.c.id == source_id, sources.c.graph_id == graph_id, sources.c.removed_at.is_(None)
    )
    if connection.execute(statement).first() is None:
        raise SourceNotFound(f"no source {source_id!r} of this graph")
