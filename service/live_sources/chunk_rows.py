"""Rows of chunks as Python values: ids, labels, operations and places."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.live_sources.node_columns import PLACE
from peewit.service.tables.uploads.json_labels import values_of
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.operations import INSERT, OPERATION_NUMBERS


def holds_ids(kind: pa.DataType) -> bool:
    """Whether values of a type can be written as text; lists and structs cannot."""
    try:
        as_text(pa.chunked_array([], kind))
    except pa.ArrowNotImplementedError:
        return False
    return True


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as text; invalid UTF-8 stays as it is, for whoever checks rows."""
    options = pc.CastOptions(pa.large_string(), allow_invalid_utf8=True)
    return pc.cast(column, options=options)


def as_ids(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column as ids of the graph's type; as text if some are invalid, unchanged if all are."""
    try:
        return pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return as_text(column) if holds_ids(column.type) else column


def ids_of(table: pa.Table, kind: pa.DataType, of_kind: str = "") -> list[Any]:
    """The nodes of a chunk: ids of the graph's type, or invalid ones as they are."""
    column = table.column("node")
    if not isinstance(column.type, pa.JsonType):
        column = as_ids(column, kind)
    values = _values(column)
    if not of_kind:
        return values
    return [f"{of_kind}:{each}" if isinstance(each, str | int) else each for each in values]


def labels_of(table: pa.Table) -> list[Any]:
    """The labels of a chunk: decimals as numbers, times and booleans as text; None without one."""
    if "label" not in table.column_names:
        return [None] * table.num_rows
    column = table.column("label")
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        column = column.cast(pa.string())
    values = _values(column)
    if pa.types.is_decimal(kind):
        number = float if kind.scale else int
        values = [None if value is None else number(value) for value in values]
    return [str(value).lower() if isinstance(value, bool) else value for value in values]


def operations_of(table: pa.Table) -> list[str | None]:
    """The operation names of a chunk's rows; None where a row has none."""
    if "op" not in table.column_names:
        return [None] * table.num_rows
    return _values(table.column("op"))


def operation_number(name: object) -> int:
    """Number of an operation by its name, in any case; raises `BadUpload` for others."""
    number = INSERT if name is None else OPERATION_NUMBERS.get(str(name).lower())
    if number is None:
        rule = f"'op' must be one of {', '.join(OPERATION_NUMBERS)}"
        raise BadUpload(rule, argument="op", value=name)
    return number


def places_of(table: pa.Table, label: str) -> list[str]:
    """The place of each row, for people; within chunk ``label`` where the source names none."""
    if PLACE in table.column_names:
        return list(table.column(PLACE).to_pylist())
    return [f"{label} row {row}" for row in range(table.num_rows)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Python values of a column; invalid UTF-8 as bytes, which every rule refuses."""
    try:
        return values_of(column)
    except UnicodeDecodeError:
        return [_decode(value) for value in pc.cast(column, pa.large_binary()).to_pylist()]


def _decode(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value
