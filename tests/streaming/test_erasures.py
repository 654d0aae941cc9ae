"""Streams out of which nodes are erased, against a dictionary."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.operations import INSERT
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.logged_files import DeadRows
from peewit.streaming.passes.raw_edge_passes import snapshot_edges
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.stream import exact_deletions
from tests.streaming.test_changes import Row, Twin, changes, files_of, live_of, settings, table_of

ERASED = ("n3", "n11", "n20")


def rows_for(deletions: Deletions, seed: int) -> list[Row]:
    rows = changes(seed)
    return [row for row in rows if deletions != "off" or row[3] == INSERT]


def ids_of(names: tuple[str, ...], kind: str) -> pa.Array:
    return pa.array(names if kind == "string" else [int(name[1:]) for name in names])


def forget(twin: Twin, names: tuple[str, ...]) -> None:
    for pair in [each for each in twin.live if each & set(names)]:
        del twin.live[pair]


def ends_in_log(paths: GraphPaths, stream: Stream) -> set[int]:
    """All dense ids that any row of the log has, dead or not."""
    log, found = ChangeLog(paths.log), set()
    dead = log.dead(stream.state.log_version)
    for file in (log.file(each.digest, dead) for each in stream.files):
        for number in range(file.n_batches):
            block = file.block(number)
            found |= {*block.u.tolist(), *block.v.tolist()}
    return found


def n_raw_edges(paths: GraphPaths) -> int:
    """Edges that a certificate of the newest snapshot reads."""
    meta = SnapshotStore(paths.snapshots).list()[-1]
    directory = paths.root / "none"
    with snapshot_edges(paths, meta, spool=directory, staging=directory, n_threads=1) as edges:
        edges.open()
        return edges.components().n_edges


@pytest.mark.thinned(4)
@pytest.mark.parametrize("kind", ["string", "int64", "dense"])
@pytest.mark.parametrize("deletions", ["off", "exact"])
def test_erased_nodes_are_gone_and_stay_so(tmp_path: Path, deletions: Deletions, kind: str) -> None:
    folder, paths = tmp_path / "files", GraphPaths(root=tmp_path / "graph")
    folder.mkdir()
    twin = Twin("sum")
    chosen = settings(kind, deletions=deletions)
    before, after = rows_for(deletions, 1), rows_for(deletions, 2)
    pq.write_table(table_of(before, kind), folder / "a.parquet")
    stream = Stream(paths, chosen)
    stream.ingest(files_of(folder))
    twin.play(before)
    n_nodes = stream.n_nodes
    nodes = stream.lookup(ids_of(ERASED, kind))
    assert (nodes >= 0).all()
    for _ in range(2):  # done again, nothing changes
        stream.erase(nodes)
        assert stream.state.n_erased == 3
    forget(twin, ERASED)
    assert live_of(paths, kind) == pytest.approx(twin.weights)
    if deletions == "exact":
        assert not set(nodes.tolist()) & ends_in_log(paths, stream)
        assert n_raw_edges(paths) == sum(map(len, twin.live.values()))
    assert stream.n_nodes == n_nodes
    assert stream.lookup(ids_of(ERASED, kind)).tolist() == [-1] * 3

    stream = Stream(paths, chosen)  # as another process opens it
    assert stream.state.n_erased == 3
    pq.write_table(table_of(after, kind), folder / "b.parquet")
    stream.ingest(files_of(folder))
    if kind == "dense":  # such a number is never used again
        after = [row for row in after if not {row[0], row[1]} & set(ERASED)]
    twin.play(after)
    assert live_of(paths, kind) == pytest.approx(twin.weights)
    if kind != "dense":
        again = stream.lookup(ids_of(ERASED, kind))
        assert (again >= n_nodes).all(), "other nodes"
    newest = SnapshotStore(paths.snapshots).list()[-1]
    assert newest.n_erased == 3


def test_nodes_leave_the_graph_before_the_log_and_done_again_the_log_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, paths = tmp_path / "files", GraphPaths(root=tmp_path / "graph")
    folder.mkdir()
    twin, rows = Twin("sum"), rows_for("exact", 1)
    pq.write_table(table_of(rows, "string"), folder / "a.parquet")
    chosen = settings("string", deletions="exact")
    stream = Stream(paths, chosen)
    stream.ingest(files_of(folder))
    nodes = stream.lookup(ids_of(ERASED, "string"))
    twin.play(rows)
    forget(twin, ERASED)

    def killed(*_: object, **__: object) -> DeadRows:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(exact_deletions, "compacted", killed)
        with pytest.raises(KeyboardInterrupt):
            stream.erase(nodes)
    assert live_of(paths, "string") == pytest.approx(twin.weights)
    assert n_raw_edges(paths) == sum(map(len, twin.live.values()))
    assert set(nodes.tolist()) & ends_in_log(paths, stream)

    stream = Stream(paths, chosen)
    stream.erase(nodes)
    assert not set(nodes.tolist()) & ends_in_log(paths, stream)
    assert live_of(paths, "string") == pytest.approx(twin.weights)
    assert n_raw_edges(paths) == sum(map(len, twin.live.values()))
    held = {path.name for path in paths.log.iterdir()}
    assert len(held) == 2, "one file and one version"


def test_nodes_are_erased_between_files_only(tmp_path: Path) -> None:
    paths = GraphPaths(root=tmp_path / "graph")
    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(table_of(rows_for("off", 1), "string"), folder / "a.parquet")
    seen = []

    def erase(_event: object) -> None:
        if not seen:
            seen.append(stream.current_path)
            with pytest.raises(RuntimeError, match="only between files"):
                stream.erase(np.array([0], np.int32))

    stream = Stream(paths, settings(deletions="off"), on_event=erase)
    stream.ingest(files_of(folder))
    assert seen == [str(folder / "a.parquet")]
    assert stream.current_path is None
