"""Features of nodes: rows of numbers, dense or sparse, for all nodes or for some.

Models read whole rows in memory, or block after block if they must not hold all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array, IntArray, frozen
from peewit.solvers.late_modules import LateModule

sp = LateModule("scipy.sparse")

BLOCK_BYTES = 1 << 25
"""Bytes of rows in one block."""

_SPARSE_ENTRY_BYTES = 12
_SPARSE_ROW_BYTES = 100 * _SPARSE_ENTRY_BYTES


class RowSource(Protocol):
    """Rows of features that are read anew each time, such as those of Parquet files."""

    @property
    def n_rows(self) -> int:
        """Number of rows; row i is node i."""

    @property
    def n_columns(self) -> int:
        """Numbers in each row."""

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are scipy.sparse.csr_array; else arrays."""

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Any]]:
        """All rows in order, some at a time: their slice, and the rows, real and finite."""


class Rows(RowSource, Protocol):
    """Features as models read them: `FeatureRows`, `WiderRows`, or a source by `SourceRows`."""

    @property
    def nodes(self) -> Int64Array | None:
        """(n_rows,) dense id of the node of each row, increasing; None: row i is node i."""

    @property
    def row_bytes(self) -> int:
        """About the bytes of one row."""

    def take(self, places: IntArray) -> Any:
        """Some rows, by increasing place, in memory."""

    def whole(self) -> Any:
        """All rows as one array or csr_array."""


def checked_rows(features: Any, n_nodes: int) -> Rows:
    """``features`` of the nodes 0 .. n_nodes - 1, as models read them.

    A source checks its rows as they are read. Raises as `FeatureRows.of`, or if a source does not
    have one row for each node.
    """
    if isinstance(features, WiderRows):
        return WiderRows(rows=FeatureRows.of(features.rows, n_nodes), more=features.more)
    is_source = hasattr(features, "blocks") and not isinstance(features, FeatureRows)
    if not is_source:
        return FeatureRows.of(features, n_nodes)
    if features.n_rows != n_nodes or features.n_columns < 1:
        raise ValueError(
            f"features must have one row for each of the {n_nodes} nodes and at least one column, "
            f"got shape {(features.n_rows, features.n_columns)}"
        )
    return SourceRows(features)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureRows:
    """Rows of features and the nodes they belong to; build it with `of`.

    Values are (n_rows, n_columns), dense or csr_array, real and finite, float32 or float64; a
    ``numpy.memmap`` is read block by block and never copied whole.
    """

    values: Any
    nodes: Int64Array | None = None  # (n_rows,) dense ids, increasing; None: row i is node i

    @classmethod
    def of(cls, features: Any, n_nodes: int) -> "FeatureRows":
        """``features`` of the nodes 0 .. n_nodes - 1, checked.

        Integers and booleans become float64; floats keep their precision. TypeError if the entries
        are not real numbers, or the nodes no integers; ValueError for no column, not one row for
        each node, nodes that do not increase or lie outside [0, n_nodes), or an entry that is not
        finite.
        """
        unchecked = features if isinstance(features, FeatureRows) else cls(values=features)
        values = _real_rows(unchecked.values)
        nodes = unchecked.nodes
        n_rows = n_nodes if nodes is None else nodes.size
        if values.ndim != 2 or values.shape[0] != n_rows or values.shape[1] < 1:
            owners = f"{n_nodes} nodes" if nodes is None else f"{n_rows} nodes named"
            raise ValueError(
                f"features must have one row for each of the {owners} and at least one column, "
                f"got shape {values.shape}"
            )
        if nodes is not None:
            nodes = _checked_owners(nodes, n_nodes)
            if nodes.size == n_nodes:
                nodes = None
        rows = cls(values=values, nodes=nodes)
        rows.require_finite()
        return rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def n_columns(self) -> int:
        """Numbers in each row."""
        return int(self.values.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are a sparse matrix."""
        return bool(sp.issparse(self.values))

    @property
    def row_bytes(self) -> int:
        """About the bytes of one row."""
        if self.is_sparse:
            return max(1, int(self.values.nnz) // max(1, self.n_rows)) * _SPARSE_ENTRY_BYTES
        return self.n_columns * int(self.values.dtype.itemsize)

    def take(self, places: IntArray) -> Any:
        """Some rows, in memory."""
        rows = self.values[places]
        return rows if self.is_sparse else np.asarray(rows)

    def whole(self) -> Any:
        """All rows, as they are."""
        return self.values

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Any]]:
        """All rows in order, some at a time: their slice, and the rows."""
        step = max(1, n_bytes // self.row_bytes)
        for start in range(0, self.n_rows, step):
            place = slice(start, min(start + step, self.n_rows))
            yield place, self.values[place]

    def require_finite(self) -> None:
        """Raise ValueError if an entry is not finite."""
        for place, block in self.blocks():
            entries = block.data if self.is_sparse else block.ravel()
            finite = np.isfinite(entries)
            if finite.all():
                continue
            first = int(np.argmin(finite))
            if self.is_sparse:
                row = int(np.searchsorted(block.indptr, first, side="right")) - 1
            else:
                row = first // self.n_columns
            raise ValueError(
                f"features must be finite, got {entries[first]} in row {place.start + row}"
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnScaling:
    """(v - center) * factor of columns, (n_columns,) each; a factor of 0 leaves a column out."""

    center: FloatArray
    factor: FloatArray

    @classmethod
    def of(cls, columns: Float32Array) -> "ColumnScaling":
        """Mean 0 and variance 1 of columns that differ."""
        spread = columns.std(axis=0, dtype=np.float64)
        differs = columns.max(axis=0) > columns.min(axis=0)  # a deviation may be rounding
        factor = np.divide(1.0, spread, out=np.zeros_like(spread), where=differs)
        return cls(center=columns.mean(axis=0, dtype=np.float64), factor=factor)

    @property
    def is_kept(self) -> BoolArray:
        """(n_columns,) whether the column stays."""
        return self.factor > 0.0

    def scaled(self, columns: Float32Array) -> Float32Array:
        """(n_rows, n_kept) scaled rows."""
        kept = self.is_kept
        rows = (columns[:, kept] - self.center[kept]) * self.factor[kept]
        return rows.astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WiderRows:
    """Rows with further columns, which are in memory; the rows are read as they are."""

    rows: FeatureRows
    more: Float32Array  # (n_rows, n_more), finite

    @property
    def nodes(self) -> Int64Array | None:
        """Those of the rows."""
        return self.rows.nodes

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_columns(self) -> int:
        """Numbers in each row."""
        return self.rows.n_columns + self._n_more

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are a sparse matrix."""
        return self.rows.is_sparse

    @property
    def row_bytes(self) -> int:
        """About the bytes of one row."""
        entry = _SPARSE_ENTRY_BYTES if self.is_sparse else self.more.itemsize
        return self.rows.row_bytes + self._n_more * entry

    def take(self, places: IntArray) -> Any:
        """Some rows, in memory."""
        return self._beside(self.rows.take(places), self.more[places])

    def whole(self) -> Any:
        """All rows as one array or csr_array."""
        return self._beside(self.rows.whole(), self.more)

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Any]]:
        """All rows in order, some at a time: their slice, and the rows."""
        for place, block in self.rows.blocks(n_bytes):
            yield place, self._beside(block, self.more[place])

    @property
    def _n_more(self) -> int:
        return int(self.more.shape[1])

    def _beside(self, rows: Any, more: Float32Array) -> Any:
        if self.is_sparse:
            return sp.csr_array(sp.hstack([rows, sp.csr_array(more)]))
        return np.hstack([rows, more])


