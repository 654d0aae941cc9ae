"""Probabilities from decision values of left-out labels, by Platt's method."""

from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray

_LEAST_SLOPE: Final = 1e-6
"""Slope in the unit of the largest value; a smaller one says nothing."""


def flat_sigmoids(values: FloatArray) -> FloatArray:
    """(2, n_functions) slopes and offsets of even odds that keep the order of values (n, ...)."""
    slope = _LEAST_SLOPE / (float(np.abs(values).max(initial=0.0)) or 1.0)
    return np.tile([[slope], [0.0]], values.shape[1])


def fitted_sigmoid(values: FloatArray, targets: FloatArray) -> tuple[float, float] | None:
    """Slope a > 0 and offset c of 1 / (1 + exp(-(a f + c))), the probability of the label 1.

    None if the fit would reverse the order of the values: few left-out labels are easily predicted
    worse than by chance. ``values`` are (n,) decision values of left-out labels, ``targets`` these
    labels, 1 or -1, of both kinds.

    Notes
    -----
    The likelihood is that of smoothed labels, (n_+ + 1) / (n_+ + 2) and 1 / (n_- + 2), so that few
    labels never give certainty: a logistic regression in which each value counts for both labels.

    References
    ----------
    Platt (1999), section 2.2, with the smoothing of Lin, Lin and Weng (2007).
    """
    # imports scikit-learn: as slow as in `peewit.solvers.neighbors.distances`
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    is_positive = targets > 0
    n_positive = int(np.count_nonzero(is_positive))
    likely = np.where(
        is_positive,
        (n_positive + 1.0) / (n_positive + 2.0),
        1.0 / (targets.size - n_positive + 2.0),
    )
    unit = float(np.abs(values).max(initial=0.0)) or 1.0
    regression = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1_000)
    regression.fit(
        np.tile(values / unit, 2)[:, None],
        np.repeat([1, 0], values.size),
        sample_weight=np.concatenate([likely, 1.0 - likely]),
    )
    slope, offset = float(regression.coef_[0, 0]), float(regression.intercept_[0])
    return (slope / unit, offset) if slope > _LEAST_SLOPE else None
