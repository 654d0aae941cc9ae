"""Assessment of a solve's own answer: cross-validation, variance, calibration and label shares.

All figures are of the snapshot that was solved, even where the job refines its answer on the full
graph.
"""

from dataclasses import asdict, fields
from typing import Any, cast

import numpy as np

from peewit.service.tasks.progress import StoppedEarly
from peewit.service.tasks.solving.state import Answered, Assessment, Solving, plain
from peewit.solvers.arrays import Float32Array, Int64Array, RealArray
from peewit.solvers.assessment.calibration import CalibrationMetrics
from peewit.solvers.assessment.conformal import ConformalPValues, SetKind, groups_of
from peewit.solvers.assessment.cross_validation import CrossValidation, cross_validate
from peewit.solvers.iteration_loop import RunStopped
from peewit.solvers.labels import Labels
from peewit.solvers.models.classes.score_calibration import Calibration, fitted_without_fold
from peewit.solvers.models.contract.model import Model, as_classes
from peewit.solvers.models.harmonic.label_shares import LinearModel, label_shares
from peewit.solvers.models.harmonic.posterior_variance import posterior_variance
from peewit.solvers.models.left_out.label_sample import DOUBT


def add_variance(solving: Solving) -> None:
    """Add the posterior variance of the Gaussian field."""
    answer, watch = solving.answer, solving.watch
    variance = posterior_variance(
        answer.snapshot.graph,
        answer.labels,
        graph_penalty=float(answer.solution.stats["graph_penalty"]),
        progress=watch.progress,
        cancelled=watch.cancelled,
    )
    solving.assessment.variance = variance.variance
    figures = {"relative_error": variance.relative_error, "n_probes": variance.n_probes}
    solving.assessment.note("variance", figures, variance.status)


def add_label_shares(solving: Solving) -> None:
    """Add what each label adds to scores; raises `StoppedEarly`."""
    answer = solving.answer
    model, labels = cast(LinearModel, answer.model), as_classes(answer.labels)
    try:
        shares = label_shares(model, answer.prepared, labels, answer.solution, solving.watch)
    except RunStopped:
        raise StoppedEarly from None
    solving.assessment.label_shares = shares.shares
    solving.assessment.note("label_shares", {"largest_miss": shares.largest_miss}, shares.status)


def add_cross_validation(solving: Solving) -> None:
    """Add cross-validation, calibration and p-values from labels left out.

    Raises ValueError if there are more folds than labels that can be left out.
    """
    answer, assessment, watch = solving.first, solving.assessment, solving.watch
    labels, plan, options = answer.labels, answer.leave_out_plan, solving.options
    values = _p_values(answer, options.sets) if isinstance(labels, Labels) else None
    folds = cross_validate(
        answer.model,
        answer.prepared,
        labels,
        n_folds=plan.n_folds,
        may_leave_out=plan.may_leave_out,
        start=answer.solution,
        on_fold=None if values is None else values.add,
        progress=watch.progress,
        cancelled=watch.cancelled,
    )
    assessment.figures["n_suggested"] = plan.n_suggested
    if plan.warning is not None:
        assessment.warnings.append(plan.warning)
    figures = {each.name: getattr(folds, each.name) for each in fields(folds)}
    figure, _ = figures.pop("figure"), figures.pop("fold")
    assessment.left_out_scores = figures.pop("scores")
    assessment.note("cross_validation", {figure: figures.pop("mean"), **figures}, folds.status)
    if isinstance(labels, Labels):
        _probabilities(answer.model, labels, folds, assessment, is_wished=options.probabilities)
        calibrated = assessment.left_out_scores
        if assessment.calibration is not None and calibrated is not None:
            assessment.figures["cross_validation"] |= _accuracy(labels, folds, calibrated)
    if values is not None:
        assessment.p_values = values.values(answer.solution.reachable)
        assessment.figures["sets"] = {
            "n_folds": plan.n_folds,
            "groups": values.groups.tolist(),
            "n_compared": values.n_compared.tolist(),
            "unpromised": values.unpromised.tolist(),
        }


def _p_values(answer: Answered, wished: str) -> ConformalPValues | None:
    labels = answer.labels
    if wished == "off" or not isinstance(labels, Labels):
        return None
    is_random = float(answer.solution.stats.get("sample_p_value", 1.0)) >= DOUBT
    if wished == "auto" and not is_random:  # of each class they may still be a random sample
        wished = "by-class"
    return ConformalPValues(
        labels=labels,
        n_nodes=len(answer.solution.reachable),
        groups=groups_of(labels, cast(SetKind, wished), answer.leave_out_plan.may_leave_out),
        score_kind=answer.model.for_validation.score_kind,
    )


def _probabilities(
    model: Model, labels: Labels, folds: CrossValidation, assessment: Assessment, *, is_wished: bool
) -> None:
    """Calibrate scores if asked for, and note how true probabilities are."""
    scores = folds.scores
    if scores is None:
        return
    known = np.flatnonzero(np.isfinite(scores).all(axis=1))
    classes = labels.classes[known]
    if is_wished and not model.is_calibrated:
        left_out = fitted_without_fold(scores[known], classes, folds.fold[known])
        assessment.calibration = Calibration.fitted(scores[known], classes)
        assessment.left_out_scores = scores.copy()
        assessment.left_out_scores[known] = left_out
    elif model.score_kind == "probability":
        left_out = scores[known].astype(np.float64)
    else:
        return
    tell_calibration(assessment, left_out, classes, is_calibrated=model.is_calibrated or is_wished)


def tell_calibration(
    assessment: Assessment, left_out: RealArray, classes: Int64Array, *, is_calibrated: bool
) -> None:
    """Note how true the probabilities of labels left out are."""
    truth = CalibrationMetrics.of(left_out, classes)
    assessment.figures["calibration"] = plain(
        {**asdict(truth), "n_left_out": classes.size, "is_calibrated": is_calibrated}
    )


def _accuracy(labels: Labels, validation: CrossValidation, scores: Float32Array) -> dict[str, Any]:
    """Accuracy of calibrated scores of labels left out, of all and by fold."""
    was_left_out = validation.fold >= 0
    is_right = (scores.argmax(axis=1) == labels.classes) & np.isfinite(scores).all(axis=1)
    n_folds = len(validation.folds)
    folds = [float(is_right[validation.fold == number].mean()) for number in range(n_folds)]
    return {"accuracy": float(is_right[was_left_out].mean()), "folds": folds}
