"""Completion in shells: the words of every command, so that none of their modules is imported.

`WORDS` tells what may stand after a command. Names of graphs, jobs and sources are looked up in the
database, which is never made, migrated or waited for.
"""

import inspect
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from peewit.service.cli.command_words import WORDS

_GROUPS: Final = ("source", "labels", "labelstudio", "jobs", "key")
"""Groups whose modules load more than a table of commands."""

MODELS: Final = """
auto cheeger-rls cheeger-svm da-svm eigfun filtered-ridge harmonic-mbo hfs lap-rls lap-svm laprlsc
lapsvm linear-svm
nearest-neighbor poisson poisson-mbo rlsc simple-hfs stable-hfs subsampling svm tsvm tv-rls tv-svm
"""
"""Names of the models, as loading them takes a second."""

_MOST: Final = 50
_SHORT: Final = 8
_CONNECT_SECONDS: Final = 2
"""psycopg takes no less."""

Completed = list[str | tuple[str, str]]


def stand_in(name: str) -> Any:
    """A command or group that can be completed and not run; None if there is none of the name."""
    app = typer.Typer(add_completion=False)
    if name in WORDS:
        app.command(name)(_nothing(WORDS[name]))
    elif name in _GROUPS:
        for each, words in WORDS.items():
            group, _, command = each.partition(" ")
            if group == name:
                app.command(command)(_nothing(words))
    else:
        return None
    return typer.main.get_command(app)


def _nothing(words: str) -> Callable[..., None]:
    """A function that takes what the words say, and does nothing."""
    parameters = [_parameter(place, word) for place, word in enumerate(words.split())]

    def command(**_: object) -> None:
        pass

    command.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(command)["__signature__"] = inspect.Signature(parameters)
    return command


def _parameter(place: int, word: str) -> inspect.Parameter:
    """A parameter that completes what a word of `WORDS` says."""
    default: Any = None
    kind: Any = Annotated[str | None, _info(word)]
    if word.endswith("..."):
        kind = Annotated[list[str] | None, _info(word)]
    elif word.startswith("-") and "=" not in word:
        default, kind = False, Annotated[bool, _info(word)]
    return inspect.Parameter(
        f"p{place}", inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
    )


def _info(word: str) -> Any:
    option, _, values = word.partition("=")
    if word.startswith("-"):
        return typer.Option(option, autocompletion=_completer(values))
    return typer.Argument(autocompletion=_completer(word.removesuffix("...")))


def _completer(values: str) -> Callable[..., Completed] | None:
    match values:
        case "GRAPH":
            return _graph_names
        case "JOB":
            return _job_endings
        case "SOURCE":
            return _source_urls
        case "MODEL":
            return lambda: list(MODELS.split())
        case "FILE" | "NEW" | "NODE" | "":
            return None  # the shell completes names of files itself
        case _:
            return lambda: list(values.split(","))


def _graph_names(incomplete: str) -> Completed:
    names = (
        "SELECT name FROM graphs WHERE state = 'active' AND substr(name, 1, ?) = ? ORDER BY name"
    )
    return [name for (name,) in _rows(names, len(incomplete), incomplete)]


def _job_endings(incomplete: str) -> Completed:
    """The last jobs, by the ends of their ids that people see; whole ids if more was typed."""
    shown = "id" if len(incomplete) > _SHORT else f"substr(id, length(id) - {_SHORT - 1})"
    last = (
        f"SELECT {shown}, kind, status FROM jobs WHERE substr({shown}, 1, ?) = ? "  # noqa: S608 - ours
        f"ORDER BY created_at DESC LIMIT {_MOST}"
    )
    rows = _rows(last, len(incomplete), incomplete)
    return [(ending, f"{kind} {status}") for ending, kind, status in rows]


def _source_urls(ctx: typer.Context) -> Completed:
    """The sources of the graph before; by id if a shell would cut the URL at its colon."""
    of_graph = (
        "SELECT sources.id, url FROM sources JOIN graphs ON graphs.id = graph_id "
        "WHERE state = 'active' AND name = ? AND removed_at IS NULL"
    )
    rows = _rows(of_graph, next(iter(ctx.params.values()), None))
    return [source_id if ":" in url else url for source_id, url in rows]


def _rows(query: str, *values: object) -> list[Any]:
    """Rows of a query; empty if the database cannot be reached, as completion shows no errors."""
    with suppress(Exception), closing(_connect()) as connection:
        if not isinstance(connection, sqlite3.Connection):
            query = query.replace("?", "%s")
        return list(connection.execute(query, values))
    return []


def _connect() -> Any:
    """A connection of the driver, as loading SQLAlchemy takes longer than all the rest."""
    from peewit.service.settings import Settings  # noqa: PLC0415 - words of commands need none

    settings = Settings()
    url = settings.database_url or f"sqlite:///{settings.home / 'peewit.db'}"
    if url.startswith("sqlite"):
        path = url.partition(":///")[2].partition("?")[0]
        address = f"file:{quote(path)}?mode=ro"  # else SQLite would make what is not there
        return sqlite3.connect(address, uri=True, timeout=_CONNECT_SECONDS)
    import psycopg  # noqa: PLC0415 - not everybody has it

    file = settings.database_password_file
    return psycopg.connect(
        f"postgresql://{url.partition('://')[2]}",
        password=None if file is None else file.read_text().rstrip("\r\n"),
        connect_timeout=_CONNECT_SECONDS,
    )
