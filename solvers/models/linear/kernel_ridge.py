"""Kernel ridge regression on classes, and the prediction of each label without itself."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.labels import Labels, deal_folds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RidgeFit:
    """Coefficients of (K3) and left-out values of (K5).

    A node's scores are its kernel row with the labels times ``dual_coef``, plus ``constant``.
    """

    dual_coef: FloatArray  # (n_labeled, n_classes): alpha / s
    constant: FloatArray  # (n_classes,)
    left_out: FloatArray  # (n_labeled, n_classes) of each label by the fit to the others


def class_targets(labels: Labels) -> FloatArray:
    """(n_labeled, n_classes) targets of (K3): 1 / sqrt(labels of the class) in its column.

    So the larger of uneven classes does not win wherever the kernel says little.
    """
    counts = np.bincount(labels.classes, minlength=labels.n_classes)
    return labels.targets() / np.sqrt(counts)


def fitted_ridge(
    kernel: FloatArray,
    targets: FloatArray,
    norm_penalty: float,
    *,
    fold: Int64Array | None = None,
    constant: float = 0.0,
) -> RidgeFit:
    """The fit of (K3) with the kernel divided by its mean diagonal, and (K5), exactly.

    Parameters
    ----------
    kernel : (n_labeled, n_labeled) float64
        Positive semidefinite.
    targets : (n_labeled, k) float64
    norm_penalty : float
        lambda > 0.
    fold : (n_labeled,) int64, or None
        Labels left out together; those of -1, or all if None, are left out alone.
    constant : float
        tau, the square of a feature that all nodes share, beside the kernel so divided.

    Notes
    -----
    One inverse of order n_labeled. The scale s and the targets stay those of all labels when some
    are left out.
    """
    n_labeled = len(kernel)
    scale = float(np.trace(kernel)) / n_labeled or 1.0
    system = kernel / scale + constant + norm_penalty * np.eye(n_labeled)
    inverse = cho_solve(cho_factor(system, lower=True), np.eye(n_labeled))
    coef = inverse @ targets  # alpha of (K3)
    left_out = targets - coef / np.diag(inverse)[:, None]  # (K5)
    for number in range(0 if fold is None else int(fold.max()) + 1):
        rows = np.flatnonzero(fold == number)
        left_out[rows] = targets[rows] - np.linalg.solve(inverse[np.ix_(rows, rows)], coef[rows])
    return RidgeFit(dual_coef=coef / scale, constant=constant * coef.sum(axis=0), left_out=left_out)


def class_folds(labels: Labels) -> Int64Array:
    """(n_labeled,) folds that hold about one label of each class; -1 for the last of a class.

    Without a single label its class has one less than the others, which decides where the kernel
    says little (K5).
    """
    n_folds = min(labels.n_usable, round(labels.n_labeled / labels.n_classes))
    if n_folds < 2:
        return np.full(labels.n_labeled, -1)
    return deal_folds(labels, n_folds, 0)[0]


def usable(labels: Labels) -> BoolArray:
    """(n_labeled,) whether a label may be left out: a class keeps its last one."""
    return np.asarray(np.bincount(labels.classes)[labels.classes] > 1)
