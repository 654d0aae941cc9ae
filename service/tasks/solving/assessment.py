"""Assessment of a solve's own answer: cross-validation, variance, calibration and label shares.

All figures are of the snapshot that was solved, even where the job refines its answer on the full
graph.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from typing import Any, cast

import numpy as np

from peewit.service.tasks.labels_task import Origins
from peewit.service.tasks.progress import StoppedEarly
from peewit.service.tasks.solving.solve_options import SolveOptions
from peewit.solvers.arrays import BoolArray, Float32Array, Int64Array, RealArray
from peewit.solvers.assessment.calibration import CalibrationMetrics
from peewit.solvers.assessment.conformal import ConformalPValues, SetKind, groups_of
from peewit.solvers.assessment.cross_validation import CrossValidation, cross_validate
from peewit.solvers.assessment.left_out_accuracy import LEAST_RANDOM
from peewit.solvers.iteration_loop import Cancelled, Progress, Stopped, Watch
from peewit.solvers.labels import Labels, RealLabels, can_be_left_out
from peewit.solvers.models.classes.score_calibration import Calibration, fitted_without_fold
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.label_shares import LinearModel, label_shares
from peewit.solvers.models.harmonic.posterior_variance import posterior_variance
from peewit.solvers.models.left_out.label_sample import DOUBT
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from peewit.streaming.snapshots.store import Snapshot

Phase = Callable[[str], AbstractContextManager[None]]
"""Opens a phase of the job."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedLabels:
    """Labels that are left out in turn to judge the answer; made by `of`.

    Only labels of randomly drawn nodes are used where there are enough to speak for all nodes.
    Otherwise labels of suggested nodes are passed over, as these nodes were picked because they
    differ from the others.
    """

    may_leave_out: BoolArray  # (n_labeled,)
    n_folds: int  # at most as many as labels that can be left out where others are passed over
    n_suggested: int  # suggested labels that are passed over
    told: str | None  # warning; None if nothing is passed over and nothing was suggested

    @classmethod
    def of(cls, labels: Labels | RealLabels, origins: Origins, n_folds: int) -> "JudgedLabels":
        """Random labels if enough, else those not suggested if enough, else all."""
        is_suggested, is_random = origins
        n_labeled, n_suggested = labels.n_labeled, int(is_suggested.sum())
        n_random = int(can_be_left_out(labels, is_random).sum())
        if n_random >= LEAST_RANDOM and not is_random.all():
            return cls(
                may_leave_out=is_random,
                n_folds=min(n_folds, n_random),
                n_suggested=n_suggested,
                told=f"only labels of nodes drawn at random are judged by, {n_random:,} of "
                f"{n_labeled:,}",
            )
        n_others = int(can_be_left_out(labels, ~is_suggested).sum())
        if n_suggested and n_others >= 2:
            return cls(
                may_leave_out=~is_suggested,
                n_folds=min(n_folds, n_others),
                n_suggested=n_suggested,
                told=f"labels of suggested nodes, {n_suggested:,}, are not judged by; "
                f"{n_others:,} others are",
            )
        told = None
        if n_suggested:
            who = "all" if n_suggested == n_labeled else f"{n_suggested:,} of {n_labeled:,}"
            told = (
                f"{who} labels were suggested, so what labels left out say of sets, probabilities "
                "and accuracy promises nothing of other nodes: label random nodes"
            )
        may_leave_out = np.ones(n_labeled, bool)
        return cls(may_leave_out=may_leave_out, n_folds=n_folds, n_suggested=0, told=told)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answered:
    """Solution of a model on a snapshot, and all that it was made from."""

    model: Model
    prepared: Any  # by the model's `prepare`
    snapshot: Snapshot
    labels: Labels | RealLabels  # all that were given
    judged: JudgedLabels  # those left out to judge
    solution: Solution

    @property
    def graph_penalty(self) -> float:
        """Graph penalty of the solution; only of models that have one."""
        return float(self.solution.stats["graph_penalty"])


@dataclass(slots=True, kw_only=True, eq=False)
class Assessment:
    """Assessment of an answer; fields are None unless asked for.

    Attributes
    ----------
    variance : (n_nodes,) float32
        Infinite where no label reaches.
    left_out_scores : (n_labels, n_classes) float32
        As of `peewit.solvers.assessment.cross_validation.CrossValidation`. With a calibration these
        are probabilities, by a calibration that did not see the label.
    calibration : Calibration
        Turns scores into probabilities; None where scores are probabilities.
    p_values : (n_nodes, n_classes) float32
        Conformal p-values, which decide the classes in each set.
    stability : (n_nodes,) float32
        Share of the replicas that predict the same class.
    label_shares : (n_nodes, n_labels) float32
        As of `peewit.solvers.models.harmonic.label_shares`.
    is_dropped : (n_labels,) bool
        Labels left out of the answer by `peewit.service.tasks.solving.refit`.
    figures : dict
        JSON values for the job's stats, by option.
    """

    variance: Float32Array | None = None
    left_out_scores: Float32Array | None = None
    calibration: Calibration | None = None
    p_values: Float32Array | None = None
    stability: Float32Array | None = None
    label_shares: Float32Array | None = None
    is_dropped: BoolArray | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def note(self, name: str, figures: Mapping[str, Any], status: Status) -> None:
        """Keep figures and their status; values that are not finite become null."""
        self.figures[name] = {**_plain(figures), "status": status.value}
        if status is not Status.CONVERGED:
            self.warnings.append(f"{name}: {status.message}; {status.advice}")


