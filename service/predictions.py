"""Predictions: one Arrow file per finished job, published whole and memory-mapped by readers.

Row number = dense node id. A file is written under the name of its job and attempt, and counts once
the job's row names it: an attempt that lost its lease leaves a file that nobody will ever read, and
`PredictionStore.clean` removes it.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import time
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from sqlalchemy import ColumnElement, Row, Select, and_, select

from service.database import Database, jobs, now
from service.job_queue import job_from_row
from service.jobs import Job, JobStatus
from solvers.arrays import BoolArray, Float32Array, FloatArray, IntArray
from streaming.durable import publish_file
from streaming.snapshots import GraphPaths

ROWS_PER_BATCH: Final = 1 << 18
MAX_SCORE_COLUMNS: Final = 32
"""With more classes than this the file has no column per class."""

SCORE_PREFIX: Final = "score:"
"""Of the columns per class."""

KEEP_PER_MODEL: Final = 3
GRACE_SECONDS: Final = 600.0

_SUFFIX: Final = ".arrow"
_PREDICTOR_SUFFIX: Final = ".npz"
_META_KEY: Final = b"lapwing"
_FILE_NAME: Final = re.compile(r"(?P<job_id>[0-9a-f]+)-\d+\.arrow")

ScoreKind = Literal["probability", "class score", "value"]
"""A class's score, in [0, 1] or not; or the number predicted, where labels are real numbers."""


