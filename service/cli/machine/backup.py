"""`peewit backup` and `restore`: all that a home holds, elsewhere and back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from peewit.service.cli.session import (
    AsJson,
    command_group,
    open_home,
    print_fields,
    print_json,
    say,
    stderr_console,
)
from peewit.service.upkeep.backup import back_up
from peewit.service.upkeep.backup_format import Progress as Tell
from peewit.service.upkeep.restore import restore as restored

app = command_group()


@app.command()
def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New, or empty.")],
    json: AsJson = False,
) -> None:
    """Copy all graphs, labels, jobs, predictions and keys into DIR, while everything runs.

    Files of sources are not copied: they must stay where they are.
    """
    with open_home() as home, _progress_bars() as tell:
        report = back_up(home.database, home.settings, directory, progress=tell)
    if json:
        print_json(report)
    else:
        fields = asdict(report)
        fields["outside"] = len(report.outside) or None
        fields["missing"] = len(report.missing) or None
        print_fields(fields)
    for outside in report.outside:
        say(
            f"not copied: {outside.n_committed + outside.n_pending} files of graph {outside.graph} "
            f"from {outside.url}; waiting ones, certify and refine are read from there"
        )
    for path in report.missing:
        say(f"gone already: {path}, which waits for ingest; `peewit doctor` says more")


@app.command()
def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Made by `peewit backup`.")],
    erasures: Annotated[
        Path | None,
        typer.Option(
            "--erasures",
            metavar="FILE",
            help="Ledger of erasures, `erasures.jsonl` of the home that was backed up.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Bring a backup into an empty PEEWIT_HOME and an empty database, of either kind.

    Nodes that the ledger names and that the backup still has are hidden again, and the next ingest
    erases them. A ledger that lies in PEEWIT_HOME need not be named.
    """
    with open_home() as home, _progress_bars() as tell:
        report = restored(home.database, home.settings, directory, ledger=erasures, progress=tell)
    if json:
        print_json(report)
    else:
        print_fields(asdict(report))


@contextmanager
def _progress_bars() -> Iterator[Tell]:
    """A bar of rows and one of bytes on stderr."""
    bars: dict[str, TaskID] = {}
    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        console=stderr_console(),
    )

    def tell(what: str, done: int, total: int) -> None:
        if what not in bars:
            bars[what] = shown.add_task(what, total=total)
        shown.update(bars[what], completed=done)

    with shown:
        yield tell
