"""Robust refit: solve again without the labels that the others contradict most."""

from dataclasses import replace

import numpy as np

from peewit.service.tasks.solving.state import Solving, require_whole
from peewit.solvers.assessment.label_doubts import LabelDoubts
from peewit.solvers.labels import Labels


def refit(solving: Solving) -> None:
    """Drop at most as many labels as may go, mark them in the assessment, and answer without them.

    Labels are ranked by ``assessment.left_out_scores``, as in
    `peewit.service.predictions.doubtful_labels`. A class keeps its last label.
    """
    answer, assessment, watch = solving.first, solving.assessment, solving.watch
    labels, scores, model = answer.labels, assessment.left_out_scores, answer.model
    if scores is None or not isinstance(labels, Labels):
        return
    kind = model.score_kind if assessment.calibration is None else "probability"
    doubts = LabelDoubts.of(scores, labels.classes, kind, answer.solution.decision)
    assessment.is_dropped = is_dropped = doubts.dropped(solving.options.without_doubtful)
    assessment.figures["n_labels_dropped"] = int(np.count_nonzero(is_dropped))
    if not is_dropped.any():
        return
    assessment.warnings.append(
        "labels were dropped after this: cross-validation, sets and probabilities are those of "
        "all labels"
    )
    remaining = labels.subset(np.flatnonzero(~is_dropped))
    plan = replace(
        answer.leave_out_plan, may_leave_out=answer.leave_out_plan.may_leave_out[~is_dropped]
    )
    solution = model.solve(
        answer.prepared,
        remaining,
        start=None if model.shows_start else answer.solution,
        progress=watch.progress,
        cancelled=watch.cancelled,
    )
    if assessment.p_values is not None:
        assessment.p_values[~solution.reachable] = 1.0
    require_whole(solution)
    solving.answer = replace(answer, labels=remaining, leave_out_plan=plan, solution=solution)
