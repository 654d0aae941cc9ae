"""Hyperparameters chosen from the labels alone: a grid, each point judged by cross-validation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Any, Final

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.iteration_loop import Cancelled, Progress, RunStopped, Watch
from peewit.solvers.labels import Labels, deal_folds
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.contract.point_model import Points
from peewit.solvers.models.linear.linear_machine import PENALTIES as LINEAR_PENALTIES
from peewit.solvers.models.linear.linear_machine import LinearMachine
from peewit.solvers.models.linear.transductive_svms import TransductiveMachine
from peewit.solvers.models.machines.laplacian_machine import LaplacianMachine
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

PHASE: Final = "tuning"

Grid = Mapping[str, Sequence[Any]]
"""Values to try of each hyperparameter, in every combination."""

PENALTIES: Final[Grid] = {
    "norm_penalty": (1e-1, 1e-2, 1e-4, 1e-6),
    "graph_penalty": (1.0, 1e-1, 1e-2, 1e-4),
}
"""Default penalties: the part of the paper's grid that ever wins (section E.4)."""


UNLABELED_WEIGHTS: Final = (1.0, 0.3, 3.0)
"""Default values for transductive machines: errors are flat between 1 and 10 (section F.4)."""

_WEIGHT: Final = "unlabeled_weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One point of the grid, with its share and number of left-out labels predicted right."""

    parameters: Mapping[str, Any]
    accuracy: float
    n_right: int
    n_left_out: int
    status: Status  # the first that is not converged, or converged


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Result of a grid search."""

    trials: tuple[Trial, ...]  # in the order tried
    best: Model  # most often right; of equals the one tried first
    n_folds: int
    status: Status  # cancelled if the search was cut short; ``best`` is of what was tried


def default_grid(model: Model) -> Grid:
    """The grid for a model by default; raises ValueError if there is none."""
    if isinstance(model, LaplacianMachine):
        return PENALTIES
    if isinstance(model, LinearMachine):
        weights = {_WEIGHT: UNLABELED_WEIGHTS} if isinstance(model, TransductiveMachine) else {}
        return {"norm_penalty": LINEAR_PENALTIES, **weights}
    names = {parameter.name for parameter in fields(model)}
    grid = {name: values for name, values in PENALTIES.items() if name in names}
    if not grid:
        taken = ", ".join(sorted(names)) or "none"
        raise BadArgument(
            "grid",
            f"must name settings of {type(model).__name__} and values to try, since it has "
            f"none by default (its settings: {taken})",
        )
    return grid


def grid_models(model: Model, grid: Grid) -> list[tuple[dict[str, Any], Model]]:
    """Every combination of the values, and the model with it.

    Raises TypeError or ValueError for an empty grid, a name that is no hyperparameter of the model,
    no values, or a value that breaks its rule.
    """
    known = {parameter.name for parameter in fields(model)}
    if not grid:
        raise BadArgument("grid", "must name at least one hyperparameter, got none")
    for name, values in grid.items():
        if name not in known:
            raise BadArgument(
                "grid",
                f"must name settings of {type(model).__name__} "
                f"({', '.join(sorted(known))}), got {name!r}",
            )
        if not isinstance(values, list | tuple) or not values:
            raise BadArgument("grid", f"must hold a list of values for {name}, got {values!r}")
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return [(values, replace(model, **values)) for values in combinations]


def tune(
    model: Model,
    prepared: Any,
    labels: Labels,
    *,
    grid: Grid | None = None,
    n_folds: int = 5,
    seed: int = 0,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Tuning:
    """The hyperparameters that predict left-out labels best.

    ``model`` keeps its other hyperparameters; ``prepared`` is from its `prepare`. In ``grid`` best
    guesses come first, as the first of equally good values wins; None for `default_grid`, whose
    larger penalties come first. At least 2 ``n_folds``; fewer are dealt if fewer labels can be left
    out, the same folds for every trial. Raises as `grid_models`, or if each class has a single
    label.

    Notes
    -----
    Laplacian SVMs on few enough nodes pay two eigenproblems for the whole grid. Switching goes
    through all unlabeled weights of the other values at once, in every fold. Other models are
    solved for every fold of every trial, each from the solution before.
    """
    models = grid_models(model, default_grid(model) if grid is None else grid)
    if isinstance(prepared, Points):  # labels of nodes without features can teach nothing
        labels = labels.subset(np.flatnonzero(prepared.have_features(labels)))
    machines = [machine for _, machine in models if isinstance(machine, TransductiveMachine)]
    search = _Search(
        prepared=prepared,
        labels=labels,
        n_folds=_possible_folds(labels, n_folds),
        seed=seed,
        watch=Watch(progress=progress, cancelled=cancelled),
        weights=sorted({machine.unlabeled_weight for machine in machines}),
    )
    trials: list[tuple[Trial, Model]] = []
    status = Status.CONVERGED
    try:
        for number, (values, candidate) in enumerate(models):
            search.watch.step(PHASE, number, len(models))
            trials.append((search.trial(candidate, values), candidate))
        search.watch.step(PHASE, len(models), len(models))
    except RunStopped:
        status = Status.CANCELLED
    best = max(trials, key=lambda trial: trial[0].n_right)[1] if trials else model
    return Tuning(
        trials=tuple(trial for trial, _ in trials), best=best, n_folds=search.n_folds, status=status
    )


def _possible_folds(labels: Labels, n_folds: int) -> int:
    if n_folds < 2:
        raise BadArgument("n_folds", f"must be at least 2, got {n_folds}")
    if labels.n_classes < 2:
        raise ValueError(f"labels hold {labels.n_classes} classes; at least two needed")
    if labels.n_usable < 2:
        raise ValueError(
            "tuning leaves labels out, but each class has a single one; label more nodes"
        )
    return min(n_folds, labels.n_usable)


@dataclass(slots=True, kw_only=True, eq=False)
class _Search:
    """State shared by the trials of one search; ``last`` is where the next solve starts."""

    prepared: Any
    labels: Labels
    n_folds: int
    seed: int
    watch: Watch
    weights: list[float]
    last: Solution | None = None
    paths: list[tuple[Model, dict[float, tuple[int, int, Status]]]] = field(default_factory=list)

    def trial(self, model: Model, values: Mapping[str, Any]) -> Trial:
        """Judge one model."""
        if isinstance(model, LaplacianMachine) and model.has_left_out_scores(self.prepared):
            n_right, n_left_out, status = self._by_labels(model)
        elif isinstance(model, TransductiveMachine) and model.unlabeled_weight > 0.0:
            n_right, n_left_out, status = self._by_path(model)
        else:
            n_right, n_left_out, status = self._by_solves(model)
        return Trial(
            parameters=values,
            accuracy=n_right / n_left_out,
            n_right=n_right,
            n_left_out=n_left_out,
            status=status,
        )

    def _by_labels(self, model: LaplacianMachine) -> tuple[int, int, Status]:
        """Left-out labels predicted right, and their number, at the labeled nodes alone."""
        points: Points = self.prepared
        own = points.with_features(self.labels)
        fold, _ = deal_folds(own, self.n_folds, self.seed)
        scores, status = model.left_out_scores(points, own, fold, self.watch)
        return *_n_right(scores, own, fold), status

    def _by_path(self, model: TransductiveMachine) -> tuple[int, int, Status]:
        """The same for one unlabeled weight, by a search that goes through all of them."""
        any_weight = replace(model, unlabeled_weight=1.0)
        known = next((path for other, path in self.paths if other == any_weight), None)
        if known is None:
            points: Points = self.prepared
            own = points.with_features(self.labels)
            fold, _ = deal_folds(own, self.n_folds, self.seed)
            weights = [weight for weight in self.weights if weight > 0.0]
            silent = self.watch.silent()  # which speaks of trials
            scores, status = model.left_out_scores(points, own, fold, weights, silent)
            known = {
                weight: (*_n_right(left_out_scores, own, fold), status)
                for weight, left_out_scores in zip(weights, scores, strict=True)
            }
            self.paths.append((any_weight, known))
        return known[model.unlabeled_weight]

    def _by_solves(self, model: Model) -> tuple[int, int, Status]:
        """The same by solving for every fold."""
        cancelled, solution = self.watch.cancelled, None
        if not model.shows_start:
            solution = model.solve(self.prepared, self.labels, start=self.last, cancelled=cancelled)
            if solution.status is Status.CANCELLED:
                raise RunStopped
        result = cross_validate(
            model,
            self.prepared,
            self.labels,
            n_folds=self.n_folds,
            seed=self.seed,
            start=solution,
            cancelled=cancelled,
        )
        if result.status is Status.CANCELLED:
            raise RunStopped
        self.last = solution
        return round(result.mean * result.n_left_out), result.n_left_out, result.status


def _n_right(scores: FloatArray, labels: Labels, fold: Int64Array) -> tuple[int, int]:
    """Labels left out that are predicted right, and how many were left out."""
    is_left_out = fold >= 0
    is_right = scores.argmax(axis=1) == labels.classes
    return int(np.count_nonzero(is_right & is_left_out)), int(np.count_nonzero(is_left_out))
