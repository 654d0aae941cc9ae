"""Evaluation: predictions judged by true labels, on nodes that carry no given label.

Predictions are read a batch at a time; memory grows with the truth, not with the graph.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.labels.store import CurrentLabels
from peewit.service.predictions.prediction_files import own_score
from peewit.service.predictions.thresholds import ClassThreshold
from peewit.service.tables.uploads import LabelValue, UploadedLabels
from peewit.service.tables.uploads.label_words import bare_class
from peewit.service.wire.evaluations import (
    ClassEvaluation,
    ConfusedPair,
    Confusion,
    Evaluation,
    RealEvaluation,
    ThresholdEvaluation,
)
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array
from peewit.solvers.assessment.thresholds import ScoreCurve

MAX_CLASSES: Final = 100
"""Most classes that are listed one by one: those with the most nodes."""

MAX_CONFUSION_CLASSES: Final = 20
MAX_CONFUSED_PAIRS: Final = 10
DEFAULT_TOP_K: Final = 3
_NOTED: Final = 3  # classes


def evaluate(
    predictions: pa.Table,
    truth: UploadedLabels,
    labels: CurrentLabels,
    *,
    top_k: int | None = None,
    threshold: ClassThreshold | None = None,
) -> Evaluation:
    """Predicted classes compared with true ones, on the nodes that carry no label.

    Labels are compared as text, so 3 and "3" are equal. A node that no label reaches counts as
    wrong and ranks last for every class.

    The last label of a node in ``truth`` counts. A node counts as found if its class is among the
    ``top_k`` best, by default 3 where there are more. Refused are numbers beside classes, and a
    truth none of whose classes is one of the labels.
    """
    _refuse(truth, float, "true labels must be classes, as the predictions are")
    _require_common_class(truth, labels)
    known = _Truth.of(truth)
    prefix = f"{own_score(predictions.schema.names)}:"
    names = [
        name.removeprefix(prefix) for name in predictions.schema.names if name.startswith(prefix)
    ]
    k = _top_k(top_k, names)
    classes = _Classes.of(known, labels, predictions)
    matched = _Match.of(predictions, known.nodes, labels)
    true = known.codes_in(classes)[matched.has_truth]
    predicted = np.full(len(matched.has_truth), -1, np.int64)
    scores = np.full((len(matched.has_truth), len(names)), -np.inf, np.float32)
    for match in matched.batches:
        label = match.batch.column("label").cast(pa.string())
        code = pc.index_in(label, value_set=classes.texts).fill_null(-1).to_numpy()
        predicted[match.places] = code
        for column, name in enumerate(names):
            scores[match.places, column] = match.batch.column(f"{prefix}{name}").to_numpy()
    predicted, scores = predicted[matched.has_truth], scores[matched.has_truth]
    scores[predicted < 0] = -np.inf
    columns = pc.index_in(pa.array(names, pa.string()), value_set=classes.texts).to_numpy()
    return _Judgments(
        classes=classes, true=true, predicted=predicted, scores=scores, columns=columns
    ).evaluation(matched, k, threshold)


def evaluate_numbers(
    predictions: pa.Table, truth: UploadedLabels, labels: CurrentLabels
) -> RealEvaluation:
    """Predicted numbers compared with true ones, on the nodes that carry no label.

    ``predictions`` has columns ``node``, ``label`` (null where no label reaches) and ``score``
    (there the mean of the labels). Raises ValueError where a true label is no number.
    """
    _refuse(truth, str, "true labels must be numbers, as the predictions are")
    known = _Truth.of(truth)
    matched = _Match.of(predictions, known.nodes, labels)
    true = np.array(known.labels, dtype=np.float64)[matched.has_truth]
    predicted = np.empty(len(matched.has_truth))
    n_unreachable = 0
    for match in matched.batches:
        label = match.batch.column("label")
        mean = match.batch.column("score").cast(pa.float64())
        predicted[match.places] = pc.coalesce(label, mean).to_numpy(zero_copy_only=False)
        n_unreachable += int(label.filter(pa.array(matched.has_truth[match.places])).null_count)
    missed = predicted[matched.has_truth] - true
    is_any = true.size > 0
    squares = float(np.square(true - true.mean()).sum()) if is_any else 0.0
    return RealEvaluation(
        rmse=float(np.sqrt(np.square(missed).mean())) if is_any else None,
        mae=float(np.abs(missed).mean()) if is_any else None,
        r2=1.0 - float(np.square(missed).sum()) / squares if squares > 0 else None,
        n_judged=true.size,
        n_labeled=matched.n_labeled,
        n_absent=matched.n_absent,
        n_unreachable=n_unreachable,
    )


def evaluation_note(
    result: Evaluation | RealEvaluation, truth: UploadedLabels, labels: CurrentLabels
) -> str | None:
    """That nothing was judged, or that the truth has classes that no label has; else None."""
    if not result.n_judged:
        return (
            f"nothing is judged: of the {result.n_labeled + result.n_absent:,} nodes of the truth "
            f"{result.n_labeled:,} carry a label and {result.n_absent:,} have no prediction"
        )
    if isinstance(result, RealEvaluation):
        return None
    known = set(map(str, labels.labels))
    alike = {bare_class(name): name for name in sorted(known)}
    counts = Counter(map(str, truth.labels))
    notes = []
    for name, n_rows in counts.most_common():
        if name not in known:
            rows = "1 row has" if n_rows == 1 else f"{n_rows:,} rows have"
            meant = alike.get(bare_class(name))
            ask = "" if meant is None else f"; did you mean {meant!r}?"
            notes.append(f"{rows} class {name!r}, which no label has{ask}")
    if len(notes) > _NOTED:
        notes[_NOTED:] = [f"and {len(notes) - _NOTED:,} more such classes"]
    return "; ".join(notes) or None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Truth:
    """True labels, each node once."""

    nodes: pa.Array
    labels: Sequence[LabelValue]

    @classmethod
    def of(cls, truth: UploadedLabels) -> "_Truth":
        known = truth.last_of_each()
        return cls(nodes=pa.array(list(known), pa.large_string()), labels=list(known.values()))

    def codes_in(self, classes: "_Classes") -> Int64Array:
        texts = pa.array(list(map(str, self.labels)), pa.string())
        codes: Int64Array = pc.index_in(texts, value_set=classes.texts).cast(pa.int64()).to_numpy()
        return codes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Classes:
    """Ordered classes of truth, labels and predictions together, as values and as text."""

    names: tuple[LabelValue, ...]
    texts: pa.Array
    n_labels: Int64Array

    @classmethod
    def of(cls, truth: _Truth, labels: CurrentLabels, predictions: pa.Table) -> "_Classes":
        classes = pa.array(list(map(str, labels.labels)), pa.string())
        of_predictions = pc.unique(predictions["label"]).drop_null().to_pylist()
        by_text = {str(name): name for name in of_predictions}
        by_text |= {str(name): name for name in set(labels.labels)}
        by_text |= {str(name): name for name in set(truth.labels)}
        names = tuple(sorted(by_text.values(), key=_order))
        texts = pa.array(list(map(str, names)), pa.string())
        codes = pc.index_in(classes, value_set=texts).to_numpy()
        return cls(names=names, texts=texts, n_labels=np.bincount(codes, minlength=len(names)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _MatchedBatch:
    """Rows of one batch of predictions whose nodes are in the truth, and their places in it."""

    batch: pa.RecordBatch
    places: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Match:
    """Which nodes of the truth are judged, and the predictions found for them."""

    has_truth: BoolArray
    batches: tuple[_MatchedBatch, ...]
    n_labeled: int
    n_absent: int

    @classmethod
    def of(cls, predictions: pa.Table, nodes: pa.Array, labels: CurrentLabels) -> "_Match":
        is_labeled = pc.is_in(nodes, value_set=labels.nodes).to_numpy(zero_copy_only=False)
        is_absent = np.ones(len(nodes), bool)
        batches = []
        for batch in predictions.to_batches():
            place = pc.index_in(batch.column("node").cast(pa.large_string()), value_set=nodes)
            rows = place.is_valid()
            places = place.filter(rows).cast(pa.int64()).to_numpy()
            if places.size:
                is_absent[places] = False
                batches.append(_MatchedBatch(batch=batch.filter(rows), places=places))
        return cls(
            has_truth=~is_labeled & ~is_absent,
            batches=tuple(batches),
            n_labeled=int(is_labeled.sum()),
            n_absent=int((is_absent & ~is_labeled).sum()),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Judgments:
    """True and predicted class of each judged node, as places in ``classes``."""

    classes: _Classes
    true: Int64Array
    predicted: Int64Array  # (n_judged,); -1 where no label reaches
    scores: Float32Array  # (n_judged, n_columns); -inf where no label reaches
    columns: Int64Array  # (n_columns,) class of each column; empty where there are many classes

    def evaluation(
        self, matched: _Match, top_k: int | None, threshold: ClassThreshold | None
    ) -> Evaluation:
        n_judged, n_classes = self.true.size, len(self.classes.names)
        is_right = self.predicted == self.true
        n_true = np.bincount(self.true, minlength=n_classes)
        n_predicted = np.bincount(self.predicted[self.predicted >= 0], minlength=n_classes)
        n_right = np.bincount(self.true[is_right], minlength=n_classes)
        recall = _quotient(n_right, n_true)
        f1 = _quotient(2 * n_right, n_true + n_predicted)  # (J1)
        average_precision, roc_auc = self._rankings()
        order = np.argsort(-np.maximum(n_true, n_predicted), kind="stable")
        listed = np.sort(order[:MAX_CLASSES]).tolist()
        n_labels = self.classes.n_labels
        return Evaluation(
            accuracy=float(is_right.mean()) if n_judged else None,
            majority_accuracy=float(n_true.max()) / n_judged if n_judged else None,
            balanced_accuracy=_mean(recall),
            macro_f1=_mean(f1),
            macro_average_precision=_mean(average_precision),
            macro_roc_auc=_mean(roc_auc),
            top_k=top_k,
            top_k_accuracy=None if top_k is None else self._top_k_accuracy(top_k),
            n_judged=n_judged,
            n_right=int(n_right.sum()),
            n_labeled=matched.n_labeled,
            n_absent=matched.n_absent,
            n_unreachable=int((self.predicted < 0).sum()),
            n_classes=n_classes,
            classes=tuple(
                ClassEvaluation(
                    label=self.classes.names[place],
                    n_judged=int(n_true[place]),
                    n_predicted=int(n_predicted[place]),
                    n_right=int(n_right[place]),
                    precision=_figure(_quotient(n_right, n_predicted)[place]),
                    recall=_figure(recall[place]),
                    f1=_figure(f1[place]),
                    average_precision=_figure(average_precision[place]),
                    roc_auc=_figure(roc_auc[place]),
                    true_share=int(n_true[place]) / n_judged if n_judged else None,
                    predicted_share=int(n_predicted[place]) / n_judged if n_judged else None,
                    label_share=int(n_labels[place]) / int(n_labels.sum())
                    if n_labels.any()
                    else None,
                )
                for place in listed
            ),
            confusion=self._confusion(np.sort(order[:MAX_CONFUSION_CLASSES])),
            most_confused=self._most_confused(),
            threshold=None if threshold is None else self._threshold(threshold),
        )

    def _rankings(self) -> tuple[FloatArray, FloatArray]:
        """(n_classes,) average precision and area under the ROC curve; nan where undefined."""
        average_precision = np.full(len(self.classes.names), np.nan)
        roc_auc = average_precision.copy()
        for column, place in enumerate(self.columns.tolist()):
            curve = ScoreCurve.of(self.true == place, self.scores[:, column])
            average_precision[place] = _or_nan(curve.average_precision)
            roc_auc[place] = _or_nan(curve.roc_auc)
        return average_precision, roc_auc

    def _top_k_accuracy(self, k: int) -> float | None:
        """Top-k accuracy; of equal scores the first column ranks higher, as in predictions."""
        if self.true.size == 0:
            return None
        column = np.full(len(self.classes.names), -1)
        column[self.columns] = np.arange(self.columns.size)
        own = column[self.true]
        is_possible = (own >= 0) & (self.predicted >= 0)
        score = self.scores[np.arange(own.size), own][:, None]
        before = (self.scores > score).sum(axis=1)
        is_earlier = np.arange(self.columns.size) < own[:, None]
        before += ((self.scores == score) & is_earlier).sum(axis=1)
        return float((is_possible & (before < k)).mean())

    def _confusion(self, listed: Int64Array) -> Confusion:
        n_listed = listed.size
        place = np.full(len(self.classes.names) + 1, n_listed)
        place[listed] = np.arange(n_listed)
        place[-1] = n_listed + 1  # no label reaches, which is -1 among the predictions
        n_columns = n_listed + 2
        cells = place[self.true] * n_columns + place[self.predicted]
        counts = np.bincount(cells, minlength=(n_listed + 1) * n_columns)
        return Confusion(
            classes=tuple(self.classes.names[code] for code in listed.tolist()),
            counts=tuple(map(tuple, counts.reshape(-1, n_columns).tolist())),
        )

    def _most_confused(self) -> tuple[ConfusedPair, ...]:
        is_wrong = (self.predicted != self.true) & (self.predicted >= 0)
        n_classes = len(self.classes.names)
        pairs, counts = np.unique(
            self.true[is_wrong] * n_classes + self.predicted[is_wrong], return_counts=True
        )
        most = np.argsort(-counts, kind="stable")[:MAX_CONFUSED_PAIRS]
        return tuple(
            ConfusedPair(
                true=self.classes.names[pair // n_classes],
                predicted=self.classes.names[pair % n_classes],
                n_nodes=n_nodes,
            )
            for pair, n_nodes in zip(pairs[most].tolist(), counts[most].tolist(), strict=True)
        )

    def _threshold(self, threshold: ClassThreshold) -> ThresholdEvaluation:
        place = int(self.columns[threshold.place])
        return threshold.evaluation(
            self.true == place, self.scores[:, threshold.place], self.predicted == place
        )


def _quotient(part: Int64Array, whole: Int64Array) -> FloatArray:
    """Elementwise ``part / whole``; nan where ``whole`` is 0."""
    with np.errstate(invalid="ignore"):
        quotient: FloatArray = part / whole
    return quotient


def _mean(values: FloatArray) -> float | None:
    """Mean of the defined values; None where none is defined."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else None


