"""Warnings about an answer, in sentences: by labels, predicted shares and left-out accuracy.

All are computed from counts, whatever the model. Decision: a warning needs a difference beyond
chance that is also large enough to matter. Context: label shares speak for the nodes only if labels
were drawn at random; equally many of each class, the other usual draw, say nothing of them.
Consequence: counts as even as a draw by class are not compared with the predicted shares; only the
near loss of a class is reported.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import bdtr, chdtr, ndtr, pdtrc

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array, IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import ClassName, Labels
from peewit.solvers.models.auto.silence import SAY_NOTHING
from peewit.solvers.models.left_out.label_sample import DOUBT
from peewit.solvers.solution import Advice, Advised, Solution

CLOSE_TOGETHER: Final = "the labels lie close together"
"""Beginning of the warning that labeled nodes are neighbors (J8)."""

MAX_LISTED: Final = 20
"""Classes whose shares are listed."""

_P_VALUE: Final = 1e-4
_LEAST_DISTANCE: Final = 0.1  # part of the nodes that would have to change their class
_EVEN_P_VALUE: Final = 0.05
_LEAST_DIVERSITY: Final = 0.15
_LEAST_PART: Final = 0.02  # of its share of the labels, that a class must win
_LEAST_LEFT_OUT: Final = 10
_COMMON_SHARE: Final = 0.75
_DOMINANT_SHARE: Final = 0.95
_FEW_OTHERS: Final = 10
_LEAST_EVEN: Final = 3
_LEAST_LABELS: Final = 20
_LEAST_UNREACHED: Final = 0.1
_TOGETHER_P_VALUE: Final = 1e-6
_TOGETHER_RATIO: Final = 5.0
_MOST_LABELED: Final = 0.2
_ROWS: Final = 1 << 18
_MAX_NAMES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparedShares:
    """Labels of each class, and nodes without a label that are predicted to be of it."""

    class_names: tuple[ClassName, ...]
    n_labels: Int64Array  # (n_classes,)
    n_compared: Int64Array  # (n_classes,) labels that another label reaches
    n_predicted: Int64Array  # (n_classes,) without nodes that no label reaches
    given: FloatArray | None = None  # (n_classes,) known shares of all nodes

    @classmethod
    def of(
        cls, labels: Labels, solution: Solution, component: IntArray | None = None
    ) -> "ComparedShares":
        """Shares of an answer, counted some rows at a time.

        ``component`` is that of each node; None if labels reach nodes without edges.
        """
        is_counted = labels.others(solution.reachable)
        counts = np.zeros(labels.n_classes, np.int64)
        for first in range(0, is_counted.size, _ROWS):
            rows = slice(first, first + _ROWS)
            some = rows.start + np.flatnonzero(is_counted[rows])
            counts += np.bincount(solution.classes(some), minlength=labels.n_classes)
        is_reached = np.ones(labels.n_labeled, bool)
        if component is not None:
            own = component[labels.nodes]
            is_reached = np.bincount(own)[own] > 1
        return cls(
            class_names=labels.class_names,
            n_labels=np.bincount(labels.classes, minlength=labels.n_classes),
            n_compared=np.bincount(labels.classes[is_reached], minlength=labels.n_classes),
            n_predicted=counts,
            given=solution.class_shares,
        )

    @property
    def labels(self) -> FloatArray:
        """(n_classes,) shares among the labels that another label reaches."""
        shares: FloatArray = self.n_compared / max(1, self.n_compared.sum())
        return shares

    @property
    def expected(self) -> FloatArray:
        """(n_classes,) the given shares, else those of `labels`."""
        return self.labels if self.given is None else self.given

    @property
    def predicted(self) -> FloatArray:
        """(n_classes,) shares among the nodes without label; zeros if there are none."""
        shares: FloatArray = self.n_predicted / max(1, self.n_predicted.sum())
        return shares

    def listed(self) -> list[dict[str, Any]]:
        """The `MAX_LISTED` classes with the most labels, as JSON values."""
        most = np.sort(np.argsort(-self.n_labels, kind="stable")[:MAX_LISTED])
        of_labels = self.n_labels / self.n_labels.sum()
        shares = zip(of_labels[most].tolist(), self.predicted[most].tolist(), strict=True)
        return [
            {"label": self.class_names[place], "labels": labeled, "predicted": predicted}
            for place, (labeled, predicted) in zip(most.tolist(), shares, strict=True)
        ]


def answer_warnings(
    labels: Labels,
    graph: Graph,
    solution: Solution,
    shares: ComparedShares,
    *,
    left_out: tuple[float, int, BoolArray] | None = None,
    are_random: bool = False,
    is_thinned: bool = False,
) -> Iterator[Advised]:
    """All warnings on an answer, beside those of the model itself.

    Parameters
    ----------
    solution : Solution
        Its stats may report labels that the model left out.
    left_out : tuple of float, int and (n_labeled,) bool, optional
        Accuracy, number of left-out labels, and which labels may be left out; else the model's own,
        if it left any out.
    are_random : bool
        Whether all labels are marked as drawn at random.
    is_thinned : bool
        Whether dropped edges decide much: they then explain differences in shares and left-out
        labels.
    """
    if not is_thinned:
        yield from _prediction_warnings(labels, solution, shares, left_out, are_random=are_random)
    yield from label_warnings(labels, graph)


def _prediction_warnings(
    labels: Labels,
    solution: Solution,
    shares: ComparedShares,
    left_out: tuple[float, int, BoolArray] | None,
    *,
    are_random: bool,
) -> Iterator[Advised]:
    """Warnings on predicted shares and left-out labels; see `answer_warnings`."""
    stats = solution.stats
    sample_p_value = stats.get("sample_p_value")
    if stats.get("class_shares") == "of labels" and not are_random:
        yield from even_warnings(labels)
    if any(SAY_NOTHING in each for each in solution.warnings):  # which says it all
        return
    if sample_p_value is None:
        yield from share_warnings(shares, are_random=are_random)
    elif float(sample_p_value) >= DOUBT:  # else the model has told it
        yield from share_warnings(shares, scores_agree=True, is_largest=solution.decision is None)
    if left_out is not None:
        yield from left_out_warnings(labels, *left_out)
    elif "loo_accuracy" in stats and "unjudged_share" not in stats:  # else the model has told it
        n_left_out = int(stats["loo_labels"])
        yield from left_out_warnings(labels, float(stats["loo_accuracy"]), n_left_out)


def even_warnings(labels: Labels) -> Iterator[Advised]:
    """One if labels are equally many of each class, three or more, as a draw by class has them."""
    counts = np.bincount(labels.classes)
    if np.ptp(counts) == 0 and counts[0] >= _LEAST_EVEN:
        yield Advised(
            f"labels are equally many of each class, {counts[0]:,}; where classes are not, say "
            "their shares",
            "class shares",
        )


def share_warnings(
    shares: ComparedShares,
    *,
    scores_agree: bool = False,
    are_random: bool = False,
    is_largest: bool = True,
) -> Iterator[Advised]:
    """At most one: classes that are nearly lost, or predicted otherwise than labeled.

    It counts labels that others reach, and predictions at nodes that labels reach. ``scores_agree``
    says that mean probabilities are near the labels' shares, so that only choosing the largest can
    make a difference; ``are_random`` that labels were drawn at random; ``is_largest`` that the
    largest score decides. Given shares stand for those of the labels.
    """
    labeled, predicted = shares.expected, shares.predicted
    n_labels, n_others = int(shares.n_compared.sum()), int(shares.n_predicted.sum())
    if n_others == 0 or n_labels == 0 or labeled.size < 2:
        return
    chances = bdtr(shares.n_predicted, n_others, labeled)  # of so few nodes, at the labels' shares
    of_what = "of the labels" if shares.given is None else "by class_shares"
    largest = int(predicted.argmax())
    n_elsewhere = n_others - int(shares.n_predicted[largest])
    is_beyond_chance = bdtr(n_elsewhere, n_others, 1 - labeled[largest]) < _P_VALUE
    if is_beyond_chance and _diversity(predicted) < _LEAST_DIVERSITY * _diversity(labeled):
        yield Advised(
            f"the prediction has nearly collapsed: {shares.class_names[largest]!r} takes "
            f"{predicted[largest]:.1%} of the {n_others:,} nodes without label, and "
            f"{labeled[largest]:.1%} {of_what}. If it is not so common, solve with another "
            "model or with more labels",
            "other model",
            "label more",
        )
        return
    is_lost = (shares.n_labels >= 2) & (predicted < _LEAST_PART * labeled) & (chances < _P_VALUE)
    lost = np.flatnonzero(is_lost)
    if lost.size:
        named = ", ".join(
            f"{shares.class_names[place]!r} ({shares.n_labels[place]:,} labels, "
            f"{shares.n_predicted[place]:,} of {n_others:,} nodes)"
            for place in lost[:_MAX_NAMES].tolist()
        )
        more = f" and {lost.size - _MAX_NAMES} more" if lost.size > _MAX_NAMES else ""
        yield Advised(
            f"hardly a node is predicted to be of a class that has labels: {named}{more}. "
            "If they are not so rare, solve with another model or label more of them",
            "other model",
            "label more",
        )
        return
    if shares.given is not None or not is_largest or drawn_by_class(shares.n_labels):
        return
    if np.abs(labeled - predicted).sum() / 2 < _LEAST_DISTANCE:
        return
    error = np.sqrt(predicted * (1 - predicted) / n_labels + 1 / (4 * n_labels**2))
    z = np.abs(labeled - predicted) / error  # (J6)
    p_value = min(1.0, 2 * labeled.size * float(ndtr(-z.max())))
    if p_value < _P_VALUE:
        place = int(np.abs(labeled - predicted).argmax())
        cause = (
            "the labels are no random sample, or the model leans: label some nodes drawn at random "
            "to see which"
        )
        advice: tuple[Advice, ...] = ("label random",)
        if scores_agree:
            grows = predicted[place] > labeled[place] == labeled.max()
            whither = "to the commonest class" if grows else "to other classes"
            cause = (
                "mean probabilities are near the labels' shares, so nodes with little "
                f"evidence go {whither}. Label more nodes, or choose a threshold on "
                "probabilities"
            )
            advice = "label more", "threshold"
        elif are_random:
            cause = "the model leans: solve with another model, or choose a threshold on scores"
            advice = "other model", "threshold"
        yield Advised(
            "classes are predicted more or less often than labeled, beyond chance (z-test "
            f"of shares, p = {p_value:.0e}). {shares.class_names[place]!r} is "
            f"{labeled[place]:.1%} of the {n_labels:,} labels and {predicted[place]:.1%} of "
            f"the other nodes; {cause}",
            *advice,
        )


def left_out_warnings(
    labels: Labels, accuracy: float, n_left_out: int, may_leave_out: BoolArray | None = None
) -> Iterator[Advised]:
    """One if left-out labels are predicted hardly better than by their commonest class (J7).

    The commonest class is that of ``may_leave_out``, (n_labeled,) bool, or of all labels.
    """
    classes = labels.classes if may_leave_out is None else labels.classes[may_leave_out]
    counts = np.bincount(classes)
    majority = float(counts.max()) / classes.size
    needed = majority + 2 * np.sqrt(majority * (1 - majority) / max(1, n_left_out))
    if n_left_out < _LEAST_LEFT_OUT or accuracy > needed:
        return
    name = labels.class_names[int(counts.argmax())]
    is_common = majority >= _COMMON_SHARE
    what_then = (
        "accuracy says little where one class is so common: choose a threshold on the "
        "score of another class. It shows how many of its nodes are found, and how many of "
        "those found are right"
        if is_common
        else (
            "neither the graph nor the features separate these classes, or there are too few labels"
        )
    )
    yield Advised(
        f"{accuracy:.1%} of {n_left_out:,} labels left out were predicted right. Always "
        f"saying {name!r} is right for {majority:.1%} of the labels, so the prediction is "
        f"hardly better than that; {what_then}",
        *(("threshold",) if is_common else ("label more", "other model")),
    )


def label_warnings(labels: Labels, graph: Graph) -> Iterator[Advised]:
    """Warnings of one label a class, or labels of one class, in one component or of neighbors."""
    counts = np.bincount(labels.classes)
    if counts.max() == 1 and counts.size > 1:
        yield Advised(
            "each class has one label: how many nodes are right is luck in which nodes these are; "
            "label five of each",
            "label more",
        )
    n_labels, n_others = labels.n_labeled, labels.n_labeled - int(counts.max())
    is_dominated = counts.max() >= _DOMINANT_SHARE * n_labels and n_others < _FEW_OTHERS
    if n_labels >= _LEAST_LABELS and is_dominated:
        yield Advised(
            f"{int(counts.max()):,} of the {n_labels:,} labels are "
            f"{labels.class_names[int(counts.argmax())]!r}; {n_others} say little of the other "
            "classes: label more of those",
            "label more",
        )
    if n_labels < 2:
        return
    component = graph.component[labels.nodes]
    if (component == component[0]).all():
        is_asked = labels.asked_of(np.ones(graph.n_nodes, bool))
        unreached = float((graph.component != component[0])[is_asked].mean())
        if unreached > _LEAST_UNREACHED:
            yield Advised(
                f"all labels lie in one of {graph.n_components:,} components, and "
                f"{unreached:.1%} of the nodes in the others: label some of those",
                "label apart",
            )
    yield from _together(labels, graph)


def drawn_by_class(n_labels: Int64Array) -> bool:
    """Whether labels are as even over the classes as a draw by class, and not by chance."""
    if np.ptp(n_labels) <= 1:
        return True
    mean = n_labels.mean()
    statistic = float(np.square(n_labels - mean).sum() / mean)
    return bool(chdtr(n_labels.size - 1, statistic) < _EVEN_P_VALUE)


def _diversity(shares: FloatArray) -> float:
    """Number of classes beside the largest that the shares amount to: exp(entropy) - 1."""
    some = shares[shares > 0]
    return float(np.exp(-some @ np.log(some))) - 1.0


def _together(labels: Labels, graph: Graph) -> Iterator[Advised]:
    """A warning if labeled nodes are neighbors far more often than random nodes (J8)."""
    nodes, n_labels, n_nodes, n_all = labels.nodes, labels.n_labeled, graph.n_nodes, graph.n_edges
    if labels.among is not None:
        is_asked = labels.among
        n_nodes = int(np.count_nonzero(is_asked))
        of_asked = graph.adjacency[is_asked]
        n_all = int(np.count_nonzero(is_asked[of_asked.indices])) // 2
    if n_labels < _LEAST_LABELS or n_labels > _MOST_LABELED * n_nodes:
        return
    among = graph.adjacency[nodes][:, nodes]
    n_edges = among.nnz // 2
    expected = n_all * n_labels * (n_labels - 1) / (n_nodes * (n_nodes - 1))
    n_beside = int(np.count_nonzero(np.diff(among.indptr)))
    if n_edges == 0:
        return
    is_beyond_chance = pdtrc(n_edges - 1, expected) < _TOGETHER_P_VALUE
    if is_beyond_chance and n_edges > _TOGETHER_RATIO * expected and 2 * n_beside > n_labels:
        yield Advised(
            f"{CLOSE_TOGETHER}: {n_edges:,} edges join two labeled nodes, and "
            f"{expected:,.1f} would if they were drawn at random. Predictions far from them "
            "are less sure than labels left out show: label some nodes elsewhere",
            "label apart",
        )
