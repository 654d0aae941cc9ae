"""Tables that people send, in any `Format`, with the row at fault where one is.

Edges, features and new points come out as Arrow batches for `streaming.blocks.read_columns` and
`streaming.feature_blocks`, which check the data contract; labels are few and come out as Python
values. Nothing here looks at what the graph knows.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, Final, TypeGuard

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from service.formats import Format
from streaming.blocks import NodeKind, check_column_names
from streaming.feature_blocks import COLUMNS as FEATURE_COLUMNS
from streaming.feature_blocks import DENSE_COLUMNS, NODE, SPARSE_COLUMNS

ROWS_PER_BATCH: Final = 1 << 16
BYTES_PER_BATCH: Final = 1 << 24
"""Most of a batch that is read from a file, as far as can be told beforehand."""

NodeId = str | int
LabelValue = str | int | float

_LIMIT: Final = 2**63
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_NUMBER: Final = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE
)
_POINT: Final = re.compile(r"[.eE]")
"""What a real number has in its text and a whole one has not."""
_CSV_ROW: Final = re.compile(r"Row #(?P<line>\d+): (?P<rest>.*)", re.DOTALL)
_MAX_SHOWN: Final = 80
_JSON_DENSE: Final = {"features": pa.list_(pa.float64())}
_JSON_SPARSE: Final = {"indices": pa.list_(pa.int64()), "values": pa.list_(pa.float64())}


class BadUpload(ValueError):
    """What was sent cannot be read as the table it should be; nothing of it is taken.

    Attributes
    ----------
    reason : str
        The rule that is broken.
    row : int or None
        Row of the table, from 0; None when the fault is not one row's.
    value : str or None
        What stands there.
    """

    def __init__(self, reason: str, *, row: int | None = None, value: object = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row
        self.value = None if value is None else _shown(value)

    def __str__(self) -> str:
        received = "" if self.value is None else f", got {self.value}"
        place = "" if self.row is None else f" in row {self.row} (rows count from 0)"
        return f"{self.reason}{received}{place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRow:
    """One label as it was sent."""

    node: NodeId
    label: LabelValue


def node_id(
    value: object, node_kind: NodeKind, *, name: str = "node", row: int | None = None
) -> NodeId:
    """An external id of a graph's kind; integers may come as strings of digits.

    Parameters
    ----------
    value : object
        As JSON, a query or a table has it.
    node_kind : {"string", "int64", "dense"}
        What the ids of this graph are.
    name : str
        What errors call the value.
    row : int, optional
        Where it stands, for errors.

    Raises
    ------
    BadUpload
        The value cannot be such an id.
    """
    if node_kind == "string":
        if isinstance(value, str) and _is_text(value):
            return value
        raise BadUpload(f"{name!r} must be a string in this graph", row=row, value=value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if _is_integer(value):
        return value
    raise BadUpload(f"{name!r} must be a 64-bit integer in this graph", row=row, value=value)


def node_array(nodes: Iterable[NodeId], node_kind: NodeKind) -> pa.Array:
    """External ids as an Arrow array for a lookup in the node index."""
    return pa.array(nodes, pa.large_string() if node_kind == "string" else pa.int64())


def edge_batches(
    file: BinaryIO, table_format: Format, node_kind: NodeKind
) -> Iterator[pa.RecordBatch]:
    """Batches of edges in order, ready for `streaming.blocks.read_columns`.

    Parameters
    ----------
    file : binary file
        Read from where it stands; seekable.
    table_format : Format
        How it is written.
    node_kind : {"string", "int64", "dense"}
        What the ids of this graph are; says how CSV and JSON values are read.

    Raises
    ------
    BadUpload, streaming.blocks.BadEdges
        The file cannot be read, or a column of a CSV is missing.
    """
    match table_format:
        case Format.ARROW:
            yield from _arrow_batches(file)
        case Format.PARQUET:
            yield from _parquet_batches(file, ("src", "dst", "weight"))
        case Format.CSV:
            yield from _csv_edges(file, node_kind)
        case Format.NDJSON:
            yield from _json_edges(file, node_kind)


def feature_batches(
    file: BinaryIO, table_format: Format, node_kind: NodeKind
) -> Iterator[pa.RecordBatch]:
    """Batches of features in order, ready for `streaming.feature_blocks.read_features`.

    In CSV every column but ``node`` is one number of the row, in the order of the header.

    Raises
    ------
    BadUpload
        The file cannot be read.
    """
    match table_format:
        case Format.ARROW:
            yield from _arrow_batches(file)
        case Format.PARQUET:
            yield from _parquet_batches(file, FEATURE_COLUMNS)
        case Format.CSV:
            yield from _csv_features(file, node_kind)
        case Format.NDJSON:
            yield from _json_features(_json_rows(file), node_kind)


def point_batches(file: BinaryIO, table_format: Format) -> Iterator[pa.RecordBatch]:
    """The same of new points, which are no nodes; see `service.new_points`."""
    match table_format:
        case Format.ARROW:
            yield from _arrow_batches(file)
        case Format.PARQUET:
            yield from _parquet_batches(file, (*DENSE_COLUMNS, *SPARSE_COLUMNS))
        case Format.CSV:
            yield from _csv_features(file, None)
        case Format.NDJSON:
            yield from _json_features(_json_rows(file), None)


def json_point_batches(rows: list[Any]) -> Iterator[pa.RecordBatch]:
    """The same of JSON objects."""
    yield from _json_features([rows] if rows else [], None)


def label_rows(file: BinaryIO, table_format: Format, node_kind: NodeKind) -> list[LabelRow]:
    """Labels in order.

    A column of CSV holds whole numbers when every value of it is one; real numbers when every
    value is a number and one of them has a point or an exponent; else strings. The other formats
    say themselves what a value is.

    Raises
    ------
    BadUpload
        The file cannot be read, or a row breaks a rule.
    """
    if table_format is Format.NDJSON:
        rows = [row for chunk in _json_rows(file) for row in chunk]
        return checked_label_rows(rows, node_kind)
    match table_format:
        case Format.ARROW:
            batches = _arrow_batches(file)
        case Format.PARQUET:
            batches = _parquet_batches(file, ("node", "label"))
        case _:
            batches = _csv_batches(file, ("node", "label"))
    nodes: list[Any] = []
    labels: list[Any] = []
    for batch in batches:
        nodes += _label_column(batch, "node").to_pylist()
        labels += _label_column(batch, "label").to_pylist()
    if table_format is Format.CSV:
        labels = _typed_labels(labels)
    rows = [{"node": node, "label": label} for node, label in zip(nodes, labels, strict=True)]
    return checked_label_rows(rows, node_kind)


def checked_label_rows(rows: Iterable[object], node_kind: NodeKind) -> list[LabelRow]:
    """Labels of JSON objects, in order; raises `BadUpload` with the row that breaks a rule."""
    return [_label_row(number, row, node_kind) for number, row in enumerate(rows)]


def _label_row(number: int, row: object, node_kind: NodeKind) -> LabelRow:
    if not isinstance(row, Mapping):
        raise BadUpload("a row must be an object with node and label", row=number, value=row)
    for name in ("node", "label"):
        if name not in row:
            raise BadUpload(f"{name!r} is missing", row=number)
    label = row["label"]
    if label is None:
        raise BadUpload("'label' must not be null; DELETE takes a label back", row=number)
    if isinstance(label, float):
        if not math.isfinite(label):
            raise BadUpload("'label' must be a finite number", row=number, value=label)
    elif not _is_integer(label) and not (isinstance(label, str) and label):
        raise BadUpload(
            "'label' must be a 64-bit integer, a real number or a string with a character",
            row=number,
            value=label,
        )
    return LabelRow(node=node_id(row["node"], node_kind, row=number), label=label)


def _typed_labels(labels: list[str]) -> list[Any]:
    """Labels of a CSV column, all in the type that fits all of them."""
    if all(_INTEGER.fullmatch(label) for label in labels):
        return [int(label) for label in labels]
    is_real = any(_POINT.search(label) for label in labels)
    if is_real and all(_NUMBER.fullmatch(label) for label in labels):
        return [float(label) for label in labels]
    return labels


def _is_text(value: str) -> bool:
    """JSON can name half of a surrogate pair, which is no text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_integer(value: object) -> TypeGuard[int]:
    """JSON's true is no number, Python's is."""
    return isinstance(value, int) and not isinstance(value, bool) and -_LIMIT <= value < _LIMIT


