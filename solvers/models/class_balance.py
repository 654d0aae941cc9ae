"""Class sizes: what is asked of them, and weights under which arg max gives them (H3)."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.labels import Labels

ClassShares: TypeAlias = Literal["none", "labels"] | Mapping[str | int, float]
"""Class sizes are free, as among the labels, or known: numbers in their proportions by class."""

_TOLERANCE = 1e-3
_MAX_STEPS = 500
_PATIENCE = 10
_LEAST_SHARE = 1e-2
_NEXT_TO_NOTHING = 1e-200


def asked_shares(name: str, asked: ClassShares, labels: Labels) -> FloatArray | None:
    """(n_classes,) the shares of the nodes asked for, with sum 1; None where sizes are free.

    Classes are compared as text, since JSON knows no other. Shares of classes that no label has
    are left out. ``name`` is that of the hyperparameter, for the error.

    Raises
    ------
    ValueError
        A class of the labels has no share.
    """
    if not isinstance(asked, Mapping):
        return labels.class_prior() if asked == "labels" else None
    by_class = {class_text(each): share for each, share in asked.items()}
    for each in labels.class_names:
        if str(each) not in by_class:
            raise ValueError(
                f"{name} must name every class that is labeled, got no share for {each!r}, but "
                f"for {', '.join(by_class)}"
            )
    shares = np.array([by_class[str(each)] for each in labels.class_names], dtype=np.float64)
    shares /= shares.max()  # so that their sum is finite
    shares = np.maximum(shares, _NEXT_TO_NOTHING)
    return shares / float(shares.sum())


def unknown_classes(name: str, asked: object, labels: Labels) -> str | None:
    """A warning of classes that are asked for and no label has; None where there are none.

    ``name`` is that of the hyperparameter, and ``asked`` its value.
    """
    if not isinstance(asked, Mapping):
        return None
    known = {str(each) for each in labels.class_names}
    unknown = sorted({class_text(each) for each in asked} - known)
    if not unknown:
        return None
    return f"{name} names {', '.join(map(repr, unknown))}, which no label has; it was left out"


def class_text(name: str | float) -> str:
    """A class name as text; a whole number has no point."""
    is_whole = isinstance(name, float) and name.is_integer()
    return str(int(name)) if is_whole else str(name)


def share_miss(scores: FloatArray, shares: FloatArray) -> float:
    """How far the share of the nodes that a class wins is from the one asked for, at most."""
    return float(np.abs(_won(scores) - shares).max())


def balanced_weights(
    scores: FloatArray, shares: FloatArray, first: FloatArray | None = None
) -> FloatArray:
    """(n_classes,) weights s > 0 for which argmax_k s_k scores_ik has the shares asked for.

    Parameters
    ----------
    scores : (n_nodes, n_classes)
        Class scores.
    shares : (n_classes,)
        Share of the nodes that each class should win; sums to 1.
    first : (n_classes,) or None
        Weights to start from, ones by default.

    Notes
    -----
    Multiplicative weights: a class that wins too much is scaled down by the square root of how
    much too much, in smaller and smaller steps, until no share is off by more than 1e-3 or 500
    steps are done. Where scores tie, are nearly constant or positive for one class only, no weights
    reach the shares; the best ones seen are given, and `share_miss` tells what is missing.

    References
    ----------
    Calder, Cook, Thorpe and Slepcev (2020), section 2.3; (H3), whose step is additive.
    """
    weights = np.ones(scores.shape[1]) if first is None else first.copy()
    best, best_miss, rate, since = weights, np.inf, 0.5, 0
    for _ in range(_MAX_STEPS):
        won = _won(scores * weights)
        miss = float(np.abs(won - shares).max())
        if miss < best_miss:
            best, best_miss, since = weights, miss, 0
        else:
            since += 1
        if best_miss <= _TOLERANCE:
            break
        if since == _PATIENCE:
            weights, rate, since = best, rate / 2, 0
            continue
        weights = weights * ((shares + _LEAST_SHARE) / (won + _LEAST_SHARE)) ** rate
        weights = weights / np.exp(np.log(weights).mean())
    return best


def _won(scores: FloatArray) -> FloatArray:
    """(n_classes,) share of the rows in which each class is the greatest."""
    return np.bincount(scores.argmax(axis=1), minlength=scores.shape[1]) / len(scores)
