"""Files leave a graph, or are replaced: by whoever ingests it, once, whatever dies between."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.database.tables import files as files_table
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.inbox_records import REPLACED, FileRecord, RetractionRefused
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.bookkeeping import Bookkeeper
from peewit.service.ingest.daemon import IngestDaemon
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.open_graph import IngestReport, OpenGraph
from peewit.service.settings import Settings
from peewit.streaming.events import Committed, IngestEvent, Progress, Retracted
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.raw_edge_passes import snapshot_files
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from tests.fresh_databases import fresh

DEADLINE_SECONDS = 60.0
N_NODES = 30


class Crash(Exception):
    """The process dies here."""


class Place:
    """A graph whose source is a directory, and what it holds by the names of its files."""

    def __init__(self, database: Database, settings: Settings, directory: Path) -> None:
        self.database, self.settings, self.directory = database, settings, directory
        directory.mkdir()
        self.catalog, self.manifest = Catalog(database), Manifest(database)
        self.graph = self.create("g")

    def create(self, name: str, **chosen: str) -> GraphRecord:
        chosen = {"deletions": "exact", **chosen}
        kind = {"name": name, "node_ids": "dense", "epsilon": 0.1, "seed": 3}
        return self.catalog.create(GraphSettings(**kind, **chosen))  # type: ignore[arg-type]

    def follow(self, *, replaces: bool = False) -> None:
        sources = self.manifest.sources
        sources.add(self.graph.id, str(self.directory), follow=True, replaces=replaces)

    def write(self, name: str, seed: int) -> Path:
        path = self.directory / f"{name}.parquet"
        pq.write_table(table_of(seed), path, row_group_size=100)
        return path

    def ingest(self, on_event: Callable[[IngestEvent], None] = lambda _event: None) -> IngestReport:
        return Ingestor(self.database, self.settings).ingest_graph(self.graph.id, on_event=on_event)

    def file(self, name: str) -> FileRecord:
        path = str(self.directory / f"{name}.parquet")
        return self.manifest.retractions.of_path(self.graph.id, path)[0]

    def statuses(self) -> dict[str, str]:
        newest = {Path(each.path).stem: each for each in self.manifest.list_files(self.graph.id)}
        return {name: each.status for name, each in newest.items()}

    def want(self, name: str, *, inserts_only: bool = False) -> FileRecord:
        wanted = self.manifest.retractions.want
        return wanted(self.graph.id, self.file(name).id, inserts_only=inserts_only)

    @property
    def paths(self) -> GraphPaths:
        return GraphPaths(root=self.settings.graphs_directory / self.graph.id)

    def holds(self, *seeds: int) -> None:
        """The newest snapshot, and what the catalog says of it, are of these contents exactly."""
        store = SnapshotStore(self.paths.snapshots)
        meta = store.list()[-1]
        assert weights(store.edges(meta.number)) == pytest.approx(twin(*seeds))
        progress = self.catalog.get_by_id(self.graph.id).progress
        assert (progress.snapshot, progress.edges_kept) == (meta.number, meta.edges_kept)
        absorbed = CheckpointStore(self.paths.checkpoints).clean().files
        assert snapshot_files(self.paths, meta) == absorbed
        listed = self.manifest.list_files(self.graph.id, status="committed")
        assert {file.path: file.digest for file in listed} == {
            file.path: file.digest for file in absorbed
        }


@pytest.fixture
def place(database: Database, settings: Settings, tmp_path: Path) -> Place:
    return Place(database, settings, tmp_path / "edges")


def table_of(seed: int) -> pa.Table:
    ends = np.random.default_rng(seed).integers(0, N_NODES, (2, 300))
    return pa.table({"src": ends[0], "dst": ends[1]})


def weights(table: pa.Table) -> dict[tuple[int, int], float]:
    rows = zip(*(table.column(name).to_pylist() for name in ("u", "v", "weight")), strict=True)
    return {(u, v): weight for u, v, weight in rows}


def twin(*seeds: int) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for seed in seeds:
        for row in table_of(seed).to_pylist():
            pair = (min(row["src"], row["dst"]), max(row["src"], row["dst"]))
            if pair[0] != pair[1]:
                found[pair] = found.get(pair, 0.0) + 1.0
    return found


def test_a_file_leaves_and_comes_again_only_as_another_content(place: Place) -> None:
    place.follow()
    for name, seed in (("a", 0), ("b", 1), ("c", 0)):
        place.write(name, seed)
    place.ingest()
    assert place.statuses() == {"a": "committed", "b": "committed", "c": "duplicate"}
    assert place.file("a").retractable == "whole"
    place.want("a")
    with capture_logs() as logs:
        report = place.ingest()
    assert (report.n_retracted, report.n_committed) == (1, 0)
    (told,) = (line for line in logs if line["event"] == "file retracted")
    assert (Path(told["file"]).stem, told["n_rows"]) == ("a", 300)
    place.holds(1)
    assert place.statuses() == {"a": "retracted", "b": "committed", "c": "retracted"}
    for name in "ac":
        (place.directory / f"{name}.parquet").touch()
    assert place.ingest().n_retracted == 2  # left out: only their times are new
    place.holds(1)
    place.write("a", 5)
    place.write("d", 0)  # the content is free again, at a path that had nothing
    place.ingest()
    place.holds(0, 1, 5)
    assert place.statuses()["c"] == "retracted"


@pytest.mark.slow
def test_a_changed_file_takes_the_place_of_the_earlier_one_where_the_source_says_so(
    place: Place,
) -> None:
    place.follow()
    for name, seed in (("a", 0), ("b", 1), ("c", 0)):
        place.write(name, seed)
    place.ingest()
    place.write("a", 2)
    assert place.ingest().n_quarantined == 1
    place.holds(0, 1)
    place.follow(replaces=True)
    report = place.ingest()
    # c had the content that a brought; it is there still
    assert (report.n_committed, report.n_quarantined) == (2, 0)
    place.holds(0, 1, 2)
    first = place.manifest.retractions.of_path(place.graph.id, place.file("a").path)[1]
    assert (first.status, first.reason) == ("retracted", REPLACED)
    place.write("a", 1)  # what b is
    report = place.ingest()
    assert (report.n_duplicates, place.file("a").status) == (1, "duplicate")
    place.holds(0, 1)
    place.write("a", 2)  # and back
    place.ingest()
    place.holds(0, 1, 2)
    place.want("a")
    place.ingest()
    place.holds(0, 1)
    place.write("a", 0)  # what c is
    place.ingest()
    place.holds(0, 1)


def test_a_bad_new_version_leaves_the_earlier_one(place: Place) -> None:
    place.follow(replaces=True)
    path = place.write("a", 0)
    place.ingest()
    table = table_of(1)
    weight = pa.array([1.0] * (table.num_rows - 1) + [-1.0])
    pq.write_table(table.append_column("weight", weight), path, row_group_size=100)
    assert place.ingest().n_quarantined == 1
    place.holds(0)


@pytest.mark.slow
def test_files_that_deleted_edges_leave_as_to_their_inserts_only(place: Place) -> None:
    place.follow()
    place.write("a", 0)
    rows = {"src": [0, 40], "dst": [1, 41], "op": ["delete", "insert"]}
    pq.write_table(pa.table(rows), place.directory / "b.parquet")
    place.ingest()
    assert place.file("b").retractable == "inserts_only"
    with pytest.raises(RetractionRefused, match="not brought back"):
        place.want("b")
    place.want("b", inserts_only=True)
    place.ingest()
    expected = twin(0)
    expected.pop((0, 1), None)
    store = SnapshotStore(place.paths.snapshots)
    assert weights(store.edges(store.list()[-1].number)) == pytest.approx(expected)


def test_in_graphs_whose_rows_replace_weights_files_leave_as_to_their_inserts(place: Place) -> None:
    place.graph = place.create("r", parallel="replace")
    place.follow(replaces=True)
    place.write("a", 0)
    place.ingest()
    assert place.file("a").retractable == "inserts_only"
    place.write("a", 1)
    place.ingest()
    assert "cannot be replaced" in (place.file("a").reason or "")
    earlier = place.manifest.retractions.of_path(place.graph.id, place.file("a").path)[1]
    place.manifest.retractions.want(place.graph.id, earlier.id, inserts_only=True)
    place.ingest()
    assert place.catalog.get("r").progress.edges_kept == 0


def test_without_deletions_a_file_that_waits_is_left_out_and_one_that_is_in_stays(
    place: Place,
) -> None:
    place.graph = place.create("off", deletions="off")
    place.follow()
    place.write("a", 0)
    place.ingest()
    assert place.file("a").retractable == "no"
    with pytest.raises(RetractionRefused, match="are off"):
        place.want("a")
    place.write("b", 1)
    Ingestor(place.database, place.settings).discover(place.graph.id)
    assert place.want("b").status == "retracting"
    place.ingest()
    assert place.statuses() == {"a": "committed", "b": "retracted"}
    place.holds(0)


def test_what_ingest_cannot_take_out_stays_and_says_why(place: Place) -> None:
    """A file came in though somebody had wanted to leave it out, and nothing may be deleted."""
    place.graph = place.create("off", deletions="off")
    place.follow()
    place.write("a", 0)
    place.ingest()
    with place.database.write() as connection:  # as if it had waited when somebody asked
        mine = files_table.c.id == place.file("a").id
        row = {"status": "retracting", "digest": None, "n_rows": None, "retractable": None}
        connection.execute(update(files_table).where(mine).values(**row))
    assert place.ingest().n_retracted == 0
    file = place.file("a")
    assert (file.status, file.n_rows, file.retractable) == ("committed", 300, "no")
    assert "deletions of the graph are off" in (file.reason or "")
    place.holds(0)


@pytest.mark.slow
@pytest.mark.thinned(4)
@pytest.mark.parametrize("asked", ["a", "b", "c"])
@pytest.mark.parametrize("when", [0, 1, 2])
def test_a_retraction_that_comes_during_a_pass_is_carried_out_in_it(
    place: Place, asked: str, when: int
) -> None:
    """Of a file that is in, in hand, or waits."""
    place.follow()
    place.write("a", 0)
    place.ingest()
    place.write("b", 1)
    place.write("c", 2)
    place.write("d", 3)
    n_events = 0
    order = []

    def ask(event: IngestEvent) -> None:
        nonlocal n_events
        order.append(type(event))
        if isinstance(event, Progress):
            if n_events == when:
                place.want(asked)
            n_events += 1

    place.ingest(ask)
    seeds = {"a": 0, "b": 1, "c": 2, "d": 3}
    assert place.file(asked).status == "retracted"
    assert order[-1] in {Retracted, Committed}
    place.holds(*(seed for name, seed in seeds.items() if name != asked))


def test_a_file_that_is_half_in_is_undone_when_it_is_left_out(place: Place) -> None:
    place.follow()
    place.write("a", 0)
    place.ingest()
    place.settings = place.settings.model_copy(update={"checkpoint_seconds": 0.0})
    pq.write_table(
        pa.concat_tables([table_of(seed) for seed in range(1, 9)]),
        place.directory / "b.parquet",
        row_group_size=100,
    )

    def die(event: IngestEvent) -> None:
        if isinstance(event, Progress):
            raise Crash

    with pytest.raises(Crash):
        place.ingest(die)
    place.want("b")
    place.ingest()
    assert place.statuses() == {"a": "committed", "b": "retracted"}
    place.holds(0)


class Mortal:
    """Lets a process die at a certain call of what it does to disk and database, or tells."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.allowed: float = float("inf")
        self.n_calls = 0
        for owner, name in (
            (CheckpointStore, "save"),
            (CheckpointStore, "_point"),
            (SnapshotStore, "publish_records"),
            (Manifest, "finish"),
            (Bookkeeper, "take"),
            (Bookkeeper, "retire_snapshots"),
            (OpenGraph, "_retract_files"),
        ):
            monkeypatch.setattr(owner, name, self._wrapped(getattr(owner, name)))

    def _wrapped(self, call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object, **named: object) -> object:
            self.live()
            result = call(*arguments, **named)
            self.live()
            return result

        return wrapped

    def live(self) -> None:
        self.n_calls += 1
        if self.n_calls > self.allowed:
            raise Crash


