"""Edges that leave before a window would make them, and edges that are sampled anew."""

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AwareDatetime

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.leaving.wishes import HorizonRefused, RepairRefused
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import Body, operation
from peewit.service.operations.here import Here
from peewit.service.wire.graphs import HorizonState, LastRepair, RepairState
from peewit.solvers.arguments import BadArgument

_EARLIEST_YEAR: Final = 1990
"""Of times that are meant: 20260301 is no second of 1970."""


@operation("GET /horizon", "read", "ingest", client="horizon")
def get_horizon(here: Here, graph: GraphRecord) -> HorizonState:
    """Since when edges live; `wait` can wait until no other time is asked for."""
    wanted = here.home.manifest.wishes.of(graph.id)  # first: it is reached after its snapshot
    newest = here.home.snapshots(graph).newest()
    window = graph.settings.window
    own = {} if window is None else window.relations
    return HorizonState(
        wanted=_time(wanted.horizon_wanted),
        snapshot=None if newest is None else newest.number,
        horizon=None if newest is None else _time(newest.horizon),
        relations={
            each.name: _time(each.horizon)
            for each in (newest.relations if newest is not None else ())
            if each.name in own
        },
        n_live=None if newest is None else newest.n_live,
        n_expired=None if newest is None else newest.n_expired,
    )


@operation("POST /horizon", "ingest", raises=(HorizonRefused,), client="expire", follow=get_horizon)
def move_horizon(
    here: Here,
    graph: GraphRecord,
    before: Annotated[
        AwareDatetime,
        Body(
            "A time with its zone, ISO 8601; a command also takes seconds since 1970.",
            strict=False,
            examples=["2026-03-01T00:00:00Z"],
            given_as=datetime | str,
        ),
    ],
) -> HorizonState:
    """Let go of all edges before a time, as a window does by itself once newer ones come.

    Edges leave by whole buckets; those of the one that holds the time stay, and so do those of
    relations without a window. It never goes back, nor beyond the latest edge. Whoever ingests the
    graph does it, between two files; a command ingests what waits itself.
    """
    window = graph.settings.window
    has_days = window is not None and window.time_unit is None  # a clock may begin at 0
    if before.year < _EARLIEST_YEAR and has_days:
        raise BadArgument(
            "before",
            f"must be no time before {_EARLIEST_YEAR} where no unit of times is named, got "
            f"{before.isoformat()}; write a date as 2026-03-01",
        )
    newest = here.home.snapshots(graph).newest()
    latest = None if newest is None else newest.watermark
    here.home.manifest.wishes.want_horizon(graph.id, before.timestamp(), latest=latest)
    return get_horizon(here, graph)


@operation("GET /repairs", "read", "ingest", client="repair_state")
def get_repairs(here: Here, graph: GraphRecord) -> RepairState:
    """The repair that is asked for, and the last one; `wait` can wait until it is made or fails."""
    wanted = here.home.manifest.wishes.of(graph.id)  # first: it is made after its snapshot
    newest = here.home.snapshots(graph).newest()
    last = None if newest is None else newest.last_repair
    return RepairState(
        wanted=wanted.repair_wanted,
        snapshot=None if newest is None else newest.number,
        repair=None if last is None else answer_of(LastRepair, last),
        fault=wanted.repair_fault,
    )


@operation("POST /repairs", "ingest", raises=(RepairRefused,), client="repair", follow=get_repairs)
def repair_graph(
    here: Here,
    graph: GraphRecord,
    rebuild: Annotated[
        bool,
        Body(
            "Sample all edges anew, in any case: from the log, or, where deletions are off, from "
            "all files.",
            flag="--rebuild",
        ),
    ] = False,
) -> RepairState:
    """Sample edges anew that deletes have spoiled, or all of them, before the next snapshot.

    Whoever ingests the graph does it, between two files, as a command does itself; then the answer
    says what was made. The whole log is read, with `rebuild` twice. A graph of which every edge is
    kept stays as it is. One whose deletions are off has no log to be repaired from: with `rebuild`
    all its files are read again, which must be there. Where that cannot be done `fault` says why,
    and ingest tries it again.
    """
    before = get_repairs(here, graph)
    here.home.manifest.wishes.want_repair(graph.id, "all" if rebuild else "due")
    return get_repairs(here, graph).since(before)


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
