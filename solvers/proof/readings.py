"""How columns of a linear system are read as labels, and what errors of the columns do to that."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, IntArray


class Misses(NamedTuple):
    """Bounds on errors of columns, by component and class: (n_components, n_classes)."""

    mean: FloatArray  # of the weighed sum over the component, with the reader's weights
    norm: FloatArray  # of the root of the weighed sum of squares


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """Scores slope (f - middle) + level, of which the largest of a row wins.

    All arrays are (n_components, n_classes). True slopes and levels lie within their slack.
    """

    slope: FloatArray
    middle: FloatArray
    level: FloatArray
    slope_slack: FloatArray
    level_slack: FloatArray
    may_win: BoolArray

    @classmethod
    def plain(cls, level: FloatArray, may_win: BoolArray) -> Self:
        """Columns plus levels, exactly."""
        none = np.zeros_like(level)
        return cls(
            slope=np.ones_like(level),
            middle=none,
            level=level,
            slope_slack=none,
            level_slack=none,
            may_win=may_win,
        )

    def moved(self, offset: FloatArray) -> Self:
        """The reading of f, from one of f + ``offset`` (n_components, n_classes)."""
        return replace(self, middle=self.middle - offset)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reader:
    """How a model reads its columns.

    Attributes
    ----------
    terms : callable
        The reading from columns f (n_nodes, n_classes) and what these may miss.
    weights : (n_nodes,) float64 or None
        Of the sums that ``terms`` asks for.
    gauge : bool
        Whether columns are read after their mean by ``weights``, of sum 1 on every component, was
        taken off; what then counts are errors of the differences.
    """

    terms: Callable[[FloatArray, Misses], Reading]
    weights: FloatArray | None = None
    gauge: bool = False


def shares_of_components(degree: FloatArray, component: IntArray) -> FloatArray:
    """(n_nodes,) share of each node in the degrees of its component; 1 of one without edges."""
    total = np.bincount(component, degree)
    weight: FloatArray = np.where(total[component] > 0, degree, 1.0)
    total[total == 0] = 1.0
    return weight / total[component]
