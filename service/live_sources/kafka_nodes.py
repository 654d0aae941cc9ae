"""Rows of messages as a table of labels or features, each with its place."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from peewit.service.live_sources.node_columns import PLACE, NodeColumns
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.operations import DELETE, OPERATION_NUMBERS

_LISTS: Final = {
    "features": pa.list_(pa.float64()),
    "indices": pa.list_(pa.int64()),
    "values": pa.list_(pa.float64()),
}


def node_table(
    rows: Sequence[dict[str, Any]], places: Sequence[str], columns: NodeColumns
) -> pa.Table:
    """Columns by what they are for; nodes and labels, which are of any type, as JSON.

    Parameters
    ----------
    rows : sequence of dict
        By the names of columns; at least one.
    places : sequence of str
        Where each stands.
    columns : NodeColumns
        What the columns are called.

    Raises
    ------
    peewit.streaming.edges.bad_table.BadUpload
        A row lacks a column, or holds what is no row at all.
    """
    for row in rows:
        _require_columns(row, columns)
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
    try:
        if argument in _LISTS:
            return pa.array(values, _LISTS[argument])
        if argument == "op":
            return pa.array(values, pa.string())
        texts = [None if value is None else json.dumps(value) for value in values]
    except (OverflowError, TypeError, pa.ArrowException):
        wanted = str(_LISTS.get(argument, "text or numbers")).removeprefix("list<item: ")
        raise BadUpload(
            f"{argument!r} must hold {'lists of ' if argument in _LISTS else ''}"
            f"{wanted.removesuffix('>')}",
            argument=argument,
        ) from None
    return pa.array(texts, pa.json_())
