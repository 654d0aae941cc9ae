"""Graphs become typed with the first table that names kinds of nodes, as KIND:COLUMN."""

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection, update

from peewit.service.catalog import GraphRecord, is_empty, lock_graph, record_of
from peewit.service.database.engine import Database
from peewit.service.database.tables import graphs
from peewit.service.tables.column_names import column_list
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.node_kinds import split_column
from peewit.streaming.edges.relations import KIND_COLUMNS

_OF_NODES = ("src", "dst", "entity", "node")


def typed_graph(database: Database, graph: GraphRecord, kinds: Mapping[str, str]) -> GraphRecord:
    """The graph as it is once a table that names these kinds is for it; '' names none.

    They are by argument. Raises `BadArgument` where the graph's nodes have none.
    """
    if not any(kinds.values()) or graph.settings.node_ids == "typed":
        return graph
    with database.write() as connection:
        make_typed(connection, graph.id, kinds)
    return as_typed(graph)


def as_typed(graph: GraphRecord) -> GraphRecord:
    """A record that says the same of a typed graph."""
    return replace(graph, settings=replace(graph.settings, node_ids="typed"))


def make_typed(connection: Connection, graph_id: str, kinds: Mapping[str, str]) -> None:
    """Type a graph that nothing has come to, if there are kinds, by the argument that names them.

    Raises `BadArgument` where something has come whose nodes have none.
    """
    named = [(argument, each) for argument, each in kinds.items() if each]
    if not named:
        return
    argument, first = named[0]
    record = record_of(lock_graph(connection, graph_id))
    kind = record.settings.node_ids
    if kind == "typed":
        return
    if kind != "string" or not is_empty(connection, record):
        raise BadArgument(
            argument,
            f"must not name a kind of nodes, {first!r}, in graph {record.settings.name}, whose "
            f"nodes are {kind} ids without kinds; create another graph, or write ':{first}:...' "
            "where the colon is the column's own",
        )
    connection.execute(update(graphs).where(graphs.c.id == graph_id).values(node_ids="typed"))


def kinds_named(columns: Mapping[str, str]) -> dict[str, str]:
    """Kinds that names of columns say, or columns that say kinds, by what the columns are for."""
    kinds = {name: split_column(columns[name])[0] for name in _OF_NODES if columns.get(name)}
    of_via = (split_column(each)[0] for each in column_list(columns.get("via")))
    kinds |= {name: columns[name] for name in KIND_COLUMNS if columns.get(name)}
    return kinds | {"via": next(filter(None, of_via), "")}
