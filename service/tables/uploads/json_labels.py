"""Labels of JSON objects as Arrow batches: each value comes back as it was sent."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import NoneType
from typing import Any, BinaryIO, Final

import pyarrow as pa

from peewit.service.tables.uploads.givers import ANNOTATOR
from peewit.service.tables.uploads.label_columns import LabelColumns
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.change_columns import is_state_column, may_be_changes
from peewit.streaming.edges.json_tables import json_rows, names_of, texts_of
from peewit.streaming.edges.node_ids import LIMIT, is_integer

_KINDS: Final[dict[type, pa.DataType]] = {str: pa.string(), int: pa.int64(), float: pa.float64()}


def ndjson_labels(
    file: BinaryIO,
    columns: LabelColumns,
    see_names: Callable[[list[str]], None] = lambda _names: None,
) -> Iterator[pa.RecordBatch]:
    """Batches of the lines of a file, whose labels may be booleans, as those of other files.

    ``see_names`` is called with the names of members of a batch.
    """
    first_row = 0
    for rows in json_rows(file):
        see_names(names_of(rows))
        for row in rows:
            for name in columns.of_labels if isinstance(row, dict) else ():
                if isinstance(row.get(name), bool):
                    row[name] = str(row[name]).lower()
        yield json_label_batch(rows, columns, first_row=first_row)
        first_row += len(rows)


def json_label_batch(
    rows: Sequence[Any], columns: LabelColumns, *, first_row: int = 0
) -> pa.RecordBatch:
    """The members of objects as columns, null where they are absent.

    Givers come as text, where an object has them. Raises `BadUpload` with the row that lacks a
    member that it must have.
    """
    *_, last = needed = columns.all[:1] if columns.names else columns.all
    others = f"some of {', '.join(columns.names)}" if columns.names else last
    for number, row in enumerate(rows, first_row):
        if not isinstance(row, dict):
            rule = f"a row must be an object with {columns.node} and {others}"
            raise BadUpload(rule, row=number, value=row)
        for name in needed if columns.missing_ids == "refuse" else needed[1:]:
            if name not in row:
                raise BadUpload(f"{name!r} is missing", argument=name, row=number)
    held = set().union(*rows)
    for name in set(columns.needed).difference(columns.all, held):
        raise BadUpload(f"column {name!r} is missing in every row", argument=name)
    for name in columns.names:
        alike = [other for other in held if other.casefold() == name.casefold()]
        if alike and name not in alike:
            raise BadUpload(f"column {name!r} is missing; rows have {alike[0]!r}", argument=name)
    batch = {columns.node: _as_they_come([row.get(columns.node) for row in rows])}
    for name in columns.of_labels:
        labels = [row.get(name) for row in rows]
        _require_whole_integers(labels, name, first_row)
        batch[name] = _as_they_come(labels)
    for name in columns.beside:
        if any(name in row for row in rows):
            is_annotator = columns.giver_of.get(name) == ANNOTATOR
            cells = [row.get(name) for row in rows]
            batch[name] = _texts(cells, name, first_row, is_annotator=is_annotator)
    for name in sorted(held.difference(batch, columns.beside)):
        cells = texts_of([row.get(name) for row in rows])
        if is_state_column(name) or may_be_changes(cells, name):
            batch[name] = cells
    return pa.RecordBatch.from_arrays(list(batch.values()), list(batch))


def values_of(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Python values of a column, those of JSON as it says."""
    values: list[Any] = column.to_pylist()
    if isinstance(column.type, pa.JsonType):
        return [None if value is None else json.loads(value) for value in values]
    return values


def _as_they_come(values: list[Any]) -> pa.Array:
    """Values of one type that Arrow has, or each as JSON."""
    kinds = set(map(type, values)) - {NoneType}
    if len(kinds) == 1 and (kind := _KINDS.get(kinds.pop())) is not None:
        with suppress(OverflowError, UnicodeEncodeError):  # refused later, as it was sent
            return pa.array(values, kind)
    texts = [None if value is None else json.dumps(value) for value in values]
    return pa.array(texts, pa.json_())


def _texts(cells: list[Any], name: str, first_row: int, *, is_annotator: bool) -> pa.Array:
    if set(map(type, cells)) <= {str, NoneType}:
        return pa.array(cells, pa.string())
    for row, cell in enumerate(cells if is_annotator else (), first_row):
        if cell is not None and not isinstance(cell, str) and not is_integer(cell):
            rule = f"{name!r} must be text or null"
            raise BadUpload(rule, argument=name, row=row, value=cell)
    return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def _require_whole_integers(labels: list[Any], name: str, first_row: int) -> None:
    """Refuse floats that JSON made of integers that are too large."""
    for row, label in enumerate(labels if float in set(map(type, labels)) else (), first_row):
        if isinstance(label, float) and LIMIT <= abs(label) < math.inf:
            rule = f"{name!r} must be a 64-bit integer or a number below 2^63"
            raise BadUpload(rule, argument=name, row=row, value=label)