@pytest.mark.slow
@pytest.mark.parametrize("how", ["retract", "replace", "duplicate", "both"])
def test_killed_anywhere_it_is_done_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str, tmp_path: Path
) -> None:
    place.follow(replaces=True)
    contents = {"a": 0, "b": 1, "c": 2}
    for name, seed in contents.items():
        place.write(name, seed)
    place.ingest()
    if how in {"retract", "both"}:
        place.want("a")
        del contents["a"]
    if how in {"replace", "both"}:
        place.write("b", 7)
        contents["b"] = 7
    if how == "duplicate":
        place.write("b", 2)
        del contents["b"]
    Ingestor(place.database, place.settings).discover(place.graph.id)
    home, saved = place.settings.home, tmp_path / "saved"
    place.database.close()
    shutil.copytree(home, saved)
    mortal = Mortal(monkeypatch)
    for allowed in range(300):
        shutil.rmtree(home)
        shutil.copytree(saved, home)
        database = open_database(fresh(place.settings.database))
        here = place.__class__.__new__(place.__class__)
        here.__dict__.update(place.__dict__)
        here.database, here.catalog, here.manifest = database, Catalog(database), Manifest(database)
        mortal.n_calls, mortal.allowed = 0, allowed
        try:
            here.ingest()
        except Crash:
            mortal.allowed = float("inf")
            here.ingest()
        else:
            break
        finally:
            mortal.allowed = float("inf")
        here.holds(*contents.values())
        assert not here.manifest.work(here.graph.id)
        found = here.manifest.counts(here.graph.id)
        assert (found["pending"], found["quarantined"]) == (0, 0)
        checkpoint = CheckpointStore(here.paths.checkpoints).clean()
        assert checkpoint.n_removed_files == (2 if how == "both" else 1)
        database.close()
    assert allowed > 8


