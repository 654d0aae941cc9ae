"""The document of the API, and the help of every command."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from peewit.service import cli
from peewit.service.api.app import create_app
from peewit.service.settings import Settings
from tests.goldens.recording import compare


def test_the_document_of_the_api_is_the_recorded_one(tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path))
    document = app.openapi()
    app.state.home.close()
    compare("openapi.json", json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False))


def test_the_help_of_every_command_is_the_recorded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "argv", ["peewit"])
    root: Any = typer.main.get_command(cli._app)
    with click.Context(root, info_name="peewit") as context:
        compare("help.txt", "\n".join(_helps(root, context)))


def _helps(command: Any, context: click.Context) -> Iterator[str]:
    """Of a command and of all below it, in the order of their help."""
    yield f"$ {context.command_path} --help\n{command.get_help(context)}\n"
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        if below is not None:
            with click.Context(below, info_name=name, parent=context) as inner:
                yield from _helps(below, inner)
