"""New graphs, and changes of their settings."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import path, read
from peewit.service.wire.graphs import GraphDetails, NodeKind


class ChangeableSettings(TypedDict, total=False):
    """Settings that may change at any time; those left out keep their value or take the default.

    Attributes
    ----------
    epsilon : float or None
        Spectral error asked for, in (0, 1). At 0.1 the weight between any two groups of nodes is
        within 10 % of what all edges give; a smaller one keeps more edges. Without one all edges
        are kept that fit max_edges.
    max_edges : int or None
        Most edges to keep, but for a spanning forest; wins over epsilon. Without either, what the
        memory allows, computed once.
    keep_raw : bool
        Keep edges that were sent or spooled: certificates and exact answers read them again.
    parallel : {"sum", "replace"}
        Whether a further edge of a pair adds its weight (sum), or takes the place of the others
        (replace), which needs deletions.
    window : mapping or None
        Which edges live, by their time; fixed once the graph exists but for length, relations and
        allowed_ahead. Deletions are exact with it. ``length``, ``relations`` (their lengths by
        name, "none" for ever), ``allowed_ahead``, of a new graph also ``by``, ``buckets``,
        ``time_unit``.
    columns : mapping of str to str
        What src, dst, weight, op and time of edges, and node, label, origin, annotator and
        label_time of labels are called in tables.
    snapshot_every : mapping or None
        Snapshots besides the one at the end of each run of files. ``edges``, ``seconds`` or both.
    auto_solve : mapping or None
        Model that is solved again after every new snapshot and every change of a label. ``model``
        and its ``parameters``.
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
        What ids of nodes are: text (string), whole numbers (int64), or 0 to n-1 (dense). Fixed once
        the graph exists.
    expected_nodes : int
        Nodes to be ready for: the memory of ingest follows from it. More may come. Fixed once the
        graph exists.
    max_nodes : int
        Most nodes of the graph; files that bring more are refused. Fixed once the graph exists.
    seed : int
        Seed of all random choices; drawn when left out. Fixed once the graph exists.
    deletions : {"off", "exact"}
        Whether rows may delete edges: off, or exact, by a log of all edges. Fixed once the graph
        exists.
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
