"""Prediction files: written whole, read memory-mapped.

An Arrow IPC file whose row number is the dense node id, so that a node is found without a search.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.jobs.job import LABEL_COLUMN
from peewit.service.tables.formats import json_integer
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int64Array,
    IntArray,
    RealArray,
    frozen,
)
from peewit.solvers.decision import DecisionRule, decided
from peewit.streaming.durable_files import naming, publish_file

ROWS_PER_BATCH: Final = 1 << 18
MAX_SCORE_COLUMNS: Final = 32
"""Most classes of which each has a column of scores."""

P_VALUE_PREFIX: Final = "p_value:"
"""Prefix of the columns with a p-value per class, from which sets are made."""

LABELED: Final = "labeled"
"""Column that marks nodes that carry a label."""

PROVEN: Final = "proven"
"""Column that marks labels that all edges would give."""

SUFFIX: Final = ".arrow"
PREDICTOR_SUFFIX: Final = ".npz"
LEFT_OUT_SUFFIX: Final = ".left-out"
GIVEN_SUFFIX: Final = ".npy"
FEATURES_SUFFIX: Final = ".features"
LABELS_SUFFIX: Final = ".labels"
DENSITIES_SUFFIX: Final = ".densities"
SHARES_SUFFIX: Final = ".shares"

_META_KEY: Final = b"peewit"
_MAGIC: Final = b"ARROW1"
_ALIGNED_MAGIC_BYTES: Final = 8
_BYTES_PER_PIECE: Final = 1 << 20
_NO_NODES: Final = frozen(np.empty(0, np.int64))

FileScoreKind = Literal["probability", "class score", "value"]
"""Score of a class, in [0, 1] or not; or the predicted number, where labels are real numbers."""


def score_column(score: FileScoreKind) -> str:
    """Name of the column with the score of the label; class columns are ``NAME:<class>``."""
    return "probability" if score == "probability" else "score"


def own_score(names: Sequence[str]) -> str:
    """Name of the score column among the column names of a table."""
    return "probability" if "probability" in names else "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionMeta:
    """Provenance of a prediction file, stored in its schema.

    Attributes
    ----------
    attempt : int
        Attempt of the job that wrote the file.
    parameters : mapping
        All hyperparameters, defaults included.
    epsilon_asked : float or None
        Spectral error asked of the snapshot; None where it keeps edges within a budget.
    epsilon_expected : float
        Spectral error to expect; 0 where the snapshot has all edges.
    solver_status : str
        ``converged``, or why the solver did not.
    score : FileScoreKind
        How to read ``score``, ``margin`` and the columns per class.
    class_names : tuple of str or int
        In the order of the columns per class; empty where numbers are predicted.
    stats : mapping
        Figures of the solver. With ``refined`` the scores are those of the full graph, reached in
        so many ``passes`` with this relative ``residual``.
    sets : mapping or None
        What sets are read with: ``n_folds``; by class, ``groups`` (number of its group) and
        ``n_compared`` (labels that it was compared with); ``unpromised``, places of classes that
        have no guarantee.
    calibration : mapping or None
        Turns class scores into probabilities; None where they were probabilities before.
    judged_by : str or None
        In words, the labels that predictions are judged by, where some labels were suggested.
    answers : tuple of str
        Kinds of nodes that have predictions, in a typed graph; rows of others are blank.
    relation_weights : mapping
        Weights of relations, by name, of the graph that was solved on; 1 of others.
    decision : mapping or None
        Rule by which scores decide (`DecisionRule`); None where the largest does.
    """

    graph_id: str
    job_id: str
    attempt: int
    model: str
    parameters: Mapping[str, Any]
    snapshot: int
    labels_seq: int
    features_version: int
    epsilon_asked: float | None
    epsilon_expected: float
    solver_status: str
    score: FileScoreKind
    class_names: tuple[str | int, ...]
    stats: Mapping[str, float | int | str] = field(default_factory=dict)
    sets: Mapping[str, Any] | None = None
    calibration: Mapping[str, Any] | None = None
    judged_by: str | None = None
    answers: tuple[str, ...] = ()
    relation_weights: Mapping[str, float] = field(default_factory=dict)
    decision: Mapping[str, Any] | None = None

    @property
    def rule(self) -> DecisionRule | None:
        """The rule by which scores decide; None where the largest does."""
        return DecisionRule.restored(self.decision)

    @property
    def objective(self) -> str | None:
        """What labels aim at, of a model that can be told."""
        objective: str | None = self.parameters.get("objective")
        return objective

    @property
    def label_column(self) -> str:
        """The predicted column of labels; empty for the unnamed one."""
        return str(self.parameters.get(LABEL_COLUMN, ""))

    @property
    def file_name(self) -> str:
        """See `file_name`."""
        return file_name(self.job_id, self.attempt)

    def to_schema_metadata(self) -> dict[bytes, bytes]:
        """The record as JSON, under the key ``peewit``."""
        return {_META_KEY: json.dumps(asdict(self)).encode()}

    @classmethod
    def from_schema(cls, schema: pa.Schema) -> "PredictionMeta":
        """The record that `to_schema_metadata` stored."""
        values = json.loads(schema.metadata[_META_KEY])
        return cls(**values | {name: tuple(values[name]) for name in ("class_names", "answers")})


def write_predictions(
    directory: Path,
    meta: PredictionMeta,
    *,
    nodes: pa.Array | pa.ChunkedArray,
    scores: FloatArray,
    reachable: BoolArray,
    variance: Float32Array | None = None,
    p_values: Float32Array | None = None,
    stability: Float32Array | None = None,
    proven: BoolArray | None = None,
    labeled: IntArray | None = None,
) -> Path:
    """Path of the predictions of one attempt, written whole and flushed to the disk.

    Columns of classes: ``node``; ``label`` (null where no label reaches; int64 when every class is
    a number, else strings); ``score`` of the label; ``margin`` to the runner-up (by
    `DecisionRule.margin` where a rule decides, 0 where no label reaches); ``reachable``; and, up to
    `MAX_SCORE_COLUMNS` classes, ``score:<class>`` each. Where scores are probabilities these
    columns are ``probability`` and ``probability:<class>``, clipped to [0, 1], which the solver's
    tolerance may miss.

    Where ``meta.score`` is ``value``: ``node``; ``label``, the predicted number, float64, null
    where no label reaches; ``score``, the same number, and there the mean of the labels;
    ``margin``, null; ``reachable``.

    With ``labeled`` a column of this name follows ``reachable``: whether the node carries a label.

    With ``p_values``, columns ``p_value:<class>`` follow at the end. With ``variance``,
    ``stability`` or ``proven``, columns of these names follow ``reachable``, null where no label
    reaches.

    ``labeled`` are dense ids of nodes; ``nodes`` are external ids, null for erased ones. The other
    arrays have a row for each node, and ``scores`` a column for each class of ``meta.class_names``,
    or one column of numbers.
    """
    n_nodes, n_columns = scores.shape
    is_value = meta.score == "value"
    n_expected = 1 if is_value else len(meta.class_names)
    further = {
        name: values
        for name, values in (("variance", variance), ("stability", stability), (PROVEN, proven))
        if values is not None
    }
    lengths = {len(nodes), len(reachable), n_nodes, *map(len, further.values())}
    if len(lengths) > 1 or n_columns != n_expected:
        raise ValueError(
            f"nodes, scores and reachable must agree, got {len(nodes)} nodes, scores of shape "
            f"{scores.shape}, {len(reachable)} in reachable, "
            + "".join(f"{len(values)} of {name}, " for name, values in further.items())
            + f"and {len(meta.class_names)} classes"
        )
    labels = None if is_value else label_values(meta.class_names)
    score = score_column(meta.score)
    schema = _schema(
        nodes.type,
        labels,
        score,
        further={name: _type_of(values) for name, values in further.items()},
        has_sets=p_values is not None,
        has_labeled=labeled is not None,
    ).with_metadata(meta.to_schema_metadata())
    if nodes.null_count:
        reachable = reachable & nodes.is_valid().to_numpy(zero_copy_only=False)
        schema = _with_nodes(schema, nullable=True)

    rule = meta.rule
    is_labeled = np.zeros(n_nodes, bool)
    is_labeled[[] if labeled is None else labeled] = True

    def write(path: Path) -> None:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for first in range(0, n_nodes, ROWS_PER_BATCH):
                rows = slice(first, first + ROWS_PER_BATCH)
                some = scores[rows]
                if meta.score == "probability":
                    some = np.clip(some, 0.0, 1.0)
                of_scores = (
                    _number_columns(some[:, 0], reachable[rows])
                    if labels is None
                    else list(class_columns(labels, some, reachable[rows], score, rule).values())
                )
                columns = [_one_chunk(nodes[rows]), *of_scores]
                if labeled is not None:
                    columns.insert(schema.get_field_index(LABELED), pa.array(is_labeled[rows]))
                for name, values in further.items():
                    column = pa.array(values[rows], _type_of(values), mask=~reachable[rows])
                    columns.insert(schema.get_field_index(name), column)
                if p_values is not None:
                    columns += [pa.array(each, pa.float32()) for each in p_values[rows].T]
                writer.write_batch(pa.record_batch(columns, schema=schema))

    directory.mkdir(parents=True, exist_ok=True)
    path = directory / meta.file_name
    publish_file(path, write)
    return path


def require_few_classes(argument: str, n_classes: int) -> None:
    """Raise BadArgument where there are too many classes for columns of their own."""
    if n_classes > MAX_SCORE_COLUMNS:
        raise BadArgument(
            argument,
            f"needs columns of each class, of {MAX_SCORE_COLUMNS} at most, got {n_classes}",
        )


def label_values(class_names: tuple[str | int, ...]) -> pa.Array:
    """The classes as stored: int64 when all are numbers, else strings.

    Raises ValueError where a number and a string have the same text.
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


