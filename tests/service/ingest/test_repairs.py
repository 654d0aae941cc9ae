"""Repairs that somebody asked for: made by whoever ingests the graph, once."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.database.leases import LeaseStore
from peewit.service.graph_settings import GraphSettings
from peewit.service.graphs.notes import graph_note
from peewit.service.inbox.leaving.wishes import RepairRefused, Wanted, Wishes
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.daemon import IngestDaemon
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Repaired
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from tests.fresh_databases import fresh
from tests.service.repairable import SETTINGS, many_edges


class Crash(Exception):
    """The process dies here."""


class Place:
    """A graph of two files, of which most edges were thrown away before the second."""

    def __init__(self, database: Database, settings: Settings, directory: Path) -> None:
        self.database, self.settings = database, settings
        self.manifest = Manifest(database)
        self.wishes: Wishes = self.manifest.wishes
        chosen = GraphSettings(name="g", **SETTINGS)
        self.graph: GraphRecord = Catalog(database).create(chosen)
        folder = directory / "edges"
        folder.mkdir()
        for part in range(2):
            pq.write_table(many_edges(part), folder / f"{part}.parquet")
        self.manifest.sources.add(self.graph.id, str(folder))
        self.told = self.ingest()

    def ingest(self) -> list[IngestEvent]:
        told: list[IngestEvent] = []
        ingestor = Ingestor(self.database, self.settings)
        ingestor.ingest_graph(self.graph.id, on_event=told.append)
        return told

    @property
    def snapshots(self) -> SnapshotStore:
        root = self.settings.graphs_directory / self.graph.id
        return SnapshotStore(GraphPaths(root=root).snapshots)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    settings = Settings(home=tmp_path / "home", threads=1, settle_seconds=0.0)
    settings.home.mkdir()
    database = open_database(fresh(settings.database))
    yield Place(database, settings, tmp_path)
    database.close()


def test_all_edges_are_sampled_anew_once(place: Place) -> None:
    newest = place.snapshots.newest()
    assert newest is not None
    assert newest.n_records < newest.edges_seen  # otherwise there is nothing to sample
    place.wishes.want_repair(place.graph.id, "all")
    assert place.manifest.work(place.graph.id)
    (told,) = (event for event in place.ingest() if isinstance(event, Repaired))
    assert (told.repair.kind, told.repair.n_edges) == ("all", newest.n_live)
    assert place.snapshots.latest() == newest.number + 1
    progress = Catalog(place.database).get_by_id(place.graph.id).progress
    assert progress.snapshot == newest.number + 1
    assert not place.manifest.work(place.graph.id)
    assert place.ingest() == []


def test_where_nothing_is_due_nothing_is_done(place: Place) -> None:
    newest = place.snapshots.latest()
    place.wishes.want_repair(place.graph.id, "due")
    daemon = IngestDaemon(place.database, place.settings)
    assert daemon.serve_once(lambda: False) == 1
    assert daemon.serve_once(lambda: False) == 0
    daemon.close()
    assert place.wishes.of(place.graph.id).repair_wanted is None
    assert place.snapshots.latest() == newest


def test_a_kill_before_the_note_of_it_repairs_once_more(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.wishes.want_repair(place.graph.id, "all")

    def die(*_args: object, **_kwargs: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Wishes, "repair_made", die)
        with pytest.raises(Crash):
            place.ingest()
    assert place.wishes.of(place.graph.id).repair_wanted == "all"
    place.ingest()
    assert place.wishes.of(place.graph.id).repair_wanted is None
    newest = place.snapshots.newest()
    assert newest is not None
    assert newest.n_rebuilds == 2


def test_what_is_wanted_meanwhile_is_wanted_still(place: Place) -> None:
    graph_id = place.graph.id
    place.wishes.want_repair(graph_id, "all")
    place.wishes.want_repair(graph_id, "due")
    assert place.wishes.of(graph_id).repair_wanted == "all"
    lease = LeaseStore(place.database).acquire(f"ingest:{graph_id}", "test", 60.0)
    assert lease is not None
    place.wishes.repair_made(graph_id, "due", lease=lease, epsilon=0.9, max_edges=None)
    assert place.wishes.of(graph_id).repair_wanted == "all"


def test_a_graph_without_a_log_is_not_repaired(place: Place) -> None:
    graph = Catalog(place.database).create(GraphSettings(name="other"))
    with pytest.raises(RepairRefused, match="must be exact to repair it, they are off"):
        place.wishes.want_repair(graph.id, "due")
    assert place.wishes.of(graph.id).repair_wanted is None


class Budgeted:
    """A graph without a log, of whose edges a budget has thrown most away."""

    def __init__(self, database: Database, settings: Settings, directory: Path) -> None:
        self.database, self.settings = database, settings
        self.catalog, self.manifest = Catalog(database), Manifest(database)
        self.folder = directory / "budgeted"
        self.folder.mkdir()
        for part in range(2):
            pq.write_table(many_edges(part), self.folder / f"{part}.parquet")
        chosen = GraphSettings(name="b", node_ids="dense", expected_nodes=40, seed=1, max_edges=200)
        self.graph = self.catalog.create(chosen)
        self.manifest.sources.add(self.graph.id, str(self.folder), follow=True)
        Ingestor(database, settings).ingest_graph(self.graph.id)
        assert not self.newest.is_whole

    @property
    def newest(self) -> SnapshotMeta:
        paths = GraphPaths(root=self.settings.graphs_directory / self.graph.id)
        found = SnapshotStore(paths.snapshots).newest()
        assert found is not None
        return found

    def raise_budget(self) -> None:
        self.catalog.update(self.graph.id, lambda old: replace(old, max_edges=5_000))

    def wishes(self) -> Wanted:
        return self.manifest.wishes.of(self.graph.id)

    def wanted(self) -> str | None:
        return self.wishes().repair_wanted

    def fault(self) -> str | None:
        return self.wishes().repair_fault


@pytest.fixture
def budgeted(place: Place, tmp_path: Path) -> Budgeted:
    return Budgeted(place.database, place.settings, tmp_path)


def test_a_budget_that_is_raised_while_the_graph_is_open_is_kept_to_by_the_next(
    budgeted: Budgeted,
) -> None:
    ingestor = Ingestor(budgeted.database, budgeted.settings)
    with ingestor.open_graph(budgeted.graph.id, should_stop=lambda: False) as graph:
        graph.ingest_pending()
        budgeted.raise_budget()
        graph.ingest_pending()  # and does not go round for ever
        assert budgeted.wanted() == "all"
    ingestor.ingest_graph(budgeted.graph.id)
    assert budgeted.wanted() is None
    assert budgeted.newest.is_whole


def test_a_budget_that_is_raised_during_the_repair_is_not_taken_for_it(
    budgeted: Budgeted, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgeted.manifest.wishes.want_repair(budgeted.graph.id, "all")
    repair = Stream.repair

    def raised_meanwhile(stream: Stream, *, everything: bool = False) -> None:
        repair(stream, everything=everything)
        budgeted.raise_budget()

    with monkeypatch.context() as patch:
        patch.setattr(Stream, "repair", raised_meanwhile)
        Ingestor(budgeted.database, budgeted.settings).ingest_graph(budgeted.graph.id)
    assert budgeted.wanted() == "all"
    assert not budgeted.newest.is_whole


def test_the_daemon_opens_the_graph_anew_for_a_budget_that_was_raised(budgeted: Budgeted) -> None:
    daemon = IngestDaemon(budgeted.database, budgeted.settings)
    pq.write_table(many_edges(2), budgeted.folder / "2.parquet")
    Ingestor(budgeted.database, budgeted.settings).discover(budgeted.graph.id)
    daemon.serve_once(lambda: False)  # holds it
    budgeted.raise_budget()
    deadline = time.monotonic() + 60.0
    while budgeted.wanted() is not None:
        assert time.monotonic() < deadline
        daemon.serve_once(lambda: False)
    daemon.close()
    assert budgeted.newest.is_whole


@pytest.mark.parametrize("fails", ["missing", "unreachable"])
def test_where_edges_cannot_be_read_again_it_is_told_and_all_else_goes_on(
    budgeted: Budgeted, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    budgeted.raise_budget()
    first = budgeted.folder / "0.parquet"
    content = first.read_bytes()
    pq.write_table(many_edges(2), budgeted.folder / "2.parquet")
    before = budgeted.newest.edges_seen
    ingestor = Ingestor(budgeted.database, budgeted.settings)
    n_tried = 0
    repair, listing = Stream.repair, EdgeFiles.list

    def counted(stream: Stream, *, everything: bool = False) -> None:
        nonlocal n_tried
        n_tried += 1
        repair(stream, everything=everything)

    def listed(source: EdgeFiles) -> list[EdgeFile]:
        if source.url == str(first):
            raise ConnectionError(f"no answer for {source.url}")
        return listing(source)

    with monkeypatch.context() as patch:
        patch.setattr(Stream, "repair", counted)
        if fails == "missing":
            first.unlink()
        else:
            patch.setattr(EdgeFiles, "list", listed)
        ingestor.ingest_graph(budgeted.graph.id)
        assert n_tried == 1
        assert budgeted.wanted() == "all"
        fault = budgeted.fault()
        assert fault is not None
        assert str(first) in fault
        assert budgeted.newest.edges_seen == before + 2_000
        note = graph_note(budgeted.newest, budgeted.wishes())
        assert "fewer than max_edges=5,000 allows" in note
        assert "edges could not be read again" in note
        assert "bring the files back and ingest" in note
        # the daemon lets it rest
        clock = iter(range(10**6)).__next__
        daemon = IngestDaemon(budgeted.database, budgeted.settings, clock=clock)
        for _ in range(4):
            daemon.serve_once(lambda: False)
        assert n_tried == 2
        budgeted.manifest.wishes.want_repair(budgeted.graph.id, "all")  # which is tried at once
        for _ in range(4):
            daemon.serve_once(lambda: False)
        assert n_tried == 3
        daemon.close()
    first.write_bytes(content)
    ingestor.ingest_graph(budgeted.graph.id)
    assert (budgeted.wanted(), budgeted.fault()) == (None, None)
    assert budgeted.newest.is_whole
    assert graph_note(budgeted.newest, budgeted.wishes()) == ""