class SourceRows:
    """Rows of a source, one for each node."""

    nodes = None

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self.n_rows, self.n_columns = source.n_rows, source.n_columns
        self.is_sparse = source.is_sparse

    @property
    def row_bytes(self) -> int:
        """About the bytes of one row; for sparse ones a guess if the source does not tell."""
        if not self.is_sparse:
            return self.n_columns * 4
        n_values = getattr(self._source, "n_values", None)
        if n_values is None:
            return _SPARSE_ROW_BYTES
        return max(1, int(n_values) // max(1, self.n_rows)) * _SPARSE_ENTRY_BYTES

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Any]]:
        """All rows in order, some at a time: their slice, and the rows."""
        return self._source.blocks(n_bytes)

    def take(self, places: IntArray) -> Any:
        """Some rows, by increasing place, in memory: one pass over all."""
        parts = []
        for place, block in self.blocks():
            inside = places[(places >= place.start) & (places < place.stop)]
            if inside.size:
                parts.append(block[inside - place.start])
        return self._join(parts)

    def whole(self) -> Any:
        """All rows as one array or csr_array."""
        return self._join([block for _, block in self.blocks()])

    def _join(self, parts: list[Any]) -> Any:
        if self.is_sparse:
            return sp.csr_array(sp.vstack(parts)) if parts else sp.csr_array((0, self.n_columns))
        return np.concatenate(parts) if parts else np.zeros((0, self.n_columns), np.float32)


def checked_points(features: Any, n_columns: int) -> FeatureRows:
    """New points for functions of ``n_columns`` features.

    Raises as `FeatureRows.of`, or for another number of columns.
    """
    n_points = features.shape[0] if hasattr(features, "shape") else len(features)
    rows = FeatureRows.of(features, n_points)
    if rows.n_columns != n_columns:
        raise ValueError(
            f"features must have {n_columns} columns, as those the model was trained on, "
            f"got {rows.n_columns}"
        )
    return rows


def _real_rows(values: Any) -> Any:
    """``values`` as floats: a C-contiguous array (a memmap stays one), or CSR."""
    if sp.issparse(values):
        rows = sp.csr_array(values)
    elif isinstance(values, np.memmap):
        rows = values
    else:
        rows = np.asarray(values)
    if rows.dtype.kind not in "buif":
        raise TypeError(f"features must be real numbers, got dtype {rows.dtype}")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    if sp.issparse(rows):
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return rows
    return rows if isinstance(rows, np.memmap) else np.ascontiguousarray(rows)


def _checked_owners(nodes: Any, n_nodes: int) -> Int64Array:
    """Increasing dense ids inside the graph."""
    owners = np.asarray(nodes)
    if owners.dtype.kind not in "iu" or owners.ndim != 1:
        raise TypeError(f"nodes of features must be integers, got an array of {owners.dtype}")
    if (np.diff(owners) <= 0).any():
        raise ValueError("nodes of features must be increasing, each at most once")
    if owners.size and not 0 <= owners[0] <= owners[-1] < n_nodes:
        raise ValueError(
            f"nodes of features must lie in [0, {n_nodes}), got {owners[0]} to {owners[-1]}"
        )
    return frozen(owners.astype(np.int64))
