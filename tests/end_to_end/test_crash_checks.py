"""The checks of the crash test find the faults that are planted in a home that is right."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from sqlalchemy import delete, insert, select, update

from peewit.service.database.tables import files, graphs, job_events, jobs, label_events
from peewit.service.graph_settings import AutoSolve, GraphSettings
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.jobs.job import JobSpec, JobStatus
from peewit.service.labels.label_entry import Labeling
from peewit.service.tables.uploads import UploadedLabels
from peewit.service.worker.worker import Worker
from peewit.streaming.graph_paths import GraphPaths
from tests.end_to_end.crashing.checks import (
    History,
    check_auto_solve,
    check_edges,
    check_jobs,
    check_labels,
    check_tables,
)
from tests.end_to_end.crashing.load import GRAPH, parquet_bytes
from tests.end_to_end.crashing.record import (
    AskedJob,
    EdgeBatch,
    LabelBatch,
    LabelEvent,
    Record,
    TableRead,
)
from tests.service.places import Place

A, B, C, D = (("a", "red"), ("b", "green"), ("c", "blue"), ("d", None))


def found(events: list[LabelEvent]) -> list[str]:
    """What is wrong with a history of [a, b] without answer, [c] as number 3, [d] as number 4."""
    record = Record(
        label_batches=[
            LabelBatch(events=[A, B]),
            LabelBatch(events=[C], labels_seq=3, accepted=1),
            LabelBatch(events=[D], labels_seq=4, accepted=1, is_removal=True),
        ]
    )
    no_graph = cast("Any", None)
    paths = GraphPaths(root=Path("nowhere"))
    history = History(graph=no_graph, events=events, absorbed=(), paths=paths)
    return list(check_labels(record, history))


def test_whole_batches_in_order_are_right() -> None:
    assert found([A, B, C, D]) == []


@pytest.mark.parametrize(
    ("events", "wrong"),
    [
        ([A, B, C], "is lost"),
        ([A, B, D, C], "is lost"),
        ([A, C, D], "is lost"),
        ([B, A, C, D], "part of no whole batch"),
        ([A, B, C, D, A], "part of no whole batch"),
        ([A, B, C, D, A, B], "part of no whole batch"),
    ],
)
def test_a_lost_a_torn_and_a_doubled_batch_are_found(events: list[LabelEvent], wrong: str) -> None:
    assert any(wrong in each for each in found(events))


@dataclass
class Sound:
    """A home that did all it was asked, and what its clients were told."""

    place: Place
    record: Record

    def faults(self) -> list[str]:
        """What all checks find."""
        history = History.of(self.place.database, self.place.settings)
        database = self.place.database
        return [
            *check_labels(self.record, history),
            *check_edges(self.record, history, database),
            *check_jobs(self.record, history, database),
            *check_tables(self.record, history, database),
            *check_auto_solve(history.graph, database),
        ]

    def execute(self, *statements: Any) -> None:
        with self.place.database.write() as connection:
            for each in statements:
                connection.execute(each)

    @property
    def solved(self) -> str:
        """The job that somebody asked for and whose predictions somebody read."""
        return self.record.jobs[0].id

    @property
    def cancelled(self) -> str:
        return self.record.jobs[1].id


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sound]:
    """Two files of edges, three labels, a solve, a cancelled job, and what ``auto_solve`` did."""
    place = Place(tmp_path_factory.mktemp("sound") / "home")
    inbox = tmp_path_factory.mktemp("inbox")
    auto_solve = AutoSolve(model="harmonic-mbo")
    graph = place.catalog.create(
        GraphSettings(name=GRAPH, epsilon=0.9, expected_nodes=12, seed=3, auto_solve=auto_solve)
    )
    source = place.manifest.sources.add(graph.id, str(inbox))
    record = Record()
    for first in (0, 6):
        nodes = range(first, first + 6)
        batch = EdgeBatch(
            number=record.next_number(),
            src=[f"n{node}" for node in nodes],
            dst=[f"n{(node + 3) % 12}" for node in nodes],
            fate="committed",
            path=str(inbox / f"{first}.parquet"),
        )
        Path(str(batch.path)).write_bytes(parquet_bytes(batch))
        record.edge_batches.append(batch)
    listed = [(batch.path, "1", 1) for batch in record.edge_batches]
    place.manifest.register_files(graph.id, source.id, cast("Any", listed))
    place.ingest(GRAPH)
    labeling = Labeling(
        database=place.database,
        labels=place.labels,
        nodes=KnownNodes(place.settings.graphs_directory, place.manifest),
    )
    labels = UploadedLabels(nodes=["n0", "n1", "n2"], labels=["red", "green", "blue"])
    receipt = labeling.put(place.catalog.get(GRAPH), {"": labels})
    record.label_batches.append(
        LabelBatch(
            events=[("n0", "red"), ("n1", "green"), ("n2", "blue")],
            labels_seq=receipt.labels_seq,
            accepted=3,
        )
    )
    spec = JobSpec(graph_id=graph.id, model="hfs", parameters={}, lane="fast")
    asked, dropped = place.queue.submit(spec), place.queue.submit(spec)
    place.queue.cancel(dropped.id)
    worker = Worker(place.database, place.settings)
    with place.database.read() as connection:
        waiting = connection.execute(select(jobs.c.id).where(jobs.c.status == "queued")).scalars()
        ended = {job: worker.run_one(job) for job in waiting.all()}
    assert {job.status for job in ended.values()} == {JobStatus.SUCCEEDED}
    assert len(ended) == 2
    record.jobs += [AskedJob(id=asked.id), AskedJob(id=dropped.id, is_cancelled=True)]
    done = ended[asked.id]
    assert done.snapshot is not None
    assert done.labels_seq is not None
    record.read(
        TableRead(
            job=done.id,
            snapshot=done.snapshot,
            labels_seq=done.labels_seq,
            n_rows=12,
            digest="as read",
        )
    )
    yield Sound(place, record)
    place.database.close()


@pytest.fixture
def sound(made: Sound) -> Iterator[Sound]:
    """The same for each test: what it does to the rows is put right behind it."""
    tables = (graphs, files, jobs, job_events, label_events)
    with made.place.database.read() as connection:
        kept = {table: connection.execute(select(table)).mappings().all() for table in tables}
    yield Sound(made.place, _copied(made.record))
    with made.place.database.write() as connection:
        for table in reversed(tables):
            if table is not graphs:
                connection.execute(delete(table))
        connection.execute(update(graphs).values(**dict(kept[graphs][0])))
        for table in tables[1:]:
            connection.execute(insert(table), [dict(row) for row in kept[table]])


def _copied(record: Record) -> Record:
    return Record(
        label_batches=deepcopy(record.label_batches),
        edge_batches=deepcopy(record.edge_batches),
        jobs=deepcopy(record.jobs),
        tables=dict(record.tables),
    )


def test_a_home_that_did_all_it_was_asked_has_no_faults(sound: Sound) -> None:
    assert sound.faults() == []
    assert len(sound.record.tables) == 1


def _lose_a_batch(sound: Sound) -> None:
    sound.record.edge_batches.append(
        EdgeBatch(number=9, src=["n1"], dst=["n2"], fate="committed", push_id="7")
    )


def _tear_a_batch(sound: Sound) -> None:
    sound.record.edge_batches[0].src.append("n11")
    sound.record.edge_batches[0].dst.append("n0")


def _invent_a_batch(sound: Sound) -> None:
    del sound.record.edge_batches[1]


def _take_a_refused_batch(sound: Sound) -> None:
    sound.record.edge_batches[1] = replace(
        sound.record.edge_batches[1], fate="quarantined", path=None
    )


def _call_a_file_refused(sound: Sound) -> None:
    sound.record.edge_batches[1].fate = "quarantined"


def _leave_a_file_waiting(sound: Sound) -> None:
    path = sound.record.edge_batches[1].path
    sound.execute(update(files).where(files.c.path == path).values(status="pending"))


def _change_a_digest(sound: Sound) -> None:
    sound.execute(update(files).values(digest="another"))


def _count_an_edge_twice(sound: Sound) -> None:
    sound.execute(update(graphs).values(edges_seen=13))


@pytest.mark.parametrize(
    ("plant", "wrong"),
    [
        (_lose_a_batch, "batch 9 is lost"),
        (_tear_a_batch, "batch 1 is there"),
        (_invent_a_batch, "edges of batch 2 were never sent"),
        (_take_a_refused_batch, "batch 2 is there and should be quarantined"),
        (_call_a_file_refused, "is committed, should be quarantined"),
        (_leave_a_file_waiting, "still waits"),
        (_leave_a_file_waiting, "manifest and checkpoint differ in"),
        (_change_a_digest, "manifest and checkpoint differ over"),
        (_count_an_edge_twice, "edges_seen is 13, the files have 12 rows"),
    ],
)
def test_faults_of_edges_are_found(
    sound: Sound, plant: Callable[[Sound], None], wrong: str
) -> None:
    plant(sound)
    assert any(wrong in each for each in sound.faults()), sound.faults()


def test_a_batch_in_two_files_is_found(sound: Sound, tmp_path: Path) -> None:
    batch = sound.record.edge_batches[0]
    whole = pq.read_table(batch.path)
    for name, rows in (("one", whole.slice(0, 2)), ("two", whole.slice(2))):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    history = History.of(sound.place.database, sound.place.settings)
    first, second = history.absorbed
    pieces = tuple(
        replace(first, path=str(tmp_path / f"{name}.parquet"), n_rows=n_rows)
        for name, n_rows in (("one", 2), ("two", 4))
    )
    torn = replace(history, absorbed=(*pieces, second))
    faults = list(check_edges(sound.record, torn, sound.place.database))
    assert any("batch 1 is there 1 times" in each for each in faults)


def _lose_a_job(sound: Sound) -> None:
    sound.record.jobs.append(AskedJob(id="0" * 32))


def _forget_a_cancel(sound: Sound) -> None:
    sound.record.jobs[0].is_cancelled = True


def _finish_twice(sound: Sound) -> None:
    event = {"job_id": sound.solved, "seq": 99, "kind": "succeeded"}
    with sound.place.database.read() as connection:
        row = connection.execute(select(job_events).limit(1)).mappings().one()
    sound.execute(insert(job_events).values({**row, **event}))


def _go_on_after_the_end(sound: Sound) -> None:
    mine = (job_events.c.job_id == sound.solved) & (job_events.c.kind == "started")
    sound.execute(update(job_events).where(mine).values(seq=99))


def _never_finish(sound: Sound) -> None:
    sound.execute(update(jobs).where(jobs.c.id == sound.solved).values(status="running"))


def _start_uncounted(sound: Sound) -> None:
    sound.execute(update(jobs).where(jobs.c.id == sound.solved).values(attempt=2))


def _fail(sound: Sound) -> None:
    mine = (job_events.c.job_id == sound.solved) & (job_events.c.kind == "succeeded")
    sound.execute(
        update(jobs).where(jobs.c.id == sound.solved).values(status="failed", error="singular"),
        update(job_events).where(mine).values(kind="failed"),
    )


@pytest.mark.parametrize(
    ("plant", "wrong"),
    [
        (_lose_a_job, "is lost"),
        (_forget_a_cancel, "was cancelled and is succeeded"),
        (_finish_twice, "its history says"),
        (_go_on_after_the_end, "its history says"),
        (_never_finish, "is running, its history says"),
        (_start_uncounted, "has attempt 2 of"),
        (_fail, "failed: singular"),
        (_fail, "comes from a job that did not succeed"),
    ],
)
def test_faults_of_jobs_are_found(sound: Sound, plant: Callable[[Sound], None], wrong: str) -> None:
    plant(sound)
    assert any(wrong in each for each in sound.faults()), sound.faults()


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"snapshot": 2}, "disagrees with its job"),
        ({"snapshot": 2}, "predictions of snapshot 2, which is not there"),
        ({"labels_seq": 2}, "disagrees with its job"),
        ({"n_rows": 11}, "disagrees with the nodes of its snapshot"),
        ({"job": "0" * 32}, "comes from a job that did not succeed"),
    ],
)
def test_torn_predictions_are_found(sound: Sound, changes: dict[str, Any], wrong: str) -> None:
    (table,) = sound.record.tables.values()
    sound.record.tables[table.job] = replace(table, **changes)
    assert any(wrong in each for each in sound.faults()), sound.faults()


def test_predictions_that_change_are_found(sound: Sound) -> None:
    (table,) = sound.record.tables.values()
    sound.record.read(table)
    assert sound.record.violations == []
    sound.record.read(replace(table, digest="another"))
    assert "changed" in sound.record.violations[0]


def test_an_auto_solve_that_does_not_know_the_last_label_is_found(sound: Sound) -> None:
    sound.place.labels.put(sound.place.catalog.get(GRAPH).id, ["n5"], ["red"])
    sound.record.label_batches.append(LabelBatch(events=[("n5", "red")], labels_seq=4, accepted=1))
    (fault,) = (each for each in sound.faults() if "auto_solve" in each)
    assert "auto_solve knows snapshot and labels (1, 3), they are (1, 4)" in fault
