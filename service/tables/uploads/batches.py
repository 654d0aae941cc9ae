"""Edges, features and points as Arrow batches, in any format."""

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa

from peewit.service.tables.formats import Format
from peewit.service.tables.uploads.arrow_and_parquet import stored_batches, surveyed_bytes
from peewit.service.tables.uploads.csv_tables import csv_edges, csv_features, n_csv_columns
from peewit.service.tables.uploads.json_tables import json_edges, json_features, json_rows
from peewit.service.tables.uploads.labels import LABEL_COLUMNS
from peewit.service.tables.uploads.limits import BYTES_PER_COLUMN, UploadLimits, counted
from peewit.streaming.edges.blocks import COLUMNS as EDGE_COLUMNS
from peewit.streaming.edges.blocks import NodeKind
from peewit.streaming.edges.columns import check_column_names
from peewit.streaming.features.checked_tables import COLUMNS as FEATURE_COLUMNS
from peewit.streaming.features.checked_tables import DENSE_COLUMNS, SPARSE_COLUMNS

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
            columns = (*EDGE_COLUMNS, *FEATURE_COLUMNS, *LABEL_COLUMNS)
            n_decoded = surveyed_bytes(file, table_format, columns, limits)
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
                file, table_format, EDGE_COLUMNS, limits, check=check_column_names
            )
        case Format.CSV:
            batches = csv_edges(file, node_kind, limits)
        case Format.NDJSON:
            batches = json_edges(file, node_kind)
    yield from counted(batches, limits)


def feature_batches(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind | None,
    *,
    limits: UploadLimits | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of features in order, for `peewit.streaming.features.checked_tables`.

    In CSV every column but ``node`` is one number of the row, in the order of the header. Where
    ``node_kind`` is None, rows are of points, which are no nodes.

    Raises
    ------
    BadUpload
        The file cannot be read.
    TableTooLarge
        As of `edge_batches`.
    """
    match table_format:
        case Format.ARROW | Format.PARQUET:
            columns = FEATURE_COLUMNS if node_kind else (*DENSE_COLUMNS, *SPARSE_COLUMNS)
            batches = stored_batches(file, table_format, columns, limits)
        case Format.CSV:
            batches = csv_features(file, node_kind, limits)
        case Format.NDJSON:
            batches = json_features(json_rows(file), node_kind)
    yield from counted(batches, limits)


def point_batches(
    file: BinaryIO, table_format: Format, *, limits: UploadLimits | None = None
) -> Iterator[pa.RecordBatch]:
    """The same of new points, which are no nodes; see `peewit.service.predictions.new_points`."""
    return feature_batches(file, table_format, None, limits=limits)


def json_point_batches(rows: list[Any]) -> Iterator[pa.RecordBatch]:
    """The same of JSON objects."""
    yield from json_features([rows] if rows else [], None)
