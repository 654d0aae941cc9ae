"""Kernel ridge regression on classes, and what each label's row would be without the label."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.labels import Labels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RidgeFit:
    """Coefficients of (K3) and left-out values of (K5).

    Attributes
    ----------
    dual_coef : (n_labeled, n_classes) float64
        alpha / s: the scores of a node are its kernel row between it and the labels times these.
    left_out : (n_labeled, n_classes) float64
        What the fit to the other labels predicts for each of them.
    """

    dual_coef: FloatArray
    left_out: FloatArray


def class_targets(labels: Labels) -> FloatArray:
    """(n_labeled, n_classes) targets of (K3): 1 / sqrt(labels of the class) in its column.

    Of uneven classes the larger one does not win wherever the kernel says little.
    """
    counts = np.bincount(labels.classes, minlength=labels.n_classes)
    return labels.targets() / np.sqrt(counts)


def fitted_ridge(kernel: FloatArray, targets: FloatArray, norm_penalty: float) -> RidgeFit:
    """The fit of (K3) with the kernel divided by its mean diagonal, and (K5), exactly.

    Parameters
    ----------
    kernel : (n_labeled, n_labeled) float64
        Between the labeled nodes, positive semidefinite.
    targets : (n_labeled, k) float64
    norm_penalty : float
        lambda > 0.

    Notes
    -----
    One inverse of order n_labeled. The scale s and the targets stay those of all labels when one
    is left out.
    """
    n_labeled = len(kernel)
    scale = float(np.trace(kernel)) / n_labeled or 1.0
    system = kernel / scale + norm_penalty * np.eye(n_labeled)
    inverse = cho_solve(cho_factor(system, lower=True), np.eye(n_labeled))
    coef = inverse @ targets
    return RidgeFit(
        dual_coef=coef / scale,
        left_out=targets - coef / np.diag(inverse)[:, None],
    )


def usable(labels: Labels) -> BoolArray:
    """(n_labeled,) whether a label may be left out: a class keeps its last one."""
    return np.asarray(np.bincount(labels.classes)[labels.classes] > 1)
