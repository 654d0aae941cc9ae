"""Linear functions that outlive their training rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from peewit.solvers.arrays import FloatArray
from peewit.solvers.features import checked_points
from peewit.solvers.labels import class_scores
from peewit.solvers.linear.row_products import rows_of
from peewit.solvers.linear.row_scaling import RowScaling


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearFunctions:
    """Functions of scaled rows, for any points.

    ``sigmoid`` holds slopes a and offsets c under which 1 / (1 + exp(-(a f + c))) is the
    probability of the function's class; None if scores are decision values.
    """

    weights: FloatArray  # (n_columns + 1, n_functions), the constant feature last
    form: RowScaling
    sigmoid: FloatArray | None = None  # (2, n_functions)

    @property
    def n_columns(self) -> int:
        """Numbers in a row of features."""
        return int(self.weights.shape[0]) - 1

    def values(self, features: Any) -> FloatArray:
        """(n_points, n_functions) decision values of new points.

        Raises as `peewit.solvers.features.checked_points`.
        """
        points = checked_points(features, self.n_columns)
        values = np.empty((points.n_rows, self.weights.shape[1]))
        for place, block in points.blocks():
            scale = self.form.scale(block)
            if self.form.center.size and sp.issparse(block):  # subtraction would fill sparse rows
                weights, constant = self.weights[:-1], self.form.constant * self.weights[-1]
                products = block @ weights - self.form.center @ weights
                values[place] = products * scale[:, None] + constant
            else:
                values[place] = rows_of(block, scale, self.form).values(self.weights)
        return values

    def class_scores(self, features: Any) -> FloatArray:
        """(n_points, n_classes) class scores of new points: probabilities if ``sigmoid`` is set."""
        return self.scores_of(self.values(features))

    def scores_of(self, values: FloatArray) -> FloatArray:
        """Class scores of decision values."""
        if self.sigmoid is None:
            return class_scores(values)
        slopes, offsets = self.sigmoid
        own = expit(slopes * values + offsets)
        if own.shape[1] == 1:
            return np.hstack([1.0 - own, own])
        total = own.sum(axis=1, keepdims=True)
        even = np.full_like(own, 1.0 / own.shape[1])
        shares: FloatArray = np.divide(own, total, out=even, where=total > 0)
        return shares

    def with_sigmoid(self, sigmoid: FloatArray) -> "LinearFunctions":
        """The same functions, with probabilities as class scores."""
        return replace(self, sigmoid=sigmoid)

    def of_first(self, n_columns: int) -> "LinearFunctions":
        """The functions of points of which only the first features are known.

        Others count as their mean where there is a center, and as 0 elsewhere.
        """
        form = self.form
        if form.center.size:
            form = replace(form, center=form.center[:n_columns])
        weights = np.vstack([self.weights[:n_columns], self.weights[-1:]])
        return replace(self, weights=weights, form=form)

    def trimmed(self) -> "LinearFunctions":
        """The functions themselves: they need all weights."""
        return self
