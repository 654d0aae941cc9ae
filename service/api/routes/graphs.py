"""Graphs and their settings."""

from http import HTTPStatus

from fastapi import Response

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import resource
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.features import features_of
from peewit.service.api.schemas.graphs import (
    GraphCreate,
    GraphPatch,
    certificate_of,
    deleted_of,
    graph_fields,
    graph_of,
    window_of,
)
from peewit.service.api.served_home import GraphHere, HomeHere, NameOfGraph, ServedHome
from peewit.service.catalog import GraphExists, GraphNotFound, GraphRecord, TooManyGraphs
from peewit.service.graph_settings import GraphConflict
from peewit.service.graphs.all_edges import require_all_edges
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.operations.answers import answer_of
from peewit.service.problems import InvalidArgument
from peewit.service.wire.graphs import Backlog, Graph, GraphDetails, GraphList, OutdatedGraph
from peewit.streaming.passes.certificate_store import CertificateStore
from peewit.streaming.snapshots.store import SnapshotMeta, SnapshotNotFound, SnapshotStore

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
    return graph_details(graph, home)


@router.get("", dependencies=[requires("read")])
def list_graphs(home: HomeHere) -> GraphList:
    """All graphs, by name."""
    outdated = [
        OutdatedGraph(name=each.name, id=each.graph_id, reason=str(each))
        for each in home.catalog.outdated()
    ]
    graphs = [_listed(graph, home) for graph in home.catalog.list()]
    return GraphList(graphs=graphs, outdated=outdated)


@router.get("/{graph}", dependencies=[requires("read")], responses=problems(GraphNotFound))
def get_graph(graph: GraphHere, home: HomeHere) -> GraphDetails:
    """One graph: settings, counters, spectral error, backlog, snapshot, labels_seq and features."""
    return graph_details(graph, home)


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
    return graph_details(changed, home)


@router.delete(
    "/{graph}",
    status_code=HTTPStatus.NO_CONTENT,
    dependencies=[requires("admin")],
    responses=problems(GraphNotFound),
)
def delete_graph(graph: NameOfGraph, home: HomeHere) -> None:
    """Delete a graph: its jobs are cancelled, its name is free at once, its files go later."""
    graph_id = home.catalog.id_of(graph)
    home.catalog.delete(graph_id, cancel_jobs=home.jobs.cancel_graph)


def graph_details(graph: GraphRecord, home: ServedHome) -> GraphDetails:
    """A graph with all that is told of it."""
    directory = home.paths(graph).snapshots
    certificate = CertificateStore(directory).newest()
    has_deletions = graph.settings.deletions != "off"
    has_window = graph.settings.window is not None
    newest = _newest(graph, home)
    return GraphDetails(
        **graph_fields(graph, newest),
        epsilon_certified=None if certificate is None else certificate.epsilon_certified,
        certificate=None if certificate is None else certificate_of(certificate),
        features=features_of(home.features.status(graph)),
        backlog=answer_of(Backlog, home.manifest.backlog(graph.id)),
        files=dict(home.manifest.counts(graph.id)),
        deleted=deleted_of(newest) if has_deletions else None,
        window=window_of(newest) if has_window else None,
        repair_fault=home.manifest.repairs.fault(graph.id),
    )


def _listed(graph: GraphRecord, home: ServedHome) -> Graph:
    try:
        return graph_of(graph, _newest(graph, home))
    except (SnapshotNotFound, FileNotFoundError):  # it is being deleted
        return graph_of(graph, None)


def _newest(graph: GraphRecord, home: ServedHome) -> SnapshotMeta | None:
    """The newest snapshot of a graph whose edges may leave; None of others."""
    if graph.settings.deletions == "off":
        return None
    return SnapshotStore(home.paths(graph).snapshots).newest()
