"""Words and lines of help of every command, written from the commands themselves."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

import typer
from typer.core import TyperGroup

from peewit.service.cli import _app

_FILES: Final = {"locations", "places", "paths", "file", "points", "truth", "directory", "url"}
"""Arguments of which the shell completes names of files."""

_OF_OPTIONS: Final = {"model": "MODEL", "auto_solve": "MODEL", "job": "JOB", "graph": "GRAPH"}
_HEAD: Final = '''"""What may stand after each command, and its help; `make generate` writes it.

Help and completion read this and load no command. Arguments stand by what they name, in capitals;
an option takes a value where ``=`` follows it.
"""

from typing import Final
'''


def commands(command: Any = None, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its whole name, hidden ones left out, in the order of the help."""
    command = typer.main.get_command(_app) if command is None else command
    if not isinstance(command, TyperGroup):
        if not command.hidden:
            yield name.strip(), command
        return
    context = typer.Context(command)
    for each in command.list_commands(context):
        yield from commands(command.get_command(context, each), f"{name} {each}")


def module_text() -> str:
    """The module, as ruff formats it."""
    found = dict(commands())
    words = {name: " ".join(_words(name, each)) for name, each in found.items()}
    helps = {name: _first_line(each.help) for name, each in found.items()}
    root = typer.main.get_command(_app)
    context = typer.Context(root)
    for name in root.list_commands(context):  # type: ignore[attr-defined]  # of groups
        group = root.get_command(context, name)  # type: ignore[attr-defined]
        if isinstance(group, TyperGroup):
            helps[name] = _first_line(group.help)
    return "\n".join([_HEAD, _table("WORDS", words), "", _table("HELP", helps), ""])


def _first_line(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


def _words(name: str, command: Any) -> Iterator[str]:
    context = typer.Context(command)
    for each in command.params:
        if getattr(each, "hidden", False):
            continue
        if each.param_type_name == "argument":
            yield _argument(name, each)
            continue
        values = [] if each._custom_shell_complete else each.shell_complete(context, "")
        listed = ",".join(value.value for value in values)
        for option in (*each.opts, *each.secondary_opts):
            if option != "--help":
                value = _OF_OPTIONS.get(each.name.removesuffix("_option"), listed)
                yield option if each.is_flag else f"{option}={value}"


def _argument(command: str, each: Any) -> str:
    word = "NEW"
    if each.metavar in {"SOURCE", "JOB", "GRAPH"}:
        word = each.metavar
    elif each.metavar == "NAME" and command != "graph create":
        word = "GRAPH"
    elif each.metavar == "NODE":
        word = "NODE"
    elif each.name in _FILES:
        word = "FILE"
    return word if each.nargs == 1 else f"{word}..."


def _table(name: str, values: Mapping[str, str]) -> str:
    lines = [f"{name}: Final = {{"]
    for key, value in values.items():
        parts = [value]  # which ruff keeps on one line where it fits
        if len(value) > 90:
            parts = textwrap.wrap(value, 89, break_long_words=False, break_on_hyphens=False)
        if len(f'    "{key}": "{value}",') <= 100:
            lines.append(f'    "{key}": "{value}",')
        else:
            texts = [f'"{part} "' for part in parts[:-1]] + [f'"{parts[-1]}"']
            lines += [f'    "{key}": (', *(f"        {text}" for text in texts), "    ),"]
    return "\n".join([*lines, "}"])
