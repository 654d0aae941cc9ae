"""Repairs that somebody asked for: made by whoever ingests the graph, once."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.database.leases import LeaseStore
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.repairs import RepairRefused, Repairs
from peewit.service.ingest.daemon import IngestDaemon
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from peewit.streaming.events import IngestEvent, Repaired
from peewit.streaming.graph_paths import GraphPaths
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
        self.repairs: Repairs = self.manifest.repairs
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
    place.repairs.want(place.graph.id, "all")
    assert place.manifest.has_pending(place.graph.id)
    (told,) = (event for event in place.ingest() if isinstance(event, Repaired))
    assert (told.repair.kind, told.repair.n_edges) == ("all", newest.n_live)
    assert place.snapshots.latest() == newest.number + 1
    progress = Catalog(place.database).get_by_id(place.graph.id).progress
    assert progress.snapshot == newest.number + 1
    assert not place.manifest.has_pending(place.graph.id)
    assert place.ingest() == []


def test_where_nothing_is_due_nothing_is_done(place: Place) -> None:
    newest = place.snapshots.latest()
    place.repairs.want(place.graph.id, "due")
    daemon = IngestDaemon(place.database, place.settings)
    assert daemon.serve_once(lambda: False) == 1
    assert daemon.serve_once(lambda: False) == 0
    daemon.close()
    assert place.repairs.wanted(place.graph.id) is None
    assert place.snapshots.latest() == newest


def test_a_kill_before_the_note_of_it_repairs_once_more(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.repairs.want(place.graph.id, "all")

    def die(*_args: object, **_kwargs: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Repairs, "done", die)
        with pytest.raises(Crash):
            place.ingest()
    assert place.repairs.wanted(place.graph.id) == "all"
    place.ingest()
    assert place.repairs.wanted(place.graph.id) is None
    newest = place.snapshots.newest()
    assert newest is not None
    assert newest.n_rebuilds == 2


def test_what_is_wanted_meanwhile_is_wanted_still(place: Place) -> None:
    graph_id = place.graph.id
    place.repairs.want(graph_id, "all")
    place.repairs.want(graph_id, "due")
    assert place.repairs.wanted(graph_id) == "all"
    lease = LeaseStore(place.database).acquire(f"ingest:{graph_id}", "test", 60.0)
    assert lease is not None
    place.repairs.done(graph_id, "due", lease=lease)
    assert place.repairs.wanted(graph_id) == "all"


def test_a_graph_without_a_log_is_not_repaired(place: Place) -> None:
    graph = Catalog(place.database).create(GraphSettings(name="other"))
    with pytest.raises(RepairRefused, match="must be exact to repair it, they are off"):
        place.repairs.want(graph.id, "due")
    assert place.repairs.wanted(graph.id) is None