def _label_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    count = batch.schema.names.count(name)
    if count != 1:
        held = ", ".join(batch.schema.names)
        raise BadUpload(f"column {name!r} must stand once; the columns are {held}")
    column = batch.column(name)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadUpload(f"column {name!r} must be valid Arrow data ({_shown(error)})") from error
    return column


def _arrow_batches(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    with _named_faults("the body must be an Arrow IPC stream"):
        reader = pa.ipc.open_stream(file)
    while True:
        with _named_faults("the Arrow IPC stream breaks off or is damaged"):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield batch


def _parquet_batches(file: BinaryIO, wanted: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    with _named_faults("the body must be a Parquet file"):
        parquet = pa.parquet.ParquetFile(file)
    names = [name for name in parquet.schema_arrow.names if name in wanted]
    n_rows = min(ROWS_PER_BATCH, max(1, BYTES_PER_BATCH // _row_bytes(parquet)))
    with _named_faults("the Parquet file is damaged"):
        batches = parquet.iter_batches(batch_size=n_rows, columns=names)
        yield from batches


def _row_bytes(parquet: pa.parquet.ParquetFile) -> int:
    """About how large a row is, as far as footer and schema tell."""
    metadata = parquet.metadata
    n_bytes = sum(metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups))
    widths = [
        4 * field.type.list_size
        for field in parquet.schema_arrow
        if pa.types.is_fixed_size_list(field.type)
    ]
    return int(max(1, n_bytes // max(metadata.num_rows, 1), *widths))


def _csv_features(file: BinaryIO, node_kind: NodeKind | None) -> Iterator[pa.RecordBatch]:
    """Column ``node``, unless ``node_kind`` is None, and all others as one list."""
    start = file.tell()
    in_turn = pa.csv.ReadOptions(use_threads=False)  # with threads no row is named in errors
    with _named_faults("the body must be CSV with a header line"):
        names = pa.csv.open_csv(file, read_options=in_turn).schema.names
    columns = [name for name in names if name != NODE]
    has_node = node_kind is None or NODE in names
    if not has_node or len(set(names)) < len(names) or not columns:
        node = "" if node_kind is None else "node, once, and "
        raise BadUpload(
            f"the columns must be {node}at least one of numbers, each of another name; "
            f"they are {_shown(', '.join(names), 200)}"
        )
    file.seek(start)
    options = pa.csv.ConvertOptions(
        include_columns=names if node_kind is not None else columns,
        column_types={NODE: pa.string()} | dict.fromkeys(columns, pa.float64()),
        null_values=[""],
        strings_can_be_null=False,
    )
    first_row = 0
    with _named_faults("every column but 'node' must hold numbers"):
        for batch in pa.csv.open_csv(file, read_options=in_turn, convert_options=options):
            rows = np.column_stack(
                [batch.column(name).to_numpy(zero_copy_only=False) for name in columns]
            )
            _require_no_null(batch, columns, first_row)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), len(columns))
            told = {"features": lists}
            if node_kind is not None:
                kind = pa.string() if node_kind == "string" else pa.int64()
                told[NODE] = _converted(batch.column(NODE), kind, NODE, first_row)
            yield pa.record_batch(told)
            first_row += batch.num_rows


def _require_no_null(batch: pa.RecordBatch, columns: list[str], first_row: int) -> None:
    """Raise where a field is empty."""
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise BadUpload(f"column {name!r} must hold a number", row=first_row + row, value="''")


def _json_features(
    chunks: Iterable[list[Any]], node_kind: NodeKind | None
) -> Iterator[pa.RecordBatch]:
    """Objects of features, or of indices and values, as the first one has, and of node.

    Where ``node_kind`` is None, node is not asked for.
    """
    first_row = 0
    owner = set() if node_kind is None else {NODE}
    kinds: dict[str, pa.DataType] | None = None
    for rows in chunks:
        if kinds is None:
            has_indices = isinstance(rows[0], dict) and "indices" in rows[0]
            kinds = _JSON_SPARSE if has_indices else _JSON_DENSE
        for number, row in enumerate(rows, first_row):
            if not isinstance(row, dict) or not row.keys() >= owner | kinds.keys():
                held = ", ".join([*owner, " and ".join(kinds)])
                rule = f"a row must be an object with {held}, as the first one"
                raise BadUpload(rule, row=number, value=row)
        batch = {
            name: _json_lists([row[name] for row in rows], name, kind, first_row)
            for name, kind in kinds.items()
        }
        if node_kind is not None:
            batch[NODE] = _json_ids([row[NODE] for row in rows], NODE, node_kind, first_row)
        yield pa.record_batch(batch)
        first_row += len(rows)


def _json_lists(values: list[Any], name: str, kind: pa.DataType, first_row: int) -> pa.Array:
    """Lists of numbers of one column; nulls stay, for `read_features` to refuse."""
    is_index = pa.types.is_integer(kind.value_type)
    usual = {int} if is_index else {int, float, type(None)}
    for row, value in enumerate(values, first_row):
        if not isinstance(value, list) or not {type(each) for each in value} <= usual:
            wanted = "64-bit integers" if is_index else "numbers"
            raise BadUpload(f"{name!r} must be a list of {wanted}", row=row, value=value)
    if not is_index:
        values = [[None if each is None else float(each) for each in value] for value in values]
    try:
        return pa.array(values, kind)
    except (OverflowError, pa.ArrowInvalid):  # found below, row by row
        for row, value in enumerate(values, first_row):
            if any(not _is_integer(each) for each in value):
                rule = f"{name!r} must be a list of 64-bit integers"
                raise BadUpload(rule, row=row, value=value) from None
        raise


def _csv_edges(file: BinaryIO, node_kind: NodeKind) -> Iterator[pa.RecordBatch]:
    """Columns of the types that `read_columns` wants; a value that has another is named."""
    first_row = 0
    id_type = pa.string() if node_kind == "string" else pa.int64()
    for batch in _csv_batches(file, ("src", "dst", "weight"), check=check_column_names):
        columns = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            wanted = pa.float64() if name == "weight" else id_type
            columns[name] = _converted(column, wanted, name, first_row)
        yield pa.record_batch(columns)
        first_row += batch.num_rows


def _csv_batches(
    file: BinaryIO,
    wanted: tuple[str, ...],
    *,
    check: Callable[[list[str]], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of some columns, every value as it stands there; other columns may hold anything."""
    start = file.tell()
    in_turn = pa.csv.ReadOptions(use_threads=False)  # with threads no row is named in errors
    with _named_faults("the body must be CSV with a header line"):
        names = pa.csv.open_csv(file, read_options=in_turn).schema.names
    if check is not None:
        check(names)
    file.seek(start)
    options = pa.csv.ConvertOptions(
        include_columns=[name for name in names if name in wanted],
        column_types=dict.fromkeys(wanted, pa.string()),
        strings_can_be_null=False,
    )
    with _named_faults("the CSV is damaged"):
        yield from pa.csv.open_csv(file, read_options=in_turn, convert_options=options)


def _converted(column: pa.Array, wanted: pa.DataType, name: str, first_row: int) -> pa.Array:
    if column.type == wanted:
        return column
    if _casts(column, wanted):
        return column.cast(wanted)
    first, n_rows = 0, len(column)  # bisect for the first bad row, never a loop over rows
    while n_rows > 1:
        half = n_rows // 2
        if _casts(column.slice(first, half), wanted):
            first, n_rows = first + half, n_rows - half
        else:
            n_rows = half
    rule = "a 64-bit integer" if pa.types.is_integer(wanted) else "a number"
    raise BadUpload(
        f"column {name!r} must hold {rule} in every row",
        row=first_row + first,
        value=column[first].as_py(),
    )


def _casts(column: pa.Array, wanted: pa.DataType) -> bool:
    try:
        column.cast(wanted)
    except pa.ArrowInvalid:
        return False
    return True


def _json_edges(file: BinaryIO, node_kind: NodeKind) -> Iterator[pa.RecordBatch]:
    first_row = 0
    for rows in _json_rows(file):
        for number, row in enumerate(rows, first_row):
            if not isinstance(row, dict) or "src" not in row or "dst" not in row:
                raise BadUpload("a row must be an object with src and dst", row=number, value=row)
        columns = {
            "src": _json_ids([row["src"] for row in rows], "src", node_kind, first_row),
            "dst": _json_ids([row["dst"] for row in rows], "dst", node_kind, first_row),
            "weight": _json_weights([row.get("weight", 1.0) for row in rows], first_row),
        }
        yield pa.record_batch(columns)
        first_row += len(rows)


def _json_ids(values: list[Any], name: str, node_kind: NodeKind, first_row: int) -> pa.Array:
    """Ids of one column; nulls stay, for `read_columns` to refuse."""
    usual, arrow_type = (str, pa.string()) if node_kind == "string" else (int, pa.int64())
    if {type(value) for value in values} <= {usual}:
        with suppress(OverflowError, pa.ArrowInvalid):  # too large for 64 bits: named below
            return pa.array(values, arrow_type)
    checked = [
        None if value is None else node_id(value, node_kind, name=name, row=row)
        for row, value in enumerate(values, first_row)
    ]
    return pa.array(checked, arrow_type)


def _json_weights(values: list[Any], first_row: int) -> pa.Array:
    if not {type(value) for value in values} <= {float, int, type(None)}:
        for row, value in enumerate(values, first_row):
            if value is not None and type(value) not in {float, int}:
                raise BadUpload("column 'weight' must hold numbers", row=row, value=value)
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _json_rows(file: BinaryIO) -> Iterator[list[Any]]:
    """The values of some lines at a time; blank lines are not counted."""
    first_row = 0
    lines = filter(bytes.strip, file)
    while chunk := list(islice(lines, ROWS_PER_BATCH)):
        yield _json_values(chunk, first_row)
        first_row += len(chunk)


def _json_values(lines: list[bytes], first_row: int) -> list[Any]:
    with suppress(orjson.JSONDecodeError):  # which line it is, is found below
        values: list[Any] = orjson.loads(b"[%b]" % b",".join(lines))
        if len(values) == len(lines):
            return values
    values = []
    for row, line in enumerate(lines, first_row):
        try:
            values.append(orjson.loads(line))
        except orjson.JSONDecodeError as error:
            rule = f"every line must be one JSON object ({error.msg})"
            raise BadUpload(rule, row=row, value=line.decode(errors="replace").strip()) from None
    return values


@contextmanager
def _named_faults(rule: str) -> Iterator[None]:
    """What Arrow says about a file that it cannot read, as `BadUpload`."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        match = _CSV_ROW.search(str(error))
        if match is None:
            raise BadUpload(f"{rule} ({_shown(error, 200)})") from error
        # Arrow counts lines from 1 and the header is the first.
        row = int(match["line"]) - 2
        raise BadUpload(f"{rule} ({_shown(match['rest'], 200)})", row=row) from error


def _shown(value: object, limit: int = _MAX_SHOWN) -> str:
    text = str(value)
    return text if len(text) <= limit else text[:limit] + "..."
