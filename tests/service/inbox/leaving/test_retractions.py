"""Retractions in the manifest: a truth table of statuses, and what comes again."""

from itertools import product
from typing import Final

import pytest
from sqlalchemy import insert, update

from peewit.service.catalog import Catalog, GraphProgress
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, LeaseStore
from peewit.service.database.tables import files
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.file_outcomes import next_status
from peewit.service.inbox.inbox_records import (
    FILE_STATUSES,
    REPLACED,
    FileNotListed,
    FileOutcome,
    FileRecord,
    FileStatus,
    NewPush,
    RetractionRefused,
)
from peewit.service.inbox.manifest import Manifest
from peewit.streaming.left_out import NO_ROWS
from tests.service.pushing import pushed

PROGRESS = GraphProgress(n_nodes=7, edges_seen=9)
LISTING = [("/e/a", "1", 20), ("/e/b", "1", 10), ("/e/c", "1", 30)]


@pytest.fixture
def graph_id(database: Database) -> str:
    return Catalog(database).create(GraphSettings(name="g", deletions="exact")).id


@pytest.fixture
def source_id(manifest: Manifest, graph_id: str) -> str:
    return manifest.sources.add(graph_id, "/e/").id


@pytest.fixture
def lease(database: Database, graph_id: str) -> Lease:
    lease = LeaseStore(database).acquire(f"ingest:{graph_id}", "test", 600.0)
    assert lease is not None
    return lease


class Book:
    """A manifest with files a, b and c, and short ways to write into it."""

    def __init__(self, manifest: Manifest, graph_id: str, source_id: str, lease: Lease) -> None:
        self.manifest, self.graph_id, self.source_id = manifest, graph_id, source_id
        self._lease = lease
        manifest.register_files(graph_id, source_id, LISTING)

    def __getitem__(self, path: str) -> FileRecord:
        """The newest version of a file."""
        return self.manifest.retractions.of_path(self.graph_id, f"/e/{path}")[0]

    def statuses(self) -> list[FileStatus]:
        return [file.status for file in self.manifest.list_files(self.graph_id)]

    def tell(self, *outcomes: FileOutcome) -> int:
        return self.manifest.finish(self.graph_id, outcomes, progress=PROGRESS, lease=self._lease)

    def commit(self, path: str, digest: str) -> None:
        self.tell(committed(self[path].id, digest))

    def want(self, path: str, *, inserts_only: bool = False) -> FileRecord:
        retractions = self.manifest.retractions
        return retractions.want(self.graph_id, self[path].id, inserts_only=inserts_only)

    def retract(self, path: str) -> None:
        self.tell(FileOutcome.retracted(self.want(path).id))

    def list(self, *listing: tuple[str, str], asked: bool = False) -> int:
        return self.manifest.register_files(
            self.graph_id,
            self.source_id,
            [(f"/e/{path}", version, 10) for path, version in listing],
            is_asked_for=asked,
        )


@pytest.fixture
def book(manifest: Manifest, graph_id: str, source_id: str, lease: Lease) -> Book:
    return Book(manifest, graph_id, source_id, lease)


def committed(file_id: int, digest: str = "d") -> FileOutcome:
    return FileOutcome.committed(
        file_id, digest=digest, n_rows=5, left_out=NO_ROWS, retractable="whole"
    )


def outcomes(file_id: int) -> dict[str, FileOutcome]:
    return {
        "committed": committed(file_id),
        "kept": FileOutcome.committed(
            file_id, digest="d", n_rows=5, left_out=NO_ROWS, kept_as="it must"
        ),
        "quarantined": FileOutcome.quarantined(file_id, "bad"),
        "duplicate": FileOutcome.duplicate(file_id, digest="d"),
        "retracted": FileOutcome.retracted(file_id, digest="d"),
    }


REFUSED: Final = None
TABLE: dict[FileStatus, dict[str, FileStatus | None]] = {
    "pending": {
        "committed": "committed",
        "kept": "committed",
        "quarantined": "quarantined",
        "duplicate": "duplicate",
        "retracted": "retracted",
    },
    "retracting": {
        "committed": "retracting",
        "kept": "committed",
        "quarantined": "retracted",
        "duplicate": "retracted",
        "retracted": "retracted",
    },
    "retracted": {
        "committed": REFUSED,
        "kept": "committed",
        "quarantined": "retracted",
        "duplicate": "retracted",
        "retracted": "retracted",
    },
    "committed": {
        "committed": "committed",
        "kept": "committed",
        "quarantined": REFUSED,
        "duplicate": REFUSED,
        "retracted": REFUSED,
    },
    "quarantined": dict.fromkeys(("committed", "kept", "duplicate", "retracted"), REFUSED)
    | {"quarantined": "quarantined"},
    "duplicate": dict.fromkeys(("committed", "kept", "quarantined", "retracted"), REFUSED)
    | {"duplicate": "duplicate"},
}


