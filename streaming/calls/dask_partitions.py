"""Partitions of dask collections as tables: in order, and a few in flight.

The scheduler that dask has set computes them, a cluster's where a client is connected; where none
is set, threads do it here.
"""

import warnings
from bisect import bisect_right
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from peewit.streaming.calls.in_memory import columns_in_memory, edge_table
from peewit.streaming.edges.blocks import BadEdges, RawBlock
from peewit.streaming.edges.change_columns import is_change_column, is_state_column
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import PART_ROWS
from peewit.streaming.edges.plain_types import is_text, plain_column, plain_type
from peewit.streaming.edges.reader import read_ahead


class NoEdges(TypeError):
    """A partition holds no table of edges."""


_COLLECTIONS: Final = ("dask.dataframe", "dask.bag", "dask.delayed")
"""Packages whose collections have tables for partitions."""

_KINDS_OF_NUMBERS: Final = "biufcmM"
"""Kinds of dtypes, of pandas and its extensions, that hold no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition as a table of what is read of it.

    ``columns`` say what its columns are called, and ``names`` are those of all that it has.
    """

    number: int
    table: pa.Table
    names: list[str]
    columns: EdgeColumns
    is_of_arrays: bool


def is_dask(edges: Any) -> bool:
    """Whether edges are a dask collection, or several, as of what `dask.delayed` made."""
    collections = edges if isinstance(edges, list | tuple) else [edges]
    return bool(collections) and all(
        callable(getattr(each, "__dask_graph__", None)) for each in collections
    )


class DaskPartitions:
    """The partitions of a `dask.dataframe`, a `dask.bag`, or of what `dask.delayed` made.

    Of a frame only ``columns`` are computed, with those that may ask for deletes. Raises
    TypeError for other collections, and BadEdges where a frame lacks a column. Warns of tasks that
    several partitions need.
    """

    def __init__(self, edges: Any, columns: EdgeColumns) -> None:
        import dask  # noqa: PLC0415 - a quarter of a second, for edges that dask has alone
        from dask.base import get_scheduler  # noqa: PLC0415
        from dask.core import flatten  # noqa: PLC0415
        from dask.utils import ensure_dict  # noqa: PLC0415

        self._names: list[str] | None = None  # of all columns of a frame
        self._columns = columns
        collections = edges if isinstance(edges, list | tuple) else [edges]
        for each in collections:
            _require_tables(each)
        if type(edges).__module__.startswith("dask.dataframe") and hasattr(edges, "columns"):
            self._names = list(map(str, edges.columns))
            columns.check(self._names)
            kinds = zip(self._names, edges.dtypes, strict=True)
            texts = [name for name, kind in kinds if kind.kind not in _KINDS_OF_NUMBERS]
            wanted = _wanted(self._names, texts, columns)
            optimized = (edges[[each for each in edges.columns if str(each) in wanted]].optimize(),)
        else:
            optimized = dask.optimize(*collections)
        self._graph: dict[Any, Any] = {}
        self._keys: list[Any] = []
        for each in optimized:
            self._graph.update(ensure_dict(each.__dask_graph__()))
            self._keys += flatten([each.__dask_keys__()])
        if not self._keys:
            raise ValueError("edges of dask must have a partition, got none")
        self._get: Callable[..., Any] = get_scheduler() or dask.get
        self._warn_of_shared_tasks()

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def keys(self) -> list[str]:
        """What dask calls each partition: what it is computed from, where dask can tell."""
        return list(map(str, self._keys))

    def tables(
        self, n_threads: int, numbers: Iterable[int] | None = None
    ) -> Generator[Partition, None, None]:
        """Partitions in order, all or those of some ``numbers``.

        ``n_threads`` of them are computed or wait, and the caller has one.
        """
        wanted = range(len(self)) if numbers is None else numbers
        tasks = (partial(self.compute, each) for each in wanted)
        return read_ahead(tasks, n_threads, thread_name="dask-partition", n_pending=n_threads)

    def compute(self, number: int) -> Partition:
        """One partition; raises NoEdges or BadEdges where it is no table of edges.

        What a task raises has a note that names the partition.
        """
        key = self._keys[number]
        try:
            result = self._get(self._tasks_of(key), key)
            if isinstance(result, Iterator):  # of a bag
                result = list(result)
        except Exception as error:
            error.add_note(f"while partition {number} (from 0) was computed")
            raise
        try:
            table, columns, names = _table_of(result, self._columns)
        except (TypeError, ValueError) as error:
            kind = NoEdges if isinstance(error, TypeError) else BadEdges
            raise kind(f"partition {number} (from 0): {error}") from error
        return Partition(
            number=number,
            table=table,
            names=self._names or names,
            columns=columns,
            is_of_arrays=isinstance(result, tuple),
        )

    def _tasks_of(self, key: Any) -> dict[Any, Any]:
        """The part of the graph that one partition needs."""
        from dask.optimization import cull  # noqa: PLC0415 - see above

        tasks, _ = cull(self._graph, [key])
        return dict(tasks)

    def _warn_of_shared_tasks(self) -> None:
        """Warn where two partitions need a task that is no mere value."""
        first, second = (self._tasks_of(key) for key in (self._keys[0], self._keys[-1]))
        shared = map(self._graph.get, first.keys() & second.keys())
        n_shared = sum(callable(getattr(task, "func", None)) for task in shared)
        if n_shared and len(self) > 1:
            warnings.warn(
                f"{len(self):,} partitions share {n_shared:,} tasks, and each computes them "
                "anew, as after a sort; persist what they share, or write the edges to "
                "Parquet and give the path",
                stacklevel=5,
            )


