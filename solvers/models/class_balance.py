"""Class weights under which arg max gives every class the share of the nodes asked for (H3)."""

import numpy as np

from solvers.arrays import FloatArray

_TOLERANCE = 1e-3
_MAX_STEPS = 500
_PATIENCE = 10
_LEAST_SHARE = 1e-2


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
    steps are done. Where scores tie or are nearly constant no weights reach the shares; the best
    ones seen are given.

    References
    ----------
    Calder, Cook, Thorpe and Slepcev (2020), section 2.3; ALGORITHMS H3, whose step is additive.
    """
    weights = np.ones(scores.shape[1]) if first is None else first.copy()
    best, best_miss, rate, since = weights, np.inf, 0.5, 0
    for _ in range(_MAX_STEPS):
        won = np.bincount((scores * weights).argmax(axis=1), minlength=weights.size) / len(scores)
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
