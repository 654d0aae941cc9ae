"""Directed relations: that edges of a relation go from one end to the other is said of a graph.

Raw edges keep their direction in any case, so it may be said, and taken back, at any time.
"""

from dataclasses import replace

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.graph_settings import GraphSettings
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.solvers.arguments import BadArgument


def require_named(relation: str | None) -> str:
    """The relation; raises `BadArgument` where its edges are of none, which has no name."""
    if not relation:
        raise BadArgument(
            "directed",
            "needs relation, the name of the kind of edges that are directed; of other tables "
            "`graph set --directed NAME` says it",
        )
    return relation


def direct(catalog: Catalog, graph: GraphRecord, relation: str) -> bool:
    """Say that a relation is directed; returns whether that is new."""
    if relation in graph.settings.directed:
        return False

    def change(settings: GraphSettings) -> GraphSettings:
        return replace(settings, directed=tuple(dict.fromkeys([*settings.directed, relation])))

    catalog.update(graph.id, change, request_solve=request_auto_solve)
    return True