def test_every_status_and_outcome_stand_in_the_table() -> None:
    assert TABLE.keys() == set(FILE_STATUSES)
    assert all(row.keys() == outcomes(1).keys() for row in TABLE.values())
    for status, (name, outcome) in product(FILE_STATUSES, outcomes(1).items()):
        if TABLE[status][name] is REFUSED:
            with pytest.raises(ValueError, match=f"is {status}, it cannot become"):
                next_status(status, outcome)
        else:
            assert (next_status(status, outcome) or status) == TABLE[status][name]


@pytest.mark.parametrize(
    ("status", "name"), [pair for pair in product(TABLE, outcomes(1)) if TABLE[pair[0]][pair[1]]]
)
def test_outcomes_move_files_as_the_table_says_and_twice_as_once(
    book: Book, database: Database, status: FileStatus, name: str
) -> None:
    with database.write() as connection:
        mine = files.c.id == book["a"].id
        connection.execute(update(files).where(mine).values(status=status))
    outcome = outcomes(book["a"].id)[name]
    for _ in range(2):
        book.tell(outcome)
        assert book["a"].status == TABLE[status][name]
    assert book["a"].reason == (
        "it must"
        if name == "kept" and status != "committed"
        else "bad"
        if name == "quarantined" and status in {"pending", "retracting"}
        else None
    )


def test_a_committed_file_is_retracted_with_its_copies_and_the_digest_is_free(book: Book) -> None:
    book.commit("a", "x")
    book.tell(FileOutcome.duplicate(book["b"].id, digest="x"))
    book.commit("c", "y")
    wanted = book.want("a")
    assert (wanted.status, wanted.inserts_only) == ("retracting", False)
    assert book.want("a") == wanted
    assert book.manifest.work(book.graph_id) == {"retract"}
    assert list(book.manifest.retractions.waiting(book.graph_id)) == [wanted]
    assert book.tell(FileOutcome.retracted(wanted.id, digest="x")) == 0
    assert book.statuses() == ["retracted", "retracted", "committed"]
    assert not book.manifest.work(book.graph_id)
    assert book.manifest.retractions.withheld(book.graph_id) == {"/e/a": "x", "/e/b": "x"}
    assert book.want("a").status == "retracted"
    # the same content at another path comes in, and may be retracted in its turn
    book.list(("d", "1"))
    book.commit("d", "x")
    assert book["d"].status == "committed"
    assert book["d"].retractable == "whole"


def test_files_that_wait_are_left_out_whatever_the_deletions(
    book: Book, database: Database
) -> None:
    catalog = Catalog(database)
    graph = catalog.create(GraphSettings(name="off"))
    manifest = book.manifest
    source = manifest.sources.add(graph.id, "/e/")
    manifest.register_files(graph.id, source.id, LISTING)
    waits, _, other = manifest.pending(graph.id)
    assert manifest.retractions.want(graph.id, waits.id).status == "retracting"
    assert waits.path not in {file.path for file in manifest.pending(graph.id)}
    lease = LeaseStore(database).acquire(f"ingest:{graph.id}", "test", 600.0)
    assert lease is not None
    manifest.finish(graph.id, [committed(other.id)], progress=PROGRESS, lease=lease)
    with pytest.raises(RetractionRefused, match="must be exact to take files out, they are off"):
        manifest.retractions.want(graph.id, other.id)


