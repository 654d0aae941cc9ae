"""Conversion: text, Arrow files and tables with bad rows become checked Parquet copies.

A copy holds the columns of edges alone, ids and weights as the graph has them, in row groups of a
fixed size, so that a position in it means the same after a restart. Bad rows are left out, as many
as are allowed, and reported with their places in the original.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.blocks import BadEdges, RawBlock
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.csv_tables import csv_batches, typed_edges
from peewit.streaming.edges.json_tables import json_batch, json_rows
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.edges.operations import OPERATIONS
from peewit.streaming.edges.parts import BadRow, EdgeFile, content_faults, open_parquet
from peewit.streaming.edges.table_formats import (
    ROWS_PER_BATCH,
    Format,
    format_of_content,
    format_of_file,
    open_table,
    require_stream_end,
)

ROWS_PER_GROUP: Final = 1 << 18
"""Rows of a row group of a copy."""

_SLICE: Final = 1 << 10  # rows that are looked at together once one of many is bad
_COUNTED: Final = 1_000  # bad rows of a file that is refused, where fewer are allowed
_ARROW_MAGIC: Final = b"ARROW1"

_Read: TypeAlias = Callable[[int, int], RawBlock]
"""Checked rows of a batch, from the first of some number; raises BadTable with the row."""


def too_many(
    rows: Sequence[BadRow], place: int, *, argument: str | None = None, are_all: bool = True
) -> BadEdges:
    """The refusal for more bad rows than allowed, which names that of a place among them.

    Where ``rows`` are not all of them, there are so many at least.
    """
    named, n_bad = rows[place], len(rows)
    if n_bad == 1:
        how_many = "1 row is bad, max_bad_rows 1 leaves it out"
    elif not are_all:
        how_many = f"more than {n_bad - 1:,} rows are bad; one of them"
    else:
        how_many = f"{n_bad:,} rows are bad, max_bad_rows {n_bad} leaves them out; one of them"
    reason = f"{how_many}: {named.reason}"
    return BadEdges(reason, argument=argument, row=named.row, value=named.value)


@dataclass(slots=True, kw_only=True)
class _BadRows:
    """Bad rows so far, and how many there may be; some more are counted, to be told."""

    allowed: int
    argument: str | None = None
    """Column of the first row beyond the allowed."""
    rows: list[BadRow] = field(default_factory=list)
    n_rows_before: list[int] = field(default_factory=list)
    """For each line that is no row of a table, how many lines before it are rows."""

    def add_damaged(self, row: int, reason: str, value: str) -> None:
        """Leave out a line that cannot be read; `check_number` tells whether it may be."""
        self.n_rows_before.append(row - len(self.n_rows_before))
        self.rows.append(BadRow(row=row, reason=reason, value=value))

    def add(self, fault: BadTable, row: int) -> None:
        """Leave out a row, numbered without damaged lines; raises as `check_number`."""
        row += bisect_right(self.n_rows_before, row)
        if len(self.rows) == self.allowed:
            self.argument = fault.argument
        self.rows.append(BadRow(row=row, reason=fault.reason, value=fault.value))
        self.check_number()

    @property
    def are_too_many(self) -> bool:
        """Whether the file is refused, and others are only counted."""
        return len(self.rows) > self.allowed

    def check_number(self) -> None:
        """Raise BadEdges where there are more than are counted."""
        if len(self.rows) > max(self.allowed, _COUNTED):
            raise too_many(self.rows, self.allowed, argument=self.argument, are_all=False)

    def check_all(self) -> None:
        """Raise BadEdges where there are more than allowed, once all are counted."""
        if self.are_too_many:
            raise too_many(self.rows, self.allowed, argument=self.argument)


def is_read_in_place(file: EdgeFile, local_path: str) -> bool:
    """Whether a file is Parquet and taken whole or not at all, so that no copy is made."""
    return file.max_bad_rows == 0 and edge_format(file.path, local_path) == (Format.PARQUET, None)


def edge_format(path: str, local_path: str | None = None) -> tuple[Format, str | None]:
    """Format and compression by a file's name, or its first bytes where the name tells nothing.

    Without a ``local_path`` to look at it is Parquet then. Raises `BadEdges` where they tell
    nothing either.
    """
    try:
        return format_of_file(path)
    except ValueError as error:
        if local_path is None:
            return Format.PARQUET, None
        with as_bad_edges():
            of_content = format_of_content(local_path)
        if of_content is None:
            raise BadEdges(str(error)) from error
        return of_content


def convert(
    file: EdgeFile,
    local_path: str,
    copy_path: str,
    *,
    node_kind: NodeKind,
    max_nodes: int,
    check: Callable[[], None],
) -> tuple[BadRow, ...]:
    """Rows left out of a Parquet copy of a file's edges, in order; writes it to ``copy_path``.

    ``max_nodes`` bounds dense ids. ``check`` is called between batches; what it raises ends the
    work. Raises `BadEdges` where the file cannot be read, lacks a column, or has more bad rows than
    allowed.
    """
    bad = _BadRows(allowed=file.max_bad_rows)
    waiting: list[pa.Table] = []
    n_waiting = n_good = 0
    ids = pa.large_string() if node_kind in TEXT else pa.int64()
    schema = pa.schema([("src", ids), ("dst", ids), ("weight", pa.float32())])
    if file.columns.op is not None:
        schema = schema.append(pa.field("op", pa.dictionary(pa.int8(), pa.string())))
    if file.columns.time is not None:
        schema = schema.append(pa.field("time", pa.timestamp("us")))
    original = _Original(
        file=file, local_path=local_path, node_kind=node_kind, max_nodes=max_nodes, bad=bad
    )
    with (
        as_bad_edges(),
        content_faults(f"{file.path} is not readable as {edge_format(file.path, local_path)[0]}"),
        pq.ParquetWriter(copy_path, schema, compression="lz4") as writer,
    ):
        for first, n_rows, read in original.batches():
            check()
            for block in _good_blocks(read, first, n_rows, bad):
                n_good += block.n_rows
                if bad.are_too_many:
                    continue
                columns = {"src": block.src, "dst": block.dst, "weight": block.weight}
                if file.columns.op is not None:
                    op = np.zeros(block.n_rows, np.int8) if block.op is None else block.op
                    columns["op"] = pa.DictionaryArray.from_arrays(op.astype(np.int8), OPERATIONS)
                if file.columns.time is not None:
                    columns["time"] = pa.array(block.time)
                waiting.append(pa.table(columns).cast(schema))
                n_waiting += block.n_rows
            if n_waiting >= ROWS_PER_GROUP:
                waiting = [_write_groups(writer, pa.concat_tables(waiting), ROWS_PER_GROUP)]
                n_waiting = waiting[0].num_rows
        if n_waiting:
            _write_groups(writer, pa.concat_tables(waiting), 1)
    bad_rows = tuple(sorted(bad.rows, key=lambda bad_row: bad_row.row))
    if bad_rows and not n_good:  # another column was meant, or another file
        least = bad_rows[0]
        reason = f"no row is an edge; of the first: {least.reason}"
        raise BadEdges(reason, argument=bad.argument, row=least.row, value=least.value)
    bad.check_all()
    return bad_rows


def first_rows(
    file: EdgeFile, *, n_rows: int, node_kind: NodeKind, max_nodes: int
) -> RawBlock | None:
    """Checked rows at the beginning of a local file, a batch at most; None where it has none.

    Raises BadTable as `convert` does.
    """
    bad = _BadRows(allowed=file.max_bad_rows)
    original = _Original(
        file=file, local_path=file.path, node_kind=node_kind, max_nodes=max_nodes, bad=bad
    )
    with as_bad_edges(), content_faults(f"{file.path} is not readable"):
        for first, n_read, read in original.batches():
            return read(first, min(n_read, n_rows))
    return None


@contextmanager
def as_bad_edges() -> Iterator[None]:
    """Faults of any table as BadEdges, which streams take for the fault of one file."""
    try:
        yield
    except BadEdges:
        raise
    except BadTable as fault:
        raise BadEdges(
            fault.reason, argument=fault.argument, row=fault.row, value=fault.value
        ) from fault


def _write_groups(writer: pq.ParquetWriter, table: pa.Table, least_rows: int) -> pa.Table:
    """Rows left over once whole row groups of the fixed size are written."""
    while table.num_rows >= least_rows:
        writer.write_table(table.slice(0, ROWS_PER_GROUP), row_group_size=ROWS_PER_GROUP)
        table = table.slice(ROWS_PER_GROUP)
    return table


def _good_blocks(read: _Read, first: int, n_rows: int, bad: _BadRows) -> Iterator[RawBlock]:
    """The rows of a batch without the bad ones: by slices first, then one by one."""
    end = first + n_rows
    while first < end:
        try:
            block = read(first, end - first)
        except BadTable as fault:
            if fault.row is None:
                raise
            if end - first > _SLICE:
                for start in range(first, end, _SLICE):
                    yield from _good_blocks(read, start, min(_SLICE, end - start), bad)
                return
            # rows before the first that breaks one rule may break those looked at after it
            yield from _good_blocks(read, first, fault.row - first, bad)
            bad.add(fault, fault.row)
            first = fault.row + 1
        else:
            yield block
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class _Original:
    """A file that is read a batch at a time, and what its rows must be."""

    file: EdgeFile
    local_path: str
    node_kind: NodeKind
    max_nodes: int
    bad: _BadRows

    def batches(self) -> Iterator[tuple[int, int, _Read]]:
        """First row, number of rows and reader of each batch."""
        table_format, compression = edge_format(self.file.path, self.local_path)
        first = 0
        if table_format is Format.PARQUET:
            if compression is not None:
                raise BadEdges("a Parquet file must not be compressed as a whole")
            for batch in self._parquet_batches():
                yield first, batch.num_rows, partial(self._block, batch, first)
                first += batch.num_rows
            return
        with open_table(self.local_path, compression) as content:
            if table_format is Format.NDJSON:
                for rows in json_rows(content, keeps_damaged=True):
                    yield first, len(rows), partial(self._json_block, rows, first)
                    first += len(rows)
                return
            is_text = table_format is Format.CSV
            batches = self._csv_batches(content) if is_text else self._ipc_batches(content)
            read = self._csv_block if is_text else self._block
            for batch in batches:
                self.bad.check_number()
                yield first, batch.num_rows, partial(read, batch, first)
                first += batch.num_rows
            self.bad.check_number()

    def _read(self, batch: pa.RecordBatch, first: int) -> RawBlock:
        return read_columns(
            batch,
            node_kind=self.node_kind,
            max_nodes=self.max_nodes,
            columns=self.file.columns,
            first_row=first,
        )

    def _block(self, batch: pa.RecordBatch, base: int, first: int, n_rows: int) -> RawBlock:
        return self._read(batch.slice(first - base, n_rows), first)

    def _csv_block(self, batch: pa.RecordBatch, base: int, first: int, n_rows: int) -> RawBlock:
        taken = batch.slice(first - base, n_rows)
        columns = self.file.columns
        return self._read(typed_edges(taken, self.node_kind, columns, first_row=first), first)

    def _json_block(self, rows: list[Any], base: int, first: int, n_rows: int) -> RawBlock:
        taken = rows[first - base : first - base + n_rows]
        columns = self.file.columns
        return self._read(json_batch(taken, self.node_kind, columns, first_row=first), first)

    def _csv_batches(self, content: BinaryIO) -> Iterator[pa.RecordBatch]:
        columns = self.file.columns
        return csv_batches(
            content,
            columns.all,
            check=columns.check,
            on_damaged=self.bad.add_damaged,
            quote=columns.quote,
        )

    def _parquet_batches(self) -> Iterator[pa.RecordBatch]:
        columns = self.file.columns
        with open_parquet(self.local_path) as parquet:
            names = parquet.schema_arrow.names
            columns.check(names)
            wanted = columns.of(names)
            yield from parquet.iter_batches(batch_size=ROWS_PER_BATCH, columns=wanted)

    def _ipc_batches(self, content: BinaryIO) -> Iterator[pa.RecordBatch]:
        columns = self.file.columns
        for batch in _ipc_batches(self.local_path, content):
            names = batch.schema.names
            columns.check(names)
            taken = batch.select(columns.of(names))
            for start in range(0, batch.num_rows, ROWS_PER_BATCH):
                yield taken.slice(start, ROWS_PER_BATCH)


def _ipc_batches(local_path: str, content: BinaryIO) -> Iterator[pa.RecordBatch]:
    """Batches of an Arrow stream, or of an Arrow file (Feather), which begins differently.

    A damaged length may ask for more memory than there is; such a file is refused, not tried again.
    """
    with open_table(local_path, None) as stored:
        is_file = stored.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC
    try:
        if is_file:
            with pa.OSFile(local_path) as stored:
                reader = pa.ipc.open_file(stored)
                yield from (reader.get_batch(k) for k in range(reader.num_record_batches))
            return
        yield from pa.ipc.open_stream(content)
        require_stream_end(content.read(1))
    except MemoryError as error:
        raise BadTable(
            "each record batch must fit in memory; write smaller ones, unless the file is damaged"
        ) from error
