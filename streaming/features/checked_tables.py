"""Checked tables of features: the data contract, and blocks of rows that keep it.

All features enter through ``read_features``, whatever brought them. Rows are dense (a column
``features`` of lists that are equally long) or sparse (``indices`` and ``values``), one kind in a
set.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import INT32_MAX, AnyArray, Float32Array, Int64Array
from peewit.solvers.late_modules import LateModule
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.columns import check_no_nulls, check_valid, checked_ids
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.reading_options import NodelessRows

sp = LateModule("scipy.sparse")

NODE: Final = "node"
EDGES: Final = "edges"
DENSE_COLUMNS: Final = ("features",)
SPARSE_COLUMNS: Final = ("indices", "values")
COLUMNS: Final = (NODE, *DENSE_COLUMNS, *SPARSE_COLUMNS)
"""The columns of a table of features that are read; all others are ignored."""

ENCODING: Final = b"encoding"
"""Key of a table's metadata: how its features were made from columns of any kind."""

_NAMES: Final = b"names"
_SHOWN: Final = 5

MAX_COLUMNS: Final = INT32_MAX
"""Column numbers are int32."""

_LISTS: Final = (pa.types.is_fixed_size_list, pa.types.is_list, pa.types.is_large_list)


class BadFeatures(BadTable):
    """Features break a rule of the data contract; nothing of their set is taken."""

    title = "Features break the contract"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureBlock:
    """Some consecutive rows of a set of features, checked.

    ``nodes`` are (n_rows,) external ids from `columns.checked_ids`. ``values`` are finite: an
    (n_rows, n_columns) float32 array, or a scipy.sparse.csr_array with as many columns as its own
    indices need, each at most once in a row and in order. ``names`` are those of the columns, of a
    table that has them.
    """

    nodes: pa.Array
    values: Any
    names: tuple[str, ...] | None = None
    encoding: str | None = None  # how they were made from columns of any kind, as JSON
    first_row: int = 0  # of the block, within the set
    n_left_out: int = 0  # rows of the table that name no node

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are a sparse matrix."""
        return bool(sp.issparse(self.values))

    def ordered(self, names: Sequence[str] | None) -> "FeatureBlock":
        """The block with its columns in an order; as it is where either has no names.

        Raises BadFeatures where the names are others.
        """
        if names is None or self.names is None or tuple(names) == self.names:
            return self
        values = self.values[:, order_of(self.names, names)]
        return replace(self, values=values, names=tuple(names))


def with_names(lists: pa.Array, names: Sequence[str]) -> pa.RecordBatch:
    """A table of dense rows whose columns have names."""
    metadata = {_NAMES: json.dumps(list(names))}
    return pa.record_batch(
        [lists], pa.schema([pa.field("features", lists.type, metadata=metadata)])
    )


def encoding_of(schema: pa.Schema) -> str | None:
    """How the features of a table were made from columns of any kind, where they were."""
    stored = (schema.metadata or {}).get(ENCODING)
    return None if stored is None else stored.decode()


def names_of(table: pa.Table | pa.RecordBatch) -> tuple[str, ...] | None:
    """Names of the columns of dense rows, where the table has them."""
    place = table.schema.get_field_index("features")
    metadata = None if place < 0 else table.schema.field(place).metadata
    return tuple(json.loads(metadata[_NAMES])) if metadata and _NAMES in metadata else None


def order_of(names: Sequence[str], wanted: Sequence[str]) -> Int64Array:
    """Places of the wanted columns among others; raises BadFeatures where these are not the same.

    Names stand once, in both.
    """
    places = {name: place for place, name in enumerate(names)}
    lacking = [name for name in wanted if name not in places]
    further = [name for name in names if name not in set(wanted)]
    if lacking or further:
        parts = {"lacks": lacking, "has further": further}
        differences = " and ".join(
            f"{verb} {', '.join(map(repr, some[:_SHOWN]))}{', ...' if len(some) > _SHOWN else ''}"
            for verb, some in parts.items()
            if some
        )
        raise BadFeatures(
            f"columns of features must have the names of those before, in any order; this table "
            f"{differences}",
            argument=(lacking or further)[0],
        )
    return np.array([places[name] for name in wanted], dtype=np.int64)


@contextmanager
def as_bad_features() -> Iterator[None]:
    """Raise BadFeatures for faults that the checks of edges find."""
    try:
        yield
    except BadEdges as error:
        raise BadFeatures(
            error.reason, argument=error.argument, row=error.row, value=error.value
        ) from error


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Let faults of a table name its file, as BadFeatures."""
    try:
        yield
    except BadTable as error:
        raise BadFeatures(
            f"{name}: {error.reason}", argument=error.argument, row=error.row, value=error.value
        ) from error


