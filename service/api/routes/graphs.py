"""Graphs and their settings."""

from http import HTTPStatus

from fastapi import Response

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import resource
from peewit.service.api.schemas.bodies_and_problems import InvalidArgument, answer_of, refusing
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
from peewit.service.api.stores import GraphHere, NameOfGraph, Stores, StoresHere
from peewit.service.catalog import GraphExists, GraphNotFound, GraphRecord, TooManyGraphs
from peewit.service.graph_settings import GraphConflict
from peewit.service.graphs.all_edges import require_all_edges
from peewit.service.jobs.auto_solve import request_auto_solve
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
def create_graph(body: GraphCreate, stores: StoresHere, response: Response) -> GraphDetails:
    """Create an empty graph."""
    graph = stores.catalog.create(body.to_settings(), max_graphs=stores.settings.max_graphs)
    response.headers["Location"] = f"/v1/graphs/{graph.settings.name}"
    return graph_details(graph, stores)


@router.get("", dependencies=[requires("read")])
def list_graphs(stores: StoresHere) -> GraphList:
    """All graphs, by name."""
    outdated = [
        OutdatedGraph(name=each.name, id=each.graph_id, reason=str(each))
        for each in stores.catalog.outdated()
    ]
    graphs = [_listed(graph, stores) for graph in stores.catalog.list()]
    return GraphList(graphs=graphs, outdated=outdated)


@router.get("/{graph}", dependencies=[requires("read")], responses=problems(GraphNotFound))
def get_graph(graph: GraphHere, stores: StoresHere) -> GraphDetails:
    """One graph: settings, counters, spectral error, backlog, snapshot, labels_seq and features."""
    return graph_details(graph, stores)


@router.patch(
    "/{graph}",
    dependencies=[requires("admin")],
    responses=problems(GraphNotFound, GraphConflict, GraphExists, InvalidArgument),
)
def change_graph(body: GraphPatch, graph: GraphHere, stores: StoresHere) -> GraphDetails:
    """Change settings; they hold from the next block on, and a new `auto_solve` at once."""
    with refusing():
        changed = stores.catalog.update(
            graph.id,
            body.changed,
            request_solve=request_auto_solve,
            require_edges=lambda record, setting: require_all_edges(
                record, stores.settings.graphs_directory, setting=setting
            ),
        )
    return graph_details(changed, stores)


@router.delete(
    "/{graph}",
    status_code=HTTPStatus.NO_CONTENT,
    dependencies=[requires("admin")],
    responses=problems(GraphNotFound),
)
def delete_graph(graph: NameOfGraph, stores: StoresHere) -> None:
    """Delete a graph: its jobs are cancelled, its name is free at once, its files go later."""
    graph_id = stores.catalog.id_of(graph)
    stores.catalog.delete(graph_id, cancel_jobs=stores.jobs.cancel_graph)


def graph_details(graph: GraphRecord, stores: Stores) -> GraphDetails:
    """A graph with all that is told of it."""
    directory = stores.paths(graph).snapshots
    certificate = CertificateStore(directory).newest()
    has_deletions = graph.settings.deletions != "off"
    has_window = graph.settings.window is not None
    newest = _newest(graph, stores)
    return GraphDetails(
        **graph_fields(graph, newest),
        epsilon_certified=None if certificate is None else certificate.epsilon_certified,
        certificate=None if certificate is None else certificate_of(certificate),
        features=features_of(stores.features.status(graph)),
        backlog=answer_of(Backlog, stores.manifest.backlog(graph.id)),
        files=dict(stores.manifest.counts(graph.id)),
        deleted=deleted_of(newest) if has_deletions else None,
        window=window_of(newest) if has_window else None,
        repair_fault=stores.manifest.repairs.fault(graph.id),
    )


def _listed(graph: GraphRecord, stores: Stores) -> Graph:
    try:
        return graph_of(graph, _newest(graph, stores))
    except (SnapshotNotFound, FileNotFoundError):  # it is being deleted
        return graph_of(graph, None)


def _newest(graph: GraphRecord, stores: Stores) -> SnapshotMeta | None:
    """The newest snapshot of a graph whose edges may leave; None of others."""
    if graph.settings.deletions == "off":
        return None
    return SnapshotStore(stores.paths(graph).snapshots).newest()
