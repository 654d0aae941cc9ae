"""Counts of relations as columns beside the features of nodes."""

from dataclasses import dataclass, replace

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array
from peewit.solvers.features import ColumnScaling, FeatureRows, WiderRows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinedCounts:
    """Columns of counts of all nodes, and which of these have rows where no table says so."""

    version: tuple[int | str, ...]  # differs where the columns do
    names: tuple[str, ...]
    columns: Float32Array  # (n_nodes, n_columns), logarithms
    nodes: Int64Array | None  # (n_rows,), increasing; None: all

    def scaling(self, rows: FeatureRows | None, *, is_encoded: bool) -> ColumnScaling:
        """Mean 0 and variance 1 among the nodes with rows, as what is encoded has about.

        Beside other rows the variance is the mean one of their columns.
        """
        scaling = ColumnScaling.of(self._of(rows))
        if rows is None or is_encoded:
            return scaling
        return replace(scaling, factor=scaling.factor * np.sqrt(_mean_variance(rows)))

    def beside(
        self, rows: FeatureRows | None, *, is_encoded: bool
    ) -> FeatureRows | WiderRows | None:
        """The columns that differ among the nodes with rows, beside these rows if there are any.

        None where nothing differs and there are no rows.
        """
        scaling = self.scaling(rows, is_encoded=is_encoded)
        if not scaling.is_kept.any():
            return rows
        scaled = scaling.scaled(self._of(rows))
        if rows is None:
            return FeatureRows(values=scaled, nodes=self.nodes)
        return WiderRows(rows=rows, more=scaled)

    def _of(self, rows: FeatureRows | None) -> Float32Array:
        """The columns at the nodes with rows."""
        nodes = self.nodes if rows is None else rows.nodes
        return self.columns if nodes is None else self.columns[nodes]


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
