"""`peewit source`: what the ingest daemon reads, and what became of the files."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.edges.absolute_urls import absolute_url
from peewit.service.cli.edges.edge_files import listed
from peewit.service.cli.edges.table_options import DirectedOption, FileRules
from peewit.service.cli.labels.table_files import LabelColumnOption, LabelOption, NodeOption
from peewit.service.cli.operation_commands import here_of
from peewit.service.cli.option_groups import with_groups
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    echo,
    given,
    keep_columns,
    open_home,
    print_json,
    print_rows,
    say,
    tell,
)
from peewit.service.graphs.directed_relations import directed_relation, mark_directed
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import SourceNotFound, SourceRecord
from peewit.service.inbox.source_columns import relations_said
from peewit.service.inbox.source_lister import explained
from peewit.service.live_sources.contract import shown_position
from peewit.service.live_sources.kinds import FILES, KINDS, require_holding
from peewit.service.live_sources.node_columns import Holds, shown_holding
from peewit.service.operations.sources_and_files import (
    add_source,
    list_sources,
    remove_source,
    retry_source,
)
from peewit.service.operations.tables import EdgeColumnNames
from peewit.service.redaction import shown_url
from peewit.service.wire.sources_and_pushes import FileStatus
from peewit.streaming.edges.sources import EdgeFiles

app = command_group("What the ingest daemon reads.")

_STATUSES: Final[tuple[FileStatus, ...]] = (
    "committed",
    "pending",
    "quarantined",
    "duplicate",
    "retracted",
)

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Its id or its URL.")]


@app.command()
@with_groups
def add(
    name: GraphName,
    url: Annotated[
        str, typer.Argument(help="File, directory, glob or fsspec URL; the place of a live source.")
    ],
    *,
    kind: Annotated[str, typer.Option(help=f"What is read: {', '.join((FILES, *KINDS))}.")] = FILES,
    holds: Annotated[Holds, typer.Option(help="What the rows of a live source are.")] = "edges",
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help=(
                "Where a live source begins: a version of a table, or, for a topic, "
                "earliest, latest or a time. By default it is read from its beginning."
            ),
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Look for new files and changes for ever.")
    ] = False,
    columns: EdgeColumnNames,
    directed: DirectedOption = False,
    node: NodeOption = None,
    label: LabelOption = None,
    label_column: LabelColumnOption = None,
    rules: FileRules,
    json: AsJson = False,
) -> None:
    """Have the daemon read a source: files, or a live one: a Delta table, a topic of Kafka.

    One that is followed need not answer now: the daemon tries again, and `source list` shows how.
    """
    location = absolute_url(url)
    require_holding(kind, holds, label_column)
    if kind == FILES:
        _look_at_files(location, follow=follow)
    with open_home() as home:
        graph = home.graph(name)
        named = given(**vars(columns), node=node, label=label)
        directed_one = directed_relation(columns.relation, is_directed=directed)
        source = add_source(
            here_of(home),
            graph,
            url=location,
            kind=kind,
            holds=holds,
            label_column=label_column,
            start=start,
            follow=follow,
            columns=named or None,
            **rules.said(),
        )
        if holds == "edges":
            keep_columns(home, graph, named)
        mark_directed(home.catalog, graph, directed_one)
    text = f"added {source.url} as {source.id}; `peewit ingest --follow` or `serve` reads it"
    tell(text, source, as_json=json)


@app.command("list")
def list_(name: GraphName, json: AsJson = False) -> None:
    """List sources with their files by status, their errors, and the quarantined files."""
    with open_home() as home:
        graph = home.graph(name)
        answer = list_sources(here_of(home), graph, status="quarantined", limit=1000)
    if json:
        print_json(answer)
        return
    print_rows(
        ("source", "kind", "url", "follow", "listed", *_STATUSES),
        (
            (
                each.id,
                each.kind,
                each.url,
                each.follow,
                each.listed_at,
                *(each.files[status] for status in _STATUSES),
            )
            for each in answer.sources
        ),
    )
    _print_more(
        ("source", "relation"),
        (
            (each.id, relations)
            for each in answer.sources
            if (relations := relations_said(each.columns))
        ),
    )
    _print_more(
        ("source", "holds", "read up to", "lag", "refused"),
        (
            (
                each.id,
                shown_holding(each.holds, each.label_column),
                shown_position(each.position),
                each.lag,
                each.n_refused,
            )
            for each in answer.sources
            if each.kind != FILES
        ),
    )
    _print_more(("source", "note"), ((each.id, each.note) for each in answer.sources if each.note))
    _print_more(
        ("source", "failed at", "failures", "error"),
        (
            (each.id, each.error_at, each.n_failures, each.error)
            for each in answer.sources
            if each.error is not None
        ),
    )
    _print_more(
        ("quarantined", "reason", "row (from 0)", "value"),
        ((each.path, each.reason, each.row, each.value) for each in answer.files),
    )
    _print_more(
        ("source", "not taken", "reason"),
        ((each.source_id, each.place, each.reason) for each in answer.refusals),
    )


@app.command()
def remove(name: GraphName, source: Source, json: AsJson = False) -> None:
    """Read nothing more from a source; its committed files stay in the graph."""
    with open_home() as home:
        graph = home.graph(name)
        record = _find_source(home, graph, source)
        remove_source(here_of(home), graph, source_id=record.id)
    tell(f"removed {shown_url(record.url)}", {"removed": record.id}, as_json=json)


@app.command()
def retry(name: GraphName, source: Source, json: AsJson = False) -> None:
    """Offer the quarantined files of a source again; try it at once if it could not be read."""
    with open_home() as home:
        graph = home.graph(name)
        record = _find_source(home, graph, source)
        answer = retry_source(here_of(home), graph, source_id=record.id)
    files = "1 file waits" if answer.n_files == 1 else f"{answer.n_files} files wait"
    tell(f"{files} to be read again", answer, as_json=json)


def _print_more(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A further table, if it has rows."""
    if listed_rows := list(rows):
        echo()
        print_rows(columns, listed_rows)


def _look_at_files(location: str, *, follow: bool) -> None:
    """Raise what is wrong with a source of files; only say what may mend itself or is doubtful."""
    scheme = location.partition("://")[0]
    if scheme in KINDS:
        raise typer.BadParameter(
            f"must be {scheme} for {scheme}://, got files", param_hint="--kind"
        )
    try:
        listed(EdgeFiles(location))
    except ValueError:
        raise
    except Exception as error:  # file systems raise what they like
        if not follow:
            raise
        say(f"not listed yet, will be tried again: {explained(error)}")


def _find_source(home: Home, graph: GraphRecord, source: str) -> SourceRecord:
    for each in home.manifest.sources.list(graph.id):
        if source in {each.id, each.url} or absolute_url(source) == each.url:
            return each
    name = graph.settings.name
    raise SourceNotFound(f"no source {source!r}; `peewit source list {name}` shows what there is")
