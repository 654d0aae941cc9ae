"""Edges, features and points as Arrow batches, in any format."""

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa

from peewit.service.tables.uploads.arrow_and_parquet import (
    any_names,
    stored_batches,
    surveyed_bytes,
)
from peewit.service.tables.uploads.csv_features import csv_features
from peewit.service.tables.uploads.json_features import json_features
from peewit.service.tables.uploads.limits import (
    BYTES_PER_COLUMN,
    UploadLimits,
    columns_within,
    counted,
)
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.csv_tables import csv_edges, n_csv_columns
from peewit.streaming.edges.json_tables import json_edges, json_rows
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.features.checked_tables import DENSE_COLUMNS, EDGES, NODE, SPARSE_COLUMNS

_PER_BYTE_OF_CSV: Final = 8
_PER_BYTE_OF_JSON: Final = 32


def decoding_bytes(
    file: BinaryIO, table_format: Format | None, n_bytes: int, limits: UploadLimits
) -> int:
    """About how many bytes a body of this size comes to while it is decoded; None is JSON.

    What is sent as text is small numbers at worst, each of which becomes a number or an object.
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
) -> Iterator[pa.RecordBatch]:
    """Batches of edges in order, ready for `peewit.streaming.edges.columns.read_columns`.

    Parameters
    ----------
    file : binary file
        Read from where it stands; seekable.
    table_format : Format
        How it is written.
    node_kind : {"string", "int64", "dense"}
        What the ids of this graph are; says how CSV and JSON values are read.
    columns : EdgeColumns
        What the columns are called.
    limits : UploadLimits, optional
        What a table from outside may come to; files of this machine's owner have none.

    Raises
    ------
    BadUpload, peewit.streaming.edges.blocks.BadEdges
        The file cannot be read, or a column of a CSV is missing.
    TableTooLarge
        It comes to more than the limits; where that can be told, before anything is decoded.
    """
    match table_format:
        case Format.ARROW | Format.PARQUET:
            batches = stored_batches(
                file, table_format, tuple(columns), limits, check=columns.check
            )
        case Format.CSV:
            check = columns_within(limits, columns.check)
            batches = csv_edges(file, node_kind, columns, check=check)
        case Format.NDJSON:
            batches = json_edges(file, node_kind, columns)
    yield from counted(batches, limits)


def feature_batches(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind | None,
    *,
    node: str = NODE,
    edge_kind: NodeKind | None = None,
    limits: UploadLimits | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of features in order, for `peewit.streaming.features.checked_tables`.

    In CSV every column but that of the node is one number of the row, in the order of the header.
    Where ``node_kind`` is None, rows are of points, which are no nodes and in NDJSON may have edges
    to nodes of ``edge_kind``; ``node`` is what the column of the node is called.

    Raises
    ------
    BadUpload
        The file cannot be read.
    TableTooLarge
        As of `edge_batches`.
    """
    match table_format:
        case Format.ARROW | Format.PARQUET:
            owner = (node,) if node_kind else ()
            columns = (*owner, *DENSE_COLUMNS, *SPARSE_COLUMNS)
            check = any_names if edge_kind is None else _no_edges
            batches = stored_batches(file, table_format, columns, limits, check=check)
        case Format.CSV:
            batches = csv_features(file, node_kind, node, check=columns_within(limits))
        case Format.NDJSON:
            batches = json_features(json_rows(file), node_kind, node, edge_kind=edge_kind)
    for batch in counted(batches, limits):
        names = batch.schema.names
        yield batch.rename_columns([NODE if name == node else name for name in names])


def point_batches(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    *,
    limits: UploadLimits | None = None,
) -> Iterator[pa.RecordBatch]:
    """New points, which are no nodes; see `peewit.service.predictions.checked_points`.

    ``node_kind`` is that of the nodes that they have edges to.
    """
    return feature_batches(file, table_format, None, edge_kind=node_kind, limits=limits)


def json_point_batches(rows: list[Any], node_kind: NodeKind) -> Iterator[pa.RecordBatch]:
    """The same of JSON objects."""
    yield from json_features([rows] if rows else [], None, edge_kind=node_kind)


def _no_edges(names: Sequence[str]) -> None:
    """Refuse edges, which would be passed over."""
    if EDGES in names:
        raise BadUpload("'edges' of points must come as NDJSON or JSON", argument=EDGES)
