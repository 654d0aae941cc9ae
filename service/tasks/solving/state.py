"""A solve under way: what it is made from, its answer so far, and what stages found of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np

from peewit.service.tasks.labels_task import LabelsTask, Origins
from peewit.service.tasks.progress import StageTimer, StoppedEarly
from peewit.service.tasks.solving.solve_options import SolveOptions
from peewit.service.tasks.warm_graphs import WarmGraph, WarmGraphs
from peewit.solvers.arrays import BoolArray, Float32Array
from peewit.solvers.assessment.left_out_accuracy import LEAST_RANDOM
from peewit.solvers.assessment.thinning_share import ThinningShare
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels, RealLabels, can_be_left_out
from peewit.solvers.models.classes.score_calibration import Calibration
from peewit.solvers.models.contract.model import Model
from peewit.solvers.solution import Solution, give_shares
from peewit.solvers.status import Status
from peewit.streaming.snapshots.store import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeaveOutPlan:
    """Labels that are left out in turn to judge the answer; made by `of`.

    Only labels of randomly drawn nodes are used where there are enough to speak for all nodes.
    Otherwise labels of suggested nodes are passed over, as these nodes were picked because they
    differ from the others.
    """

    may_leave_out: BoolArray  # (n_labeled,)
    n_folds: int  # min(folds asked for, labels that may be left out)
    n_suggested: int  # suggested labels that are passed over
    # what the reader is told of it; None if all labels are judged by and none was suggested
    warning: str | None

    @classmethod
    def of(cls, labels: Labels | RealLabels, origins: Origins, n_folds: int) -> "LeaveOutPlan":
        """Random labels if enough, else those not suggested if enough, else all."""
        is_suggested, is_random = origins
        n_labeled, n_suggested = labels.n_labeled, int(is_suggested.sum())
        n_random = int(can_be_left_out(labels, is_random).sum())
        if n_random >= LEAST_RANDOM and not is_random.all():
            return cls(
                may_leave_out=is_random,
                n_folds=min(n_folds, n_random),
                n_suggested=n_suggested,
                warning=f"only labels of nodes drawn at random are judged by, {n_random:,} of "
                f"{n_labeled:,}",
            )
        n_others = int(can_be_left_out(labels, ~is_suggested).sum())
        if n_suggested and n_others >= 2:
            return cls(
                may_leave_out=~is_suggested,
                n_folds=min(n_folds, n_others),
                n_suggested=n_suggested,
                warning=(
                    f"{n_suggested:,} labels of suggested nodes help to predict, and do "
                    f"not judge the answer; {n_others:,} others do"
                ),
            )
        warning = None
        if n_suggested:
            who = "all" if n_suggested == n_labeled else f"{n_suggested:,} of {n_labeled:,}"
            warning = (
                f"{who} labels were suggested. So labels left out promise nothing of other "
                "nodes, for sets, probabilities or accuracy: label random nodes"
            )
        may_leave_out = np.ones(n_labeled, bool)
        return cls(may_leave_out=may_leave_out, n_folds=n_folds, n_suggested=0, warning=warning)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answered:
    """Solution of a model on a snapshot, and all that it was made from."""

    model: Model
    prepared: Any  # by the model's `prepare`
    snapshot: Snapshot
    labels: Labels | RealLabels  # all that were given
    leave_out_plan: LeaveOutPlan
    solution: Solution


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
    proven : (n_nodes,) bool
        Labels that all edges would give.
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
    proven: BoolArray | None = None
    label_shares: Float32Array | None = None
    is_dropped: BoolArray | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def note(self, name: str, figures: Mapping[str, Any], status: Status) -> None:
        """Keep figures and their status; values that are not finite become null."""
        self.figures[name] = {**plain(figures), "status": status.value}
        if status is not Status.CONVERGED:
            self.warnings.append(f"{name}: {status.message}; {status.advice}")


@dataclass(slots=True, kw_only=True, eq=False)
class Solving:
    """State of a solve job that its stages fill, one after the other."""

    task: LabelsTask
    options: SolveOptions
    graphs: WarmGraphs
    graph: WarmGraph
    stages: StageTimer
    n_waiting: int = 0  # labels of nodes that are not in the snapshot
    is_random: BoolArray  # (n_labeled,) labels of nodes drawn at random
    is_warm: bool = False  # whether the model was prepared on the snapshot before
    started_from: int | None = None  # snapshot of the solution that the solve began with
    first: Answered  # with all labels, of the snapshot
    answer: Answered  # without dropped labels, after passes over all edges
    assessment: Assessment = field(default_factory=Assessment)
    thinning: ThinningShare | None = None  # None where nothing was dropped, or unknown
    judgement: dict[str, Any] | None = None  # None where labels are numbers
    proof: dict[str, Any] | None = None  # None unless it was asked for

    @property
    def watch(self) -> Watch:
        """Takes the progress of what a stage computes, and is asked whether to go on."""
        return self.stages.watch

    @property
    def reads_all(self) -> bool:
        """Whether passes over all edges undid what thinning may have changed."""
        return self.thinning is not None and "refined" in self.answer.solution.stats

    @property
    def is_thinned(self) -> bool:
        """Whether thinning decides much of the answer."""
        return self.thinning is not None and self.thinning.is_much and not self.reads_all

    def take(self, solution: Solution) -> None:
        """Answer with this solution from here on."""
        self.answer = replace(self.answer, solution=solution)

    def shown(self, solution: Solution) -> Solution:
        """The solution as people see it: calibrated; class shares where no label reaches."""
        calibration = self.assessment.calibration
        if not isinstance(self.answer.labels, Labels):
            return solution
        if calibration is not None:
            scores = calibration.probabilities(solution.scores)
        elif not solution.reachable.all():
            scores = solution.scores.copy()
        else:
            return solution
        give_shares(scores, solution.reachable, solution.class_shares)
        return replace(solution, scores=scores)


def require_whole(solution: Solution) -> None:
    """Raise if a solution was cancelled or has scores that are not finite."""
    if solution.status is Status.CANCELLED:
        raise StoppedEarly
    if not np.isfinite(solution.scores).all():
        raise ArithmeticError(
            f"the scores are not finite (solver status {solution.status.value}); "
            "the edge weights may span too many orders of magnitude"
        )


def plain(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures as JSON values, which know neither infinity nor tuples."""
    return {
        name: None
        if isinstance(value, float) and not isfinite(value)
        else list(value)
        if isinstance(value, tuple)
        else value
        for name, value in figures.items()
    }
