"""Predictions, one file per finished job: finding, opening, and retention.

A file is named after its job and attempt, and counts once the job's row names it. An attempt that
lost its lease leaves a file that nobody reads, which `PredictionStore.clean` removes. The content
of a file is described in `prediction_files`.
"""

import errno
import re
from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import time
from typing import Any, Final

import structlog
from sqlalchemy import ColumnElement, Row, Select, and_, func, select

from peewit.service.catalog import GraphRecord
from peewit.service.database.engine import Database
from peewit.service.database.tables import jobs
from peewit.service.database.timestamps import now
from peewit.service.inbox.leaving.erasures import Hidden, HiddenNodes
from peewit.service.jobs.job import LABEL_COLUMN, Job, JobStatus
from peewit.service.jobs.queue import job_from_row
from peewit.service.predictions.kept_labels import erase_labels
from peewit.service.predictions.left_out import erase_left_out
from peewit.service.predictions.prediction_files import (
    DENSITIES_SUFFIX,
    FEATURES_SUFFIX,
    GIVEN_SUFFIX,
    LABELS_SUFFIX,
    LEFT_OUT_SUFFIX,
    PREDICTOR_SUFFIX,
    SHARES_SUFFIX,
    SUFFIX,
    PredictionFile,
    file_name,
)
from peewit.solvers.arrays import Int64Array
from peewit.streaming.durable_files import TEMPORARY_PREFIX
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.problems import NotFound

KEEP_PER_MODEL: Final = 3
GRACE_SECONDS: Final = 600.0

_FILE_NAME: Final = re.compile(r"(?P<job_id>[0-9a-f]+)-\d+\.arrow")
_MAX_OPEN: Final = 16
_OF_FEATURES: Final = (PREDICTOR_SUFFIX, GIVEN_SUFFIX, FEATURES_SUFFIX)
_OF_LEFT_OUT: Final = (LEFT_OUT_SUFFIX,)
_OF_LABELS: Final = (LABELS_SUFFIX, DENSITIES_SUFFIX, SHARES_SUFFIX)
_SUFFIXES: Final = (*_OF_FEATURES, *_OF_LEFT_OUT, *_OF_LABELS, SUFFIX)
_ERASED_WITHIN: Final = ((erase_left_out, _OF_LEFT_OUT), (erase_labels, _OF_LABELS))
_log = structlog.get_logger(__name__)

_OF_THE_MACHINE: Final = {errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOSPC}
"""Errors of the machine, such as a full disk, after which a file is not removed as damaged."""


class PredictionsNotFound(NotFound):
    """The job has no predictions, or no longer has them."""

    title = "Predictions not found"


