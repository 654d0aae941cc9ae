"""New points for a prediction: checked whole before the first is answered."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from peewit.streaming.features.checked_tables import (
    BadFeatures,
    dense_values,
    is_sparse_schema,
    sparse_values,
)


def checked_points(batches: Iterable[pa.RecordBatch], *, n_columns: int) -> list[Any]:
    """Blocks of points, each of ``n_columns`` numbers.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        From `peewit.service.tables.uploads.point_batches`.
    n_columns : int
        Numbers of each point that the model was trained on.

    Returns
    -------
    list of (n_some, n_columns) float32 array or scipy.sparse.csr_array
        In order, none empty.

    Raises
    ------
    BadFeatures
        A column is missing, a row is of another length, or a value is not finite as a 32-bit
        float; names the row.
    """
    blocks: list[Any] = []
    first_row = 0
    for batch in batches:
        is_sparse = is_sparse_schema(batch.schema.names)
        if batch.num_rows:
            read = _sparse if is_sparse else _dense
            blocks.append(read(batch, first_row, n_columns))
        first_row += batch.num_rows
    return blocks


def _dense(batch: pa.RecordBatch, first_row: int, n_columns: int) -> Any:
    values = dense_values(batch, first_row=first_row)
    if values.shape[1] != n_columns:
        raise BadFeatures(
            f"column 'features' must hold {n_columns} numbers, as those the model was trained on",
            argument="features",
            row=first_row,
            value=str(values.shape[1]),
        )
    return values


def _sparse(batch: pa.RecordBatch, first_row: int, n_columns: int) -> Any:
    values = sparse_values(batch, first_row=first_row)
    if values.shape[1] > n_columns:
        entry = int(np.argmax(values.indices >= n_columns))
        raise BadFeatures(
            f"column 'indices' must lie in [0, {n_columns - 1}], as those the model was trained on",
            argument="indices",
            row=first_row + int(np.searchsorted(values.indptr, entry, side="right")) - 1,
            value=str(values.indices[entry]),
        )
    values.resize((values.shape[0], n_columns))
    return values
