"""Graphs and their settings."""

from http import HTTPStatus

from fastapi import Response

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import resource
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.graphs import (
    GraphCreate,
    GraphPatch,
)
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.catalog import GraphExists, GraphNotFound, TooManyGraphs
from peewit.service.graph_settings import GraphConflict
from peewit.service.graphs.all_edges import require_all_edges
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.operations.graphs import get_graph
from peewit.service.operations.here import Here
from peewit.service.problems import InvalidArgument
from peewit.service.wire.graphs import GraphDetails

router = resource("graphs", "/v1/graphs")


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    dependencies=[requires("admin")],
    responses=problems(GraphExists, TooManyGraphs, InvalidArgument),
)
def create_graph(body: GraphCreate, home: HomeHere, response: Response) -> GraphDetails:
    """Create an empty graph."""
    graph = home.catalog.create(body.to_settings(), max_graphs=home.settings.max_graphs)
    response.headers["Location"] = f"/v1/graphs/{graph.settings.name}"
    return get_graph(Here(home=home), graph)


@router.patch(
    "/{graph}",
    dependencies=[requires("admin")],
    responses=problems(GraphNotFound, GraphConflict, GraphExists, InvalidArgument),
)
def change_graph(body: GraphPatch, graph: GraphHere, home: HomeHere) -> GraphDetails:
    """Change settings; they hold from the next block on, and a new `auto_solve` at once."""
    with refusing():
        changed = home.catalog.update(
            graph.id,
            body.changed,
            request_solve=request_auto_solve,
            require_edges=lambda record, setting: require_all_edges(
                record, home.settings.graphs_directory, setting=setting
            ),
        )
    return get_graph(Here(home=home), changed)