def _schema(
    node_type: pa.DataType,
    labels: pa.Array | None,
    score: str,
    *,
    further: Mapping[str, pa.DataType],
    has_sets: bool,
    has_labeled: bool,
) -> pa.Schema:
    """Schema of a file; ``labels`` are the classes, None where numbers are predicted."""
    label_type = pa.float64() if labels is None else labels.type
    if pa.types.is_string(label_type):
        label_type = pa.dictionary(pa.int32(), label_type)
    fields = [
        pa.field("node", node_type, nullable=False),
        pa.field("label", label_type),
        pa.field(score, pa.float32(), nullable=False),
        pa.field("margin", pa.float32(), nullable=labels is None),
        pa.field("reachable", pa.bool_(), nullable=False),
    ]
    if has_labeled:
        fields.append(pa.field(LABELED, pa.bool_(), nullable=False))
    fields += [pa.field(name, kind) for name, kind in further.items()]
    if labels is not None and len(labels) <= MAX_SCORE_COLUMNS:
        fields += [
            pa.field(f"{score}:{name}", pa.float32(), nullable=False) for name in labels.to_pylist()
        ]
    if labels is not None and has_sets:
        fields += [
            pa.field(f"{P_VALUE_PREFIX}{name}", pa.float32(), nullable=False)
            for name in labels.to_pylist()
        ]
    return pa.schema(fields)