def assess(
    answer: Answered,
    assessment: Assessment,
    options: SolveOptions,
    *,
    phase: Phase,
    progress: Progress,
    cancelled: Cancelled,
) -> None:
    """Add the variance, in a phase of its own, if the options ask for it."""
    if options.variance:
        with phase("variance"):
            _variance(answer, assessment, progress, cancelled)


def _variance(
    answer: Answered, assessment: Assessment, progress: Progress, cancelled: Cancelled
) -> None:
    found = posterior_variance(
        answer.snapshot.graph,
        answer.labels,
        graph_penalty=answer.graph_penalty,
        progress=progress,
        cancelled=cancelled,
    )
    assessment.variance = found.variance
    figures = {"relative_error": found.relative_error, "n_probes": found.n_probes}
    assessment.note("variance", figures, found.status)


def share_out(
    answer: Answered, assessment: Assessment, *, progress: Progress, cancelled: Cancelled
) -> None:
    """Add what each label adds to scores, if the model can tell; raises `StoppedEarly`."""
    model, labels = answer.model, answer.labels
    if not (isinstance(model, LinearModel) and isinstance(labels, Labels)):
        return
    watch = Watch(progress=progress, cancelled=cancelled)
    try:
        found = label_shares(model, answer.prepared, labels, answer.solution, watch)
    except Stopped:
        raise StoppedEarly from None
    assessment.label_shares = found.shares
    assessment.note("label_shares", {"largest_miss": found.largest_miss}, found.status)


def leave_out(
    answer: Answered,
    assessment: Assessment,
    options: SolveOptions,
    *,
    progress: Progress,
    cancelled: Cancelled,
) -> None:
    """Add cross-validation, calibration and p-values from labels left out.

    Raises ValueError if there are more folds than labels that can be left out.
    """
    labels, judged = answer.labels, answer.judged
    values = _p_values(answer, options.sets) if isinstance(labels, Labels) else None
    found = cross_validate(
        answer.model,
        answer.prepared,
        labels,
        n_folds=judged.n_folds,
        may_leave_out=judged.may_leave_out,
        start=answer.solution,
        on_fold=None if values is None else values.add,
        progress=progress,
        cancelled=cancelled,
    )
    assessment.figures["n_suggested"] = judged.n_suggested
    if judged.told is not None:
        assessment.warnings.append(judged.told)
    figures = {each.name: getattr(found, each.name) for each in fields(found)}
    figure, _ = figures.pop("figure"), figures.pop("fold")
    assessment.left_out_scores = figures.pop("scores")
    assessment.note("cross_validation", {figure: figures.pop("mean"), **figures}, found.status)
    if isinstance(labels, Labels):
        _probabilities(answer.model, labels, found, assessment, asked=options.probabilities)
        calibrated = assessment.left_out_scores
        if assessment.calibration is not None and calibrated is not None:
            assessment.figures["cross_validation"] |= _accuracy(labels, found, calibrated)
    if values is not None:
        assessment.p_values = values.values(answer.solution.reachable)
        assessment.figures["sets"] = {
            "n_folds": judged.n_folds,
            "groups": values.groups.tolist(),
            "n_compared": values.n_compared.tolist(),
            "unpromised": values.unpromised.tolist(),
        }


def _p_values(answer: Answered, asked: str) -> ConformalPValues | None:
    labels = answer.labels
    if asked == "off" or not isinstance(labels, Labels):
        return None
    is_random = float(answer.solution.stats.get("sample_p_value", 1.0)) >= DOUBT
    if asked == "auto" and not is_random:  # of each class they may still be a random sample
        asked = "by-class"
    return ConformalPValues(
        labels=labels,
        n_nodes=len(answer.solution.reachable),
        groups=groups_of(labels, cast(SetKind, asked), answer.judged.may_leave_out),
        score_kind=answer.model.judged.score_kind,
    )


def _probabilities(
    model: Model, labels: Labels, found: CrossValidation, assessment: Assessment, *, asked: bool
) -> None:
    """Calibrate scores if asked for, and note how true probabilities are."""
    scores = found.scores
    if scores is None:
        return
    known = np.flatnonzero(np.isfinite(scores).all(axis=1))
    classes = labels.classes[known]
    if asked and not model.is_calibrated:
        judged = fitted_without_fold(scores[known], classes, found.fold[known])
        assessment.calibration = Calibration.fitted(scores[known], classes)
        assessment.left_out_scores = scores.copy()
        assessment.left_out_scores[known] = judged
    elif model.score_kind == "probability":
        judged = scores[known].astype(np.float64)
    else:
        return
    tell_calibration(assessment, judged, classes, is_calibrated=model.is_calibrated or asked)


def tell_calibration(
    assessment: Assessment, judged: RealArray, classes: Int64Array, *, is_calibrated: bool
) -> None:
    """Note how true the probabilities of labels left out are."""
    truth = CalibrationMetrics.of(judged, classes)
    assessment.figures["calibration"] = _plain(
        {**asdict(truth), "n_left_out": classes.size, "is_calibrated": is_calibrated}
    )


def _accuracy(labels: Labels, found: CrossValidation, scores: Float32Array) -> dict[str, Any]:
    """Accuracy of calibrated scores of labels left out, of all and by fold."""
    was_left_out = found.fold >= 0
    is_right = (scores.argmax(axis=1) == labels.classes) & np.isfinite(scores).all(axis=1)
    folds = [float(is_right[found.fold == number].mean()) for number in range(len(found.folds))]
    return {"accuracy": float(is_right[was_left_out].mean()), "folds": folds}


def _plain(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures as JSON values, which know neither infinity nor tuples."""
    return {
        name: None
        if isinstance(value, float) and not isfinite(value)
        else list(value)
        if isinstance(value, tuple)
        else value
        for name, value in figures.items()
    }