def test_what_cannot_be_retracted_is_refused_with_the_reason(
    book: Book, database: Database
) -> None:
    manifest, graph_id = book.manifest, book.graph_id
    with pytest.raises(FileNotListed):
        manifest.retractions.want(graph_id, 10**9)
    book.commit("a", "x")
    book.tell(FileOutcome.duplicate(book["b"].id, digest="x"))
    with pytest.raises(RetractionRefused, match=f"came with file {book['a'].id}; retract that"):
        book.want("b")
    book.tell(FileOutcome.quarantined(book["c"].id, "bad"))
    with pytest.raises(RetractionRefused, match="it was refused"):
        book.want("c")
    push = pushed(manifest, graph_id, NewPush(body_digest="p", n_rows=1, n_bytes=1, path="/p"))
    with database.write() as connection:
        row = {"graph_id": graph_id, "position": 99, "push_id": push.id, "path": "/p"}
        statement = insert(files).values(**row, version="1", size=1).returning(files.c.id)
        file_id = connection.execute(statement).scalar_one()
    with pytest.raises(RetractionRefused, match="holds pushed edges"):
        manifest.retractions.want(graph_id, file_id)
    with database.write() as connection:
        mine = update(files).where(files.c.id == book["a"].id)
        connection.execute(mine.values(retractable="inserts_only"))
    with pytest.raises(RetractionRefused, match="its inserts only"):
        book.want("a")
    assert book.want("a", inserts_only=True).inserts_only
    assert book.want("a").inserts_only  # as it was asked before


def test_a_newer_version_takes_the_place_and_copies_of_the_earlier_wait_again(book: Book) -> None:
    book.commit("a", "x")
    book.tell(FileOutcome.duplicate(book["b"].id, digest="x"))
    book.list(("a", "2"))
    earlier = book.manifest.retractions.of_path(book.graph_id, "/e/a")[1]
    assert book.tell(committed(book["a"].id, "z")) == 1
    earlier = book.manifest.file(book.graph_id, earlier.id)
    assert (earlier.status, earlier.reason) == ("retracted", REPLACED)
    assert book["a"].status == "committed"
    assert (book["b"].status, book["b"].digest) == ("pending", None)
    assert book.manifest.retractions.withheld(book.graph_id) == {}
    # and back again: what was replaced, not retracted, may return
    book.list(("a", "3"))
    assert book.manifest.retractions.withheld(book.graph_id) == {}
    # by a content that another file has brought
    assert book.tell(FileOutcome.duplicate(book["a"].id, digest="y", has_replaced=True)) == 0
    assert [file.status for file in book.manifest.retractions.of_path(book.graph_id, "/e/a")] == [
        "duplicate",
        "retracted",
        "retracted",
    ]


def test_a_retracted_file_comes_again_where_it_is_asked_for_by_name_only(book: Book) -> None:
    book.commit("a", "x")
    book.retract("a")
    book.list(("a", "1"), ("b", "1"))
    assert book["a"].status == "retracted"
    book.list(("a", "2"))  # its time has changed: only its content can tell
    assert book["a"].status == "pending"
    assert book.manifest.retractions.withheld(book.graph_id) == {"/e/a": "x"}
    book.tell(FileOutcome.retracted(book["a"].id, digest="x"))
    assert book.list(("a", "2"), asked=True) == 1
    assert (book["a"].status, book["a"].version, book["a"].digest) == ("pending", "2", None)
    assert book.manifest.retractions.withheld(book.graph_id) == {}
    assert len(book.manifest.retractions.of_path(book.graph_id, "/e/a")) == 1


def test_the_newest_version_that_was_retracted_can_be_offered_again(book: Book) -> None:
    book.commit("a", "x")
    book.list(("a", "2"))
    book.commit("a", "y")
    newest, replaced = book.manifest.retractions.of_path(book.graph_id, "/e/a")
    assert not book.manifest.retry_file(book.graph_id, newest.id)
    book.retract("a")
    assert not book.manifest.retry_file(book.graph_id, replaced.id)
    assert book.manifest.file(book.graph_id, replaced.id).status == "retracted"
    assert book.manifest.retry_file(book.graph_id, newest.id)
    assert book["a"].status == "pending"
    assert book.manifest.retractions.withheld(book.graph_id) == {}


def test_a_source_that_replaces_offers_what_was_refused(book: Book) -> None:
    book.commit("a", "x")
    book.list(("a", "2"))
    book.tell(FileOutcome.quarantined(book["a"].id, "an earlier version"))
    again = book.manifest.sources.add(book.graph_id, "/e/", replaces=True)
    assert again.replaces
    assert book.manifest.sources.readings(book.graph_id)[again.id].replaces
    assert book.list(("a", "2")) == 1
    assert book["a"].status == "pending"
    assert book.manifest.sources.add(book.graph_id, "/e/").replaces  # as it was
    assert not book.manifest.sources.add(book.graph_id, "/e/", replaces=False).replaces
