"""Session of a command: the opened stores, and one way to print.

Answers go to stdout, as text for people or, with ``--json``, as one JSON value. Progress, logs and
errors go to stderr.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer
from typer.core import TyperCommand

from peewit.service.home import Home

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from peewit.service.catalog import GraphRecord
    from peewit.service.settings import Settings

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout.")]
GraphName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the graph.")]

INTERRUPTED = 130
"""Exit code of a command that a signal has ended."""

_NEGATIVE: Final = re.compile(r"-\d+")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that move the cursor, ring, or begin a command or a color."""

_JSON_CONTROLS: Final = re.compile(rb"\x7f|\xc2([\x80-\x9f])")
"""The same where JSON does not escape them."""

_PIPED_WIDTH = 100_000
"""Columns when stdout is no terminal: wide enough that nothing is folded."""


@contextmanager
def open_home(settings: "Settings | None" = None) -> Iterator[Home]:
    """The home that the environment or other settings name, until the command ends."""
    with closing(Home.open(settings)) as home:
        yield home


def keep_columns(home: Home, graph: "GraphRecord", named: Mapping[str, str]) -> None:
    """Keep names of columns with a graph that has none of its own, and say so."""
    new = graph.settings.keeping(named).columns.items() - graph.settings.columns.items()
    if not new:
        return
    home.catalog.update(graph.id, lambda settings: settings.keeping(named))
    shown = ", ".join(f"{name}={each}" for name, each in named.items() if (name, each) in new)
    say(f"{graph.settings.name} keeps the columns {shown}")


class _Command(TyperCommand):
    """A command that takes negative integers for values, as nodes are called, not for options."""

    def make_parser(self, ctx: Any) -> Any:
        """The parser of what is typed; the library has no setting for this."""
        parser: Any = super().make_parser(ctx)
        take_option = parser._process_opts

        def take(typed: str, state: Any) -> None:
            if _NEGATIVE.fullmatch(typed):
                state.largs.append(typed)
            else:
                take_option(typed, state)

        parser._process_opts = take
        return parser


class _Commands(typer.Typer):
    """Commands of the class above."""

    def command(self, *names: Any, **options: Any) -> Any:
        """As that of `typer.Typer`."""
        return super().command(*names, **{"cls": _Command, **options})


def command_group(title: str | None = None) -> typer.Typer:
    """An empty group of commands; those of a group without title stand among the others."""
    return _Commands(
        help=title, no_args_is_help=title is not None, add_completion=False, rich_markup_mode=None
    )


def stderr_console() -> "Console":
    """Console for progress."""
    from rich.console import Console  # noqa: PLC0415 - as above

    return Console(stderr=True, highlight=False, markup=False)


def printable(text: str) -> str:
    """Text with what controls terminals escaped: ids and names come from others."""
    if text.isprintable():
        return text
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def say(text: str) -> None:
    """Print one line on stderr."""
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()


def echo(text: str = "") -> None:
    """Print lines on stdout."""
    typer.echo(printable(text))


def print_json(value: object) -> None:
    """Print one JSON value on stdout."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    content = orjson.dumps(value, default=str, option=option)
    escaped = _JSON_CONTROLS.sub(lambda match: b"\\u%04x" % (match[1] or match[0])[0], content)
    sys.stdout.buffer.write(escaped)
    sys.stdout.flush()


def tell(text: str, value: object, *, as_json: bool) -> None:
    """Print what was done: a line on stderr, or one JSON value on stdout."""
    if as_json:
        print_json(value)
    else:
        say(text)


def print_fields(values: Mapping[str, object]) -> None:
    """Print names and values, one to a line."""
    table = _table()
    for name, value in values.items():
        table.add_row(printable(name), printable(as_text(value)))
    _print_table(table)


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with a header line."""
    table = _table(*columns)
    for row in rows:
        table.add_row(*(printable(as_text(value)) for value in row))
    _print_table(table)


def as_text(value: object) -> str:
    """A value as people read it: 1,234 for counts, a dash for nothing."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4g}"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S UTC")
        case Mapping():
            return ", ".join(f"{name}={each}" for name, each in value.items())
        case _:
            return str(value)


def _table(*columns: str) -> "Table":
    from rich.table import Table  # noqa: PLC0415 - as above

    table = Table(box=None, pad_edge=False, show_header=bool(columns), header_style="bold")
    for column in columns or ("", ""):
        table.add_column(column, overflow="fold")
    return table


def _print_table(table: "Table") -> None:
    from rich.console import Console  # noqa: PLC0415 - as above

    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    console = Console(highlight=False, markup=False, width=width)
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().split("\n")[:-1]))


def given(**options: Any) -> dict[str, Any]:
    """The options that were not left out."""
    return {name: value for name, value in options.items() if value is not None}