class PredictionStore:
    """Finds, reads and retires the prediction files of all graphs."""

    def __init__(self, database: Database, graphs_directory: Path) -> None:
        self._database = database
        self._graphs_directory = graphs_directory
        self._hidden = HiddenNodes(database)
        self._open: OrderedDict[Path, PredictionFile] = OrderedDict()
        self._lock = Lock()

    def directory(self, graph_id: str) -> Path:
        """Directory of the prediction files of one graph."""
        return GraphPaths(root=self._graphs_directory / graph_id).predictions

    def read(self, job: Job) -> PredictionFile:
        """The predictions of a job.

        Raises `PredictionsNotFound` where the job has not succeeded or newer jobs have replaced
        them.
        """
        if job.status is not JobStatus.SUCCEEDED or job.result is None:
            raise PredictionsNotFound(f"job {job.id} has no predictions: it is {job.status}")
        hidden = self._hidden.of_id(job.graph_id)
        try:
            return self._open_file(self.directory(job.graph_id) / job.result["file"], hidden)
        except FileNotFoundError:
            raise PredictionsNotFound(
                f"the predictions of job {job.id} were removed, since the last {KEEP_PER_MODEL} of "
                "each model are kept; read the latest or solve again"
            ) from None

    def cached(self, job: Job, graph: GraphRecord) -> PredictionFile | None:
        """The predictions of a job, if their file is open and unchanged; else None."""
        if job.result is None:
            return None
        path = self.directory(job.graph_id) / job.result["file"]
        file = self._open.get(path)
        if file is None or not path.exists():
            return None
        if graph.erasures_seq and not _is_present(file, self._hidden.of(graph)):
            return None
        return file

    def _open_file(self, path: Path, hidden: Hidden) -> PredictionFile:
        """The file, which stays open for later callers until it is removed or rewritten."""
        with self._lock:
            if not path.exists():
                self._open.pop(path, None)
            elif path in self._open and _is_present(self._open[path], hidden):
                self._open.move_to_end(path)
                return self._open[path]
            file = self._open[path] = PredictionFile(path, hidden.dense)
            while len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
            return file

    def latest(self, graph_id: str, model: str | None = None, *, column: str = "") -> Job | None:
        """The job with the freshest predictions of a column of labels, of one model or of any.

        Freshest means newest snapshot, then newest labels, then last finished; so a slow job that
        ends later does not hide a quick one that knew more.
        """
        of_column = func.coalesce(jobs.c.parameters[LABEL_COLUMN].as_string(), "")
        statement = _freshest_first(graph_id).where(of_column == column).limit(1)
        if model is not None:
            statement = statement.where(jobs.c.model == model)
        with self._database.read() as connection:
            row = connection.execute(statement).one_or_none()
        return None if row is None else job_from_row(row)

    def kept(self, graph_id: str) -> list[Job]:
        """The jobs whose predictions are on the disk, the freshest first."""
        files = _files(self.directory(graph_id))
        with self._database.read() as connection:
            rows = connection.execute(_freshest_first(graph_id).where(_is_job_of(files))).all()
        names = {path.name for path in files}
        return [job_from_row(row) for row in rows if row.result["file"] in names]

    def kept_snapshots(self, graph_id: str) -> set[int]:
        """Numbers of the snapshots used by predictions on the disk and by jobs not yet over."""
        under_way = select(jobs.c.snapshot).where(
            jobs.c.graph_id == graph_id,
            jobs.c.status.in_((JobStatus.QUEUED, JobStatus.RUNNING)),
            jobs.c.snapshot.is_not(None),
        )
        with self._database.read() as connection:  # before the files: a job that ends has one
            in_use = set(connection.execute(under_way).scalars())
        return in_use | {job.snapshot for job in self.kept(graph_id) if job.snapshot is not None}

    def discard(self, graph_id: str, file_name: str) -> None:
        """Remove the files of a refused attempt, if there are any."""
        _remove(self.directory(graph_id) / file_name, _SUFFIXES)

    def erase(self, graph_id: str, nodes: Int64Array, *, before: int | None) -> None:
        """Overwrite some dense ids in all finished files of a graph; remove damaged files.

        For predictions of snapshots ``before`` that number, or of all, labels and left-out scores
        are overwritten, too, and predictors are removed, since they hold features of nodes.
        """
        directory = self.directory(graph_id)
        for path in sorted(directory.glob(f"*{SUFFIX}")):
            if path.name.startswith(TEMPORARY_PREFIX):
                continue
            try:
                file = PredictionFile(path)
                file.erase(nodes)
            except Exception as error:  # noqa: BLE001 - damaged in any way, or replaced meanwhile
                _raise_of_machine(error)
                self.discard(graph_id, path.name)
                continue
            if before is not None and file.meta.snapshot >= before:
                continue
            for erase, suffixes in _ERASED_WITHIN:
                try:
                    erase(path, nodes)
                except Exception as error:  # noqa: BLE001 - damaged in any way, it may hold anything
                    _raise_of_machine(error)
                    _remove(path, suffixes)
            _remove(path, _OF_FEATURES)

    def clean(self, graph_id: str, *, grace_seconds: float = GRACE_SECONDS) -> list[Path]:
        """Paths of the removed files: those that nobody will read again.

        Removed are predictions that `KEEP_PER_MODEL` fresher ones of the same model and column have
        replaced, and files that no job names, each after ``grace_seconds``; with all files beside
        them.
        """
        files = _files(self.directory(graph_id))  # before the rows: jobs name files that exist
        is_old = (jobs.c.finished_at <= now(-grace_seconds)).label("is_old")
        running = and_(jobs.c.graph_id == graph_id, jobs.c.status == JobStatus.RUNNING)
        with self._database.read() as connection:
            published = connection.execute(
                _freshest_first(graph_id).add_columns(is_old).where(_is_job_of(files))
            ).all()
            active = connection.execute(select(jobs.c.id, jobs.c.attempt).where(running)).all()
        named = {row.result["file"] for row in published}
        named |= {file_name(row.id, row.attempt) for row in active}
        replaced = _replaced_files(published)
        removed = []
        for path, written_at in files.items():
            name = path.with_suffix(SUFFIX).name  # files beside share the stem
            is_unnamed = name not in named and time() - written_at >= grace_seconds
            if name in replaced or is_unnamed:
                path.unlink(missing_ok=True)
                removed.append(path)
        return removed


def _remove(path: Path, suffixes: Sequence[str]) -> None:
    """Remove files with some suffixes of one attempt, if there are any."""
    for suffix in suffixes:
        path.with_suffix(suffix).unlink(missing_ok=True)


def _raise_of_machine(error: Exception) -> None:
    """Raise again an error of the machine; log any other, which says that the file is damaged."""
    if isinstance(error, MemoryError):
        raise error
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        raise error
    if not isinstance(error, FileNotFoundError):
        # only its type: the text may quote an id
        _log.warning("damaged file of predictions removed", error=type(error).__name__)


def _is_present(file: PredictionFile, hidden: Hidden) -> bool:
    """Whether an open file is still the one on the disk and hides the right nodes."""
    try:
        status = file.path.stat()
    except FileNotFoundError:
        return False
    present = file.path, status.st_ino, status.st_mtime_ns, hidden.dense.tobytes()
    return file.key == present


def _replaced_files(published: Sequence[Row[Any]]) -> set[str]:
    """Files of rows, freshest first, that enough fresher ones replaced long enough ago."""
    of_model: dict[tuple[str, str], list[Row[Any]]] = {}
    for row in published:
        key = row.model, row.parameters.get(LABEL_COLUMN, "")
        of_model.setdefault(key, []).append(row)
    return {
        row.result["file"]
        for rows in of_model.values()
        for row, replacement in zip(rows[KEEP_PER_MODEL:], rows, strict=False)
        if replacement.is_old
    }


def _freshest_first(graph_id: str) -> Select[Any]:
    return (
        select(jobs)
        .where(
            jobs.c.graph_id == graph_id,
            jobs.c.kind == "solve",
            jobs.c.status == JobStatus.SUCCEEDED,
        )
        .order_by(jobs.c.snapshot.desc(), jobs.c.labels_seq.desc(), jobs.c.finished_at.desc())
    )


def _files(directory: Path) -> dict[Path, float]:
    """Predictions and files beside them, finished or not, with their time of modification."""
    written = {}
    for suffix in _SUFFIXES:
        for path in directory.glob(f"*{suffix}"):
            with suppress(FileNotFoundError):  # another worker cleans as well
                written[path] = path.stat().st_mtime
    return written


def _is_job_of(files: Collection[Path]) -> ColumnElement[bool]:
    matches = (_FILE_NAME.fullmatch(path.name) for path in files)
    return jobs.c.id.in_({match["job_id"] for match in matches if match is not None})
