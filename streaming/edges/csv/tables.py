"""CSV tables: values as they stand there, or typed; a value of the wrong type has its row named."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from peewit.streaming.edges.arrow_faults import fields_rule, named_faults
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.columns import empty_cells
from peewit.streaming.edges.csv.layout import Layout, MatrixCheck, RowCount, layout_of
from peewit.streaming.edges.csv.quotes import CheckedText
from peewit.streaming.edges.csv.strays import require_no_strays, text_of
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.edges.operations import read_operations, without_deleted_weights
from peewit.streaming.edges.reading_options import Quote

OpenCSV: TypeAlias = Callable[[pa.csv.ConvertOptions], Iterator[pa.RecordBatch]]

_BEGINS_ODDLY: Final = np.isin(np.arange(256), list(b"+-0"))

ToRead: TypeAlias = Callable[[pa.Table], Sequence[str]]
"""Names of the columns to read, by the first rows of a table with all of them."""

_LOOKED_AT: Final = 1 << 15  # bytes

OnDamaged: TypeAlias = Callable[[int, str, str], None]
"""Takes the row, the rule and the text of a line that is no row."""


def csv_edges(
    file: BinaryIO,
    node_kind: NodeKind,
    columns: EdgeColumns = PLAIN,
    *,
    check: Callable[[Sequence[str]], None] | None = None,
    to_read: ToRead | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of edges in the types that `read_columns` wants; a value of another type is named.

    ``to_read`` as of `csv_batches`, by default what ``columns`` say.
    """
    first_row = 0
    check = check or columns.check
    for batch in csv_batches(
        file, tuple(columns), check=check, quote=columns.quote, to_read=to_read or columns.to_read
    ):
        yield typed_edges(batch, node_kind, columns, first_row=first_row)
        first_row += batch.num_rows


def typed_edges(
    batch: pa.RecordBatch, node_kind: NodeKind, columns: EdgeColumns, *, first_row: int
) -> pa.RecordBatch:
    """Columns of strings in the types of edges; BadUpload with the first row that does not fit."""
    id_type = pa.string() if node_kind in TEXT else pa.int64()
    by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
    of_text = columns.op, columns.time, columns.relation_column, *columns.kind_columns
    text = dict.fromkeys((*of_text, *columns.beside(batch.schema.names)), pa.string())
    of_others = {columns.weight: pa.float64(), **text}
    require_no_strays(by_name, columns.nodes[:2], first_row)
    if id_type != pa.string():
        keeps = columns.missing_ids == "keep"
        for name in columns.via_columns:
            is_empty = pa.array(empty_cells(by_name[name], keeps_missing=keeps))
            by_name[name] = pc.if_else(is_empty, pa.scalar(None, pa.string()), by_name[name])
    if columns.op is not None and columns.op in by_name and columns.weight in by_name:
        op = read_operations(by_name[columns.op], columns.op, first_row)
        if op is not None:
            by_name[columns.weight] = without_deleted_weights(by_name[columns.weight], op)
    typed = {
        name: converted(column, of_others.get(name, id_type), name, first_row)
        for name, column in by_name.items()
    }
    if columns.weight in typed:
        _require_no_underflow(by_name[columns.weight], typed[columns.weight], columns, first_row)
    return pa.record_batch(typed)


def _require_no_underflow(
    written: pa.Array, weight: pa.Array, columns: EdgeColumns, first_row: int
) -> None:
    """Raise BadUpload with the first weight that is written as no 0, and so small that it is."""
    if written.type == weight.type:
        return
    rows = np.flatnonzero(weight.to_numpy(zero_copy_only=False) == 0)
    place = pc.index(
        pc.match_substring_regex(written.take(pa.array(rows)), r"^[^eE]*[1-9]"), value=True
    ).as_py()
    if place >= 0:
        row = int(rows[place])
        raise BadUpload(
            f"column {columns.weight!r} must be finite and >= 0 as a 32-bit float, where so little "
            "is 0",
            argument=columns.weight,
            row=first_row + row,
            value=written[row].as_py(),
        )


