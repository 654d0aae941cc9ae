"""Blocks of edges: columns checked against the data contract, then edges between dense ids.

``read_columns`` is the only gate through which edges enter, whatever brought them (files, pushes).
It copies nothing that already has the right type, and reading threads do it, so that little is left
to the one thread that maps blocks in order. Mapping ids to dense numbers is ``nodes``' work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import INT32_MAX, AnyArray, Float32Array, Int32Array, Int64Array, frozen
from peewit.streaming.edges.faults import BadTable
from peewit.streaming.kernels.columns import (
    GREATEST_WEIGHT,
    fill_self_loops,
    narrow_ids,
    survey_edges,
)

NodeKind = Literal["string", "int64", "dense"]
"""What a node id is: any string, any 64-bit integer, or a number in [0, max_nodes)."""

NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)

COLUMNS = ("src", "dst", "weight")
"""The columns of an edge table that are read; all others are ignored."""

MAX_NODES = INT32_MAX
"""Dense ids are int32, so a graph has at most this many nodes."""

MAX_NODE_BYTES = 2000
"""Longest node id; the indexes of PostgreSQL, which hold the ids of labeled nodes, end there."""

_MAX_INT64 = 2**63 - 1
_STRINGS = (pa.string(), pa.large_string(), pa.string_view())
_MAX_SHOWN = 200
_ONES: Float32Array = frozen(np.ones(1 << 20, dtype=np.float32))
"""What blocks of edges without weights share."""


class BadEdges(BadTable):
    """Edges break a rule of the data contract; the file they came from is not taken.

    Attributes
    ----------
    part : int or None
        Number of the part of the file that was being read.
    """

    part: int | None = None

    def bare(self) -> "BadEdges":
        """An equal error without a traceback, which holds the table it was raised for."""
        bare = BadEdges(self.reason)
        vars(bare).update(vars(self))
        return bare


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawBlock:
    """Checked columns of some consecutive rows, node ids still as they came.

    Attributes
    ----------
    src, dst : pyarrow.Array
        (n_rows,) string or large_string for node kind ``string``, int64 for ``int64``, int32 for
        ``dense``; no nulls.
    weight : (n_rows,) float32
        Finite and > 0; read-only where others may use the memory.
    first_row : int
        Row within the file of the first row here.
    is_owned : bool
        Whether nobody else uses the memory, so that it may be overwritten.
    greatest_id, n_self_loops : int or None
        Of dense ids: what was seen while they were checked (-1 without rows).
    """

    src: pa.Array
    dst: pa.Array
    weight: Float32Array
    first_row: int = 0
    is_owned: bool = False
    greatest_id: int | None = None
    n_self_loops: int | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, self-loops included."""
        return len(self.weight)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeBlock:
    """Edges between dense ids, without self-loops; parallel edges and both orientations may occur.

    Attributes
    ----------
    u, v : (n_edges,) int32
        Endpoints, ``u != v``.
    weight : (n_edges,) float32
        Finite and > 0.
    n_self_loops : int
        Rows that were dropped because both endpoints were the same node.
    n_rows : int
        Rows before dropping.
    """

    u: Int32Array
    v: Int32Array
    weight: Float32Array
    n_self_loops: int
    n_rows: int


def check_node_kind(node_kind: str) -> NodeKind:
    """Return ``node_kind`` if it is one; ValueError otherwise."""
    for kind in NODE_KINDS:
        if node_kind == kind:
            return kind
    raise ValueError(f"node_kind must be one of {', '.join(NODE_KINDS)}, got {node_kind!r}")


def check_max_nodes(max_nodes: int) -> int:
    """Return ``max_nodes`` if dense ids can hold it; ValueError otherwise."""
    if not 1 <= max_nodes <= MAX_NODES:
        raise ValueError(f"max_nodes must lie in [1, {MAX_NODES}], got {max_nodes}")
    return max_nodes


def check_column_names(names: Sequence[str]) -> None:
    """Raise BadEdges unless ``names`` holds src and dst, and no column of an edge twice."""
    for column in COLUMNS:
        count = names.count(column)
        if count > 1:
            raise BadEdges(
                f"column {column!r} must stand once, the file has it {count} times", argument=column
            )
        if count == 0 and column != "weight":
            held = ", ".join(shown(name) for name in names) or "no columns"
            raise BadEdges(f"column {column!r} is missing; the file has {held}", argument=column)


