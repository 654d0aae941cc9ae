"""Messages of a topic as edges; what is none is refused.

A file that breaks a rule is quarantined as a whole. So the data contract is asked here, message by
message, and one that breaks it costs the others nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.live_sources.contract import Access, Refused
from peewit.service.live_sources.kafka_values import Message, rows_of
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.column_mapping import COLUMN_NAMES
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.json_tables import json_batch
from peewit.streaming.edges.times import read_times

_SETTLED_ROWS: Final = 1 << 14


class _Read(NamedTuple):
    """A message with its rows, by the names of columns, and its number in their order."""

    number: int
    message: Message
    rows: Sequence[dict[str, Any]]


class EdgeGatherer:
    """Messages in the order in which they take effect, and the rows that they come to.

    Parameters
    ----------
    access : Access
        What the columns of values are called, and what the graph takes.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._begin()

    def _begin(self) -> None:
        self.n_messages = self.n_rows = self.n_bytes = 0
        self._read: list[_Read] = []
        self._n_unsettled = 0
        self._tables: list[pa.Table] = []
        self._refused: dict[int, Refused] = {}

    def add(self, message: Message) -> None:
        """Take a message; one that holds no edge counts as a row, too."""
        self.n_bytes += len(message.key or b"") + len(message.value or b"")
        try:
            rows = rows_of(message, self._access)
        except BadTable as error:
            self._refused[self.n_messages] = Refused(place=message.place, reason=str(error))
            self.n_rows += 1
        else:
            self._read.append(_Read(self.n_messages, message, rows))
            self.n_rows += max(1, len(rows))
            self._n_unsettled += len(rows)
        self.n_messages += 1
        if self._n_unsettled >= _SETTLED_ROWS:
            self._settle()

    def _settle(self) -> None:
        """Make a table of the rows so far: as objects they take ten times the memory."""
        self._tables += _tables(self._read, self._access, self._refused)
        self._read, self._n_unsettled = [], 0

    def take(self) -> tuple[pa.Table | None, Sequence[Refused]]:
        """What was gathered; it is gathered no more.

        Returns
        -------
        table : pyarrow.Table or None
            Columns ``src``, ``dst``, ``weight`` and, where the graph asks for them, ``op`` and
            ``time``, that fulfil the data contract. None without rows.
        refused : sequence of Refused
            Messages that hold no edge, with their places.
        """
        self._settle()
        tables, refused = self._tables, self._refused
        self._begin()
        in_order = [refused[number] for number in sorted(refused)]
        return (pa.concat_tables(tables) if tables else None), in_order


def _tables(
    read: Sequence[_Read], access: Access, refused: dict[int, Refused]
) -> Iterator[pa.Table]:
    """Tables of consecutive messages, without those that break the contract: found by bisection."""
    if not read:
        return
    try:
        table = _table(read, access)
    except BadTable as error:
        if len(read) == 1:
            refused[read[0].number] = Refused(place=read[0].message.place, reason=str(error))
            return
        half = len(read) // 2
        yield from _tables(read[:half], access, refused)
        yield from _tables(read[half:], access, refused)
        return
    if table is not None:
        yield table


def _table(read: Sequence[_Read], access: Access) -> pa.Table | None:
    """Rows of some messages, checked; None where there are none."""
    columns, kind = access.columns, access.node_kind
    rows = [row for each in read for row in each.rows]
    if not rows:
        return None
    table = pa.Table.from_batches([json_batch(rows, kind, columns, first_row=0)])
    if columns.time is not None:
        place = table.column_names.index(columns.time)
        times = _times(read, table.column(place), access)
        table = table.set_column(place, columns.time, times)
    read_columns(table, node_kind=kind, max_nodes=access.max_nodes, columns=columns)
    named = {name: argument for argument, name in columns.by_argument}
    table = table.rename_columns([named[name] for name in table.column_names])
    usual = {"weight": 1.0} if columns.op is None else {"weight": 1.0, "op": "insert"}
    for name, value in usual.items():
        if name not in table.column_names:
            table = table.append_column(name, pa.repeat(value, len(rows)))
    return table.select([name for name in COLUMN_NAMES if name in table.column_names])


def _times(read: Sequence[_Read], given: pa.ChunkedArray, access: Access) -> pa.Array:
    """When the edges were: as they say, else when their message was written."""
    name, unit = str(access.columns.time), access.columns.time_unit
    stamped = [each.message.milliseconds for each in read for _ in each.rows]
    written = pa.array(stamped, pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp("us"))
    is_said = given.is_valid().combine_chunks()
    said = read_times(given.filter(is_said), name, unit, 0)
    moments = pa.array(said, pa.int64()).cast(pa.timestamp("us"))
    return pc.replace_with_mask(written, is_said, moments)