def csv_batches(
    file: BinaryIO,
    wanted: Sequence[str],
    *,
    check: Callable[[Sequence[str]], None],
    on_damaged: OnDamaged | None = None,
    quote: Quote | None = None,
    to_read: ToRead | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of some columns, every value as it stands there; other columns may hold anything.

    Which columns come is what ``to_read`` says of the first rows, by default those ``wanted``.

    Blanks around values do not count in text that does not quote. Lines with too few or too many
    fields are an error, or left out and passed to ``on_damaged`` with their row, the rule and their
    text, perhaps before their batch comes.
    """
    n_damaged = 0

    def leave_out(row: int, rule: str, text: str) -> None:
        nonlocal n_damaged
        n_damaged += 1
        if on_damaged is not None:
            on_damaged(row, rule, text)

    layout, head, opened = _opened(file, wanted, leave_out if on_damaged else None, quote)
    check(layout.names)
    if to_read is not None:
        wanted = to_read(_first_rows(layout, head, quote))
    count, matrix = RowCount(layout.names, layout.n_rows), MatrixCheck(layout)
    options = pa.csv.ConvertOptions(
        include_columns=[name for name in layout.names if name in wanted],
        column_types=dict.fromkeys(wanted, pa.string()),
        strings_can_be_null=False,
    )
    with named_faults("the CSV is damaged", first_line=layout.first_line):
        for batch in opened(options):
            columns = batch.columns
            if not layout.quotes:
                columns = [without_blanks(column) for column in columns]
            rows = pa.RecordBatch.from_arrays(columns, batch.schema.names)
            count.add(rows)
            matrix.look(rows)
            yield rows
    count.n_rows += n_damaged
    count.end()


def csv_header(
    file: BinaryIO,
    wanted: Sequence[str],
    *,
    on_damaged: OnDamaged | None = None,
    quote: Quote | None = None,
) -> tuple[list[str], int, "OpenCSV"]:
    """Names of the columns, the line of the first row, and a reader of the rows of some columns.

    ``on_damaged`` as of `csv_batches`.
    """
    layout, _, opened = _opened(file, wanted, on_damaged, quote)
    return layout.names, layout.first_line, opened


def n_csv_columns(file: BinaryIO) -> int:
    """Number of columns of the header, 0 where there is none; the file is left where it stood."""
    start = file.tell()
    try:
        return len(layout_of(file, ())[0].names)
    except BadUpload:
        return 0
    finally:
        file.seek(start)


def _opened(
    file: BinaryIO, wanted: Sequence[str], on_damaged: OnDamaged | None, quote: Quote | None
) -> tuple[Layout, bytes, OpenCSV]:
    layout, head = layout_of(file, wanted, quote)
    text = CheckedText(
        head,
        file,
        separator=layout.separator,
        n_columns=len(layout.names),
        quote=quote,
        comments_until=layout.first_line if layout.has_comments else None,
    )
    leave_out = None if on_damaged is None else _LeaveOut(layout, on_damaged)

    def read(options: pa.csv.ConvertOptions) -> Iterator[pa.RecordBatch]:
        return cast(
            "Iterator[pa.RecordBatch]",
            pa.csv.open_csv(
                text,
                read_options=pa.csv.ReadOptions(
                    use_threads=False,  # with threads no row is named in errors
                    skip_rows=layout.first_line - 1,
                    column_names=layout.names,  # Arrow reads no header that was not counted
                ),
                parse_options=_parse_options(layout, quote, leave_out),
                convert_options=options,
            ),
        )

    return layout, head, read


def _first_rows(layout: Layout, head: bytes, quote: Quote | None) -> pa.Table:
    """Whole lines of the first bytes, as text; no rows where they cannot be read alone."""
    lines = head[:_LOOKED_AT]
    lines = lines[: lines.rfind(b"\n") + 1] if len(head) > _LOOKED_AT else lines
    with suppress(pa.ArrowException):
        return pa.csv.read_csv(
            pa.BufferReader(lines),
            read_options=pa.csv.ReadOptions(
                use_threads=False, skip_rows=layout.first_line - 1, column_names=layout.names
            ),
            parse_options=_parse_options(layout, quote, _LeaveOut(layout, lambda *_line: None)),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(layout.names, pa.string()), strings_can_be_null=False
            ),
        )
    return pa.table({name: pa.array([], pa.string()) for name in layout.names})


def _parse_options(
    layout: Layout, quote: Quote | None, leave_out: Callable[[pa.csv.InvalidRow], str] | None
) -> pa.csv.ParseOptions:
    return pa.csv.ParseOptions(
        delimiter=layout.separator,
        quote_char=False if quote == "none" else '"',
        newlines_in_values=quote != "none",  # else a block may end within a quoted one
        invalid_row_handler=leave_out,
    )


def without_blanks(column: pa.Array) -> pa.Array:
    """A column of text without blanks around its values, which people type behind commas."""
    if not len(column) or not pa.types.is_string(column.type):
        return column
    offsets, codes = text_of(column)
    if offsets[0] == offsets[-1]:
        return column
    some = offsets[1:] > offsets[:-1]
    firsts, lasts = codes[offsets[:-1][some]], codes[offsets[1:][some] - 1]
    if min(firsts.min(), lasts.min()) > ord(" "):
        return column
    return pc.ascii_trim_whitespace(column)


class _LeaveOut:
    """Leaves lines out that have too few or too many fields, and passes them on.

    Arrow calls it only for lines in UTF-8. It refuses the others, but prints a traceback first,
    which is kept from the terminal.
    """

    def __init__(self, layout: Layout, on_damaged: OnDamaged) -> None:
        self._layout = layout
        self._on_damaged = on_damaged
        _keep_from_terminal()

    def __call__(self, row: pa.csv.InvalidRow) -> str:
        """Arrow's word for a line that is left out."""
        rule = fields_rule(row.expected_columns, row.actual_columns)
        text = excerpt(" ".join(row.text.split()))
        self._on_damaged(row.number - self._layout.first_line, rule, text)
        return "skip"


@cache
def _keep_from_terminal() -> None:
    """Print no traceback of lines that are not UTF-8; once in a process."""
    hook = sys.unraisablehook

    def tell(unraisable: Any) -> None:
        if not isinstance(unraisable.object, _LeaveOut):
            hook(unraisable)

    sys.unraisablehook = tell


def converted(column: pa.Array, wanted: pa.DataType, name: str, first_row: int) -> pa.Array:
    """A column of strings as another type; BadUpload with the first row that does not fit."""
    if column.type == wanted:
        return column
    is_whole = pa.types.is_integer(wanted)
    if is_whole and column.type == pa.string():
        _require_as_written(column, name, first_row)
    if _casts(column, wanted):
        return column.cast(wanted)
    if is_whole:  # 1.0, as pandas writes beside missing ones
        whole = pc.replace_substring_regex(column, pattern=r"\.0+$", replacement="")
        if _casts(whole, wanted):
            return whole.cast(wanted)
    first, n_rows = 0, len(column)  # bisect for the first bad row, never a loop over rows
    while n_rows > 1:
        half = n_rows // 2
        if _casts(column.slice(first, half), wanted):
            first, n_rows = first + half, n_rows - half
        else:
            n_rows = half
    rule = "a 64-bit integer" if is_whole else "a number"
    value = str(column[first].as_py())
    raise BadUpload(
        f"column {name!r} must hold {rule} in every row{_way_to_number(value, is_whole=is_whole)}",
        argument=name,
        row=first_row + first,
        value=value,
    )


def _way_to_number(value: str, *, is_whole: bool) -> str:
    """How a value becomes a number, as the end of an error; empty where nobody can tell."""
    if is_whole and value.isdecimal():
        return "; a graph with node_ids='string' takes any"
    if is_whole:
        return ""
    if value.lower() in {"true", "false", "yes", "no"}:
        return "; write 1 and 0 for truth values"
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", value):
        return "; write decimals with a point, and nothing between thousands"
    if re.search(r"[0-9]", value) and re.search(r"[%,'\s$\u00a3\u20ac\u00a5]|[A-Z]{3}", value):
        return "; write numbers alone, without %, currency or marks between thousands"
    return ""


def _require_as_written(column: pa.Array, name: str, first_row: int) -> None:
    """Raise BadUpload with the first integer that is not written as it is printed: 01, +1, 0x1."""
    offsets, codes = text_of(column)
    rows = np.flatnonzero(offsets[1:] > offsets[:-1] + 1)
    rows = rows[_BEGINS_ODDLY[codes[offsets[rows]]]]
    is_odd = pc.match_substring_regex(column.take(pa.array(rows)), r"^(\+|-?0[0-9xX]|-0$)")
    place = pc.index(is_odd, value=True).as_py()
    if place >= 0:
        row = int(rows[place])
        raise BadUpload(
            f"column {name!r} must hold integers without leading zeros, plus or 0x. Else 01 "
            "and 1 would be one node; node_ids='string' makes a graph that keeps them apart",
            argument=name,
            row=first_row + row,
            value=column[row].as_py(),
        )


def _casts(column: pa.Array, wanted: pa.DataType) -> bool:
    try:
        column.cast(wanted)
    except pa.ArrowInvalid:
        return False
    return True