def read_columns(
    table: pa.Table | pa.RecordBatch,
    *,
    node_kind: NodeKind,
    max_nodes: int,
    first_row: int = 0,
    is_owned: bool = False,
) -> RawBlock:
    """Columns of an edge table, checked against the data contract.

    Parameters
    ----------
    table : pyarrow.Table or pyarrow.RecordBatch
        Columns ``src``, ``dst`` and, optionally, ``weight`` (1.0 where missing).
    node_kind : {"string", "int64", "dense"}
        What the ids of this graph are.
    max_nodes : int
        Bound of dense ids; the other kinds meet it when they are mapped.
    first_row : int
        Row within the file of the table's first row; errors count from there.
    is_owned : bool
        Whether the table was made for this call alone: the block may then be overwritten.

    Returns
    -------
    RawBlock
        Shares the table's memory wherever the types allow.

    Raises
    ------
    BadEdges
        A column is missing or twice there, a type does not fit, an id is null, not UTF-8, too long
        or out of range, or a weight is not finite and > 0 in float32.
    """
    check_column_names(table.schema.names)
    src = _ids(table.column("src"), "src", node_kind, first_row)
    dst = _ids(table.column("dst"), "dst", node_kind, first_row)
    given, weight = None, _ones(len(src))
    if "weight" in table.schema.names:
        given = _weights(table.column("weight"), first_row, is_owned=is_owned)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            weight = given.astype(np.float32, copy=False)
    if node_kind != "dense":
        _check_weights(given, weight, first_row)
        return RawBlock(src=src, dst=dst, weight=weight, first_row=first_row, is_owned=is_owned)
    limits = (0, max_nodes - 1)
    u, v = _narrow(src, "src", limits, first_row), _narrow(dst, "dst", limits, first_row)
    with np.errstate(over="ignore"):  # uncompiled kernels: numpy warns where integers wrap
        greatest_id, greatest_weight, n_self_loops = survey_edges(_bits(u), _bits(v), _bits(weight))
    if greatest_id >= max_nodes or greatest_weight > GREATEST_WEIGHT:
        _check_range(src.to_numpy(), "src", limits, first_row)
        _check_range(dst.to_numpy(), "dst", limits, first_row)
        _check_weights(given, weight, first_row)
    return RawBlock(
        src=u,
        dst=v,
        weight=weight,
        first_row=first_row,
        is_owned=is_owned,
        greatest_id=int(greatest_id) if len(u) else -1,
        n_self_loops=int(n_self_loops),
    )


