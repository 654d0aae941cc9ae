"""Suspects: unlabeled nodes most probably of one class, and how often such nodes are of it."""

from dataclasses import dataclass

import numpy as np

from peewit.service.predictions.false_alarms import (
    CONFIDENCE,
    FalseAlarms,
    candidates_above,
    is_unlabeled,
)
from peewit.service.predictions.filtered_rows import require_labeled
from peewit.service.predictions.left_out import read_left_out
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.predictions.sorted_rows import sorted_numbers
from peewit.service.predictions.thresholds import class_place
from peewit.solvers.arrays import Int64Array
from peewit.solvers.assessment.agreement import wilson_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionAbove:
    """How many left-out labels with at least a score are of a class."""

    n_above: int
    n_right: int
    share: float | None  # None where no left-out label scores so much
    low: float  # Wilson's interval (J16), of ``share`` of all nodes where one is given, and (J4b)
    high: float
    alarms: FalseAlarms


def suspects(file: PredictionFile, positive: str, n_rows: int) -> Int64Array:
    """Dense ids of the unlabeled nodes with the greatest score of a class, the greatest first.

    Nodes that no label reaches are left out. Raises BadArgument for a class without a column of
    scores, and where the file does not say which nodes carry a label.
    """
    require_labeled(file)
    column = _score_column(file, positive)
    numbers = sorted_numbers(file, column, n_rows=n_rows, mask=is_unlabeled)
    return numbers.astype(np.int64)


def count_suspects(file: PredictionFile, positive: str, threshold: float) -> int:
    """Number of unlabeled nodes whose score of a class is at least a threshold."""
    return candidates_above(file, class_place(file.meta, positive), threshold)[1]


def precision_above(
    file: PredictionFile, positive: str, score: float, *, positive_share: float | None = None
) -> PrecisionAbove:
    """Precision of a class among left-out labels with at least a score.

    With the share of the class among all nodes, precision and interval are those of nodes drawn
    with that share, (J4). Labels of the class may lie beside each other, and tell of each other
    what they do not tell of other nodes; so precision is no surer than the labels of other classes
    make it that few nodes score so much by mistake, (J4b). Raises BadArgument and
    `NotCrossValidated`.
    """
    place, left_out = class_place(file.meta, positive), read_left_out(file)
    is_positive = left_out.classes == place
    is_above = left_out.scores[:, place] >= np.float32(score)
    n_above, n_right = int(is_above.sum()), int((is_above & is_positive).sum())
    alarms = FalseAlarms.of(file, place, score, positive_share)
    if n_above == 0:
        return PrecisionAbove(n_above=0, n_right=0, share=None, low=0.0, high=1.0, alarms=alarms)
    share = n_right / n_above
    low, high = wilson_interval(n_right, n_above, confidence=CONFIDENCE)
    if positive_share is not None and 0 < is_positive.sum() < is_positive.size:
        before = float(is_positive.mean())
        share, low, high = (_at_share(each, before, positive_share) for each in (share, low, high))
    return PrecisionAbove(
        n_above=n_above,
        n_right=n_right,
        share=share,
        low=min(low, alarms.least_precision),
        high=high,
        alarms=alarms,
    )


def _at_share(precision: float, share: float, wanted: float) -> float:
    """A precision at one share of positive nodes, at another share (J4)."""
    hits, alarms = precision * wanted / share, (1 - precision) * (1 - wanted) / (1 - share)
    return hits / (hits + alarms)


def _score_column(file: PredictionFile, positive: str) -> str:
    class_place(file.meta, positive)
    return f"{file.score_column}:{positive}"
