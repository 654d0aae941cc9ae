"""Table heads: column names and first rows of a table, before its columns are assigned."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet

from peewit.streaming.edges.arrow_faults import named_faults
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.csv.tables import OpenCSV, csv_header
from peewit.streaming.edges.json_tables import MAX_LINE_BYTES, json_rows
from peewit.streaming.edges.reading_options import Quote
from peewit.streaming.edges.table_formats import Format

N_ROWS: Final = 5

MAX_COLUMNS: Final = 1000
"""Columns up to which people choose among them."""
_ARROW_MAGIC: Final = b"ARROW1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHead:
    """Column names and first rows of a table."""

    names: Sequence[str]  # ``#1``, ``#2`` of text without a header line
    rows: Sequence[Sequence[str]]  # as text, long values cut

    @property
    def has_names(self) -> bool:
        """Whether the columns have names, not only places."""
        return not all(name.startswith("#") for name in self.names)

    def without_rows(self, name: str) -> str:
        """Message for a file of this name that has columns and no rows."""
        columns = ", ".join(self.names)
        what = "column" if len(self.names) == 1 else "columns"
        return f"{name} has no rows, only the names of its {what}: {columns}."

    def are_integers(self, name: str) -> bool:
        """Whether the first values of a column are all whole numbers."""
        place = self.names.index(name)
        values = [row[place] for row in self.rows]
        return bool(values) and all(each.removeprefix("-").isdecimal() for each in values)


def table_head(
    file: BinaryIO,
    table_format: Format,
    *,
    has_names: bool = True,
    quote: Quote | None = None,
    max_columns: float = MAX_COLUMNS,
) -> TableHead:
    """Column names and first rows of a table in a seekable file at its start.

    ``has_names`` says whether the first line of text names the columns; a line of numbers never
    does; ``quote`` whether text quotes. Raises `peewit.streaming.edges.bad_table.BadUpload` where
    it cannot be read or has no column.
    """
    match table_format:
        case Format.CSV:
            head = _csv_head(file, quote, has_names=has_names)
        case Format.NDJSON:
            head = _json_head(file)
        case Format.ARROW | Format.PARQUET:
            head = _stored_head(file, table_format)
    if not head.names:
        raise BadUpload("the table must have at least one column")
    if len(head.names) > max_columns:
        raise BadUpload(
            f"the table must have at most {max_columns} columns to choose among, got "
            f"{len(head.names)}"
        )
    return head


def _csv_head(file: BinaryIO, quote: Quote | None, *, has_names: bool) -> TableHead:
    start = file.tell()
    try:
        names, first_line, opened = _header(file, () if has_names else ("#1",), quote)
    except BadUpload:
        if not has_names:
            raise
        file.seek(start)  # the first line holds numbers, not names
        names, first_line, opened = _header(file, ("#1",), quote)
    if len(names) == 1 and len(parts := names[0].split(" ")) > 1:
        file.seek(start)  # separated by blanks, which only the wanted names reveal
        is_data = all(map(_is_number, parts))
        names, first_line, opened = _header(file, ("#1",) if is_data else parts, quote)
    text = dict.fromkeys(names, pa.string())
    options = pa.csv.ConvertOptions(column_types=text, strings_can_be_null=False)
    with named_faults("the CSV is damaged", first_line=first_line):
        batch = next(iter(opened(options)), None)
    rows = [] if batch is None else _columns_as_rows([each[:N_ROWS] for each in batch.columns])
    return TableHead(names=names, rows=rows)


def _header(
    file: BinaryIO, wanted: Sequence[str], quote: Quote | None
) -> tuple[list[str], int, OpenCSV]:
    """Result of `csv_header`; lines with too few or too many fields are skipped."""
    return csv_header(file, wanted, on_damaged=lambda _row, _rule, _text: None, quote=quote)


def _json_head(file: BinaryIO) -> TableHead:
    lines = io.BytesIO(b"".join(file.readline(MAX_LINE_BYTES + 1) for _ in range(N_ROWS)))
    rows = [row for chunk in json_rows(lines) for row in chunk]
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise BadUpload("a row must be an object", row=number, value=row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return TableHead(names=names, rows=[_values(row, names) for row in rows])


def _stored_head(file: BinaryIO, table_format: Format) -> TableHead:
    kind = "Parquet" if table_format is Format.PARQUET else "Arrow"
    with named_faults(f"it is not readable as {kind}"):
        if table_format is Format.PARQUET:
            parquet = pa.parquet.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
            schema, batches = parquet.schema_arrow, parquet.iter_batches(batch_size=N_ROWS)
        elif _begins_with(file, _ARROW_MAGIC):
            stored = pa.ipc.open_file(file)
            schema = stored.schema
            batches = (stored.get_batch(k) for k in range(stored.num_record_batches))
        else:
            batches = pa.ipc.open_stream(file)
            schema = batches.schema
        first = next((batch for batch in islice(batches, N_ROWS) if batch.num_rows), None)
    columns = [] if first is None else [each[:N_ROWS] for each in first.columns]
    return TableHead(names=schema.names, rows=_columns_as_rows(columns))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _begins_with(file: BinaryIO, magic: bytes) -> bool:
    start = file.tell()
    head = file.read(len(magic))
    file.seek(start)
    return head == magic


def _columns_as_rows(columns: Sequence[pa.Array]) -> list[list[str]]:
    values = [[_shown(each) for each in column.to_pylist()] for column in columns]
    return [list(row) for row in zip(*values, strict=True)]


def _values(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [_shown(row.get(name)) for name in names]


def _shown(value: object) -> str:
    return "" if value is None else excerpt(str(value))
