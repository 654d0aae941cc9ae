"""Counts of relations as columns beside the features of nodes."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array
from peewit.solvers.features import ColumnScaling, FeatureRows, WiderRows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinedCounts:
    """Columns of counts of the nodes that have rows: those of a table, else those asked about.

    Each has mean 0 and variance 1, as what is encoded has about; beside other rows the mean
    variance of their columns.
    """

    snapshot: int  # that was counted
    directed: tuple[str, ...]
    kinds: tuple[str, ...]  # that are asked about
    columns: Float32Array  # (n_rows, n_kept), scaled
    nodes: Int64Array | None  # (n_rows,), increasing; None: all
    scaling: ColumnScaling

    @classmethod
    def of(
        cls,
        counts: Float32Array,
        rows: FeatureRows | None,
        *,
        is_encoded: bool,
        nodes: Int64Array | None,
        snapshot: int,
        directed: tuple[str, ...] = (),
        kinds: tuple[str, ...] = (),
    ) -> Self:
        """``counts``, (n_rows, n_counts), of the nodes of a table's rows, or of ``nodes``."""
        scaling = ColumnScaling.of(counts)
        if rows is not None and not is_encoded:
            factor = scaling.factor * np.sqrt(_mean_variance(rows))
            scaling = replace(scaling, factor=factor)
        return cls(
            snapshot=snapshot,
            directed=directed,
            kinds=kinds,
            columns=scaling.scaled(counts),
            nodes=nodes,
            scaling=scaling,
        )

    @property
    def version(self) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
        """What differs where the columns do, beside the same table."""
        return self.snapshot, self.directed, self.kinds

    @property
    def n_columns(self) -> int:
        """Columns that differ among the nodes with rows."""
        return int(self.columns.shape[1])

    def beside(self, rows: FeatureRows | None) -> FeatureRows | WiderRows | None:
        """The columns beside the rows of the table; None where there is neither."""
        if not self.n_columns:
            return rows
        if rows is None:
            return FeatureRows(values=self.columns, nodes=self.nodes)
        return WiderRows(rows=rows, more=self.columns)


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
