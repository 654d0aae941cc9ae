"""Corrections of class masses: the share of a component that the scores of each class sum up to.

Few labels say little of how large a class is, and a harmonic function says even less: its masses
depend on where the labels happen to lie. All is done per component.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.laplacian_products import component_sums
from peewit.solvers.labels import Labels
from peewit.solvers.proof.readings import Misses, Reading

_EPS: Final = float(np.finfo(np.float64).eps)
_KNOWN: Final = 1e-2
_NEARLY_ALL: Final = 1.0 - 1e-6
"""From this mean of a class on its deviations are summed from those of the other classes: their own
digits are lost beside 1."""


def class_priors(labels: Labels, graph: Graph) -> FloatArray:
    """(n_components, n_classes) pi_k = (l_k + 1) / (l + c), of the labels of each component."""
    counts = np.zeros((graph.n_components, labels.n_classes))
    np.add.at(counts, (graph.component[labels.nodes], labels.classes), 1.0)
    shares: FloatArray = (counts + 1.0) / (counts.sum(axis=1, keepdims=True) + labels.n_classes)
    return shares


def normalized_masses(
    scores: FloatArray, labels: Labels, graph: Graph, shares: FloatArray | None = None
) -> FloatArray:
    """Distributions proportional to pi_k f_ik / sum_i f_ik: class-mass normalization.

    ``scores`` are f >= 0 up to rounding, with rows of sum 1; a class without label in a component
    keeps scores of 0 there. ``shares``, (n_classes,), are pi_k of every component; None stands for
    `class_priors`.

    Notes
    -----
    Where labels are few and their counts unequal, f is nearly constant, pi decides and the largest
    class wins everywhere; `contrasts` does not have that flaw.

    References
    ----------
    Zhu, Ghahramani and Lafferty (2003), section 4; here section D.3.
    """
    positive = np.maximum(scores, 0.0)
    masses = np.zeros((graph.n_components, labels.n_classes))
    component_sums(positive, graph.component, masses)
    factors = _mass_factors(masses, labels, graph, shares)
    weighed = positive * factors[graph.component]
    normalized: FloatArray = weighed / weighed.sum(axis=1, keepdims=True)
    return normalized


def _mass_factors(
    masses: FloatArray, labels: Labels, graph: Graph, shares: FloatArray | None
) -> FloatArray:
    """(n_components, n_classes) pi_k / sum_i f_ik; 0 for classes without label in a component."""
    factors = np.zeros_like(masses)
    wanted = (
        class_priors(labels, graph) if shares is None else np.broadcast_to(shares, masses.shape)
    )
    is_there = _is_there(labels, graph)  # what else has mass is rounding, and would be blown up
    is_there |= ~is_there.any(axis=1, keepdims=True)
    np.divide(wanted, masses, out=factors, where=is_there & (masses > 0))
    return factors


def _is_there(labels: Labels, graph: Graph) -> BoolArray:
    """(n_components, n_classes) whether the class has a label in the component."""
    is_there = np.zeros((graph.n_components, labels.n_classes), bool)
    is_there[graph.component[labels.nodes], labels.classes] = True
    return is_there


def contrasts(scores: FloatArray, labels: Labels, graph: Graph) -> FloatArray:
    """How much a node leans to each class, beyond what all nodes of its component do.

    Parameters
    ----------
    scores : (n_nodes, n_classes)
        A harmonic function f of the one-hot ``labels``: rows sum to 1.

    Returns
    -------
    (n_nodes, n_classes) float64
        p_k (f_ik / m_k - (1 - r)), to be compared within a row. m_k is the mean of f_k weighted by
        degree, r = sum_k var(f_k) / sum_k m_k (1 - m_k) in [0, 1] says how decided f is, and
        p_k = r m_k + (1 - r) pi_k. A class without label in a component never wins there.

    Notes
    -----
    A decided f (r = 1) is compared as it is: its masses are the sizes of the classes. A flat one
    (r = 0, few labels) is compared by pi_k (f_ik - m_k) / m_k: its constant part is an accident of
    where the labels lie, and what is left is Poisson learning with fixed labels. With equal numbers
    of labels the order is that of class-mass normalization.
    """
    parts = _parts(scores, labels, graph)
    contrast: FloatArray = parts.share[graph.component] * parts.leaning
    return contrast


def contrast_shares(scores: FloatArray, labels: Labels, graph: Graph) -> FloatArray:
    """`contrasts` as distributions, in the same order within each row.

    Each row is raised by the least number that makes all rows positive, (1 - r) max_k p_k, and
    divided by its sum: f itself where it is decided, near 1 / n_classes where it is flat. Classes
    without label in a component have 0 there.
    """
    parts, component = _parts(scores, labels, graph), graph.component
    least = ((1.0 - parts.decided) * parts.share).max(axis=1, keepdims=True)
    shares = np.maximum(parts.share[component] * parts.leaning + least[component], 0.0)
    shares[parts.mean[component] == 0] = 0.0
    sums = shares.sum(axis=1, keepdims=True)
    normalized: FloatArray = np.divide(shares, sums, out=np.array(scores), where=sums > 0)
    return normalized


def contrast_bounds(
    scores: FloatArray, bound: FloatArray, labels: Labels, graph: Graph
) -> FloatArray:
    """(n_nodes, n_classes) bounds on the errors of `contrasts`, of scores within ``bound``.

    To first order; infinite where the mean of a class is not known to one part in a hundred.
    """
    parts, component = _parts(scores, labels, graph), graph.component
    mean, own = parts.mean, parts.mean[component]
    bound = bound + len(scores) * _EPS * scores
    off_mean = parts.means(bound)
    off_deviation = bound + off_mean[component]
    off_deviation = np.where(own > _NEARLY_ALL, _rest(off_deviation), off_deviation)
    off_variance = parts.means(2.0 * np.abs(parts.deviation) * off_deviation).sum(axis=1)
    rest = _rest(mean)
    off_spread = (off_mean * rest + mean * _rest(off_mean)).sum(axis=1)
    missed, spread = off_variance + off_spread, (mean * rest).sum(axis=1)
    off_decided = np.ones_like(spread)  # r lies in [0, 1], so no more
    np.divide(missed, spread, out=off_decided, where=missed < spread)
    off_decided[missed == 0] = 0.0
    off_decided = off_decided[:, None]
    off_share = np.abs(mean - class_priors(labels, graph)) * off_decided + off_mean
    off_leaning = np.zeros_like(scores)
    np.divide(off_deviation, own, out=off_leaning, where=own > 0)
    relative = np.divide(off_mean, mean, out=np.zeros_like(mean), where=mean > 0)
    off_leaning += (np.abs(parts.leaning) + 1.0) * relative[component] + off_decided[component]
    off = off_share[component] * np.abs(parts.leaning) + parts.share[component] * off_leaning
    return np.where((off_mean <= _KNOWN * mean)[component], off, np.inf)


def contrast_reading(scores: FloatArray, misses: Misses, labels: Labels, graph: Graph) -> Reading:
    """`contrasts` of functions that ``scores`` are near, as p_k / m_k (f - m) and what is left.

    ``misses`` are weighed by degree, of sum 1 on every component. Slopes and levels are taken at
    the ends of the intervals of m_k and r (P3).
    """
    parts, priors = _parts(scores, labels, graph), class_priors(labels, graph)
    mean = parts.mean
    low, high = np.clip(mean - misses.mean, 0.0, 1.0), np.clip(mean + misses.mean, 0.0, 1.0)
    norm = np.sqrt(parts.means(parts.deviation**2))
    spread_low, spread_high = _spread_between(low, high)
    least = np.square(np.maximum(norm - misses.norm, 0.0)).sum(axis=1)
    most = np.square(norm + misses.norm).sum(axis=1)
    ones = np.ones_like(most)
    r_low = np.divide(least, spread_high, out=ones.copy(), where=spread_high > 0)
    r_high = np.divide(most, spread_low, out=ones.copy(), where=spread_low > most)
    r_low, r_high = (np.clip(each, 0.0, 1.0)[:, None] for each in (r_low, r_high))

    def at(m: FloatArray, r: FloatArray) -> FloatArray:
        """Slope p / m and level p (m_0 / m - 1 + r), m_0 the mean of ``scores``."""
        share = r * m + (1.0 - r) * priors
        slope = np.divide(share, m, out=np.zeros_like(m), where=m > 0)
        return np.stack([slope, slope * mean - share * (1.0 - r)])

    corners = np.stack([at(m, r) for m in (low, high) for r in (r_low, r_high)])
    slope, level = at(mean, parts.decided)
    slope_slack, level_slack = np.abs(corners - np.stack([slope, level])).max(axis=0)
    # levels are squares of r between the corners
    level_slack += np.abs(mean - priors) * (r_high - r_low) ** 2 / 4.0
    level_slack += misses.mean * (r_high - r_low) ** 2 / 4.0
    may_win = _is_there(labels, graph)
    level_slack[may_win & (low == 0)] = np.inf  # also where passes are too few yet for a mean > 0
    return Reading(
        slope=slope,
        middle=mean,
        level=level,
        slope_slack=slope_slack,
        level_slack=level_slack,
        may_win=may_win,
    )


def mass_reading(
    scores: FloatArray, misses: Misses, labels: Labels, graph: Graph, shares: FloatArray | None
) -> Reading:
    """`normalized_masses` of functions that ``scores`` are near; ``misses`` are weighed by 1."""
    masses = np.zeros((graph.n_components, labels.n_classes))
    component_sums(scores, graph.component, masses)
    factors = _mass_factors(masses, labels, graph, shares)
    low, high = masses - misses.mean, masses + misses.mean
    wanted, most, least = factors * masses, np.full_like(factors, np.inf), np.zeros_like(factors)
    np.divide(wanted, low, out=most, where=low > 0)
    np.divide(wanted, high, out=least, where=high > 0)
    slack = np.maximum(most - factors, factors - least)
    may_win, none = _is_there(labels, graph), np.zeros_like(factors)
    return Reading(
        slope=factors,
        middle=none,
        level=none,
        slope_slack=np.where(may_win, slack, 0.0),
        level_slack=none,
        may_win=may_win,
    )


def _spread_between(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Least and greatest sum of m (1 - m) over classes, of means between ``low`` and ``high``."""
    ends = np.stack([low * (1.0 - low), high * (1.0 - high)])
    most = np.where((low < 0.5) & (high > 0.5), 0.25, ends.max(axis=0))
    return ends.min(axis=0).sum(axis=1), most.sum(axis=1)


