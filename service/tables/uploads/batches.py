"""Edges, features and points as Arrow batches, in any format."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa

from peewit.service.tables.uploads.arrow_and_parquet import (
    any_names,
    stored_batches,
    stored_to_read,
    surveyed_bytes,
)
from peewit.service.tables.uploads.csv_features import csv_features
from peewit.service.tables.uploads.feature_deletes import asks_for_deletes, require_none_deleted
from peewit.service.tables.uploads.json_features import json_features
from peewit.service.tables.uploads.limits import (
    BYTES_PER_COLUMN,
    UploadLimits,
    columns_within,
    counted,
)
from peewit.service.tables.uploads.raw_features import (
    encoded_batches,
    is_raw,
    json_points,
    named_batches,
)
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.csv.tables import csv_edges, n_csv_columns
from peewit.streaming.edges.json_tables import json_edges, json_rows, names_of, texts_of
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.features.checked_tables import DENSE_COLUMNS, EDGES, NODE, SPARSE_COLUMNS
from peewit.streaming.features.encoding import NO_WISHES, ColumnWishes, Encoding

_PER_BYTE_OF_CSV: Final = 8
_PER_BYTE_OF_JSON: Final = 32


def decoding_bytes(
    file: BinaryIO, table_format: Format | None, n_bytes: int, limits: UploadLimits
) -> int:
    """About the bytes that a body of ``n_bytes`` takes while it is decoded; None is JSON.

    Text is small numbers at worst, each of which becomes a number or an object.
    """
    match table_format:
        case Format.ARROW | Format.PARQUET:
            n_decoded = surveyed_bytes(file, table_format, limits)
        case Format.CSV:
            n_columns = n_csv_columns(file)
            n_decoded = _PER_BYTE_OF_CSV * n_bytes + n_columns * BYTES_PER_COLUMN
        case _:
            n_decoded = _PER_BYTE_OF_JSON * n_bytes
    return min(n_bytes + n_decoded, limits.decoded_bytes)


def edge_batches(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    *,
    columns: EdgeColumns = PLAIN,
    limits: UploadLimits | None = None,
    see_names: Callable[[Sequence[str]], None] = lambda _names: None,
    see_states: Callable[[Mapping[str, pa.Array]], None] = lambda _columns: None,
) -> Iterator[pa.RecordBatch]:
    """Batches of edges in order, ready for `peewit.streaming.edges.columns.read_columns`.

    ``file`` is seekable and read from its position. ``node_kind`` says how ids in CSV and JSON are
    read. Without ``limits`` a table may have any size, as files of this machine's owner may. Raises
    `BadUpload` or `peewit.streaming.edges.blocks.BadEdges` where the file cannot be read or a CSV
    lacks a column, and `TableTooLarge` beyond the limits, if possible before anything is decoded.
    ``see_names`` is called with the names of all columns, of JSON with those of some rows;
    ``see_states`` with the `EdgeColumns.states` of each batch, before it comes.
    """

    def check(names: Sequence[str]) -> None:
        columns.check(names)
        see_names(names)

    states: list[str] = []

    def to_read(first_rows: pa.Table) -> list[str]:
        states.extend(columns.states(first_rows.schema.names))
        return columns.to_read(first_rows)

    def see_rows(rows: list[Any]) -> None:
        names = names_of(rows)
        see_names(names)
        held = [row for row in rows if isinstance(row, dict)]
        of_rows = {name: [row.get(name) for row in held] for name in columns.states(names)}
        see_states({name: texts_of(cells) for name, cells in of_rows.items()})

    match table_format:
        case Format.ARROW | Format.PARQUET:
            further = stored_to_read(file, table_format, to_read, limits)
            wanted = tuple(dict.fromkeys((*columns, *further)))
            beside = tuple(states)
            batches = stored_batches(file, table_format, wanted, limits, check=check, beside=beside)
        case Format.CSV:
            within = columns_within(limits, check)
            batches = csv_edges(
                *(file, node_kind, columns),
                check=within,
                to_read=lambda first_rows: [*to_read(first_rows), *states],
            )
        case Format.NDJSON:
            batches = json_edges(file, node_kind, columns, see_rows=see_rows)
    for batch in counted(batches, limits):
        if states:
            held = [name for name in states if name in batch.schema.names]
            see_states({name: batch.column(name) for name in held})
        yield batch


def feature_batches(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind | None,
    *,
    node: str = NODE,
    edge_kind: NodeKind | None = None,
    encoding: Encoding | None = None,
    names: Sequence[str] | None = None,
    wishes: ColumnWishes = NO_WISHES,
    limits: UploadLimits | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of features in order, for `peewit.streaming.features.checked_tables`.

    In CSV every column except ``node`` is one number of the row, in the order of the header. With
    ``node_kind`` None rows are points, not nodes, with columns by ``names`` if they have no lists,
    which in NDJSON may have edges to nodes of ``edge_kind``. A table without lists of features, and
    in text with more than numbers, is encoded as it comes: by ``encoding``, or of nodes as its
    first rows say, but for what is wished of columns; so is any table without some of its columns.
    Raises `BadUpload` where the file cannot be read, or holds no columns that could be texts, and
    `TableTooLarge` as `edge_batches` does.
    """
    if node_kind is None and table_format is Format.NDJSON:
        rows = json_rows(file)
        yield from json_points(rows, edge_kind, names=names, encoding=encoding, limits=limits)
        return
    is_text = table_format is Format.CSV and (encoding is not None or bool(wishes.without))
    may_be_raw = encoding is not None or node_kind is not None
    if is_text or (may_be_raw and is_raw(file, table_format, node if node_kind else None, limits)):
        yield from encoded_batches(
            file, table_format, node_kind, node, encoding=encoding, wishes=wishes, limits=limits
        )
        return
    is_named = node_kind is None and names is not None and table_format is not Format.CSV
    if is_named and is_raw(file, table_format, NODE, limits):
        yield from named_batches(file, table_format, names or (), limits)
        return
    if wishes.texts:
        rule = "text must be left out of a table of lists, or of numbers alone"
        raise BadUpload(f"{rule}, got {wishes.texts[0]!r}", argument="text")
    if wishes.without:
        rule = "without must be left out of a table of lists, whose columns have no names"
        raise BadUpload(f"{rule}, got {wishes.without[0]!r}", argument="without")
    match table_format:
        case Format.ARROW | Format.PARQUET:
            owner = (node,) if node_kind else ()
            columns = (*owner, *DENSE_COLUMNS, *SPARSE_COLUMNS)
            check = any_names if edge_kind is None else _no_edges
            if node_kind:
                columns = tuple(stored_to_read(file, table_format, _with_deletes(columns), limits))
            batches = stored_batches(file, table_format, columns, limits, check=check)
        case Format.CSV:
            batches = csv_features(file, node_kind, node, check=columns_within(limits))
        case Format.NDJSON:
            batches = json_features(json_rows(file), node_kind, node)
    known, first_row = {node, *DENSE_COLUMNS, *SPARSE_COLUMNS, EDGES}, 0
    for batch in counted(batches, limits):
        if node_kind is not None:
            require_none_deleted(batch, known, first_row)
        places = [place for place, name in enumerate(batch.schema.names) if name in known]
        read = batch.select(places)
        first_row += batch.num_rows
        found = read.schema.names
        yield read.rename_columns([NODE if name == node else name for name in found])


def _with_deletes(columns: Sequence[str]) -> Callable[[pa.Table], Sequence[str]]:
    """Columns to read, with those that may ask for deletes."""
    return lambda table: [*columns, *filter(asks_for_deletes, table.schema.names)]


def point_batches(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    *,
    encoding: Encoding | None = None,
    names: Sequence[str] | None = None,
    limits: UploadLimits | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of new points, for `peewit.service.predictions.checked_points`.

    ``node_kind`` is that of the nodes that they have edges to; ``encoding`` and ``names`` are those
    of the features that the model was trained on.
    """
    return feature_batches(
        file, table_format, None, edge_kind=node_kind, encoding=encoding, names=names, limits=limits
    )


def json_point_batches(
    rows: list[Any],
    node_kind: NodeKind,
    *,
    encoding: Encoding | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of new points from JSON objects; see `point_batches`."""
    return json_points([rows] if rows else [], node_kind, names=names, encoding=encoding)


def _no_edges(names: Sequence[str]) -> None:
    """Refuse columns of edges, which would be ignored."""
    if EDGES in names:
        raise BadUpload("'edges' of points must come as NDJSON or JSON", argument=EDGES)
