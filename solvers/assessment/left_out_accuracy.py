"""Accuracy on left-out labels, and an interval for the accuracy at all nodes.

The interval is that of Clopper and Pearson for .7 of the labels (J20): weights are fitted on the
same labels and folds are not independent, so the plain interval would cover too seldom.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import Int64Array
from peewit.solvers.labels import ClassName, Labels
from peewit.solvers.late_modules import LateModule

special = LateModule("scipy.special")

CONFIDENCE: Final = 0.95
EFFECTIVE_SHARE: Final = 0.7
LEAST_RANDOM: Final = 50
"""Left-out labels, drawn at random, from which they speak for all nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutAccuracy:
    """Accuracy on left-out labels, beside that of the commonest class.

    ``low`` and ``high`` are the ends of the 95 % interval of the accuracy at all nodes; None unless
    the labels are known to be a random sample.
    """

    accuracy: float  # share of left-out labels that were predicted right
    n_left_out: int
    low: float | None
    high: float | None
    commonest: ClassName  # the class of most labels
    commonest_share: float  # its share of the labels: the accuracy of always predicting it

    @classmethod
    def of(
        cls,
        labels: Labels,
        accuracy: float,
        n_left_out: int,
        *,
        is_random: bool,
        classes: Int64Array | None = None,
    ) -> "LeftOutAccuracy":
        """From a figure, with an interval if the left-out labels are a random sample.

        ``classes`` are the labels that `commonest_share` counts; by default all.
        """
        classes = labels.classes if classes is None else classes
        counts = np.bincount(classes, minlength=labels.n_classes)
        most = int(counts.argmax())
        low = high = None
        if is_random:
            low, high = accuracy_interval(accuracy, n_left_out)
        return cls(
            accuracy=accuracy,
            n_left_out=n_left_out,
            low=low,
            high=high,
            commonest=labels.class_names[most],
            commonest_share=float(counts[most]) / classes.size,
        )


def macro_f1(classes: Int64Array, predicted: Int64Array, n_classes: int) -> float:
    """Mean F-measure (J1) of the classes that are there or predicted."""
    both = np.bincount(classes, minlength=n_classes) + np.bincount(predicted, minlength=n_classes)
    n_right = np.bincount(classes[predicted == classes], minlength=n_classes)
    return float((2.0 * n_right[both > 0] / both[both > 0]).mean())


def accuracy_interval(accuracy: float, n_labels: int) -> tuple[float, float]:
    """Ends of the interval (J20) for labels of which a share was predicted right."""
    n_effective = EFFECTIVE_SHARE * n_labels
    n_right = accuracy * n_effective
    tail = (1.0 - CONFIDENCE) / 2.0
    low = high = 0.0
    if n_right > 0.0:
        low = float(special.betaincinv(n_right, n_effective - n_right + 1.0, tail))
    high = 1.0
    if n_right < n_effective:
        high = float(special.betaincinv(n_right + 1.0, n_effective - n_right, 1.0 - tail))
    return low, high
