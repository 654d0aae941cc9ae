"""Fit of a linear machine: what a search works on, and what becomes of its functions."""

from dataclasses import dataclass, field
from mmap import mmap
from typing import Any

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.features import Rows
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels, one_against_rest
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.linear.row_products import LinearRows, MatrixRows, rows_of, some_of
from peewit.solvers.linear.row_scaling import RowScaling
from peewit.solvers.linear.transductive_problem import Figures
from peewit.solvers.status import Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """The rows of a preparation as linear machines read them."""

    features: Rows  # as given
    scale: FloatArray  # (n_rows,) factor of each row
    form: RowScaling
    rows: LinearRows
    laplacian: IteratedLaplacian | None  # of the graph term

    def of_nodes(self, nodes: Int64Array) -> MatrixRows:
        """Some rows, by increasing place, in memory."""
        return rows_of(self.features.take(nodes), self.scale[nodes], self.form)


@dataclass(slots=True, kw_only=True, eq=False)
class Fit:
    """One search for functions: what it works on, and its results."""

    table: Table
    few: MatrixRows  # the labeled rows
    labels: Labels
    costs: FloatArray  # (n_labeled,) with sum 1
    norm_penalty: float
    watch: Watch
    start: FloatArray | None = None  # (n_weights, n_functions), found for other labels
    figures: Figures = field(default_factory=Figures)
    status: Status = Status.CONVERGED
    objective: float = 0.0
    warnings: list[str] = field(default_factory=list)

    @property
    def targets(self) -> FloatArray:
        """(n_labeled, n_functions) 1 for the function's own class, else -1."""
        return one_against_rest(self.labels)

    def end(self, status: Status, objective: float) -> None:
        """Record how the search of one function ended."""
        self.status = status if self.status is Status.CONVERGED else self.status
        self.objective += objective

    def without(self, left_out: Int64Array) -> "Fit":
        """The same without some labels."""
        others = np.setdiff1d(np.arange(self.labels.n_labeled), left_out)
        labels = self.labels.subset(others)
        costs = self.costs[others]
        return Fit(
            table=self.table,
            few=some_of(self.few, others),
            labels=labels,
            costs=costs / costs.sum(),
            norm_penalty=self.norm_penalty,
            watch=self.watch,
        )


def rows_form(table: Table) -> str:
    """How the rows were read, for the stats."""
    if not isinstance(table.rows, MatrixRows):
        return "streamed"
    values: Any = table.rows.matrix
    stored = values.data if sp.issparse(values) else values
    while isinstance(stored, np.ndarray) and not isinstance(stored, np.memmap):
        stored = stored.base
    return "mapped" if isinstance(stored, np.memmap | mmap) else "memory"
