"""Features of a graph's nodes, smoothed along its edges, with external ids, a batch at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import Float32Array

_BATCH_BYTES = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilteredNodes:
    """Smoothed features, ready to be written.

    ``snapshot`` and ``features_version`` are what they were made from.
    """

    snapshot: int
    features_version: int
    values: Float32Array  # (n_nodes, n_columns), mapped from a file
    _names: pa.ChunkedArray

    def schema(self, *, is_flat: bool) -> pa.Schema:
        """``node`` and a list ``features``, or a column ``f0``, ``f1``, ... for each number."""
        node = pa.field("node", self._names.type)
        n_columns = self.values.shape[1]
        if is_flat:
            return pa.schema([node, *((f"f{at}", pa.float32()) for at in range(n_columns))])
        return pa.schema([node, ("features", pa.list_(pa.float32(), n_columns))])

    def batches(self, *, is_flat: bool) -> Iterator[pa.RecordBatch]:
        """All nodes, by dense id."""
        schema, (n_nodes, n_columns) = self.schema(is_flat=is_flat), self.values.shape
        step = max(1, _BATCH_BYTES // (4 * n_columns))
        for start in range(0, n_nodes, step):
            rows = np.ascontiguousarray(self.values[start : start + step])
            names = self._names.slice(start, len(rows)).combine_chunks()
            if is_flat:
                numbers = [pa.array(column) for column in rows.T]
            else:
                numbers = [pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), n_columns)]
            batch = pa.record_batch([names, *numbers], schema=schema)
            yield batch.filter(names.is_valid()) if names.null_count else batch
