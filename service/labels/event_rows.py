"""Rows of label events, a few or a million, written in the caller's transaction.

Also what follows from them at once: reservations end, opinions are withdrawn. Many rows go to the
driver directly, since SQLAlchemy binds values by name, which takes longer than the database does.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, insert, select, update

from peewit.service.database.tables import label_events, opinions, reservations
from peewit.service.database.timestamps import Timestamp, now
from peewit.service.wire.labels import LabelOrigin

_FEW: Final = 1_000
_ROWS_PER_STATEMENT: Final = 100_000
_VALUES_PER_STATEMENT: Final = 10_000  # SQLite takes 32,766 parameters

_SQLITE_CACHE_KIBIBYTES: Final = 1 << 16
"""Each row looks up a place in every index; in memory, as long as the index fits."""

_SQLITE: Final = (
    "INSERT INTO label_events "
    "(graph_id, column_name, created_at, by_majority, key, seq, node, label, origin, annotator) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_POSTGRESQL: Final = (
    "INSERT INTO label_events "
    "(graph_id, column_name, created_at, by_majority, key, seq, node, label, origin, annotator) "
    "SELECT %s, %s, %s, %s, %s, * "
    "FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[])"
)


def insert_events(
    connection: Connection,
    graph_id: str,
    nodes: Sequence[str],
    labels: Sequence[str | None],
    *,
    first: int,
    column: str = "",
    origin: LabelOrigin | Sequence[LabelOrigin] = "given",
    annotator: str | Sequence[str | None] | None = None,
    key: str | None = None,
    by_majority: bool = False,
) -> None:
    """Insert label events, numbered from ``first`` on.

    ``connection`` writes and has the graph's row locked. ``labels`` are JSON scalars, None for a
    removal. ``origin`` and ``annotator`` hold for all rows or are given for each; ``key`` names the
    key of all. ``by_majority``: the events follow from what most people have answered.
    """
    origins = [origin] * len(nodes) if isinstance(origin, str) else origin
    if annotator is None or isinstance(annotator, str):
        annotators: Sequence[str | None] = [annotator] * len(nodes)
    else:
        annotators = annotator
    rows = zip(nodes, labels, origins, annotators, strict=True)
    if len(nodes) <= _FEW:
        names = "node", "label", "origin", "annotator"
        common = {
            "graph_id": graph_id,
            "column_name": column,
            "by_majority": by_majority,
            "key": key,
        }
        events = [
            {**common, "seq": seq, **dict(zip(names, row, strict=True))}
            for seq, row in enumerate(rows, start=first)
        ]
        connection.execute(insert(label_events), events)
        return
    write = _into_sqlite if connection.dialect.name == "sqlite" else _into_postgresql
    at = connection.execute(select(now())).scalar_one()
    stamp = Timestamp().process_bind_param(at, connection.dialect)
    of_all = graph_id, column, stamp, by_majority, key
    numbered = enumerate(rows, start=first)
    while some := list(islice(numbered, _ROWS_PER_STATEMENT)):
        write(connection, of_all, [(seq, *row) for seq, row in some])


def mark_superseded(
    connection: Connection, graph_id: str, column: str, nodes: Sequence[str], *, first: int
) -> None:
    """Mark the events that others have followed, where those from ``first`` on are of ``nodes``."""
    events = label_events.c
    mine = events.graph_id == graph_id, events.column_name == column
    last = {node: seq for seq, node in enumerate(nodes, start=first)}
    followed = [seq for seq, node in enumerate(nodes, start=first) if last[node] != seq]
    _mark(connection, events.seq, followed, *mine)
    earlier = select(events.seq).where(*mine, events.seq < first).limit(1)
    if connection.execute(earlier).first() is not None:
        _mark(connection, events.node, list(last), *mine, events.seq < first)


def _mark(
    connection: Connection,
    column: ColumnElement[Any],
    values: Sequence[Any],
    *rules: ColumnElement[bool],
) -> None:
    """Mark the events with some values of a column as superseded."""
    present = update(label_events).where(*rules, ~label_events.c.is_superseded)
    for start in range(0, len(values), _VALUES_PER_STATEMENT):
        some = column.in_(values[start : start + _VALUES_PER_STATEMENT])
        connection.execute(present.where(some).values(is_superseded=True))


def give_back_labeled(connection: Connection, graph_id: str, column: str, *, first: int) -> None:
    """End the reservations of nodes whose label an event from ``first`` on has changed."""
    mine = reservations.c.graph_id == graph_id, reservations.c.column_name == column
    changed = _events_of(reservations, first).exists()
    connection.execute(delete(reservations).where(*mine, changed))


def end_reservation(connection: Connection, graph_id: str, column: str, node: str) -> None:
    """End the reservation of a node, whoever holds it."""
    mine = reservations.c.graph_id == graph_id, reservations.c.column_name == column
    connection.execute(delete(reservations).where(*mine, reservations.c.node == node))


def withdraw_opinions(connection: Connection, graph_id: str, column: str, *, first: int) -> None:
    """Withdraw opinions about labels that events from ``first`` on have removed."""
    mine = opinions.c.graph_id == graph_id, opinions.c.column_name == column
    taken_back = _events_of(opinions, first).where(label_events.c.label.is_(None)).exists()
    connection.execute(
        update(opinions)
        .where(*mine, opinions.c.withdrawn_at.is_(None), taken_back)
        .values(withdrawn_at=now())
    )


def _events_of(table: Table, first: int) -> Select[Any]:
    """Events from ``first`` on of the node of a row of another table."""
    events = label_events.c
    return select(events.seq).where(
        events.graph_id == table.c.graph_id,
        events.column_name == table.c.column_name,
        events.node == table.c.node,
        events.seq >= first,
    )


def _into_sqlite(
    connection: Connection, of_all: tuple[Any, ...], rows: Sequence[tuple[Any, ...]]
) -> None:
    connection.exec_driver_sql(f"PRAGMA cache_size = -{_SQLITE_CACHE_KIBIBYTES}")
    connection.exec_driver_sql(_SQLITE, [(*of_all, *row) for row in rows])


def _into_postgresql(
    connection: Connection, of_all: tuple[Any, ...], rows: Sequence[tuple[Any, ...]]
) -> None:
    connection.exec_driver_sql(_POSTGRESQL, (*of_all, *map(list, zip(*rows, strict=True))))
