"""Labels of `auto` that no error of its linear columns can change (P5).

The weights of arms, their scales, slopes, strata and class shares stay as judged, as do points of
nodes, features, and walks with the partitions that they begin from. What is left are errors of
potentials, densities and harmonic functions. Each moves the logits of a class within an interval,
and the mixture of the class within another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.models.auto.columns_of_all_edges import ColumnsOfAllEdges
from peewit.solvers.models.auto.density_arm import EVERYWHERE
from peewit.solvers.models.auto.poisson_arm import Bend, Potentials
from peewit.solvers.models.auto.stacked_arm import SHARE, StackedArm
from peewit.solvers.models.auto.stacking import Fit, Stack, StratifiedStack
from peewit.solvers.proof.bounded_system import Bounded
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.solution import Solution

_FAR: Final = 1e300
"""Stands for infinity among logits."""

_SINGLE: Final = 1e-6
"""Rounding of arms in float32, relative to their values."""


class Interval(NamedTuple):
    """Least and greatest values of some nodes, (n_rows, n_classes) each."""

    low: FloatArray
    high: FloatArray


ArmValues = Callable[[slice], Interval]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stacked:
    """An answer of `auto` with what it was made of."""

    solution: Solution
    arms: dict[str, StackedArm]
    stack: StratifiedStack
    covariate: FloatArray  # (n_nodes,)
    factors: FloatArray  # (n_classes,) of probabilities, for other class shares
    poisson: Potentials


def proven_labels(
    stacked: Stacked,
    columns: ColumnsOfAllEdges,
    potentials: tuple[Bounded, FloatArray],
    densities: tuple[Bounded, FloatArray],
    harmonic: tuple[Bounded, FloatArray] | None,
) -> tuple[BoolArray, Int64Array]:
    """(n_nodes,) whether each label is proven, and the classes that are.

    ``potentials``, ``densities`` and ``harmonic`` functions are columns with bounds, and deviations
    of nodes.
    """
    values: dict[str, ArmValues] = {name: _as_made(arm) for name, arm in stacked.arms.items()}
    values["poisson"] = _of_potentials(stacked.poisson, columns, *potentials)
    values["density"] = _of_densities(columns, *densities)
    if "harmonic" in values:
        unknown = Interval(np.array(-np.inf), np.array(np.inf))
        values["harmonic"] = lambda _rows: unknown
        if harmonic is not None:
            values["harmonic"] = _of_harmonic(columns, *harmonic)
    n_nodes = len(stacked.covariate)
    is_proven, classes = np.zeros(n_nodes, bool), np.zeros(n_nodes, np.int64)
    stack, decision = stacked.stack, stacked.solution.decision
    for rows in row_blocks(n_nodes):
        both = _mixture(stack.far, stacked, values, rows)
        near = np.flatnonzero(stack.coverage.is_near[rows])
        if near.size:
            others = _mixture(stack.near, stacked, values, rows)
            for mine, other in zip(both, others, strict=True):
                mine[near] = other[near]
        low, high = (each * stacked.factors for each in both)
        if decision is not None:
            low, high = _normalized(low, high)
            low, high = decision.values(low), decision.values(high)
        best = low.argmax(axis=1)
        places = np.arange(len(best))
        least = low[places, best]
        high[places, best] = -np.inf
        is_proven[rows] = least > high.max(axis=1)
        classes[rows] = best
    return is_proven & stacked.solution.reachable, classes


def _mixture(stack: Stack, stacked: Stacked, values: dict[str, ArmValues], rows: slice) -> Interval:
    """Probabilities of some nodes (K7), (K9), up to a factor of each row."""
    n_rows, n_classes = len(stacked.covariate[rows]), stacked.factors.size
    low, high = np.zeros((2, n_rows, n_classes))
    is_weighed = stacked.solution.decision is not None or (stacked.factors != 1.0).any()
    if stack.is_ranked and is_weighed:  # what ranks rows moves probabilities by a little
        return Interval(low, high + 1.0)
    for weight, fit in stack.counted():
        logits = _logits(fit, stack.shares.of_all, stacked, values, rows)
        shares = _softmax(logits)
        low += weight * shares.low
        high += weight * shares.high
    return Interval(low, high)


def _logits(
    fit: Fit, shares: FloatArray, stacked: Stacked, values: dict[str, ArmValues], rows: slice
) -> Interval:
    covariate = stacked.covariate[rows]
    base = np.tile(fit.intercept, (covariate.size, 1)) + covariate[:, None] * fit.slope
    if fit.uses_shares:
        base = base + shares
    low, high = base, base.copy()
    for name, own in fit.weights.items():
        if own > 0:
            scale, some = own * stacked.arms[name].scale, values[name](rows)
            low = low + scale * some.low
            high = high + scale * some.high
    return Interval(low, high)


def _softmax(logits: Interval) -> Interval:
    """Intervals of the softmax: each class against the others at their other ends."""
    low, high = (np.nan_to_num(each, posinf=_FAR, neginf=-_FAR) for each in logits)

    def at(own: FloatArray, others: FloatArray) -> FloatArray:
        shares = np.empty_like(own)
        for k in range(own.shape[1]):
            rest = logsumexp(np.delete(others, k, axis=1), axis=1)
            shares[:, k] = expit(own[:, k] - rest)
        return shares

    return Interval(at(low, high), at(high, low))


def _normalized(low: FloatArray, high: FloatArray) -> Interval:
    """Rows of sum 1: each class at one end, the others at the other."""

    def at(own: FloatArray, others: FloatArray) -> FloatArray:
        total = own + others.sum(axis=1, keepdims=True) - others
        return np.asarray(np.divide(own, total, out=np.zeros_like(own), where=total > 0))

    return Interval(at(low, high), at(high, low))


def _as_made(arm: StackedArm) -> ArmValues:
    """Values that stay, but for the rounding of float32."""

    def of(rows: slice) -> Interval:
        made = np.asarray(arm.values[rows], np.float64)
        slack = _SINGLE * np.abs(made).max(axis=1, keepdims=True)
        return Interval(made - slack, made + slack)

    return of


def _of_densities(columns: ColumnsOfAllEdges, bounded: Bounded, deviation: FloatArray) -> ArmValues:
    """Log odds of densities, up to a number of each node (K6)."""
    groups, labels = columns.groups, columns.groups.labels
    counts = np.bincount(labels.classes, minlength=labels.n_classes)
    weights = columns.volume * groups.class_sums().T / counts
    radius = bounded.radius(weights)

    def of(rows: slice) -> Interval:
        middle = bounded.columns[rows] @ weights
        off = _moved(deviation[rows], radius[None, :])
        return Interval(
            np.log(np.maximum(middle - off, 0.0) + EVERYWHERE),
            np.log(np.maximum(middle + off, 0.0) + EVERYWHERE),
        )

    return of


def _of_harmonic(columns: ColumnsOfAllEdges, bounded: Bounded, deviation: FloatArray) -> ArmValues:
    """Log odds of the shares of walks that end at labels of each class (K14)."""
    weights = columns.groups.class_sums().T
    radius = bounded.radius(weights)

    def of(rows: slice) -> Interval:
        middle = bounded.columns[rows] @ weights
        off = _moved(deviation[rows], radius[None, :])
        return Interval(
            np.log(np.clip(middle - off, 0.0, 1.0) + SHARE),
            np.log(np.clip(middle + off, 0.0, 1.0) + SHARE),
        )

    return of


def _of_potentials(
    poisson: Potentials, columns: ColumnsOfAllEdges, bounded: Bounded, deviation: FloatArray
) -> ArmValues:
    """Potentials less the mean of their node, bent, up to a number of each node (H1)."""
    groups, task = columns.groups, poisson.task
    n_groups, n_classes = bounded.columns.shape[1], groups.labels.n_classes
    n_components = len(task.means)
    sums, bend = groups.class_sums().T, Bend.made(poisson.scores, task.reachable)[0]
    by_degree = poisson.graph_weights(columns.degrees.weight)
    means = np.zeros((n_components, n_groups))
    np.add.at(means, task.component, by_degree[:, None] * bounded.columns)
    weights = columns.unit * (sums - task.means[:, None, :])  # (n_components, n_groups, n_classes)
    is_whole = np.asarray(~task.lacks.any(axis=1))
    pulled = weights - weights.mean(axis=2, keepdims=True)
    alone, apart = (
        np.array([bounded.radius(each) for each in some]).reshape(n_components, n_classes)
        for some in (weights, pulled)
    )

    def of(rows: slice) -> Interval:
        own, lacks = task.component[rows], task.lacks[task.component[rows]]
        settled = bounded.columns[rows] - means[own]
        middle = np.einsum("vg,vgk->vk", settled, weights[own])
        off = _moved(deviation[rows], alone[own])
        low, high = (
            np.where(lacks, np.where(lacks, np.inf, each).min(axis=1, keepdims=True), each)
            for each in (middle - off, middle + off)
        )
        low, high = (low - high.mean(axis=1, keepdims=True), high - low.mean(axis=1, keepdims=True))
        whole = is_whole[own]
        centered = middle[whole] - middle[whole].mean(axis=1, keepdims=True)
        off = _moved(deviation[rows][whole], apart[own[whole]])
        low[whole], high[whole] = centered - off, centered + off
        return Interval(bend.values(low), bend.values(high))

    return of


def _moved(deviation: FloatArray, radius: FloatArray) -> FloatArray:
    """What errors of these energies do at nodes; infinite where nothing is known."""
    is_open = (deviation[:, None] > 0) & (radius > 0)
    moved = np.zeros(is_open.shape)
    np.multiply(deviation[:, None], radius, out=moved, where=is_open)
    return moved