def _require_tables(collection: Any) -> None:
    """Raise TypeError unless partitions of a collection may be tables."""
    kind = type(collection)
    if not kind.__module__.startswith(_COLLECTIONS):
        raise TypeError(
            f"edges of dask must be of {', '.join(_COLLECTIONS)}, got {kind.__module__}."
            f"{kind.__qualname__}; dask.dataframe.from_dask_array takes arrays"
        )


def _wanted(names: Sequence[str], texts: Collection[str], columns: EdgeColumns) -> set[str]:
    """Columns that are read, and those that may ask for deletes, by their names or as text."""
    beside = columns.beside(names)
    looked_at = (
        name for name in beside if name in texts or is_change_column(name) or is_state_column(name)
    )
    return {*columns, *looked_at}


def _table_of(result: Any, columns: EdgeColumns) -> tuple[pa.Table, EdgeColumns, list[str]]:
    """What is read of a partition, what its columns are called, and the names of all it has.

    A partition of a bag is a list: of tuples, of mappings, or of tables.
    """
    if isinstance(result, list) and result and not isinstance(result[0], tuple | Mapping):
        tables = [_table_of(each, columns) for each in result]
        names = list(dict.fromkeys(name for *_, names in tables for name in names))
        columns = tables[0][1]
        return joined([table for table, *_ in tables], columns.weight), columns, names
    if isinstance(result, list) and result and isinstance(result[0], Mapping):
        table = _table_of_mappings(result, columns.weight)
    else:
        table, n_nodes = edge_table(result, columns.weight)
        if n_nodes is not None:
            raise TypeError(f"must be a table of edges, got {type(result).__name__}, a whole graph")
        columns = columns_in_memory(result, columns)
    names = table.schema.names
    texts = [each.name for each in table.schema if is_text(each.type)]
    wanted = _wanted(names, texts, columns)
    places = [place for place, name in enumerate(names) if name in wanted]
    return table.select(places), columns, names


def _table_of_mappings(rows: Sequence[Mapping[str, Any]], weight: str) -> pa.Table:
    """Rows with all the columns that any of them has; one that lacks a weight weighs 1."""
    if not all(isinstance(row, Mapping) for row in rows):
        raise TypeError("rows of a partition must be all mappings, or none")
    names = dict.fromkeys(name for row in rows for name in row)
    lacking = {weight: 1.0}
    try:
        return pa.table(
            {name: pa.array([row.get(name, lacking.get(name)) for row in rows]) for name in names}
        )
    except pa.ArrowException as error:
        rule = "values of a column must be of one type, all text or all numbers"
        raise TypeError(f"{rule}: {error}") from error


