"""Tables that people send, in any `Format`, with the row at fault where one is.

Edges, features and new points come out as Arrow batches for `streaming.blocks.read_columns` and
`streaming.feature_blocks`, which check the data contract; labels are few and come out as Python
values. Nothing here looks at what the graph knows.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TypeGuard, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from service.arrow_survey import UnboundedArrow, survey_arrow
from service.formats import Format
from service.parquet_survey import UnboundedParquet, survey_parquet
from streaming.blocks import COLUMNS as EDGE_COLUMNS
from streaming.blocks import MAX_NODE_BYTES, NodeKind, check_column_names, string_lengths
from streaming.feature_blocks import COLUMNS as FEATURE_COLUMNS
from streaming.feature_blocks import DENSE_COLUMNS, NODE, SPARSE_COLUMNS

ROWS_PER_BATCH: Final = 1 << 16
BYTES_PER_BATCH: Final = 1 << 24
"""Most of a batch that is read from a file, as far as can be told beforehand."""

MAX_LINE_BYTES: Final = 1 << 24
"""Longest line of NDJSON; as values it takes many times as much."""

LABEL_COLUMNS: Final = ("node", "label")
_ROWS: Final = "rows", "LAPWING_MAX_BODY_ROWS"
_LABEL_ROWS: Final = "label_rows", "LAPWING_MAX_LABEL_ROWS"

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
_MAX_UTF8_BYTES: Final = 4  # of a character
_VIEWS: Final = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_STRINGS: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), *_VIEWS)
_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
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


class TableTooLarge(BadUpload):
    """The table takes more once it is decoded than the server allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """What a table may come to, however few bytes it was sent in.

    Attributes
    ----------
    rows : int
        Most rows of one table.
    label_rows : int
        The same of labels, which become Python values.
    decoded_bytes : int
        Most bytes of all columns once they are decoded.
    batch_bytes : int
        The same of what is decoded at once: a page of Parquet, a batch of Arrow.
    """

    rows: int
    label_rows: int
    decoded_bytes: int
    batch_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedLabels:
    """Labels as they were sent, in columns.

    Attributes
    ----------
    nodes : list of str or int
        (n_rows,) external ids.
    labels : list of str, int or float
        (n_rows,) label of each.
    """

    nodes: list[NodeId]
    labels: list[LabelValue]

    def last_of_each(self) -> dict[str, LabelValue]:
        """The last label of each node, by the node as text, in the order of first naming."""
        return {str(node): label for node, label in zip(self.nodes, self.labels, strict=True)}


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
        if not isinstance(value, str) or not _is_text(value):
            raise BadUpload(f"{name!r} must be a string in this graph", row=row, value=value)
        if len(value.encode()) > MAX_NODE_BYTES:
            rule = f"{name!r} must have at most {MAX_NODE_BYTES} bytes"
            raise BadUpload(rule, row=row, value=value)
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if _is_integer(value):
        return value
    raise BadUpload(f"{name!r} must be a 64-bit integer in this graph", row=row, value=value)


def node_array(nodes: Iterable[NodeId], node_kind: NodeKind) -> pa.Array:
    """External ids as an Arrow array for a lookup in the node index."""
    return pa.array(nodes, pa.large_string() if node_kind == "string" else pa.int64())


