"""`peewit retract`: files leave a graph again."""

from functools import partial
from typing import Annotated

import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.edges.absolute_urls import absolute_url
from peewit.service.cli.edges.ingest_until import carry_out
from peewit.service.cli.operation_commands import here_of
from peewit.service.cli.session import AsJson, command_group, echo, open_home, print_json
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import FileNotListed, FileRecord, RetractionRefused
from peewit.service.operations.sources_and_files import get_file, retract_file
from peewit.service.redaction import shown_url
from peewit.service.wire.graphs import epsilon_text

app = command_group()


@app.command()
def retract(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the graph.")],
    places: Annotated[
        list[str], typer.Argument(metavar="PATH|ID...", help="Ingested files, or such as wait.")
    ],
    inserts_only: Annotated[
        bool,
        typer.Option(
            "--inserts-only",
            help="Also files that deleted or set edges: these are not brought back.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Take all edges of some files out of a graph again.

    Files that wait are left out. Nodes stay known. The files themselves are not touched, and do not
    come again until their content changes or `peewit ingest NAME PATH` asks for them. The graph
    needs --deletions exact.
    """
    with open_home() as home:
        graph, here = home.graph(name), here_of(home)
        files = [_find(home, graph, place) for place in places]
        answers = [
            retract_file(here, graph, file_id=each.id, inserts_only=inserts_only) for each in files
        ]
        ended = [
            carry_out(
                home,
                graph.id,
                each,
                partial(get_file, here, graph, file_id=each.id),
                when_stopped="the next ingest takes the files out",
            )
            for each in answers
        ]
        progress = home.graph(name).progress
    for file in ended:
        if file.refusal is not None:
            raise RetractionRefused(file.refusal)
    if json:
        print_json({"graph": name, "files": ended, "progress": progress})
        return
    for file in ended:
        echo(f"{file.status} {file.path}: {file.n_rows or 0:,} edges")
    echo(
        f"{name}: edges kept {progress.edges_kept:,}, before {graph.progress.edges_kept:,}; "
        + epsilon_text(graph.settings.epsilon, progress.epsilon_expected)
    )


def _find(home: Home, graph: GraphRecord, place: str) -> FileRecord:
    """The file of this id, or the version of this path that is in the graph, else the newest."""
    if place.isdecimal():
        return home.manifest.file(graph.id, int(place))
    path = absolute_url(place).removeprefix("file://")
    versions = home.manifest.retractions.of_path(graph.id, path)
    if not versions:
        raise FileNotListed(
            f"no file {shown_url(path)!r} in the manifest of this graph; PATH must be that of one "
            "file, and not of a directory or source"
        )
    is_in = [file for file in versions if file.status in {"committed", "retracting"}]
    waits = [file for file in versions if file.status == "pending"]
    return (is_in or waits or versions)[0]
