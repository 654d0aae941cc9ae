"""How often labels left out are predicted right, and between what that lies for all nodes.

The interval is that of Clopper and Pearson with .7 of the labels in place of all (J20): weights are
fitted on the same labels and folds are not independent, so that the plain one holds less often than
it says.
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
"""Labels left out that were drawn at random, from which on they speak of all nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutAccuracy:
    """What labels left out say.

    Attributes
    ----------
    accuracy : float
        Share of them that were predicted right.
    n_left_out : int
    low, high : float or None
        Ends of the interval that holds the accuracy at all nodes with a chance of 95 %; None where
        the labels are no random sample, or nobody knows.
    commonest : str or int
        The class of most labels.
    commonest_share : float
        Share of the labels asked that are of it: so often is right who always says it.
    """

    accuracy: float
    n_left_out: int
    low: float | None
    high: float | None
    commonest: ClassName
    commonest_share: float

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
        """From a figure, with an interval where the labels left out are a random sample.

        Their ``classes`` tell how often one class would be right; by default those of all labels.
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
