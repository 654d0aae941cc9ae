"""Graphs become typed with the first table that names kinds of nodes, as KIND:COLUMN."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Connection, update

from peewit.service.catalog import GraphRecord, is_empty, lock_graph, record_of
from peewit.service.database.engine import Database
from peewit.service.database.tables import graphs
from peewit.service.tables.column_names import column_list
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.node_kinds import split_column

_OF_NODES = ("src", "dst", "entity", "node")


def typed_graph(database: Database, graph: GraphRecord, kinds: Iterable[str]) -> GraphRecord:
    """The graph as it is once a table that names these kinds is for it; '' names none.

    Raises `BadArgument` where the graph's nodes have none.
    """
    named = [kind for kind in kinds if kind]
    if not named or graph.settings.node_ids == "typed":
        return graph
    with database.write() as connection:
        make_typed(connection, graph.id, named)
    return as_typed(graph)


def as_typed(graph: GraphRecord) -> GraphRecord:
    """A record that says the same of a typed graph."""
    return replace(graph, settings=replace(graph.settings, node_ids="typed"))


def make_typed(connection: Connection, graph_id: str, kinds: Iterable[str]) -> None:
    """Type a graph that nothing has come to, if there are kinds.

    Raises `BadArgument` where something has come whose nodes have none.
    """
    named = [kind for kind in kinds if kind]
    if not named:
        return
    record = record_of(lock_graph(connection, graph_id))
    kind = record.settings.node_ids
    if kind == "typed":
        return
    if kind != "string" or not is_empty(connection, record):
        raise BadArgument(
            "src",
            f"must not name a kind of nodes, {named[0]!r}, in graph {record.settings.name}, whose "
            f"nodes are {kind} ids without kinds; create another graph, or write ':{named[0]}:...' "
            "where the colon is the column's own",
        )
    connection.execute(update(graphs).where(graphs.c.id == graph_id).values(node_ids="typed"))


def kinds_named(columns: Mapping[str, str]) -> list[str]:
    """Kinds that names of columns say, by what the columns are for."""
    named = [columns[name] for name in _OF_NODES if columns.get(name)]
    return [split_column(each)[0] for each in (*named, *column_list(columns.get("via")))]
