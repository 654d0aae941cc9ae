"""How true probabilities are, by labels that were left out."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import Int64Array, RealArray

N_BINS: Final = 15
"""By which the calibration error is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationMetrics:
    """How true probabilities are.

    Attributes
    ----------
    expected_calibration_error : float
        Mean distance of the largest probability from the share that is right (J12).
    brier_score : float
        Mean squared distance from the true class, 0 to 2 (J13).
    """

    expected_calibration_error: float
    brier_score: float

    @classmethod
    def of(
        cls, probabilities: RealArray, classes: Int64Array, *, n_bins: int = N_BINS
    ) -> "CalibrationMetrics":
        """Of (n, n_classes) probabilities and the true classes; nan of none."""
        if not classes.size:
            return cls(expected_calibration_error=float("nan"), brier_score=float("nan"))
        largest = probabilities.max(axis=1).astype(np.float64)
        is_right = probabilities.argmax(axis=1) == classes
        bins = np.clip((largest * n_bins).astype(np.int64), 0, n_bins - 1)
        off = np.bincount(bins, largest - is_right, n_bins)
        away = probabilities.astype(np.float64)
        away[np.arange(classes.size), classes] -= 1.0
        return cls(
            expected_calibration_error=float(np.abs(off).sum() / classes.size),
            brier_score=float(np.square(away).sum(axis=1).mean()),
        )
