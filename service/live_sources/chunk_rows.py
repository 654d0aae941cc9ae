"""Rows of chunks as Python values: ids, labels, operations and places."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.live_sources.node_columns import PLACE
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.operations import INSERT, OPERATION_NUMBERS


def holds_ids(kind: pa.DataType) -> bool:
    """Whether values of a type can be written as text, as lists and structs cannot."""
    try:
        as_text(pa.chunked_array([], kind))
    except pa.ArrowNotImplementedError:
        return False
    return True


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as text; bytes that are no UTF-8 stay what they are, for whoever checks rows."""
    options = pc.CastOptions(pa.large_string(), allow_invalid_utf8=True)
    return pc.cast(column, options=options)


def as_ids(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column of ids as the graph has them; as text where some are none, as it is where all."""
    try:
        return pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return as_text(column) if holds_ids(column.type) else column


def ids_of(table: pa.Table, kind: pa.DataType) -> list[Any]:
    """The nodes of a chunk; ids of a type that the graph has, or what else there is."""
    column = table.column("node")
    if not isinstance(column.type, pa.JsonType):
        column = as_ids(column, kind)
    return _values(column)


def labels_of(table: pa.Table) -> list[Any]:
    """The labels of a chunk: decimals as numbers, times and truth as text; None where none is."""
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
    """What the rows of a chunk say that they do; None where one does not."""
    if "op" not in table.column_names:
        return [None] * table.num_rows
    return _values(table.column("op"))


def operation_number(name: object) -> int:
    """An operation by its name, in any case; raises BadUpload for what is none."""
    number = INSERT if name is None else OPERATION_NUMBERS.get(str(name).lower())
    if number is None:
        rule = f"'op' must be one of {', '.join(OPERATION_NUMBERS)}"
        raise BadUpload(rule, argument="op", value=name)
    return number


def places_of(table: pa.Table, label: str) -> list[str]:
    """Where each row stands; within the chunk of a label, where the source does not say."""
    if PLACE in table.column_names:
        return list(table.column(PLACE).to_pylist())
    return [f"{label} row {row}" for row in range(table.num_rows)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Python values of a column; text that is no UTF-8 as bytes, which no rule lets pass."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        values = [_decoded(value) for value in pc.cast(column, pa.large_binary()).to_pylist()]
    if isinstance(column.type, pa.JsonType):
        values = [None if value is None else json.loads(value) for value in values]
    return values


def _decoded(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value
