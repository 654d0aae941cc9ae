"""Pushes of a graph: taken in together, gathered, taken apart, forgotten; on both databases."""

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from peewit.service.catalog import Catalog, GraphNotFound, GraphProgress, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, LeaseExpired, LeaseStore
from peewit.service.database.tables import files, graphs, pushes
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.inbox_records import (
    BacklogFull,
    FileOutcome,
    FileRecord,
    NewPush,
    PushLimits,
    PushNotFound,
    PushRecord,
)
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.push_gatherer import GATHER_ROWS, gather_pushes
from peewit.service.inbox.push_log import UngatheredPush
from peewit.service.inbox.pushes import SMALL_BYTES, PushStore
from peewit.service.jobs.job import IdempotencyConflict
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.left_out import NO_ROWS
from tests.service.lost_answers import commits_unanswered
from tests.service.pushing import NO_LIMITS, pushed

PROGRESS = GraphProgress(n_nodes=7, edges_seen=9)


@pytest.fixture
def graph(database: Database) -> GraphRecord:
    return Catalog(database).create(GraphSettings(name="g", node_ids="int64"))


@pytest.fixture
def lease(database: Database, graph: GraphRecord) -> Lease:
    lease = LeaseStore(database).acquire(f"ingest:{graph.id}", "test", 600.0)
    assert lease is not None
    return lease


@pytest.fixture
def store(manifest: Manifest, tmp_path: Path) -> PushStore:
    return PushStore(
        manifest=manifest,
        graphs_directory=tmp_path / "graphs",
        max_backlog_bytes=10**9,
        max_total_backlog_bytes=10**9,
    )


def block(key: str | None = None, body: str = "body", n_bytes: int = 100) -> NewPush:
    return NewPush(body_digest=body, n_rows=3, n_bytes=n_bytes, content=b"c", idempotency_key=key)


def waiting_bytes(database: Database, graph: GraphRecord) -> int:
    with database.read() as connection:
        statement = select(graphs.c.pushed_bytes).where(graphs.c.id == graph.id)
        return int(connection.execute(statement).scalar_one())


def push_edges(store: PushStore, graph: GraphRecord, first: int, n_edges: int = 3) -> str:
    """Push the edges (first, first + 1), (first + 1, first + 2), and so on."""
    lines = "".join(f"{node},{node + 1}\n" for node in range(first, first + n_edges))
    body = io.BytesIO(f"src,dst\n{lines}".encode())
    return store.add(graph, body, Format.CSV, body_digest=str(first)).id


def gather(
    manifest: Manifest, graph: GraphRecord, directory: Path, lease: Lease
) -> list[FileRecord]:
    """The files that were made of what waits."""
    before = {file.id for file in manifest.pending(graph.id)}
    gather_pushes(manifest.push_log, graph, directory, lease=lease)
    return [file for file in manifest.pending(graph.id) if file.id not in before]


def test_a_push_with_a_key_that_came_before_is_the_earlier_one(
    manifest: Manifest, graph: GraphRecord
) -> None:
    first = pushed(manifest, graph.id, block("key"))
    again = replace(first, is_repeated=True)
    assert pushed(manifest, graph.id, block("key")) == again
    assert manifest.push_log.find(graph.id, "key", "body") == again
    assert manifest.push_log.find(graph.id, "other key", "body") is None
    assert [push.id for push in manifest.push_log.ungathered(graph.id)] == [first.id]
    assert manifest.push_log.get(graph.id, first.id) == first


def test_a_key_that_came_before_with_another_body_is_refused(
    manifest: Manifest, graph: GraphRecord
) -> None:
    pushed(manifest, graph.id, block("key"))
    with pytest.raises(IdempotencyConflict, match="'key' came before with another body"):
        pushed(manifest, graph.id, block("key", "other body"))
    with pytest.raises(IdempotencyConflict):
        manifest.push_log.find(graph.id, "key", "other body")


