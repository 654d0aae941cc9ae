"""Label samples: whether labels were drawn at random, and class shares where they were not.

Predictions for nodes and for left-out labels come from the same function, so their mean differs
where labels were drawn otherwise than at random: more frauds than honest accounts, or as many of
each class. Two rank sums (K16) see draws that shares do not tell: labels of nodes with more
edges than others, and labels that lie nearer to each other than nodes do to them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray
from peewit.solvers.labels import Labels
from peewit.solvers.late_modules import LateModule
from peewit.solvers.solution import Advised

special = LateModule("scipy.special")

DOUBT: Final = 0.003
"""Of labels that are less likely to be a random sample, class shares are not believed."""

UNLIKE_DEGREES: Final = 3.29
"""Deviate of the ranks of their degrees from which on labels are no random sample: p = .001."""

CLUMPED: Final = 4.2
"""The same of how near they are to labels of other folds, on one side; ranks of near nodes hang
together, so that more is asked."""

Bias: TypeAlias = Literal["shares", "spread", "more edges", "fewer edges", "close together"]
"""In what labels differ from the nodes."""

NO_SAMPLE: Final = "the labels are no random sample of the nodes"
"""How `LabelSample.warnings` begin."""

_LEAST_LEFT_OUT: Final = 10
"""Fewer are mostly of the classes that chance gave two labels, and no normal deviates."""

_LEAST_PER_CLASS: Final = 10
_PSEUDO_NODES: Final = 0.2
_MAX_NODES: Final = 20_000
_STEPS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelSample:
    """What predictions say of how the labels were drawn.

    Attributes
    ----------
    p_value : float
        That a random sample would be as far from the nodes; 1 where fewer than 10 labels could be
        left out.
    shares : (n_classes,) float64
        Class shares of all nodes: of the labels, or estimated where these are no random sample.
    is_estimated : bool
        Which of the two.
    degrees, nearness : float
        Normal deviates of the rank sums of the labels' degrees, and of how near left-out labels
        are to others, among those of the nodes (K16).
    """

    p_value: float
    shares: FloatArray
    is_estimated: bool
    degrees: float = 0.0
    nearness: float = 0.0

    @property
    def told(self) -> dict[str, float]:
        """What `biases_of` reads of a solution's stats."""
        return {
            "sample_p_value": self.p_value,
            "sample_degrees": self.degrees,
            "sample_nearness": self.nearness,
        }

    @property
    def biases(self) -> tuple[Bias, ...]:
        """In what the labels contradict a random sample."""
        return biases_of(self.told)

    @classmethod
    def of(cls, nodes: FloatArray, left_out: FloatArray, shares: FloatArray) -> "LabelSample":
        """From the class probabilities of nodes and of left-out labels.

        Parameters
        ----------
        nodes : (n_nodes, n_classes) float64
            Of nodes that labels reach, predicted without as many labels as those that are left out:
            a function of more of them may be another one.
        left_out : (n_used, n_classes) float64
        shares : (n_classes,) float64
            Of the labels, > 0.

        Notes
        -----
        The largest of the normal deviates of the classes, with Bonferroni's correction (K11). The
        estimate is that of Saerens, Latinne and Decaestecker (2002): EM for the shares under which
        the probabilities would be right, with a fifth as many nodes at the labels' own shares;
        only from 10 labels a class on, since of fewer it was off by up to 60 points.
        """
        n_used, n_classes = left_out.shape
        if n_used < _LEAST_LEFT_OUT or not len(nodes):
            return cls(p_value=1.0, shares=shares, is_estimated=False)
        away = np.abs(nodes.mean(axis=0) - left_out.mean(axis=0))
        variance = np.maximum(_variance(nodes), _variance(left_out))
        spread = np.sqrt(variance * (1.0 / n_used + 1.0 / len(nodes)) + 1.0 / (4.0 * n_used**2))
        p_value = min(1.0, float(2.0 * special.ndtr(-(away / spread).max()) * n_classes))
        if p_value >= DOUBT or n_used < _LEAST_PER_CLASS * n_classes:
            return cls(p_value=p_value, shares=shares, is_estimated=False)
        some = nodes[:: -(-len(nodes) // _MAX_NODES)]
        found = shares
        for _ in range(_STEPS):
            told = reweighed(some, found / shares).sum(axis=0)
            found = (told + _PSEUDO_NODES * len(some) * shares) / ((1 + _PSEUDO_NODES) * len(some))
        return cls(p_value=p_value, shares=found, is_estimated=True)

    def warnings(self, labels: Labels) -> tuple[str, ...]:
        """That the labels' shares are not those of the nodes, and which predictions use."""
        if self.p_value >= DOUBT:
            return ()
        if not self.is_estimated:
            told = "class shares are those of the labels, which may be far from the nodes'"
            return (Advised(f"{NO_SAMPLE}; {told}", "label random"),)
        names, given = labels.class_names, labels.class_prior()
        worst = np.argsort(-np.abs(self.shares - given))[:3]
        listed = ", ".join(
            f"{names[at]!r} has {given[at]:.0%} of them, about {self.shares[at]:.0%} of the nodes"
            for at in worst
        )
        return (Advised(f"{NO_SAMPLE}: {listed}; predictions use the latter", "label random"),)


def without_blame(warnings: Sequence[str]) -> tuple[str, ...]:
    """Those of `LabelSample.warnings` where labels were drawn at random, and thinning decided."""
    return tuple(
        each.replace(
            NO_SAMPLE, "what is left of the edges predicts other class shares than labels have"
        )
        for each in warnings
    )


def biases_of(stats: Mapping[str, float | int | str]) -> tuple[Bias, ...]:
    """In what labels contradict a random sample, by the stats of a model that has looked."""
    found: list[Bias] = []
    if "unjudged_share" in stats:
        found.append("spread")
    elif float(stats.get("sample_p_value", 1.0)) < DOUBT:
        found.append("shares")
    degrees = float(stats.get("sample_degrees", 0.0))
    if abs(degrees) > UNLIKE_DEGREES:
        found.append("more edges" if degrees > 0 else "fewer edges")
    if float(stats.get("sample_nearness", 0.0)) > CLUMPED:
        found.append("close together")
    return tuple(found)


def rank_deviate(some: RealArray, others: RealArray) -> float:
    """Normal deviate of the rank sum of ``some`` among both (K16): positive where they are larger.

    Equal values share their mean rank, and the variance falls by as much.
    """
    n_some, n_others = some.size, others.size
    if not n_some or not n_others:
        return 0.0
    n_all = n_some + n_others
    values, place, counts = np.unique(
        np.concatenate([some, others]), return_inverse=True, return_counts=True
    )
    middle = np.cumsum(counts) - (counts - 1) / 2.0
    ties = float((counts.astype(np.float64) ** 3 - counts).sum()) / (n_all * (n_all - 1))
    variance = n_some * n_others / 12.0 * (n_all + 1 - ties)
    if values.size == 1 or variance <= 0.0:
        return 0.0
    over = float(middle[place[:n_some]].sum()) - n_some * (n_all + 1) / 2.0
    return over / float(np.sqrt(variance))


def unlike_degrees(degree: FloatArray, nodes: Int64Array, some: Int64Array) -> float:
    """Normal deviate of the ranks of degrees (K16): of ``some`` labels among unlabeled nodes.

    Parameters
    ----------
    degree : (n_nodes,) float64
    nodes : (n_labeled,) int64
        All that are labeled.
    some : (n_some,) int64
        Those of them that are asked for.
    """
    is_other = np.ones(degree.size, bool)
    is_other[nodes] = False
    return rank_deviate(degree[some], degree[is_other])


def _variance(rows: FloatArray) -> FloatArray:
    """(k,) of each column of probabilities, without another block of the same size."""
    squares = np.einsum("nk,nk->k", rows, rows) / len(rows)
    return np.asarray(np.maximum(squares - np.square(rows.mean(axis=0)), 0.0))


def reweighed(probabilities: FloatArray, factors: FloatArray) -> FloatArray:
    """Rows times the factors of their classes, with sum 1 again."""
    weighed: FloatArray = probabilities * factors
    weighed /= weighed.sum(axis=1, keepdims=True)
    return weighed
