"""Commands of operations: arguments and options from the declaration, answers as text or JSON."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import typer
from pydantic import TypeAdapter

from peewit.service.catalog import GraphRecord
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    as_text,
    echo,
    open_home,
    print_fields,
    print_json,
    print_rows,
    say,
)
from peewit.service.home import Home
from peewit.service.operations.declaration import Header, Operation, Parameter, Table
from peewit.service.operations.here import Here
from peewit.service.wire.predictions import NodeId
from peewit.solvers.late_modules import LateModule

submission: Final = LateModule("peewit.service.cli.solving.submission")
ingest_until: Final = LateModule("peewit.service.cli.edges.ingest_until")
table_files: Final = LateModule("peewit.service.cli.labels.table_files")

_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
_READ_BY_TYPER: Final = {
    *(int, float, bool, str, int | None, float | None, str | None, list[str] | None)
}
"""Other types are made of text by pydantic, as they are for the API."""

Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is done; ingest here for it.")]
Show = Callable[..., None]
"""Prints an answer; takes it, and the values of the command by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How a command sees to it that ingest does what was asked."""

    when_stopped: str  # what becomes of it after a signal
    always: bool = True  # or with --wait


def add_command(
    app: typer.Typer,
    operation: Operation[Any],
    name: str,
    *,
    show: Show | None = None,
    read: Mapping[str, Callable[[Any], Any]] | None = None,
    waits: Waits | None = None,
) -> None:
    """Add the command of an operation.

    ``show`` prints the answer; a general printer serves where none is given. ``read`` makes values
    of what is typed for some parameters. ``waits`` says how the command sees to it that the answer
    settles.
    """
    readers = dict(read or {})
    typed = [each for each in operation.parameters if not isinstance(each.mark, Header)]

    def command(json: bool, wait: bool = True, **arguments: Any) -> None:
        graph_name = arguments.pop("name", None)
        for each in typed:
            if (option := arguments.pop(_option_of(each), None)) is not None:
                if arguments[each.name] is not None:
                    raise typer.BadParameter("give it once", param_hint=each.mark.flag)
                arguments[each.name] = option
            if isinstance(each.mark, Table):
                arguments[each.name] = table_files.LabelsOfFile(arguments[each.name])
            elif each.name in readers:
                arguments[each.name] = readers[each.name](arguments[each.name])
            elif not _is_read_by_typer(each.kind) and each.mark.of_file is None:
                arguments[each.name] = TypeAdapter(each.kind).validate_python(arguments[each.name])
        with open_home() as home:
            graph = home.graph(graph_name) if operation.has_graph else None
            for each in typed:
                if each.mark.of_file is not None and graph is not None:
                    file, column = (arguments.pop(one.name) for one in _asked_file(each))
                    given = arguments[each.name]
                    arguments[each.name] = _listed(each, home, graph, given, file, column)
            here = here_of(home)
            if (job := operation.job_before(here, graph, arguments)) is not None:
                submission.require_success(home, job, is_quiet=json)
            answer = operation(here, *([graph] if graph else []), **arguments)
            if waits is not None and wait and graph is not None:
                look = partial(operation.look, here, graph, answer)
                answer = ingest_until.carry_out(
                    home, graph.id, answer, look, when_stopped=waits.when_stopped
                )
        if json:
            print_json(asdict(answer))
        elif show is None:
            show_record(answer)
        else:
            show(answer, name=graph_name, **arguments)
        if waits is not None and wait and not answer.is_done:
            raise typer.Exit(1)

    signature = []
    if operation.has_graph:
        signature.append(inspect.Parameter("name", _KEYWORD, annotation=GraphName))
    for each in typed:
        signature += asked(each, {one.name for one in typed})
        if each.mark.of_file is not None:
            signature += _asked_file(each)
    if waits is not None and not waits.always:
        signature.append(inspect.Parameter("wait", _KEYWORD, annotation=Wait, default=False))
    signature.append(inspect.Parameter("json", _KEYWORD, annotation=AsJson, default=False))
    command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in signature}
    vars(command)["operation"] = operation
    own = {each.name for each in operation.parameters}
    app.command(name, help=_as_typed(operation.doc, own))(command)


def here_of(home: Home) -> Here:
    """Where the operation of a command runs."""
    return Here(home=home, is_local=True, note=say)


def _as_typed(doc: str, own: Collection[str]) -> str:
    """The description with parameters as options, and options of jobs as they are set."""

    def typed(match: re.Match[str]) -> str:
        name = match[1]
        if "=" in name:
            return f"--set {name}"
        return f"--{name.replace('_', '-')}" if name in own else name

    return re.sub(r"`([a-z_]+(?:=\w+)?)`", typed, doc)


def _is_read_by_typer(kind: Any) -> bool:
    """Whether typer makes values of a type, and knows its choices."""
    parts = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    return kind in _READ_BY_TYPER or all(
        part is NoneType
        or get_origin(part) is Literal
        or (isinstance(part, type) and issubclass(part, Enum))
        for part in parts
    )


def _option_of(each: Parameter) -> str:
    """Name of the option beside an argument of the same meaning."""
    return f"{each.name}_option"


def asked(each: Parameter, own: Collection[str]) -> list[inspect.Parameter]:
    """An argument or an option, as typer reads it; or both, of which one may be given.

    ``own`` are the names of the command's parameters, which stand as options in its help.
    """
    mark, kind, doc = each.mark, each.kind, _as_typed(each.mark.doc, own)
    if isinstance(mark, Table):
        file = typer.Argument(metavar=mark.flag, help=mark.doc, exists=True, dir_okay=False)
        return [inspect.Parameter(each.name, _KEYWORD, annotation=Annotated[Path, file])]
    if not _is_read_by_typer(kind):
        kind = list[str] if get_origin(kind) is list else str
    bounds: dict[str, Any] = {}
    if kind in {int, float, int | None, float | None}:
        bounds = {"min": mark.rules.get("ge"), "max": mark.rules.get("le")}
    default = inspect.Parameter.empty if each.is_required else each.default
    if mark.of_file is not None:
        kind, default = kind | None, None
    shown: dict[str, Any] = {}
    flags = (mark.flag or (f"--{each.name.replace('_', '-')}" if kind is bool else "")).split()
    if flags and not flags[0].startswith("-"):
        shown[each.name] = typer.Argument(metavar=flags.pop(0).strip("[]"), help=doc)
    if flags or not shown:
        name = _option_of(each) if shown else each.name
        shown[name] = typer.Option(*flags, metavar=mark.metavar, help=doc, **bounds)
    return [
        inspect.Parameter(name, _KEYWORD, annotation=Annotated[kind, one], default=default)
        for name, one in shown.items()
    ]


def _asked_file(each: Parameter) -> list[inspect.Parameter]:
    """Options for a file of values, in place of the one for a single value, and for its column."""
    file = typer.Option(f"--{each.name}", metavar="FILE", help="A list or table of them.")
    doc = (
        "Column of the nodes in that file; by default its only one, or "
        f"{each.mark.of_file}. '#1' names a column by its place."
    )
    column = typer.Option("--column", metavar="NAME", help=doc)
    kinds = {"file": Annotated[Path | None, file], "column": Annotated[str | None, column]}
    return [
        inspect.Parameter(f"{each.name}_{name}", _KEYWORD, annotation=kind, default=None)
        for name, kind in kinds.items()
    ]


def _listed(
    each: Parameter,
    home: Home,
    graph: GraphRecord,
    values: list[str] | None,
    file: Path | None,
    column: str | None,
) -> list[NodeId]:
    """Nodes given one by one, or those of a file."""
    if not values and file is None:
        one = f"{each.mark.flag} {each.mark.metavar}"
        raise typer.BadParameter(f"give {each.name}, by {one}, or many, by --{each.name} FILE")
    if file is None:
        if column is not None:
            raise typer.BadParameter(f"needs --{each.name} FILE", param_hint="--column")
        return list(values or [])
    if values:
        raise typer.BadParameter(
            f"must be left out beside --{each.name}", param_hint=each.mark.flag
        )
    nodes: list[NodeId] = table_files.nodes_of_file(file, graph, home.nodes, column=column)
    if not nodes:
        raise ValueError(f"{file} must name at least one node, it names none")
    return nodes


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
        echo()
        names = [each.name for each in fields(rows[0])]
        print_rows(
            [each.replace("_", " ") for each in names],
            ([as_text(getattr(row, each)) for each in names] for row in rows),
        )
