"""Graphs, their settings, and their snapshots."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, TypedDict, Unpack

from peewit.service.client.call_steps import Call, Request, answered
from peewit.service.client.calls.common import get, path, read, until
from peewit.service.wire.graphs import (
    Graph,
    GraphDetails,
    GraphList,
    HorizonState,
    NodeKind,
    RepairState,
    Snapshot,
    SnapshotList,
)


class ChangeableSettings(TypedDict, total=False):
    """Settings that may change at any time; those left out keep their value or take the default.

    Attributes
    ----------
    epsilon : float or None
        Spectral error asked, in (0, 1); None keeps every edge while they are within ``max_edges``.
    max_edges : int or None
        Most edges to keep, but for a spanning forest; wins over ``epsilon``. None with no
        ``epsilon`` either: what the server's memory allows, computed once.
    keep_raw : bool
        Whether pushed edges are kept for later passes.
    parallel : {"sum", "replace"}
        Whether a further edge of a pair adds its weight, or takes the place of the others.
    window : mapping or None
        ``length``, seconds or as ``"30d"``, that edges live; of a new graph also ``by``,
        ``buckets``, ``allowed_ahead`` and ``time_unit``.
    columns : mapping of str to str
        What columns of tables are called.
    snapshot_every : mapping or None
        ``edges`` or ``seconds`` after which a snapshot is published.
    auto_solve : mapping or None
        ``model`` and ``parameters`` that are solved again after every change.
    """

    epsilon: float | None
    max_edges: int | None
    keep_raw: bool
    parallel: Literal["sum", "replace"]
    window: Mapping[str, Any] | None
    columns: Mapping[str, str]
    snapshot_every: Mapping[str, float] | None
    auto_solve: Mapping[str, Any] | None


class NewSettings(ChangeableSettings, total=False):
    """Settings of a new graph; these are fixed from then on.

    Attributes
    ----------
    node_ids : {"string", "int64", "dense"}
        What the ids of nodes are.
    expected_nodes, max_nodes : int
        About how many nodes will come, and how many may.
    seed : int
        Draws the coins; drawn itself when left out.
    deletions : {"off", "exact"}
        Whether edges may be deleted.
    """

    node_ids: NodeKind
    expected_nodes: int
    max_nodes: int
    seed: int
    deletions: Literal["off", "exact"]


def create_graph(name: str, **settings: Unpack[NewSettings]) -> Call[GraphDetails]:
    """Create an empty graph.

    Parameters
    ----------
    name : str
        1 to 63 of a-z, 0-9, _ and -.
    **settings
        See `NewSettings`; those left out take the server's defaults.

    Returns
    -------
    GraphDetails

    Raises
    ------
    GraphExists
        There is one of this name.
    InvalidArgument
        A setting breaks a rule.
    """
    body = {"name": name, **settings}
    return (yield from read(GraphDetails, Request(method="POST", path=path("graphs"), json=body)))


def graphs() -> Call[list[Graph]]:
    """All graphs, by name."""
    return (yield from read(GraphList, get("graphs"))).graphs


def graph(name: str) -> Call[GraphDetails]:
    """One graph: settings, counters, spectral error, backlog, snapshot, labels_seq and features.

    Raises
    ------
    GraphNotFound
        There is none of this name.
    """
    return (yield from read(GraphDetails, get("graphs", name)))


def update_graph(
    name: str, *, rename: str | None = None, **settings: Unpack[ChangeableSettings]
) -> Call[GraphDetails]:
    """Change settings of a graph; they hold from the next block on.

    Parameters
    ----------
    name : str
        Of the graph.
    rename : str, optional
        A new name.
    **settings
        See `ChangeableSettings`; those left out stay.

    Raises
    ------
    GraphNotFound, GraphExists, InvalidArgument
        There is no such graph, the new name is taken, or a setting breaks a rule.
    """
    body = {**settings, **({} if rename is None else {"name": rename})}
    request = Request(method="PATCH", path=path("graphs", name), json=body)
    return (yield from read(GraphDetails, request))


def delete_graph(name: str) -> Call[None]:
    """Delete a graph: its jobs are cancelled, its name is free at once, its files go later.

    Not repeated after a broken connection, since another graph may have the name by then.
    """
    yield from answered(Request(method="DELETE", path=path("graphs", name)))


def snapshots(graph: str) -> Call[list[Snapshot]]:
    """The snapshots that are kept, newest first, with the spectral error of each."""
    return (yield from read(SnapshotList, get("graphs", graph, "snapshots"))).snapshots


def repair(graph: str, *, rebuild: bool = False, wait: float | None = 0.0) -> Call[RepairState]:
    """Have edges sampled anew that deletes have spoiled, or all, before the next snapshot.

    Whoever ingests the graph does it, between two files.

    Parameters
    ----------
    graph : str
        Its name.
    rebuild : bool
        Sample all edges anew, in any case but that every edge is kept: from the log, or, where
        deletions are off, from all files.
    wait : float or None
        Longest time to wait until it is done, in seconds; for ever when None.

    Returns
    -------
    RepairState
        Its ``wanted`` is None once it is done, and its ``repair`` then what was made; None where
        nothing was due. Its ``fault`` says why it could not be made; it is tried again.

    Raises
    ------
    Conflict
        Deletions of the graph are off, and not all edges are to be sampled anew: no log tells
        which edges live.
    GraphNotFound
        There is no such graph.
    """
    place = path("graphs", graph, "repairs")
    body = {"rebuild": rebuild}
    request = Request(method="POST", path=place, json=body, is_repeatable=True)
    asked = yield from read(RepairState, request)
    if wait == 0 or asked.wanted is None:
        return asked
    found = yield from repair_state(graph, wait=wait)
    known = asked.snapshot or 0
    is_new = found.repair is not None and found.repair.snapshot > known
    return found if is_new else replace(found, repair=None)


def expire(graph: str, before: datetime | str, *, wait: float | None = 0.0) -> Call[HorizonState]:
    """Have edges leave a graph with a window before newer ones would make them.

    Parameters
    ----------
    graph : str
        Its name.
    before : datetime or str
        With a zone, or ISO 8601. Edges leave by whole buckets; those of the one that holds it stay.
    wait : float or None
        Longest time to wait until they are gone, in seconds; for ever when None.

    Returns
    -------
    HorizonState
        Its ``wanted`` is None once it is done.

    Raises
    ------
    GraphNotFound, HorizonRefused
        There is no such graph, or it has no window.
    """
    time = before if isinstance(before, str) else before.isoformat()
    place = path("graphs", graph, "horizon")
    request = Request(method="POST", path=place, json={"before": time}, is_repeatable=True)
    asked = yield from read(HorizonState, request)
    if wait == 0 or asked.wanted is None:
        return asked
    request = get("graphs", graph, "horizon")
    return (yield from until(HorizonState, request, _is_reached, seconds=wait))


def _is_reached(state: HorizonState) -> bool:
    return state.wanted is None


def repair_state(graph: str, *, wait: float | None = 0.0) -> Call[RepairState]:
    """The repair that a graph waits for, and the last that was made.

    Parameters
    ----------
    graph : str
        Its name.
    wait : float or None
        Longest time to wait until it waits for none, or that fails, in seconds; for ever when
        None.
    """
    request = get("graphs", graph, "repairs")
    return (yield from until(RepairState, request, _waits_for_none, seconds=wait))


def _waits_for_none(state: RepairState) -> bool:
    return state.wanted is None or state.fault is not None
