"""`peewit try`: from somebody's tables to a first list, by commands that can be changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from shlex import join, quote
from typing import Annotated, Final

import typer
from pyarrow.csv import CSVWriter, WriteOptions
from pyarrow.parquet import ParquetWriter

from peewit.service.cli.machine.demo_command import demo_command, program
from peewit.service.cli.machine.try_changes import TableOptions
from peewit.service.cli.option_groups import with_groups
from peewit.service.cli.session import AsJson, command_group, echo, print_json, say
from peewit.service.demo.own_home import NOT_INHERITED, demo_settings, require_idle, take_home
from peewit.service.first_look.columns import SAMPLE_ROWS, TableLook, look_at
from peewit.service.first_look.commands import are_all_labeled, commands, in_words, script
from peewit.service.first_look.roles import Role, Roles, roles_of
from peewit.service.graph_settings import GraphSettings
from peewit.service.settings import COMPILED, Settings
from peewit.service.tables.uploads.raw_features import table_columns
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.table_formats import Format, format_of_file, unpacked

app = command_group()

_MARKER: Final = ".peewit-try"
_SCRIPT: Final = "commands.sh"


@app.command("try")
@with_groups
def try_files(
    of_tables: TableOptions,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help=(
                "Tables of edges, events, features or labels: .parquet, .csv, .tsv, "
                ".ndjson, .arrow, each also with .gz or .zst."
            ),
            exists=True,
            dir_okay=False,
        ),
    ],
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="COLUMN", help="Column of the labels; else a likely one."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the graph.")] = "mine",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Look, say what would be done, and run nothing.")
    ] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Home of the trial; <PEEWIT_HOME>/try by default.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Say what your tables hold, and try them.

    It guesses which columns are ids, features and labels, and which way edges go, and says so;
    options change what it guesses. Then it runs the commands that follow, in a home of its own,
    which a later trial empties. It leaves the commands as a script to change and to run on your
    home. It tries the first million rows of a table; the script reads the whole table.
    """
    users = Settings()
    GraphSettings(name=name)
    trial = demo_settings(users, directory or users.home / "try")
    home = trial.home
    tables = of_tables.applied([look_at(path) for path in files])
    roles = roles_of(tables, label, window=of_tables.window or "")
    if json and dry_run:
        print_json({"tables": _words(roles), "commands": commands(name, roles)})
        return
    for table, words in _words(roles).items():
        (say if json else echo)(
            f"{Path(table).name}: {'; '.join(words) or 'nothing that a graph could use'}"
        )
    if not any(role.joins for role in roles.of_tables):
        rule = "must hold a table that joins nodes, by two columns of ids"
        raise BadArgument("FILE", f"{rule}; call these so, as user_id and shop_id, and try again")
    _take(trial, files, is_dry=dry_run)
    path = _free(home / _SCRIPT)
    path.write_text(script(name, roles, program()), encoding="utf-8")
    left = f"The commands are in {quote(str(path))}: change what they got wrong, and run it."
    if not dry_run and (failed := _run(name, roles, home, as_json=json)):
        say(f"\nThis command failed. {left}")
        raise typer.Exit(failed)
    if json:
        print_json({"tables": _words(roles), "commands": commands(name, roles), "script": path})
        return
    if are_all_labeled(roles):
        echo("\nEvery node has a label, so the list is of labeled ones.")
    echo(f"\n{left}")
    if note := _note_of_labels(roles):
        echo(note)
    if not dry_run:
        echo(f"Look around: {demo_command(home, users)} serve")


def _note_of_labels(roles: Roles) -> str:
    """Which columns may be the labels, where no name says so; '' where one does."""
    others = ", ".join(dict.fromkeys(column.name for _, column in roles.candidates))
    if roles.is_label_guessed:
        return "The labels are guessed by their values: name another column by --label COLUMN."
    if roles.classes:
        return ""
    likely = f" It may be one of these: {others}." if others else ""
    return f"No column is called like labels.{likely} Name one by --label COLUMN."


def _words(roles: Roles) -> dict[str, list[str]]:
    return {str(role.table.path): list(in_words(role, roles)) for role in roles.of_tables}


def _run(name: str, roles: Roles, home: Path, *, as_json: bool) -> int:
    """Run the commands one by one, as somebody would type them; the exit code of the last."""
    samples = dict(
        _sampled(role, home / f"sample-{place}")
        for place, role in enumerate(roles.of_tables)
        if not role.table.is_whole
    )
    unset = {f"PEEWIT_{setting.upper()}": "" for setting in NOT_INHERITED}
    environment = os.environ | unset | {"PEEWIT_HOME": str(home)}
    for arguments in commands(name, roles, samples):
        (say if as_json else echo)(f"\n$ {join(['peewit', *arguments])}")
        sys.stdout.flush()
        done = subprocess.run(  # noqa: S603 - our own commands
            [sys.executable, "-m", "peewit", *arguments],
            env=environment,
            stdout=sys.stderr if as_json else None,
            check=False,
        )
        if done.returncode:
            return done.returncode
    return 0


def _sampled(role: Role, path: Path) -> tuple[Path, str]:
    """The path of a large table, and of a copy of its first rows below a path, of text as text."""
    look: TableLook = role.table
    table_format, compression = format_of_file(look.path.name)
    is_text = table_format in {Format.CSV, Format.NDJSON}
    path.mkdir()
    stem, n_rows = look.path.name.split(".")[0], 0  # by which columns of equal names are told apart
    path /= f"{stem}.{'csv' if is_text else 'parquet'}"
    with unpacked(look.path, compression) as file:
        batches = table_columns(file, table_format, first=look.first)
        first = next(batches)
        with (
            CSVWriter(path, first.schema, write_options=WriteOptions(include_header=look.has_names))
            if is_text
            else ParquetWriter(path, first.schema)
        ) as writer:
            while n_rows < SAMPLE_ROWS and first is not None:
                writer.write_batch(first.slice(0, SAMPLE_ROWS - n_rows))
                n_rows += first.num_rows
                first = next(batches, None)
    return look.path, str(path)


def _take(settings: Settings, files: list[Path], *, is_dry: bool) -> None:
    """Empty the home of an earlier trial but for its scripts, or make it; a dry run only that."""
    home = settings.home
    inside = [each for each in files if each.resolve().is_relative_to(home.resolve())]
    if inside:
        raise FileExistsError(
            f"FILE must lie outside the home of the trial, which is emptied, got {inside[0]}; move "
            "it or choose another --dir"
        )
    take_home(home, _MARKER, "trial")
    if is_dry:
        return
    require_idle(settings, "trial")
    for each in home.iterdir():
        if each.name in {COMPILED, _MARKER} or each.suffix == ".sh":
            continue
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


def _free(path: Path) -> Path:
    """The path, or one beside it where somebody may have changed what is there."""
    for number in range(1, 1_000):
        if not path.exists():
            break
        path = path.with_name(f"{_SCRIPT.removesuffix('.sh')}-{number}.sh")
    return path
