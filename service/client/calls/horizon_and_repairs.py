"""Edges that leave before a window would make them, and edges that are sampled anew.

Written from `peewit.service.operations.horizon_and_repairs`; `make generate` writes it anew.
"""

from datetime import datetime

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import get, path, plain, settled, until
from peewit.service.wire.graphs import HorizonState, RepairState


def horizon(graph: str, *, wait: float | None = 0.0) -> Call[HorizonState]:
    """Since when edges live; `wait` can wait until no other time is asked for.

    Parameters
    ----------
    graph : str
        Its name.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.
    """
    return (yield from until(HorizonState, get("graphs", graph, "horizon"), seconds=wait))


def expire(graph: str, before: datetime | str, *, wait: float | None = 0.0) -> Call[HorizonState]:
    """Let go of all edges before a time, as a window does by itself once newer ones come.

    Edges leave by whole buckets; those of the one that holds the time stay, and so do those of
    relations without a window. It never goes back, nor beyond the latest edge. Whoever ingests the
    graph does it, between two files; a command ingests what waits itself.

    Parameters
    ----------
    graph : str
        Its name.
    before : datetime or str
        A time with its zone, ISO 8601; a command also takes seconds since 1970.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    Conflict
        The graph has no window.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "horizon"),
        json={"before": plain(before)},
        is_repeatable=True,
    )
    return (
        yield from settled(
            HorizonState, request, lambda _: get("graphs", graph, "horizon"), seconds=wait
        )
    )


def repair_state(graph: str, *, wait: float | None = 0.0) -> Call[RepairState]:
    """The repair that is asked for, and the last one; `wait` can wait until it is made or fails.

    Parameters
    ----------
    graph : str
        Its name.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.
    """
    return (yield from until(RepairState, get("graphs", graph, "repairs"), seconds=wait))


def repair(graph: str, rebuild: bool = False, *, wait: float | None = 0.0) -> Call[RepairState]:
    """Sample edges anew that deletes have spoiled, or all of them, before the next snapshot.

    Whoever ingests the graph does it, between two files, as a command does itself; then the answer
    says what was made. The whole log is read, with `rebuild` twice. A graph of which every edge is
    kept stays as it is. One whose deletions are off has no log to be repaired from: with `rebuild`
    all its files are read again, which must be there. Where that cannot be done `fault` says why,
    and ingest tries it again.

    Parameters
    ----------
    graph : str
        Its name.
    rebuild : bool, optional
        Sample all edges anew, in any case: from the log, or, where deletions are off, from all
        files.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    Conflict
        The graph has no log by which it could be repaired.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "repairs"),
        json={"rebuild": rebuild},
        is_repeatable=True,
    )
    return (
        yield from settled(
            RepairState, request, lambda _: get("graphs", graph, "repairs"), seconds=wait
        )
    )
