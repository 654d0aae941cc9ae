"""Sources, files and pushes of a graph, on SQLite and on PostgreSQL."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import Connection, event, update

from peewit.service.catalog import Catalog, GraphNotFound, GraphProgress
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, LeaseExpired, LeaseStore
from peewit.service.database.tables import leases
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.inbox_records import (
    FILE_GONE,
    Backlog,
    FileNotListed,
    FileOutcome,
    FileRecord,
    ListedFile,
    NewPush,
    PushRecord,
    SourceNotFound,
)
from peewit.service.inbox.manifest import Manifest
from peewit.streaming.left_out import NO_ROWS, LeftOut
from tests.service.pushing import pushed

LISTING = [("edges/b", "1", 20), ("edges/a", "1", 10), ("edges/c", "1", 30)]
PROGRESS = GraphProgress(n_nodes=7, edges_seen=9)


@pytest.fixture
def source_id(manifest: Manifest, graph_id: str) -> str:
    return manifest.sources.add(graph_id, "edges/").id


@pytest.fixture
def lease(database: Database, graph_id: str) -> Lease:
    lease = LeaseStore(database).acquire(f"ingest:{graph_id}", "test", 600.0)
    assert lease is not None
    return lease


@pytest.fixture
def listed(manifest: Manifest, graph_id: str, source_id: str) -> list[FileRecord]:
    manifest.register_files(graph_id, source_id, LISTING)
    return list(manifest.pending(graph_id))


def paths(found: object) -> list[str]:
    assert isinstance(found, list)
    return [each.path for each in found]


def committed(file: FileRecord, digest: str = "d") -> FileOutcome:
    return FileOutcome.committed(file.id, digest=digest, n_rows=5, left_out=LeftOut(1))


def add_push(manifest: Manifest, graph_id: str, path: str) -> PushRecord:
    return pushed(manifest, graph_id, NewPush(body_digest="body", n_rows=3, n_bytes=100, path=path))


def test_a_source_is_added_once_and_follows_as_told_last(manifest: Manifest, graph_id: str) -> None:
    first = manifest.sources.add(graph_id, "s3://bucket/edges/")
    again = manifest.sources.add(graph_id, "s3://bucket/edges/", follow=True)
    assert again == replace(first, follow=True)
    other = manifest.sources.add(graph_id, "more/")
    assert manifest.sources.list(graph_id) == [other, again]


def test_a_removed_source_is_gone_until_it_is_added_again(
    manifest: Manifest, graph_id: str, source_id: str
) -> None:
    manifest.sources.remove(graph_id, source_id)
    assert manifest.sources.list(graph_id) == []
    with pytest.raises(SourceNotFound, match=f"no source '{source_id}'"):
        manifest.sources.remove(graph_id, source_id)
    assert manifest.sources.add(graph_id, "edges/").id == source_id


def test_a_source_belongs_to_its_graph(
    database: Database, manifest: Manifest, source_id: str
) -> None:
    other = Catalog(database).create(GraphSettings(name="other")).id
    with pytest.raises(SourceNotFound):
        manifest.sources.remove(other, source_id)
    with pytest.raises(SourceNotFound):
        manifest.register_files(other, source_id, LISTING)


def test_a_url_must_have_a_bearable_length(manifest: Manifest, graph_id: str) -> None:
    for url in ("", "x" * 2001, "a\0b", "\udc80"):
        with pytest.raises(ValueError, match="url must"):
            manifest.sources.add(graph_id, url)


def test_files_wait_in_the_order_of_their_listing(listed: list[FileRecord], source_id: str) -> None:
    assert [(file.path, file.version, file.size) for file in listed] == LISTING
    assert [file.position for file in listed] == [1, 2, 3]
    assert {(file.status, file.source_id, file.push_id) for file in listed} == {
        ("pending", source_id, None)
    }


def test_the_same_listing_again_writes_nothing(
    database: Database, manifest: Manifest, graph_id: str, source_id: str, listed: object
) -> None:
    statements: list[str] = []

    def note(_: Connection, _cursor: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    assert manifest.register_files(graph_id, source_id, LISTING) == 0
    assert not [each for each in statements if "INSERT" in each or "UPDATE" in each]
    assert manifest.pending(graph_id) == listed


def test_a_listing_may_name_a_file_twice(manifest: Manifest, graph_id: str, source_id: str) -> None:
    assert manifest.register_files(graph_id, source_id, LISTING + LISTING[:1]) == 3


@pytest.mark.parametrize("outcome", ["committed", "quarantined"])
def test_another_version_of_a_file_is_a_new_file(
    manifest: Manifest,
    graph_id: str,
    source_id: str,
    lease: Lease,
    listed: list[FileRecord],
    outcome: str,
) -> None:
    first = listed[0]
    ended = {"committed": committed(first), "quarantined": FileOutcome.quarantined(first.id, "bad")}
    manifest.finish(graph_id, [ended[outcome]], progress=PROGRESS, lease=lease)
    assert manifest.register_files(graph_id, source_id, [("edges/b", "2", 21)]) == 1
    assert paths(manifest.pending(graph_id)) == ["edges/a", "edges/c", "edges/b"]
    assert manifest.file(graph_id, first.id).status == outcome
    in_graph = paths(manifest.list_files(graph_id, status="committed"))
    assert in_graph == (["edges/b"] if outcome == "committed" else [])


def test_a_path_too_long_is_refused_with_its_name(
    manifest: Manifest, graph_id: str, source_id: str
) -> None:
    with pytest.raises(ValueError, match=r"path must have 1 to 2000 bytes .* got 2001 bytes, 'xxx"):
        manifest.register_files(graph_id, source_id, [("x" * 2001, "1", 1)])
    assert manifest.register_files(graph_id, source_id, [("x" * 2000, "1", 1)]) == 1


def test_a_source_stays_followed_until_it_is_told_or_removed(
    manifest: Manifest, graph_id: str
) -> None:
    add = partial(manifest.sources.add, graph_id, "s3://bucket/more")
    assert [add().follow, add(follow=True).follow, add().follow] == [False, True, True]
    assert not add(follow=False).follow
    manifest.sources.remove(graph_id, add(follow=True).id)
    assert not add().follow


def test_files_of_a_removed_source_are_not_offered_until_a_source_lists_them(
    manifest: Manifest, graph_id: str, source_id: str, listed: list[FileRecord]
) -> None:
    manifest.sources.remove(graph_id, source_id)
    assert manifest.pending(graph_id) == []
    assert manifest.backlog(graph_id) == Backlog(n_files=0, n_bytes=0, pushed_bytes=0)
    other = manifest.sources.add(graph_id, "edges/a").id
    assert manifest.register_files(graph_id, other, LISTING[1:2]) == 0
    assert manifest.pending(graph_id) == [replace(listed[1], source_id=other)]
    manifest.sources.add(graph_id, "edges/")
    assert manifest.pending(graph_id) == [listed[0], replace(listed[1], source_id=other), listed[2]]


def test_refused_files_of_a_removed_source_are_forgotten(
    manifest: Manifest, graph_id: str, source_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    bad = FileOutcome.quarantined(listed[0].id, "no text", value="x")
    outcomes = [bad, committed(listed[1])]
    manifest.finish(graph_id, outcomes, progress=PROGRESS, lease=lease)
    manifest.sources.remove(graph_id, source_id)
    assert manifest.counts(graph_id)["quarantined"] == 0
    assert manifest.counts(graph_id)["committed"] == 1
    manifest.sources.add(graph_id, "edges/")
    assert manifest.register_files(graph_id, source_id, LISTING) == 1, "it may come again"


def test_how_files_end_is_stored_with_the_progress_of_the_graph(
    database: Database, manifest: Manifest, graph_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    good, bad, twin = listed
    outcomes = [
        committed(good, "digest"),
        FileOutcome.quarantined(bad.id, "weight must be > 0", row=10**10, value="-1.0"),
        FileOutcome.duplicate(twin.id, digest="digest"),
    ]
    manifest.finish(graph_id, outcomes, progress=PROGRESS, lease=lease)
    good, bad, twin = manifest.list_files(graph_id)
    assert (good.status, good.digest, good.n_rows, good.left_out.self_loops) == (
        "committed",
        "digest",
        5,
        1,
    )
    assert (bad.status, bad.reason, bad.row, bad.value) == (
        "quarantined",
        "weight must be > 0",
        10**10,
        "-1.0",
    )
    assert (twin.status, twin.digest) == ("duplicate", "digest")
    assert None not in {file.finished_at for file in (good, bad, twin)}
    assert Catalog(database).get("g").progress == PROGRESS
    assert manifest.list_files(graph_id, status="committed") == [good]
    assert manifest.counts(graph_id) == {
        "pending": 0,
        "committed": 1,
        "quarantined": 1,
        "duplicate": 1,
        "retracting": 0,
        "retracted": 0,
    }


def test_the_same_end_may_be_told_twice_but_no_other(
    manifest: Manifest, graph_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    file = listed[0]
    manifest.finish(graph_id, [committed(file)], progress=PROGRESS, lease=lease)
    stored = manifest.file(graph_id, file.id)
    manifest.finish(graph_id, [committed(file)], progress=PROGRESS, lease=lease)
    assert manifest.file(graph_id, file.id) == stored
    bad = FileOutcome.quarantined(file.id, "bad")
    with pytest.raises(ValueError, match="is committed, it cannot become quarantined"):
        manifest.finish(graph_id, [bad], progress=PROGRESS, lease=lease)


def test_all_of_a_call_is_stored_or_nothing(
    database: Database, manifest: Manifest, graph_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    unknown = FileOutcome.duplicate(10**6, digest="d")
    with pytest.raises(FileNotListed, match="no file 1000000"):
        manifest.finish(graph_id, [committed(listed[0]), unknown], progress=PROGRESS, lease=lease)
    assert manifest.pending(graph_id) == listed
    assert Catalog(database).get("g").progress == GraphProgress()


def test_who_lost_the_lease_stores_nothing(
    database: Database, manifest: Manifest, graph_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    with database.write() as connection:
        connection.execute(update(leases).values(expires_at=now(-0.001)))
    assert LeaseStore(database).acquire(lease.name, "other", 600.0) is not None
    with pytest.raises(LeaseExpired):
        manifest.finish(graph_id, [committed(listed[0])], progress=PROGRESS, lease=lease)
    assert manifest.pending(graph_id) == listed
    assert Catalog(database).get("g").progress == GraphProgress()


def test_what_is_quarantined_is_shown_even_if_it_is_no_text(
    manifest: Manifest, graph_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    bad = FileOutcome.quarantined(listed[0].id, "no text", value="\udc80\0" + "x" * 1000)
    manifest.finish(graph_id, [bad], progress=PROGRESS, lease=lease)
    value = manifest.file(graph_id, listed[0].id).value
    assert value is not None
    assert value.startswith("\\udc80\\x00xxx")
    assert value.endswith("x…")
    assert len(value) == 200


def test_quarantined_files_of_a_source_are_offered_again_at_the_end(
    manifest: Manifest, graph_id: str, source_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    bad = [FileOutcome.quarantined(file.id, "bad", row=1, value="x") for file in listed[:2]]
    manifest.finish(graph_id, bad, progress=PROGRESS, lease=lease)
    assert manifest.retry_source(graph_id, source_id) == 2
    pending = manifest.pending(graph_id)
    assert paths(pending) == ["edges/c", "edges/b", "edges/a"]
    assert [replace(file, position=0) for file in pending[1:]] == [
        replace(file, position=0) for file in listed[:2]
    ]
    assert manifest.retry_source(graph_id, source_id) == 0


def test_one_file_can_be_offered_again(
    manifest: Manifest, graph_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    first, second, _ = listed
    ends = [FileOutcome.quarantined(first.id, "bad"), committed(second)]
    manifest.finish(graph_id, ends, progress=PROGRESS, lease=lease)
    assert manifest.retry_file(graph_id, first.id)
    assert not manifest.retry_file(graph_id, first.id)
    assert not manifest.retry_file(graph_id, second.id)
    assert paths(manifest.pending(graph_id)) == ["edges/c", "edges/b"]


def test_the_manifest_is_read_page_by_page(
    manifest: Manifest, graph_id: str, source_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    manifest.finish(graph_id, [committed(listed[1])], progress=PROGRESS, lease=lease)
    first = manifest.list_files(graph_id, limit=2)
    rest = manifest.list_files(graph_id, after_id=first[-1].id, limit=10)
    assert paths([*first, *rest]) == ["edges/b", "edges/a", "edges/c"]
    assert paths(manifest.list_files(graph_id, status="committed")) == ["edges/a"]
    assert len(manifest.list_files(graph_id, source_id=source_id)) == 3
    assert manifest.counts(graph_id, source_id=source_id)["pending"] == 2
    assert manifest.file(graph_id, first[0].id) == first[0]


def test_a_listing_longer_than_one_statement_is_compared_whole(
    manifest: Manifest, graph_id: str, source_id: str
) -> None:
    listing = [(f"edges/{number}", "1", 1) for number in range(1_200)]
    assert manifest.register_files(graph_id, source_id, listing[::2]) == 600
    assert manifest.register_files(graph_id, source_id, listing) == 600
    assert manifest.register_files(graph_id, source_id, [*listing, ("edges/x", "1", 1)]) == 1
    unknown, known = manifest.unknown_files(graph_id, [ListedFile("edges/0", "1", 1)])
    assert (unknown, [file.path for file in known]) == ([], ["edges/0"])


def test_a_file_that_was_gone_and_is_back_is_offered_again(
    manifest: Manifest, graph_id: str, source_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    gone, bad, _ = listed
    ends = [FileOutcome.quarantined(gone.id, FILE_GONE), FileOutcome.quarantined(bad.id, "bad")]
    manifest.finish(graph_id, ends, progress=PROGRESS, lease=lease)
    assert manifest.register_files(graph_id, source_id, LISTING) == 1
    assert paths(manifest.pending(graph_id)) == ["edges/c", "edges/b"]


def test_a_duplicate_that_is_touched_again_and_again_counts_once(
    manifest: Manifest, graph_id: str, source_id: str, lease: Lease, listed: list[FileRecord]
) -> None:
    path = listed[0].path
    for version in ("1", "2", "3"):
        manifest.register_files(graph_id, source_id, [(path, version, 10)])
        (file,) = [
            each
            for each in manifest.pending(graph_id)
            if (each.path, each.version) == (path, version)
        ]
        ended = [FileOutcome.duplicate(file.id, digest="d")]
        for _ in range(2):  # told again after a death
            manifest.finish(graph_id, ended, progress=PROGRESS, lease=lease)
        assert manifest.counts(graph_id)["duplicate"] == 1
    assert manifest.register_files(graph_id, source_id, [(path, "3", 10)]) == 0
    manifest.register_files(graph_id, source_id, [(path, "4", 10)])
    file = manifest.pending(graph_id)[-1]
    ended = [FileOutcome.duplicate(file.id, digest="other content")]
    manifest.finish(graph_id, ended, progress=PROGRESS, lease=lease)
    assert manifest.counts(graph_id)["duplicate"] == 2


@pytest.mark.parametrize("end", ["committed", "duplicate", "pending"])
def test_a_refused_version_with_a_newer_one_is_forgotten_not_retried(
    manifest: Manifest,
    graph_id: str,
    source_id: str,
    lease: Lease,
    listed: list[FileRecord],
    end: str,
) -> None:
    """It would be read as what the file is now, and count a second time."""
    mended, bad, _ = listed
    ends = [FileOutcome.quarantined(each.id, "bad") for each in (mended, bad)]
    manifest.finish(graph_id, ends, progress=PROGRESS, lease=lease)
    manifest.register_files(graph_id, source_id, [(mended.path, "mended", 10)])
    newer = manifest.pending(graph_id)[-1]
    ended = {
        "committed": [FileOutcome.committed(newer.id, digest="d", n_rows=1, left_out=NO_ROWS)],
        "duplicate": [FileOutcome.duplicate(newer.id, digest="d")],
        "pending": [],
    }[end]
    manifest.finish(graph_id, ended, progress=PROGRESS, lease=lease)
    before = manifest.counts(graph_id)
    assert manifest.retry_source(graph_id, source_id) == 1
    after = manifest.counts(graph_id)
    assert (before["quarantined"], after["quarantined"]) == (2, 0)
    assert after["pending"] == before["pending"] + 1
    assert bad.path in paths(manifest.pending(graph_id))


def test_failures_of_a_source_are_kept_until_it_answers_or_is_forgiven(
    manifest: Manifest, graph_id: str, source_id: str
) -> None:
    (source,) = manifest.sources.list(graph_id)
    assert (source.listed_at, source.error, source.n_failures) == (None, None, 0)
    for _ in range(2):
        manifest.sources.note_listing(source_id, error="OSError: no route")
    (source,) = manifest.sources.list(graph_id)
    assert (source.error, source.n_failures) == ("OSError: no route", 2)
    assert source.error_at is not None
    assert manifest.retry_source(graph_id, source_id) == 0
    assert manifest.sources.list(graph_id)[0].n_failures == 0
    manifest.sources.note_listing(source_id, error="again")
    manifest.sources.note_listing(source_id)
    (source,) = manifest.sources.list(graph_id)
    assert (source.error, source.error_at, source.n_failures) == (None, None, 0)
    assert source.listed_at is not None


def test_files_of_sources_at_rest_are_passed_over(
    manifest: Manifest, graph_id: str, source_id: str, listed: list[FileRecord]
) -> None:
    assert manifest.work(graph_id)
    assert manifest.busy_graphs() == {graph_id}
    assert not manifest.work(graph_id, skipped_sources=[source_id])
    assert manifest.pending(graph_id, skipped_sources=[source_id]) == []
    add_push(manifest, graph_id, "pushes/1")
    assert manifest.work(graph_id, skipped_sources=[source_id])
    assert manifest.counts(graph_id)["pending"] == 4
    assert manifest.backlog(graph_id) == Backlog(n_files=4, n_bytes=160, pushed_bytes=100)


def test_turns_follow_the_commits_when_many_register_at_once(
    manifest: Manifest, graph_id: str, source_id: str
) -> None:
    def register(number: int) -> int:
        add_push(manifest, graph_id, f"pushes/{number}")
        return manifest.register_files(graph_id, source_id, LISTING)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(register, range(6), timeout=60)) == len(LISTING)
    turns = [*manifest.pending(graph_id), *manifest.push_log.ungathered(graph_id)]
    assert sorted(each.position for each in turns) == list(range(1, 10))


def test_nothing_is_added_to_a_graph_that_was_deleted(
    database: Database,
    manifest: Manifest,
    graph_id: str,
    source_id: str,
    lease: Lease,
    listed: list[FileRecord],
) -> None:
    Catalog(database).delete(graph_id, cancel_jobs=lambda *_: None)
    for forbidden in (
        lambda: manifest.sources.add(graph_id, "more/"),
        lambda: manifest.register_files(graph_id, source_id, [("edges/new", "1", 1)]),
        lambda: add_push(manifest, graph_id, "pushes/1"),
        lambda: manifest.retry_file(graph_id, listed[0].id),
        lambda: manifest.finish(graph_id, [], progress=PROGRESS, lease=lease),
    ):
        with pytest.raises(GraphNotFound):
            forbidden()