def edge_batches(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    *,
    limits: UploadLimits | None = None,
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
    limits : UploadLimits, optional
        What a table from outside may come to; files of this machine's owner have none.

    Raises
    ------
    BadUpload, streaming.blocks.BadEdges
        The file cannot be read, or a column of a CSV is missing.
    TableTooLarge
        It comes to more than the limits; where that can be told, before anything is decoded.
    """
    match table_format:
        case Format.ARROW | Format.PARQUET:
            batches = _stored_batches(file, table_format, EDGE_COLUMNS, limits)
        case Format.CSV:
            batches = _csv_edges(file, node_kind)
        case Format.NDJSON:
            batches = _json_edges(file, node_kind)
    yield from _counted(batches, limits)


def feature_batches(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    *,
    limits: UploadLimits | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of features in order, ready for `streaming.feature_blocks.read_features`.

    In CSV every column but ``node`` is one number of the row, in the order of the header.

    Raises
    ------
    BadUpload
        The file cannot be read.
    TableTooLarge
        As of `edge_batches`.
    """
    match table_format:
        case Format.ARROW | Format.PARQUET:
            batches = _stored_batches(file, table_format, FEATURE_COLUMNS, limits)
        case Format.CSV:
            batches = _csv_features(file, node_kind)
        case Format.NDJSON:
            batches = _json_features(_json_rows(file), node_kind)
    yield from _counted(batches, limits)


def point_batches(
    file: BinaryIO, table_format: Format, *, limits: UploadLimits | None = None
) -> Iterator[pa.RecordBatch]:
    """The same of new points, which are no nodes; see `service.new_points`."""
    match table_format:
        case Format.ARROW | Format.PARQUET:
            columns = (*DENSE_COLUMNS, *SPARSE_COLUMNS)
            batches = _stored_batches(file, table_format, columns, limits)
        case Format.CSV:
            batches = _csv_features(file, None)
        case Format.NDJSON:
            batches = _json_features(_json_rows(file), None)
    yield from _counted(batches, limits)


def json_point_batches(rows: list[Any]) -> Iterator[pa.RecordBatch]:
    """The same of JSON objects."""
    yield from _json_features([rows] if rows else [], None)


def read_labels(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    *,
    limits: UploadLimits | None = None,
) -> UploadedLabels:
    """Labels in order.

    A column of CSV holds whole numbers when every value of it is one; real numbers when every
    value is a number and one of them has a point or an exponent; else strings. The other formats
    say themselves what a value is.

    Raises
    ------
    BadUpload
        The file cannot be read, or a row breaks a rule.
    TableTooLarge
        As of `edge_batches`.
    """
    max_rows = None if limits is None else limits.label_rows
    if table_format is Format.NDJSON:
        rows: list[Any] = []
        for chunk in _json_rows(file):
            rows += chunk
            _require_rows(len(rows), max_rows, _LABEL_ROWS)
        return json_labels(rows, node_kind)
    if table_format is Format.CSV:
        batches = _csv_batches(file, LABEL_COLUMNS)
    else:
        batches = _stored_batches(file, table_format, LABEL_COLUMNS, limits)
    nodes: list[Any] = []
    labels: list[Any] = []
    for batch in _counted(batches, limits):
        _require_rows(len(nodes) + batch.num_rows, max_rows, _LABEL_ROWS)
        nodes += _label_column(batch, "node").to_pylist()
        labels += _label_column(batch, "label").to_pylist()
    if table_format is Format.CSV:
        labels = _typed_labels(labels)
    return _checked_labels(nodes, labels, node_kind)


def json_labels(rows: Sequence[object], node_kind: NodeKind) -> UploadedLabels:
    """Labels of JSON objects, in order; raises `BadUpload` with the row that breaks a rule."""
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            rule = "a row must be an object with node and label"
            raise BadUpload(rule, row=number, value=row)
        for name in LABEL_COLUMNS:
            if name not in row:
                raise BadUpload(f"{name!r} is missing", row=number)
    objects = cast("Sequence[dict[str, Any]]", rows)
    nodes, labels = ([row[name] for row in objects] for name in LABEL_COLUMNS)
    return _checked_labels(nodes, labels, node_kind)


def _checked_labels(nodes: list[Any], labels: list[Any], node_kind: NodeKind) -> UploadedLabels:
    """Columns of a million rows at the cost of a few looks at all of it, where nothing is wrong."""
    seen = set()
    for row, label in enumerate(labels):
        key = type(label), label if label.__hash__ is not None else None
        if key not in seen:
            _require_label(label, row)
            seen.add(key)
    if not _are_plain(nodes, node_kind):
        nodes = [node_id(node, node_kind, row=row) for row, node in enumerate(nodes)]
    return UploadedLabels(nodes=nodes, labels=labels)


def _require_label(label: object, row: int) -> None:
    if label is None:
        raise BadUpload("'label' must not be null; DELETE takes a label back", row=row)
    if isinstance(label, float):
        if not math.isfinite(label):
            raise BadUpload("'label' must be a finite number", row=row, value=label)
    elif not _is_integer(label) and not (isinstance(label, str) and label):
        raise BadUpload(
            "'label' must be a 64-bit integer, a real number or a string with a character",
            row=row,
            value=label,
        )


def _are_plain(nodes: list[Any], node_kind: NodeKind) -> bool:
    """Whether all are ids as they stand; where not, they have to be looked at one by one."""
    if not nodes:
        return True
    if node_kind != "string":
        return {type(node) for node in nodes} == {int} and all(
            -_LIMIT <= end < _LIMIT for end in (min(nodes), max(nodes))
        )
    if {type(node) for node in nodes} != {str}:
        return False
    longest = max(map(len, nodes))
    return longest * _MAX_UTF8_BYTES <= MAX_NODE_BYTES and _is_text("".join(nodes))


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


def _stored_batches(
    file: BinaryIO, table_format: Format, wanted: tuple[str, ...], limits: UploadLimits | None
) -> Iterator[pa.RecordBatch]:
    """Batches of Arrow or Parquet; strings that stand in dictionaries, a few rows at a time."""
    if table_format is Format.ARROW:
        batches = _arrow_batches(file, wanted, limits)
    else:
        batches = _parquet_batches(file, wanted, limits)
    for batch in batches:
        yield from _with_plain_strings(batch, wanted)


def _arrow_batches(
    file: BinaryIO, wanted: tuple[str, ...], limits: UploadLimits | None
) -> Iterator[pa.RecordBatch]:
    if limits is not None:
        try:
            survey = survey_arrow(file)
        except UnboundedArrow as error:
            raise BadUpload(f"the body must be a whole Arrow IPC stream ({error})") from error
        _require_rows(survey.n_rows, limits.rows, _ROWS)
        _require_decodable(survey.decoded_bytes, survey.largest_message_bytes, limits)
    with _named_faults("the body must be an Arrow IPC stream"):
        reader = pa.ipc.open_stream(file)
        _require_plain_types(reader.schema, wanted)  # a name may be no text
    while True:
        with _named_faults("the Arrow IPC stream breaks off or is damaged"):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield batch


def _parquet_batches(
    file: BinaryIO, wanted: tuple[str, ...], limits: UploadLimits | None
) -> Iterator[pa.RecordBatch]:
    dictionaries: list[str] = []
    if limits is not None:
        try:
            survey = survey_parquet(file, wanted)
        except UnboundedParquet as error:
            raise BadUpload(f"the body must be a whole Parquet file ({error})") from error
        _require_rows(survey.n_rows, limits.rows, _ROWS)
        _require_decodable(survey.decoded_bytes, survey.largest_page_bytes, limits)
        dictionaries = sorted(survey.dictionary_columns)
    with _named_faults("the body must be a Parquet file"):
        parquet = pa.parquet.ParquetFile(file, read_dictionary=dictionaries)
        _require_plain_types(parquet.schema_arrow, wanted)
    names = [name for name in parquet.schema_arrow.names if name in wanted]
    n_rows = min(ROWS_PER_BATCH, max(1, BYTES_PER_BATCH // _row_bytes(parquet)))
    with _named_faults("the Parquet file is damaged"):
        batches = parquet.iter_batches(batch_size=n_rows, columns=names)
        yield from batches


def _require_decodable(n_bytes: int, n_at_once: int, limits: UploadLimits) -> None:
    """Refuse what takes too much memory, before anything is decompressed."""
    if n_bytes > limits.decoded_bytes:
        raise TableTooLarge(
            f"decoded_bytes must be at most {limits.decoded_bytes}; send the table in pieces, or "
            "raise LAPWING_MAX_DECODED_BYTES",
            value=n_bytes,
        )
    if n_at_once > limits.batch_bytes:
        raise TableTooLarge(
            f"batch_bytes must be at most {limits.batch_bytes} in a page or batch once it is "
            "decoded; write smaller ones, or raise LAPWING_MAX_BODY_BYTES",
            value=n_at_once,
        )


def _require_rows(n_rows: int, max_rows: int | None, rule: tuple[str, str]) -> None:
    if max_rows is not None and n_rows > max_rows:
        name, variable = rule
        raise TableTooLarge(
            f"{name} must be at most {max_rows}; send the table in pieces, or raise {variable}",
            value=n_rows,
        )


def _counted(
    batches: Iterable[pa.RecordBatch], limits: UploadLimits | None
) -> Iterator[pa.RecordBatch]:
    """The batches, as long as they stay within the limits: what was told of them may be wrong."""
    n_rows = n_bytes = 0
    for batch in batches:
        if limits is not None:
            n_rows += batch.num_rows
            n_bytes += batch.nbytes
            _require_rows(n_rows, limits.rows, _ROWS)
            _require_decodable(n_bytes, 0, limits)
        yield batch


def _require_plain_types(schema: pa.Schema, wanted: tuple[str, ...]) -> None:
    """Refuse columns that no table needs and whose size their bytes do not bound."""
    for field in schema:
        if field.name not in wanted:
            continue
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        is_list = any(check(kind) for check in _LISTS)
        value = kind.value_type if is_list else kind
        if not (pa.types.is_primitive(value) or (not is_list and kind in (*_STRINGS, pa.null()))):
            raise BadUpload(
                f"column {field.name!r} must hold strings, numbers or lists of numbers",
                value=f"type {field.type}",
            )


def _with_plain_strings(batch: pa.RecordBatch, wanted: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The batch with no wanted column of strings in a dictionary or as views.

    In those many rows share the bytes of a long string, so that copies of it may take any amount:
    they are made of as many rows as stay within `BYTES_PER_BATCH`.
    """
    row_bytes = 0
    shared: list[int] = []
    for number, field in enumerate(batch.schema):
        is_dictionary = pa.types.is_dictionary(field.type)
        kind = field.type.value_type if is_dictionary else field.type
        is_shared = is_dictionary or kind in _VIEWS
        if field.name in wanted and kind in _STRINGS and is_shared:
            column = batch.column(number)
            with _named_faults(f"column {field.name!r} must be valid Arrow data"):
                column.validate(full=True)
            values = column.dictionary if is_dictionary else column
            row_bytes += int(string_lengths(values).max(initial=0))
            shared.append(number)
    if not shared:
        yield batch
        return
    n_rows = max(1, BYTES_PER_BATCH // max(row_bytes, 1))
    for first in range(0, max(batch.num_rows, 1), n_rows):
        piece = batch.slice(first, n_rows)
        for number in shared:
            name, column = piece.schema.names[number], piece.column(number)
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            kind = _VIEWS.get(column.type, column.type)
            piece = piece.set_column(number, name, column.cast(kind))
        yield piece


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
    for batch in _csv_batches(file, EDGE_COLUMNS, check=check_column_names):
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
    first_row = n_bytes = 0
    chunk: list[bytes] = []
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            row = first_row + len(chunk)
            raise BadUpload(f"a line must have at most {MAX_LINE_BYTES} bytes", row=row)
        if not line.strip():
            continue
        chunk.append(line)
        n_bytes += len(line)
        if len(chunk) == ROWS_PER_BATCH or n_bytes >= BYTES_PER_BATCH:
            yield _json_values(chunk, first_row)
            first_row += len(chunk)
            chunk, n_bytes = [], 0
    if chunk:
        yield _json_values(chunk, first_row)


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
