"""Rows of messages as a table of labels or features, each with its place."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from peewit.service.live_sources.node_columns import PLACE, NodeColumns
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.change_columns import UnreadColumns
from peewit.streaming.edges.json_tables import require_no_json_deletes
from peewit.streaming.edges.operations import DELETE, OPERATION_NUMBERS

_KINDS: Final = {
    "features": (pa.list_(pa.float64()), "lists of numbers"),
    "indices": (pa.list_(pa.int64()), "lists of 64-bit integers"),
    "values": (pa.list_(pa.float64()), "lists of numbers"),
    "op": (pa.string(), "text"),
}
"""Types of columns, each with its rule in words."""


def node_table(
    rows: Sequence[dict[str, Any]],
    places: Sequence[str],
    columns: NodeColumns,
    unread: UnreadColumns,
) -> pa.Table:
    """Columns by argument; nodes and labels, which may be of any type, as JSON.

    ``rows``, at least one, map column names to values; ``unread`` is of other messages, too. Raises
    `peewit.streaming.edges.bad_table.BadTable` where a row lacks a column or is no row.
    """
    for row in rows:
        _require_columns(row, columns)
    require_no_json_deletes(rows, columns, 0, unread)
    table = {
        argument: _column(argument, [row.get(name) for row in rows])
        for argument, name in columns.by_argument
        if any(name in row for row in rows)
    }
    return pa.table({**table, PLACE: pa.array(places, pa.string())})


def _require_columns(row: dict[str, Any], columns: NodeColumns) -> None:
    op = row.get(columns.op)
    is_delete = isinstance(op, str) and OPERATION_NUMBERS.get(op.lower()) == DELETE
    if is_delete and columns.node in row:
        return
    columns.check(list(row))


def _column(argument: str, values: list[Any]) -> pa.Array:
    kind, rule = _KINDS.get(argument, (pa.json_(), "text or numbers"))
    try:
        if argument in {"node", "label"}:
            values = [None if value is None else json.dumps(value) for value in values]
        return pa.array(values, kind)
    except (OverflowError, TypeError, pa.ArrowException):
        raise BadUpload(f"{argument!r} must hold {rule}", argument=argument) from None
