"""What a pass costs in which there is nothing to do: it asks once."""

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from sqlalchemy import event, update

import peewit.service
from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database, open_database
from peewit.service.database.leases import LeaseStore
from peewit.service.database.tables import graphs, sources
from peewit.service.graph_settings import GraphSettings, SnapshotEvery
from peewit.service.inbox.manifest import Manifest, Work
from peewit.service.ingest.daemon import IngestDaemon
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.open_graph import state_of
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from tests.fresh_databases import fresh

ROOT = Path(peewit.service.__file__).resolve().parents[1]
OURS = tuple(f"{ROOT / name}/" for name in ("service", "streaming", "solvers"))


class Place:
    """A graph with one source that was read to the end."""

    def __init__(self, database: Database, settings: Settings, directory: Path) -> None:
        self.database, self.settings = database, settings
        self.graph_id = Catalog(database).create(GraphSettings(name="g", expected_nodes=40)).id
        path = directory / "edges.csv"
        path.write_text("src,dst\na,b\nb,c\n")
        Manifest(database).sources.add(self.graph_id, str(path))
        self.ingestor = Ingestor(database, settings)
        self.ingestor.ingest_graph(self.graph_id)
        self.paths = GraphPaths(root=settings.graphs_directory / self.graph_id)

    def cost(self, run: Callable[[], object]) -> tuple[int, int, int]:
        """Files and functions of ours that a call executes, and its statements."""
        run()  # what is kept from then on is no cost of the next
        functions: set[tuple[str, str]] = set()
        statements: list[str] = []

        def note(frame: FrameType, kind: str, _argument: object) -> None:
            code = frame.f_code
            file = str(Path(code.co_filename).resolve()) if kind == "call" else ""
            if file.startswith(OURS):
                functions.add((file, code.co_qualname))

        def tell(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
            statements.append(statement)

        engine = self.database.engine
        event.listen(engine, "before_cursor_execute", tell)
        sys.setprofile(note)
        try:
            run()
        finally:
            sys.setprofile(None)
            event.remove(engine, "before_cursor_execute", tell)
        asked = [each for each in statements if not each.startswith(("PRAGMA", "BEGIN"))]
        return len({file for file, _ in functions}), len(functions), len(asked)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    settings = Settings(home=tmp_path / "home", threads=1, settle_seconds=0.0)
    settings.home.mkdir()
    database = open_database(fresh(settings.database))
    yield Place(database, settings, tmp_path)
    database.close()


def within(cost: tuple[int, int, int], most: tuple[int, int, int]) -> bool:
    return all(each <= limit for each, limit in zip(cost, most, strict=True))


def test_an_open_graph_asks_once(place: Place) -> None:
    with place.ingestor.open_graph(place.graph_id, should_stop=lambda: False) as graph:
        cost = place.cost(graph.ingest_pending)
    assert within(cost, (10, 26, 1)), cost


def test_the_daemon_asks_for_graphs_sources_and_work(place: Place) -> None:
    daemon = IngestDaemon(place.database, place.settings)
    cost = place.cost(lambda: daemon.serve_once(lambda: False))
    daemon.close()
    assert within(cost, (15, 50, 3)), cost


def test_many_graphs_at_rest_are_asked_about_at_once(place: Place) -> None:
    for number in range(30):
        Catalog(place.database).create(GraphSettings(name=f"g{number}", expected_nodes=40))
    daemon = IngestDaemon(place.database, place.settings)
    cost = place.cost(lambda: daemon.serve_once(lambda: False))
    daemon.close()
    assert within(cost, (15, 50, 3)), cost


def test_a_graph_at_rest_is_not_opened(place: Place) -> None:
    lease = LeaseStore(place.database).acquire(f"ingest:{place.graph_id}", "another", 60.0)
    assert lease is not None
    cost = place.cost(lambda: place.ingestor.ingest_graph(place.graph_id))
    assert within(cost, (25, 60, 4)), cost


def change_settings(place: Place) -> None:
    every = SnapshotEvery(edges=10)
    Catalog(place.database).update(
        place.graph_id, lambda settings: replace(settings, snapshot_every=every)
    )


def lose_the_checkpoint(place: Place) -> None:
    shutil.rmtree(place.paths.checkpoints)


def lose_the_snapshot(place: Place) -> None:
    shutil.rmtree(place.paths.snapshots)


def die_before_the_note_of_it(place: Place) -> None:
    with place.database.write() as connection:
        connection.execute(update(graphs).values(at_rest=None))


def add_a_live_source(place: Place) -> None:
    with place.database.write() as connection:
        connection.execute(update(sources).values(kind="kafka"))


@pytest.mark.parametrize(
    "change",
    [
        change_settings,
        lose_the_checkpoint,
        lose_the_snapshot,
        die_before_the_note_of_it,
        add_a_live_source,
    ],
)
def test_what_only_an_open_graph_can_tell_has_it_opened(
    place: Place, change: Callable[[Place], None]
) -> None:
    def work() -> frozenset[Work]:
        home = place.ingestor.home
        state = state_of(home, home.catalog.get_by_id(place.graph_id))
        return home.manifest.work(place.graph_id, state=state)

    assert work() == set()
    change(place)
    assert work() == {"open"}
    if change is not add_a_live_source:
        place.ingestor.ingest_graph(place.graph_id)
        # files that were lost may have changed, so that it is looked once more
        assert work() == ({"open"} if change is lose_the_checkpoint else set())
        place.ingestor.ingest_graph(place.graph_id)
        assert work() == set()