def node_ids(column: pa.Array | pa.ChunkedArray, *, node_kind: NodeKind, name: str) -> pa.Array:
    """One contiguous array of node ids, nulls kept.

    Parameters
    ----------
    column : pyarrow.Array or pyarrow.ChunkedArray
        Any string type for kind ``string``, any integer type for the others; a dictionary of these
        is decoded.
    node_kind : {"string", "int64", "dense"}
        What the ids of this graph are.
    name : str
        What errors call the column.

    Returns
    -------
    pyarrow.Array
        string or large_string, or an integer type.

    Raises
    ------
    TypeError
        The type does not fit.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if node_kind == "string":
        if kind not in _STRINGS:
            raise TypeError(
                f"column {name!r} must hold strings in this graph, got type {shown(kind)}"
            )
        if column.type not in _STRINGS[:2]:
            column = pc.cast(column, pa.large_string())
    else:
        if not pa.types.is_integer(kind):
            raise TypeError(
                f"column {name!r} must hold integers in a graph of {node_kind} ids, "
                f"got type {shown(kind)}"
            )
        if column.type != kind:
            column = pc.cast(column, kind)
    return _contiguous(column)


def checked_ids(
    column: pa.Array | pa.ChunkedArray,
    *,
    name: str,
    node_kind: NodeKind,
    max_nodes: int,
    first_row: int = 0,
) -> pa.Array:
    """Node ids of one column that fulfil the data contract, as ``nodes`` maps them.

    Parameters
    ----------
    column : pyarrow.Array or pyarrow.ChunkedArray
        Ids as they came.
    name : str
        What errors call the column.
    node_kind : {"string", "int64", "dense"}
        What the ids of this graph are.
    max_nodes : int
        Bound of dense ids; the other kinds meet it when they are mapped.
    first_row : int
        Row within the file of the column's first row.

    Raises
    ------
    BadEdges
        The type does not fit, or an id is null, not UTF-8, too long or out of range.
    """
    ids = _ids(column, name, node_kind, first_row)
    if node_kind != "dense":
        return ids
    _check_range(ids.to_numpy(), name, (0, max_nodes - 1), first_row)
    return pc.cast(ids, pa.int32())


def drop_self_loops(
    u: Int32Array, v: Int32Array, weight: Float32Array, *, n_self_loops: int | None = None
) -> EdgeBlock:
    """Edges whose endpoints differ, and the count of the others.

    Parameters
    ----------
    u, v : (n_rows,) int32
        Endpoints.
    weight : (n_rows,) float32
        Weights.
    n_self_loops : int or None
        How many rows have equal endpoints, where that is known.

    Returns
    -------
    EdgeBlock
        Without self-loops it holds the arrays given. Else the last edges take the places of the
        self-loops, the others stay where they are; arrays that are writable are taken over, their
        entries change.
    """
    n_rows = len(u)
    if n_self_loops is None:
        n_self_loops = n_rows - int(np.count_nonzero(u != v))
    if n_self_loops:
        u, v = (ids if ids.flags.writeable else ids.copy() for ids in (u, v))
        is_constant = weight.base is _ONES.base
        if not (is_constant or weight.flags.writeable):
            weight = weight.copy()
        fill_self_loops(u, v, None if is_constant else weight, n_self_loops)
        n_kept = n_rows - n_self_loops
        u, v, weight = u[:n_kept], v[:n_kept], weight[:n_kept]
    return EdgeBlock(u=u, v=v, weight=weight, n_self_loops=n_self_loops, n_rows=n_rows)


def values_of(array: pa.Array) -> AnyArray:
    """Numbers of an array without nulls, sharing its memory; writable where Arrow says so."""
    given: AnyArray = array.to_numpy()
    if len(given) == 0:
        return given
    first = array.offset * given.itemsize
    return np.frombuffer(array.buffers()[1], dtype=given.dtype, count=len(given), offset=first)


def _contiguous(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if column.type == pa.string() and column.nbytes > MAX_NODES:
        column = pc.cast(column, pa.large_string())  # 32-bit offsets cannot address the whole
    return column.combine_chunks()


def _ids(column: pa.ChunkedArray, name: str, node_kind: NodeKind, first_row: int) -> pa.Array:
    check_valid(column, name, first_row)
    if node_kind == "string":  # before a dictionary is decoded, which may multiply a long id
        _check_lengths(column, name, first_row)
    try:
        ids = node_ids(column, node_kind=node_kind, name=name)
    except TypeError as error:
        raise BadEdges(str(error), argument=name) from error
    check_no_nulls(ids, name, first_row)
    if node_kind == "int64":
        if ids.type == pa.uint64():
            _check_range(ids.to_numpy(), name, (0, _MAX_INT64), first_row)
        return ids if ids.type == pa.int64() else pc.cast(ids, pa.int64())
    return ids


def string_lengths(column: pa.Array) -> Int64Array:
    """Bytes of each string, also of those in a dictionary or seen as views; 0 for null."""
    if pa.types.is_dictionary(column.type):
        indices = column.indices.fill_null(0).to_numpy()
        of_values = string_lengths(column.dictionary)
        lengths = of_values[indices] if len(of_values) else np.zeros(len(column), dtype=np.int64)
    elif len(column) and column.type in {pa.string_view(), pa.binary_view()}:
        views = np.frombuffer(column.buffers()[1], dtype=np.int32)  # four for each, length first
        lengths = views[4 * column.offset : 4 * (column.offset + len(column)) : 4].astype(np.int64)
    elif len(column):
        lengths = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    else:
        lengths = np.zeros(0, dtype=np.int64)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths


def _check_lengths(column: pa.Array | pa.ChunkedArray, name: str, first_row: int) -> None:
    """Raise BadEdges with the first id that is too long; other types pass."""
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        kind = chunk.type.value_type if pa.types.is_dictionary(chunk.type) else chunk.type
        if kind not in _STRINGS:
            return
        is_plain = chunk.type in _STRINGS[:2]
        if is_plain and (pc.max(pc.binary_length(chunk)).as_py() or 0) <= MAX_NODE_BYTES:
            first_row += len(chunk)
            continue
        too_long = string_lengths(chunk) > MAX_NODE_BYTES
        if too_long.any():
            row = int(np.argmax(too_long))
            raise BadEdges(
                f"column {name!r} must hold strings of at most {MAX_NODE_BYTES} bytes",
                argument=name,
                row=first_row + row,
                value=shown(chunk[row].as_py()),
            )
        first_row += len(chunk)


def _narrow(ids: pa.Array, name: str, limits: tuple[int, int], first_row: int) -> pa.Array:
    """Integers of any type as int32; those of 32 bits keep their bits and are checked later."""
    if ids.type.bit_width == 32:
        return ids.view(pa.int32())
    if ids.type.bit_width < 32:
        return pc.cast(ids, pa.int32())
    values = ids.to_numpy()
    narrow: Int32Array = np.empty(len(values), dtype=np.int32)
    if narrow_ids(frozen(values.view(np.uint64)), narrow) > limits[1]:
        _check_range(values, name, limits, first_row)
    return pa.array(narrow)


def _bits(column: pa.Array | Float32Array) -> AnyArray:
    """Bits of 32-bit numbers, read-only, as ``survey_edges`` takes them."""
    values = column.to_numpy() if isinstance(column, pa.Array) else column
    return frozen(values.view(np.uint32))


def _ones(n_rows: int) -> Float32Array:
    """Weights of edges that were given none."""
    return _ONES[:n_rows] if n_rows <= len(_ONES) else np.ones(n_rows, dtype=np.float32)


def check_no_nulls(column: pa.Array, name: str, first_row: int) -> None:
    """Raise BadEdges with the first row that is null."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise BadEdges(
            f"column {name!r} must not be null", argument=name, row=first_row + row, value="null"
        )


