"""Messages of a topic gathered into rows of a chunk; invalid messages are refused.

A file that breaks a rule is quarantined whole. So the data contract is checked here by message, and
one that breaks it costs the others nothing. Whether a column asks for deletes is judged by its
words in all messages so far, those before the position, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from peewit.service.live_sources.contract import Access, Refused
from peewit.service.live_sources.kafka_edges import edge_table
from peewit.service.live_sources.kafka_nodes import node_table
from peewit.service.live_sources.kafka_values import Message, rows_of
from peewit.service.live_sources.node_columns import NodeColumns
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.change_columns import UnreadColumns
from peewit.streaming.edges.json_tables import names_of, unread_texts

_SETTLED_ROWS: Final = 1 << 14


class _MessageRows(NamedTuple):
    """A message with its rows by column name, and its number in order."""

    number: int
    message: Message
    rows: Sequence[dict[str, Any]]


class Gatherer:
    """Messages in the order in which they take effect, and their rows."""

    def __init__(self, access: Access, kept: Mapping[str, Any] | None = None) -> None:
        self._access = access
        self._unread = UnreadColumns(kept)
        self._begin()

    @property
    def kept(self) -> dict[str, Any]:
        """What is to be known of earlier messages, as of `UnreadColumns`."""
        return self._unread.kept

    def _begin(self) -> None:
        self.n_messages = self.n_rows = self.n_bytes = 0
        self._unsettled: list[_MessageRows] = []
        self._n_unsettled = 0
        self._tables: list[pa.Table] = []
        self._refused: dict[int, Refused] = {}

    def add(self, message: Message) -> None:
        """Add a message; one without rows counts as a row."""
        self.n_bytes += len(message.key or b"") + len(message.value or b"")
        try:
            rows = rows_of(message, self._access)
        except BadTable as error:
            self._refused[self.n_messages] = Refused(place=message.place, reason=str(error))
            self.n_rows += 1
        else:
            self._unsettled.append(_MessageRows(self.n_messages, message, rows))
            self.n_rows += max(1, len(rows))
            self._n_unsettled += len(rows)
        self.n_messages += 1
        if self._n_unsettled >= _SETTLED_ROWS:
            self._settle()

    def _settle(self) -> None:
        """Make a table of the rows so far; as objects they take ten times the memory."""
        rows = [row for each in self._unsettled for row in each.rows]
        self._unread.look(unread_texts(rows, self._access.columns), names_of(rows))
        self._tables += _tables(self._unsettled, self._access, self._unread, self._refused)
        self._unsettled, self._n_unsettled = [], 0

    def take(self) -> tuple[pa.Table | None, Sequence[Refused]]:
        """The gathered table, None without rows, and the refused messages; empties the gatherer.

        The table is as of `edge_table` or `node_table`.
        """
        self._settle()
        tables, refused = self._tables, self._refused
        self._begin()
        in_order = [refused[number] for number in sorted(refused)]
        table = pa.concat_tables(tables, promote_options="default") if tables else None
        return table, in_order


def _tables(
    group: Sequence[_MessageRows],
    access: Access,
    unread: UnreadColumns,
    refused: dict[int, Refused],
) -> Iterator[pa.Table]:
    """Tables of consecutive messages; those that break the contract are found by bisection."""
    if not group:
        return
    try:
        table = _table(group, access, unread)
    except BadTable as error:
        if len(group) == 1:
            refused[group[0].number] = Refused(place=group[0].message.place, reason=str(error))
            return
        half = len(group) // 2
        yield from _tables(group[:half], access, unread, refused)
        yield from _tables(group[half:], access, unread, refused)
        return
    if table is not None:
        yield table


def _table(group: Sequence[_MessageRows], access: Access, unread: UnreadColumns) -> pa.Table | None:
    """Checked rows of some messages; None without rows."""
    rows = [row for each in group for row in each.rows]
    if not rows:
        return None
    messages = [each.message for each in group for _ in each.rows]
    if isinstance(access.columns, NodeColumns):
        return node_table(rows, [each.place for each in messages], access.columns, unread)
    sent = [each.milliseconds for each in messages]
    return edge_table(rows, sent, access.columns, access, unread)
