"""Whether all edges of a graph can be read again, as a new budget or epsilon may need."""

from pathlib import Path
from typing import Final

from peewit.service.catalog import GraphRecord
from peewit.service.graph_settings import GraphConflict
from peewit.service.redaction import redacted
from peewit.streaming.edges.parts import FileUnreadable
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.edge_passes import RawEdgesGone
from peewit.streaming.passes.raw_edge_passes import require_files, snapshot_files
from peewit.streaming.snapshots.store import SnapshotStore

_SHOWN: Final = 3


def require_all_edges(graph: GraphRecord, graphs_directory: Path, *, setting: str) -> None:
    """Raise `GraphConflict` where neither a log nor files hold the edges that were thrown away.

    ``setting`` (max_edges or epsilon) is the one to be raised or lowered; ``graph`` has the present
    one.
    """
    changed = "raised" if setting == "max_edges" else "lowered or taken back"
    if graph.settings.deletions != "off":
        return
    paths = GraphPaths(root=graphs_directory / graph.id)
    newest = SnapshotStore(paths.snapshots).newest()
    if newest is None:
        return
    if newest.n_erased:
        raise GraphConflict(
            setting,
            f"cannot be {changed} once nodes were erased. The edges that were dropped must "
            "be read again, and the files may still hold those nodes; create another graph "
            f"with this {setting}, and ingest again",
        )
    try:
        require_files(snapshot_files(paths, newest))
    except RawEdgesGone as error:
        gone = ", ".join(path for path, _ in error.files[:_SHOWN])
        more = f" and {len(error.files) - _SHOWN} more" if len(error.files) > _SHOWN else ""
        raise GraphConflict(
            setting,
            f"cannot be {changed} while files are missing ({gone}{more}): the edges that "
            "were dropped must be read again; put the files back and try again. If they "
            f"are lost, create another graph with this {setting} and ingest what there is",
        ) from error
    except FileUnreadable as error:
        raise GraphConflict(
            setting,
            f"cannot be {changed} now: the edges that were dropped must be read again, and "
            f"{redacted(str(error))}; try again once it can",
        ) from error
