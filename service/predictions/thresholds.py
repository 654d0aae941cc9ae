"""Thresholds on the score of one class: chosen on left-out labels, evaluated, and applied."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from peewit.service.predictions.false_alarms import FalseAlarms
from peewit.service.predictions.filtered_rows import with_kinds
from peewit.service.predictions.label_sets import LabelSets
from peewit.service.predictions.left_out import read_left_out, sample_p_value
from peewit.service.predictions.prediction_files import (
    MAX_SCORE_COLUMNS,
    PROVEN,
    PredictionFile,
    PredictionMeta,
    label_values,
)
from peewit.service.wire.evaluations import Decision, ThresholdEvaluation
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, RealArray
from peewit.solvers.assessment.thresholds import (
    ScoreCurve,
    ThresholdGoal,
    choose_threshold,
    precision_of,
)
from peewit.solvers.decision import decided

_MAX_NAMES: Final = 10
_FEW_POSITIVE: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassThreshold:
    """Decision rule: a node is ``positive`` where its score of that class reaches a threshold."""

    place: int  # in ``PredictionMeta.class_names``
    positive: str | int
    threshold: float
    goal: ThresholdGoal  # costs and share to judge by, and what the threshold was chosen for

    def evaluation(
        self, is_positive: BoolArray, scores: RealArray, is_predicted: BoolArray
    ) -> ThresholdEvaluation:
        """Errors and costs on some nodes, of the threshold and of predictions without one.

        ``is_positive`` (n_nodes,) is the truth; ``scores`` (n_nodes,) of the class are -inf where
        no label reaches; ``is_predicted`` (n_nodes,) says where the class is the label without a
        threshold.
        """
        n_nodes, n_positive = is_positive.size, int(is_positive.sum())
        goal = self.goal.positive_share
        share = n_positive / max(1, n_nodes) if goal is None else goal
        return ThresholdEvaluation(
            positive=self.positive,
            threshold=self.threshold,
            n_nodes=n_nodes,
            n_positive=n_positive,
            positive_share=share,
            by_threshold=self._decision(is_positive, scores >= self.threshold, share),
            by_largest_score=self._decision(is_positive, is_predicted, share),
            warning=None,
        )

    def _decision(self, is_positive: BoolArray, is_found: BoolArray, share: float) -> Decision:
        n_positive = int(is_positive.sum())
        n_right = int((is_positive & is_found).sum())
        n_found = int(is_found.sum())
        recall = np.array(n_right / max(1, n_positive))
        false_rate = np.array((n_found - n_right) / max(1, is_positive.size - n_positive))
        precision = float(precision_of(recall, false_rate, share)) if n_found else None
        both = (precision or 0.0) + float(recall)
        cost = self.goal.cost(recall, false_rate, share) if self.goal.has_costs else None
        return Decision(
            precision=precision,
            recall=float(recall),
            f1=2 * (precision or 0.0) * float(recall) / both if both else 0.0,
            n_found=n_found,
            cost=None if cost is None else float(cost),
        )


def asked_threshold(
    file: PredictionFile,
    *,
    positive: str | None,
    threshold: float | None = None,
    **goal: float | None,
) -> ClassThreshold | None:
    """Result of `class_threshold` if a class is named; None if no argument is given.

    Raises the errors of `class_threshold`, and ValueError for other arguments without a class.
    """
    names = [name for name, value in {"threshold": threshold, **goal}.items() if value is not None]
    if positive is None:
        if names:
            raise BadArgument("positive", f"must name the class that {names[0]} speaks of")
        return None
    return class_threshold(file, positive, threshold=threshold, **goal)


def class_threshold(
    file: PredictionFile, positive: str, *, threshold: float | None = None, **goal: float | None
) -> ClassThreshold:
    """The given threshold, or the one that meets a goal on left-out labels.

    ``positive`` is the class as text, ``goal`` the fields of `ThresholdGoal`. Raises ValueError
    where an argument breaks its rule or the goal cannot be met, and `NotCrossValidated` where a
    goal is given and the job left no labels out.
    """
    target = ThresholdGoal(**goal)
    place = class_place(file.meta, positive)
    if threshold is None:
        threshold = _choose(file, place, target)
    elif not np.isfinite(threshold):
        raise BadArgument("threshold", f"must be finite, got {threshold}")
    elif target.goals and not target.has_costs:
        raise BadArgument("threshold", f"must stand without {target.goals[0]}, which chooses it")
    return ClassThreshold(
        place=place, positive=file.meta.class_names[place], threshold=threshold, goal=target
    )


def left_out_evaluation(file: PredictionFile, chosen: ClassThreshold) -> ThresholdEvaluation:
    """Evaluation of a threshold on the left-out labels; raises `NotCrossValidated`."""
    left_out = read_left_out(file)
    scores = left_out.scores[:, chosen.place]
    is_decided = decided(left_out.scores, file.meta.rule) == chosen.place
    result = chosen.evaluation(
        left_out.classes == chosen.place, scores, is_decided & np.isfinite(scores)
    )
    doubts = [] if file.meta.judged_by is None else [file.meta.judged_by]
    if result.n_positive < _FEW_POSITIVE:
        doubts.append(
            f"only {result.n_positive:,} of the labels left out are {chosen.positive!r}, so "
            "recall and precision may be far from these figures: label more nodes that are "
            f"{chosen.positive!r}"
        )
    doubts += _doubt_of_alarms(file, chosen, result.by_threshold.precision)
    p_value = sample_p_value(file)
    if chosen.goal.positive_share is not None or p_value is None:
        return replace(result, warning="; ".join(doubts) or None)
    doubts.append(
        f"the labels are no random sample of the nodes (p = {p_value:.0e}). Precision and "
        f"cost count on {result.positive_share:.0%} of the nodes being {chosen.positive!r}, "
        "which is hardly so, and the threshold may be far off: give the share of "
        f"{chosen.positive!r} among all nodes as positive_share"
    )
    return replace(result, warning="; ".join(doubts))


def _doubt_of_alarms(
    file: PredictionFile, chosen: ClassThreshold, precision: float | None
) -> list[str]:
    """That false alarms may be far more than left-out labels say, where they may be (J4b)."""
    alarms = FalseAlarms.of(file, chosen.place, chosen.threshold, chosen.goal.positive_share)
    if precision is None or alarms.least_precision >= precision / 2:
        return []
    told = (
        f"{alarms.most:,} of the {alarms.n_found:,} nodes found may be false alarms, as "
        f"{alarms.n_wrong:,} of {alarms.n_others:,} left-out labels of other classes score "
        f"as much. So precision may be {alarms.least_precision:.0%} where labels of "
        f"{chosen.positive!r} lie beside each other and others do not: label random nodes"
    )
    return [told]


def with_threshold(
    file: PredictionFile, batches: Iterable[pa.RecordBatch], chosen: ClassThreshold
) -> Iterator[pa.RecordBatch]:
    """Rows of predictions decided by a threshold.

    ``label`` is the class where its score is at least the threshold, else the best other class;
    ``score`` is that of the label; ``margin`` is the distance of the class's score from the
    threshold.
    """
    labels = label_values(file.meta.class_names)
    names = [f"{file.score_column}:{name}" for name in labels.to_pylist()]
    for batch in batches:
        scores = np.column_stack([batch.column(name).to_numpy() for name in names])
        reachable = batch.column("reachable").to_numpy(zero_copy_only=False)
        of_class = scores[:, chosen.place]
        others = scores.copy()
        others[:, chosen.place] = -np.inf
        winner = decided(others, file.meta.rule)
        winner[of_class >= chosen.threshold] = chosen.place
        code = pa.array(winner, pa.int32(), mask=~reachable)
        is_text = pa.types.is_string(labels.type)
        margin = np.where(reachable, np.abs(of_class - np.float32(chosen.threshold)), 0)
        columns: dict[str, Any] = {
            **dict(zip(batch.schema.names, batch.columns, strict=True)),
            "label": pa.DictionaryArray.from_arrays(code, labels) if is_text else labels.take(code),
            file.score_column: pa.array(scores[np.arange(len(winner)), winner], pa.float32()),
            "margin": pa.array(margin, pa.float32()),
        }
        if PROVEN in columns:  # of the label by the largest score
            columns[PROVEN] = pa.nulls(len(winner), pa.bool_())
        yield pa.record_batch(list(columns.values()), schema=batch.schema)


def class_place(meta: PredictionMeta, positive: str) -> int:
    """Place of a class among the score columns; raises BadArgument where it has none."""
    if meta.score == "value":
        raise BadArgument(
            "positive", f"must be left out where numbers are predicted, got {positive!r}"
        )
    names = [str(name) for name in meta.class_names]
    if positive not in names:
        more = ", ..." if len(names) > _MAX_NAMES else ""
        shown = ", ".join(names[:_MAX_NAMES]) + more
        raise BadArgument("positive", f"must be one of the classes {shown}, got {positive!r}")
    if len(names) > MAX_SCORE_COLUMNS:
        raise BadArgument(
            "positive",
            f"needs a score of each class, kept of up to {MAX_SCORE_COLUMNS} classes, got "
            f"predictions of {len(names)}",
        )
    return names.index(positive)


def _choose(file: PredictionFile, place: int, goal: ThresholdGoal) -> float:
    left_out = read_left_out(file)
    curve = ScoreCurve.of(left_out.classes == place, left_out.scores[:, place])
    return choose_threshold(curve, goal)


def with_answers(
    file: PredictionFile,
    batches: Iterator[pa.RecordBatch],
    *,
    positive: str | None = None,
    threshold: float | None = None,
    coverage: float | None = None,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Rows decided by a threshold, and with their sets, as far as these are asked for.

    In a typed graph they have the kind and the id of each node.
    """
    chosen = asked_threshold(file, positive=positive, threshold=threshold)
    if chosen is not None:
        batches = with_threshold(file, batches, chosen)
    if coverage is None:
        return with_kinds(file, file.schema, batches)
    sets = LabelSets.of(file, coverage)
    return with_kinds(file, sets.schema, sets.with_sets(batches))
