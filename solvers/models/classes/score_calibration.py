"""Probabilities from class scores, fitted to labels that were left out (J11)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray
from peewit.solvers.late_modules import LateModule

optimize = LateModule("scipy.optimize")
special = LateModule("scipy.special")

_VARIANCE: Final = 1.0
"""Prior variance of the intercepts of the classes."""

_WIDE: Final = 100.0
"""Prior variance of the logarithm of the factor."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Log probabilities as ``factor`` times the scores plus an intercept for each class (J11)."""

    factor: float  # at least 0
    added: FloatArray  # (n_classes,) intercepts

    @classmethod
    def fitted(cls, scores: RealArray, classes: Int64Array) -> "Calibration":
        """The most likely calibration, given left-out labels.

        ``scores``, (n_left_out, n_classes), are each label's scores without itself; rows that are
        not finite are skipped. ``classes`` are the true ones.
        """
        is_known = np.isfinite(scores).all(axis=1)
        known = scores[is_known].astype(np.float64)
        true = classes[is_known]
        n_classes = scores.shape[1]
        unit = float(known.std()) or 1.0 if known.size else 1.0
        if not known.size:
            return cls(factor=0.0, added=np.zeros(n_classes))
        scaled = known / unit
        one_hot = np.zeros(scaled.shape)
        one_hot[np.arange(true.size), true] = 1.0

        def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
            log_factor, added = parameters[0], parameters[1:]
            factor = np.exp(log_factor)
            logs = special.log_softmax(factor * scaled + added, axis=1)
            away = np.exp(logs) - one_hot
            value = -float((logs * one_hot).sum())
            value += 0.5 * (log_factor**2 / _WIDE + float(added @ added) / _VARIANCE)
            gradient = np.concatenate(
                [[factor * float((away * scaled).sum()) + log_factor / _WIDE], away.sum(axis=0)]
            )
            gradient[1:] += added / _VARIANCE
            return value, gradient

        start = np.zeros(1 + n_classes)
        bounds = [(-20.0, 20.0)] + [(None, None)] * n_classes
        mode = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
        return cls(factor=float(np.exp(mode[0])) / unit, added=mode[1:])

    @property
    def stored(self) -> dict[str, Any]:
        """The fields as JSON values, for `restored`."""
        return {"factor": self.factor, "added": self.added.tolist()}

    @classmethod
    def restored(cls, stored: Mapping[str, Any]) -> "Calibration":
        """The calibration that `stored` these values."""
        return cls(factor=stored["factor"], added=np.array(stored["added"]))

    def probabilities(self, scores: RealArray) -> FloatArray:
        """(n, n_classes) probabilities of finite scores of that shape."""
        logits: FloatArray = self.factor * scores + self.added
        return np.asarray(special.softmax(logits, axis=1))


def fitted_without_fold(scores: RealArray, classes: Int64Array, fold: Int64Array) -> FloatArray:
    """(n_left_out, n_classes) probabilities, each by a calibration that never saw its fold.

    ``scores`` and ``classes`` are those of `Calibration.fitted`; ``fold`` is where each was left
    out.
    """
    probabilities = np.empty(scores.shape)
    for number in np.unique(fold):
        own = fold == number
        calibration = Calibration.fitted(scores[~own], classes[~own])
        probabilities[own] = calibration.probabilities(scores[own])
    return probabilities
