"""Robust refit: solve again without the labels that the others contradict most."""

from dataclasses import replace

import numpy as np

from peewit.service.tasks.solving.assessment import Answered, Assessment
from peewit.solvers.assessment.label_doubts import LabelDoubts
from peewit.solvers.iteration_loop import Cancelled, Progress
from peewit.solvers.labels import Labels


def refit(
    answer: Answered,
    assessment: Assessment,
    n_most: int,
    *,
    progress: Progress,
    cancelled: Cancelled,
) -> Answered:
    """The answer without at most ``n_most`` labels, which it marks in ``assessment.is_dropped``.

    Labels are ranked by ``assessment.left_out_scores``, as in
    `peewit.service.predictions.doubtful_labels`. A class keeps its last label.
    """
    labels, scores, model = answer.labels, assessment.left_out_scores, answer.model
    if scores is None or not isinstance(labels, Labels):
        return answer
    kind = model.score_kind if assessment.calibration is None else "probability"
    is_dropped = LabelDoubts.of(scores, labels.classes, kind).dropped(n_most)
    assessment.is_dropped = is_dropped
    assessment.figures["n_labels_dropped"] = int(np.count_nonzero(is_dropped))
    if not is_dropped.any():
        return answer
    assessment.warnings.append(
        "cross-validation, sets and probabilities are judged by the answer of all labels, before "
        "any was dropped"
    )
    kept = labels.subset(np.flatnonzero(~is_dropped))
    judged = replace(answer.judged, may_leave_out=answer.judged.may_leave_out[~is_dropped])
    solution = model.solve(
        answer.prepared,
        kept,
        start=None if model.shows_start else answer.solution,
        progress=progress,
        cancelled=cancelled,
    )
    if assessment.p_values is not None:
        assessment.p_values[~solution.reachable] = 1.0
    return replace(answer, labels=kept, judged=judged, solution=solution)
