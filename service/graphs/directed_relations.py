"""Directed relations: that edges of a relation go from one end to the other is said of a graph.

Raw edges keep their direction in any case, so it may be said, and taken back, at any time.
"""

from dataclasses import replace

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.graph_settings import GraphSettings
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.solvers.arguments import BadArgument


def directed_relation(relation: str | None, *, is_directed: bool) -> str | None:
    """The relation of a table, if it is directed.

    Raises `BadArgument` for one without a name.
    """
    if not is_directed:
        return None
    if not relation:
        raise BadArgument(
            "directed",
            "needs relation, the name of the kind of edges that are directed; for tables "
            "that name several kinds use `peewit graph set NAME --directed RELATION`",
        )
    return relation


def mark_directed(catalog: Catalog, graph: GraphRecord, relation: str | None) -> bool:
    """Keep with a graph that a relation is directed, if it is; returns whether that is new."""
    if relation is None or relation in graph.settings.directed:
        return False

    def change(settings: GraphSettings) -> GraphSettings:
        return replace(settings, directed=tuple(dict.fromkeys([*settings.directed, relation])))

    catalog.update(graph.id, change, request_solve=request_auto_solve)
    return True
