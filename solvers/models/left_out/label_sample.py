"""Label samples: whether labels were drawn at random, and class shares where they were not.

Nodes and left-out labels are predicted by the same function, so their mean predictions differ where
labels were not drawn at random: more frauds than honest accounts, or as many of each class. Two
rank sums (K16) see draws that shares do not show: labels of nodes with more edges than others, and
labels that lie nearer to each other than nodes do to them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray
from peewit.solvers.labels import Labels
from peewit.solvers.late_modules import LateModule
from peewit.solvers.solution import Advised

special = LateModule("scipy.special")

DOUBT: Final = 0.003
"""Below this p-value labels are no random sample, and their class shares are not believed (K11)."""

UNLIKE_DEGREES: Final = 3.29
"""Deviate of the ranks of degrees above which labels are no random sample (K16): p = .001."""

CLUMPED: Final = 4.2
"""The same for the nearness to labels of other folds, one-sided; higher, as ranks of near nodes are
dependent."""

Bias: TypeAlias = Literal["shares", "spread", "more edges", "fewer edges", "close together"]
"""In what labels differ from the nodes."""

NO_SAMPLE: Final = "the labels are no random sample of the nodes"
"""The beginning of `LabelSample.warnings`."""

_LEAST_LEFT_OUT: Final = 10
"""Fewer are mostly of the classes that chance gave two labels, and no normal deviates."""

_LEAST_PER_CLASS: Final = 10
_PSEUDO_NODES: Final = 0.2
_MAX_NODES: Final = 20_000
_STEPS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelSample:
    """What predictions say of how the labels were drawn.

    ``shares`` are those of the labels, or estimated where these are no random sample, or given.
    """

    p_value: float  # that a random sample is as far from the nodes (K11); 1 of fewer than 10
    shares: FloatArray  # (n_classes,) class shares of all nodes
    is_estimated: bool
    degrees: float = 0.0  # normal deviate of the rank sum of the labels' degrees (K16)
    nearness: float = 0.0  # that of how near left-out labels are to others (K16)
    given: Literal["known", "counted"] | None = None  # counted: those of the labels, as told

    def with_given(self, shares: FloatArray, given: Literal["known", "counted"]) -> "LabelSample":
        """The sample with class shares that are given, instead of estimated ones."""
        return replace(self, shares=shares, is_estimated=False, given=given)

    @property
    def shares_are(self) -> str:
        """Known, counted, estimated, or those of the labels."""
        return self.given or ("estimated" if self.is_estimated else "of labels")

    @property
    def is_reweighed(self) -> bool:
        """Whether nodes have other shares than fits on the labels believe."""
        return self.is_estimated or self.given is not None

    @property
    def stats(self) -> dict[str, float]:
        """The stats of a solution that `biases_of` reads."""
        return {
            "sample_p_value": self.p_value,
            "sample_degrees": self.degrees,
            "sample_nearness": self.nearness,
        }

    @property
    def biases(self) -> tuple[Bias, ...]:
        """In what the labels contradict a random sample."""
        return biases_of(self.stats)

    @classmethod
    def of(cls, nodes: FloatArray, left_out: FloatArray, shares: FloatArray) -> "LabelSample":
        """From the class probabilities of nodes and of left-out labels.

        Parameters
        ----------
        nodes : (n_nodes, n_classes) float64
            Of nodes that labels reach, predicted without as many labels as the left-out ones are:
            with all labels the function may be another one.
        shares : (n_classes,) float64
            Of the labels, > 0.

        Notes
        -----
        The largest of the normal deviates of the classes, with Bonferroni's correction (K11). The
        estimate is that of Saerens, Latinne and Decaestecker (2002): EM for the shares under which
        the probabilities would be right, with a fifth as many nodes at the labels' own shares; only
        from 10 labels a class on, as with fewer it may be off by 60 points.
        """
        n_used, n_classes = left_out.shape
        if n_used < _LEAST_LEFT_OUT or not len(nodes):
            return cls(p_value=1.0, shares=shares, is_estimated=False)
        away = np.abs(nodes.mean(axis=0) - left_out.mean(axis=0))
        variance = np.maximum(_variance(nodes), _variance(left_out))
        # t_k of (K11)
        spread = np.sqrt(variance * (1.0 / n_used + 1.0 / len(nodes)) + 1.0 / (4.0 * n_used**2))
        p_value = min(1.0, float(2.0 * special.ndtr(-(away / spread).max()) * n_classes))
        if p_value >= DOUBT or n_used < _LEAST_PER_CLASS * n_classes:
            return cls(p_value=p_value, shares=shares, is_estimated=False)
        some = nodes[:: -(-len(nodes) // _MAX_NODES)]
        guess = shares
        for _ in range(_STEPS):
            sums = reweighed(some, guess / shares).sum(axis=0)  # E step
            guess = (sums + _PSEUDO_NODES * len(some) * shares) / ((1 + _PSEUDO_NODES) * len(some))
        return cls(p_value=p_value, shares=guess, is_estimated=True)

    def warnings(self, labels: Labels) -> tuple[Advised, ...]:
        """A warning that labels and nodes have other shares, and which ones predictions use."""
        if self.p_value >= DOUBT or self.given == "known":
            return ()
        if self.given == "counted":
            caution = "class_shares=labels takes the shares of the labels all the same"
            return (Advised(f"{NO_SAMPLE}; {caution}", "label random"),)
        if not self.is_estimated:
            caution = "class shares are those of the labels, which may be far from the nodes'"
            return (Advised(f"{NO_SAMPLE}; {caution}", "label random"),)
        names, labeled = labels.class_names, labels.class_prior()
        worst = np.argsort(-np.abs(self.shares - labeled))[:3]
        listed = ", ".join(
            f"{names[at]!r} has {labeled[at]:.0%} of them, about {self.shares[at]:.0%} of the nodes"
            for at in worst
        )
        return (Advised(f"{NO_SAMPLE}: {listed}; predictions use the latter", "label random"),)


def without_blame(warnings: Sequence[str]) -> tuple[str, ...]:
    """`LabelSample.warnings` for labels drawn at random on a graph that was thinned."""
    return tuple(
        warning.replace(
            NO_SAMPLE, "what is left of the edges predicts other class shares than labels have"
        )
        for warning in warnings
    )


def biases_of(stats: Mapping[str, float | int | str]) -> tuple[Bias, ...]:
    """In what labels contradict a random sample, by the stats of a model that has looked."""
    biases: list[Bias] = []
    if "unjudged_share" in stats:
        biases.append("spread")
    elif float(stats.get("sample_p_value", 1.0)) < DOUBT:
        biases.append("shares")
    degrees = float(stats.get("sample_degrees", 0.0))
    if abs(degrees) > UNLIKE_DEGREES:
        biases.append("more edges" if degrees > 0 else "fewer edges")
    if float(stats.get("sample_nearness", 0.0)) > CLUMPED:
        biases.append("close together")
    return tuple(biases)


def rank_deviate(some: RealArray, others: RealArray) -> float:
    """Normal deviate of the rank sum of ``some`` among both (K16): positive where they are larger.

    Equal values share their mean rank, which lowers the variance.
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


def unlike_degrees(degree: FloatArray, labels: Labels, some: Int64Array) -> float:
    """Normal deviate of the ranks of degrees (K16) of labeled nodes among unlabeled ones."""
    is_other = labels.others(np.ones(degree.size, bool))
    return rank_deviate(degree[some], degree[is_other])


def _variance(rows: FloatArray) -> FloatArray:
    """(k,) variances of columns of probabilities, without another block of the same size."""
    squares = np.einsum("nk,nk->k", rows, rows) / len(rows)
    return np.asarray(np.maximum(squares - np.square(rows.mean(axis=0)), 0.0))


def reweighed(probabilities: FloatArray, factors: FloatArray) -> FloatArray:
    """Rows times the factors of their classes, normalized to sum 1."""
    weighed: FloatArray = probabilities * factors
    weighed /= weighed.sum(axis=1, keepdims=True)
    return weighed
