"""Ingest: sources and pushes into the graph, their fate into the manifest, one writer at a time."""

import errno
import os
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from structlog.testing import capture_logs

from peewit.service.catalog import Catalog, GraphNotFound, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.database.lease_keeper import LeaseHeld
from peewit.service.database.leases import LeaseExpired, LeaseStore
from peewit.service.graph_settings import AutoSolve, GraphSettings, SnapshotEvery
from peewit.service.inbox.inbox_records import FileRecord, NewPush
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.needed_files import remove_unneeded
from peewit.service.ingest.daemon import (
    CLEAN_SECONDS,
    LONGEST_FULL_DISK_SECONDS,
    RETRY_SECONDS,
    IngestDaemon,
)
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.open_graph import FEATURES_GRACE_SECONDS
from peewit.service.jobs.queue import JobQueue
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.labels.store import LabelStore
from peewit.service.settings import Settings
from peewit.streaming.events import Committed, IngestEvent
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Interrupted
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from tests.service.featured import Featured, clusters
from tests.service.pushing import pushed

DEADLINE_SECONDS = 60.0


def write_edges(path: Path, seed: int = 0, *, n_rows: int = 3_000, bad: bool = False) -> None:
    rng = np.random.default_rng(seed)
    src, dst = (rng.integers(0, 40, n_rows) for _ in range(2))
    weight = np.ones(n_rows, np.float32)
    if bad:
        weight[-1] = -1.0
    names = [pa.array([f"n{node}" for node in side]) for side in (src, dst)]
    table = pa.table({"src": names[0], "dst": names[1], "weight": weight})
    pq.write_table(table, path, row_group_size=1_000)


