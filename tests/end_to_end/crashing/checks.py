"""What must hold once the work has drained: what clients were told against what the stores hold."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import select

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.database.tables import files, job_events, jobs, label_events
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.snapshots.checkpoints import AbsorbedFile, CheckpointStore
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.crashing.load import GRAPH, read_edges
from tests.end_to_end.crashing.record import EdgeBatch, LabelEvent, Record, is_forgettable

_FINAL = ("succeeded", "failed", "cancelled")
_MOVED_ON = ("moved on since the snapshot", "some were retracted since")
"""Why certificates of a snapshot fail whose files, or their part of the log, have left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the stores hold, in its order.

    ``events`` are all label events, the first of number 1, and None where an erasure has taken one.
    ``names`` are None of nodes that were erased.
    """

    graph: GraphRecord
    events: Sequence[LabelEvent | None]
    absorbed: tuple[AbsorbedFile, ...]
    paths: GraphPaths
    n_deletes: int = 0
    n_removed_files: int = 0
    n_erased: int = 0
    names: Sequence[str | None] = ()

    @classmethod
    def of(cls, database: Database, settings: Settings) -> "History":
        """The history of the graph."""
        graph = Catalog(database).get(GRAPH)
        paths = GraphPaths(root=settings.graphs_directory / graph.id)
        rows = (
            select(label_events.c.node, label_events.c.label, label_events.c.seq)
            .where(label_events.c.graph_id == graph.id)
            .order_by(label_events.c.seq)
        )
        with database.read() as connection:
            found = connection.execute(rows).all()
        of_number = {
            row.seq: (row.node, None if row.label is None else json.loads(row.label))
            for row in found
        }
        numbers = range(1, graph.labels_seq + 1)
        if not set(of_number) <= set(numbers) or len(of_number) < len(found):
            raise AssertionError(f"label events are not numbered 1 to {graph.labels_seq}")
        newest = CheckpointStore(paths.checkpoints).newest()
        nodes = open_nodes(paths.nodes, kind="string", n_nodes=newest.n_nodes, writable=False)
        return cls(
            graph=graph,
            events=[of_number.get(number) for number in numbers],
            absorbed=newest.files,
            paths=paths,
            n_deletes=newest.state.n_deletes,
            n_removed_files=newest.n_removed_files,
            n_erased=newest.state.n_erased,
            names=nodes.external_ids(0, newest.n_nodes).to_pylist(),
        )

    @property
    def is_insert_only(self) -> bool:
        """Whether nothing has left but what rows deleted."""
        return not (self.n_removed_files or self.n_erased)

    def n_lasting(self, n_nodes: int) -> int:
        """How many of the first nodes are none that may be erased."""
        names = self.names[:n_nodes]
        return sum(name is not None and not is_forgettable(name) for name in names)


def check_labels(record: Record, history: History) -> Iterator[str]:
    """Acknowledged labels stand under their numbers; whatever else is there is whole."""
    events = history.events
    explained: dict[int, int] = {}
    doubtful: list[list[LabelEvent]] = []
    for batch in record.label_batches:
        if batch.labels_seq is None or batch.accepted is None:
            doubtful.append(batch.events)
            continue
        expected = [] if batch.is_removal and batch.accepted == 0 else batch.events
        first = batch.labels_seq - batch.accepted
        if batch.accepted != len(expected):
            yield f"{batch} was not accepted whole"
        elif batch.is_erased is not False and events[first : batch.labels_seq] == [None]:
            explained[first] = batch.labels_seq
        elif batch.is_erased:
            yield f"{batch} is there, and its node was erased"
        elif events[first : batch.labels_seq] != expected:
            yield f"{batch} is lost: its numbers hold {events[first : batch.labels_seq]}"
        elif expected:
            explained[first] = batch.labels_seq
    # An erasure that takes labels counts as an event, and so does the strike that takes some more.
    n_spared = 2 * record.n_erasures_sent + sum(
        batch.is_erased is not False and batch.labels_seq is None for batch in record.label_batches
    )
    yield from _unexplained(events, explained, doubtful, n_spared)


def _unexplained(
    events: Sequence[LabelEvent | None],
    explained: dict[int, int],
    doubtful: list[list[LabelEvent]],
    n_spared: int,
) -> Iterator[str]:
    """Events of no answered batch must be whole batches that got no answer, each once.

    So many numbers may have no event.
    """
    at = 0
    while at < len(events):
        if at in explained:
            at = explained[at]
            continue
        if events[at] is None:
            n_spared -= 1
            if n_spared < 0:
                yield f"label event {at + 1} is lost, and no erasure has taken it"
            at += 1
            continue
        found = max(
            (each for each in doubtful if events[at : at + len(each)] == each),
            key=len,
            default=None,
        )
        if found is None:
            yield f"label event {at + 1} is part of no whole batch: {events[at]}"
            at += 1
        else:
            doubtful.remove(found)
            at += len(found)


def check_edges(record: Record, history: History, database: Database) -> Iterator[str]:
    """Every acknowledged batch of edges counts once, in one piece; no other is in part there."""
    with database.read() as connection:
        listed = connection.execute(
            select(files).where(files.c.graph_id == history.graph.id).order_by(files.c.position)
        ).all()
    committed = {row.path: row for row in listed if row.status == "committed"}
    for each in listed:
        if each.status in {"pending", "retracting"}:
            yield f"file {each.path} still waits: {each.status}"
        elif each.status == "committed" and committed[each.path] is not each:
            yield f"file {each.path} is committed in two versions"
    if set(committed) != {file.path for file in history.absorbed}:
        only = set(committed) ^ {file.path for file in history.absorbed}
        yield f"manifest and checkpoint differ in {sorted(only)}"
    for file in history.absorbed:
        row = committed.get(file.path)
        if row is not None and (row.digest, row.n_rows) != (file.digest, file.n_rows):
            yield f"manifest and checkpoint differ over {file.path}"
    n_rows = sum(file.n_rows for file in history.absorbed) - history.n_deletes
    seen = history.graph.progress.edges_seen
    if seen != n_rows if history.is_insert_only else seen < n_rows:
        yield f"edges_seen is {seen}, the files have {n_rows} rows"
    yield from _check_batches(record, history)
    status_of = {row.path: row.status for row in listed}
    for batch in record.edge_batches:
        if batch.path is None or batch.is_version or batch.fate == "unknown":
            continue
        if status_of.get(batch.path) != batch.fate:
            yield f"file {batch.path} is {status_of.get(batch.path)}, should be {batch.fate}"


def _check_batches(record: Record, history: History) -> Iterator[str]:
    batches = {batch.number: batch for batch in record.edge_batches}
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    places: dict[int, set[str]] = defaultdict(set)
    for file in history.absorbed:
        table = read_edges(file.path)
        numbers = np.rint((table["weight"].to_numpy() - 1.0) * 65_536).astype(np.int64).tolist()
        rows = zip(numbers, table["src"].to_pylist(), table["dst"].to_pylist(), strict=True)
        for number, u, v in rows:
            found[number].append((u, v))
            places[number].add(file.path)
    found.pop(0, None)  # rows that delete have no weight
    for number in found.keys() - batches.keys():
        yield f"edges of batch {number} were never sent"
    for number, batch in batches.items():
        edges = batch.weighted
        there = found.get(number, [])
        if batch.path is None:  # what is erased is taken out of pushes, and stays in files
            edges = [row for row in edges if batch.keeps(*row)]
            there = [row for row in there if batch.keeps(*row) is not None]
        if there not in ([], edges) or len(places[number]) > 1:
            n_times, where = len(there) / max(1, len(edges)), sorted(places[number])
            yield f"batch {number} is there {n_times:g} times, in {where}: {_shown(batch)}"
        elif batch.fate == "committed" and not there and edges:
            yield f"batch {number} is lost: {_shown(batch)}"
        elif batch.fate == "retracted" and batch.path in places[number]:
            yield f"batch {number} is there and should be retracted: {_shown(batch)}"
        elif batch.fate in {"quarantined", "duplicate"} and there:
            yield f"batch {number} is there and should be {batch.fate}: {_shown(batch)}"


def _shown(batch: EdgeBatch) -> str:
    return f"push {batch.push_id}, key {batch.key}, path {batch.path}, {len(batch.src)} rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """How jobs ended, and how often an attempt had to be made again."""

    by_status: Counter[str]
    n_repeated: int
    worn_out: list[str]
    """Jobs that failed because every attempt was killed."""


def count_jobs(database: Database) -> JobCounts:
    """Of all jobs."""
    with database.read() as connection:
        rows = connection.execute(select(jobs)).all()
    return JobCounts(
        by_status=Counter(row.status for row in rows),
        n_repeated=sum(max(0, row.attempt - 1) for row in rows),
        worn_out=[
            f"{row.id}: {row.error}"
            for row in rows
            if row.status == "failed" and _is_worn_out(row.error or "")
        ],
    )


def check_jobs(record: Record, history: History, database: Database) -> Iterator[str]:
    """Every acknowledged job ended, each ended once, within its attempts.

    Certificates may fail where files or nodes have left the log under them.
    """
    with database.read() as connection:
        rows = {row.id: row for row in connection.execute(select(jobs))}
        kinds: dict[str, list[str]] = defaultdict(list)
        for row in connection.execute(
            select(job_events).order_by(job_events.c.job_id, job_events.c.seq)
        ):
            kinds[row.job_id].append(row.kind)
    for asked in record.jobs:
        if asked.id not in rows:
            yield f"job {asked.id} is lost"
        elif asked.is_cancelled and rows[asked.id].status != "cancelled":
            yield f"job {asked.id} was cancelled and is {rows[asked.id].status}"
    for job in rows.values():
        told = kinds[job.id]
        final = [kind for kind in told if kind in _FINAL]
        if final != [job.status] or told[-1] != job.status:
            yield f"job {job.id} is {job.status}, its history says {told}"
        if told.count("started") != job.attempt or job.attempt > job.max_attempts:
            yield f"job {job.id} has attempt {job.attempt} of {job.max_attempts}, told {told}"
        has_moved_on = not history.is_insert_only and any(
            reason in (job.error or "") for reason in _MOVED_ON
        )
        if job.status == "failed" and not (has_moved_on or _is_worn_out(job.error or "")):
            yield f"job {job.id} ({job.kind}, {job.model}) failed: {job.error}"


def _is_worn_out(error: str) -> bool:
    return "given up after" in error or "stopped answering during attempt" in error


def check_tables(record: Record, history: History, database: Database) -> Iterator[str]:
    """What readers got agrees with the job and the snapshot that it names."""
    snapshots = SnapshotStore(history.paths.snapshots)
    n_nodes = {meta.number: meta.n_nodes for meta in snapshots.list()}
    with database.read() as connection:
        rows = {row.id: row for row in connection.execute(select(jobs))}
    for table in record.tables.values():
        job = rows.get(table.job)
        if job is None or job.status != "succeeded":
            yield f"{table} comes from a job that did not succeed"
            continue
        if (job.snapshot, job.labels_seq) != (table.snapshot, table.labels_seq):
            yield f"{table} disagrees with its job: {job.snapshot}, {job.labels_seq}"
        told = {job.result["n_nodes"], n_nodes.get(table.snapshot, job.result["n_nodes"])}
        if {*map(history.n_lasting, told)} != {table.n_rows} or len(told) > 1:
            yield f"{table} disagrees with the nodes of its snapshot: {told}"
    newest = max((table.snapshot for table in record.tables.values()), default=0)
    if newest > (history.graph.progress.snapshot or 0):
        yield f"predictions of snapshot {newest}, which is not there"


def check_auto_solve(graph: GraphRecord, database: Database) -> Iterator[str]:
    """The last solve that nobody asked for knows the last snapshot and the last label."""
    with database.read() as connection:
        rows = connection.execute(
            select(jobs.c.snapshot, jobs.c.labels_seq, jobs.c.status, jobs.c.error)
            .where(jobs.c.coalesce_key.is_not(None))
            .order_by(jobs.c.created_at, jobs.c.id)
        ).all()
    known = max(
        ((row.snapshot, row.labels_seq) for row in rows if row.status == "succeeded"), default=None
    )
    present = (graph.progress.snapshot, graph.labels_seq)
    if known != present:
        last = rows[-1] if rows else None
        yield f"auto_solve knows snapshot and labels {known}, they are {present}; last: {last}"
