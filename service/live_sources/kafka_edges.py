"""Rows of messages as a table of edges that fulfil the data contract."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.live_sources.contract import Access
from peewit.streaming.edges.change_columns import UnreadColumns
from peewit.streaming.edges.column_mapping import COLUMN_NAMES, EdgeColumns
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.json_tables import json_batch
from peewit.streaming.edges.times import read_times


def edge_table(
    rows: Sequence[dict[str, Any]],
    sent: Sequence[int | None],
    columns: EdgeColumns,
    access: Access,
    unread: UnreadColumns,
) -> pa.Table:
    """Columns ``src``, ``dst``, ``weight`` and, where the graph asks for them, ``op`` and ``time``.

    Those of events and of relations are as `EdgeColumns.by_place` has them.
    ``rows``, at least one, map column names to values; ``sent`` is when the message of each was
    written, in milliseconds since 1970; ``unread`` is of other messages, too. Raises
    `peewit.streaming.edges.bad_table.BadTable` where a row breaks the contract.
    """
    kind = access.node_kind
    table = pa.Table.from_batches(
        [json_batch(list(rows), kind, columns, first_row=0, unread=unread)]
    )
    if columns.time is not None:
        place = table.column_names.index(columns.time)
        times = _times(sent, table.column(place), columns)
        table = table.set_column(place, columns.time, times)
    read_columns(table, node_kind=kind, max_nodes=access.max_nodes, columns=columns)
    named = {name: place for place, name in columns.by_place}
    table = table.rename_columns([named[name] for name in table.column_names])
    usual = {"weight": 1.0} if columns.op is None else {"weight": 1.0, "op": "insert"}
    for name, value in usual.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.repeat(value, len(rows)))
    known = *(place for place, _ in columns.by_place), *COLUMN_NAMES
    return table.select([name for name in dict.fromkeys(known) if name in table.column_names])


def _times(sent: Sequence[int | None], values: pa.ChunkedArray, columns: EdgeColumns) -> pa.Array:
    """Times of the edges as given, else when their messages were written."""
    name, unit = str(columns.time), columns.time_unit
    stamped = pa.array(sent, pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp("us"))
    has_value = values.is_valid().combine_chunks()
    times = read_times(values.filter(has_value), name, unit, 0, time_format=columns.time_format)
    moments = pa.array(times, pa.int64()).cast(pa.timestamp("us"))
    return pc.replace_with_mask(stamped, has_value, moments)
