"""Graphs, and the snapshots of their edges.

Written from `peewit.service.operations.graphs`; `make generate` writes it anew.
"""

from peewit.service.client.call_steps import Call, Request, answered
from peewit.service.client.calls.common import get, path, read
from peewit.service.wire.graphs import (
    Graph,
    GraphDetails,
    GraphList,
    RelationList,
    Snapshot,
    SnapshotList,
)


def graphs() -> Call[list[Graph]]:
    """All graphs, by name."""
    return (yield from read(GraphList, get("graphs"))).graphs


def graph(graph: str) -> Call[GraphDetails]:
    """One graph: settings, counters, spectral error, backlog, snapshot, labels_seq and features."""
    return (yield from read(GraphDetails, get("graphs", graph)))


def delete_graph(graph: str) -> Call[None]:
    """Delete a graph: its jobs are cancelled, its name is free at once, its files go later."""
    yield from answered(Request(method="DELETE", path=path("graphs", graph)))


def snapshots(graph: str) -> Call[list[Snapshot]]:
    """The snapshots that are kept, newest first, with the spectral error of each."""
    return (yield from read(SnapshotList, get("graphs", graph, "snapshots"))).snapshots


def relations(graph: str) -> Call[RelationList]:
    """The relations (kinds of edges) of the newest snapshot, each with its spectral error."""
    return (yield from read(RelationList, get("graphs", graph, "relations")))