def is_sparse_schema(names: list[str]) -> bool:
    """Whether the columns of a table are those of sparse features.

    Raises BadFeatures where they are those of neither kind, of both, or one of them stands twice.
    """
    held = ", ".join(excerpt(name) for name in names) or "no columns"
    for column in COLUMNS:
        if (count := names.count(column)) > 1:
            raise BadFeatures(
                f"column {column!r} must stand once, the table has it {count} times; rename one",
                argument=column,
            )
    present = {name for name in names if name in COLUMNS}
    has_sparse = present & set(SPARSE_COLUMNS)
    if "features" in present and has_sparse:
        raise BadFeatures(
            f"a table must hold features, or indices and values, not both; the columns are {held}"
        )
    if "features" in present:
        return False
    if len(has_sparse) == len(SPARSE_COLUMNS):
        return True
    raise BadFeatures(
        f"a table must hold column features, or indices and values; the columns are {held}"
    )


def read_features(
    table: pa.Table | pa.RecordBatch,
    *,
    node_kind: NodeKind,
    max_nodes: int,
    first_row: int = 0,
    n_columns: int | None = None,
    of_kind: str = "",
    node: str = NODE,
    missing_ids: NodelessRows = "refuse",
) -> FeatureBlock:
    """Rows of a table of features, checked against the data contract.

    ``max_nodes`` bounds dense ids; the other kinds meet it when they are mapped. Errors count rows
    from ``first_row``, the row of the set where the table begins. Dense rows must have
    ``n_columns`` numbers, the length of the rows before. In a typed graph the nodes are
    ``of_kind``, or the column names the kind of each. Errors call the column of nodes ``node``.

    `BadFeatures` tells the first row that breaks the contract.
    """
    names = table.schema.names
    is_sparse = is_sparse_schema(names)
    if NODE not in names:
        raise BadFeatures(
            f"column 'node' is missing; the columns are {', '.join(map(excerpt, names))}",
            argument="node",
        )
    with as_bad_features():
        nodes, are_named = checked_ids(
            table.column(NODE),
            name=node,
            node_kind=node_kind,
            max_nodes=max_nodes,
            first_row=first_row,
            of_kind=of_kind,
            missing_ids=missing_ids,
        )
    values = (
        sparse_values(table, first_row=first_row)
        if is_sparse
        else dense_values(table, first_row=first_row, n_columns=n_columns)
    )
    return FeatureBlock(
        nodes=nodes,
        values=values if are_named.all() else values[are_named],
        n_left_out=len(are_named) - len(nodes),
        names=names_of(table),
        encoding=encoding_of(table.schema),
        first_row=first_row,
    )


def dense_values(
    table: pa.Table | pa.RecordBatch, *, first_row: int = 0, n_columns: int | None = None
) -> Float32Array:
    """(n_rows, n_columns) numbers of the column ``features``; see `read_features`."""
    lists = _lists("features", table.column("features"), first_row)
    lengths = _lengths(lists)
    if n_columns is None:
        is_fixed = pa.types.is_fixed_size_list(lists.type)
        n_columns = lists.type.list_size if is_fixed else int(lengths[0]) if len(lengths) else 0
    if n_columns < 1 and len(lengths):
        raise BadFeatures(
            "column 'features' must hold at least one number in every row",
            argument="features",
            row=first_row,
            value="0",
        )
    other = lengths != n_columns
    if other.any():
        row = int(np.argmax(other))
        raise BadFeatures(
            f"column 'features' must hold {n_columns} numbers in every row, as the first one does",
            argument="features",
            row=first_row + row,
            value=str(lengths[row]),
        )
    starts = np.arange(len(lists) + 1, dtype=np.int64) * n_columns
    flat = _real_values(names_of(table) or "features", lists, starts, first_row)
    return flat.reshape(len(lists), n_columns)


