"""Blocks of edges: ids and weights as they came, or edges between dense ids; and their limits.

`columns` checks what becomes a block. Mapping ids to dense numbers is ``nodes``' work.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import (
    INT32_MAX,
    BoolArray,
    Float32Array,
    Int32Array,
    Int64Array,
    UInt8Array,
    frozen,
)
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.node_kinds import NODE_KINDS, NodeKind
from peewit.streaming.kernels.block_columns import fill_self_loops
from peewit.streaming.left_out import NO_ROWS, LeftOut

MAX_NODES = INT32_MAX
"""Dense ids are int32, so a graph has at most this many nodes."""

MAX_NODE_BYTES = 2000
"""Longest node id; the indexes of PostgreSQL, which hold the ids of labeled nodes, end there."""

_MAX_SHOWN = 200
_ONES: Float32Array = frozen(np.ones(1 << 20, dtype=np.float32))
"""Shared by blocks of edges without weights."""


class BadEdges(BadTable):
    """Edges break a rule of the data contract; the file they came from is not taken."""

    title = "Edges break the contract"

    def bare(self) -> "BadEdges":
        """An equal error without a traceback, which would hold the table it was raised for."""
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
        ``dense``; no nulls, unless the nodes of ``src`` are known: then it is null, as is ``dst``
        where a cell is empty.
    weight : (n_rows,) float32
        Finite and >= 0; read-only where others may use the memory.
    op : (n_rows,) uint8 or None
        What each row does, by its number in `operations`; None where every row adds an edge.
    time : (n_rows,) int64 or None
        When each edge was, in microseconds since 1970; None where nobody asks.
    relation : pyarrow.DictionaryArray or None
        (n_rows,) string, the relation of each row, where a column names it.
    cells : tuple of pyarrow.Array
        (n_rows,) each, of rows that have a node in each of some columns, or null where a cell is
        empty. ``dst`` is that of the first, or ``src`` where there is none.
    """

    src: pa.Array
    dst: pa.Array
    weight: Float32Array
    first_row: int = 0  # within the file
    is_owned: bool = False  # nobody else uses the memory, so that it may be overwritten
    greatest_id: int | None = None  # of dense ids, seen while they were checked; -1 without rows
    n_self_loops: int | None = None  # of dense ids, seen while they were checked
    has_zero_weights: bool = False
    op: UInt8Array | None = None
    time: Int64Array | None = None
    n_empty: int = 0  # rows that add, with an empty cell and a weight that is not 0
    relation: pa.DictionaryArray | None = None
    cells: tuple[pa.Array, ...] = ()
    u: Int32Array | None = None  # (n_rows,) dense ids of ``src``, where they are known

    @property
    def n_rows(self) -> int:
        """Number of rows, those without an edge included."""
        return len(self.weight)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeBlock:
    """Edges between dense ids; parallel edges and both orientations may occur, self-loops not.

    Columns are (n_edges,), with ``u != v``, ``weight`` finite and > 0, and ``time`` in microseconds
    since 1970, None where nobody asks.
    """

    u: Int32Array
    v: Int32Array
    weight: Float32Array
    n_rows: int  # before dropping
    left_out: LeftOut = NO_ROWS
    time: Int64Array | None = None
    bucket: int = 0  # number of the stretch of time that they belong to, of graphs with a window

    def where(self, is_taken: BoolArray | Int64Array) -> "EdgeBlock":
        """The edges that are marked, (n_edges,), or numbered, as a block of no other rows."""
        u, v, weight = self.u[is_taken], self.v[is_taken], self.weight[is_taken]
        time = None if self.time is None else self.time[is_taken]
        return EdgeBlock(u=u, v=v, weight=weight, n_rows=u.size, time=time, bucket=self.bucket)


def check_node_kind(node_kind: str) -> NodeKind:
    """The node kind of that name; ValueError if there is none."""
    for kind in NODE_KINDS:
        if node_kind == kind:
            return kind
    raise ValueError(f"node_kind must be one of {', '.join(NODE_KINDS)}, got {node_kind!r}")


def check_max_nodes(max_nodes: int) -> int:
    """``max_nodes``, if dense ids can hold it; ValueError otherwise."""
    if not 1 <= max_nodes <= MAX_NODES:
        raise ValueError(f"max_nodes must lie in [1, {MAX_NODES}], got {max_nodes}")
    return max_nodes


def unit_weights(n_rows: int) -> Float32Array:
    """Weights of edges that were given none; read-only where they are shared."""
    return _ONES[:n_rows] if n_rows <= len(_ONES) else np.ones(n_rows, dtype=np.float32)


def edges_of(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    *,
    n_self_loops: int | None = None,
    has_zero_weights: bool = False,
    n_empty: int = 0,
    time: Int64Array | None = None,
) -> EdgeBlock:
    """Edges of rows whose endpoints differ and whose weight is not 0, and the count of the others.

    All arrays are (n_rows,); ``n_empty`` of the rows have the same endpoints, as they lack one, and
    a weight that is not 0. Where every row is an edge the block holds them as given. Else the
    last edges take the places of the others, and writable arrays are taken over: their entries
    change. With times, edges keep their order and are copied.
    """
    n_rows, n_zero_weights = len(u), 0
    if has_zero_weights:
        is_zero = weight == 0.0
        n_zero_weights = int(np.count_nonzero(is_zero))
        v, n_self_loops = np.where(is_zero, u, v), None
    n_dropped = n_self_loops
    if n_dropped is None:
        n_dropped = n_rows - int(np.count_nonzero(u != v))
    left_out = LeftOut(
        self_loops=n_dropped - n_zero_weights - n_empty,
        zero_weights=n_zero_weights,
        empty_cells=n_empty,
    )
    if n_dropped and time is not None:
        everything = EdgeBlock(u=u, v=v, weight=weight, n_rows=n_rows, time=time)
        return replace(everything.where(u != v), left_out=left_out, n_rows=n_rows)
    if n_dropped:
        u, v = (ids if ids.flags.writeable else ids.copy() for ids in (u, v))
        is_constant = weight.base is _ONES.base
        if not (is_constant or weight.flags.writeable):
            weight = weight.copy()
        fill_self_loops(u, v, None if is_constant else weight, n_dropped)
        n_kept = n_rows - n_dropped
        u, v, weight = u[:n_kept], v[:n_kept], weight[:n_kept]
    return EdgeBlock(u=u, v=v, weight=weight, left_out=left_out, n_rows=n_rows, time=time)


def excerpt(value: Any) -> str:
    """Text of a value that came from outside, cut to what an error can show."""
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