def joined(tables: Sequence[pa.Table], weight: str = "weight") -> pa.Table:
    """Tables one after the other, those without rows left out.

    Numbers of several types become float64, or the widest integers, and texts large_string. Where
    some have a weight the others weigh 1. Raises TypeError where a column is text here and numbers
    there.
    """
    some = [table for table in tables if table.num_rows] or list(tables[:1])
    names = dict.fromkeys(name for table in some for name in table.schema.names)
    if weight in names:
        some = [
            table
            if weight in table.schema.names
            else table.append_column(weight, pa.repeat(1.0, table.num_rows))
            for table in some
        ]
    for name in names:
        places = [place for place, table in enumerate(some) if name in table.schema.names]
        types = {some[place].schema.field(name).type for place in places}
        if len(types) == 1:
            continue
        common = _common_type(types, name)
        for place in places:
            at = some[place].schema.get_field_index(name)
            try:
                column = plain_column(some[place].column(at)).cast(common)
            except pa.ArrowException as error:
                raise TypeError(f"column {name!r} must fit {common}: {error}") from error
            some[place] = some[place].set_column(at, name, column)
    return pa.concat_tables(some, promote_options="default")


def _common_type(types: set[pa.DataType], name: str) -> pa.DataType:
    """The type that a column is given which has several."""
    known = {plain_type(each) for each in types if not pa.types.is_null(each)}
    if all(map(is_text, known)):
        return pa.large_string()
    if all(map(pa.types.is_integer, known)):
        return pa.uint64() if all(map(pa.types.is_unsigned_integer, known)) else pa.int64()
    if all(pa.types.is_integer(each) or pa.types.is_floating(each) for each in known):
        return pa.float64()
    if len(known) == 1:
        return known.pop()
    found = ", ".join(sorted(map(str, types)))
    raise TypeError(
        f"column {name!r} must hold text in all partitions, or numbers in all, got {found}"
    )


def cut(tables: Iterable[pa.Table], n_rows: int, weight: str = "weight") -> Iterator[pa.Table]:
    """The rows of some tables, so many at a time, however the tables were cut."""
    waiting: list[pa.Table] = []
    n_waiting = 0
    for table in tables:
        waiting.append(table)
        n_waiting += table.num_rows
        if n_waiting >= n_rows:
            whole = joined(waiting, weight)
            n_cut = n_waiting - n_waiting % n_rows
            yield from (whole.slice(start, n_rows) for start in range(0, n_cut, n_rows))
            waiting, n_waiting = [whole.slice(n_cut)], n_waiting - n_cut
    if n_waiting:
        yield joined(waiting, weight)


@contextmanager
def _told_of(number: int) -> Iterator[None]:
    """Faults inside name a partition."""
    try:
        yield
    except BadEdges as error:
        error.reason = f"partition {number} (from 0): {error.reason}"
        raise


def blocks_of_partitions(
    partitions: Iterable[Partition],
    *,
    node_kind: NodeKind,
    max_nodes: int,
    columns: EdgeColumns,
    n_threads: int,
    on_partition: Callable[[int], None] = lambda _number: None,
) -> Generator[RawBlock, None, None]:
    """The rows of all partitions in order, in blocks of `PART_ROWS`.

    ``on_partition`` is told which partition comes. Raises BadEdges, which names the partition and
    counts its rows.
    """
    first_rows: list[int] = []  # of each partition
    n_rows = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal n_rows
        for each in partitions:
            on_partition(each.number)
            first_rows.append(n_rows)
            if not each.table.num_rows:
                continue
            with _told_of(each.number):
                columns.check(each.table.schema.names)
            n_rows += each.table.num_rows
            yield each.table

    def tasks() -> Iterator[Callable[[], RawBlock]]:
        first_row = 0
        for table in cut(tables(), PART_ROWS, columns.weight):
            yield partial(
                read_columns,
                table,
                node_kind=node_kind,
                max_nodes=max_nodes,
                columns=columns,
                first_row=first_row,
            )
            first_row += table.num_rows

    try:
        yield from read_ahead(tasks(), n_threads, thread_name="read-rows")
    except BadEdges as error:
        if error.row is None:
            raise
        number = bisect_right(first_rows, error.row) - 1
        raise BadEdges(
            f"partition {number} (from 0): {error.reason}",
            argument=error.argument,
            row=error.row - first_rows[number],
            value=error.value,
        ) from error
