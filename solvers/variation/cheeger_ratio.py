"""Cheeger ratios: total variation over the distance from a median (G9'), (G12)."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Balances:
    """B(f) = sum_i w_i |f_i - m|_a of columns f, with the m that makes it least (G12).

    |t|_a is a t above 0 and -t below; for a = 1 that is the mean distance from the median (G9').
    """

    values: FloatArray  # (n_columns,) B >= 0; 0 if a column is constant
    medians: FloatArray  # (n_columns,) m, the weighted a / (1 + a) quantile
    slopes: FloatArray  # (n_nodes, n_columns) a subgradient of B whose columns sum to 0

    @classmethod
    def of(cls, columns: FloatArray, weight: FloatArray, asymmetry: float) -> "Balances":
        """The balances of (n_nodes, n_columns) ``columns``; weights are > 0, ``asymmetry`` a > 0.

        Notes
        -----
        At the median itself, where the printed sign(f) is undefined, the subgradient is the
        constant within [-w, a w] that makes its sum 0.
        """
        n_columns = columns.shape[1]
        values, medians = np.zeros(n_columns), np.zeros(n_columns)
        slopes = np.empty_like(columns)
        half = asymmetry / (1.0 + asymmetry) * float(weight.sum())
        for column in range(n_columns):
            own = columns[:, column]
            order = np.argsort(own, kind="stable")
            passed = np.cumsum(weight[order])
            place = min(int(np.searchsorted(passed, half)), own.size - 1)
            medians[column] = own[order[place]]
            distance = own - medians[column]
            above, below = distance > 0, distance < 0
            slope = np.where(above, asymmetry, np.where(below, -1.0, 0.0))
            values[column] = float((weight * slope * distance).sum())
            at = ~(above | below)
            rest = float((weight * slope).sum()) / float(weight[at].sum())
            slope[at] = np.clip(-rest, -1.0, asymmetry)
            slopes[:, column] = weight * slope
        return cls(values=values, medians=medians, slopes=slopes)


def partition_balances(
    classes: Int64Array, n_classes: int, weight: FloatArray, asymmetry: float
) -> tuple[FloatArray, FloatArray]:
    """B of the indicators of a partition: (n_classes,) min(a w(A), w(not A)), and the slopes.

    As `Balances.of`, in linear time. The slopes are (n_nodes, n_classes).
    """
    sizes = np.bincount(classes, weight, n_classes)
    rest = (1.0 - np.eye(n_classes)) @ sizes  # a difference would lose light nodes
    is_small = asymmetry * sizes <= rest  # then the median is 0, else 1
    inside = np.where(is_small, asymmetry, np.divide(rest, sizes, where=sizes > 0, out=sizes * 0))
    outside = np.where(is_small, -asymmetry * sizes / np.where(rest > 0, rest, 1.0), -1.0)
    slopes = np.tile(outside, (classes.size, 1))
    slopes[np.arange(classes.size), classes] = inside[classes]
    return np.minimum(asymmetry * sizes, rest), weight[:, None] * slopes


def ratio(variation: FloatArray, balances: FloatArray) -> FloatArray:
    """TV / B; infinite if B is 0, for a constant column or an empty class."""
    none = np.full_like(variation, np.inf)
    return np.divide(variation, balances, out=none, where=balances > 0)
