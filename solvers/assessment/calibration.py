"""Probabilities from class scores, by labels that were left out, and how true they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import log_softmax, softmax

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray

N_BINS: Final = 15
"""By which the calibration error is told."""

_VARIANCE: Final = 1.0
"""Prior variance of what is added to a class."""

_WIDE: Final = 100.0
"""Prior variance of the logarithm of the factor."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Scores times a number, plus a number for each class, are logarithms of probabilities (J11).

    Attributes
    ----------
    factor : float
        At least 0.
    added : (n_classes,) float64
    """

    factor: float
    added: FloatArray

    @classmethod
    def fitted(cls, scores: RealArray, classes: Int64Array) -> "Calibration":
        """The most likely one, given labels that were left out.

        Parameters
        ----------
        scores : (n_left_out, n_classes) floats
            What each was predicted without itself; rows that are not finite are passed over.
        classes : (n_left_out,) int64
            What it is.
        """
        is_known = np.isfinite(scores).all(axis=1)
        known = scores[is_known].astype(np.float64)
        true = classes[is_known]
        n_classes = scores.shape[1]
        unit = float(known.std()) or 1.0 if known.size else 1.0
        if not known.size:
            return cls(factor=0.0, added=np.zeros(n_classes))
        said = known / unit
        one_hot = np.zeros(said.shape)
        one_hot[np.arange(true.size), true] = 1.0

        def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
            log_factor, added = parameters[0], parameters[1:]
            factor = np.exp(log_factor)
            logs = log_softmax(factor * said + added, axis=1)
            away = np.exp(logs) - one_hot
            value = -float((logs * one_hot).sum())
            value += 0.5 * (log_factor**2 / _WIDE + float(added @ added) / _VARIANCE)
            gradient = np.concatenate(
                [[factor * float((away * said).sum()) + log_factor / _WIDE], away.sum(axis=0)]
            )
            gradient[1:] += added / _VARIANCE
            return value, gradient

        from scipy.optimize import minimize  # noqa: PLC0415 - slow, and many only read factors

        start = np.zeros(1 + n_classes)
        bounds = [(-20.0, 20.0)] + [(None, None)] * n_classes
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return cls(factor=float(np.exp(found[0])) / unit, added=found[1:])

    @property
    def stored(self) -> dict[str, Any]:
        """What `restored` makes the same of, as JSON values."""
        return {"factor": self.factor, "added": self.added.tolist()}

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> "Calibration":
        """From what was `stored`."""
        return cls(factor=stored["factor"], added=np.array(stored["added"]))

    def probabilities(self, scores: RealArray) -> FloatArray:
        """(n, n_classes) of scores of this shape, which are finite."""
        logits: FloatArray = self.factor * scores + self.added
        told: FloatArray = softmax(logits, axis=1)
        return told


def fitted_without_fold(scores: RealArray, classes: Int64Array, fold: Int64Array) -> FloatArray:
    """(n_left_out, n_classes) probabilities of labels, each by a calibration that never saw it.

    Parameters
    ----------
    scores, classes
        As of `Calibration.fitted`.
    fold : (n_left_out,) int64
        In which each was left out.
    """
    told = np.empty(scores.shape)
    for number in np.unique(fold):
        own = fold == number
        told[own] = Calibration.fitted(scores[~own], classes[~own]).probabilities(scores[own])
    return told


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
