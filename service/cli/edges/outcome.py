"""What an ingest tells at its end: what the graph is now, and what became of the rows."""

from collections.abc import Sequence

from peewit.service.catalog import GraphRecord
from peewit.service.cli.session import as_text, echo, print_json, say
from peewit.service.graphs.notes import doubtful_ids_note, graph_note, kept_text
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import FileRecord
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore


def _n_late(snapshots: SnapshotStore, before: GraphRecord, meta: SnapshotMeta | None) -> int:
    """Rows that came too late for the window, since a graph was looked at."""
    if meta is None or not meta.n_late:
        return 0
    try:
        last = before.progress.snapshot
        return meta.n_late - (0 if last is None else snapshots.meta(last).n_late)
    except SnapshotNotFound:  # replaced since
        return 0


def tell_outcome(
    home: Home,
    before: GraphRecord,
    refused: Sequence[FileRecord],
    repeated: Sequence[FileRecord],
    seconds: float,
    *,
    n_bad_rows: int,
    as_json: bool,
) -> None:
    """Print what the graph is now, and what became of the rows since ``before``."""
    name = before.settings.name
    graph = home.graph(name)
    left_out = graph.progress.left_out - before.progress.left_out
    progress, paths = graph.progress, home.paths(graph)
    snapshots = SnapshotStore(paths.snapshots)
    meta = None if progress.snapshot is None else snapshots.meta(progress.snapshot)
    n_late = _n_late(snapshots, before, meta)
    if as_json:
        counts = home.manifest.counts(graph.id)
        print_json(
            {
                "graph": name,
                "progress": graph.progress,
                "files": dict(counts),
                "quarantined": refused,
                "duplicates": repeated,
                "new_nodes": graph.progress.n_nodes - before.progress.n_nodes,
                "left_out": left_out,
                "bad_rows": n_bad_rows,
                "late_rows": n_late,
                "seconds": round(seconds, 3),
            }
        )
    else:
        echo(
            f"{name}: {progress.edges_seen:,} rows in, {progress.n_nodes:,} nodes, {seconds:.1f} s"
        )
        echo(f"snapshot {as_text(progress.snapshot)}: {kept_text(graph, meta)}")
        if left_out.total or left_out.too_old or n_bad_rows:
            n_rows = progress.edges_seen - before.progress.edges_seen + n_bad_rows
            where = f", listed below {paths.bad_rows}" if n_bad_rows else ""
            dropped = [f"{n:,} {words} dropped" for words, n in left_out.by_reason.items()]
            echo(
                f"of {n_rows:,} rows now read: {', '.join(dropped)}, {n_bad_rows:,} bad "
                f"rows left out{where}"
            )
        if progress.n_nodes > before.progress.n_nodes:
            ids = home.nodes.external_ids(graph, progress.n_nodes)
            if note := doubtful_ids_note(graph, ids.slice(before.progress.n_nodes)):
                say(f"note: {note}")
        if note := graph_note(meta, home.manifest.wishes.of(graph.id)):
            say(f"note: {note}")