def _check_range(values: AnyArray, name: str, limits: tuple[int, int], first_row: int) -> None:
    least, greatest = limits
    if len(values) == 0 or (int(values.min()) >= least and int(values.max()) <= greatest):
        return
    type_limits = np.iinfo(values.dtype)
    outside = (values < max(least, type_limits.min)) | (values > min(greatest, type_limits.max))
    row = int(np.argmax(outside))
    raise BadEdges(
        f"column {name!r} must lie in [{least}, {greatest}]",
        argument=name,
        row=first_row + row,
        value=str(values[row]),
    )


def check_valid(column: pa.ChunkedArray, name: str, first_row: int) -> None:
    """UTF-8, and offsets inside the bytes: an Arrow message from outside may be forged."""
    error = _fault(column)
    if error is None:
        return
    first, n_rows = 0, len(column)  # bisect for the first bad row, never a loop over rows
    while n_rows > 1:
        half = n_rows // 2
        if _fault(column.slice(first, half)) is None:
            first, n_rows = first + half, n_rows - half
        else:
            n_rows = half
    raise BadEdges(
        f"column {name!r} must be valid Arrow data ({error})", argument=name, row=first_row + first
    )


def _fault(column: pa.ChunkedArray) -> str | None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        return shown(error)
    return None


def _weights(column: pa.ChunkedArray, first_row: int, *, is_owned: bool) -> AnyArray:
    """Weights as they were given, not null; what they are worth is not looked at."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        kind = shown(column.type)
        raise BadEdges(
            f"column 'weight' must hold integers or floats, got type {kind}", argument="weight"
        )
    check_valid(column, "weight", first_row)
    weights = _contiguous(column)
    check_no_nulls(weights, "weight", first_row)
    return values_of(weights) if is_owned else frozen(weights.to_numpy())


def _check_weights(given: AnyArray | None, weight: Float32Array, first_row: int) -> None:
    # A NaN makes min() a NaN, and no comparison with a NaN holds.
    if given is None or len(weight) == 0 or (weight.min() > 0 and weight.max() < np.inf):
        return
    row = int(np.argmin((weight > 0) & (weight < np.inf)))
    value = given[row]
    rule = "column 'weight' must be finite and > 0"
    if np.isfinite(value) and value > 0:
        rule += " as a 32-bit float"
    raise BadEdges(rule, argument="weight", row=first_row + row, value=str(value))


def shown(value: Any) -> str:
    """Text of a value that came from outside, cut to what an error can show."""
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
