"""`peewit tune`: choose hyperparameters from the labels."""

from collections.abc import Mapping
from functools import partial
from shlex import quote
from typing import Annotated, Any, Final

import orjson
import typer

from peewit.service.cli.labels.table_files import (
    LabelColumnOption,
    json_or_text,
    parsed_settings,
    with_label_column,
)
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    echo,
    given,
    print_rows,
    say,
)
from peewit.service.cli.solving.submission import require_valid, run_job
from peewit.service.tasks.kind_list import KINDS

app = command_group()

_KIND: Final = KINDS["tune"]

_SHOWN: Final = 10


@app.command()
def tune(
    name: GraphName,
    model: Annotated[str, typer.Option(help="Public name of the model.")] = "lapsvm",
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            metavar="NAME=V1,V2,...",
            help=(
                "Values to try of a setting of the model; repeatable. Without it the "
                "model's own are tried."
            ),
        ),
    ] = None,
    folds: Annotated[int | None, typer.Option(help="Folds of the cross-validation; 5.")] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Hyperparameter that stays; repeatable."),
    ] = None,
    label_column: LabelColumnOption = None,
    json: AsJson = False,
) -> None:
    """Choose hyperparameters by cross-validation over the present labels.

    Every combination of the values is tried on the newest snapshot. The job goes through the
    queue; while no worker is alive this command runs it itself.
    """
    values = with_label_column(parsed_settings(parameters), label_column) | given(folds=folds)
    if grid:
        values["grid"] = _values_to_try(grid)
    require_valid(_KIND, model, values)
    run_job(name, _KIND, values, partial(_tell_result, name, model), model=model, json=json)


def _values_to_try(settings: list[str]) -> dict[str, list[Any]]:
    """``NAME=V1,V2`` options; values are JSON if they can be, else strings."""
    tried = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not (name and equals and value):
            raise typer.BadParameter(
                f"must read NAME=V1,V2,..., got {setting!r}", param_hint="--grid"
            )
        tried[name] = [json_or_text(each) for each in value.split(",")]
    return tried


def _tell_result(name: str, model: str, result: Mapping[str, Any]) -> None:
    ranked = sorted(result["trials"], key=lambda trial: -trial["accuracy"])
    rows = [
        [*trial["parameters"].values(), f"{trial['accuracy']:.3f}"] for trial in ranked[:_SHOWN]
    ]
    print_rows([*result["best"], "accuracy"], rows)
    if len(ranked) > _SHOWN:
        say(f"and {len(ranked) - _SHOWN} more; --json shows them all")
    if result["warning"]:
        say(f"warning: {result['warning']}")
    say(
        f"right for {result['accuracy']:.1%} of {result['n_left_out']:,} labels left out in "
        f"{result['n_folds']} folds; solve with"
    )
    echo(f"peewit solve {quote(name)} --model {model}{_settings(result['parameters'])}")


def _settings(parameters: Mapping[str, Any]) -> str:
    """The values as options of `peewit solve`."""
    return "".join(
        f" --set {quote(f'{name}={_setting(value)}')}" for name, value in parameters.items()
    )


def _setting(value: Any) -> str:
    """A value as ``--set`` reads it: JSON, and a string bare unless it would read as JSON."""
    if isinstance(value, str) and json_or_text(value) == value:
        return value
    return orjson.dumps(value).decode()
