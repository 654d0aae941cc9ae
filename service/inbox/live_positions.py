"""Positions of live sources: how far each is read, and what was refused of it.

A position moves in the transaction that stores the chunk it ends, and only from the position at
which the chunk began: of two processes that read the same source one must begin again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from peewit.service.catalog import lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.tables import files, refusals, sources
from peewit.service.inbox.inbox_records import RowRecord, SourceRecord, printable
from peewit.service.inbox.source_store import require_source
from peewit.service.live_sources.contract import Position, Refused

KEPT_REFUSALS: Final = 1000
"""The last ones of each source; all are counted."""


class PositionMoved(RuntimeError):
    """Somebody else read on, or set another beginning; nothing was stored."""


class Place(NamedTuple):
    """How far a source is read, and how often that was stored; None at the very beginning."""

    position: Position | None
    n_reads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalRecord(RowRecord):
    """Rows of a source that were not taken."""

    id: int  # increases
    source_id: str
    place: str  # where the rows stood in the source
    reason: str  # the rule that was broken
    created_at: datetime  # when the source was read


class LivePositions:
    """How far the live sources of all graphs are read."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def place(self, source_id: str) -> Place:
        """How far a source is read."""
        statement = select(sources.c.position, sources.c.n_reads).where(sources.c.id == source_id)
        with self._database.read() as connection:
            return Place(*connection.execute(statement).one())

    def advance(
        self,
        source: SourceRecord,
        n_reads: int,
        position: Position,
        *,
        refused: Sequence[Refused] = (),
        store: Callable[[Connection], Sequence[Refused]] = lambda _connection: (),
    ) -> None:
        """Store a chunk and move the position behind it, in one transaction.

        ``n_reads`` is of the place at which the chunk began, ``position`` the next one. ``store``
        stores the chunk in the transaction and returns rows refused there, besides ``refused``.
        Raises `PositionMoved` where the source is no longer at that place, `SourceNotFound` or
        `GraphNotFound` where it was removed.
        """
        with self._database.write() as connection:
            lock_graph(connection, source.graph_id)
            require_source(connection, source.graph_id, source.id)
            moved = (
                update(sources)
                .where(sources.c.id == source.id, sources.c.n_reads == n_reads)
                .values(position=dict(position), n_reads=n_reads + 1)
            )
            if connection.execute(moved.returning(sources.c.id)).first() is None:
                raise PositionMoved(f"source {source.id} is not where it was read from")
            refused = [*refused, *store(connection)]
            note_refused(connection, source.graph_id, source.id, refused)

    def note_lag(self, source_id: str, lag: int) -> None:
        """Store how much of a source is still unread."""
        with self._database.write() as connection:
            connection.execute(update(sources).where(sources.c.id == source_id).values(lag=lag))

    def waiting_bytes(self, source_id: str) -> int:
        """Bytes of the chunks of a source that are not in the graph yet."""
        waiting = and_(files.c.source_id == source_id, files.c.status == "pending")
        with self._database.read() as connection:
            return int(
                connection.execute(select(func.sum(files.c.size)).where(waiting)).scalar() or 0
            )

    def refusals(self, graph_id: str, *, limit: int) -> Sequence[RefusalRecord]:
        """Refused rows of a graph's sources, the newest first."""
        statement = (
            select(refusals)
            .join(sources, sources.c.id == refusals.c.source_id)
            .where(refusals.c.graph_id == graph_id, sources.c.removed_at.is_(None))
            .order_by(refusals.c.id.desc())
            .limit(limit)
        )
        with self._database.read() as connection:
            return [RefusalRecord.of(row) for row in connection.execute(statement)]


def note_refused(
    connection: Connection, graph_id: str, source_id: str, refused: Sequence[Refused]
) -> None:
    """Count refused rows of a source, and keep the last of them; the graph is locked."""
    if not refused:
        return
    mine = sources.c.id == source_id
    counted = sources.c.n_refused + len(refused)
    connection.execute(update(sources).where(mine).values(n_refused=counted))
    rows: list[dict[str, Any]] = [
        {
            "graph_id": graph_id,
            "source_id": source_id,
            "place": printable(row.place),
            "reason": printable(row.reason),
        }
        for row in refused[-KEPT_REFUSALS:]
    ]
    connection.execute(insert(refusals), rows)
    its = refusals.c.source_id == source_id
    newest = select(refusals.c.id).where(its).order_by(refusals.c.id.desc())
    last = newest.offset(KEPT_REFUSALS).limit(1).scalar_subquery()
    connection.execute(delete(refusals).where(its, refusals.c.id <= last))