def _type_of(values: Float32Array | BoolArray) -> pa.DataType:
    return pa.bool_() if values.dtype == np.bool_ else pa.float32()


def _number_columns(values: FloatArray, reachable: BoolArray) -> list[pa.Array]:
    """Columns of `_schema` after ``node``, for some rows of numbers."""
    return [
        pa.array(values, pa.float64(), mask=~reachable),
        pa.array(values, pa.float32()),
        pa.nulls(len(values), pa.float32()),
        pa.array(reachable),
    ]


def class_columns(
    labels: pa.Array,
    scores: FloatArray,
    reachable: BoolArray,
    score: str,
    rule: DecisionRule | None = None,
) -> dict[str, pa.Array]:
    """Columns of some rows after ``node``, by name; no label and margin 0 where not ``reachable``.

    ``labels`` come from `label_values`, ``score`` from `score_column`; ``scores`` are (n_rows,
    n_classes), and decide by ``rule``.
    """
    place = decided(scores, rule)
    if rule is None:
        two_best = np.partition(scores, -2, axis=1)[:, -2:]
        own, margin = two_best[:, 1], two_best[:, 1] - two_best[:, 0]
    else:
        own, margin = scores[np.arange(place.size), place], rule.margin(scores, place)
    winner = pa.array(place.astype(np.int32), mask=~reachable)
    if pa.types.is_string(labels.type):
        label = pa.DictionaryArray.from_arrays(winner, labels)
    else:
        label = labels.take(winner)
    columns = {
        "label": label,
        score: pa.array(own, pa.float32()),
        "margin": pa.array(np.where(reachable, margin, 0.0), pa.float32()),
        "reachable": pa.array(reachable),
    }
    if len(labels) <= MAX_SCORE_COLUMNS:
        for name, column in zip(labels.to_pylist(), scores.T, strict=True):
            columns[f"{score}:{name}"] = pa.array(column, pa.float32())
    return columns


