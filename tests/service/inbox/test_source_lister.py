"""Sources are listed in their turn; what is wrong with one is shown on it and stops no other."""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import structlog
from fsspec.implementations.memory import MemoryFileSystem

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.directory_watcher import DirectoryWatch
from peewit.service.inbox.inbox_records import FILE_GONE, SourceRecord
from peewit.service.inbox.live_reader import LiveReader
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.source_lister import LONGEST_REST_SECONDS, SourceLister
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.live_sources.contract import Refused
from peewit.service.settings import Settings
from peewit.streaming.edges.parts import FileUnreadable
from tests.fresh_databases import fresh
from tests.service.live_sources.scripted import Script, script

DEADLINE_SECONDS = 60.0


class Unruly(MemoryFileSystem):
    """An object store in memory that can be slow, away, or refuse to give its objects."""

    protocol = "unruly"
    is_away = False
    is_forbidden = False
    may_list = threading.Event()

    def ls(self, path: str, detail: bool = True, **options: object) -> object:
        self._answer()
        return super().ls(path, detail=detail, **options)

    def find(self, path: str, **options: object) -> object:
        self._answer()
        return super().find(path, **options)

    def _answer(self) -> None:
        Unruly.may_list.wait(DEADLINE_SECONDS)
        if Unruly.is_away:
            raise ConnectionError("no route to https://me:hidden@store/x?signature=hidden")

    def _open(self, path: str, mode: str = "rb", **options: object) -> object:
        if Unruly.is_forbidden and mode == "rb":
            raise PermissionError("you may list and not read")
        return super()._open(path, mode, **options)


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "home",
        threads=1,
        list_seconds=10.0,
        settle_seconds=4.0,
        unfinished_seconds=100.0,
    )


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = open_database(fresh(settings.database))
    yield database
    database.close()


@pytest.fixture
def graph(database: Database) -> GraphRecord:
    return Catalog(database).create(GraphSettings(name="g", expected_nodes=40, seed=1))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def reader_of(database: Database, settings: Settings) -> LiveReader:
    return LiveReader(Manifest(database), Catalog(database), settings)


@pytest.fixture
def lister(database: Database, settings: Settings, clock: Clock) -> Iterator[SourceLister]:
    reader = reader_of(database, settings)
    lister = SourceLister(Manifest(database), settings, reader=reader, clock=clock)
    yield lister
    lister.close()


@pytest.fixture
def unruly() -> Iterator[str]:
    """The root of an unruly store."""
    fsspec.register_implementation("unruly", Unruly, clobber=True)
    Unruly.is_away = Unruly.is_forbidden = False
    Unruly.may_list.set()
    yield f"unruly://{uuid4().hex}"
    Unruly.may_list.set()


def put(url: str, *names: str, node: str = "a") -> None:
    table = pa.table({"src": [f"{node}{name}" for name in names], "dst": ["z"] * len(names)})
    with fsspec.open(url, "wb") as file:
        pq.write_table(table, file)


def poll(lister: SourceLister, graph: GraphRecord, *, resting: bool = False) -> None:
    """One round, to the end of its listings."""
    lister.poll([graph.id], resting={graph.id} if resting else ())
    assert lister.wait(DEADLINE_SECONDS)


def pending(database: Database, graph: GraphRecord) -> list[str]:
    return [Path(file.path).name for file in Manifest(database).pending(graph.id)]


def source(database: Database, graph: GraphRecord) -> SourceRecord:
    (found,) = Manifest(database).sources.list(graph.id)
    return found


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_followed_prefix_is_listed_again_and_again(
    database: Database, graph: GraphRecord, lister: SourceLister, clock: Clock, unruly: str
) -> None:
    put(f"{unruly}/1.parquet", "x")
    Manifest(database).sources.add(graph.id, unruly, follow=True)
    assert lister.due_at() == math.inf
    poll(lister, graph)
    assert pending(database, graph) == []
    assert lister.due_at() == clock.now + 4.0
    clock.now += 3.9
    poll(lister, graph)
    assert pending(database, graph) == [], "not settled yet"
    clock.now += 0.1
    assert lister.due_at() == clock.now
    poll(lister, graph)
    assert pending(database, graph) == ["1.parquet"]
    put(f"{unruly}/2.parquet", "y")
    for _ in range(2):
        clock.now += 10.0
        poll(lister, graph)
    assert pending(database, graph) == ["1.parquet", "2.parquet"]
    assert source(database, graph).listed_at is not None


