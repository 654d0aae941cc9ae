"""Sets of classes that hold the true one with a stated chance, by cross-conformal prediction.

Left-out labels show how badly a true class may look. A class stays in the set of a node unless it
looks worse there than nearly all true classes did. Each fold is compared with its own left-out
labels, as an answer fits the labels that it was given better than other nodes.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array, frozen
from peewit.solvers.labels import Labels, can_be_left_out
from peewit.solvers.models.contract.model import ScoreKind
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.solution import Solution

SetKind = Literal["auto", "by-class", "marginal"]
"""Nodes among which sets hold the true class with the requested chance: the nodes of each class,
all nodes together, or as `groups_of` finds."""

RARE: Final = 0.4
"""A class with less than this part of its even share of the labels is rare: sets that hold for all
nodes together hold for few of its own."""

LEAST_ALONE: Final = 20
"""A class with fewer labels, compared with its own, is hardly ever left out of a set."""


def groups_of(labels: Labels, kind: SetKind, may_leave_out: BoolArray | None = None) -> Int64Array:
    """(n_classes,) number of the group of classes that each is compared with (J9).

    ``auto`` puts all into one group, unless one of them is rare: then classes of 20 labels or more
    are alone, and the others together. Classes without a left-out label, such as those of one
    label, are then alone, too, and so in every set. Only labels in ``may_leave_out``, (n_labeled,)
    bool, count.
    """
    if kind == "by-class":
        return np.arange(labels.n_classes)

    def count(chosen: BoolArray) -> Int64Array:
        return np.bincount(labels.classes[chosen], minlength=labels.n_classes)

    allowed = np.ones(labels.n_labeled, bool) if may_leave_out is None else may_leave_out
    counts, n_left_out = count(allowed), count(can_be_left_out(labels, allowed))
    is_rare = counts < RARE * counts.sum() / labels.n_classes
    groups = np.zeros(labels.n_classes, np.int64)
    if kind == "auto" and is_rare.any():
        alone = np.flatnonzero((counts >= LEAST_ALONE) | (n_left_out == 0))
        groups[alone] = 1 + np.arange(alone.size)
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def guaranteed_coverage(coverage: float, n_labels: int, n_folds: int) -> float:
    """Least chance that a set holds the true class, by the theorem (J10); 0 if it says nothing.

    It holds for nodes whose class has left-out labels. ``coverage`` is the requested one, in (0,
    1); ``n_labels`` counts the left-out labels of the group, each left out once in ``n_folds``
    folds.
    """
    if not n_labels:
        return 1.0
    of_few = 2.0 * (1.0 - 1.0 / n_folds) / (n_labels / n_folds + 1.0)
    of_many = (1.0 - n_folds / n_labels) / (n_folds + 1.0)
    return max(0.0, 1.0 - 2.0 * (1.0 - coverage) - max(0.0, min(of_few, of_many)))


@dataclass(slots=True, kw_only=True, eq=False)
class ConformalPValues:
    """Chance of a true class to look as bad as each class does at each node, fold by fold."""

    labels: Labels  # left out in turn
    n_nodes: int
    groups: Int64Array  # (n_classes,) classes of one number share their labels
    score_kind: ScoreKind  # of the model
    _n_worse: Float32Array = field(init=False)
    _n_left_out: Int64Array = field(init=False)
    _n_compared: Int64Array = field(init=False)

    def __post_init__(self) -> None:
        n_classes = self.labels.n_classes
        self._n_worse = np.zeros((self.n_nodes, n_classes), np.float32)
        self._n_left_out = np.zeros(n_classes, np.int64)
        self._n_compared = np.zeros(n_classes, np.int64)

    @property
    def unpromised(self) -> Int64Array:
        """Classes without a left-out label, compared with others': no coverage is guaranteed."""
        return np.flatnonzero((self._n_left_out == 0) & (self.n_compared > 0))

    @property
    def n_compared(self) -> Int64Array:
        """(n_classes,) left-out labels, reached by others, that each class was compared with."""
        of_group = np.bincount(self.groups, self._n_compared).astype(np.int64)
        return frozen(of_group[self.groups])

    def add(self, left_out: Int64Array, solution: Solution) -> None:
        """Add a fold: places of the left-out labels, and the answer without them."""
        classes = self.labels.classes[left_out]
        self._n_left_out += np.bincount(classes, minlength=self.labels.n_classes)
        scale = _scale(solution, self.score_kind)
        is_reached = solution.reachable[self.labels.nodes[left_out]]
        left_out, classes = left_out[is_reached], classes[is_reached]
        own = _nonconformity(solution, self.labels.nodes[left_out], scale)
        own_true = own[np.arange(left_out.size), classes]
        self._n_compared += np.bincount(classes, minlength=self.labels.n_classes)
        compared = [
            np.sort(own_true[self.groups[classes] == group]) for group in self.groups.tolist()
        ]
        for rows in row_blocks(self.n_nodes):
            behind = _nonconformity(solution, rows, scale)
            for code, others in enumerate(compared):
                place = np.searchsorted(others, behind[:, code], side="left")
                self._n_worse[rows, code] += others.size - place

    def values(self, reachable: BoolArray) -> Float32Array:
        """(n_nodes, n_classes) p-values (J9); 1 where ``reachable``, (n_nodes,) bool, is False.

        Nodes that labels reach are compared with labels that others reach; sets of other nodes hold
        all classes.
        """
        values: Float32Array = (self._n_worse + np.float32(1.0)) / np.float32(self.n_compared + 1)
        values[~reachable] = 1.0
        return values


def _scale(solution: Solution, score_kind: ScoreKind) -> float:
    """Divisor that makes class scores of different folds comparable."""
    if score_kind == "probability":
        return 1.0
    return float(np.sqrt(np.mean(np.square(solution.scores)))) or 1.0


def _nonconformity(solution: Solution, rows: Int64Array | slice, scale: float) -> FloatArray:
    """(n_rows, n_classes) distance of each class behind the best of the others.

    -inf where no label reaches: nothing speaks against any class there.
    """
    scores = solution.scores[rows]
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    is_best = scores == first[:, None]
    behind: FloatArray = (np.where(is_best, second[:, None], first[:, None]) - scores) / scale
    behind[~solution.reachable[rows]] = -np.inf
    return behind