def _one_chunk(nodes: pa.Array | pa.ChunkedArray) -> pa.Array:
    return nodes.combine_chunks() if isinstance(nodes, pa.ChunkedArray) else nodes


class Prediction(TypedDict):
    """What is predicted for one node, as values for JSON.

    ``variance``, ``stability``, ``proven``, ``p_values`` and ``labels`` are None unless the job or
    the caller asked for them.
    """

    node: str | int
    label: str | int | float | None
    score: np.float32
    margin: np.float32 | None
    reachable: bool
    variance: np.float32 | None
    stability: np.float32 | None
    proven: bool | None
    scores: dict[str, np.float32] | None
    p_values: dict[str, np.float32] | None
    labels: Sequence[str | int] | None
    certain: bool | None


class PredictionFile:
    """Reader of one prediction file, memory-mapped, so that opening it is cheap; thread-safe.

    An open file stays readable after it is removed. ``hidden`` are dense ids, increasing, of nodes
    that must not be shown. ``key`` differs between two files, and between two readers that hide
    different nodes. ``has_all_nodes`` says whether every row has a node; rows of erased nodes are
    blank.
    """

    def __init__(self, path: Path, hidden: Int64Array = _NO_NODES) -> None:
        self.path = path
        self._content: pa.Buffer = pa.memory_map(str(path)).read_buffer()
        reader = pa.ipc.open_file(self._content)
        self.schema: pa.Schema = _with_nodes(reader.schema, nullable=False)
        self.meta = PredictionMeta.from_schema(self.schema)
        # views are made once: making one costs more than a lookup in it
        batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
        blanked = list(_blank_batches(batches, hidden))
        self.has_all_nodes = not any(batch.column("node").null_count for batch in blanked)
        self._aligned = _with_nodes(reader.schema, nullable=not self.has_all_nodes)
        self._batches = [pa.record_batch(batch.columns, schema=self._aligned) for batch in blanked]
        status = path.stat()
        self.key = path, status.st_ino, status.st_mtime_ns, hidden.tobytes()
        self._columns = [batch.columns for batch in self._batches]
        self.n_nodes = sum(batch.num_rows for batch in self._batches)

    @property
    def score_column(self) -> str:
        """Name of the score column in this file; class columns are ``NAME:<class>``."""
        return own_score(self.schema.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows by dense id, in batches."""
        yield from self._batches

    def shown(self) -> Iterator[pa.RecordBatch]:
        """The rows that have a node, by dense id, in batches."""
        for batch in self._batches:
            nodes = batch.column("node")
            named = batch.filter(nodes.is_valid()) if nodes.null_count else batch
            yield pa.record_batch(named.columns, schema=self.schema)

    def erase(self, nodes: IntArray) -> None:
        """Rewrite the file without some dense ids, unless it has nothing of them."""
        mine = np.asarray(nodes, np.int64)
        mine = mine[mine < self.n_nodes]
        names = (self._batches[batch].column("node") for batch in mine // ROWS_PER_BATCH)
        rows = (mine % ROWS_PER_BATCH).tolist()
        if not any(column[row].is_valid for column, row in zip(names, rows, strict=True)):
            return
        schema = _with_nodes(self.schema, nullable=True)

        def write(path: Path) -> None:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                for batch in _blank_batches(self._batches, np.unique(mine)):
                    writer.write_batch(pa.record_batch(batch.columns, schema=schema))

        publish_file(self.path, write)

    def table(self) -> pa.Table:
        """All rows by dense id, as a view of the file."""
        return pa.Table.from_batches(self._batches, self._aligned)

    def stream(self) -> Iterator[memoryview]:
        """All rows as an Arrow IPC stream, in pieces of the file that are not decoded.

        Only for a file that `has_all_nodes`. An IPC file is such a stream between its magic number
        and its footer.
        """
        content = memoryview(self._content)
        trailer = struct.Struct(f"<i{len(_MAGIC)}s")
        (n_footer, _) = trailer.unpack(content[-trailer.size :])
        stop = len(content) - trailer.size - n_footer
        for start in range(_ALIGNED_MAGIC_BYTES, stop, _BYTES_PER_PIECE):
            yield content[start : min(start + _BYTES_PER_PIECE, stop)]

    def take(self, nodes: IntArray) -> pa.Table:
        """The rows of those dense ids that have a node, in the given order; reads no others."""
        batch_of, row_of = np.divmod(np.asarray(nodes, np.int64), ROWS_PER_BATCH)
        order = np.argsort(batch_of, kind="stable")
        pieces = [
            self._batches[batch].take(pa.array(row_of[batch_of == batch]))
            for batch in np.unique(batch_of).tolist()
        ]
        taken = pa.Table.from_batches(pieces, self._aligned).take(pa.array(np.argsort(order)))
        return pa.Table.from_arrays(taken.columns, schema=self.schema)

    def lookup(self, nodes: IntArray) -> list[Prediction]:
        """Predictions of some dense ids, in the given order.

        Raises IndexError for an id that is negative or newer than the snapshot.
        """
        nodes = np.asarray(nodes, dtype=np.int64)
        if nodes.size and not 0 <= nodes.min() <= nodes.max() < self.n_nodes:
            raise IndexError(
                f"nodes must lie in [0, {self.n_nodes}), got {nodes.min()} to {nodes.max()}"
            )
        batch_of, row_of = np.divmod(nodes, ROWS_PER_BATCH)
        if len(nodes) == 1:  # scalars by column take a tenth of the time
            row = int(row_of[0])
            return self._predictions(
                [column[row : row + 1] for column in self._columns[batch_of[0]]]
            )
        by_place: dict[int, Prediction] = {}
        for batch in np.unique(batch_of).tolist():
            places = np.flatnonzero(batch_of == batch)
            rows = self._batches[batch].take(pa.array(row_of[places]))
            by_place |= zip(places.tolist(), self._predictions(rows.columns), strict=True)
        return [by_place[place] for place in range(len(nodes))]

    def of_nodes(self, nodes: IntArray) -> list[Prediction | None]:
        """Predictions of some dense ids; None where the file is older, or the row blank."""
        is_old = np.asarray(nodes) < self.n_nodes
        predictions = iter(self.lookup(nodes[is_old]))
        rows = [next(predictions) if each else None for each in is_old.tolist()]
        return [None if each is None or each["node"] is None else each for each in rows]

    def _predictions(self, columns: list[pa.Array]) -> list[Prediction]:
        values = {
            name: _json_values(column)
            for name, column in zip(self.schema.names, columns, strict=True)
        }
        n_rows = len(values["node"])
        score = self.score_column
        scores, p_values = (_by_class(values, each) for each in (f"{score}:", P_VALUE_PREFIX))
        nothing = [None] * n_rows
        return [
            Prediction(
                node=node,
                label=label,
                score=own,
                margin=margin,
                reachable=reachable,
                variance=variance,
                stability=stability,
                proven=proven,
                scores=scores_of_node,
                p_values=p_values_of_node,
                labels=None,
                certain=None,
            )
            for (
                node,
                label,
                own,
                margin,
                reachable,
                variance,
                stability,
                proven,
                scores_of_node,
                p_values_of_node,
            ) in zip(
                values["node"],
                values["label"],
                values[score],
                values["margin"],
                values["reachable"],
                values.get("variance", nothing),
                values.get("stability", nothing),
                values.get(PROVEN, nothing),
                scores or nothing,
                p_values or nothing,
                strict=True,
            )
        ]


def _by_class(values: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Values of the columns of a prefix, for each row by class; empty without such columns."""
    columns = {
        name.removeprefix(prefix): each for name, each in values.items() if name.startswith(prefix)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _with_nodes(schema: pa.Schema, *, nullable: bool) -> pa.Schema:
    return schema.set(0, schema.field("node").with_nullable(nullable))


def _blank_batches(batches: Sequence[pa.RecordBatch], nodes: IntArray) -> Iterator[pa.RecordBatch]:
    """Batches with the rows of some dense ids, which increase, blanked."""
    first = 0
    for batch in batches:
        start, stop = np.searchsorted(nodes, (first, first + batch.num_rows))
        yield _blank(batch, nodes[start:stop] - first) if stop > start else batch
        first += batch.num_rows


def _blank(batch: pa.RecordBatch, rows: IntArray) -> pa.RecordBatch:
    """A batch with some rows blanked: null, or 0 in columns that are not nullable."""
    is_blank = np.zeros(batch.num_rows, bool)
    is_blank[rows] = True
    place = pa.array(np.arange(batch.num_rows), mask=is_blank)
    columns = []
    for each, column in zip(batch.schema, batch.columns, strict=True):
        if each.name == "node" or each.nullable:
            columns.append(column.take(place))
        else:
            nothing = pa.scalar(0).cast(each.type)
            columns.append(pc.if_else(pa.array(is_blank), nothing, column))
    schema = _with_nodes(batch.schema, nullable=True)
    return pa.record_batch(columns, schema=schema)


def _json_values(column: pa.Array) -> list[Any]:
    """Values for JSON; 32-bit floats stay such, and so are written short."""
    if column.type == pa.float32():
        numbers = list(column.to_numpy(zero_copy_only=False))
        return (
            [None if np.isnan(each) else each for each in numbers] if column.null_count else numbers
        )
    values: list[Any] = column.to_pylist()
    if pa.types.is_integer(column.type):
        return [None if value is None else json_integer(value) for value in values]
    return values


def file_name(job_id: str, attempt: int) -> str:
    """Name of the file of one attempt; two attempts never write to one file."""
    return f"{job_id}-{attempt}{SUFFIX}"


def predictor_path(path: Path) -> Path:
    """Path of the predictor beside a prediction file; it may not exist."""
    return path.with_suffix(PREDICTOR_SUFFIX)


def given_path(path: Path) -> Path:
    """Path of what nodes give new points, beside a prediction file; it may not exist."""
    return path.with_suffix(GIVEN_SUFFIX)


def features_path(path: Path) -> Path:
    """Path of what features say, beside a prediction file; it may not exist."""
    return path.with_suffix(FEATURES_SUFFIX)


def left_out_path(path: Path) -> Path:
    """Path of the scores of left-out labels beside a prediction file; it may not exist."""
    return path.with_suffix(LEFT_OUT_SUFFIX)


def labels_path(path: Path) -> Path:
    """Path of the labels that a prediction file was made from."""
    return path.with_suffix(LABELS_SUFFIX)


def densities_path(path: Path) -> Path:
    """Path of the class densities beside a prediction file; it may not exist."""
    return path.with_suffix(DENSITIES_SUFFIX)


def shares_path(path: Path) -> Path:
    """Path of what each label adds to scores, beside a prediction file; it may not exist."""
    return path.with_suffix(SHARES_SUFFIX)


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays as an uncompressed ``.npz``, whole and flushed to the disk."""
    _write(path, lambda file: np.savez(file, **arrays))


def write_array(path: Path, array: RealArray) -> None:
    """Write one array as an ``.npy`` that can be memory-mapped, whole and flushed to the disk."""
    _write(path, lambda file: np.save(file, array))


def _write(path: Path, save: Callable[[BinaryIO], None]) -> None:
    def write(temporary: Path) -> None:
        with naming(temporary), temporary.open("wb") as file:
            save(file)

    path.parent.mkdir(parents=True, exist_ok=True)
    publish_file(path, write)
