"""Reader of parts: one, or many of them through dask, in order and ahead of the caller.

In flight is a fixed number of parts, never a whole file.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from peewit.streaming.edges.blocks import BadEdges, RawBlock
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import Part, StagedFile, Stamp, content_faults, open_parquet

_MAX_OPEN_SLICES = 16

_T = TypeVar("_T")

_RowGroup: TypeAlias = tuple[str, Stamp, int, str]
"""Local path and stamp of a file, the number of the row group, and the relation that is read."""

_SliceKey: TypeAlias = tuple[_RowGroup, int]
"""A row group and the row at which a slice begins."""


def read_parts(
    parts: Sequence[tuple[StagedFile, Part]],
    *,
    node_kind: NodeKind,
    max_nodes: int,
    n_threads: int,
    knows_src: bool = False,
) -> Generator[RawBlock, None, None]:
    """Rows of parts, in order, one block per part, read through dask.

    ``2 n_threads`` parts are read or wait for the caller, so that at most ``2 n_threads + 1`` are
    in memory. What comes out does not depend on ``n_threads``. Slices of one row group are read one
    after the other, their columns together. ``knows_src`` is that of `read_columns`.

    Raises `BadEdges` where a part breaks a rule, after those before it have come, and OSError where
    a file cannot be read, which is no fault of its content.
    """
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    turns = _Turns()
    read = partial(read_part, node_kind=node_kind, max_nodes=max_nodes, knows_src=knows_src)
    tasks = (partial(read, staged, part, turn=turns.next(staged, part)) for staged, part in parts)
    try:
        yield from read_ahead(tasks, n_threads, thread_name="read-part")
    finally:
        _OPEN_SLICES.close(
            (_row_group(staged, part), row)
            for staged, part in parts
            for row in (part.skipped_rows, part.skipped_rows + part.n_rows)
        )
        if len(parts) > 2 * n_threads:
            # Arrow's mimalloc keeps what it frees: 90 MB were seen. This takes 3 ms.
            pa.default_memory_pool().release_unused()


def read_ahead(
    tasks: Iterable[Callable[[], _T]],
    n_threads: int,
    *,
    thread_name: str,
    n_pending: int | None = None,
) -> Generator[_T, None, None]:
    """Results of tasks in order; ``n_pending`` run in threads or wait, ``2 n_threads`` by default.

    A result that the caller has taken is not held here.
    """
    most = 2 * n_threads if n_pending is None else n_pending
    pending: deque[Future[_T]] = deque()
    with ThreadPoolExecutor(n_threads, thread_name_prefix=thread_name) as pool:
        try:
            for task in tasks:
                pending.append(pool.submit(_compute, task))
                if len(pending) == most:
                    yield pending.popleft().result()  # no name holds it: the caller lets it go
            while pending:
                yield pending.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
            pending.clear()  # the traceback of an error would hold it


def _compute(task: Callable[[], _T]) -> _T:
    """Run a task by dask, in this thread: its own pool would wait for all of a window."""
    import dask  # noqa: PLC0415 - a quarter of a second, of commands that read no edges

    return cast(_T, dask.get({"read": (task,)}, "read"))


@dataclass(frozen=True, slots=True)
class _Turn:
    """When a slice may be read: after the one before it in its row group."""

    before: threading.Event | None
    done: threading.Event

    def __enter__(self) -> None:
        if self.before is not None:
            self.before.wait()

    def __exit__(self, *exception: object) -> None:
        self.done.set()


class _Turns:
    """Turns of slices in the order in which their tasks begin, so that none waits for ever."""

    def __init__(self) -> None:
        self._last: tuple[_RowGroup, _Turn] | None = None

    def next(self, staged: StagedFile, part: Part) -> _Turn | None:
        """The turn of the next part; None if it need not wait for any other."""
        if not part.is_slice:
            return None
        key = _row_group(staged, part)
        before = self._last[1].done if self._last is not None and self._last[0] == key else None
        turn = _Turn(before, threading.Event())
        self._last = (key, turn)
        return turn


def read_part(
    staged: StagedFile,
    part: Part,
    *,
    node_kind: NodeKind,
    max_nodes: int,
    turn: _Turn | None = None,
    knows_src: bool = False,
) -> RawBlock:
    """Rows of one part, checked.

    Whole row groups may be read in any order. Slices of one row group are cheap in ascending order,
    as their reader waits for the next one; any other slice decodes all rows before it. A slice that
    is read beside others waits for its ``turn``.

    Raises `BadEdges` where a page is damaged or a rule of the data contract is broken, and OSError
    where the file cannot be read, which is no fault of its content.
    """
    name = f"{_row_groups(part)} of {staged.file.path}"
    with content_faults(f"{name} cannot be decoded"):
        if part.is_slice:
            with turn or nullcontext():
                table = _read_slice(staged, part, knows_src, use_threads=turn is not None)
        else:
            table = _read_groups(staged, part, knows_src)
    if table.num_rows != part.n_rows:
        raise BadEdges(
            f"{name} must hold {part.n_rows} rows, as the footer says, got {table.num_rows}"
        )
    return read_columns(
        table,
        node_kind=node_kind,
        max_nodes=max_nodes,
        columns=staged.columns_of(part),
        first_row=part.first_row,
        is_owned=True,
        knows_src=knows_src,
    )


def _row_group(staged: StagedFile, part: Part) -> _RowGroup:
    return staged.local_path, staged.stamp, part.row_group, part.relation


def _slice_key(staged: StagedFile, part: Part) -> _SliceKey:
    return _row_group(staged, part), part.skipped_rows


def _row_groups(part: Part) -> str:
    last = part.row_group + part.n_groups - 1
    return f"row group {last}" if part.n_groups == 1 else f"row groups {part.row_group} to {last}"


def _read_groups(staged: StagedFile, part: Part, knows_src: bool) -> pa.Table:
    groups = list(range(part.row_group, part.row_group + part.n_groups))
    metadata = _metadata(staged.local_path, staged.stamp)
    with open_parquet(staged.local_path, metadata, dictionaries=staged.beside) as parquet:
        columns = staged.read_of(part, parquet.schema_arrow.names, knows_src=knows_src)
        return parquet.read_row_groups(groups, columns=columns, use_threads=False)


@lru_cache(maxsize=4)
def _metadata(local_path: str, stamp: Stamp) -> pq.FileMetaData:  # noqa: ARG001 - part of the key
    """Footer of a file; reading it for every part would cost more, the more row groups."""
    with open_parquet(local_path) as parquet:
        return parquet.metadata


class _SliceReader:
    """Reads one row group from its first row on, slice by slice."""

    def __init__(
        self, staged: StagedFile, part: Part, knows_src: bool, *, use_threads: bool
    ) -> None:
        self._row_group = _row_group(staged, part)
        self.next_row = 0
        metadata = _metadata(staged.local_path, staged.stamp)
        self._parquet = open_parquet(staged.local_path, metadata, dictionaries=staged.beside)
        self._n_rows: int = self._parquet.metadata.row_group(part.row_group).num_rows
        self._batches = self._parquet.iter_batches(
            part.n_rows,
            row_groups=[part.row_group],
            columns=staged.read_of(part, self._parquet.schema_arrow.names, knows_src=knows_src),
            use_threads=use_threads,
        )
        self._rest: deque[pa.RecordBatch] = deque()

    def read(self, n_rows: int) -> pa.Table:
        """The next ``n_rows`` rows, fewer at the end."""
        taken: list[pa.RecordBatch] = []
        n_missing = n_rows
        while n_missing:
            batch = self._rest.popleft() if self._rest else next(self._batches, None)
            if batch is None:
                break
            taken.append(batch.slice(0, n_missing))
            if batch.num_rows > n_missing:
                self._rest.append(batch.slice(n_missing))
            n_missing -= taken[-1].num_rows
        self.next_row += n_rows - n_missing
        schema = taken[0].schema if taken else self._parquet.schema_arrow
        return pa.Table.from_batches(taken, schema=schema)

    def skip(self, n_rows: int, *, at_once: int) -> None:
        """Decode and drop rows."""
        while n_rows > 0 and self.read(min(n_rows, at_once)).num_rows:
            n_rows -= at_once

    @property
    def key(self) -> _SliceKey:
        """Row group and first row of the next slice."""
        return self._row_group, self.next_row

    @property
    def is_done(self) -> bool:
        """Whether no slice is left."""
        return self.next_row >= self._n_rows

    def close(self) -> None:
        """Close the file."""
        self._parquet.close()


class _OpenSlices:
    """Readers that wait for the next slice of their row group, several for one read in spans."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: OrderedDict[_SliceKey, _SliceReader] = OrderedDict()

    def take(self, key: _SliceKey) -> _SliceReader | None:
        """The reader that stands at the slice, if there is one."""
        with self._lock:
            return self._readers.pop(key, None)

    def put(self, reader: _SliceReader) -> None:
        """Keep a reader; the one unused for the longest time may be closed."""
        with self._lock:
            closing = [self._readers.pop(reader.key, None)]
            self._readers[reader.key] = reader
            if len(self._readers) > _MAX_OPEN_SLICES:
                closing.append(self._readers.popitem(last=False)[1])
        for closed in closing:
            if closed is not None:
                closed.close()

    def close(self, keys: Iterable[_SliceKey]) -> None:
        """Close the readers that stand at some slices."""
        for reader in map(self.take, keys):
            if reader is not None:
                reader.close()


_OPEN_SLICES = _OpenSlices()


def _read_slice(staged: StagedFile, part: Part, knows_src: bool, *, use_threads: bool) -> pa.Table:
    reader = _OPEN_SLICES.take(_slice_key(staged, part))
    if reader is None:
        reader = _SliceReader(staged, part, knows_src, use_threads=use_threads)
    try:
        reader.skip(part.skipped_rows - reader.next_row, at_once=part.n_rows)
        table = reader.read(part.n_rows)
    except BaseException:
        reader.close()
        raise
    if reader.is_done:
        reader.close()
    else:
        _OPEN_SLICES.put(reader)
    return table
