"""`peewit erase`: nodes that somebody asked to be forgotten."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.ingest import STOP_SECONDS, ended_when_stopped, renewer_for
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_home,
    print_json,
    say,
)
from peewit.service.cli.table_files import nodes_of_file
from peewit.service.database.lease_keeper import LeaseHeld
from peewit.service.home import Home
from peewit.service.inbox.erasures import ErasureRecord
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.process_lifetime import StopSignal, exit_after_signal
from peewit.service.tables.column_names import label_columns
from peewit.service.tables.uploads import NodeId, node_id
from peewit.streaming.graph_stream import Interrupted

app = command_group()

_WATCH_SECONDS: Final = 0.5


@app.command()
def erase(
    name: GraphName,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="ID", help="A node; repeatable.")
    ] = None,
    nodes: Annotated[
        Path | None,
        typer.Option("--nodes", metavar="FILE", help="Table of the nodes, with a column node."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until no file of the graph holds them any more.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Forget nodes: their edges, labels, features and predictions, and their ids.

    From now on nothing shows them. Whoever ingests the graph next overwrites the files that hold
    them, as does this command with --wait. An id that comes again is a new node; where ids are
    dense the number is never used again. Your own files, and backups, stay as they are.
    """
    if not node and nodes is None:
        raise typer.BadParameter("give nodes, by --node ID, or many, by --nodes FILE")
    with open_home() as home:
        graph = home.graph(name)
        erasure = home.forgetting.erase(graph, _named(graph, node or [], nodes))
        if wait:
            with (
                StopSignal() as stop,
                exit_after_signal(STOP_SECONDS),
                ended_when_stopped("the nodes are hidden, and the next ingest erases them"),
            ):
                erasure = _carry_out(home, graph, erasure, stop)
    if json:
        shown = asdict(erasure)
        del shown["position"], shown["graph_id"], shown["snapshot"], shown["struck_at"]
        print_json({"graph": name, **shown})
    else:
        _tell(name, erasure)


def _named(graph: GraphRecord, given: list[str], file: Path | None) -> list[NodeId]:
    kind = graph.settings.node_ids
    named = [node_id(each, kind) for each in given]
    if file is not None:
        columns = label_columns(graph.settings.columns, {})
        named += nodes_of_file(file, kind, node=columns.node)
    if not named:
        raise ValueError(f"{file} must name at least one node, it names none")
    return named


def _carry_out(
    home: Home, graph: GraphRecord, erasure: ErasureRecord, stop: StopSignal
) -> ErasureRecord:
    """Ingest the graph here, or wait for who does, until the nodes are erased."""
    is_told = False
    while erasure.status != "erased":
        try:
            with renewer_for(home, graph.id) as renewer:
                ingestor = Ingestor(home.database, home.settings, renewer=renewer)
                ingestor.ingest_graph(graph.id, should_stop=stop)
        except LeaseHeld:
            pass  # who ingests the graph erases them
        erasure = home.manifest.erasures.get(graph.id, erasure.id)
        if erasure.status == "erased":
            break
        if not is_told:
            say("waiting for jobs that began before, or for another process; Ctrl-C leaves it so")
            is_told = True
        if stop.wait(_WATCH_SECONDS):
            raise Interrupted
    return erasure


def _tell(name: str, erasure: ErasureRecord) -> None:
    typer.echo(
        f"{name}: {erasure.status} {erasure.n_nodes:,} nodes, of which the graph knew "
        f"{erasure.n_known:,}"
    )
    if erasure.status != "erased":
        by = erasure.erase_by.strftime("%Y-%m-%d %H:%M:%S UTC")
        say(f"the ingest daemon or `peewit ingest {name}` overwrites the files, until {by}")
        return
    sources = erasure.sources or {"holding": [], "unread": []}
    for path in sources["holding"]:
        say(f"still holds one of them, as it is yours: {path}")
    for path in sources["unread"]:
        say(f"could not be looked through: {path}")