def sparse_values(table: pa.Table | pa.RecordBatch, *, first_row: int = 0) -> Any:
    """Columns ``indices`` and ``values`` as a float32 scipy.sparse.csr_array.

    See `read_features`; the array has as many columns as its largest index needs.
    """
    indices = _lists("indices", table.column("indices"), first_row)
    values = _lists("values", table.column("values"), first_row)
    lengths = _lengths(indices)
    differs = lengths != _lengths(values)
    if differs.any():
        row = int(np.argmax(differs))
        raise BadFeatures(
            "columns 'indices' and 'values' must be equally long in every row, got "
            f"{lengths[row]} indices and {_lengths(values)[row]} values",
            row=first_row + row,
        )
    starts: Int64Array = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    column_numbers = _column_numbers(indices, starts, first_row)
    data = _real_values("values", values, starts, first_row)
    n_columns = int(column_numbers.max()) + 1 if column_numbers.size else 0
    rows = sp.csr_array(
        (data, column_numbers.astype(np.int32), starts), shape=(len(lengths), n_columns)
    )
    if not rows.has_sorted_indices:
        rows = rows.sorted_indices()  # a copy: the memory of the table may not be written to
    repeated = np.diff(rows.indices) == 0
    repeated[starts[1:-1][(starts[1:-1] > 0) & (starts[1:-1] < rows.nnz)] - 1] = False
    if repeated.any():
        entry = int(np.argmax(repeated))
        value = rows.indices[entry]
        raise bad_number("indices", "hold an index once in a row", value, entry, starts, first_row)
    return rows


def _lists(name: str, column: pa.Array | pa.ChunkedArray, first_row: int) -> pa.Array:
    """One array of lists of numbers, none of them null."""
    kind = column.type
    is_list = any(check(kind) for check in _LISTS)
    wanted = "integers" if name == "indices" else "numbers"
    if not is_list or not _is_number(kind.value_type, is_index=name == "indices"):
        raise BadFeatures(
            f"column {name!r} must hold lists of {wanted}, got type {excerpt(kind)}", argument=name
        )
    with as_bad_features():
        check_valid(column, name, first_row)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        check_no_nulls(column, name, first_row)
    return column


def _is_number(kind: pa.DataType, *, is_index: bool) -> bool:
    return bool(pa.types.is_integer(kind) or (pa.types.is_floating(kind) and not is_index))


def _lengths(lists: pa.Array) -> Int64Array:
    lengths: Int64Array = pc.list_value_length(lists).to_numpy().astype(np.int64)
    return lengths


def _flat(name: str, lists: pa.Array, starts: Int64Array, first_row: int) -> AnyArray:
    """All numbers of the lists, one after the other."""
    flat = lists.flatten()
    if flat.null_count:
        entry = int(np.argmax(flat.is_null().to_numpy(zero_copy_only=False)))
        raise bad_number(name, "not hold null", "null", entry, starts, first_row)
    numbers: AnyArray = flat.to_numpy()
    return numbers


def _real_values(
    name: str | tuple[str, ...], lists: pa.Array, starts: Int64Array, first_row: int
) -> Float32Array:
    """The numbers as float32, all finite; those of a row may have names of their own."""
    exact = _flat(name if isinstance(name, str) else "features", lists, starts, first_row)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        numbers = exact.astype(np.float32, copy=False)
    finite = np.isfinite(numbers)
    if not finite.all():
        entry = int(np.argmin(finite))
        rule = "hold finite numbers"
        if np.isfinite(exact[entry]):
            rule += " as 32-bit floats"
        own = name if isinstance(name, str) else name[entry % len(name)]
        raise bad_number(own, rule, exact[entry], entry, starts, first_row)
    return numbers


def _column_numbers(lists: pa.Array, starts: Int64Array, first_row: int) -> AnyArray:
    numbers = _flat("indices", lists, starts, first_row)
    outside = (numbers < 0) | (numbers >= MAX_COLUMNS)
    if outside.any():
        entry = int(np.argmax(outside))
        rule = f"lie in [0, {MAX_COLUMNS - 1}]"
        raise bad_number("indices", rule, numbers[entry], entry, starts, first_row)
    return numbers


def bad_number(
    name: str, rule: str, value: object, entry: int, starts: AnyArray, first_row: int
) -> BadFeatures:
    """Fault of one of the flat numbers of a column, with the rule that it breaks."""
    row = first_row + int(np.searchsorted(starts, entry, side="right")) - 1
    return BadFeatures(f"column {name!r} must {rule}", argument=name, row=row, value=str(value))
