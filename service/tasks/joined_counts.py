"""Counts of relations as columns beside the features of nodes."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array
from peewit.solvers.features import FeatureRows, WiderRows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinedCounts:
    """Columns of counts of all nodes, and which of these have rows where no table says so."""

    version: tuple[int | str, ...]  # differs where the columns do
    columns: Float32Array  # (n_nodes, n_columns), logarithms
    nodes: Int64Array | None  # (n_rows,), increasing; None: all

    def beside(
        self, rows: FeatureRows | None, *, is_encoded: bool
    ) -> FeatureRows | WiderRows | None:
        """The columns that differ among the nodes with rows, beside these rows if there are any.

        Each has mean 0 and variance 1, as what is encoded has about; beside other rows the mean
        variance of their columns. None where nothing differs and there are no rows.
        """
        nodes = self.nodes if rows is None else rows.nodes
        columns = self.columns if nodes is None else self.columns[nodes]
        center, spread = columns.mean(axis=0, dtype=float), columns.std(axis=0, dtype=float)
        differs = spread > 0
        if not differs.any():
            return rows
        scaled = (columns[:, differs] - center[differs]) / spread[differs]
        if rows is None:
            return FeatureRows(values=scaled.astype(np.float32), nodes=nodes)
        if not is_encoded:
            scaled *= np.sqrt(_mean_variance(rows))
        return WiderRows(rows=rows, more=scaled.astype(np.float32))


def _mean_variance(rows: FeatureRows) -> float:
    """Mean over the columns of their variances; one pass."""
    sums: FloatArray = np.zeros(rows.n_columns)
    squares = 0.0
    for _, block in rows.blocks():
        sums += np.asarray(block.sum(axis=0, dtype=np.float64))
        values = block.data if rows.is_sparse else np.asarray(block)
        squares += float(np.square(values, dtype=np.float64).sum())
    means = sums / max(rows.n_rows, 1)
    return float(squares / max(rows.n_rows, 1) - means @ means) / rows.n_columns
