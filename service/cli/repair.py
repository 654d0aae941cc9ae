"""`peewit repair`: edges are sampled anew after deletes, or all of them, at once."""

from dataclasses import asdict
from typing import Annotated

import typer

from peewit.service.cli.ingest import STOP_SECONDS, ended_when_stopped, read_all
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_home,
    print_json,
    say,
)
from peewit.service.graphs.notes import fault_text
from peewit.service.process_lifetime import StopSignal, exit_after_signal
from peewit.streaming.snapshots.store import SnapshotStore

app = command_group()


@app.command()
def repair(
    name: GraphName,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="Sample all edges anew, in any case: from the log, or, without one, from all "
            "files.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Sample edges anew that deletes have spoiled, now instead of before the next snapshot.

    What waits to be ingested goes in, too. With --deletions exact the whole log is read, with
    --rebuild twice. Without them nothing deletes: --rebuild reads all files that were ingested,
    which must be there. A graph of which every edge is kept stays as it is.
    """
    with open_home() as home:
        graph = home.graph(name)
        repairs = home.manifest.repairs
        snapshots = SnapshotStore(home.paths(graph).snapshots)
        before = snapshots.newest()
        repairs.want(graph.id, "all" if rebuild else "due")
        with (
            StopSignal() as stop,
            exit_after_signal(STOP_SECONDS),
            ended_when_stopped("the next ingest repairs the graph"),
        ):
            read_all(
                home,
                graph.id,
                (),
                stop,
                is_quiet=True,
                is_done=lambda: repairs.wanted(graph.id, failed=False) is None,
            )
        wanted, fault = repairs.wanted(graph.id), repairs.fault(graph.id)
        newest = snapshots.newest()
    known = 0 if before is None else before.number
    last = None if newest is None else newest.last_repair
    made = None if last is None or last.snapshot <= known else last
    if json:
        snapshot = None if newest is None else newest.number
        print_json(
            {
                "graph": name,
                "snapshot": snapshot,
                "repair": None if made is None else asdict(made),
                "fault": fault,
            }
        )
    elif fault is None and wanted is not None:
        say(f"{name}: its settings were changed meanwhile; `peewit ingest {name}` repairs it")
    elif fault is not None:
        say(f"{name}: {fault_text(fault)}")
    elif made is None:
        typer.echo(f"{name}: nothing to repair")
    else:
        typer.echo(
            f"{name}: {made.kind} of the edges sampled anew, {made.n_edges:,} in "
            f"{made.seconds:.1f} s; snapshot {made.snapshot}"
        )
    if wanted is not None:
        raise typer.Exit(1)
