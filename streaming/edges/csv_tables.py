"""CSV tables: the separator follows from the header; a value of the wrong type has its row named.

Lines that begin with ``#`` or ``%`` before the header are comments. Text without a header line is
read where all columns that are wanted are positions, ``#1`` being the first.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.csv

from peewit.streaming.edges.arrow_faults import named_faults
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.operations import read_operations, without_deleted_weights

_SEPARATORS: Final = ",\t;| "
_HEAD_BYTES: Final = 1 << 20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How a CSV is written."""

    names: list[str]  # columns, by position where there is no header line
    separator: str
    first_line: int  # line of the first row, from 1: after comments and header


class _HeadedReader(io.RawIOBase):
    """A file whose beginning was read already, from that beginning on."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes, at most ``size``."""
        size = -1 if size is None else size
        taken = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(taken) :]
        if size < 0:
            return taken + self._rest.read()
        return taken + self._rest.read(size - len(taken)) if len(taken) < size else taken


def csv_edges(
    file: BinaryIO,
    node_kind: NodeKind,
    columns: EdgeColumns = PLAIN,
    *,
    check: Callable[[Sequence[str]], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of edges in the types that `read_columns` wants; a value of another type is named."""
    first_row = 0
    for batch in csv_batches(file, tuple(columns), check=check or columns.check):
        yield typed_edges(batch, node_kind, columns, first_row=first_row)
        first_row += batch.num_rows


def typed_edges(
    batch: pa.RecordBatch, node_kind: NodeKind, columns: EdgeColumns, *, first_row: int
) -> pa.RecordBatch:
    """Columns of strings in the types of edges; BadUpload with the first row that does not fit."""
    id_type = pa.string() if node_kind == "string" else pa.int64()
    text = dict.fromkeys((columns.op, columns.time), pa.string())
    of_others = {columns.weight: pa.float64(), **text}
    by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
    if columns.op is not None and columns.op in by_name and columns.weight in by_name:
        op = read_operations(by_name[columns.op], columns.op, first_row)
        if op is not None:
            by_name[columns.weight] = without_deleted_weights(by_name[columns.weight], op)
    typed = {
        name: converted(column, of_others.get(name, id_type), name, first_row)
        for name, column in by_name.items()
    }
    return pa.record_batch(typed)


def csv_batches(
    file: BinaryIO,
    wanted: Sequence[str],
    *,
    check: Callable[[Sequence[str]], None],
    on_damaged: Callable[[int, str, str], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of some columns, every value as it stands there; other columns may hold anything.

    Lines with too few or too many fields are an error, or left out and passed to ``on_damaged``
    with their row, the rule and their text, perhaps before their batch comes.
    """
    layout, file = _layout(file, wanted)
    check(layout.names)
    options = pa.csv.ConvertOptions(
        include_columns=[name for name in layout.names if name in wanted],
        column_types=dict.fromkeys(wanted, pa.string()),
        strings_can_be_null=False,
    )
    with named_faults("the CSV is damaged", first_line=layout.first_line):
        yield from _opened(file, layout, options, on_damaged)


def csv_header(
    file: BinaryIO,
    wanted: Sequence[str],
    *,
    on_damaged: Callable[[int, str, str], None] | None = None,
) -> tuple[list[str], int, "OpenCSV"]:
    """Names of the columns, the line of the first row, and a reader of the rows of some columns.

    ``on_damaged`` as of `csv_batches`.
    """
    layout, rejoined = _layout(file, wanted)

    def read(options: pa.csv.ConvertOptions) -> Iterator[pa.RecordBatch]:
        return _opened(rejoined, layout, options, on_damaged)

    return layout.names, layout.first_line, read


def n_csv_columns(file: BinaryIO) -> int:
    """Number of columns of the header, 0 where there is none; the file is left where it stood."""
    start = file.tell()
    try:
        return len(_layout(file, ())[0].names)
    except BadUpload:
        return 0
    finally:
        file.seek(start)


OpenCSV = Callable[[pa.csv.ConvertOptions], Iterator[pa.RecordBatch]]


def _opened(
    file: BinaryIO,
    layout: _Layout,
    options: pa.csv.ConvertOptions,
    on_damaged: Callable[[int, str, str], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    return cast(
        "Iterator[pa.RecordBatch]",
        pa.csv.open_csv(
            file,
            read_options=pa.csv.ReadOptions(
                use_threads=False,  # with threads no row is named in errors
                skip_rows=layout.first_line - 1,
                column_names=layout.names,  # Arrow reads no header that was not counted
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=layout.separator,
                invalid_row_handler=None
                if on_damaged is None
                else partial(_leave_out, layout, on_damaged),
            ),
            convert_options=options,
        ),
    )


def _leave_out(
    layout: _Layout, on_damaged: Callable[[int, str, str], None], row: pa.csv.InvalidRow
) -> str:
    rule = f"a row must have {row.expected_columns} fields, got {row.actual_columns}"
    on_damaged(row.number - layout.first_line, rule, excerpt(" ".join(row.text.split())))
    return "skip"


def _layout(file: BinaryIO, wanted: Sequence[str]) -> tuple[_Layout, BinaryIO]:
    """Layout of a file by its first lines, and the file from its beginning."""
    with named_faults("the CSV is damaged"):
        head = file.read(_HEAD_BYTES)
    if len(head) == _HEAD_BYTES and b"\n" not in head:
        raise BadUpload(f"a line must have at most {_HEAD_BYTES} bytes", row=0)
    lines = head.removeprefix(_BYTE_ORDER_MARK).splitlines()
    n_comments = 0
    while n_comments < len(lines) and lines[n_comments].lstrip()[:1] in {b"", b"#", b"%"}:
        n_comments += 1
    if n_comments == len(lines):
        raise BadUpload("it must be CSV with a header line, and is empty")
    try:
        first = lines[n_comments].decode()
    except UnicodeDecodeError as error:
        rule = "it must be CSV in UTF-8, with a header line"
        raise BadUpload(rule, value=excerpt(lines[n_comments])) from error
    has_header = not (wanted and wanted[0].startswith("#"))
    fields = {mark: _fields(first, mark) for mark in _SEPARATORS}

    def fit(separator: str) -> tuple[int, int]:
        names = fields[separator]
        return sum(name in names for name in wanted), len(names) if separator != " " else 0

    separator = max(_SEPARATORS, key=fit)
    if not has_header and len(fields[separator]) == 1:
        separator = " "
    names = fields[separator]
    if has_header and not any(name in names for name in wanted) and _is_data(names):
        rule = (
            "the first line must name the columns (of a file without such a line, say which "
            "columns are the ends by their places: src='#1', dst='#2')"
        )
        raise BadUpload(rule, value=excerpt(first))
    if not has_header:
        names = [f"#{number}" for number in range(1, len(names) + 1)]
    if has_header and n_comments + 1 == len(lines) and not head.endswith((b"\n", b"\r")):
        head += b"\n"  # a header alone is a table without rows; Arrow skips whole lines only
    layout = _Layout(names=names, separator=separator, first_line=1 + n_comments + has_header)
    return layout, cast("BinaryIO", _HeadedReader(head, file))


def _fields(line: str, separator: str) -> list[str]:
    """The fields of a line; none where it cannot be cut by this separator."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a field longer than any name
        return []


def _is_data(fields: Sequence[str]) -> bool:
    """Whether numbers stand where names should."""
    try:
        list(map(float, fields))
    except ValueError:
        return False
    return True


def converted(column: pa.Array, wanted: pa.DataType, name: str, first_row: int) -> pa.Array:
    """A column of strings as another type; BadUpload with the first row that does not fit."""
    if column.type == wanted:
        return column
    if _casts(column, wanted):
        return column.cast(wanted)
    first, n_rows = 0, len(column)  # bisect for the first bad row, never a loop over rows
    while n_rows > 1:
        half = n_rows // 2
        if _casts(column.slice(first, half), wanted):
            first, n_rows = first + half, n_rows - half
        else:
            n_rows = half
    rule = "a 64-bit integer" if pa.types.is_integer(wanted) else "a number"
    raise BadUpload(
        f"column {name!r} must hold {rule} in every row",
        argument=name,
        row=first_row + first,
        value=column[first].as_py(),
    )


def _casts(column: pa.Array, wanted: pa.DataType) -> bool:
    try:
        column.cast(wanted)
    except pa.ArrowInvalid:
        return False
    return True
