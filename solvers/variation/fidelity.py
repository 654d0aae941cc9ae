"""Fidelity to the labels: the proximal steps of the squared loss and of the hinge."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array


class Fidelity(Protocol):
    """A loss at the labeled nodes."""

    def nearest(self, values: FloatArray, pull: float) -> tuple[FloatArray, FloatArray]:
        """argmin_h loss(h) + pull / 2 |h - values|^2, and the intercepts (n_columns,)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SquaredFidelity:
    """label_weight / 2 |y - h|^2 at the labels (G5)."""

    nodes: Int64Array  # (n_labeled,)
    targets: FloatArray  # (n_labeled, n_columns)
    label_weight: float  # eta >= 0

    def nearest(self, values: FloatArray, pull: float) -> tuple[FloatArray, FloatArray]:
        """(eta J + r)^{-1} (eta y + r values), and no intercepts."""
        nearest = values.copy()
        own = self.label_weight * self.targets + pull * values[self.nodes]
        nearest[self.nodes] = own / (self.label_weight + pull)
        return nearest, np.zeros(values.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HingeFidelity:
    """label_weight sum_S max(0, 1 - y (h + b)), b free (G10), or on 2 h - 1 without b.

    With ``of_distributions`` h is a share in [0, 1] and the hinge that of 2 h - 1, since a margin
    of 1 on both sides does not fit into [0, 1]; there is no b, which the simplex would undo.
    """

    nodes: Int64Array  # (n_labeled,)
    targets: FloatArray  # (n_labeled, n_columns) 1 or -1
    label_weight: float  # mu >= 0
    of_distributions: bool = False

    def nearest(self, values: FloatArray, pull: float) -> tuple[FloatArray, FloatArray]:
        """The step of (G10) in closed form, where the text descends a gradient."""
        own = values[self.nodes]
        intercepts = np.zeros(values.shape[1])
        if not self.of_distributions:
            for column in range(own.shape[1]):
                intercepts[column] = balanced_intercept(
                    own[:, column], self.targets[:, column], pull, self.label_weight
                )
        nearest = values.copy()
        nearest[self.nodes] = self.at_labels(own, pull, intercepts)
        return nearest, intercepts

    def at_labels(
        self, own: FloatArray, pull: float, intercepts: FloatArray | float = 0.0
    ) -> FloatArray:
        """The step of `nearest` at the labels alone, with the given intercepts."""
        if self.of_distributions:
            own, pull = 2.0 * own - 1.0, pull / 4.0
        missed = 1.0 - self.targets * (own + intercepts)
        own = own + self.targets * np.clip(pull * missed, 0.0, self.label_weight) / pull
        return 0.5 * (own + 1.0) if self.of_distributions else own


def balanced_intercept(
    values: FloatArray, targets: FloatArray, pull: float, label_weight: float
) -> float:
    """The b at which the dual of (G10) sums to zero with the targets; 0 for a single class.

    ``values`` are e at the labels, (n_labeled,), ``pull`` is r2 > 0 and ``label_weight`` mu.

    Notes
    -----
    sum_i y_i clip(r2 (1 - y_i (e_i + b)), 0, mu) falls with b and has slope -r2 for each label
    between its two bends, so it is summed over the sorted bends. If it is zero on an interval, b is
    its middle, so that opposite labels give the opposite b. O(n_labeled log n_labeled).
    """
    n_positive = int(np.count_nonzero(targets > 0))
    width = label_weight / pull
    if n_positive in (0, targets.size) or width == 0.0:
        return 0.0
    # a width above the distances of labels no longer matters, and would swamp them
    width = min(width, 2.0 + float(values.max() - values.min()))
    is_positive = targets > 0
    first = np.where(is_positive, (1.0 - values) - width, -1.0 - values)
    last = np.where(is_positive, 1.0 - values, (-1.0 - values) + width)
    bends = np.concatenate([first, last])
    changes = np.repeat([1.0, -1.0], targets.size)
    order = np.argsort(bends, kind="stable")
    bends = bends[order]
    slopes = np.cumsum(changes[order])
    fallen = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(bends))])
    wanted = n_positive * width
    rounding = float(np.finfo(np.float64).eps * np.abs(bends).max())  # of a bend
    slack = targets.size * (1e-12 * width + 4.0 * rounding)
    low = int(np.searchsorted(fallen, wanted - slack))
    high = int(np.searchsorted(fallen, wanted + slack, side="right")) - 1
    if high >= low:  # the bends at which it is zero
        return 0.5 * float(bends[low] + bends[high])
    share = (wanted - fallen[high]) / (fallen[low] - fallen[high])
    return float(bends[high] + share * (bends[low] - bends[high]))
