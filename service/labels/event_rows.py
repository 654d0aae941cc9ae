"""Label events: a few or a million of them, written into the caller's transaction.

SQLAlchemy binds every value of every row by name, which for a million rows takes longer than the
database does; those go to the driver as they are.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, insert, select

from peewit.service.database.tables import label_events
from peewit.service.database.timestamps import Timestamp, now
from peewit.service.wire.labels import LabelOrigin

_FEW: Final = 1_000
_ROWS_PER_STATEMENT: Final = 100_000

_SQLITE_CACHE_KIBIBYTES: Final = 1 << 16
"""A place in each index is looked up for each row: in memory, as long as the index fits."""

_SQLITE: Final = (
    "INSERT INTO label_events (graph_id, column_name, created_at, origin, seq, node, label) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_POSTGRESQL: Final = (
    "INSERT INTO label_events (graph_id, column_name, created_at, origin, seq, node, label) "
    "SELECT %s, %s, %s, %s, * FROM unnest(%s::bigint[], %s::text[], %s::text[])"
)


def insert_events(
    connection: Connection,
    graph_id: str,
    nodes: Sequence[str],
    labels: Sequence[str | None],
    *,
    first: int,
    column: str = "",
    origin: LabelOrigin = "given",
) -> None:
    """Add events with the numbers from ``first`` on.

    Parameters
    ----------
    connection : sqlalchemy.Connection
        Of ``Database.write``.
    graph_id : str
        Which graph; its row is locked.
    nodes, labels : sequences of equal length
        External ids, and labels as JSON scalars or None for a removal.
    first : int
        Number of the first event.
    column : str
        Name of the column of labels.
    origin : LabelOrigin
        Where all of them come from.
    """
    if len(nodes) <= _FEW:
        rows = [
            {
                "graph_id": graph_id,
                "column_name": column,
                "seq": seq,
                "node": node,
                "label": label,
                "origin": origin,
            }
            for seq, (node, label) in enumerate(zip(nodes, labels, strict=True), start=first)
        ]
        connection.execute(insert(label_events), rows)
        return
    write = _into_sqlite if connection.dialect.name == "sqlite" else _into_postgresql
    at = connection.execute(select(now())).scalar_one()
    stamp = Timestamp().process_bind_param(at, connection.dialect)
    common = graph_id, column, stamp, origin
    for start in range(0, len(nodes), _ROWS_PER_STATEMENT):
        some = slice(start, start + _ROWS_PER_STATEMENT)
        write(connection, common, first + start, nodes[some], labels[some])


def _into_sqlite(
    connection: Connection,
    common: tuple[Any, ...],
    first: int,
    nodes: Sequence[str],
    labels: Sequence[str | None],
) -> None:
    connection.exec_driver_sql(f"PRAGMA cache_size = -{_SQLITE_CACHE_KIBIBYTES}")
    rows = enumerate(zip(nodes, labels, strict=True), start=first)
    connection.exec_driver_sql(_SQLITE, [(*common, seq, *row) for seq, row in rows])


def _into_postgresql(
    connection: Connection,
    common: tuple[Any, ...],
    first: int,
    nodes: Sequence[str],
    labels: Sequence[str | None],
) -> None:
    seqs = list(range(first, first + len(nodes)))
    connection.exec_driver_sql(_POSTGRESQL, (*common, seqs, list(nodes), list(labels)))
