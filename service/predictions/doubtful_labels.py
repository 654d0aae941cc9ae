"""Doubtful labels: those that the other labels contradict, judged while they were left out."""

from typing import Final

import numpy as np

from peewit.service.predictions.left_out import LeftOutScores, read_left_out
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.wire.predictions import DoubtfulLabel, DoubtfulLabelList
from peewit.solvers.arguments import BadArgument
from peewit.solvers.assessment.label_doubts import LabelDoubts
from peewit.solvers.decision import decided
from peewit.solvers.models.contract.model import ScoreKind

MAX_DOUBTFUL: Final = 10_000


def doubts_of(file: PredictionFile, left_out: LeftOutScores) -> LabelDoubts:
    """Doubts of the labels that were left out for a prediction file of classes."""
    kind: ScoreKind = "probability" if file.meta.score == "probability" else "class score"
    return LabelDoubts.of(left_out.scores, left_out.classes, kind, file.meta.rule)


def doubtful_labels(file: PredictionFile, *, k: int) -> DoubtfulLabelList:
    """The ``k`` most doubtful labels, the most doubtful first.

    The rank is how far the given class scores behind the best other class; for probabilities, how
    improbable the given class is. Labels that no other label reaches and labels of hidden nodes are
    skipped. Raises ValueError where numbers are predicted, and `NotCrossValidated` where the job
    left no labels out.
    """
    if file.meta.score == "value":
        raise BadArgument("model", "must predict classes for labels to be doubted, not numbers")
    left_out = read_left_out(file)
    scores, classes = left_out.scores, left_out.classes
    doubts = doubts_of(file, left_out)
    is_shown = file.take(left_out.nodes[doubts.order])["node"].is_valid().to_numpy()
    rows = doubts.order[is_shown][:k]
    predicted = decided(scores[rows], file.meta.rule)
    names = file.meta.class_names
    return DoubtfulLabelList(
        n_left_out=int(classes.size),
        n_contradicted=int(np.count_nonzero(doubts.contradicted)),
        labels=tuple(
            DoubtfulLabel(
                node=each["node"],
                label=names[classes[row]],
                predicted=names[place],
                behind=float(doubts.behind[row]),
                probability=float(scores[row, classes[row]])
                if file.meta.score == "probability"
                else None,
                dropped=bool(left_out.is_dropped[row]),
            )
            for row, place, each in zip(
                rows.tolist(), predicted.tolist(), file.lookup(left_out.nodes[rows]), strict=True
            )
        ),
    )
