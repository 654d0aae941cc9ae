"""CSV tables with a header line; a value of the wrong type is reported with its row."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from peewit.service.tables.uploads.faults import BadUpload, excerpt, named_faults
from peewit.service.tables.uploads.limits import COLUMNS, UploadLimits, require_at_most
from peewit.streaming.edges.blocks import COLUMNS as EDGE_COLUMNS
from peewit.streaming.edges.blocks import NodeKind
from peewit.streaming.edges.columns import check_column_names
from peewit.streaming.features.checked_tables import NODE

_IN_TURN: Final = pa.csv.ReadOptions(use_threads=False)  # with threads no row is named in errors
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_QUOTED: Final = re.compile(rb'(?<![^,\r\n])"[^"]*(?:""[^"]*)*"')
_LINE_END: Final = re.compile(rb"[\r\n]")


def csv_edges(
    file: BinaryIO, node_kind: NodeKind, limits: UploadLimits | None
) -> Iterator[pa.RecordBatch]:
    """Columns of the types that `read_columns` wants; a value that has another is named."""
    first_row = 0
    id_type = pa.string() if node_kind == "string" else pa.int64()
    for batch in csv_batches(file, EDGE_COLUMNS, limits, check=check_column_names):
        columns = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            wanted = pa.float64() if name == "weight" else id_type
            columns[name] = _convert(column, wanted, name, first_row)
        yield pa.record_batch(columns)
        first_row += batch.num_rows


def csv_features(
    file: BinaryIO, node_kind: NodeKind | None, limits: UploadLimits | None
) -> Iterator[pa.RecordBatch]:
    """Column ``node``, unless ``node_kind`` is None, and all others as one list."""
    names = _header(file, limits)
    columns = [name for name in names if name != NODE]
    has_node = node_kind is None or NODE in names
    if not has_node or len(set(names)) < len(names) or not columns:
        node = "" if node_kind is None else "node, once, and "
        raise BadUpload(
            f"the columns must be {node}at least one of numbers, each of another name; "
            f"they are {excerpt(', '.join(names), 200)}"
        )
    options = pa.csv.ConvertOptions(
        include_columns=names if node_kind is not None else columns,
        column_types={NODE: pa.string()} | dict.fromkeys(columns, pa.float64()),
        null_values=[""],
        strings_can_be_null=False,
    )
    first_row = 0
    with named_faults("every column but 'node' must hold numbers"):
        for batch in pa.csv.open_csv(file, read_options=_IN_TURN, convert_options=options):
            rows = np.column_stack(
                [batch.column(name).to_numpy(zero_copy_only=False) for name in columns]
            )
            _require_no_null(batch, columns, first_row)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), len(columns))
            told = {"features": lists}
            if node_kind is not None:
                kind = pa.string() if node_kind == "string" else pa.int64()
                told[NODE] = _convert(batch.column(NODE), kind, NODE, first_row)
            yield pa.record_batch(told)
            first_row += batch.num_rows


def csv_batches(
    file: BinaryIO,
    wanted: tuple[str, ...],
    limits: UploadLimits | None,
    *,
    check: Callable[[Sequence[str]], None],
) -> Iterator[pa.RecordBatch]:
    """Batches of some columns, every value as it stands there; other columns may hold anything."""
    names = _header(file, limits)
    check(names)
    options = pa.csv.ConvertOptions(
        include_columns=[name for name in names if name in wanted],
        column_types=dict.fromkeys(wanted, pa.string()),
        strings_can_be_null=False,
    )
    with named_faults("the CSV is damaged"):
        yield from pa.csv.open_csv(file, read_options=_IN_TURN, convert_options=options)


def n_csv_columns(file: BinaryIO) -> int:
    """Columns of the header, told without room for each; the file is left where it stood."""
    start = file.tell()
    head = file.read(_IN_TURN.block_size).removeprefix(_BYTE_ORDER_MARK).lstrip(b"\r\n")
    file.seek(start)
    return 1 + _LINE_END.split(_QUOTED.sub(b"", head), 1)[0].count(b",")


def _header(file: BinaryIO, limits: UploadLimits | None) -> list[str]:
    """Names of the columns, counted before Arrow reads them; the file is left where it stood."""
    start = file.tell()
    if limits is not None:
        require_at_most(n_csv_columns(file), limits.columns, COLUMNS)
    with named_faults("the body must be CSV with a header line"):
        names: list[str] = pa.csv.open_csv(file, read_options=_IN_TURN).schema.names
    file.seek(start)
    return names


def _require_no_null(batch: pa.RecordBatch, columns: list[str], first_row: int) -> None:
    """Raise where a field is empty."""
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise BadUpload(
                f"column {name!r} must hold a number",
                argument=name,
                row=first_row + row,
                value="''",
            )


def _convert(column: pa.Array, wanted: pa.DataType, name: str, first_row: int) -> pa.Array:
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
        argument=name,
        row=first_row + first,
        value=column[first].as_py(),
    )


def _casts(column: pa.Array, wanted: pa.DataType) -> bool:
    try:
        column.cast(wanted)
    except pa.ArrowInvalid:
        return False
    return True
