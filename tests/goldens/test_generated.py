"""What is written from declarations is what stands in the files."""

import os
from pathlib import Path
from types import ModuleType

import pytest

from peewit.service import cli, client
from peewit.service.client import AsyncClient, Client
from tests.goldens import command_words
from tests.goldens.client_calls import SUBJECTS, module_text, operations_of
from tests.goldens.recording import RECORD

subjects = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda one: one.__name__.split(".")[-1])


@subjects
@pytest.mark.usefixtures("processes")
def test_the_calls_of_the_client_are_written_from_operations(subject: ModuleType) -> None:
    path = Path(client.__file__).parent / "calls" / Path(subject.__file__ or "").name
    require_same(path, module_text(subject))


def test_words_and_help_of_commands_are_those_of_the_commands() -> None:
    require_same(Path(cli.__file__).parent / "command_words.py", command_words.module_text())


def require_same(path: Path, text: str) -> None:
    """Fail where a file holds another text; or write it, where that is asked for."""
    if os.environ.get(RECORD):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "`make generate` writes it"


@subjects
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_both_clients_have_a_method_for_each_operation(subject: ModuleType, kind: type) -> None:
    for each in operations_of(subject):
        assert callable(getattr(kind, each.client)), each.client
