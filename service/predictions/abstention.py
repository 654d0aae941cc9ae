"""Abstention: the score above which few predictions are wrong, and the curve of errors by score."""

from typing import Final

import numpy as np
import pyarrow as pa

from peewit.service.predictions.left_out import read_left_out, sample_p_value
from peewit.service.predictions.prediction_files import PredictionFile, own_score
from peewit.service.wire.evaluations import Abstention, RiskPoint
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray
from peewit.solvers.assessment.abstention import RiskCurve
from peewit.solvers.decision import decided

_MAX_POINTS: Final = 50


def abstention(file: PredictionFile, *, max_error: float, confidence: float) -> Abstention:
    """The lowest score threshold at which at most ``max_error`` of the predictions are wrong.

    Errors are counted on labels left out; labels that no other label reaches are skipped. Raises
    ValueError for an argument outside (0, 1) or scores that are no probabilities, and
    `NotCrossValidated` where the job left no labels out.
    """
    if file.meta.score != "probability":
        raise BadArgument(
            "model",
            "must give probabilities, by which answers can be compared: solve with "
            f"probabilities=true; job {file.meta.job_id} gives a {file.meta.score}",
        )
    left_out = read_left_out(file)
    reached = np.isfinite(left_out.scores).all(axis=1)
    scores, classes = left_out.scores[reached], left_out.classes[reached]
    predicted = decided(scores, file.meta.rule)
    curve = RiskCurve.of(predicted == classes, scores[np.arange(predicted.size), predicted])
    place = curve.threshold_place(max_error, confidence)
    greatest = curve.greatest_error(confidence)

    def point(at: int) -> RiskPoint:
        return RiskPoint(
            score=float(curve.certainty[at]),
            answered=float(curve.n_answered[at] / scores.shape[0]),
            error=float(curve.error[at]),
            greatest_error=float(greatest[at]),
        )

    last = curve.certainty.size
    shown = np.unique(np.linspace(0, last - 1, min(last, _MAX_POINTS)).astype(np.int64))
    return Abstention(
        max_error=max_error,
        confidence=confidence,
        n_left_out=scores.shape[0],
        chosen=None if place is None else point(place),
        answered_nodes=None if place is None else _share_answered(file, curve.certainty[place]),
        curve=tuple(point(at) for at in shown.tolist()) if last else (),
        warning=file.meta.judged_by or _doubt(file),
    )


def is_answered(batch: pa.RecordBatch, threshold: float) -> BoolArray:
    """(n_rows,) whether a label reaches the node and its score is at least the threshold."""
    reachable: BoolArray = batch.column("reachable").to_numpy(zero_copy_only=False)
    scores = batch.column(own_score(batch.schema.names)).to_numpy()
    with np.errstate(over="ignore"):  # a threshold beyond float32 becomes infinite
        is_sure: BoolArray = scores >= scores.dtype.type(threshold)
    return reachable & is_sure


def _share_answered(file: PredictionFile, threshold: float) -> float:
    """Share of the nodes whose score is at least the threshold."""
    n_nodes = n_answered = 0
    for batch in file.shown():
        n_nodes += batch.num_rows
        n_answered += int(is_answered(batch, threshold).sum())
    return n_answered / max(n_nodes, 1)


def _doubt(file: PredictionFile) -> str | None:
    p_value = sample_p_value(file)
    if p_value is None:
        return None
    return (
        f"the labels are no random sample of the nodes (p = {p_value:.0e}), so nodes may be "
        "wrong more or less often than labels are: label random nodes"
    )
