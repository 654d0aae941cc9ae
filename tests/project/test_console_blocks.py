"""What `console` blocks of the pages type exists: commands with their options, and programs.

Blocks of `bash` and `pycon` are run whole (`tests/end_to_end/test_pages.py`); those of `console`
name places and machines that only readers have.
"""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from peewit.service import cli

UsageError = typer.BadParameter.__mro__[1]
"""What typer raises for every wrong usage; it exports only one kind of it."""

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"\w[\w-]*\.\w+")
PROGRAM = re.compile(r"python -m (docs\.benchmarks\.\w+)")


def typed() -> list[tuple[str, list[str]]]:
    """The page of each `peewit` command line, and its words; a line of shell may hold several."""
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                names = [word.rpartition("/")[2] for word in words]
                is_named_so = words[:1] == ["kubectl"]  # objects of a cluster
                if line.startswith("$ ") and "peewit" in names and not is_named_so:
                    start = names.index("peewit") + 1
                    ends = [at for at, word in enumerate(words) if word in {"&", "|", "&&", ">"}]
                    end = min((at for at in ends if at > start), default=len(words))
                    found.append((str(page.relative_to(ROOT)), words[start:end]))
    return found


def parse(words: list[str]) -> None:
    """Have the command line read its words, and run nothing."""
    command = typer.main.get_command(cli._app)
    context = typer.Context(command, info_name="peewit")
    while isinstance(command, TyperGroup):
        _, command, words = command.resolve_command(context, words)
        assert command is not None
        context = typer.Context(command, parent=context)
    command.make_context(command.name, list(words), parent=context.parent)


def test_there_are_commands_to_look_at() -> None:
    assert len(typed()) > 10


@pytest.mark.parametrize(("page", "words"), typed())
def test_a_command_of_a_page_is_one_that_the_program_reads(
    page: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in filter(FILE.fullmatch, words):
        Path(word).touch()
    try:
        parse(words)
    except UsageError as error:
        pytest.fail(f"{page}: peewit {' '.join(words)}: {error.format_message()}")


def test_an_option_that_is_not_there_would_be_seen() -> None:
    with pytest.raises(UsageError):
        parse(["ingest", "mine", "--no-such-option"])


@pytest.mark.parametrize(
    "name", sorted({name for page in PAGES for name in PROGRAM.findall(page.read_text())})
)
def test_a_program_of_a_page_is_there(name: str) -> None:
    assert importlib.util.find_spec(name) is not None
