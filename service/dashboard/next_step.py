"""Next step: what stands between a graph and its predictions, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet

from peewit.service.api.served_home import ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.graphs.ingest_history import IngestHistory
from peewit.service.inbox.inbox_records import FileStatus
from peewit.service.jobs.ingest_steps import IngestSteps
from peewit.service.jobs.job import LABEL_COLUMN, Job, JobStatus
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.streaming.steps import Step

Kind = Literal["reading", "edges", "refused", "labels", "class", "job", "solve", "again", "done"]

_FILES_LOOKED_AT: Final = 200

_LONG: Final[frozenset[Step]] = frozenset(
    {
        "adding edges",
        "adding features",
        "erasing nodes",
        "expiring edges",
        "retracting",
        "thinning",
        "repairing after deletes",
        "compacting the log",
        "publishing a snapshot",
    }
)
"""Steps of ingest that may take long although no file waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Edges that are being read or wait, or other work of ingest for the graph."""

    n_files: int  # waiting
    n_bytes: int
    fraction: float | None  # of the rows that is read; None if unknown
    doing: Sequence[str]  # current steps of ingest
    has_process: bool  # whether an ingest runs


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """What to do next with a graph."""

    kind: Kind
    column: str = ""  # of labels
    reading: Reading | None = None  # where edges are read
    job: Job | None = None  # runs, waits, failed, or made the freshest predictions
    has_worker: bool = True  # whether a worker runs jobs


def next_step(graph: GraphRecord, home: ServedHome) -> NextStep:
    """What to do next; takes a few short queries."""
    reading = _reading(graph, home)
    if reading is not None:
        return NextStep(kind="reading", reading=reading)
    if graph.progress.snapshot is None:
        files = home.manifest.counts(graph.id)
        return NextStep(kind="refused" if files["quarantined"] else "edges")
    for status in (JobStatus.RUNNING, JobStatus.QUEUED):
        jobs = home.jobs.list(graph_id=graph.id, status=status, limit=1).jobs
        if jobs:
            alive = bool(WorkerRegistry(home.database).alive(jobs[0].lane))
            return NextStep(kind="job", job=jobs[0], has_worker=alive)
    with_predictions = home.predictions.store.kept(graph.id)
    column = _column(graph, home, with_predictions)
    n_classes = home.labels.count_to_two(graph.id, column=column)
    freshest = with_predictions[0] if with_predictions else None
    if n_classes < 2 and freshest is None:
        return NextStep(kind="class" if n_classes else "labels", column=column)
    if freshest is None:
        failed = home.jobs.newest(graph.id, "solve")
        return NextStep(kind="solve", column=column, job=failed)
    is_old = (freshest.snapshot or 0) < graph.progress.snapshot or (
        freshest.labels_seq or 0
    ) < graph.labels_seq
    return NextStep(kind="again" if is_old else "done", column=column, job=freshest)


def _column(graph: GraphRecord, home: ServedHome, with_predictions: Sequence[Job]) -> str:
    """The column of labels in use: of the freshest predictions, or one with labels."""
    if with_predictions:
        return str(with_predictions[0].parameters.get(LABEL_COLUMN, ""))
    columns = home.labels.columns(graph.id)
    return "" if "" in columns or not columns else columns[0]


def _reading(graph: GraphRecord, home: ServedHome) -> Reading | None:
    backlog = home.manifest.backlog(graph.id)
    steps = IngestSteps(home.database).present()
    mine = [each for each in steps if each.graph_id == graph.id]
    if not backlog.n_files and not any(each.step in _LONG for each in mine):
        return None
    stall_seconds = home.settings.stall_seconds
    return Reading(
        n_files=backlog.n_files,
        n_bytes=backlog.n_bytes,
        fraction=_fraction(graph, home) if backlog.n_files else None,
        doing=[each.doing(stall_seconds) for each in mine],
        has_process=bool(steps) or bool(WorkerRegistry(home.database).alive()),
    )


def _fraction(graph: GraphRecord, home: ServedHome) -> float | None:
    """Share of the waiting rows that is read; None where a file has unknown rows."""
    waiting: FileStatus = "pending"
    files = home.manifest.list_files(graph.id, status=waiting, limit=_FILES_LOOKED_AT)
    rows = [_rows_of(file.path, file.version) for file in files]
    rows += [push.n_rows for push in home.manifest.push_log.ungathered(graph.id, limit=1000)]
    counted = [each for each in rows if each is not None]
    if not counted or len(counted) < len(rows) or not sum(counted):
        return None
    points = IngestHistory(home.database).latest(graph.id, 1)
    n_read = points[-1].edges_seen - graph.progress.edges_seen if points else 0
    return min(max(n_read, 0) / sum(counted), 1.0)


@lru_cache(maxsize=1024)
def _rows_of(path: str, _version: str) -> int | None:
    """Rows of a local file by its footer; None where there is none to read."""
    try:
        return int(pa.parquet.read_metadata(path).num_rows) if Path(path).is_file() else None
    except (OSError, pa.ArrowException):
        return None
