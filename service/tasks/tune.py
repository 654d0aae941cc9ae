"""Tune jobs: their parameters, how a child runs them, and their result."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, ClassVar, Final

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.jobs.job import LABEL_COLUMN, JobSpec
from peewit.service.tasks.job_kind import ModelKind, TaskContext
from peewit.service.tasks.labels_task import LabelsTask, labels_in_snapshot
from peewit.service.tasks.progress import StageTimer, StoppedEarly
from peewit.service.tasks.solving.estimate import Estimator
from peewit.service.tasks.solving.solve_options import validate_solve
from peewit.service.tasks.tasks_and_messages import Done, TaskStopped
from peewit.solvers.arguments import BadArgument
from peewit.solvers.assessment.plausibility import label_warnings, left_out_warnings
from peewit.solvers.assessment.tuning import Grid, Trial, Tuning, default_grid, grid_models, tune
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.model import Model, as_classes
from peewit.solvers.status import Status

MAX_COMBINATIONS: Final = 1000
"""Of a grid: each is solved for every fold, or shares two eigenproblems with the others."""

_GRID: Final = "grid"
_FOLDS: Final = "folds"
_DEFAULT_FOLDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneTask(LabelsTask):
    """Choose hyperparameters; fields as of `LabelsTask`."""

    kind: ClassVar[str] = "tune"


class TuneKind(ModelKind[TuneTask]):
    """A job that chooses hyperparameters by cross-validation over the labels."""

    name = "tune"
    task = TuneTask
    example_model = "lapsvm"
    parameters_doc = (
        "grid: lists of values by hyperparameter; by default the model's own. "
        "folds: at least 2; by default 5. label_column: whose labels to judge by; by default "
        "those without a column's name. Other names are hyperparameters that stay as they are."
    )
    example_parameters: ClassVar[Mapping[str, Any]] = {
        "grid": {"norm_penalty": [0.1, 0.01], "graph_penalty": [1, 0.1]}
    }

    def check_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        """See `validate_tune`."""
        validate_tune(model, parameters)

    def admit(self, spec: JobSpec, graph: GraphRecord, home: Home) -> None:
        """Raise `DoesNotFit` if a solve with the fixed hyperparameters cannot fit the memory."""
        model = self.named(spec.model)
        Estimator.of(home).require_room(graph, model, validate_tune(model, spec.parameters).fixed)

    def run(self, task: TuneTask, context: TaskContext) -> Done | TaskStopped:
        """`Done` with every trial, or `TaskStopped`; raises as `SolveKind.run`."""
        stages = StageTimer(context.report, context.cancelled)
        request = validate_tune(task.model, task.parameters)
        try:
            with context.graphs.within_memory():
                with stages.stage("loading"):
                    graph = context.graphs.load(task)
                    labels, _, n_waiting = labels_in_snapshot(
                        task, graph.nodes, graph.snapshot.meta.node_kind, "class"
                    )
                with stages.stage("preparing"):
                    prepared, is_warm = context.graphs.prepared(task, graph, request.model)
                with stages.stage("tuning"):
                    tuning = tune(
                        request.model,
                        prepared,
                        as_classes(labels),
                        grid=request.grid,
                        n_folds=request.n_folds,
                        progress=stages.iteration,
                        cancelled=context.cancelled,
                    )
        except StoppedEarly:
            return TaskStopped()
        if tuning.status is Status.CANCELLED:
            return TaskStopped()
        return Done(
            result={
                **_shown(request, tuning),
                "warning": _warning(tuning, as_classes(labels), graph.snapshot.graph),
                "n_labels": labels.n_labeled,
                "n_labels_waiting": n_waiting,
                "warm": is_warm,
                "seconds": stages.seconds,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """A search for hyperparameters."""

    model: Model  # with the fixed hyperparameters
    fixed: Mapping[str, Any]  # as JSON values, as a solve takes them
    grid: Grid  # values to try of others
    n_folds: int


def validate_tune(model: str, parameters: Mapping[str, Any]) -> TuneRequest:
    """The search that a job asks for.

    ``parameters`` are JSON values by name: ``grid`` (lists of values by hyperparameter; the model's
    own if left out), ``folds``, and fixed hyperparameters. Raises ValueError for an unknown model
    or parameter, a bad value, or no grid for a model without one by default.
    """
    fixed = {name: value for name, value in parameters.items() if name not in {_GRID, _FOLDS}}
    built, options = validate_solve(model, fixed)
    if chosen := sorted(options.chosen().keys() - {LABEL_COLUMN}):
        raise BadArgument(chosen[0], f"must be left out of a tune job, got {fixed[chosen[0]]!r}")
    folds = parameters.get(_FOLDS, _DEFAULT_FOLDS)
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise BadArgument("folds", f"must be an integer >= 2, got {folds!r}")
    grid = parameters.get(_GRID)
    if grid is not None and not isinstance(grid, Mapping):
        raise BadArgument("grid", f"must hold lists of values by hyperparameter, got {grid!r}")
    if twice := sorted(fixed.keys() & (grid or {}).keys()):
        raise BadArgument(twice[0], "must be fixed or in the grid, not both")
    tried = default_grid(built) if grid is None else grid
    if grid is None:
        tried = {name: values for name, values in tried.items() if name not in fixed}
    _require_few(tried)
    grid_models(built, tried)
    return TuneRequest(model=built, fixed=fixed, grid=tried, n_folds=folds)


def _require_few(grid: Grid) -> None:
    """Raise ValueError for more than `MAX_COMBINATIONS`, without building them."""
    n_combinations = prod(
        len(values) for values in grid.values() if isinstance(values, list | tuple)
    )
    if n_combinations > MAX_COMBINATIONS:
        raise BadArgument(
            "grid", f"must have at most {MAX_COMBINATIONS} combinations, got {n_combinations}"
        )


def _warning(tuning: Tuning, labels: Labels, graph: Graph) -> str | None:
    """What makes the choice doubtful, by the labels and those left out."""
    best = _best(tuning)
    sentences = [
        *left_out_warnings(labels, best.accuracy, best.n_left_out),
        *label_warnings(labels, graph),
    ]
    return ". ".join(sentences) or None


def _best(tuning: Tuning) -> Trial:
    return max(tuning.trials, key=lambda trial: trial.n_right)


def _shown(request: TuneRequest, tuning: Tuning) -> dict[str, Any]:
    """Result of the job: the best values, parameters to solve with, and every trial."""
    best = _best(tuning)
    values = asdict(tuning.best)
    parameters = asdict(type(request.model)())
    return {
        "best": dict(best.parameters),
        "accuracy": best.accuracy,
        "parameters": {name: value for name, value in values.items() if value != parameters[name]},
        "n_folds": tuning.n_folds,
        "n_left_out": best.n_left_out,
        "trials": [
            {
                "parameters": dict(trial.parameters),
                "accuracy": trial.accuracy,
                "status": trial.status.value,
            }
            for trial in tuning.trials
        ],
    }
