"""Rows that are bad for the reason that another one is, found all at once.

A cell that breaks a rule breaks it in every row, so that thousands of rows with the same empty
field, or with negative weights, need not be read one by one. Where rows have operations, only those
of the same one are alike.
"""

from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import AnyArray, BoolArray
from peewit.streaming.edges.bad_table import BadTable, excerpt
from peewit.streaming.edges.column_mapping import EdgeColumns

_NEGATIVE: Final = r"^-([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def like_rows(
    rows: pa.RecordBatch | list[Any], place: int, fault: BadTable, columns: EdgeColumns
) -> dict[int, str | None]:
    """Places of the rows that break the rule of a fault, its own too, each with what stands there.

    Only the row itself where the fault is not of one cell of an id or weight.
    """
    name, alone, op = fault.argument, {place: fault.value}, columns.op
    if name not in {columns.src, columns.dst, columns.weight} - {"time"}:  # as all times are called
        return alone
    if isinstance(rows, list):
        names = [name] if op is None else [name, op]
        row = rows[place]
        if not isinstance(row, dict) or name not in row or not _is_told(row[name], fault):
            return alone
        found = np.flatnonzero(_like_objects(rows, place, names))
        return alone | dict.fromkeys(found.tolist(), fault.value)
    if rows.schema.names.count(name) != 1:
        return alone
    try:
        cell = rows.column(name)[place].as_py()
    except UnicodeDecodeError:
        return alone
    if not _is_told(cell, fault):
        return alone
    is_like, numbers = _like_cells(rows.column(name), place, fault)
    if op is not None and op in rows.schema.names:
        is_like &= _equal_cells(rows.column(op), place)
    found = np.flatnonzero(is_like)
    values = [fault.value] * len(found) if numbers is None else map(str, numbers[found])
    return dict(zip(found.tolist(), values, strict=True)) | alone


def _is_told(cell: object, fault: BadTable) -> bool:
    """Whether the fault is of this cell, and not of two together."""
    told = None, "''", "null", str(cell), excerpt(str(cell)), excerpt(repr(cell))
    return fault.value in told or _is_number(cell, fault.value)


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
