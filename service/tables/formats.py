"""Writer of tables in each of the four formats.

Rows are written a batch at a time, so that a table may be larger than memory. Uploads are read in
`peewit.service.tables.uploads`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from peewit.streaming.edges.table_formats import Format

ROWS_PER_CHUNK: Final = 1 << 15
"""Rows written at once; a Parquet row group or Arrow batch is as large as the batch given."""

_NESTING: Final = frozenset({Format.ARROW, Format.PARQUET})
"""Formats with lists; in others lists become text."""

MAX_EXACT_INTEGER: Final = 2**53
"""Larger integers become strings, since JSON readers that use floats would lose digits."""


def encode(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    table_format: Format,
    *,
    safe_csv: bool = False,
) -> Iterator[bytes]:
    """Bytes of a table, in pieces that are never empty.

    With ``safe_csv`` text of CSV that spreadsheets would run has an apostrophe before it. Each
    batch is written before the next is asked for. Metadata of ``schema`` is kept where the format
    has room for it.
    """
    if table_format is Format.NDJSON:
        yield from _json_lines(batches)
        return
    sink = _Sink()
    with _writer(sink, schema, table_format) as writer:
        for batch in batches:
            for piece in _pieces(batch, table_format):
                flat = piece if table_format in _NESTING else _flat(piece)
                is_quoted = safe_csv and table_format is Format.CSV
                writer.write_batch(_without_formulas(flat) if is_quoted else flat)
                yield from sink.drain()
    yield from sink.drain()


def json_integer(value: int) -> int | str:
    """An integer for JSON: a string where a float would not hold it exactly."""
    return value if -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER else str(value)


class _Sink:
    """A file that is written to and drained in turns."""

    def __init__(self) -> None:
        self.closed = False
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        """Keep a copy, since Arrow reuses its buffers."""
        piece = bytes(data)
        self._pieces.append(piece)
        return len(piece)

    def flush(self) -> None:
        """Do nothing: nothing is buffered elsewhere."""

    def drain(self) -> Iterator[bytes]:
        """The bytes written since the last call."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        if data:
            yield data


def _writer(sink: _Sink, schema: pa.Schema, table_format: Format) -> Any:
    file = pa.PythonFile(sink, mode="w")
    match table_format:
        case Format.ARROW:
            return pa.ipc.new_stream(file, schema)
        case Format.PARQUET:
            return pa.parquet.ParquetWriter(file, schema)
        case _:
            return pa.csv.CSVWriter(file, _flat(schema.empty_table()).schema)


def _flat(rows: Any) -> Any:
    """Rows, or an empty table, with lists as text of values joined by bars."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_list(field.type):
            values = rows.column(place).cast(pa.list_(pa.string()))
            rows = rows.set_column(place, field.name, pc.binary_join(values, "|"))
    return rows


def _without_formulas(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with an apostrophe before text that a spreadsheet would take for a formula."""
    columns = []
    for column in rows.columns:
        if pa.types.is_dictionary(column.type):
            words = _as_plain_text(column.dictionary)
            columns.append(pa.DictionaryArray.from_arrays(column.indices, words))
        else:
            columns.append(_as_plain_text(column))
    return pa.record_batch(columns, schema=rows.schema)


def _as_plain_text(column: pa.Array) -> pa.Array:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    quote, nothing = (pa.scalar(each, column.type) for each in ("'", ""))
    quoted = pc.binary_join_element_wise(quote, column, nothing)
    return pc.if_else(pc.match_substring_regex(column, _FORMULA), quoted, column)


def _pieces(batch: pa.RecordBatch, table_format: Format) -> Iterator[pa.RecordBatch]:
    """The batch itself where it becomes one unit of the file, else slices of it."""
    if table_format in _NESTING:
        yield batch
        return
    for first in range(0, batch.num_rows, ROWS_PER_CHUNK):
        yield batch.slice(first, ROWS_PER_CHUNK)


def _json_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        for piece in _pieces(batch, Format.NDJSON):
            if piece.num_rows:
                yield _json_objects(piece)


def _json_objects(batch: pa.RecordBatch) -> bytes:
    """A line per row, built by columns, ten times as fast as by rows."""
    parts: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        opening = "," if parts else "{"
        parts += [_text(f"{opening}{orjson.dumps(name).decode()}:"), _json_values(column)]
    lines = _join(*parts, _text("}\n"))
    _, _, data = lines.buffers()
    return bytes(memoryview(data)[: pc.sum(pc.binary_length(lines)).as_py()])


def _json_values(column: pa.Array) -> pa.Array:
    """Each value as JSON; 32-bit floats are written short, 0.1 and not 0.10000000149."""
    kind = column.type
    if pa.types.is_list(kind):
        offsets = pc.subtract(column.offsets, column.offsets[0])
        values = pa.ListArray.from_arrays(offsets, _json_values(column.flatten()).cast(pa.string()))
        joined = pc.binary_join(values, ",").cast(pa.large_string())
        return _join(_text("["), joined, _text("]"))
    if pa.types.is_dictionary(kind):
        return pc.fill_null(_json_values(column.dictionary).take(column.indices), "null")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.fill_null(_json_strings(column.cast(pa.large_string())), "null")
    values = column.cast(pa.large_string())
    if pa.types.is_integer(kind):
        is_large = pc.or_(
            pc.greater(column, MAX_EXACT_INTEGER), pc.less(column, -MAX_EXACT_INTEGER)
        )
        values = pc.if_else(is_large, _join(_QUOTE, values, _QUOTE), values)
    elif pa.types.is_floating(kind):
        is_whole = pc.match_substring_regex(values, r"^-?\d+$")
        values = pc.if_else(is_whole, _join(values, _text(".0")), values)
        values = pc.if_else(pc.is_finite(column), values, None)
    return pc.fill_null(values, "null")


def _json_strings(strings: pa.Array) -> pa.Array:
    if not pc.any(pc.match_substring_regex(strings, _ESCAPED)).as_py():
        return _join(_QUOTE, strings, _QUOTE)
    escaped = (
        None if value is None else orjson.dumps(value).decode() for value in strings.to_pylist()
    )
    return pa.array(escaped, pa.large_string())


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _text(""))


_QUOTE: Final = _text('"')
_FORMULA: Final = r"^[=+\-@\t\r]"
_ESCAPED: Final = r'["\\\x00-\x1f]'
