"""Nodes that rows of live sources may name, one by one."""

from collections.abc import Callable

from sqlalchemy import Connection

from peewit.service.catalog import GraphRecord, lock_graph
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.live_positions import PositionMoved
from peewit.service.tables.uploads import BadUpload, NodeId, node_id


def node_check(graph: GraphRecord, nodes: KnownNodes) -> Callable[[object], NodeId]:
    """A function that turns a value into an id of the graph's kind, or raises BadUpload.

    Where nodes are numbers, one out of range or erased is no node.
    """
    kind, most = graph.settings.node_ids, graph.settings.max_nodes
    if kind != "dense":
        return lambda value: node_id(value, kind)
    erased = set(nodes.erased(graph, graph.progress.n_nodes).tolist())

    def check(value: object) -> NodeId:
        node = node_id(value, kind)
        if not 0 <= int(node) < most or node in erased:
            rule = f"'node' must lie in 0 to {most - 1} and not have been erased"
            raise BadUpload(rule, argument="node", value=repr(str(node)))
        return node

    return check


def require_same_erasures(connection: Connection, graph: GraphRecord) -> None:
    """Raise PositionMoved unless `node_check` of a record still holds, in this transaction."""
    is_looked_at = graph.settings.node_ids == "dense"
    if is_looked_at and lock_graph(connection, graph.id).erasures_seq != graph.erasures_seq:
        raise PositionMoved(f"nodes of graph {graph.id} were erased while rows were checked")
