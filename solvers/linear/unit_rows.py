"""Unit rows: features of unit length, multiplied with many columns at once, a block at a time."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array
from peewit.solvers.features import Rows
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.linear.linear_functions import LinearFunctions
from peewit.solvers.linear.row_scaling import RowScaling, mean_of_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitRows:
    """X with rows in a `RowScaling`, on all nodes of a graph; build it with `of_rows`.

    ``form`` gives unit length after the mean of the rows is subtracted, which fills no sparse row
    here.
    """

    rows: Rows  # as the caller gives them; read anew in each pass unless they are an array
    form: RowScaling
    scale: FloatArray  # (n_rows,) factor of each row
    n_nodes: int  # rows of X; those of nodes without features are 0

    @classmethod
    def of_rows(cls, rows: Rows, n_nodes: int) -> "UnitRows":
        """The rows with their mean and lengths; one pass for each."""
        center = mean_of_rows(rows)
        form = RowScaling(is_unit=True, constant=1.0, center=center, zeros_stay=True)
        scale = np.concatenate([form.scale(block) for _, block in rows.blocks()])
        return cls(rows=rows, form=form, scale=scale, n_nodes=n_nodes)

    @property
    def n_columns(self) -> int:
        """Numbers in a row."""
        return self.rows.n_columns

    def adjoint(self, columns: list[Float32Array], watch: Watch = UNWATCHED) -> FloatArray:
        """(n_columns_given, n_features) the products X' c with columns (n_nodes,); one pass."""
        products = np.zeros((len(columns), self.n_columns))
        for place, block in self.rows.blocks():
            watch.check()
            owners = place if self.rows.nodes is None else self.rows.nodes[place]
            weighed = np.stack([column[owners] for column in columns]) * self.scale[place]
            products += (block.T @ weighed.T).T
            products -= np.outer(weighed.sum(axis=1), self.form.center)
        return products

    def values(self, weights: FloatArray, watch: Watch = UNWATCHED) -> FloatArray:
        """(n_nodes, k) the products X @ ``weights`` (n_features, k); one pass."""
        values = np.zeros((self.n_nodes, weights.shape[1]))
        at_center = self.form.center @ weights
        for place, block in self.rows.blocks():
            watch.check()
            owners = place if self.rows.nodes is None else self.rows.nodes[place]
            values[owners] = (block @ weights - at_center) * self.scale[place, None]
        return values

    def functions(self, weights: FloatArray, constant: FloatArray) -> LinearFunctions:
        """Functions with the (n_features, k) ``weights`` and a (k,) constant, for new points."""
        return LinearFunctions(weights=np.vstack([weights, constant]), form=self.form)

    def at(self, nodes: Int64Array) -> FloatArray:
        """(n_some, n_features) dense rows of some nodes, which are increasing."""
        rows = np.zeros((nodes.size, self.n_columns))
        places, has_row = nodes, np.ones(nodes.size, bool)
        if self.rows.nodes is not None:
            has_row = np.isin(nodes, self.rows.nodes, assume_unique=True)
            places = np.searchsorted(self.rows.nodes, nodes[has_row])
        some: Any = self.rows.take(places)
        dense = some.toarray() if sp.issparse(some) else some
        rows[has_row] = (dense - self.form.center) * self.scale[places, None]
        return rows
