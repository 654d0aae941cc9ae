"""Edges and nodes that leave: `peewit erase`, `expire` and `repair`."""

from datetime import UTC, datetime

import pyarrow as pa
import typer

from peewit.service.cli.operation_commands import Waits, add_command
from peewit.service.cli.session import command_group, echo, say
from peewit.service.graphs.notes import fault_text
from peewit.service.operations.erasures import erase_nodes
from peewit.service.operations.horizon_and_repairs import move_horizon, repair_graph
from peewit.service.wire.erasures import Erasure
from peewit.service.wire.graphs import HorizonState, RepairState
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.time_units import SECOND
from peewit.streaming.edges.times import moment, read_times

app = command_group()


def show_erasure(erasure: Erasure, *, name: str, **_: object) -> None:
    """How far it is, and which files of sources still hold the nodes."""
    echo(
        f"{name}: {erasure.status} {erasure.n_nodes:,} nodes, of which the graph knew "
        f"{erasure.n_known:,}"
    )
    if erasure.status != "erased":
        by = erasure.erase_by.strftime("%Y-%m-%d %H:%M:%S UTC")
        say(f"the ingest daemon or `peewit ingest {name}` overwrites the files, until {by}")
    if erasure.sources is not None:
        for path in erasure.sources.holding:
            say(f"still holds one of them, as it is yours: {path}")
        for path in erasure.sources.unread:
            say(f"could not be looked through: {path}")


def show_horizon(state: HorizonState, *, name: str, **_: object) -> None:
    """Since when edges live, and how many."""
    if state.horizon is None:
        return
    n_live = "" if state.n_live is None else f": {state.n_live:,}"
    own = ", ".join(f"{each} {_since(time)}" for each, time in state.relations.items())
    own = own and f" ({own})"
    echo(
        f"{name}: edges live {_since(state.horizon)}{own}{n_live}; {state.n_expired or 0:,} have "
        "left"
    )


def _since(time: datetime | None) -> str:
    return "all" if time is None else f"since {moment(round(time.timestamp() * SECOND))}"


def show_repair(state: RepairState, *, name: str, **_: object) -> None:
    """What was sampled anew, or why it could not be."""
    made = state.repair
    if state.fault is not None:
        say(f"{name}: {fault_text(state.fault)}")
    elif made is None:
        echo(f"{name}: nothing to repair")
    else:
        echo(
            f"{name}: {made.kind} of the edges sampled anew, {made.n_edges:,} in "
            f"{made.seconds:.1f} s; snapshot {made.snapshot}"
        )


def time_of(text: str) -> datetime:
    """A time as it is typed: ISO 8601, or seconds since 1970."""
    try:
        (time,) = read_times(pa.array([text]), "before", "s", 0).tolist()
        return datetime.fromtimestamp(time / SECOND, UTC)
    except (BadEdges, OverflowError, ValueError) as error:  # milliseconds lie beyond the calendar
        rule = f"must be ISO 8601, or seconds since 1970, got {text!r}"
        raise typer.BadParameter(rule, param_hint="--before") from error


add_command(
    app,
    erase_nodes,
    "erase",
    show=show_erasure,
    waits=Waits(when_stopped="the nodes are hidden, and the next ingest erases them", always=False),
)
add_command(
    app,
    move_horizon,
    "expire",
    show=show_horizon,
    read={"before": time_of},
    waits=Waits(when_stopped="the next ingest lets go of them"),
)
add_command(
    app,
    repair_graph,
    "repair",
    show=show_repair,
    waits=Waits(when_stopped="the next ingest repairs the graph"),
)
