"""Thresholds on the score of one class: what each finds, and the one that meets a goal.

A node is positive if its score is at least the threshold. The caller chooses the scores: of
left-out labels to choose a threshold, of nodes with a true label to judge one.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array, RealArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreCurve:
    """Numbers of nodes at or above each score, the best score first."""

    scores: FloatArray  # (n_points,) distinct, decreasing; -inf where no label reaches
    n_true: Int64Array  # (n_points,) positive nodes with at least that score
    n_false: Int64Array  # (n_points,) negative ones

    @classmethod
    def of(cls, is_positive: BoolArray, scores: RealArray) -> "ScoreCurve":
        """The curve of (n_nodes,) scores; one sort."""
        order = np.argsort(scores)[::-1]
        ranked = scores[order].astype(np.float64)
        is_last = np.append(ranked[1:] != ranked[:-1], True)[: ranked.size]  # of equal scores
        n_true = np.cumsum(is_positive[order])[is_last]
        n_above = np.flatnonzero(is_last) + 1
        return cls(scores=ranked[is_last], n_true=n_true, n_false=n_above - n_true)

    @property
    def n_positive(self) -> int:
        """Positive nodes."""
        return int(self.n_true[-1]) if self.n_true.size else 0

    @property
    def n_negative(self) -> int:
        """Negative nodes."""
        return int(self.n_false[-1]) if self.n_false.size else 0

    @property
    def average_precision(self) -> float | None:
        """Mean precision at each step of recall (J2); None without a positive node."""
        if self.n_positive == 0:
            return None
        precision = self.n_true / (self.n_true + self.n_false)
        return float(np.diff(self.n_true, prepend=0) @ precision) / self.n_positive

    @property
    def roc_auc(self) -> float | None:
        """Chance that a positive node scores above a negative one, ties half (J3), or None."""
        if self.n_positive == 0 or self.n_negative == 0:
            return None
        above = self.n_true - np.diff(self.n_true, prepend=0) / 2
        pairs = self.n_positive * self.n_negative
        return float(np.diff(self.n_false, prepend=0) @ above) / pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdGoal:
    """Goal of a threshold: recall, precision or cost, at most one of them.

    Raises ValueError for a value outside its range, or several goals.

    Attributes
    ----------
    min_recall : float or None
        Least share of the positive nodes to find, in (0, 1]; the precision is then maximal.
    min_precision : float or None
        Least share of positive nodes among the found, in (0, 1]; the recall is then maximal.
    cost_fn, cost_fp : float or None
        Costs of a missed positive and of a found negative node, both positive; None counts as 1
        beside the other. Their mean over nodes is then minimal.
    positive_share : float or None
        Share of positive nodes, in (0, 1); None for that of the curve.
    """

    min_recall: float | None = None
    min_precision: float | None = None
    cost_fn: float | None = None
    cost_fp: float | None = None
    positive_share: float | None = None

    def __post_init__(self) -> None:
        for name in ("min_recall", "min_precision"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value <= 1.0:
                raise BadArgument(name, f"must lie in (0, 1], got {value}")
        for name in ("cost_fn", "cost_fp"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < np.inf:
                raise BadArgument(name, f"must be positive and finite, got {value}")
        if self.positive_share is not None and not 0.0 < self.positive_share < 1.0:
            raise BadArgument("positive_share", f"must lie in (0, 1), got {self.positive_share}")
        if len(self.goals) > 1:
            raise BadArgument(self.goals[0], f"must stand without {' and '.join(self.goals[1:])}")

    @property
    def goals(self) -> tuple[str, ...]:
        """Names of the goals that are set."""
        names = [
            name for name in ("min_recall", "min_precision") if getattr(self, name) is not None
        ]
        return (*names, *(["cost_fn or cost_fp"] if self.has_costs else []))

    @property
    def has_costs(self) -> bool:
        """Whether the goal is the least cost."""
        return self.cost_fn is not None or self.cost_fp is not None

    def cost(self, recall: FloatArray, false_rate: FloatArray, share: float) -> FloatArray:
        """Mean cost of a node (J5) at this recall and false positive rate."""
        missed = (1.0 if self.cost_fn is None else self.cost_fn) * share * (1.0 - recall)
        alarms = (1.0 if self.cost_fp is None else self.cost_fp) * (1.0 - share) * false_rate
        return missed + alarms


def precision_of(recall: FloatArray, false_rate: FloatArray, share: float) -> FloatArray:
    """Share of the found nodes that are positive (J4); nan if none is found."""
    hits, alarms = share * recall, (1.0 - share) * false_rate
    with np.errstate(invalid="ignore"):
        precision: FloatArray = hits / (hits + alarms)
    return precision


def choose_threshold(curve: ScoreCurve, goal: ThresholdGoal) -> float:
    """The threshold that meets a goal on a curve.

    It lies halfway between two scores of the curve, above all of them, or is the least of them; so
    it is never -inf, and nodes that no label reaches stay below. Raises ValueError without a goal,
    if the nodes are all of one kind, or if no threshold reaches the recall or the precision.
    """
    if not goal.goals:
        raise BadArgument(
            "threshold",
            "must be chosen for one of min_recall, min_precision, and cost_fn or cost_fp, got none",
        )
    if curve.n_positive == 0 or curve.n_negative == 0:
        raise BadArgument(
            "positive",
            f"must be the class of some of the labels left out and not of all, got "
            f"{curve.n_positive} of {curve.n_positive + curve.n_negative}",
        )
    reached = np.isfinite(curve.scores)
    scores = curve.scores[reached]
    none = np.zeros(1)
    recall = np.concatenate([none, curve.n_true[reached] / curve.n_positive])
    false_rate = np.concatenate([none, curve.n_false[reached] / curve.n_negative])
    n_nodes = curve.n_positive + curve.n_negative
    share = curve.n_positive / n_nodes if goal.positive_share is None else goal.positive_share
    precision = np.nan_to_num(precision_of(recall, false_rate, share), nan=-1.0)
    if goal.has_costs:
        place = int(np.argmin(goal.cost(recall, false_rate, share)))
    elif goal.min_recall is not None:
        meets = recall >= goal.min_recall
        _require_met("min_recall", meets, goal.min_recall, recall)
        place = int(np.argmax(np.where(meets, precision, -2.0)))
    else:
        least = 0.0 if goal.min_precision is None else goal.min_precision
        meets = precision >= least
        _require_met("min_precision", meets, least, precision)
        best = np.flatnonzero(meets & (recall == recall[meets].max()))
        place = int(best[np.argmax(precision[best])])
    return _between(scores, place)


def _require_met(name: str, meets: BoolArray, least: float, reached: FloatArray) -> None:
    if not meets.any():
        raise BadArgument(
            name, f"must be at most {reached.max():.4f}, the most of any threshold, got {least}"
        )


def _between(scores: FloatArray, n_above: int) -> float:
    """A threshold with ``n_above`` of the distinct float32 scores at or above it."""
    if scores.size == 0:
        return 0.0
    if n_above == 0:
        return float(np.nextafter(np.float32(scores[0]), np.float32(np.inf)))
    if n_above == scores.size:
        return float(scores[-1])
    above, below = scores[n_above - 1], scores[n_above]
    middle = float(np.float32((above + below) / 2))
    return middle if middle > below else float(above)
