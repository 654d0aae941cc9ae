"""Feature tables and matrices that people send, turned into checked blocks.

A table names its nodes. Row i of a matrix (``.npz`` of scipy.sparse, libsvm text) is that of node
i.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from peewit.service.catalog import GraphRecord
from peewit.service.tables.uploads import UploadLimits, feature_batches
from peewit.service.tables.uploads.raw_features import is_raw
from peewit.streaming.edges.node_kinds import TEXT, split_column
from peewit.streaming.edges.table_formats import Format, format_of_file, require_no_seam, unpacked
from peewit.streaming.features.checked_tables import (
    NODE,
    BadFeatures,
    FeatureBlock,
    naming_file,
    read_features,
)
from peewit.streaming.features.encoding import NO_WISHES, ColumnWishes, Encoding
from peewit.streaming.features.feature_files import n_rows_of, read_blocks

_NUMBERED_ROWS: Final = 1 << 14
"""Rows of a matrix in one block."""

MATRIX_SUFFIX: Final = ".npz"
"""Of a file of scipy.sparse.save_npz."""


def path_blocks(
    graph: GraphRecord,
    paths: Sequence[Path],
    *,
    is_libsvm: bool = False,
    zero_based: bool = False,
    node: str = NODE,
    encoding: Encoding | None = None,
    wishes: ColumnWishes = NO_WISHES,
    n_threads: int = 1,
) -> Iterator[FeatureBlock]:
    """Checked blocks of files that are one set, in the order of the files.

    Files are tables, packed or not, whose names tell their format; one ``.npz`` of
    `scipy.sparse.save_npz`; or, with ``is_libsvm``, one file of libsvm text, whose labels are
    ignored and whose columns count from 0 if ``zero_based``, else from 1. ``node`` names the column
    of nodes; ``encoding`` says what becomes of columns of any kind, else the first file's rows do,
    but for what is wished of columns; ``n_threads`` blocks of Parquet are read together.

    Raises BadFeatures, with file and row, where a row breaks the data contract, and ValueError
    where the suffix of a file tells no format or a matrix is not the only file.
    """
    n_before, names = 0, None
    for path in paths:
        n_rows = 0
        if (is_libsvm or path.suffix == MATRIX_SUFFIX) and len(paths) > 1:
            raise ValueError(f"a matrix must be the only file of a set, got {len(paths)} files")
        with naming_file(path.name):
            if is_libsvm:
                blocks = matrix_blocks(graph, _libsvm(path, zero_based=zero_based))
            else:
                blocks = _file_blocks(
                    graph, path, node=node, encoding=encoding, wishes=wishes, n_threads=n_threads
                )
            for block in blocks:
                if encoding is None and block.encoding is not None:
                    encoding = Encoding.from_json(block.encoding)
                names = names or block.names
                yield replace(block.ordered(names), first_row=n_before + block.first_row)
                n_rows = block.first_row + block.n_rows
        n_before += n_rows


def n_rows_known(paths: Sequence[Path]) -> int | None:
    """Rows of some files where all say it in a Parquet footer, else None."""
    is_parquet = all(
        path.suffix != MATRIX_SUFFIX and format_of_file(path.name) == (Format.PARQUET, None)
        for path in paths
    )
    return n_rows_of(paths) if is_parquet else None


def _file_blocks(
    graph: GraphRecord,
    path: Path,
    *,
    node: str,
    encoding: Encoding | None,
    wishes: ColumnWishes,
    n_threads: int,
) -> Iterator[FeatureBlock]:
    if path.suffix == MATRIX_SUFFIX:
        yield from matrix_blocks(graph, _load_matrix(path))
        return
    table_format, compression = format_of_file(path.name)
    if table_format is Format.PARQUET and compression is None and node == NODE:
        with path.open("rb") as file:
            require_no_seam(file)
            holds_lists = not is_raw(file, table_format, node, None)
        if holds_lists and wishes == NO_WISHES:
            settings = graph.settings
            yield from read_blocks(
                [path],
                node_kind=settings.node_ids,
                max_nodes=settings.max_nodes,
                n_threads=n_threads,
            )
            return
    with unpacked(path, compression) as table:
        yield from table_blocks(
            graph, table, table_format, node=node, encoding=encoding, wishes=wishes
        )


def _libsvm(path: Path, *, zero_based: bool) -> Any:
    """The matrix; its base is not guessed, as that shifts all where no row has the first column."""
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415 - slow, see peewit.solvers.neighbors.distances

    with path.open("rb") as file:
        try:
            rows, _ = load_svmlight_file(file, zero_based=True)
        except ValueError as error:
            raise BadFeatures(f"the file must be libsvm text ({error})") from error
    if zero_based:
        return rows
    at_zero = np.flatnonzero(rows.indices == 0)
    if at_zero.size:
        raise BadFeatures(
            "columns of libsvm text must count from 1; say --zero-based where they count from 0",
            row=int(np.searchsorted(rows.indptr, at_zero[0], side="right")) - 1,
            value="0",
        )
    return rows[:, 1:]


def _load_matrix(path: Path) -> Any:
    try:
        return sp.load_npz(path)
    except (ValueError, KeyError, EOFError, BadZipFile) as error:
        raise BadFeatures(f"the file must be one of scipy.sparse.save_npz ({error})") from error


def table_blocks(
    graph: GraphRecord,
    file: BinaryIO,
    table_format: Format,
    *,
    node: str = NODE,
    encoding: Encoding | None = None,
    wishes: ColumnWishes = NO_WISHES,
    limits: UploadLimits | None = None,
) -> Iterator[FeatureBlock]:
    """Checked blocks of a table that somebody sent; ``node`` names its column of nodes.

    ``encoding`` says what becomes of columns of any kind; else the first rows do, but for what is
    wished of columns.
    """
    settings = graph.settings
    n_columns: int | None = None
    n_read = n_taken = 0
    of_kind, node = split_column(node)
    for batch in feature_batches(
        file,
        table_format,
        settings.node_ids,
        node=node,
        encoding=encoding,
        wishes=wishes,
        limits=limits,
    ):
        block = read_features(
            batch,
            of_kind=of_kind,
            node_kind=settings.node_ids,
            max_nodes=settings.max_nodes,
            first_row=n_read,
            n_columns=n_columns,
            node=node,
            missing_ids=wishes.missing_ids,
        )
        if not block.is_sparse and block.n_rows:
            n_columns = block.values.shape[1]
        yield replace(block, first_row=n_taken)
        n_read += batch.num_rows
        n_taken += block.n_rows


def matrix_blocks(graph: GraphRecord, rows: Any) -> Iterator[FeatureBlock]:
    """Blocks of a matrix whose row i is that of node i.

    Raises BadFeatures where the graph's nodes are strings, an entry is not finite, or there are too
    many rows.
    """
    kind = graph.settings.node_ids
    if kind in TEXT:
        raise BadFeatures(
            "row i of a matrix is that of node i, so node_ids must be int64 or dense, got string; "
            "give a table with a column node"
        )
    matrix = _real_matrix(rows)
    for first_row in range(0, matrix.shape[0], _NUMBERED_ROWS):
        some = matrix[first_row : first_row + _NUMBERED_ROWS]
        nodes = np.arange(first_row, first_row + some.shape[0], dtype=np.int64)
        batch = pa.record_batch({"node": nodes, **_sparse_columns(some)})
        block = read_features(
            batch, node_kind=kind, max_nodes=graph.settings.max_nodes, first_row=first_row
        )
        block.values.resize((block.n_rows, matrix.shape[1]))
        yield block


def point_rows(path: Path, *, is_libsvm: bool = False, zero_based: bool = False) -> pa.RecordBatch:
    """Columns ``indices`` and ``values`` of a matrix of new points, for `checked_points`.

    The file is a ``.npz`` of `scipy.sparse.save_npz`, or libsvm text, whose labels are ignored;
    raises BadFeatures for others and for entries that are no real numbers.
    """
    rows = _libsvm(path, zero_based=zero_based) if is_libsvm else _load_matrix(path)
    return pa.record_batch(_sparse_columns(_real_matrix(rows)))


def _sparse_columns(matrix: Any) -> dict[str, pa.ListArray]:
    starts = pa.array(matrix.indptr.astype(np.int32))
    return {
        "indices": pa.ListArray.from_arrays(starts, pa.array(matrix.indices)),
        "values": pa.ListArray.from_arrays(starts, pa.array(matrix.data)),
    }


def _real_matrix(rows: Any) -> Any:
    matrix = sp.csr_array(rows)
    if matrix.dtype.kind not in "buif":
        raise BadFeatures(
            f"features must be real numbers, got dtype {matrix.dtype}", argument="features"
        )
    if matrix.dtype.kind == "b":
        matrix = matrix.astype(np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix
