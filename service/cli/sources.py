"""`lapwing source`: what the ingest daemon reads, and what became of the files."""

from typing import Annotated

import typer

from service.cli.session import (
    AsJson,
    GraphName,
    Session,
    command_group,
    open_session,
    print_json,
    print_rows,
    say,
)
from service.locations import absolute_url
from service.manifest import SourceNotFound, SourceRecord
from streaming.sources import ParquetEdges

app = command_group("What the ingest daemon reads.")

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Its id or its URL.")]


@app.command()
def add(
    name: GraphName,
    url: Annotated[str, typer.Argument(help="File, directory, glob or fsspec URL.")],
    follow: Annotated[bool, typer.Option("--follow", help="Look for new files for ever.")] = False,
    json: AsJson = False,
) -> None:
    """Have the daemon read a source."""
    location = absolute_url(url)
    ParquetEdges(location).list()
    with open_session() as session:
        source = session.manifest.add_source(session.graph(name).id, location, follow=follow)
    if json:
        print_json(source)
    else:
        say(f"added {source.url} as {source.id}; `lapwing ingest --follow` or `serve` reads it")


@app.command("list")
def list_sources(name: GraphName, json: AsJson = False) -> None:
    """List sources with their files by status, and the quarantined files with their reasons."""
    with open_session() as session:
        graph_id = session.graph(name).id
        sources = session.manifest.list_sources(graph_id)
        counts = [session.manifest.counts(graph_id, source_id=each.id) for each in sources]
        refused = session.manifest.list_files(graph_id, status="quarantined", limit=1000)
    if json:
        print_json(
            {
                "sources": [
                    {"source": source, "files": dict(count)}
                    for source, count in zip(sources, counts, strict=True)
                ],
                "quarantined": refused,
            }
        )
        return
    print_rows(
        ("source", "url", "follow", "committed", "pending", "quarantined", "duplicate"),
        (
            (
                source.id,
                source.url,
                source.follow,
                count["committed"],
                count["pending"],
                count["quarantined"],
                count["duplicate"],
            )
            for source, count in zip(sources, counts, strict=True)
        ),
    )
    if refused:
        typer.echo()
        print_rows(
            ("quarantined", "reason", "row", "value"),
            ((each.path, each.reason, each.row, each.value) for each in refused),
        )


@app.command()
def remove(name: GraphName, source: Source, json: AsJson = False) -> None:
    """Read nothing more from a source; its committed files stay in the graph."""
    with open_session() as session:
        graph_id = session.graph(name).id
        found = _found(session, graph_id, source)
        session.manifest.remove_source(graph_id, found.id)
    if json:
        print_json({"removed": found})
    else:
        say(f"removed {found.url}")


@app.command()
def retry(name: GraphName, source: Source, json: AsJson = False) -> None:
    """Offer the quarantined files of a source again."""
    with open_session() as session:
        graph_id = session.graph(name).id
        n_files = session.manifest.retry_source(graph_id, _found(session, graph_id, source).id)
    if json:
        print_json({"n_files": n_files})
    else:
        say(f"{n_files} files wait to be read again")


def _found(session: Session, graph_id: str, source: str) -> SourceRecord:
    for each in session.manifest.list_sources(graph_id):
        if source in {each.id, each.url} or absolute_url(source) == each.url:
            return each
    raise SourceNotFound(f"no source {source!r}; `lapwing source list` shows those there are")
