"""`peewit expire`: edges leave the window of a graph before newer ones would make them."""

from typing import Annotated

import pyarrow as pa
import typer

from peewit.service.cli.ingest import STOP_SECONDS, ended_when_stopped, read_all
from peewit.service.cli.session import AsJson, GraphName, command_group, open_home, print_json
from peewit.service.process_lifetime import StopSignal, exit_after_signal
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.time_units import SECOND
from peewit.streaming.edges.times import moment, read_times
from peewit.streaming.snapshots.store import SnapshotStore

app = command_group()


@app.command()
def expire(
    name: GraphName,
    before: Annotated[
        str, typer.Option(help="A time: ISO 8601, as 2026-03-01T12:00:00Z, or seconds since 1970.")
    ],
    json: AsJson = False,
) -> None:
    """Let go of all edges before a time, as a window does by itself once newer ones come.

    Edges leave by whole buckets; those of the one that holds the time stay. What waits to be
    ingested goes in, too.
    """
    try:
        (time,) = read_times(pa.array([before]), "before", "s", 0).tolist()
    except BadEdges as error:
        rule = f"must be ISO 8601, or seconds since 1970, got {before!r}"
        raise typer.BadParameter(rule, param_hint="--before") from error
    with open_home() as home:
        graph = home.graph(name)
        horizons = home.manifest.horizons
        snapshots = SnapshotStore(home.paths(graph).snapshots)
        newest = snapshots.newest()
        horizons.want(graph.id, time / SECOND, latest=None if newest is None else newest.watermark)
        with (
            StopSignal() as stop,
            exit_after_signal(STOP_SECONDS),
            ended_when_stopped("the next ingest lets go of them"),
        ):
            read_all(
                home,
                graph.id,
                (),
                stop,
                is_quiet=True,
                is_done=lambda: horizons.wanted(graph.id) is None,
            )
        newest = snapshots.newest()
    if json:
        print_json(
            {
                "graph": name,
                "snapshot": newest and newest.number,
                "horizon": newest and newest.horizon,
                "n_live": newest and newest.n_live,
                "n_expired": newest and newest.n_expired,
            }
        )
    elif newest is not None and newest.horizon is not None:
        since = moment(round(newest.horizon * SECOND))
        n_live = "" if newest.n_live is None else f": {newest.n_live:,}"
        typer.echo(f"{name}: edges live since {since}{n_live}; {newest.n_expired:,} have left")
