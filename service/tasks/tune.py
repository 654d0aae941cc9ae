"""Jobs of kind ``tune``: what they may be asked, and what their result says."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Final

from peewit.service.tasks.solve_options import validate_solve
from peewit.solvers.arguments import BadArgument
from peewit.solvers.models.base import Model
from peewit.solvers.models.tuning import Grid, Tuning, default_grid, grid_models

MAX_COMBINATIONS: Final = 1000
"""Of a grid: each is solved for every fold, or shares two eigenproblems with the others."""

_GRID: Final = "grid"
_FOLDS: Final = "folds"
_DEFAULT_FOLDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """A search.

    Attributes
    ----------
    model : Model
        With the hyperparameters that stay as they are.
    fixed : mapping
        Those that were given, as JSON values: what a solve would be asked.
    grid : mapping
        Values to try of others.
    n_folds : int
    """

    model: Model
    fixed: Mapping[str, Any]
    grid: Grid
    n_folds: int


def validate_tune(model: str, parameters: Mapping[str, Any]) -> TuneRequest:
    """The search that a job asks for.

    Parameters
    ----------
    model : str
        Public name.
    parameters : mapping
        JSON values by name: ``grid``, lists of values by hyperparameter (the model's own where
        left out), ``folds``, and hyperparameters that stay as they are.

    Raises
    ------
    ValueError
        No such model or parameter, a value that breaks its rule, or no grid for a model that has
        none by default.
    """
    fixed = {name: value for name, value in parameters.items() if name not in {_GRID, _FOLDS}}
    built, options = validate_solve(model, fixed)
    if chosen := sorted(options.chosen()):
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
    """Raise ValueError for more combinations than anybody waits for; builds none."""
    n_combinations = prod(
        len(values) for values in grid.values() if isinstance(values, list | tuple)
    )
    if n_combinations > MAX_COMBINATIONS:
        raise BadArgument(
            "grid", f"must have at most {MAX_COMBINATIONS} combinations, got {n_combinations}"
        )


def told(request: TuneRequest, tuning: Tuning) -> dict[str, Any]:
    """What the job says: the best values, what to solve with, and every trial."""
    best = max(tuning.trials, key=lambda trial: trial.n_right)
    values = asdict(tuning.best)
    asked = asdict(type(request.model)())
    return {
        "best": dict(best.parameters),
        "accuracy": best.accuracy,
        "parameters": {name: value for name, value in values.items() if value != asked[name]},
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
