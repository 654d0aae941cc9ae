"""Tables of features as they come: columns of any kind, encoded as `streaming` decides."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.tables.uploads.arrow_and_parquet import stored_batches, stored_names
from peewit.service.tables.uploads.csv_features import csv_ids
from peewit.service.tables.uploads.feature_deletes import require_none_deleted
from peewit.service.tables.uploads.json_features import is_by_name, json_features, with_edges
from peewit.service.tables.uploads.limits import UploadLimits, columns_within, counted
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.csv.strays import require_no_strays
from peewit.streaming.edges.csv.tables import converted, csv_batches, csv_header
from peewit.streaming.edges.json_tables import MAX_LINE_BYTES, json_ids, json_rows
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.features.checked_tables import COLUMNS, EDGES, NODE, order_of, with_names
from peewit.streaming.features.encoding import (
    PADDED,
    SAMPLE_ROWS,
    ColumnWishes,
    Encoding,
    encoded_batch,
)

LISTS: Final = (*COLUMNS[1:], EDGES)
"""Columns of tables that hold features as lists already."""


def is_raw(
    file: BinaryIO, table_format: Format, node: str | None, limits: UploadLimits | None
) -> bool:
    """Whether a table has no lists of features, and in text not numbers alone.

    The file is left where it stood; a damaged one is none, nor one beyond the limits.
    """
    start = file.tell()
    try:
        match table_format:
            case Format.CSV:
                return _has_more_than_numbers(file, node, limits)
            case Format.NDJSON:
                names: Sequence[str] = list(orjson.loads(file.readline(MAX_LINE_BYTES)))
            case _:
                names = stored_names(file, table_format, limits)
    except (ValueError, TypeError, OSError):  # told by whoever reads it
        return False
    finally:
        file.seek(start)
    return any(name != node for name in names) and not set(names) & set(LISTS)


def encoded_batches(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind | None,
    node: str,
    *,
    encoding: Encoding | None,
    wishes: ColumnWishes,
    limits: UploadLimits | None,
) -> Iterator[pa.RecordBatch]:
    """Batches of lists of features, and of the column ``node`` unless ``node_kind`` is None.

    Without an ``encoding`` the first rows decide, but for what is wished of columns. Raises
    `BadUpload` and `BadFeatures`.
    """
    if encoding is not None and wishes.texts and set(wishes.texts) != set(encoding.texts):
        kept = ", ".join(encoding.texts) or "none"
        rule = f"text must be left out, as the features there were made with {kept} as texts"
        raise BadUpload(f"{rule}; replace the whole set to change that", argument="text")
    if encoding is not None and (used := set(wishes.without) - set(encoding.unwanted)):
        rule = f"without must be left out, as the features there were made from {min(used)!r}, too"
        raise BadUpload(f"{rule}; replace the whole set to change that", argument="without")
    batches = columns_of_nodes(file, table_format, node_kind, node, limits, unwanted=wishes.without)
    held: list[pa.RecordBatch] = []
    if encoding is None:
        n_rows = 0
        for batch in batches:
            held.append(batch)
            n_rows += batch.num_rows
            if n_rows >= SAMPLE_ROWS:
                break
        if not n_rows:
            return
        alike = [each for each in held if each.schema == held[0].schema]
        sample = pa.Table.from_batches(alike).slice(0, SAMPLE_ROWS)
        sample = sample.select([name for name in sample.column_names if name != node])
        encoding = Encoding.of(sample, wishes)
    first_row = 0
    for batch in counted(chain(held, batches), limits):
        if node_kind is not None:
            require_none_deleted(batch, {node, *encoding.texts}, first_row)
            _require_known(batch.schema.names, encoding, node)
        yield from encoded_batch(batch, encoding, node if node_kind else None, first_row)
        first_row += batch.num_rows


def named_batches(
    file: BinaryIO, table_format: Format, names: Sequence[str], limits: UploadLimits | None
) -> Iterator[pa.RecordBatch]:
    """Batches of lists of features, of columns that are numbers of these names.

    Raises `BadUpload` and `BadFeatures`.
    """
    first_row = 0
    for batch in counted(columns_of_nodes(file, table_format, None, NODE, limits), limits):
        own = [name for name in batch.schema.names if name != NODE]
        order_of(own, names)
        values = np.empty((batch.num_rows, len(own)))
        for place, name in enumerate(own):
            column = batch.column(name)
            try:
                numbers = converted(column, pa.float64(), name, first_row)
            except pa.ArrowNotImplementedError as error:
                rule = f"column {name!r} must hold numbers"
                raise BadUpload(rule, argument=name, value=f"type {column.type}") from error
            values[:, place] = numbers.to_numpy(zero_copy_only=False)
        yield with_names(pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), len(own)), own)
        first_row += batch.num_rows


def json_points(
    chunks: Iterable[list[Any]],
    edge_kind: NodeKind | None,
    *,
    names: Sequence[str] | None,
    encoding: Encoding | None,
    limits: UploadLimits | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of points: lists of features, or objects with the columns of features by name.

    Columns become features by ``encoding``, or are numbers of these ``names``. Points may have
    edges to nodes of ``edge_kind``. Raises `BadUpload` and `BadFeatures`.
    """
    rest = iter(chunks)
    first = next(rest, None)
    if first is None:
        return
    chunks = chain([first], rest)
    if encoding is None or not is_by_name(first[0]):
        batches = json_features(chunks, None, edge_kind=edge_kind, names=names)
        yield from counted(batches, limits)
        return
    first_row = 0
    for rows, batch in _named_rows(chunks, limits):
        start = 0
        for some in encoded_batch(batch, encoding, None, first_row):
            own = rows[start : start + some.num_rows]
            yield with_edges(some, own, edge_kind, first_row + start)
            start += some.num_rows
        first_row += batch.num_rows