class PredictionsNotFound(LookupError):
    """The job has no predictions, or no longer has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionMeta:
    """What a prediction file was made of; stored in its schema.

    Attributes
    ----------
    graph_id, job_id : str
    attempt : int
        The attempt of the job that wrote the file.
    model : str
        Public name.
    parameters : mapping
        All hyperparameters, defaults included.
    snapshot, labels_seq, features_version : int
        What was solved.
    epsilon_asked, epsilon_expected : float
        Spectral accuracy of the snapshot.
    solver_status : str
        ``converged`` or what kept the solver from it.
    score : "probability", "class score" or "value"
        How to read ``score``, ``margin`` and the columns per class.
    class_names : tuple of str or int
        In the order of the columns per class; empty where numbers are predicted.
    stats : mapping
        The solver's figures; with ``refined`` the scores are those of the full graph, reached in
        so many ``passes`` with this relative ``residual``.
    """

    graph_id: str
    job_id: str
    attempt: int
    model: str
    parameters: Mapping[str, Any]
    snapshot: int
    labels_seq: int
    features_version: int
    epsilon_asked: float
    epsilon_expected: float
    solver_status: str
    score: ScoreKind
    class_names: tuple[str | int, ...]
    stats: Mapping[str, float | int | str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """See `file_name`."""
        return file_name(self.job_id, self.attempt)

    def to_schema_metadata(self) -> dict[bytes, bytes]:
        """One JSON value under the key ``lapwing``."""
        return {_META_KEY: json.dumps(asdict(self)).encode()}

    @classmethod
    def from_schema(cls, schema: pa.Schema) -> "PredictionMeta":
        """What `to_schema_metadata` stored."""
        values = json.loads(schema.metadata[_META_KEY])
        return cls(**values | {"class_names": tuple(values["class_names"])})


def write_predictions(
    directory: Path,
    meta: PredictionMeta,
    *,
    nodes: pa.Array | pa.ChunkedArray,
    scores: FloatArray,
    reachable: BoolArray,
    variance: Float32Array | None = None,
) -> Path:
    """Write the predictions of one attempt whole, flushed to the disk.

    Columns of classes: ``node``; ``label`` (null where no label reaches; int64 when every class is
    a number, else strings); ``score`` of the winner; ``margin`` to the runner-up (0 where no label
    reaches); ``reachable``; and, up to `MAX_SCORE_COLUMNS` classes, ``score:<class>`` each.
    Probabilities are kept in [0, 1], by which the solver's tolerance may miss it.

    Where ``meta.score`` is ``value``: ``node``; ``label``, the number predicted, float64, null
    where no label reaches; ``score``, the same number, and there the mean of the labels;
    ``margin``, null; ``reachable``.

    With ``variance``, a column of that name stands after ``reachable``, null where no label
    reaches.

    Parameters
    ----------
    directory : Path
        Created when missing.
    meta : PredictionMeta
        Names the file.
    nodes : (n_nodes,) Arrow array
        External ids in the order of the dense ones.
    scores : (n_nodes, n_columns) float64
        In the order of ``meta.class_names``, two classes or more; or one column of numbers.
    reachable : (n_nodes,) bool
    variance : (n_nodes,) float32, optional
        Posterior variance of each node.

    Returns
    -------
    Path
        The new file.

    Raises
    ------
    ValueError
        Lengths differ, or two classes show alike (1 and "1").
    """
    n_nodes, n_columns = scores.shape
    is_value = meta.score == "value"
    n_expected = 1 if is_value else len(meta.class_names)
    lengths = [len(nodes), len(reachable), n_nodes if variance is None else len(variance)]
    if lengths != [n_nodes] * 3 or n_columns != n_expected:
        raise ValueError(
            f"nodes, scores and reachable must agree, got {len(nodes)} nodes, scores of shape "
            f"{scores.shape}, {len(reachable)} in reachable, {lengths[2]} variances and "
            f"{len(meta.class_names)} classes"
        )
    labels = None if is_value else label_values(meta.class_names)
    schema = _schema(nodes.type, labels, has_variance=variance is not None).with_metadata(
        meta.to_schema_metadata()
    )

    def write(path: Path) -> None:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for first in range(0, n_nodes, ROWS_PER_BATCH):
                rows = slice(first, first + ROWS_PER_BATCH)
                some = scores[rows]
                if meta.score == "probability":
                    some = np.clip(some, 0.0, 1.0)
                told = (
                    _number_columns(some[:, 0], reachable[rows])
                    if labels is None
                    else list(class_columns(labels, some, reachable[rows]).values())
                )
                columns = [_one_chunk(nodes[rows]), *told]
                if variance is not None:
                    column = pa.array(variance[rows], pa.float32(), mask=~reachable[rows])
                    columns.insert(schema.get_field_index("variance"), column)
                writer.write_batch(pa.record_batch(columns, schema=schema))

    directory.mkdir(parents=True, exist_ok=True)
    path = directory / meta.file_name
    publish_file(path, write)
    return path


def label_values(class_names: tuple[str | int, ...]) -> pa.Array:
    """The classes as people see them: int64 when all are numbers, else strings.

    Raises
    ------
    ValueError
        A number and a string show alike.
    """
    if all(isinstance(name, int) for name in class_names):
        return pa.array(class_names, pa.int64())
    shown = [str(name) for name in class_names]
    twice = {name for name in shown if shown.count(name) > 1}
    if twice:
        raise ValueError(
            f"labels must differ in more than their type, got {min(twice)} both as a number and "
            "as a string; put one of the two kinds again"
        )
    return pa.array(shown, pa.string())


def _schema(node_type: pa.DataType, labels: pa.Array | None, *, has_variance: bool) -> pa.Schema:
    """The columns; ``labels`` are the classes, None where numbers are predicted."""
    label_type = pa.float64() if labels is None else labels.type
    if pa.types.is_string(label_type):
        label_type = pa.dictionary(pa.int32(), label_type)
    fields = [
        pa.field("node", node_type, nullable=False),
        pa.field("label", label_type),
        pa.field("score", pa.float32(), nullable=False),
        pa.field("margin", pa.float32(), nullable=labels is None),
        pa.field("reachable", pa.bool_(), nullable=False),
    ]
    if has_variance:
        fields.append(pa.field("variance", pa.float32()))
    if labels is not None and len(labels) <= MAX_SCORE_COLUMNS:
        fields += [
            pa.field(f"{SCORE_PREFIX}{name}", pa.float32(), nullable=False)
            for name in labels.to_pylist()
        ]
    return pa.schema(fields)


def _number_columns(values: FloatArray, reachable: BoolArray) -> list[pa.Array]:
    """The columns of `_schema` after the node for some rows of numbers."""
    return [
        pa.array(values, pa.float64(), mask=~reachable),
        pa.array(values, pa.float32()),
        pa.nulls(len(values), pa.float32()),
        pa.array(reachable),
    ]


def class_columns(
    labels: pa.Array, scores: FloatArray, reachable: BoolArray
) -> dict[str, pa.Array]:
    """What is said of some rows by class: the columns of a file after the node, by name.

    Parameters
    ----------
    labels : pyarrow.Array
        From `label_values`.
    scores : (n_rows, n_classes) float64
    reachable : (n_rows,) bool
        Where it is false there is no label, and no margin.
    """
    two_best = np.partition(scores, -2, axis=1)[:, -2:]
    margin = np.where(reachable, two_best[:, 1] - two_best[:, 0], 0.0)
    winner = pa.array(scores.argmax(axis=1), pa.int32(), mask=~reachable)
    if pa.types.is_string(labels.type):
        label = pa.DictionaryArray.from_arrays(winner, labels)
    else:
        label = labels.take(winner)
    columns = {
        "label": label,
        "score": pa.array(two_best[:, 1], pa.float32()),
        "margin": pa.array(margin, pa.float32()),
        "reachable": pa.array(reachable),
    }
    if len(labels) <= MAX_SCORE_COLUMNS:
        for name, column in zip(labels.to_pylist(), scores.T, strict=True):
            columns[f"{SCORE_PREFIX}{name}"] = pa.array(column, pa.float32())
    return columns


def _one_chunk(nodes: pa.Array | pa.ChunkedArray) -> pa.Array:
    return nodes.combine_chunks() if isinstance(nodes, pa.ChunkedArray) else nodes


class PredictionFile:
    """Reads one prediction file; memory-mapped, so opening it costs nothing.

    Parameters
    ----------
    path : Path
        Written by `write_predictions`. Once open it stays readable when the file is removed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        self.schema: pa.Schema = self._reader.schema
        self.meta = PredictionMeta.from_schema(self.schema)
        n_batches = self._reader.num_record_batches
        last = self._reader.get_batch(n_batches - 1).num_rows if n_batches else 0
        self.n_nodes: int = max(n_batches - 1, 0) * ROWS_PER_BATCH + last

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows in order, some at a time."""
        for index in range(self._reader.num_record_batches):
            yield self._reader.get_batch(index)

    def table(self) -> pa.Table:
        """All rows, as a view of the file."""
        return self._reader.read_all()

    def lookup(self, nodes: IntArray) -> pa.Table:
        """The rows of some dense ids, in the order given.

        Raises
        ------
        IndexError
            An id is negative or newer than the snapshot.
        """
        nodes = np.asarray(nodes, dtype=np.int64)
        if nodes.size and not 0 <= nodes.min() <= nodes.max() < self.n_nodes:
            raise IndexError(
                f"nodes must lie in [0, {self.n_nodes}), got {nodes.min()} to {nodes.max()}"
            )
        order = np.argsort(nodes, kind="stable")
        batch_of, row_of = np.divmod(nodes[order], ROWS_PER_BATCH)
        found = [
            self._reader.get_batch(int(batch)).take(pa.array(row_of[batch_of == batch]))
            for batch in np.unique(batch_of)
        ]
        return pa.Table.from_batches(found, self.schema).take(pa.array(np.argsort(order)))


class PredictionStore:
    """Finds, reads and retires the prediction files of all graphs.

    Parameters
    ----------
    database : Database
        Whose jobs name the files.
    graphs_directory : Path
        ``Settings.graphs_directory``.
    """

    def __init__(self, database: Database, graphs_directory: Path) -> None:
        self._database = database
        self._graphs_directory = graphs_directory

    def directory(self, graph_id: str) -> Path:
        """Where the files of one graph lie."""
        return GraphPaths(root=self._graphs_directory / graph_id).predictions

    def read(self, job: Job) -> PredictionFile:
        """The predictions of a job.

        Raises
        ------
        PredictionsNotFound
            The job has not succeeded, or newer jobs have replaced its predictions.
        """
        if job.status is not JobStatus.SUCCEEDED or job.result is None:
            raise PredictionsNotFound(f"job {job.id} has no predictions: it is {job.status}")
        try:
            return PredictionFile(self.directory(job.graph_id) / job.result["file"])
        except FileNotFoundError:
            raise PredictionsNotFound(
                f"the predictions of job {job.id} were removed, since the last {KEEP_PER_MODEL} of "
                "each model are kept; read the latest or solve again"
            ) from None

    def latest(self, graph_id: str, model: str | None = None) -> Job | None:
        """The job with the freshest predictions, of one model or of any.

        Freshest: newest snapshot, then newest labels, then last finished. A slow job that began
        before a quick one and ended after it does not hide what the quick one knew.
        """
        statement = _freshest_first(graph_id).limit(1)
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
        """Numbers of the snapshots behind the predictions on the disk and the jobs that run."""
        running = select(jobs.c.snapshot).where(
            jobs.c.graph_id == graph_id, jobs.c.status == "running", jobs.c.snapshot.is_not(None)
        )
        with self._database.read() as connection:  # before the files: a job that ends has one
            in_use = set(connection.execute(running).scalars())
        return in_use | {job.snapshot for job in self.kept(graph_id) if job.snapshot is not None}

    def discard(self, graph_id: str, file_name: str) -> None:
        """Remove the files of an attempt that was refused; nothing happens when there are none."""
        path = self.directory(graph_id) / file_name
        predictor_path(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)

    def clean(self, graph_id: str, *, grace_seconds: float = GRACE_SECONDS) -> list[Path]:
        """Remove what nobody will read again.

        Goes: predictions that `KEEP_PER_MODEL` fresher ones of the same model have replaced, and
        files that no job names, each once it has been so for ``grace_seconds``. A predictor goes
        with its predictions.

        Returns
        -------
        list of Path
            What was removed.
        """
        files = _files(self.directory(graph_id))  # before the rows: a file is named after it exists
        is_old = (jobs.c.finished_at <= now(-grace_seconds)).label("is_old")
        running = and_(jobs.c.graph_id == graph_id, jobs.c.status == JobStatus.RUNNING)
        with self._database.read() as connection:
            published = connection.execute(
                _freshest_first(graph_id).add_columns(is_old).where(_is_job_of(files))
            ).all()
            active = connection.execute(select(jobs.c.id, jobs.c.attempt).where(running)).all()
        named = {row.result["file"] for row in published}
        named |= {file_name(row.id, row.attempt) for row in active}
        replaced = _replaced(published)
        removed = []
        for path, written_at in files.items():
            name = path.with_suffix(_SUFFIX).name  # of the predictions, also for their predictor
            is_unnamed = name not in named and time() - written_at >= grace_seconds
            if name in replaced or is_unnamed:
                path.unlink(missing_ok=True)
                removed.append(path)
        return removed


def file_name(job_id: str, attempt: int) -> str:
    """Of one attempt alone, so that two attempts never write to one file."""
    return f"{job_id}-{attempt}{_SUFFIX}"


def predictor_path(path: Path) -> Path:
    """Where the predictor lies that belongs to a file of predictions, if there is one."""
    return path.with_suffix(_PREDICTOR_SUFFIX)


def _replaced(published: Sequence[Row[Any]]) -> set[str]:
    """Of rows with the freshest first: files that enough fresher ones replaced long enough ago."""
    of_model: dict[str, list[Row[Any]]] = {}
    for row in published:
        of_model.setdefault(row.model, []).append(row)
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
    """Predictions and predictors, finished or not, and when each was last written to."""
    written = {}
    for suffix in (_SUFFIX, _PREDICTOR_SUFFIX):
        for path in directory.glob(f"*{suffix}"):
            with suppress(FileNotFoundError):  # another worker cleans as well
                written[path] = path.stat().st_mtime
    return written


def _is_job_of(files: Collection[Path]) -> ColumnElement[bool]:
    found = (_FILE_NAME.fullmatch(path.name) for path in files)
    return jobs.c.id.in_({match["job_id"] for match in found if match is not None})
