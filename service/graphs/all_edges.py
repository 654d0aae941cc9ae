"""All edges of a graph, which a raised budget needs once some were thrown away."""

from pathlib import Path

from peewit.service.catalog import GraphRecord
from peewit.service.graph_settings import GraphConflict
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.edge_passes import RawEdgesGone
from peewit.streaming.passes.raw_edge_passes import require_files, snapshot_files
from peewit.streaming.snapshots.store import SnapshotStore


def require_all_edges(graph: GraphRecord, graphs_directory: Path) -> None:
    """Raise `GraphConflict` where neither a log nor files hold the edges that were thrown away."""
    if graph.settings.deletions != "off":
        return
    paths = GraphPaths(root=graphs_directory / graph.id)
    newest = SnapshotStore(paths.snapshots).newest()
    if newest is None:
        return
    way_out = "create another graph with this budget, and ingest again"
    if newest.n_erased:
        raise GraphConflict(
            "max_edges",
            "cannot be raised once edges were thrown away and nodes erased, which the files may "
            f"still hold; {way_out}",
        )
    try:
        require_files(snapshot_files(paths, newest))
    except RawEdgesGone as error:
        raise GraphConflict(
            "max_edges",
            f"cannot be raised once edges were thrown away and their files are gone: {error}; "
            f"{way_out}",
        ) from error