def test_of_pushes_taken_in_together_each_has_its_own_answer(
    manifest: Manifest, graph: GraphRecord
) -> None:
    first = pushed(manifest, graph.id, block("old"))
    together = [block(), block("old"), block("new"), block("new"), block("new", "x"), block()]
    answers = manifest.push_log.add(graph.id, together, NO_LIMITS)
    alone, again, new, same, conflict, last = answers
    assert again == replace(first, is_repeated=True)
    assert isinstance(new, PushRecord)
    assert same == replace(new, is_repeated=True)
    assert isinstance(conflict, IdempotencyConflict)
    waiting = [push.id for push in manifest.push_log.ungathered(graph.id)]
    assert waiting == [each.id for each in (first, alone, new, last)]  # type: ignore[union-attr]


def test_pushes_of_one_transaction_fill_the_room_in_turn(
    database: Database, manifest: Manifest, graph: GraphRecord
) -> None:
    limits = PushLimits(graph_bytes=250, total_bytes=10**9)
    answers = manifest.push_log.add(graph.id, [block(), block(), block()], limits)
    assert [isinstance(each, BacklogFull) for each in answers] == [False, False, True]
    assert waiting_bytes(database, graph) == 200
    other = Catalog(database).create(GraphSettings(name="other"))
    with pytest.raises(BacklogFull, match=r"of all graphs .* below 250 bytes, got 200"):
        pushed(manifest, other.id, block(), PushLimits(graph_bytes=10**9, total_bytes=250))


def test_the_first_push_is_taken_whatever_its_size(manifest: Manifest, graph: GraphRecord) -> None:
    pushed(manifest, graph.id, block(n_bytes=1000), PushLimits(graph_bytes=1, total_bytes=1))


def test_a_key_is_the_graphs_own(
    database: Database, manifest: Manifest, graph: GraphRecord
) -> None:
    other = Catalog(database).create(GraphSettings(name="other"))
    first = pushed(manifest, graph.id, block("key"))
    assert pushed(manifest, other.id, block("key", "other body")).id != first.id
    with pytest.raises(PushNotFound):
        manifest.push_log.get(other.id, first.id)


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_a_key_must_have_a_bearable_length(key: str) -> None:
    with pytest.raises(ValueError, match=f"1 to 255 characters, got {len(key)}"):
        block(key)


def test_of_many_pushes_with_one_key_at_once_one_is_taken(
    store: PushStore, manifest: Manifest, graph: GraphRecord
) -> None:
    def push(_number: int) -> str:
        body = io.BytesIO(b"src,dst\n1,2\n")
        return store.add(graph, body, Format.CSV, body_digest="d", idempotency_key="key").id

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(push, range(8), timeout=60))) == 1
    assert len(manifest.push_log.ungathered(graph.id)) == 1