def _named_rows(
    chunks: Iterable[list[Any]], limits: UploadLimits | None
) -> Iterator[tuple[list[Any], pa.RecordBatch]]:
    """Rows, and their columns without edges."""
    held: list[list[Any]] = []

    def bare() -> Iterator[list[Any]]:
        for rows in chunks:
            held.append(rows)
            yield [
                {name: value for name, value in row.items() if name != EDGES}
                if isinstance(row, dict)
                else row
                for row in rows
            ]

    batches = _json_columns(bare(), None, NODE, columns_within(limits))
    for batch in counted(batches, limits):
        yield held.pop(), batch


def _require_known(names: Sequence[str], encoding: Encoding, node: str) -> None:
    """Refuse a column that the features there were not made from."""
    known = {
        node,
        *encoding.left_out,
        *encoding.unwanted,
        *(each.name for each in encoding.columns),
    }
    for name in names:
        if name not in known:
            raise BadUpload(
                f"column {name!r} must be left out: the features there were not made from it; "
                "replace the whole set to have it among them",
                argument=name,
            )


def table_columns(
    file: BinaryIO, table_format: Format, *, first: str = NODE
) -> Iterator[pa.RecordBatch]:
    """All columns of a table as they stand, nested ones empty; raises `BadUpload`.

    The name of its ``first`` column tells what separates the columns of text; ``#1`` says that it
    has no line of names, and columns are called by their places.
    """
    if table_format is Format.NDJSON:
        return _json_columns(_emptied(json_rows(file)), None, NODE, lambda _names: None)
    return columns_of_nodes(file, table_format, None, first, None)


def _emptied(
    chunks: Iterable[list[Any]], names: Sequence[str] | None = None
) -> Iterator[list[Any]]:
    """Rows without values in some columns; None: without nested ones."""

    def kept(name: str, value: object) -> object:
        is_empty = isinstance(value, dict | list) if names is None else name in names
        return None if is_empty else value

    for rows in chunks:
        yield [
            {name: kept(name, value) for name, value in row.items()}
            if isinstance(row, dict)
            else row
            for row in rows
        ]


