"""Certainty of classes and numbers under the rounding of a solve by elimination."""

from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.labels import Labels, Targets

TIE: Final = 1e-9
"""Scores tie if they differ by less than this, relative to the largest score of their node."""


def uncertain(
    scores: FloatArray, bound: FloatArray, labels: Targets, *, keeps_margins: bool = True
) -> BoolArray:
    """(n_nodes,) whether rounding may decide a class, beyond ties, or a number's first six digits.

    ``bound``, (n_nodes, n_columns), bounds the error of each score. Digits of numbers are relative
    to the range of the labels. Without ``keeps_margins`` (scores are weighed later) classes need
    their scores to six digits, too.
    """
    worst = bound.max(axis=1, initial=0.0)
    if not isinstance(labels, Labels):
        return np.asarray(worst > TIE * np.ptp(labels.targets()))
    is_rough: BoolArray = worst > TIE * np.abs(scores).max(axis=1, initial=0.0)
    if not keeps_margins or labels.n_classes == 1:
        return is_rough
    highest = np.partition(scores, -2, axis=1)[:, -2:]
    is_decided: BoolArray = highest[:, 1] - highest[:, 0] > 2.0 * worst
    return is_rough & ~is_decided
