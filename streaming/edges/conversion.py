"""Conversion: text, Arrow files and tables with bad rows become checked Parquet copies.

A copy holds the columns of edges alone, ids and weights as the graph has them, in row groups of a
fixed size, so that a position in it means the same after a restart. Bad rows are left out, as many
as are allowed, and reported with their places in the original.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import AnyArray, BoolArray, Int64Array
from peewit.streaming.edges.bad_table import BadTable, excerpt
from peewit.streaming.edges.blocks import BadEdges, RawBlock
from peewit.streaming.edges.change_columns import holds_operations, rows_ended
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.csv.tables import csv_batches, typed_edges
from peewit.streaming.edges.json_tables import AlikeRows, json_batch, json_rows, names_of, texts_of
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.partition_folders import require_no_folders
from peewit.streaming.edges.parts import (
    BadRow,
    EdgeFile,
    content_faults,
    first_rows_of,
    open_parquet,
)
from peewit.streaming.edges.relations.copies import edge_copy
from peewit.streaming.edges.table_formats import (
    ROWS_PER_BATCH,
    Format,
    format_of_content,
    format_of_file,
    open_table,
    require_stream_end,
)

_SLICE: Final = 1 << 10  # rows that are looked at together once one of many is bad
_COUNTED: Final = 1_000  # bad rows found one by one, of a file that is refused
_ARROW_MAGIC: Final = b"ARROW1"
_NEGATIVE: Final = r"^-([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"

_Read: TypeAlias = Callable[[Any], RawBlock]
"""Checks rows of a batch; raises BadTable with the place of a bad one."""


class TooManyBadRows(BadEdges):
    """A file has more bad rows than allowed; ``n_bad_rows`` are all, None where there are more."""

    n_bad_rows: int | None = None


def too_many(
    bad_row: BadRow, n_bad: int, *, argument: str | None = None, are_all: bool = True
) -> TooManyBadRows:
    """The refusal for more bad rows than allowed, which names one of them.

    Where ``n_bad`` are not all of them, there are so many at least.
    """
    if n_bad == 1:
        how_many = "1 row is bad, max_bad_rows 1 leaves it out"
    elif not are_all:
        how_many = f"more than {n_bad - 1:,} rows are bad; one of them"
    else:
        how_many = f"{n_bad:,} rows are bad, max_bad_rows {n_bad} leaves them out; one of them"
    reason = f"{how_many}: {bad_row.reason}"
    error = TooManyBadRows(reason, argument=argument, row=bad_row.row, value=bad_row.value)
    error.n_bad_rows = n_bad if are_all else None
    return error


@dataclass(slots=True, kw_only=True)
class _BadRows:
    """Bad rows so far, and how many there may be; all are counted where that is quick."""

    allowed: int
    n_rows: int = 0
    n_slow: int = 0  # that were found one by one
    rows: list[tuple[BadRow, str | None]] = field(default_factory=list)
    """The first of them, no more than allowed or `_COUNTED`, each with its column."""
    n_rows_before: list[int] = field(default_factory=list)
    """For each line that is no row of a table, how many lines before it are rows."""

    def add_damaged(self, row: int, reason: str, value: str) -> None:
        """Leave out a line that cannot be read; `check_number` tells whether it may be."""
        self.n_rows_before.append(row - len(self.n_rows_before))
        self._keep(BadRow(row=row, reason=reason, value=value), None)

    def add(self, fault: BadTable, rows: Mapping[int, str | None]) -> None:
        """Leave out rows with what stands in them, numbered without damaged lines.

        Raises as `check_number`.
        """
        for row, value in rows.items():
            number = row + bisect_right(self.n_rows_before, row)
            self._keep(BadRow(row=number, reason=fault.reason, value=value), fault.argument)
        self.n_slow += len(rows) == 1
        self.check_number()

    def _keep(self, row: BadRow, argument: str | None) -> None:
        self.n_rows += 1
        if len(self.rows) < max(self.allowed + 1, _COUNTED):
            self.rows.append((row, argument))

    @property
    def are_too_many(self) -> bool:
        """Whether the file is refused, and others are only counted."""
        return self.n_rows > self.allowed

    @property
    def in_order(self) -> list[tuple[BadRow, str | None]]:
        """Those that were kept, by their places."""
        return sorted(self.rows, key=lambda each: each[0].row)

    def check_number(self) -> None:
        """Raise BadEdges where so many were found one by one that counting would take long."""
        if self.n_slow > max(self.allowed, _COUNTED):
            raise self._refusal(are_all=False)

    def check_all(self) -> None:
        """Raise BadEdges where there are more than allowed, once all are counted."""
        if self.are_too_many:
            raise self._refusal(are_all=True)

    def _refusal(self, *, are_all: bool) -> TooManyBadRows:
        bad_row, argument = self.in_order[self.allowed]
        return too_many(bad_row, self.n_rows, argument=argument, are_all=are_all)


def with_count(
    fault: BadEdges,
    file: EdgeFile,
    local_path: str,
    copy_path: Path,
    *,
    node_kind: NodeKind,
    max_nodes: int,
    check: Callable[[], None] = lambda: None,
) -> BadEdges:
    """The fault of a row with the number of all bad rows; another fault as it is.

    The file is read again, and a copy written to ``copy_path`` meanwhile.
    """
    if fault.row is None or isinstance(fault, TooManyBadRows):
        return fault
    copy_path.parent.mkdir(parents=True, exist_ok=True)
    try:
        convert(
            *(replace(file, max_bad_rows=0), local_path, str(copy_path)),
            node_kind=node_kind,
            max_nodes=max_nodes,
            check=check,
        )
    except BadEdges as counted:
        return counted
    finally:
        copy_path.unlink(missing_ok=True)
    return fault


def is_read_in_place(file: EdgeFile, local_path: str) -> bool:
    """Whether a file is Parquet and taken whole or not at all, so that no copy is made.

    Where a column names relations, a copy has the rows of each together.
    """
    is_whole = file.max_bad_rows == 0 and file.columns.relation_column is None
    return is_whole and edge_format(file.path, local_path) == (Format.PARQUET, None)


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
    n_good = 0
    unseen = set(file.columns.via_columns)
    original = _Original(
        file=file, local_path=local_path, node_kind=node_kind, max_nodes=max_nodes, bad=bad
    )
    with (
        as_bad_edges(),
        content_faults(f"{file.path} is not readable as {edge_format(file.path, local_path)[0]}"),
        edge_copy(copy_path, file.columns, node_kind) as copy,
    ):
        for rows in original.batches():
            check()
            unseen -= rows.names_among(unseen)
            for block in _good_blocks(rows, bad):
                n_good += block.n_rows
                if not bad.are_too_many:
                    copy.add(block)
    if bad.rows and not n_good:  # another column was meant, or another file
        least, argument = bad.in_order[0]
        reason = f"no row is an edge; the first fails as {least.reason}"
        raise BadEdges(reason, argument=argument, row=least.row, value=least.value)
    bad.check_all()
    if unseen and n_good:
        raise BadEdges(f"column {min(unseen)!r} is missing in every row", argument="via")
    return tuple(row for row, _ in bad.in_order)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FirstRows:
    """Checked rows at the beginning of a file, and columns of changes that nobody reads."""

    block: RawBlock
    names: Sequence[str]  # of all columns of the file
    passed_over: Mapping[str, Sequence[str]]  # different values of each, none asks for a delete
    ended: Mapping[str, int]  # rows that do not hold any more, as such a column says


def first_rows(
    file: EdgeFile, *, n_rows: int, node_kind: NodeKind, max_nodes: int
) -> FirstRows | None:
    """Checked rows at the beginning of a local file, a batch at most; None where it has none.

    Raises BadTable as `convert` does.
    """
    bad = _BadRows(allowed=file.max_bad_rows)
    original = _Original(
        file=file,
        local_path=file.path,
        node_kind=node_kind,
        max_nodes=max_nodes,
        bad=bad,
        tells=True,
    )
    with as_bad_edges(), content_faults(f"{file.path} is not readable"):
        for part in original.batches():
            some = part.slice(0, min(part.n_rows, n_rows))
            names = original.names
            if isinstance(some.rows, list):
                names = names_of(some.rows)
            block, beside = some.block(), _beside(some)
            return FirstRows(
                block=block, names=names, passed_over=_passed_over(beside), ended=rows_ended(beside)
            )
    return None


def _passed_over(beside: Mapping[str, pa.Array]) -> dict[str, list[str]]:
    values = {
        name: [str(each) for each in column.unique().to_pylist() if each is not None]
        for name, column in beside.items()
        if holds_operations(column, name)
    }
    return {name: some for name, some in values.items() if any(some)}


def _beside(part: "_Rows") -> dict[str, pa.Array]:
    """Columns that nobody reads, as text where they are members of objects."""
    rows = part.rows
    if not isinstance(rows, list):
        return {name: rows.column(name) for name in part.columns.beside(rows.schema.names)}
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        name: texts_of([row.get(name) for row in rows]) for name in part.columns.beside(list(names))
    }


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """Some rows of a batch, and their numbers in the file."""

    rows: pa.RecordBatch | list[Any]
    numbers: Int64Array
    read: _Read
    columns: EdgeColumns

    @property
    def n_rows(self) -> int:
        return len(self.numbers)

    def block(self) -> RawBlock:
        """The rows, checked; raises BadTable with the place of a bad one among them."""
        return self.read(self.rows)

    def names_among(self, names: Collection[str]) -> set[str]:
        """Those of some names that rows have; objects may have others each."""
        rows = self.rows
        if isinstance(rows, list):
            objects = [row for row in rows if isinstance(row, dict)]
            return {name for name in names if any(name in row for row in objects)}
        return set(names).intersection(rows.schema.names)

    def without(self, places: Sequence[int]) -> "_Rows":
        """The other rows."""
        stays = np.ones(self.n_rows, np.bool_)
        stays[places] = False
        rows = self.rows
        if isinstance(rows, list):
            left: Any = [row for row, is_left in zip(rows, stays, strict=True) if is_left]
        else:
            left = rows.filter(pa.array(stays))
        return replace(self, rows=left, numbers=self.numbers[stays])

    def slice(self, start: int, stop: int) -> "_Rows":
        """Rows from one place to before another."""
        rows = self.rows
        some = rows[start:stop] if isinstance(rows, list) else rows.slice(start, stop - start)
        return replace(self, rows=some, numbers=self.numbers[start:stop])


def _good_blocks(part: _Rows, bad: _BadRows) -> Iterator[RawBlock]:
    """The rows of a batch without the bad ones: those alike at once, then by slices, one by one."""
    while part.n_rows:
        try:
            block = part.block()
        except BadTable as fault:
            if fault.row is None:
                raise
            alike = _like_rows(part.rows, fault.row, fault, part.columns)
            values = {int(part.numbers[place]): value for place, value in alike.items()}
            if len(alike) > 1:
                bad.add(fault, values)
                part = part.without(list(alike))
            elif part.n_rows > _SLICE:
                for start in range(0, part.n_rows, _SLICE):
                    yield from _good_blocks(part.slice(start, start + _SLICE), bad)
                return
            else:
                # rows before the first that breaks one rule may break those looked at after it
                yield from _good_blocks(part.slice(0, fault.row), bad)
                bad.add(fault, values)
                part = part.slice(fault.row + 1, part.n_rows)
        else:
            yield block
            return


def _like_rows(
    rows: pa.RecordBatch | list[Any], place: int, fault: BadTable, columns: EdgeColumns
) -> dict[int, str | None]:
    """Places of the rows that break the rule of a fault, its own too, each with what stands there.

    A cell that breaks a rule breaks it in every row, so that thousands with the same empty field,
    or with negative weights, need not be read one by one; where rows have operations, in every row
    of the same one. Only the row itself where the fault is not of one cell of an id or weight.
    """
    name, alone, op = fault.argument, {place: fault.value}, columns.op
    of_cells = {*columns.nodes, columns.weight, columns.relation_column, *columns.kind_columns}
    is_time = name == "time" and name not in of_cells  # which is what all times are called
    name = columns.time if is_time else name
    if name is None or (name == "time" and not is_time) or not (is_time or name in of_cells):
        return alone
    if isinstance(rows, list):
        names = [name] if op is None else [name, op]
        row = rows[place]
        if not isinstance(row, dict) or name not in row or not _is_told(row[name], fault):
            return alone
        places = np.flatnonzero(_like_objects(rows, place, names))
        return alone | dict.fromkeys(places.tolist(), fault.value)
    if fault.value is None or rows.schema.names.count(name) != 1:  # it may be damaged
        return alone
    try:
        cell = rows.column(name)[place].as_py()
    except UnicodeDecodeError:
        return alone
    if not _is_told(cell, fault):
        return alone
    column, numbers = rows.column(name), None
    if is_time:
        is_like = _equal_cells(column, place)
    else:
        is_like, numbers = _like_cells(column, place, fault)
    if op is not None and op in rows.schema.names:
        is_like &= _equal_cells(rows.column(op), place)
    places = np.flatnonzero(is_like)
    values = [fault.value] * len(places) if numbers is None else map(str, numbers[places])
    return dict(zip(places.tolist(), values, strict=True)) | alone


def _is_told(cell: object, fault: BadTable) -> bool:
    """Whether the fault is of this cell, and not of two together."""
    texts = None, "''", "null", str(cell), excerpt(str(cell)), excerpt(repr(cell))
    return fault.value in texts or _is_number(cell, fault.value)


def _is_number(cell: object, value: str | None) -> bool:
    try:
        return value is not None and float(str(cell)) == float(value)
    except ValueError:
        return False


def _like_cells(column: pa.Array, place: int, fault: BadTable) -> tuple[BoolArray, AnyArray | None]:
    """Rows with an equal cell, or as that one a negative or infinite number; these numbers."""
    numbers = None
    if pa.types.is_string(column.type):
        is_number = pc.match_substring_regex(column, pattern=_NEGATIVE)
        numbers = pc.if_else(is_number, column, "0").cast(pa.float64())
    elif pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        numbers = column
    if numbers is not None and column[place].is_valid:
        values: AnyArray = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
        if str(values[place]) == fault.value and not values[place] >= 0:
            is_like: BoolArray = values < 0
            return is_like | ~np.isfinite(values), values
    return _equal_cells(column, place), None


def _equal_cells(column: pa.Array, place: int) -> BoolArray:
    cell = column[place]
    is_like: BoolArray = np.arange(len(column)) == place
    if not cell.is_valid:
        is_like = np.array(column.is_null())
    else:
        with suppress(pa.ArrowNotImplementedError):  # of a type that no two cells are compared in
            is_like = np.array(pc.fill_null(pc.equal(column, cell), False))
    return is_like


def _like_objects(rows: list[Any], place: int, names: list[str]) -> BoolArray:
    def cells(row: Any) -> list[Any]:
        return [(name in row, type(row.get(name)), row.get(name)) for name in names]

    one = cells(rows[place])
    return np.array([isinstance(row, dict) and cells(row) == one for row in rows], np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Original:
    """A file that is read a batch at a time, and what its rows must be."""

    file: EdgeFile
    local_path: str
    node_kind: NodeKind
    max_nodes: int
    bad: _BadRows
    names: list[str] = field(default_factory=list)  # of all columns, once they are known
    alike: AlikeRows = field(init=False)  # of rows of JSON
    tells: bool = False  # columns that say whether a row still holds come, too

    def __post_init__(self) -> None:
        object.__setattr__(self, "alike", AlikeRows(self.file.columns))

    def _check(self, names: Sequence[str]) -> None:
        self.names.extend(names)
        require_no_folders(self.file.path, self.file.columns, names)
        self.file.columns.check(names)

    def _to_read(self, table: pa.Table | pa.RecordBatch) -> list[str]:
        columns = self.file.columns
        wanted = columns.to_read(table)
        if self.tells:
            wanted += columns.states(table.schema.names)  # none of which may be changes
        return wanted

    def batches(self) -> Iterator[_Rows]:
        """The batches, unchecked."""
        table_format, compression = edge_format(self.file.path, self.local_path)
        first = 0
        if table_format is Format.PARQUET:
            if compression is not None:
                raise BadEdges("a Parquet file must not be compressed as a whole")
            for batch in self._parquet_batches():
                yield self._rows(batch, first, self._block)
                first += batch.num_rows
            return
        with open_table(self.local_path, compression) as content:
            if table_format is Format.NDJSON:
                for rows in json_rows(content, keeps_damaged=True):
                    self.alike.look(rows)
                    held = {name for row in rows if isinstance(row, dict) for name in row}
                    require_no_folders(self.file.path, self.file.columns, sorted(held))
                    yield self._rows(rows, first, self._json_block)
                    first += len(rows)
                return
            is_text = table_format is Format.CSV
            batches = self._csv_batches(content) if is_text else self._ipc_batches(content)
            read = self._csv_block if is_text else self._block
            for batch in batches:
                self.bad.check_number()
                yield self._rows(batch, first, read)
                first += batch.num_rows
            self.bad.check_number()

    def _rows(self, rows: pa.RecordBatch | list[Any], first: int, read: _Read) -> _Rows:
        numbers = np.arange(first, first + len(rows), dtype=np.int64)
        return _Rows(rows=rows, numbers=numbers, read=read, columns=self.file.columns)

    def _block(self, batch: pa.RecordBatch) -> RawBlock:
        return read_columns(
            batch, node_kind=self.node_kind, max_nodes=self.max_nodes, columns=self.file.columns
        )

    def _csv_block(self, batch: pa.RecordBatch) -> RawBlock:
        columns = self.file.columns
        return self._block(typed_edges(batch, self.node_kind, columns, first_row=0))

    def _json_block(self, rows: list[Any]) -> RawBlock:
        columns = self.file.columns
        batch = json_batch(rows, self.node_kind, columns, first_row=0, alike=self.alike)
        return self._block(batch)

    def _csv_batches(self, content: BinaryIO) -> Iterator[pa.RecordBatch]:
        columns = self.file.columns
        return csv_batches(
            content,
            tuple(columns),
            check=self._check,
            on_damaged=self.bad.add_damaged,
            quote=columns.quote,
            to_read=self._to_read,
        )

    def _parquet_batches(self) -> Iterator[pa.RecordBatch]:
        with open_parquet(self.local_path) as parquet:
            names = parquet.schema_arrow.names
            self._check(names)
            wanted = self._to_read(first_rows_of(parquet))
            yield from parquet.iter_batches(batch_size=ROWS_PER_BATCH, columns=wanted)

    def _ipc_batches(self, content: BinaryIO) -> Iterator[pa.RecordBatch]:
        for batch in _ipc_batches(self.local_path, content):
            names = batch.schema.names
            self._check(names)
            taken = batch.select(self._to_read(batch))
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
