"""Commands of operations: arguments and options from the declaration, answers as text or JSON."""

import inspect
import re
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from typing import Annotated, Any, Final, get_origin

import typer
from pydantic import TypeAdapter

from peewit.service.cli.session import (
    AsJson,
    GraphName,
    as_text,
    open_home,
    print_fields,
    print_json,
    print_rows,
    say,
)
from peewit.service.operations.declaration import Operation, Parameter
from peewit.service.operations.here import Here

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_READ_BY_TYPER: Final = {int, float, bool, str, int | None, float | None, str | None}
"""Other types are made of text by pydantic, as they are for the API."""

Show = Callable[..., None]
"""Prints an answer; takes it, and the values of the command by name."""


def add_command(
    app: typer.Typer, operation: Operation, name: str, *, show: Show | None = None
) -> None:
    """Add the command of an operation; a general printer serves where none is given."""

    def command(json: bool, **asked: Any) -> None:
        graph_name = asked.pop("name", None)
        for each in operation.parameters:
            if each.kind not in _READ_BY_TYPER:
                asked[each.name] = TypeAdapter(each.kind).validate_python(asked[each.name])
        with open_home() as home:
            graph = (home.graph(graph_name),) if operation.has_graph else ()
            here = Here(home=home, is_local=True, note=say)
            answer = operation(here, *graph, **asked)
        if json:
            print_json(asdict(answer))
        elif show is None:
            show_record(answer)
        else:
            show(answer, name=graph_name, **asked)

    signature = []
    if operation.has_graph:
        signature.append(inspect.Parameter("name", _KEYWORD, annotation=GraphName))
    signature += [_asked(each) for each in operation.parameters]
    signature.append(inspect.Parameter("json", _KEYWORD, annotation=AsJson, default=False))
    command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in signature}
    app.command(name, help=_as_typed(operation))(command)


def _as_typed(operation: Operation) -> str:
    """The description with parameters as options, and options of jobs as they are set."""
    own = {each.name for each in operation.parameters}

    def typed(found: re.Match[str]) -> str:
        name = found[1]
        if "=" in name:
            return f"--set {name}"
        return f"--{name.replace('_', '-')}" if name in own else name

    return re.sub(r"`([a-z_]+(?:=\w+)?)`", typed, operation.doc)


def _asked(each: Parameter) -> inspect.Parameter:
    """An argument or an option, as typer reads it."""
    mark, kind = each.mark, each.kind
    if kind not in _READ_BY_TYPER:
        kind = list[str] if get_origin(kind) is list else str
    bounds: dict[str, Any] = {}
    if kind in {int, float, int | None, float | None}:
        bounds = {"min": mark.rules.get("ge"), "max": mark.rules.get("le")}
    if mark.flag is not None and not mark.flag.startswith("-"):
        shown: Any = typer.Argument(metavar=mark.flag, help=mark.doc)
    else:
        shown = typer.Option(
            *([mark.flag] if mark.flag else []), metavar=mark.metavar, help=mark.doc, **bounds
        )
    default = inspect.Parameter.empty if each.is_required else each.default
    return inspect.Parameter(
        each.name, _KEYWORD, annotation=Annotated[kind, shown], default=default
    )


def show_record(answer: Any) -> None:
    """A record as people read it: its fields, then each list of records as a table."""
    values: dict[str, object] = {}
    tables: dict[str, Any] = {}
    for each in fields(answer):
        value = getattr(answer, each.name)
        if isinstance(value, (list, tuple)) and value and is_dataclass(value[0]):
            tables[each.name] = value
        else:
            values[each.name.replace("_", " ")] = value
    print_fields(values)
    for rows in tables.values():
        typer.echo()
        names = [each.name for each in fields(rows[0])]
        print_rows(
            [each.replace("_", " ") for each in names],
            ([as_text(getattr(row, each)) for each in names] for row in rows),
        )
