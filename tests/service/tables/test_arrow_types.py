"""Every Arrow type in every column of uploads: read as what it stands for, or refused by name."""

import datetime as dt
import io
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.tables.uploads import LabelColumns, edge_batches, feature_batches, read_labels
from peewit.service.tables.uploads.givers import GIVER_COLUMNS
from peewit.service.tables.uploads.labels import read_nodes
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.features.checked_tables import read_features

DAY = dt.date(2026, 1, 2)
VALUES: list[list[Any]] = [
    ["3", "4"],
    [3, 4],
    [3.0, 4.0],
    [True, False],
    [b"abc", b"def"],
    [b"0123456789abcdef"] * 2,
    [DAY, DAY],
    [dt.time(1, 2)] * 2,
    [dt.timedelta(1)] * 2,
    [Decimal(3), Decimal(4)],
    [{"a": 1}] * 2,
    [[1, 2]] * 2,
    [(1, 2, 3)] * 2,
    [None, None],
]
NUMBERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
PLAIN: list[pa.DataType] = [
    *(pa.type_for_alias(name) for name in NUMBERS),
    *(pa.null(), pa.bool_(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    *(pa.duration("s"), pa.duration("ns"), pa.month_day_nano_interval()),
    *(pa.decimal32(5, 0), pa.decimal64(10, 2), pa.decimal128(38, 0), pa.decimal128(10, 2)),
    *(pa.decimal256(50, 0), pa.decimal256(50, 3)),
    *(pa.uuid(), pa.json_(), pa.bool8(), pa.opaque(pa.int32(), "a", "b")),
]
TYPES = [
    *PLAIN,
    *(pa.dictionary(pa.uint32(), kind) for kind in PLAIN if kind.num_fields == 0),
    *(pa.run_end_encoded(pa.int32(), kind) for kind in PLAIN),
    *(pa.list_(kind) for kind in PLAIN),
    *(pa.struct([("a", pa.int64())]), pa.list_view(pa.int64()), pa.list_(pa.float32(), 2)),
]


def sample(kind: pa.DataType) -> pa.Array:
    """Two values of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, sample(kind.storage_type))
    if pa.types.is_dictionary(kind):
        indices = pa.array([0, 1], kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, sample(kind.value_type))
    if pa.types.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays(pa.array([1, 2]), sample(kind.value_type), kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), sample(kind.value_type))
    if pa.types.is_date(kind):
        return pa.array([DAY, DAY], kind)
    for values in VALUES:
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue
    raise AssertionError(f"no sample of {kind}")


def tables(column: pa.Array, kind: NodeKind) -> Iterator[tuple[str, pa.Table]]:
    """Tables of every use in which the column stands once, by what reads them."""
    ids = pa.array(["a", "b"]) if kind == "string" else pa.array([1, 2])
    for name in ("src", "weight", "op", "time"):
        yield "edges", pa.table({"src": ids, "dst": ids[::-1], name: column})
    for name in ("node", "label", "annotator"):
        yield "labels", pa.table({"node": ids, "label": pa.array(["x", "y"]), name: column})
    values = pa.array([[1.0], [2.0]], pa.list_(pa.float32()))
    for name in ("node", "features"):
        yield "features", pa.table({"node": ids, "features": values, name: column})
    yield "nodes", pa.table({"node": column})


def read(
    use: str, file: io.BytesIO, table_format: Format, kind: NodeKind, names: list[str]
) -> None:
    match use:
        case "edges":
            op, time = (name if name in names else None for name in ("op", "time"))
            columns = EdgeColumns(op=op, time=time, time_unit="s")
            for batch in edge_batches(file, table_format, kind, columns=columns):
                read_columns(batch, node_kind=kind, max_nodes=100, columns=columns)
        case "labels":
            read_labels(file, table_format, kind, LabelColumns(givers=GIVER_COLUMNS))
        case "features":
            for batch in feature_batches(file, table_format, kind):
                read_features(batch, node_kind=kind, max_nodes=100)
        case _:
            read_nodes(file, table_format, kind, node="node")


def refused(use: str, *table: Any) -> str:
    """Why a table is refused; empty where it is read."""
    try:
        read(use, *table)
    except BadTable as error:
        return str(error)
    return ""


OF_ARROW = ("kernel", "damaged", "not implemented", "Unsupported")
"""Words of Arrow, which tell people nothing."""


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_a_type_is_read_or_refused_by_name(kind: pa.DataType) -> None:
    column = sample(kind)
    for node_kind in ("string", "int64"):
        for use, table in tables(column, node_kind):
            for table_format in (Format.ARROW, Format.PARQUET):
                file = io.BytesIO()
                try:
                    if table_format is Format.PARQUET:
                        pq.write_table(table, file)
                    else:
                        with pa.ipc.new_stream(file, table.schema) as writer:
                            writer.write_table(table)
                except (pa.ArrowException, OSError):  # no such file can come
                    continue
                file.seek(0)
                refusal = refused(use, file, table_format, node_kind, table.column_names)
                assert not any(word in refusal for word in OF_ARROW), refusal