@pytest.fixture
def graph(database: Database) -> GraphRecord:
    return Catalog(database).create(
        GraphSettings(name="g", epsilon=0.9, expected_nodes=40, seed=3, keep_raw=False)
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "edges"
    directory.mkdir()
    return directory


def push_file(database: Database, settings: Settings, graph: GraphRecord, name: str) -> Path:
    """A push whose block lies on disk."""
    block = GraphPaths(root=settings.graphs_directory / graph.id).pushes / f"{name}.parquet"
    block.parent.mkdir(parents=True, exist_ok=True)
    write_edges(block, len(name))
    n_bytes = block.stat().st_size
    push = NewPush(body_digest=name, path=str(block), n_rows=3_000, n_bytes=n_bytes)
    pushed(Manifest(database), graph.id, push)
    return block


def serve(daemon: IngestDaemon) -> int:
    """Rounds of the daemon until its listings have ended; how often it had something to ingest."""
    n_served = 0
    for _ in range(3):
        n_served += daemon.serve_once(lambda: False)
        assert daemon.lister.wait(DEADLINE_SECONDS)
    return n_served


def files(database: Database, graph: GraphRecord) -> dict[str, FileRecord]:
    return {Path(file.path).name: file for file in Manifest(database).list_files(graph.id)}


def test_files_of_a_source_end_in_graph_and_manifest(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    write_edges(source / "a.parquet", 0)
    write_edges(source / "b.parquet", 1, bad=True)
    (source / "c.parquet").write_bytes((source / "a.parquet").read_bytes())
    Manifest(database).sources.add(graph.id, str(source))
    report = Ingestor(database, settings).ingest_graph(graph.id)
    assert (report.n_committed, report.n_quarantined, report.n_duplicates) == (1, 1, 1)
    found = files(database, graph)
    assert {name: file.status for name, file in found.items()} == {
        "a.parquet": "committed",
        "b.parquet": "quarantined",
        "c.parquet": "duplicate",
    }
    assert found["a.parquet"].n_rows == 3_000
    assert found["a.parquet"].left_out is not None
    assert found["b.parquet"].row == 2_999
    assert found["b.parquet"].value == "-1.0"
    progress = Catalog(database).get("g").progress
    assert progress.n_nodes == 40
    assert progress.edges_seen == 3_000
    assert progress.left_out == found["a.parquet"].left_out
    assert progress.snapshot == 1
    assert progress.epsilon_expected is not None
    assert 0 < progress.edges_kept <= 780


def test_a_second_pass_takes_only_what_is_new(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    write_edges(source / "a.parquet", 0)
    Manifest(database).sources.add(graph.id, str(source), follow=True)
    ingestor = Ingestor(database, settings)
    ingestor.ingest_graph(graph.id)
    write_edges(source / "b.parquet", 1)
    report = ingestor.ingest_graph(graph.id)
    assert report.n_committed == 1
    assert report.edges_seen == 6_000
    assert ingestor.ingest_graph(graph.id).n_committed == 0


@pytest.mark.slow
def test_a_missing_source_is_an_error_that_names_it(
    database: Database, settings: Settings, graph: GraphRecord, tmp_path: Path
) -> None:
    Manifest(database).sources.add(graph.id, str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match="nothing"):
        Ingestor(database, settings).ingest_graph(graph.id)


def test_one_process_at_a_time_ingests_a_graph(
    database: Database, settings: Settings, graph: GraphRecord
) -> None:
    ingestor = Ingestor(database, settings)
    with (
        ingestor.open_graph(graph.id, should_stop=lambda: False),
        pytest.raises(LeaseHeld, match="another process ingests this graph"),
    ):
        ingestor.ingest_graph(graph.id)
    ingestor.ingest_graph(graph.id)


def test_without_its_lease_ingest_writes_nothing(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    write_edges(source / "a.parquet")
    Manifest(database).sources.add(graph.id, str(source))
    ingestor = Ingestor(database, settings)
    ingestor.discover(graph.id)
    with ingestor.open_graph(graph.id, should_stop=lambda: False) as opened:
        LeaseStore(database).release(opened.lease)
        with pytest.raises(LeaseExpired, match="nothing is lost"):
            opened.ingest_pending()
    assert files(database, graph)["a.parquet"].status == "pending"
    paths = GraphPaths(root=settings.graphs_directory / graph.id)
    assert SnapshotStore(paths.snapshots).latest() is None
    assert CheckpointStore(paths.checkpoints).n_clean_nodes() == 0


def test_dying_between_checkpoint_and_manifest_loses_and_doubles_nothing(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    write_edges(source / "a.parquet")
    Manifest(database).sources.add(graph.id, str(source))
    ingestor = Ingestor(database, settings)
    ingestor.ingest_graph(graph.id)
    committed = Catalog(database).get("g").progress
    # The manifest as it was before the process died: the checkpoint has the file, it does not.
    other = Catalog(database).create(
        GraphSettings(name="h", epsilon=0.9, expected_nodes=40, seed=3)
    )
    (settings.graphs_directory / graph.id).rename(settings.graphs_directory / other.id)
    Manifest(database).sources.add(other.id, str(source))
    report = ingestor.ingest_graph(other.id)
    assert report.n_committed == 1
    assert Catalog(database).get("h").progress == committed


def test_a_checkpoint_that_lacks_committed_files_takes_them_again(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    write_edges(source / "a.parquet", 0)
    Manifest(database).sources.add(graph.id, str(source), follow=True)
    ingestor = Ingestor(database, settings)
    ingestor.ingest_graph(graph.id)
    root = settings.graphs_directory / graph.id
    root.rename(settings.home / "lost")
    write_edges(source / "b.parquet", 1)
    ingestor.ingest_graph(graph.id)
    assert Catalog(database).get("g").progress.edges_seen == 6_000


def test_deleted_graph_is_not_found(
    database: Database, settings: Settings, graph: GraphRecord
) -> None:
    queue = JobQueue(database)
    Catalog(database).delete(graph.id, cancel_jobs=queue.cancel_graph)
    with pytest.raises(GraphNotFound):
        Ingestor(database, settings).ingest_graph(graph.id)


def test_a_new_snapshot_asks_for_the_automatic_solve(
    database: Database, settings: Settings, source: Path
) -> None:
    graph = Catalog(database).create(
        GraphSettings(name="auto", expected_nodes=40, auto_solve=AutoSolve(model="stable-hfs"))
    )
    LabelStore(database).put(graph.id, ["n1", "n2"], ["x", "y"])
    write_edges(source / "a.parquet")
    Manifest(database).sources.add(graph.id, str(source))
    Ingestor(database, settings).ingest_graph(graph.id)
    page = JobQueue(database).list(graph_id=graph.id)
    assert [job.model for job in page.jobs] == ["stable-hfs"]


@pytest.mark.slow
@pytest.mark.parametrize("keep_raw", [True, False])
def test_pushed_blocks_stay_only_where_raw_edges_are_kept(
    database: Database, settings: Settings, keep_raw: bool
) -> None:
    graph = Catalog(database).create(
        GraphSettings(name="push", expected_nodes=40, keep_raw=keep_raw)
    )
    block = push_file(database, settings, graph, "1")
    assert Ingestor(database, settings).ingest_graph(graph.id).n_committed == 1
    assert block.exists() is keep_raw


@pytest.mark.parametrize("keep_raw", [True, False])
def test_blocks_that_no_push_needs_are_swept(
    database: Database, settings: Settings, keep_raw: bool
) -> None:
    graph = Catalog(database).create(
        GraphSettings(name="push", expected_nodes=40, keep_raw=keep_raw)
    )
    pushes = push_file(database, settings, graph, "committed").parent
    Ingestor(database, settings).ingest_graph(graph.id)
    push_file(database, settings, graph, "pending")
    write_edges(pushes / "orphan.parquet", 2)
    write_edges(pushes / "committed.parquet")  # as if the process had died before it removed it
    before = set(pushes.iterdir())
    remove_unneeded(database, graph.id, pushes.parent, older_than_seconds=3_600.0)
    assert set(pushes.iterdir()) == before
    remove_unneeded(database, graph.id, pushes.parent, older_than_seconds=-1.0)
    left = {path.stem for path in pushes.iterdir()}
    assert left == ({"committed", "pending"} if keep_raw else {"pending"})


def test_the_daemon_follows_sources_and_shows_a_heartbeat(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    write_edges(source / "a.parquet", 0)
    Manifest(database).sources.add(graph.id, str(source), follow=True)
    stop = threading.Event()
    daemon = IngestDaemon(database, settings)
    thread = threading.Thread(target=daemon.run, args=(stop.is_set, str))
    thread.start()
    try:
        _wait_for_edges(database, 3_000)
        write_edges(source / "b.parquet", 1)
        _wait_for_edges(database, 6_000)
        assert [record.lanes for record in WorkerRegistry(database).alive()] == [()]
        assert LeaseStore(database).holder(f"ingest:{graph.id}") is not None
    finally:
        stop.set()
        thread.join(timeout=DEADLINE_SECONDS)
    assert not thread.is_alive()
    assert WorkerRegistry(database).alive() == []
    assert LeaseStore(database).holder(f"ingest:{graph.id}") is None


def test_the_daemon_lets_an_idle_graph_go(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    write_edges(source / "a.parquet", 0)
    Manifest(database).sources.add(graph.id, str(source), follow=True)
    ticks = [0.0]
    daemon = IngestDaemon(database, settings, clock=lambda: ticks[0])
    assert serve(daemon) == 1
    ticks[0] = 20.0
    serve(daemon)
    assert LeaseStore(database).holder(f"ingest:{graph.id}") is not None
    ticks[0] = 40.0
    serve(daemon)
    assert LeaseStore(database).holder(f"ingest:{graph.id}") is None


def test_the_daemon_goes_on_after_a_source_that_cannot_be_listed(
    database: Database, settings: Settings, graph: GraphRecord, source: Path, tmp_path: Path
) -> None:
    write_edges(source / "a.parquet", 0)
    Manifest(database).sources.add(graph.id, str(tmp_path / "missing"), follow=True)
    Manifest(database).sources.add(graph.id, str(source), follow=True)
    daemon = IngestDaemon(database, settings)
    assert serve(daemon) == 1
    daemon.close()
    assert Catalog(database).get("g").progress.edges_seen == 3_000


def test_one_graphs_trouble_does_not_stop_the_others(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    broken = Catalog(database).create(GraphSettings(name="broken", expected_nodes=40))
    checkpoints = GraphPaths(root=settings.graphs_directory / broken.id).checkpoints
    checkpoints.mkdir(parents=True)
    (checkpoints / "current.json").write_text("{not json")
    write_edges(source / "a.parquet", 0)
    for record in (broken, graph):
        Manifest(database).sources.add(record.id, str(source))
        Manifest(database).sources.add(record.id, f"zip://x::{source / 'a.parquet'}", follow=True)
    daemon = IngestDaemon(database, settings)
    assert serve(daemon) == 1
    daemon.close()
    assert Catalog(database).get("g").progress.edges_seen == 3_000
    assert Catalog(database).get("broken").progress.edges_seen == 0


def test_a_graph_that_fails_again_and_again_is_tried_less_and_less_often(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    checkpoints = GraphPaths(root=settings.graphs_directory / graph.id).checkpoints
    checkpoints.mkdir(parents=True)
    (checkpoints / "current.json").write_text("{not json")
    write_edges(source / "a.parquet", 0)
    Manifest(database).sources.add(graph.id, str(source))
    ticks = [0.0]
    daemon = IngestDaemon(database, settings, clock=lambda: ticks[0])
    tried: list[float] = []
    with capture_logs() as logs:
        due = [0.0, 5.0, 15.0, 35.0, 75.0, 155.0, 315.0, 615.0, 915.0]
        for moment in sorted(due + [time - 0.1 for time in due[1:]]):
            ticks[0] = moment
            n_before = sum(log["event"] == "ingest failed" for log in logs)
            assert serve(daemon) == 0
            if sum(log["event"] == "ingest failed" for log in logs) > n_before:
                tried.append(ticks[0])
        assert tried == due
        # other settings may be what it takes
        Catalog(database).update(graph.id, lambda old: _with_epsilon(old, 0.5))
        serve(daemon)
        assert sum(log["event"] == "ingest failed" for log in logs) == len(tried) + 1
    (checkpoints / "current.json").unlink()
    ticks[0] += RETRY_SECONDS
    assert serve(daemon) == 1
    daemon.close()


def test_a_full_disk_is_tried_again_soon(
    database: Database,
    settings: Settings,
    graph: GraphRecord,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_edges(source / "a.parquet", 0)
    Manifest(database).sources.add(graph.id, str(source))
    ticks = [0.0]
    daemon = IngestDaemon(database, settings, clock=lambda: ticks[0])
    with capture_logs() as logs, monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        for tick in range(0, 101, 5):
            ticks[0] = float(tick)
            assert serve(daemon) == 0
    pauses = [log["again_in_seconds"] for log in logs if log["event"] == "disk full"]
    assert pauses == [5.0, 10.0, 20.0, 20.0, 20.0, 20.0, 20.0]
    ticks[0] += LONGEST_FULL_DISK_SECONDS
    assert serve(daemon) == 1
    daemon.close()


def test_changed_settings_hold_from_the_next_file_on(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    write_edges(source / "a.parquet", 0)
    Manifest(database).sources.add(graph.id, str(source), follow=True)
    daemon = IngestDaemon(database, settings, clock=iter(range(0, 10**6, 10)).__next__)
    serve(daemon)
    Catalog(database).update(graph.id, lambda old: _with_epsilon(old, 0.95))
    write_edges(source / "b.parquet", 1)
    serve(daemon)
    daemon.close()
    paths = GraphPaths(root=settings.graphs_directory / graph.id)
    assert [meta.epsilon_asked for meta in SnapshotStore(paths.snapshots).list()] == [0.9, 0.95]


def test_asked_to_stop_the_daemon_leaves_the_file_for_later(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    write_edges(source / "a.parquet", 0)
    Manifest(database).sources.add(graph.id, str(source))
    Ingestor(database, settings).discover(graph.id)
    with pytest.raises(Interrupted):
        Ingestor(database, settings).ingest_graph(graph.id, should_stop=lambda: True)
    assert files(database, graph)["a.parquet"].status == "pending"
    events: list[IngestEvent] = []
    Ingestor(database, settings).ingest_graph(graph.id, on_event=events.append)
    assert any(isinstance(event, Committed) for event in events)


def _with_epsilon(settings: GraphSettings, epsilon: float) -> GraphSettings:
    return GraphSettings(
        name=settings.name,
        epsilon=epsilon,
        expected_nodes=settings.expected_nodes,
        seed=settings.seed,
        keep_raw=settings.keep_raw,
    )


def _wait_for_edges(database: Database, n_edges: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while Catalog(database).get("g").progress.edges_seen < n_edges:
        assert time.monotonic() < deadline, "the daemon did not ingest the file"
        threading.Event().wait(0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "every", [SnapshotEvery(edges=5_000), SnapshotEvery(seconds=8.0)], ids=["edges", "seconds"]
)
def test_the_daemon_publishes_snapshots_in_the_middle_of_a_long_series(
    database: Database, settings: Settings, source: Path, every: SnapshotEvery
) -> None:
    graph = Catalog(database).create(
        GraphSettings(name="g", epsilon=0.9, expected_nodes=40, seed=3, snapshot_every=every)
    )
    Manifest(database).sources.add(graph.id, str(source), follow=True)
    for number in range(6):
        write_edges(source / f"{number}.parquet", number)
    seconds = iter(range(10**6))
    ingestor = Ingestor(database, settings)
    ingestor.discover(graph.id)
    published: list[tuple[int, int | None]] = []

    def note(event: IngestEvent) -> None:
        if isinstance(event, Committed):
            progress = Catalog(database).get("g").progress
            published.append((progress.edges_seen, progress.snapshot))

    with ingestor.open_graph(
        graph.id, should_stop=lambda: False, on_event=note, clock=lambda: float(next(seconds))
    ) as opened:
        opened.ingest_pending()
    paths = GraphPaths(root=settings.graphs_directory / graph.id)
    seen = sorted(meta.edges_seen for meta in SnapshotStore(paths.snapshots).list())
    assert len(seen) >= 3
    assert all(edges % 3_000 == 0 for edges in seen), "only whole files are in a snapshot"
    assert seen[-1] == 18_000
    assert published[-1] == (18_000, len(seen))
    assert len(published) >= 3, "the catalog hears of each at once"
    if every.edges is not None:
        assert seen == [6_000, 12_000, 18_000]


def test_a_pass_can_be_cut_between_files_and_takes_all_pushes_first(
    database: Database, settings: Settings, graph: GraphRecord, source: Path
) -> None:
    for number in range(3):
        write_edges(source / f"{number}.parquet", number)
    Manifest(database).sources.add(graph.id, str(source))
    ingestor = Ingestor(database, settings)
    ingestor.discover(graph.id)
    push_file(database, settings, graph, "pushed")
    size = (source / "0.parquet").stat().st_size
    with ingestor.open_graph(graph.id, should_stop=lambda: False) as opened:
        first = opened.ingest_pending(max_bytes=size)
        assert (first.n_committed, first.is_cut) == (2, True)
        assert files(database, graph)["pushed.parquet"].status == "committed"
        assert files(database, graph)["1.parquet"].status == "pending"
        rest = opened.ingest_pending()
        assert (rest.n_committed, rest.is_cut) == (2, False)


@pytest.fixture
def superseded(database: Database, settings: Settings) -> Featured:
    """A graph whose second version of features came longer ago than the grace time."""
    featured = Featured.create(database, settings)
    featured.give(clusters())
    featured.give(clusters() + 1)
    assert FeatureStore(featured.paths.features).versions() == [1, 2]
    then = time.time() - FEATURES_GRACE_SECONDS - 1.0
    os.utime(featured.paths.features / "00000002", (then, then))
    return featured


def test_a_pass_removes_features_that_gave_way_long_ago(superseded: Featured) -> None:
    superseded.ingest()
    assert FeatureStore(superseded.paths.features).versions() == [2]


@pytest.mark.parametrize("is_held", [False, True])
def test_the_daemon_removes_features_that_gave_way_long_ago(
    superseded: Featured, is_held: bool
) -> None:
    ticks = [0.0]
    daemon = IngestDaemon(superseded.database, superseded.settings, clock=lambda: ticks[0])
    store = FeatureStore(superseded.paths.features)
    if is_held:
        os.utime(superseded.paths.features / "00000002")
        push_file(superseded.database, superseded.settings, superseded.record, "1")
        assert serve(daemon) == 1
        assert store.versions() == [1, 2]
        then = time.time() - FEATURES_GRACE_SECONDS - 1.0
        os.utime(superseded.paths.features / "00000002", (then, then))
        ticks[0] = CLEAN_SECONDS + 1.0
    serve(daemon)
    daemon.close()
    assert store.versions() == [2]


def test_features_stay_while_another_process_writes_the_graph(superseded: Featured) -> None:
    ingestor = Ingestor(superseded.database, superseded.settings)
    daemon = IngestDaemon(superseded.database, superseded.settings)
    with ingestor.open_graph(superseded.graph_id, should_stop=lambda: False):
        serve(daemon)
        assert FeatureStore(superseded.paths.features).versions() == [1, 2]