def test_a_graph_from_before_a_retraction_carries_it_out_again(place: Place) -> None:
    place.follow()
    place.write("a", 0)
    place.write("b", 1)
    place.ingest()
    saved = place.settings.home / "saved"
    shutil.copytree(place.paths.root, saved)
    place.want("a")
    place.ingest()
    place.holds(1)
    shutil.rmtree(place.paths.root)
    shutil.move(saved, place.paths.root)
    assert place.ingest().n_retracted == 1
    assert place.statuses() == {"a": "retracted", "b": "committed"}
    place.holds(1)


def test_a_graph_whose_state_was_lost_has_nothing_of_what_was_retracted(place: Place) -> None:
    place.follow()
    for name, seed in (("a", 0), ("b", 1), ("c", 2)):
        place.write(name, seed)
    place.ingest()
    place.want("a")
    place.ingest()
    place.want("b")
    shutil.move(place.paths.root, place.settings.home / "lost")
    place.ingest()
    assert place.statuses() == {"a": "retracted", "b": "retracted", "c": "committed"}
    place.holds(2)


def test_the_daemon_carries_out_retractions_of_files_that_no_source_lists(place: Place) -> None:
    place.follow()
    place.write("a", 0)
    place.write("b", 1)
    daemon = IngestDaemon(place.database, place.settings)
    for _ in range(3):
        daemon.serve_once(lambda: False)
        assert daemon.lister.wait(DEADLINE_SECONDS)
    place.holds(0, 1)
    (source,) = place.manifest.sources.list(place.graph.id)
    place.manifest.sources.remove(place.graph.id, source.id)
    (place.directory / "a.parquet").unlink()
    place.want("a")
    daemon._rests_until.clear()  # it rests after a pass
    assert daemon.serve_once(lambda: False) == 1
    daemon.close()
    assert place.statuses() == {"a": "retracted", "b": "committed"}
    place.holds(1)


def test_the_daemon_replaces_files_once_their_source_says_so(place: Place) -> None:
    place.follow()
    place.write("a", 0)
    daemon = IngestDaemon(place.database, place.settings)

    def serve() -> None:
        for _ in range(4):
            daemon._rests_until.clear()
            daemon.serve_once(lambda: False)
            assert daemon.lister.wait(DEADLINE_SECONDS)
            for each in daemon.lister._watches.values():
                each.list_at = 0.0

    serve()
    place.write("a", 1)
    serve()
    assert place.file("a").status == "quarantined"
    place.follow(replaces=True)
    serve()
    daemon.close()
    assert place.file("a").status == "committed"
    place.holds(1)