def test_nothing_is_pushed_to_a_graph_that_was_deleted(
    database: Database, store: PushStore, graph: GraphRecord, tmp_path: Path
) -> None:
    Catalog(database).delete(graph.id, cancel_jobs=lambda *_: None)
    for n_edges in (3, 20_000):
        with pytest.raises(GraphNotFound):
            push_edges(store, graph, 0, n_edges)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_small_pushes_lie_in_the_database_and_large_ones_on_disk(
    manifest: Manifest, store: PushStore, graph: GraphRecord, tmp_path: Path
) -> None:
    push_edges(store, graph, 0)
    push_edges(store, graph, 0, SMALL_BYTES // 8)
    small, large = manifest.push_log.ungathered(graph.id)
    assert small.path == ""
    assert [str(path) for path in tmp_path.rglob("*.parquet")] == [large.path]
    contents = dict(manifest.push_log.contents([small.id, large.id, "none"]))
    assert contents[small.id] is not None
    assert (contents[large.id], contents["none"]) == (None, None)


def test_a_push_whose_commit_was_not_answered_keeps_its_block(
    database: Database, manifest: Manifest, store: PushStore, graph: GraphRecord
) -> None:
    with commits_unanswered(database), pytest.raises(OperationalError):
        push_edges(store, graph, 0, SMALL_BYTES // 8)
    (stored,) = manifest.push_log.ungathered(graph.id)
    assert pq.read_metadata(stored.path).num_rows == stored.n_rows


def test_gathered_pushes_are_one_file_of_their_edges_in_order(
    database: Database,
    manifest: Manifest,
    store: PushStore,
    graph: GraphRecord,
    lease: Lease,
    tmp_path: Path,
) -> None:
    sizes = {0: 3, 10: 3, 100: 20_000, 20: 3, 30: 3}
    pushed_ids = [push_edges(store, graph, first, n_edges) for first, n_edges in sizes.items()]
    before = waiting_bytes(database, graph)
    (file,) = gather(manifest, graph, tmp_path / "pushes", lease)
    first = manifest.push_log.get(graph.id, pushed_ids[0])
    assert (file.push_id, file.position) == (first.id, first.position)
    assert {manifest.push_log.get(graph.id, each).file for each in pushed_ids} == {file}
    assert manifest.push_log.ungathered(graph.id) == []
    expected = [node for start, n in sizes.items() for node in range(start, start + n)]
    assert pq.read_table(file.path)["src"].to_pylist() == expected
    assert waiting_bytes(database, graph) == before, "they wait until they are in the graph"
    outcome = FileOutcome.committed(file.id, digest="d", n_rows=1, left_out=NO_ROWS)
    for _ in range(2):  # told again after a fault
        manifest.finish(graph.id, [outcome], progress=PROGRESS, lease=lease)
    assert waiting_bytes(database, graph) == 0
    assert [content for _, content in manifest.push_log.contents(pushed_ids)] == [None] * 5


def test_equal_pushes_make_different_files(
    manifest: Manifest, store: PushStore, graph: GraphRecord, lease: Lease, tmp_path: Path
) -> None:
    contents = []
    for _ in range(2):
        push_edges(store, graph, 0)
        (file,) = gather(manifest, graph, tmp_path, lease)
        contents.append(Path(file.path).read_bytes())
    assert contents[0] != contents[1]


def test_a_gathered_file_is_taken_apart_into_single_ones(
    database: Database,
    manifest: Manifest,
    store: PushStore,
    graph: GraphRecord,
    lease: Lease,
    tmp_path: Path,
) -> None:
    ids = [push_edges(store, graph, 10 * number) for number in range(3)]
    (file,) = gather(manifest, graph, tmp_path, lease)
    before = waiting_bytes(database, graph)
    assert manifest.push_log.take_apart(graph.id, file.id, lease=lease)
    ids.append(push_edges(store, graph, 30))
    ids.append(push_edges(store, graph, 40))
    assert waiting_bytes(database, graph) > before
    single = gather(manifest, graph, tmp_path, lease)
    of_push = [manifest.push_log.get(graph.id, each).file for each in ids]
    assert [each.id for each in of_push if each] == [
        single[0].id,
        single[1].id,
        single[2].id,
        single[3].id,
        single[3].id,
    ]
    assert not manifest.push_log.take_apart(graph.id, single[0].id, lease=lease)
    assert of_push[0] == single[0]


def test_bounds_end_a_gathered_file(
    manifest: Manifest, graph: GraphRecord, lease: Lease, tmp_path: Path
) -> None:
    sink = pa.BufferOutputStream()
    columns = {name: pa.array([1]) for name in ("src", "dst")} | {
        "weight": pa.array([1.0], pa.float32())
    }
    with pa.ipc.new_stream(sink, pa.table(columns).schema) as writer:
        writer.write_table(pa.table(columns))
    content = sink.getvalue().to_pybytes()
    for n_rows in (10, GATHER_ROWS, 10, 10):  # what they claim is what bounds look at
        new = NewPush(body_digest="d", n_rows=n_rows, n_bytes=len(content), content=content)
        pushed(manifest, graph.id, new)
    assert len(gather(manifest, graph, tmp_path, lease)) == 2


def test_without_the_lease_nothing_is_gathered_or_taken_apart(
    database: Database,
    manifest: Manifest,
    store: PushStore,
    graph: GraphRecord,
    lease: Lease,
    tmp_path: Path,
) -> None:
    ids = [push_edges(store, graph, 10 * number) for number in range(2)]
    (file,) = gather(manifest, graph, tmp_path, lease)
    push_edges(store, graph, 20)
    LeaseStore(database).release(lease)
    with pytest.raises(LeaseExpired):
        gather_pushes(manifest.push_log, graph, tmp_path, lease=lease)
    with pytest.raises(LeaseExpired):
        manifest.push_log.take_apart(graph.id, file.id, lease=lease)
    assert len(manifest.push_log.ungathered(graph.id)) == 1
    assert {manifest.push_log.get(graph.id, each).file for each in ids} == {file}


def test_pushes_are_forgotten_in_time_and_those_with_a_key_later(
    database: Database,
    manifest: Manifest,
    graph: GraphRecord,
    store: PushStore,
    lease: Lease,
    tmp_path: Path,
) -> None:
    def add(key: str | None) -> str:
        body = io.BytesIO(b"src,dst\n1,2\n")
        return store.add(graph, body, Format.CSV, body_digest="d", idempotency_key=key).id

    first, other, keyed = add(None), add(None), add("key")
    (file,) = gather(manifest, graph, tmp_path, lease)
    waiting = add(None)

    def forget() -> int:
        return manifest.push_log.forget(graph.id, older_than_seconds=60.0, keyed_seconds=3600.0)

    assert forget() == 0, "none of them is in the graph yet"
    outcome = FileOutcome.committed(file.id, digest="d", n_rows=3, left_out=NO_ROWS)
    manifest.finish(graph.id, [outcome], progress=PROGRESS, lease=lease)
    assert forget() == 0
    age(database, file, 61.0)
    assert forget() == 1
    with pytest.raises(PushNotFound):
        manifest.push_log.get(graph.id, other)
    assert manifest.push_log.find(graph.id, "key", "d") is not None
    age(database, file, 3601.0)
    assert forget() == 1
    assert manifest.push_log.find(graph.id, "key", "d") is None
    assert keyed != first
    with database.read() as connection:
        left = set(connection.execute(select(pushes.c.id)).scalars())
    assert left == {first, waiting}


def test_a_quarantined_push_that_is_retried_waits_again(
    database: Database,
    manifest: Manifest,
    store: PushStore,
    graph: GraphRecord,
    lease: Lease,
    tmp_path: Path,
) -> None:
    push_edges(store, graph, 0)
    n_bytes = waiting_bytes(database, graph)
    (file,) = gather(manifest, graph, tmp_path, lease)
    outcome = FileOutcome.quarantined(file.id, "max_nodes")
    manifest.finish(graph.id, [outcome], progress=PROGRESS, lease=lease)
    assert waiting_bytes(database, graph) == 0
    assert manifest.retry_file(graph.id, file.id)
    assert waiting_bytes(database, graph) == n_bytes


def test_turns_of_pushes_follow_the_commits(
    store: PushStore, manifest: Manifest, graph: GraphRecord
) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: push_edges(store, graph, number), range(20), timeout=60))
    waiting: list[UngatheredPush] = list(manifest.push_log.ungathered(graph.id))
    assert [push.position for push in waiting] == list(range(1, 21))
    assert sum(push.n_rows for push in waiting) == 60


def age(database: Database, file: FileRecord, seconds: float) -> None:
    """Let a file have ended so long ago."""
    with database.write() as connection:
        mine = update(files).where(files.c.id == file.id)
        connection.execute(mine.values(finished_at=now(-seconds)))
