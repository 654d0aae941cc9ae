"""Cross-validation over the given labels: how well a model predicts labels it was not given.

It works for every model by its own `solve`. Each fold starts from the solution with all labels,
which changes the work and not the answer. Hyperparameters that the model chooses from the labels
are chosen in each fold anew, without the left-out labels.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array
from peewit.solvers.iteration_loop import Cancelled, Progress
from peewit.solvers.labels import ClassName, Labels, RealLabels, deal_folds
from peewit.solvers.models.contract.model import Model
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossValidation:
    """Results on the left-out labels.

    Attributes
    ----------
    figure : str
        ``accuracy`` of classes, ``rmse`` of numbers.
    mean : float
        Over all left-out labels; for numbers the root of the mean squared error.
    folds : tuple of float
        The same of each fold.
    n_left_out : int
        Left-out labels, each counted once.
    n_unreachable : int
        Left-out labels that no other label reaches: wrong, or predicted the mean of the others.
    always_kept : tuple of str or int
        Classes of which no label was left out: with one label, or none that may be.
    status : Status
        The first that is not converged, or converged.
    scores : (n_labeled, n_classes) float32 or None
        Of each label when it was left out, comparable with those of the answer with all labels:
        class scores of a fold are scaled to their root mean square. nan for labels that were never
        left out, -inf where no other label reaches. None for numbers, and for models that are
        judged by other scores than they give.
    fold : (n_labeled,) int64
        Fold in which each label was left out; -1 for none.
    """

    figure: str
    mean: float
    folds: tuple[float, ...]
    n_left_out: int
    n_unreachable: int
    always_kept: tuple[ClassName, ...]
    status: Status
    scores: Float32Array | None = field(default=None, compare=False, repr=False)
    fold: Int64Array = field(compare=False, repr=False)


def cross_validate(
    model: Model,
    prepared: Any,
    labels: Labels | RealLabels,
    *,
    n_folds: int,
    seed: int = 0,
    may_leave_out: BoolArray | None = None,
    start: Solution | None = None,
    on_fold: Callable[[Int64Array, Solution], None] | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> CrossValidation:
    """Predict each label from those of the other folds.

    Folds are stratified: of each class, or of numbers of each size, they hold equally many to
    within one. After a cancelled fold no other begins. Raises ValueError if ``n_folds`` is less
    than 2 or more than labels can be left out.

    Parameters
    ----------
    model : Model
        With ``prepared`` from its `prepare`.
    labels : Labels or RealLabels
        A class with one label keeps it in every fold.
    seed : int
        Deals the labels to folds.
    may_leave_out : (n_labeled,) bool, optional
        Labels to judge by, all by default; the others are given in every fold.
    start : Solution or None
        With all labels. Not used for models whose answers depend on their start, which would reveal
        the left-out labels.
    on_fold : callable, optional
        Called with the places of the left-out labels of each fold, and the answer without them.
    """
    left_out_scores = _LeftOutScores.of(model, labels, start)
    model = model.for_validation
    if model.shows_start:
        start = None
    fold, always_kept = deal_folds(labels, n_folds, seed, may_leave_out)
    figures: list[float] = []
    losses: list[FloatArray] = []
    n_unreachable, status = 0, Status.CONVERGED
    for number in range(n_folds):
        left_out = np.flatnonzero(fold == number)
        solution = model.solve_without(
            prepared, labels, fold, number, start=start, progress=progress, cancelled=cancelled
        )
        if status is Status.CONVERGED:
            status = solution.status
        if solution.status is Status.CANCELLED:
            break
        reached = solution.reachable[labels.nodes[left_out]]
        n_unreachable += int(np.count_nonzero(~reached))
        losses.append(_losses(labels, left_out, solution))
        if left_out_scores is not None:
            left_out_scores.add(solution, left_out)
        if on_fold is not None:
            on_fold(left_out, solution)
        figures.append(_figure(labels, losses[-1]))
    return CrossValidation(
        figure="accuracy" if isinstance(labels, Labels) else "rmse",
        mean=_figure(labels, np.concatenate(losses)) if losses else float("nan"),
        folds=tuple(figures),
        n_left_out=sum(part.size for part in losses),
        n_unreachable=n_unreachable,
        always_kept=always_kept,
        status=status,
        scores=None if left_out_scores is None else left_out_scores.scores,
        fold=fold,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LeftOutScores:
    """Scores of left-out labels, on the scale of the answer with all labels if it has one."""

    nodes: Int64Array
    scores: Float32Array
    scale: float | None

    @classmethod
    def of(
        cls, model: Model, labels: Labels | RealLabels, answer: Solution | None
    ) -> "_LeftOutScores | None":
        """Scores to fill; None if there is nothing to keep."""
        if not isinstance(labels, Labels) or model.for_validation.score_kind != model.score_kind:
            return None
        is_probability = model.score_kind == "probability"
        return cls(
            nodes=labels.nodes,
            scores=np.full((labels.n_labeled, labels.n_classes), np.nan, np.float32),
            scale=None if answer is None or is_probability else _root_mean_square(answer),
        )

    def add(self, solution: Solution, left_out: Int64Array) -> None:
        """Add those of a fold."""
        nodes = self.nodes[left_out]
        scale = _root_mean_square(solution) if self.scale else 0.0
        factor = self.scale / scale if self.scale and scale else 1.0
        scores = factor * solution.scores[nodes]
        scores[~solution.reachable[nodes]] = -np.inf
        self.scores[left_out] = scores


def _root_mean_square(solution: Solution) -> float:
    return float(np.sqrt(np.mean(np.square(solution.scores))))


def _losses(labels: Labels | RealLabels, rows: Int64Array, solution: Solution) -> FloatArray:
    """For each left-out label: 1 if its class is missed, or the squared error."""
    nodes = labels.nodes[rows]
    if isinstance(labels, RealLabels):
        squares: FloatArray = np.square(solution.scores[nodes, 0] - labels.values[rows])
        return squares
    is_right = solution.classes(nodes) == labels.classes[rows]
    missed: FloatArray = (~(is_right & solution.reachable[nodes])).astype(np.float64)
    return missed


def _figure(labels: Labels | RealLabels, losses: FloatArray) -> float:
    """The figure of some losses."""
    return float(1.0 - losses.mean() if isinstance(labels, Labels) else np.sqrt(losses.mean()))
