"""New graphs, and changes of their settings."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import path, read
from peewit.service.wire.graphs import (
    GraphDetails,
    NodeKind,
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