def test_a_source_that_is_not_followed_is_listed_until_it_gives_files_and_waits_for_none(
    database: Database, graph: GraphRecord, lister: SourceLister, clock: Clock, tmp_path: Path
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    Manifest(database).sources.add(graph.id, str(inbox))
    poll(lister, graph)
    (inbox / "half.parquet").write_bytes(b"PAR1 only a beginning")
    clock.now += 10.0
    poll(lister, graph)
    assert pending(database, graph) == ["half.parquet"]
    (inbox / "late.parquet").write_bytes(b"PAR1")
    clock.now += 10.0
    poll(lister, graph)
    assert pending(database, graph) == ["half.parquet"]


def test_an_unfinished_file_is_left_alone_until_it_is_old(
    database: Database,
    settings: Settings,
    graph: GraphRecord,
    lister: SourceLister,
    clock: Clock,
    tmp_path: Path,
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    put(str(inbox / "whole.parquet"), "x")
    whole = (inbox / "whole.parquet").read_bytes()
    (inbox / "young.parquet").write_bytes(whole[:-4])
    Manifest(database).sources.add(graph.id, str(inbox), follow=True)
    for _ in range(9):
        poll(lister, graph)
        clock.now += 10.0
    assert pending(database, graph) == ["whole.parquet"]
    (inbox / "young.parquet").write_bytes(whole[:-3])
    for _ in range(12):
        poll(lister, graph)
        clock.now += 10.0
    assert pending(database, graph) == ["whole.parquet", "young.parquet"]
    Ingestor(database, settings).ingest_graph(graph.id)
    files = {Path(file.path).stem: file for file in Manifest(database).list_files(graph.id)}
    assert files["young"].status == "quarantined"
    assert "not a readable Parquet file" in (files["young"].reason or "")
    # put right by a rename, it is whole at once
    put(str(inbox / ".hidden"), "y", node="b")
    (inbox / ".hidden").replace(inbox / "young.parquet")
    for _ in range(2):
        poll(lister, graph)
        clock.now += 10.0
    assert pending(database, graph) == ["young.parquet"]


def test_a_store_that_is_away_is_told_tried_less_and_less_and_forgiven(
    database: Database, graph: GraphRecord, lister: SourceLister, clock: Clock, unruly: str
) -> None:
    put(f"{unruly}/1.parquet", "x")
    Manifest(database).sources.add(graph.id, unruly, follow=True)
    Unruly.is_away = True
    n_failures = []
    for _ in range(200):
        poll(lister, graph)
        n_failures.append(source(database, graph).n_failures)
        clock.now += 10.0
    rises = [k for k in range(1, 200) if n_failures[k] > n_failures[k - 1]]
    gaps = [10 * (after - before) for before, after in pairwise(rises)]
    assert gaps[:4] == [40, 80, 160, LONGEST_REST_SECONDS]
    assert set(gaps[4:]) == {LONGEST_REST_SECONDS}
    found = source(database, graph)
    assert found.error is not None
    assert found.error.startswith("ConnectionError: no route")
    assert "hidden" not in found.error
    assert Manifest(database).counts(graph.id)["quarantined"] == 0
    Unruly.is_away = False
    Manifest(database).retry_source(graph.id, found.id)
    poll(lister, graph)
    clock.now += 4.0
    poll(lister, graph)
    assert pending(database, graph) == ["1.parquet"]
    assert source(database, graph).error is None


def test_a_slow_store_holds_up_no_other_source_and_is_told(
    database: Database,
    settings: Settings,
    graph: GraphRecord,
    lister: SourceLister,
    clock: Clock,
    unruly: str,
    tmp_path: Path,
) -> None:
    put(f"{unruly}/1.parquet", "x")
    put(str(tmp_path / "local.parquet"), "y")
    slow = Manifest(database).sources.add(graph.id, unruly)
    Manifest(database).sources.add(graph.id, str(tmp_path / "local.parquet"))
    Unruly.may_list.clear()
    lister.poll([graph.id])
    eventually(lambda: pending(database, graph) == ["local.parquet"])
    clock.now += settings.stall_seconds
    lister.poll([graph.id])
    told = {each.id: each.error for each in Manifest(database).sources.list(graph.id)}
    assert f"more than {settings.stall_seconds:g} seconds" in (told[slow.id] or "")
    Unruly.may_list.set()
    poll(lister, graph)
    assert set(pending(database, graph)) == {"local.parquet", "1.parquet"}


def test_listings_that_stand_still_leave_their_places_to_the_others(
    database: Database,
    graph: GraphRecord,
    lister: SourceLister,
    settings: Settings,
    clock: Clock,
    unruly: str,
    tmp_path: Path,
) -> None:
    """However many they are: a network mount that is away holds up all sources on it."""
    for number in range(9):
        Manifest(database).sources.add(graph.id, f"{unruly}/{number}", follow=True)
    Unruly.may_list.clear()
    lister.poll([graph.id])
    other = Catalog(database).create(GraphSettings(name="other"))
    put(str(tmp_path / "local.parquet"), "y")
    Manifest(database).sources.add(other.id, str(tmp_path / "local.parquet"))
    for _ in range(2):
        clock.now += settings.stall_seconds
        lister.poll([graph.id, other.id])
    lister.poll([graph.id, other.id])
    eventually(lambda: pending(database, other) == ["local.parquet"])
    Unruly.may_list.set()


def test_files_that_cannot_be_read_wait_and_the_others_go_in(
    database: Database,
    settings: Settings,
    graph: GraphRecord,
    lister: SourceLister,
    clock: Clock,
    unruly: str,
    tmp_path: Path,
) -> None:
    for number in range(5):
        put(f"{unruly}/{number}.parquet", "x", node=str(number))
    put(str(tmp_path / "local.parquet"), "y")
    remote = Manifest(database).sources.add(graph.id, unruly)
    local = Manifest(database).sources.add(graph.id, str(tmp_path / "local.parquet"))
    poll(lister, graph)
    Unruly.is_forbidden = True
    ingestor = Ingestor(database, settings)
    with ingestor.open_graph(graph.id, should_stop=lambda: False) as opened:
        report = opened.ingest_pending()
        assert (report.n_committed, report.n_quarantined) == (1, 0)
        assert report.source_ids == {remote.id, local.id}
        assert report.unreadable.keys() == {remote.id}
        lister.note_read(report.source_ids, report.unreadable)
        assert lister.resting(graph.id) == [remote.id]
        assert not Manifest(database).work(graph.id, skipped_sources=[remote.id])
        told = {each.id: each.error for each in Manifest(database).sources.list(graph.id)}
        assert told == {remote.id: "PermissionError: you may list and not read", local.id: None}
        clock.now += 20.0
        assert lister.resting(graph.id) == []
        Unruly.is_forbidden = False
        report = opened.ingest_pending()
        lister.note_read(report.source_ids, report.unreadable)
    assert (report.n_committed, report.unreadable) == (5, {})
    assert all(each.error is None for each in Manifest(database).sources.list(graph.id))
    assert Catalog(database).get("g").progress.edges_seen == 6


def test_one_pass_fails_where_a_file_cannot_be_read_and_keeps_the_rest(
    database: Database, settings: Settings, graph: GraphRecord, unruly: str, tmp_path: Path
) -> None:
    put(f"{unruly}/1.parquet", "x")
    put(str(tmp_path / "local.parquet"), "y")
    Manifest(database).sources.add(graph.id, unruly)
    Manifest(database).sources.add(graph.id, str(tmp_path / "local.parquet"))
    Unruly.is_forbidden = True
    with pytest.raises(FileUnreadable, match=r"1\.parquet cannot be read now: you may list"):
        Ingestor(database, settings).ingest_graph(graph.id)
    assert Catalog(database).get("g").progress.edges_seen == 1
    Unruly.is_forbidden = False
    Ingestor(database, settings).ingest_graph(graph.id)
    assert Catalog(database).get("g").progress.edges_seen == 2


def test_an_object_that_goes_before_it_is_read_is_offered_when_it_is_back(
    database: Database,
    settings: Settings,
    graph: GraphRecord,
    lister: SourceLister,
    clock: Clock,
    tmp_path: Path,
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    path = inbox / "1.parquet"
    put(str(path), "x")
    Manifest(database).sources.add(graph.id, str(inbox), follow=True)
    ingestor = Ingestor(database, settings)

    def rounds() -> None:
        for _ in range(3):
            poll(lister, graph)
            clock.now += 10.0
        with ingestor.open_graph(graph.id, should_stop=lambda: False) as opened:
            opened.ingest_pending()

    poll(lister, graph)
    clock.now += 10.0
    poll(lister, graph)
    assert pending(database, graph) == ["1.parquet"]
    path.rename(tmp_path / "away")
    rounds()
    (file,) = Manifest(database).list_files(graph.id)
    assert (file.status, file.reason) == ("quarantined", FILE_GONE)
    (tmp_path / "away").rename(path)
    rounds()
    (file,) = Manifest(database).list_files(graph.id)
    assert file.status == "committed"


@pytest.fixture
def live(database: Database, graph: GraphRecord, monkeypatch: pytest.MonkeyPatch) -> Script:
    """The script of a live source that is followed."""
    url, play = script(monkeypatch, [])
    Manifest(database).sources.add(graph.id, url, kind="scripted", follow=True)
    return play


def write(live: Script) -> None:
    live.entries.append(pa.table({"src": [uuid4().hex], "dst": ["b"]}))


def ingest(database: Database, settings: Settings, graph: GraphRecord) -> None:
    """Bring in what is pending; no source is listed."""
    ingestor = Ingestor(database, settings)
    with ingestor.open_graph(graph.id, should_stop=lambda: False) as opened:
        opened.ingest_pending()


def n_read(database: Database, graph: GraphRecord) -> int:
    """Entries of its live source."""
    return Manifest(database).live.place(source(database, graph).id).n_reads


def test_a_live_source_is_read_on_once_what_it_gave_is_in_the_graph(
    database: Database,
    settings: Settings,
    graph: GraphRecord,
    lister: SourceLister,
    clock: Clock,
    live: Script,
) -> None:
    write(live)
    poll(lister, graph)
    write(live)
    clock.now += 5.0
    poll(lister, graph)
    assert n_read(database, graph) == 1  # what it gave waits
    ingest(database, settings, graph)
    poll(lister, graph, resting=True)
    assert n_read(database, graph) == 1  # as late as the next pass allows
    poll(lister, graph)
    assert n_read(database, graph) == 2
    ingest(database, settings, graph)
    write(live)
    clock.now += 4.9
    poll(lister, graph)
    assert n_read(database, graph) == 2  # half of the usual pause has not passed
    clock.now += 0.1
    poll(lister, graph)
    assert n_read(database, graph) == 3
    write(live)
    clock.now += 10.0
    poll(lister, graph)
    assert n_read(database, graph) == 4  # all of it has, whatever waits


def test_a_live_source_is_left_alone_for_as_long_again_as_it_has_been_quiet(
    database: Database, settings: Settings, graph: GraphRecord, clock: Clock, live: Script
) -> None:
    write(live)
    began, read_at = clock.now, []
    lister = SourceLister(
        Manifest(database),
        settings,
        reader=reader_of(database, settings),
        clock=clock,
        on_listed=lambda _source, _seconds: read_at.append(clock.now - began),
    )
    for _ in range(40):
        poll(lister, graph)
        if clock.now == began:
            ingest(database, settings, graph)
        clock.now += 1.0
    lister.close()
    assert read_at == [0, 5, 10, 20, 30]


def test_a_live_source_that_fails_is_not_read_on_early(
    graph: GraphRecord, lister: SourceLister, clock: Clock, live: Script, database: Database
) -> None:
    live.entries.append(Refused(place="here", reason="no edge"))
    poll(lister, graph)
    live.entries.append(ConnectionError("away"))
    clock.now += 5.0
    poll(lister, graph)
    assert source(database, graph).error == "ConnectionError: away"
    write(live)
    clock.now += 9.0
    poll(lister, graph)
    assert n_read(database, graph) == 1
    clock.now += 11.0
    poll(lister, graph)
    assert n_read(database, graph) == 2


def test_changes_of_a_local_directory_wake_its_listing(
    database: Database, settings: Settings, graph: GraphRecord, tmp_path: Path
) -> None:
    """With a pause of an hour between listings, only the watch can show a new file in time."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    Manifest(database).sources.add(graph.id, str(inbox), follow=True)
    patient = settings.model_copy(update={"list_seconds": 3600.0, "settle_seconds": 0.0})
    lister = SourceLister(Manifest(database), patient, reader=reader_of(database, patient))
    try:
        poll(lister, graph)
        put(str(tmp_path / "made"), "x")
        deadline = time.monotonic() + DEADLINE_SECONDS
        number = 0
        while not pending(database, graph):
            assert time.monotonic() < deadline
            number += 1  # the watch may begin after the first change
            (tmp_path / "made").replace(inbox / "1.parquet") if number == 1 else os.utime(inbox)
            time.sleep(0.3)
            poll(lister, graph)
    finally:
        lister.close()


def test_all_that_is_due_is_listed_without_another_round_and_news_comes_first(
    database: Database, settings: Settings, graph: GraphRecord, clock: Clock, tmp_path: Path
) -> None:
    order: list[str] = []
    directories = [tmp_path / f"{number:02}" for number in range(30)]
    for directory in directories:
        directory.mkdir()
        Manifest(database).sources.add(graph.id, str(directory), follow=True)
    lister = SourceLister(
        Manifest(database),
        settings,
        reader=reader_of(database, settings),
        clock=clock,
        on_listed=lambda source, _seconds: order.append(source.url),
    )
    poll(lister, graph)
    assert sorted(order) == sorted(map(str, directories))
    order.clear()
    clock.now += 400.0
    news = str(directories[17])
    lister._wake({news})
    poll(lister, graph)
    lister.close()
    assert order.index(news) < 15  # begun first; several end in any order, the 17th much later
    assert len(order) == 30


def test_a_watch_tells_the_directory_of_a_change(tmp_path: Path) -> None:
    told: set[str] = set()
    directories = [tmp_path / "a", tmp_path / "b"]
    for each in directories:
        each.mkdir()
    watch = DirectoryWatch(told.update)
    watch.set([*map(str, directories), str(tmp_path / "missing")])
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not told:
            assert time.monotonic() < deadline
            (directories[1] / "file").write_text(str(time.monotonic()))
            time.sleep(0.1)
        assert told == {str(directories[1])}
    finally:
        watch.close()


def test_a_file_whose_name_is_no_text_is_told_once(
    database: Database, graph: GraphRecord, lister: SourceLister, clock: Clock, tmp_path: Path
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    Path(os.fsdecode(os.fsencode(inbox) + b"/\xff.csv")).write_text("src,dst\na,b\n")
    Manifest(database).sources.add(graph.id, str(inbox), follow=True)
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            poll(lister, graph)
            clock.now += 10.0
    told = [each for each in logged if each["event"] == "file passed over"]
    assert [each["path"] for each in told] == [f"{inbox}/\\xff.csv"]
