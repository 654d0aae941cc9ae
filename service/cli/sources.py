"""`peewit source`: what the ingest daemon reads, and what became of the files."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from peewit.service.cli.absolute_urls import absolute_url
from peewit.service.cli.edge_files import listed
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    given,
    keep_columns,
    open_home,
    print_json,
    print_rows,
    say,
    tell,
)
from peewit.service.cli.table_files import (
    BadRowsOption,
    DstOption,
    LabelColumnOption,
    LabelOption,
    NodeOption,
    OpOption,
    ReplaceOption,
    SrcOption,
    TimeOption,
    WeightOption,
)
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import SourceNotFound, SourceRecord
from peewit.service.inbox.source_columns import source_columns
from peewit.service.inbox.source_lister import explained
from peewit.service.live_sources.contract import shown_position
from peewit.service.live_sources.kinds import FILES, KINDS, require_holding, start_of
from peewit.service.live_sources.node_columns import Holds, shown_holding
from peewit.service.redaction import shown_url
from peewit.streaming.edges.sources import EdgeFiles

app = command_group("What the ingest daemon reads.")

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Its id or its URL.")]


@app.command()
def add(
    name: GraphName,
    url: Annotated[
        str, typer.Argument(help="File, directory, glob or fsspec URL; the place of a live source.")
    ],
    kind: Annotated[str, typer.Option(help=f"What is read: {', '.join((FILES, *KINDS))}.")] = FILES,
    holds: Annotated[Holds, typer.Option(help="What the rows of a live source are.")] = "edges",
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="After what a live source begins: a version; of a topic earliest, latest or a "
            "time; by default with all there is.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Look for new files and changes for ever.")
    ] = False,
    src: SrcOption = None,
    dst: DstOption = None,
    weight: WeightOption = None,
    op: OpOption = None,
    time: TimeOption = None,
    node: NodeOption = None,
    label: LabelOption = None,
    label_column: LabelColumnOption = None,
    skip_bad_rows: BadRowsOption = None,
    replace_changed: ReplaceOption = None,
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
        named = given(src=src, dst=dst, weight=weight, op=op, time=time, node=node, label=label)
        columns = source_columns(graph.settings, holds, named)
        source = home.manifest.sources.add(
            graph.id,
            location,
            kind=kind,
            holds=holds,
            label_column=label_column,
            start=start_of(kind, location, columns, start),
            follow=follow,
            columns=named or None,
            max_bad_rows=skip_bad_rows,
            replaces=replace_changed,
        )
        if holds == "edges":
            keep_columns(home, graph, named)
    shown = shown_url(source.url)
    text = f"added {shown} as {source.id}; `peewit ingest --follow` or `serve` reads it"
    tell(text, _public(source), as_json=json)


@app.command("list")
def list_sources(name: GraphName, json: AsJson = False) -> None:
    """List sources with their files by status, their errors, and the quarantined files."""
    with open_home() as home:
        graph_id = home.graph(name).id
        sources = home.manifest.sources.list(graph_id)
        counts = [home.manifest.counts(graph_id, source_id=each.id) for each in sources]
        refused = home.manifest.list_files(graph_id, status="quarantined", limit=1000)
        refusals = home.manifest.live.refusals(graph_id, limit=100)
    if json:
        print_json(
            {
                "sources": [
                    {"source": _public(source), "files": dict(count)}
                    for source, count in zip(sources, counts, strict=True)
                ],
                "quarantined": refused,
                "refusals": refusals,
            }
        )
        return
    print_rows(
        (
            *("source", "kind", "url", "follow", "listed"),
            *("committed", "pending", "quarantined", "duplicate", "retracted"),
        ),
        (
            (
                source.id,
                source.kind,
                shown_url(source.url),
                source.follow,
                source.listed_at,
                count["committed"],
                count["pending"],
                count["quarantined"],
                count["duplicate"],
                count["retracted"],
            )
            for source, count in zip(sources, counts, strict=True)
        ),
    )
    if live := [source for source in sources if source.is_live]:
        typer.echo()
        print_rows(
            ("source", "holds", "read up to", "lag", "refused"),
            (
                (
                    each.id,
                    shown_holding(each.holds, each.label_column),
                    shown_position(each.position),
                    each.lag,
                    each.n_refused,
                )
                for each in live
            ),
        )
    if failing := [source for source in sources if source.error is not None]:
        typer.echo()
        print_rows(
            ("source", "failed at", "failures", "error"),
            ((each.id, each.error_at, each.n_failures, each.error) for each in failing),
        )
    if refused:
        typer.echo()
        print_rows(
            ("quarantined", "reason", "row (from 0)", "value"),
            ((shown_url(each.path), each.reason, each.row, each.value) for each in refused),
        )
    if refusals:
        typer.echo()
        print_rows(
            ("source", "not taken", "reason"),
            ((each.source_id, each.place, each.reason) for each in refusals),
        )


@app.command()
def remove(name: GraphName, source: Source, json: AsJson = False) -> None:
    """Read nothing more from a source; its committed files stay in the graph."""
    with open_home() as home:
        found = _find_source(home, name, source)
        home.manifest.sources.remove(found.graph_id, found.id)
    tell(f"removed {shown_url(found.url)}", {"removed": _public(found)}, as_json=json)


@app.command()
def retry(name: GraphName, source: Source, json: AsJson = False) -> None:
    """Offer the quarantined files of a source again; try it at once if it could not be read."""
    with open_home() as home:
        found = _find_source(home, name, source)
        n_files = home.manifest.retry_source(found.graph_id, found.id)
    files = "1 file waits" if n_files == 1 else f"{n_files} files wait"
    tell(f"{files} to be read again", {"n_files": n_files}, as_json=json)


def _look_at_files(location: str, *, follow: bool) -> None:
    """Raise what is wrong with a source of files; only say what may mend itself or is doubtful."""
    scheme = location.partition("://")[0]
    if scheme in KINDS:
        raise typer.BadParameter(
            f"must be {scheme} for {scheme}://, got files", param_hint="--kind"
        )
    signs = {
        "delta": (Path(location) / "_delta_log").is_dir(),
        "iceberg": any((Path(location) / "metadata").glob("*.metadata.json")),
    }
    for kind in (kind for kind, is_there in signs.items() if is_there):
        say(f"this is a table, whose files hold removed rows, too; --kind {kind} follows it")
    try:
        listed(EdgeFiles(location))
    except ValueError:
        raise
    except Exception as error:  # file systems raise what they like
        if not follow:
            raise
        say(f"not listed yet, will be tried again: {explained(error)}")


def _public(source: SourceRecord) -> SourceRecord:
    return replace(source, url=shown_url(source.url))


def _find_source(home: Home, name: str, source: str) -> SourceRecord:
    for each in home.manifest.sources.list(home.graph(name).id):
        if source in {each.id, each.url} or absolute_url(source) == each.url:
            return each
    raise SourceNotFound(f"no source {source!r}; `peewit source list {name}` shows what there is")
