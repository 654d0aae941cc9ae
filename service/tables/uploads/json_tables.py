"""NDJSON tables, a chunk of lines at a time, and objects that were read already."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, Final

import orjson
import pyarrow as pa

from peewit.service.tables.uploads.faults import BadUpload
from peewit.service.tables.uploads.limits import BYTES_PER_BATCH, ROWS_PER_BATCH
from peewit.service.tables.uploads.node_ids import is_integer, node_id
from peewit.streaming.edges.blocks import NodeKind
from peewit.streaming.features.checked_tables import NODE

MAX_LINE_BYTES: Final = 1 << 24
"""Longest line of NDJSON; as values it takes many times as much."""

_JSON_DENSE: Final = {"features": pa.list_(pa.float64())}
_JSON_SPARSE: Final = {"indices": pa.list_(pa.int64()), "values": pa.list_(pa.float64())}


def json_rows(file: BinaryIO) -> Iterator[list[Any]]:
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


def json_edges(file: BinaryIO, node_kind: NodeKind) -> Iterator[pa.RecordBatch]:
    """Objects of src, dst and, where it is not 1, weight."""
    first_row = 0
    for rows in json_rows(file):
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
                raise BadUpload(
                    "column 'weight' must hold numbers", argument="weight", row=row, value=value
                )
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def json_features(
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
            raise BadUpload(
                f"{name!r} must be a list of {wanted}", argument=name, row=row, value=value
            )
    if not is_index:
        values = [[None if each is None else float(each) for each in value] for value in values]
    try:
        return pa.array(values, kind)
    except (OverflowError, pa.ArrowInvalid):  # found below, row by row
        for row, value in enumerate(values, first_row):
            if any(not is_integer(each) for each in value):
                rule = f"{name!r} must be a list of 64-bit integers"
                raise BadUpload(rule, argument=name, row=row, value=value) from None
        raise
