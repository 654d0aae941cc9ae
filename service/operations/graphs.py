"""Graphs, and the snapshots of their edges."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from peewit.service.catalog import GraphRecord
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import operation
from peewit.service.operations.here import Here
from peewit.service.wire.graphs import (
    Backlog,
    Certificate,
    Damage,
    DeletedEdges,
    Graph,
    GraphDetails,
    GraphList,
    LastRepair,
    Relation,
    RelationList,
    Settings,
    Snapshot,
    SnapshotList,
    WindowState,
)
from peewit.solvers.late_modules import LateModule

if TYPE_CHECKING:
    from peewit.streaming.passes.certificate_store import Certificate as CertificateRecord
    from peewit.streaming.passes.certificate_store import CertificateStore
    from peewit.streaming.snapshots.provenance import RelationMeta, SnapshotMeta

features: Final = LateModule("peewit.service.operations.features")
certificate_store: Final = LateModule("peewit.streaming.passes.certificate_store")
snapshot_store: Final = LateModule("peewit.streaming.snapshots.store")


@operation("GET /graphs", "read", client="graphs", items="graphs")
def list_graphs(here: Here) -> GraphList:
    """All graphs, by name."""
    return GraphList(graphs=[_listed(here, each) for each in here.home.catalog.list()])


@operation("GET", "read", client="graph")
def get_graph(here: Here, graph: GraphRecord) -> GraphDetails:
    """One graph: settings, counters, spectral error, backlog, snapshot, labels_seq and features."""
    home = here.home
    certificate = _certificates(here, graph).newest()
    newest = _newest(here, graph)
    return GraphDetails(
        **_fields(graph, newest),
        epsilon_certified=None if certificate is None else certificate.epsilon_certified,
        certificate=None if certificate is None else _certificate(certificate),
        n_merged=n_merged(graph, home.snapshots(graph).newest()),
        n_bad_rows=home.manifest.n_bad_rows(graph.id),
        features=features.features_of(home.features.status(graph)),
        backlog=answer_of(Backlog, home.manifest.backlog(graph.id)),
        files=dict(home.manifest.counts(graph.id)),
        deleted=None if newest is None else answer_of(DeletedEdges, newest, **_parts(newest)),
        window=None
        if newest is None or graph.settings.window is None
        else answer_of(WindowState, newest, **_moments(newest)),
        repair_fault=home.manifest.wishes.of(graph.id).repair_fault,
    )


def n_merged(graph: GraphRecord, newest: "SnapshotMeta | None") -> int | None:
    """Edges that were added to one of their pair; None while the newest snapshot lacks some."""
    if newest is None or newest.edges_seen != graph.progress.edges_seen:
        return None
    return newest.n_merged


@operation("DELETE", "admin")
def delete_graph(here: Here, graph: GraphRecord) -> None:
    """Delete a graph: its jobs are cancelled, its name is free at once, its files go later."""
    home = here.home
    home.catalog.delete(graph.id, cancel_jobs=home.jobs.cancel_graph)


@operation("GET /snapshots", "read", client="snapshots", items="snapshots")
def list_snapshots(here: Here, graph: GraphRecord) -> SnapshotList:
    """The snapshots that are kept, newest first, with the spectral error of each."""
    certificates = _certificates(here, graph).list()
    newest_first = reversed(here.home.snapshots(graph).list())
    return SnapshotList(
        snapshots=[_snapshot(each, certificates.get(each.number)) for each in newest_first]
    )


@operation("GET /relations", "read", client="relations")
def list_relations(here: Here, graph: GraphRecord) -> RelationList:
    """The relations (kinds of edges) of the newest snapshot, each with its spectral error."""
    snapshots = here.home.snapshots(graph)
    newest = snapshots.newest()
    relations = [] if newest is None else snapshots.relations(newest.number)
    window = graph.settings.window
    return RelationList(
        relations=[
            answer_of(
                Relation,
                each,
                is_directed=each.name in graph.settings.directed,
                window=None if window is None else window.length_of(each.name),
                **_moments(each),
            )
            for each in relations
        ],
        snapshot=None if newest is None else newest.number,
    )


def _listed(here: Here, graph: GraphRecord) -> Graph:
    try:
        return Graph(**_fields(graph, _newest(here, graph)))
    except (snapshot_store.SnapshotNotFound, OSError, ValueError):  # deleted meanwhile, or damaged
        return Graph(**_fields(graph, None))


def _newest(here: Here, graph: GraphRecord) -> "SnapshotMeta | None":
    """The newest snapshot of a graph whose edges may leave; None of others."""
    return None if graph.settings.deletions == "off" else here.home.snapshots(graph).newest()


def _certificates(here: Here, graph: GraphRecord) -> "CertificateStore":
    store: CertificateStore = certificate_store.CertificateStore(here.home.paths(graph).snapshots)
    return store


def _fields(graph: GraphRecord, newest: "SnapshotMeta | None") -> dict[str, Any]:
    """The fields of `Graph`; the number of live edges is unknown without a snapshot."""
    settings, progress = asdict(graph.settings), asdict(graph.progress)
    return {
        "name": settings.pop("name"),
        "id": graph.id,
        "settings": Settings(**settings),
        "nodes": progress.pop("n_nodes"),
        **progress,
        "left_out": graph.progress.left_out,
        "n_live": None if newest is None else newest.n_live,
        "epsilon_asked": graph.settings.epsilon,
        "labels_seq": graph.labels_seq,
        "features_version": graph.features_version,
        "created_at": graph.created_at,
    }


def _certificate(certificate: "CertificateRecord") -> Certificate:
    created_at = datetime.fromtimestamp(certificate.created_at, UTC)
    return answer_of(Certificate, certificate, created_at=created_at)


def _snapshot(meta: "SnapshotMeta", certificate: "CertificateRecord | None") -> Snapshot:
    return answer_of(
        Snapshot,
        meta,
        created_at=datetime.fromtimestamp(meta.created_at, UTC),
        certificate=None if certificate is None else _certificate(certificate),
        **_moments(meta),
        **_parts(meta),
    )


def _moments(meta: "SnapshotMeta | RelationMeta") -> dict[str, datetime | None]:
    times = {"watermark": meta.watermark, "horizon": meta.horizon}
    return {
        name: None if each is None else datetime.fromtimestamp(each, UTC)
        for name, each in times.items()
    }


def _parts(meta: "SnapshotMeta") -> dict[str, Any]:
    damage, repair = meta.damage, meta.last_repair
    return {
        "damage": None if damage is None else answer_of(Damage, damage),
        "last_repair": None if repair is None else answer_of(LastRepair, repair),
    }
