"""References made from the program itself, so that they cannot fall behind it.

A page writes ``<!-- generated: NAME -->`` where the text goes; `GENERATED` names what there is. The
text is Markdown and is made anew at every build.
"""

import json
import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from inspect import getdoc, isclass
from pathlib import Path
from typing import Any, Final

import click
import typer
from pydantic import ByteSize
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import peewit
from peewit.service.api.app import create_app
from peewit.service.cli import _app as commands_app
from peewit.service.dashboard.routes.models import accepted
from peewit.service.operations.graph_settings import GraphCreate
from peewit.service.settings import Settings
from peewit.service.tasks.solving.solve_options import SolveOptions, options_schema
from peewit.solvers.hyperparameters import fields_schema
from peewit.solvers.models.catalogue import CATALOGUE, DEFAULT_MODEL
from peewit.solvers.models.contract.model import parameter_schema

PLACE: Final = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
FORMULA: Final = re.compile(r"\(([A-K][1-9]\d?'?)\)")
SECTION: Final = re.compile(r"\b[Ss]ections? ([A-K]\.[1-9]\d?)\b")
"""Citations of the page of mathematics."""

HELP_WIDTH: Final = 96

PARTS: Final = {"window.": "WindowIn", "snapshot_every.": "SnapshotEveryIn"}
"""Schemas of settings of a graph that have parts."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Fill the places of every page before it is read, and take | in docstrings for what it is."""
    app.setup_extension("sphinx.ext.autodoc")  # whose event comes last
    app.connect("source-read", fill)
    app.connect("autodoc-process-docstring", keep_bars)
    return {"parallel_read_safe": True}


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Put generated text where the page asks for it."""
    del app, page
    source[0] = PLACE.sub(lambda place: "\n".join(GENERATED[place[1]]()), source[0])


def keep_bars(*arguments: Any) -> None:
    """Docstrings write norms as |x|; to reStructuredText that would be a substitution."""
    lines: list[str] = arguments[-1]
    lines[:] = [line.replace("|", r"\|") for line in lines]


def prose(text: str) -> str:
    """One line of Markdown that reads as the text; `code` is code, citations are links."""
    parts = " ".join(text.replace("``", "`").split()).split("`")
    for index in range(0, len(parts), 2):
        escaped = re.sub(r"([<*_\[\]$\\])", r"\\\1", parts[index])
        linked = FORMULA.sub(lambda found: f"[{found[0]}](#eq-{anchor(found[1])})", escaped)
        parts[index] = SECTION.sub(lambda found: f"[{found[0]}](#sec-{anchor(found[1])})", linked)
    return "`".join(parts)


def anchor(name: str) -> str:
    """What a command, a formula or a section is called in addresses."""
    return name.lower().replace(" ", "-").replace("'", "p").replace(".", "")


def table(heads: list[str], rows: list[list[str]]) -> Iterator[str]:
    """A table of Markdown, with a blank line around it."""
    yield ""
    for cells in (heads, ["---"] * len(heads), *rows):
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
    yield ""


# ------------------------------------------------------------------------------------ commands
def commands() -> Iterator[str]:
    """Every command with its help, in the order of ``peewit --help``."""
    root = typer.main.get_command(commands_app)
    found = [each for each in walk(root, click.Context(root, info_name="peewit")) if each[1]]
    rows = [
        [f"[`{name}`](#{anchor(name)})", prose((command.help or "").partition("\n\n")[0])]
        for name, command, _ in found
    ]
    yield from table(["command", "does"], rows)
    for name, command, context in found:
        yield f"({anchor(name)})=\n## {name}\n"
        yield f"```text\n{command.get_help(context).strip()}\n```\n"


def walk(command: Any, context: Any) -> Iterator[tuple[str, Any, Any]]:
    """The command and those below it, each with its name and context; hidden ones left out."""
    yield context.command_path, command if context.parent else None, context
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        child = command.get_command(context, name)
        if not child.hidden:
            below = type(context)(child, info_name=name, parent=context)
            below.terminal_width = HELP_WIDTH
            yield from walk(child, below)


# ------------------------------------------------------------------------------------ settings
def settings() -> Iterator[str]:
    """Every environment variable, from the fields of `Settings` and the texts below them."""
    text = ModuleAnalyzer.for_module(Settings.__module__).find_attr_docs()
    rows = [
        [f"`PEEWIT_{name.upper()}`", default(name, field), prose(" ".join(text["Settings", name]))]
        for name, field in Settings.model_fields.items()
    ]
    yield from table(["variable", "default", "what it sets"], rows)


def graph_settings() -> Iterator[str]:
    """Every setting of a graph, with its parts, from the schema of what is sent."""
    schema = GraphCreate.model_json_schema()
    rows = []
    parts = {place: schema["$defs"][name] for place, name in PARTS.items()}
    for place, owner in {"": schema, **parts}.items():
        for name, each in owner["properties"].items():
            known = each.get("default") or ""
            rows.append([f"`{place}{name}`", known and f"`{known}`", prose(each["description"])])
    yield from table(["setting", "default", "what it sets"], rows)


def default(name: str, field: Any) -> str:
    """The default of a setting as one would write it into the environment."""
    value = field.default
    if value is None or field.default_factory is not None:
        return ""
    if isinstance(value, tuple):
        return f"`{','.join(value)}`" if value else ""
    if name.endswith("_bytes"):
        return f"`{int(value)}`, {ByteSize(value).human_readable(decimal=False)}"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


# -------------------------------------------------------------------------------------- models
def models() -> Iterator[str]:
    """Every model: what its docstring says, its hyperparameters, the options it takes."""
    rows = [
        [f"[`{name}`](#model-{name})", "yes" if model.uses_features else "", summary(model)]
        for name, model in CATALOGUE.items()
    ]
    yield from table(["model", "features", "what it is"], rows)
    for name, model in CATALOGUE.items():
        note = ", the default" if name == DEFAULT_MODEL else ""
        yield f"(model-{name})=\n## {name}{note}\n"
        yield docstring(model)
        yield from parameters(parameter_schema(model))
        if taken := options_schema(model)["properties"]:
            yield "Options of its jobs: " + ", ".join(f"`{each}`" for each in taken) + ".\n"


def options() -> Iterator[str]:
    """What a solve job may be asked beside the hyperparameters of its model."""
    yield from parameters(fields_schema(fields(SolveOptions)))


def summary(described: Any) -> str:
    """The first line of a docstring."""
    return prose((getdoc(described) or "").partition("\n")[0])


def docstring(described: Any) -> str:
    """A docstring as Markdown, its sections named in bold."""
    paragraphs = re.sub(r"^(\w+)\n-+\n", r"**\1**\n\n", getdoc(described) or "", flags=re.MULTILINE)
    return "\n\n".join(
        each if each.startswith("**") else prose(each) for each in paragraphs.split("\n\n")
    )


def parameters(schema: Mapping[str, Any]) -> Iterator[str]:
    """The properties of a JSON Schema as a table."""
    rows = [
        [
            f"`{name}`",
            f"`{shown(each['default'])}`" if "default" in each else "",
            prose(accepted(each)),
            prose(each.get("description", "")),
        ]
        for name, each in schema["properties"].items()
    ]
    return table(["parameter", "default", "values", "what it is"], rows)


def shown(value: Any) -> str:
    """A default as it is typed after ``--set NAME=``."""
    return value if isinstance(value, str) else json.dumps(value)


# ---------------------------------------------------------------------------------------- REST
def rest() -> Iterator[str]:
    """Every operation of the OpenAPI document, by tag."""
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it would tell of every migration
    with tempfile.TemporaryDirectory(prefix="peewit-docs-") as home:
        document = create_app(Settings(home=Path(home))).openapi()
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    for tag in document["tags"]:
        yield f"## {tag['name']}\n\n{prose(tag['description'])}\n"
        for path, method, operation in operations:
            if tag["name"] in operation["tags"]:
                yield f"### {method.upper()} {path}\n"
                yield from operation_text(operation)


def operation_text(operation: Mapping[str, Any]) -> Iterator[str]:
    """What a call does, its parameters and its statuses."""
    for paragraph in operation.get("description", operation["summary"]).split("\n\n"):
        yield prose(paragraph) + "\n"
    if found := operation.get("parameters"):
        rows = [
            [f"`{each['name']}`", each["in"], prose(each.get("description", ""))] for each in found
        ]
        yield from table(["parameter", "in", "what it is"], rows)
    if body := operation.get("requestBody"):
        yield "Body: " + ", ".join(f"`{kind}`" for kind in body["content"]) + ".\n"
    statuses = {status: answer["description"] for status, answer in operation["responses"].items()}
    statuses.pop("default")  # stands at the head of the page
    answers = (f"`{status}` {prose(statuses[status]).rstrip('.')}" for status in sorted(statuses))
    yield "Answers: " + "; ".join(answers).replace("Successful Response", "done") + ".\n"


# -------------------------------------------------------------------------------------- Python
def python() -> Iterator[str]:
    """Everything that ``peewit`` names, as autodoc reads it."""
    yield "```{eval-rst}\n.. currentmodule:: peewit\n"
    for name in sorted(peewit.__all__, key=str.lower):
        found = getattr(peewit, name)
        if not isclass(found):
            yield f".. autofunction:: {name}\n"
            continue
        kind = "exception" if issubclass(found, BaseException) else "class"
        yield f".. auto{kind}:: {name}"
        yield f"   :members: {', '.join(own_members(found))}\n" if own_members(found) else ""
    yield "```"


def own_members(found: type) -> list[str]:
    """Public methods that this project wrote, inherited ones too; scikit-learn's are left out."""
    return [
        name
        for name in dir(found)
        if not name.startswith("_")
        and str(getattr(getattr(found, name), "__module__", "")).startswith("peewit")
    ]


GENERATED: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "commands": commands,
    "models": models,
    "options": options,
    "python": python,
    "rest": rest,
    "settings": settings,
    "graph_settings": graph_settings,
}
"""Text by the name that pages use."""
