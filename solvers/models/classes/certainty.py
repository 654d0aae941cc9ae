"""Certainty of classes and numbers under the rounding of a solve by elimination."""

from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.labels import Labels, Targets

TIE: Final = 1e-9
"""Scores nearer to each other than this part of their node's largest are a tie."""


def uncertain(
    scores: FloatArray, bound: FloatArray, labels: Targets, *, keeps_margins: bool = True
) -> BoolArray:
    """(n_nodes,) where rounding may decide: the class, beyond ties, or a number to six digits.

    Parameters
    ----------
    scores : (n_nodes, n_columns) float64
    bound : (n_nodes, n_columns) float64
        On the error of each score.
    labels : Labels or RealLabels
        Digits of numbers count in the range of the labels.
    keeps_margins : bool
        False where scores are weighed later: then classes need their scores to six digits, too.
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
