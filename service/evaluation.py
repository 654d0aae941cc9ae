"""How right predictions are where the truth is known and was not given away by a label."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from service.labels import CurrentLabels, LabelValue
from service.uploads import LabelRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCount:
    """One class of the truth: nodes judged, and how many of them were right."""

    label: LabelValue
    n_judged: int
    n_right: int


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


def evaluate(predictions: pa.Table, truth: Sequence[LabelRow], labels: CurrentLabels) -> Evaluation:
    """Compare predicted labels with true ones on the nodes that carry no label.

    Labels are compared as people see them, so 3 and "3" are equal.

    Parameters
    ----------
    predictions : pyarrow.Table
        Columns ``node`` and ``label``, null where no label reaches.
    truth : sequence of LabelRow
        True labels; of a node named twice the last one counts.
    labels : CurrentLabels
        The labels that the predictions were made from.
    """
    known = {str(row.node): row.label for row in truth}
    nodes = pa.array(list(known), pa.large_string())
    true = np.array([str(label) for label in known.values()], dtype=object)
    is_labeled = pc.is_in(nodes, value_set=labels.nodes).to_numpy(zero_copy_only=False)
    predicted_nodes = predictions["node"].cast(pa.large_string())
    row = pc.index_in(nodes, value_set=predicted_nodes.combine_chunks())
    is_absent = row.is_null().to_numpy(zero_copy_only=False)
    judged = ~is_labeled & ~is_absent
    shown = predictions["label"].cast(pa.string()).take(row.filter(pa.array(judged)))
    predicted = np.array(shown.to_pylist(), dtype=object)
    is_right = predicted == true[judged]
    n_judged, n_right = int(judged.sum()), int(is_right.sum())
    return Evaluation(
        accuracy=n_right / n_judged if n_judged else None,
        n_judged=n_judged,
        n_right=n_right,
        n_labeled=int(is_labeled.sum()),
        n_absent=int((is_absent & ~is_labeled).sum()),
        n_unreachable=shown.null_count,
        classes=_by_class(sorted(set(known.values()), key=_order), true[judged], is_right),
    )


def _by_class(
    classes: Sequence[LabelValue], true: np.ndarray, is_right: np.ndarray
) -> tuple[ClassCount, ...]:
    return tuple(
        ClassCount(
            label=label,
            n_judged=int((true == str(label)).sum()),
            n_right=int((is_right & (true == str(label))).sum()),
        )
        for label in classes
    )


def _order(label: LabelValue) -> tuple[bool, int, str]:
    """Numbers by value, then strings."""
    return isinstance(label, str), label if isinstance(label, int) else 0, str(label)