class _Parts(NamedTuple):
    """Contrasts as share * leaning: p_k and (f_ik - m_k) / m_k + r, named as in `contrasts`."""

    mean: FloatArray  # (n_components, n_classes): m
    share: FloatArray  # (n_components, n_classes): p
    decided: FloatArray  # (n_components, 1): r
    deviation: FloatArray  # (n_nodes, n_classes): f - m
    leaning: FloatArray  # (n_nodes, n_classes)
    means: Callable[[FloatArray], FloatArray]  # by component, of (n_nodes, n_classes)


def _parts(scores: FloatArray, labels: Labels, graph: Graph) -> _Parts:
    component, shape = graph.component, (graph.n_components, labels.n_classes)
    total = np.bincount(component, graph.degree, graph.n_components)
    weight = np.where(total[component] > 0, graph.degree, 1.0)  # an isolated node is all there is
    total[total == 0] = 1.0

    def means(columns: FloatArray) -> FloatArray:
        sums = np.zeros(shape)
        component_sums(weight[:, None] * columns, component, sums)
        return np.asarray(sums / total[:, None])

    mean = means(scores)
    own = mean[component]
    deviation = np.where(own > _NEARLY_ALL, -_rest(scores - own), scores - own)
    variance = means(deviation**2).sum(axis=1)
    spread = (mean * _rest(mean)).sum(axis=1)
    decided = np.ones_like(spread)
    np.divide(variance, spread, out=decided, where=spread > 0)
    decided = np.clip(decided, 0.0, 1.0)[:, None]  # r
    share = decided * mean + (1.0 - decided) * class_priors(labels, graph)  # p_k
    leaning = np.full_like(scores, -1.0)
    np.divide(deviation, own, out=leaning, where=own > 0)
    leaning += decided[component]
    return _Parts(
        mean=mean, share=share, decided=decided, deviation=deviation, leaning=leaning, means=means
    )


def _rest(columns: FloatArray) -> FloatArray:
    """Sum of the other columns in each row; for shares, 1 less their own."""
    return columns @ (1.0 - np.eye(columns.shape[1]))
