"""Calibration: how true probabilities are, by left-out labels."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import Int64Array, RealArray

N_BINS: Final = 15
"""Bins of the calibration error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationMetrics:
    """Calibration error and Brier score of probabilities."""

    expected_calibration_error: float  # |largest probability - share right| (J12)
    brier_score: float  # mean squared distance from the true class, 0 to 2 (J13)

    @classmethod
    def of(
        cls, probabilities: RealArray, classes: Int64Array, *, n_bins: int = N_BINS
    ) -> "CalibrationMetrics":
        """Metrics of (n, n_classes) probabilities and the true classes; nan for none."""
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
