"""Agreement of people who have labeled the same nodes: of two, and of all.

Formulas (J16) to (J18). Rows of ``answers`` are nodes, columns are people; an answer is the number
of a class, or ``NO_ANSWER``.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.late_modules import LateModule

special = LateModule("scipy.special")

NO_ANSWER: Final = -1

MOST_CLASSES: Final = 200
"""Most classes for kappa and alpha: their tables have a column for each."""

_N_RESAMPLES: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and its interval.

    ``value`` is None if undefined, such as kappa where all answers are of one class, or with more
    than `MOST_CLASSES` classes. ``low`` and ``high`` are None if no interval can be computed.
    """

    value: float | None
    low: float | None
    high: float | None


_UNKNOWN: Final = Estimate(value=None, low=None, high=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAgreement:
    """Agreement of two people."""

    n_nodes: int  # labeled by both
    n_agreed: int  # labeled the same by both
    observed: Estimate  # share of agreed nodes, Wilson's interval (J16)
    kappa: Estimate  # Cohen's (J17), interval of a bootstrap over nodes


def pair_agreement(
    first: Int64Array, second: Int64Array, *, confidence: float = 0.95, seed: int = 0
) -> PairAgreement:
    """Agreement of two people on the nodes that both have labeled.

    ``first`` and ``second`` are their (n_nodes,) answers, `NO_ANSWER` for none. ``confidence`` is
    the coverage of the intervals, in (0, 1); ``seed`` is that of the bootstrap.
    """
    _require_confidence(confidence)
    if first.shape != second.shape:
        raise BadArgument("second", f"must have {first.size} answers, got {second.size}")
    both = (first != NO_ANSWER) & (second != NO_ANSWER)
    a, b = first[both], second[both]
    n_nodes, n_agreed = int(a.size), int(np.count_nonzero(a == b))
    if n_nodes == 0:
        return PairAgreement(n_nodes=0, n_agreed=0, observed=_UNKNOWN, kappa=_UNKNOWN)
    low, high = wilson_interval(n_agreed, n_nodes, confidence=confidence)
    return PairAgreement(
        n_nodes=n_nodes,
        n_agreed=n_agreed,
        observed=Estimate(value=n_agreed / n_nodes, low=low, high=high),
        kappa=_UNKNOWN
        if np.union1d(a, b).size > MOST_CLASSES
        else _bootstrap(_Kappa.of(a, b), confidence, seed),
    )


def alpha_agreement(
    answers: Int64Array, *, confidence: float = 0.95, seed: int = 0
) -> tuple[int, Estimate]:
    """Number of nodes that count, and Krippendorff's alpha for classes (J18).

    ``answers`` are (n_nodes, n_people), `NO_ANSWER` for none; nodes with fewer than two do not
    count. The interval, of a bootstrap over nodes, covers alpha with ``confidence``, in (0, 1).
    """
    _require_confidence(confidence)
    is_pairable = np.count_nonzero(answers != NO_ANSWER, axis=1) >= 2
    n_nodes = int(np.count_nonzero(is_pairable))
    if n_nodes == 0 or np.unique(answers[answers != NO_ANSWER]).size > MOST_CLASSES:
        return n_nodes, _UNKNOWN
    return n_nodes, _bootstrap(_Alpha.of(answers[is_pairable]), confidence, seed)


def wilson_interval(n_hits: int, n: int, *, confidence: float) -> tuple[float, float]:
    """Interval of a share of which ``n_hits`` of ``n`` were observed (J16)."""
    z = float(special.ndtri((1 + confidence) / 2))
    share, spread = n_hits / n, z * z / n
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * np.sqrt(share * (1 - share) / n + spread / (4 * n))
    return float(max(middle - half, 0.0)), float(min(middle + half, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kappa:
    """The terms of (J17) for each kind of node; a resample is a product with their counts."""

    n_nodes: Int64Array
    agreed: FloatArray
    first: FloatArray
    second: FloatArray

    @classmethod
    def of(cls, a: Int64Array, b: Int64Array) -> "_Kappa":
        names, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
        kinds, n_nodes = np.unique(codes.reshape(2, -1), axis=1, return_counts=True)
        first, second = kinds
        classes = np.eye(names.size)
        return cls(
            n_nodes=n_nodes,
            agreed=(first == second).astype(np.float64),
            first=classes[first],
            second=classes[second],
        )

    def __call__(self, counts: FloatArray) -> FloatArray:
        n = counts.sum(axis=1)
        observed = counts @ self.agreed / n
        by_chance = np.sum((counts @ self.first) * (counts @ self.second), axis=1) / n**2
        return _ratio(observed - by_chance, 1 - by_chance)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Alpha:
    """The terms of (J18) for each kind of node: answers of each class, and differing pairs."""

    n_nodes: Int64Array
    n_answers: FloatArray
    of_class: FloatArray
    differing: FloatArray

    @classmethod
    def of(cls, answers: Int64Array) -> "_Alpha":
        is_there = answers != NO_ANSWER
        names = np.unique(answers[is_there])
        of_node = np.stack([np.count_nonzero(answers == name, axis=1) for name in names], axis=1)
        kinds, n_nodes = np.unique(of_node, axis=0, return_counts=True)
        of_class = kinds.astype(np.float64)
        n_answers = of_class.sum(axis=1)
        differing = (n_answers**2 - np.sum(of_class**2, axis=1)) / (n_answers - 1)
        return cls(n_nodes=n_nodes, n_answers=n_answers, of_class=of_class, differing=differing)

    def __call__(self, counts: FloatArray) -> FloatArray:
        n = counts @ self.n_answers
        by_chance = n**2 - np.sum((counts @ self.of_class) ** 2, axis=1)
        observed = (n - 1) * (counts @ self.differing)
        return _ratio(by_chance - observed, by_chance)


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Quotients; nan if there is one class alone, where chance agrees as well."""
    is_defined: BoolArray = below > 1e-12
    return np.where(is_defined, above / np.where(is_defined, below, 1.0), np.nan)


def _bootstrap(figure: _Kappa | _Alpha, confidence: float, seed: int) -> Estimate:
    """A figure of all nodes, and its quantiles over nodes drawn with replacement."""
    value = float(figure(figure.n_nodes[None].astype(np.float64))[0])
    if np.isnan(value):
        return _UNKNOWN
    n_nodes, rng = int(figure.n_nodes.sum()), np.random.default_rng(seed)
    draws = rng.multinomial(n_nodes, figure.n_nodes / n_nodes, _N_RESAMPLES)
    drawn = figure(draws.astype(np.float64))
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn[~np.isnan(drawn)], [tail, 1 - tail])
    return Estimate(value=value, low=float(low), high=float(high))


def _require_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise BadArgument("confidence", f"must lie in (0, 1), got {confidence}")