def columns_of_nodes(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind | None,
    node: str,
    limits: UploadLimits | None,
    *,
    unwanted: Sequence[str] | None = (),
) -> Iterator[pa.RecordBatch]:
    """All columns as they stand, but for unwanted ones of JSON (None: nested ones).

    Ids are of the type of the graph's, unless it is None.
    """

    def check(names: Sequence[str]) -> None:
        for name in names if node_kind is None else (*names, node):
            if (count := names.count(name)) != 1:
                held = ", ".join(names)
                rule = f"column {name!r} must stand once; the file has {excerpt(held)}"
                if count:
                    rule += ": rename one"
                elif name == node:
                    rule += "; say node='COLUMN' with the name of the one that holds the nodes"
                raise BadUpload(rule, argument=name)

    match table_format:
        case Format.ARROW | Format.PARQUET:
            start = file.tell()
            names = stored_names(file, table_format, limits)
            file.seek(start)
            yield from stored_batches(file, table_format, names, limits, check=check)
        case Format.CSV:
            yield from _text_columns(file, node_kind, node, columns_within(limits, check))
        case Format.NDJSON:
            rows = json_rows(file) if unwanted == () else _emptied(json_rows(file), unwanted)
            yield from _json_columns(rows, node_kind, node, check)


def _text_columns(
    file: BinaryIO, node_kind: NodeKind | None, node: str, check: Callable[[Sequence[str]], None]
) -> Iterator[pa.RecordBatch]:
    start = file.tell()
    names, _, _ = csv_header(file, (node,))
    file.seek(start)
    first_row = 0
    for batch in csv_batches(file, names, check=check):
        if node_kind is not None:
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            pair = node, next((name for name in names if name != node), node)
            require_no_strays(by_name, pair, first_row, way="take such lines out")
            place = batch.schema.get_field_index(node)
            ids = csv_ids(batch.column(node), node_kind, node, first_row)
            yield batch.set_column(place, node, ids)
        else:
            yield batch
        first_row += batch.num_rows


def _json_columns(
    chunks: Iterable[list[Any]],
    node_kind: NodeKind | None,
    node: str,
    check: Callable[[Sequence[str]], None],
) -> Iterator[pa.RecordBatch]:
    first_row = 0
    names: list[str] | None = None
    for rows in chunks:
        for row, each in enumerate(rows, first_row):
            if not isinstance(each, dict):
                raise BadUpload("a row must be an object", row=row, value=each)
            if names is not None and not each.keys() <= set(names):
                name = next(name for name in each if name not in names)
                rule = f"column {name!r} must stand in the first {first_row:,} rows, too"
                raise BadUpload(rule, argument=name, row=row)
        names = names or list(dict.fromkeys(name for each in rows for name in each))
        check(names)
        columns = {
            name: _json_column([each.get(name) for each in rows], name, first_row)
            for name in names
            if name != node
        }
        if node_kind is not None:
            ids = [each.get(node) for each in rows]
            columns[node] = json_ids(ids, node, node_kind, first_row)
        yield pa.record_batch(columns)
        first_row += len(rows)


def _json_column(values: list[object], name: str, first_row: int) -> pa.Array:
    """Numbers or truth values where all are such, else text."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values])  # type: ignore[arg-type]
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    for row, value in enumerate(values, first_row):
        if isinstance(value, dict | list):
            rule = f"column {name!r} must hold numbers, text or truth values"
            raise BadUpload(rule, argument=name, row=row, value=value)
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _has_more_than_numbers(file: BinaryIO, node: str | None, limits: UploadLimits | None) -> bool:
    """Whether the first rows of a text hold a value that is no number, or none at all."""
    start = file.tell()
    names, _, _ = csv_header(file, () if node is None else (node,))
    columns_within(limits)(names)
    file.seek(start)
    others = [name for name in names if name != node]
    if len(set(names)) < len(names):
        return False
    for batch in csv_batches(file, names, check=lambda _names: None):
        try:
            for name in others:
                column = batch.column(name)
                column.cast(pa.float64())
                if pc.any(pc.match_substring_regex(column, PADDED)).as_py():
                    return True
        except pa.ArrowInvalid:
            return True
        return False
    return False