def _figure(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def _top_k(k: int | None, columns: Sequence[str]) -> int | None:
    """The k of top-k accuracy; None where that would say nothing."""
    if k is None:
        return DEFAULT_TOP_K if len(columns) > DEFAULT_TOP_K else None
    if not columns:
        raise BadArgument(
            "top_k", f"needs a score of each class, which the predictions lack, got {k}"
        )
    if not 1 <= k < len(columns):
        raise BadArgument(
            "top_k", f"must lie between 1 and {len(columns) - 1}, below all classes, got {k}"
        )
    return k


def _refuse(truth: UploadedLabels, kind: type, rule: str) -> None:
    """Raise ValueError with the first node whose true label has a given type."""
    if kind in set(map(type, truth.labels)):
        row = next(row for row, label in enumerate(truth.labels) if isinstance(label, kind))
        raise ValueError(f"{rule}, got {truth.labels[row]!r} of node {str(truth.nodes[row])!r}")


def _require_common_class(truth: UploadedLabels, labels: CurrentLabels) -> None:
    """Raise ValueError where truth and labels share no class, for example of another column."""
    true = set(map(str, set(truth.labels)))
    names = set(map(str, set(labels.labels)))
    if true and names and true.isdisjoint(names):
        raise ValueError(
            f"true labels must be classes of the labels, such as {min(names)!r}, got {min(true)!r}"
        )


def _order(label: LabelValue) -> tuple[bool, int, str]:
    """Sort key: numbers by value, then strings."""
    return isinstance(label, str), label if isinstance(label, int) else 0, str(label)
