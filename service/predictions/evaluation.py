"""Accuracy of predictions on nodes with a true label and no given one."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.labels.store import CurrentLabels
from peewit.service.tables.uploads import LabelValue, UploadedLabels
from peewit.solvers.arrays import BoolArray


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCount:
    """One class of the truth: nodes judged, and how many of them were right."""

    label: LabelValue
    n_judged: int
    n_right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RealEvaluation:
    """Predicted numbers against the truth.

    Attributes
    ----------
    rmse, mae : float or None
        Root of the mean squared miss, and mean absolute miss, over the judged nodes; None when
        none was judged. A node that no label reaches is predicted the mean of the labels.
    r2 : float or None
        1 - (squared misses) / (squared distances to the mean of the truth); None when the truth
        of the judged nodes does not vary.
    n_judged : int
        Nodes of the truth that carry no label.
    n_labeled, n_absent, n_unreachable : int
        As in `Evaluation`.
    """

    rmse: float | None
    mae: float | None
    r2: float | None
    n_judged: int
    n_labeled: int
    n_absent: int
    n_unreachable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Predictions against the truth.

    Attributes
    ----------
    accuracy : float or None
        Part of the judged nodes whose label is right; None when none was judged.
    n_judged, n_right : int
        Nodes of the truth that carry no label, and those of them that are right. A node that no
        label reaches is wrong.
    n_labeled : int
        Nodes of the truth left out because they carry a label.
    n_absent : int
        Nodes of the truth left out because the predictions do not have them.
    n_unreachable : int
        Judged nodes that no label reaches.
    classes : tuple of ClassCount
        By class, sorted.
    """

    accuracy: float | None
    n_judged: int
    n_right: int
    n_labeled: int
    n_absent: int
    n_unreachable: int
    classes: tuple[ClassCount, ...]


def evaluate(predictions: pa.Table, truth: UploadedLabels, labels: CurrentLabels) -> Evaluation:
    """Compare predicted labels with true ones on the nodes that carry no label.

    Labels are compared as people see them, so 3 and "3" are equal.

    Parameters
    ----------
    predictions : pyarrow.Table
        Columns ``node`` and ``label``, null where no label reaches.
    truth : UploadedLabels
        True labels; of a node named twice the last one counts.
    labels : CurrentLabels
        The labels that the predictions were made from.

    Raises
    ------
    ValueError
        The truth holds real numbers, the predictions classes; or none of its classes is that of a
        label, so that nothing could be right.
    """
    known = truth.last_of_each()
    _refuse(known, float, "true labels must be classes, as the predictions are")
    _require_common_class(known, labels)
    matched = _Match.of(predictions, known, labels)
    true = np.array([str(label) for label in known.values()], dtype=object)[matched.judged]
    shown = predictions["label"].cast(pa.string()).take(matched.rows)
    is_right = np.array(shown.to_pylist(), dtype=object) == true
    n_judged, n_right = len(matched.rows), int(is_right.sum())
    return Evaluation(
        accuracy=n_right / n_judged if n_judged else None,
        n_judged=n_judged,
        n_right=n_right,
        n_labeled=matched.n_labeled,
        n_absent=matched.n_absent,
        n_unreachable=shown.null_count,
        classes=tuple(
            ClassCount(
                label=label,
                n_judged=int((true == str(label)).sum()),
                n_right=int((is_right & (true == str(label))).sum()),
            )
            for label in sorted(set(known.values()), key=_order)
        ),
    )


def evaluate_numbers(
    predictions: pa.Table, truth: UploadedLabels, labels: CurrentLabels
) -> RealEvaluation:
    """Compare predicted numbers with true ones on the nodes that carry no label.

    Parameters
    ----------
    predictions : pyarrow.Table
        Columns ``node``; ``label``, null where no label reaches; and ``score``, there the mean.
    truth, labels
        As in `evaluate`.

    Raises
    ------
    ValueError
        A true label is no number.
    """
    known = truth.last_of_each()
    _refuse(known, str, "true labels must be numbers, as the predictions are")
    matched = _Match.of(predictions, known, labels)
    true = np.array(list(known.values()), dtype=np.float64)[matched.judged]
    label = predictions["label"].take(matched.rows)
    mean = predictions["score"].take(matched.rows).cast(pa.float64())
    predicted = pc.coalesce(label, mean).to_numpy()
    missed = predicted - true
    is_any = true.size > 0
    squares = float(np.square(true - true.mean()).sum()) if is_any else 0.0
    return RealEvaluation(
        rmse=float(np.sqrt(np.square(missed).mean())) if is_any else None,
        mae=float(np.abs(missed).mean()) if is_any else None,
        r2=1.0 - float(np.square(missed).sum()) / squares if squares > 0 else None,
        n_judged=true.size,
        n_labeled=matched.n_labeled,
        n_absent=matched.n_absent,
        n_unreachable=label.null_count,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Match:
    """Which nodes of the truth are judged, and their rows among the predictions."""

    judged: BoolArray
    rows: pa.Array
    n_labeled: int
    n_absent: int

    @classmethod
    def of(
        cls, predictions: pa.Table, known: dict[str, LabelValue], labels: CurrentLabels
    ) -> "_Match":
        nodes = pa.array(list(known), pa.large_string())
        is_labeled = pc.is_in(nodes, value_set=labels.nodes).to_numpy(zero_copy_only=False)
        predicted_nodes = predictions["node"].cast(pa.large_string())
        row = pc.index_in(nodes, value_set=predicted_nodes.combine_chunks())
        is_absent = row.is_null().to_numpy(zero_copy_only=False)
        judged = ~is_labeled & ~is_absent
        return cls(
            judged=judged,
            rows=row.filter(pa.array(judged)),
            n_labeled=int(is_labeled.sum()),
            n_absent=int((is_absent & ~is_labeled).sum()),
        )


def _refuse(known: dict[str, LabelValue], kind: type, rule: str) -> None:
    """Raise ValueError with the first node whose true label is of a kind."""
    for node, label in known.items():
        if isinstance(label, kind):
            raise ValueError(f"{rule}, got {label!r} of node {node!r}")


def _require_common_class(known: dict[str, LabelValue], labels: CurrentLabels) -> None:
    """Raise ValueError where the truth is of other classes than the labels: another column, say."""
    true = {str(label) for label in known.values()}
    given = {str(label) for label in labels.labels}
    if true and given and true.isdisjoint(given):
        raise ValueError(
            f"true labels must be classes of the labels, such as {min(given)!r}, got {min(true)!r}"
        )


def _order(label: LabelValue) -> tuple[bool, int, str]:
    """Numbers by value, then strings."""
    return isinstance(label, str), label if isinstance(label, int) else 0, str(label)
