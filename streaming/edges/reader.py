"""Reader of parts: one, or many of them through dask, in order and ahead of the caller.

A part that breaks a rule becomes a value, ``BadEdges``, in its place among the blocks. In flight is
a fixed number of parts, never a whole file.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

import dask
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.streaming.edges.blocks import BadEdges, NodeKind, RawBlock
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.parts import (
    Part,
    StagedFile,
    Stamp,
    content_faults,
    open_parquet,
    projection,
)

if TYPE_CHECKING:
    from distributed import Client  # a slow import that only clusters need

_MAX_OPEN_SLICES = 4

Run: TypeAlias = list[RawBlock | BadEdges]
"""Results of the parts that one task reads."""


class _Task(Protocol):
    """A future of dask or of a thread pool."""

    def result(self) -> Run:
        """Wait for the results."""


def read_part(staged: StagedFile, part: Part, *, node_kind: NodeKind, max_nodes: int) -> RawBlock:
    """Rows of one part, checked.

    Whole row groups may be read in any order. Slices of one row group are cheap in ascending order,
    as their reader waits for the next one; any other slice decodes all rows before it.

    Parameters
    ----------
    staged : StagedFile
        From ``staging.stage``.
    part : Part
        One of its parts.
    node_kind : {"string", "int64", "dense"}
        What the ids of the graph are.
    max_nodes : int
        Bound of dense ids.

    Raises
    ------
    BadEdges
        A page is damaged or a rule of the data contract is broken; its ``part`` is set.
    OSError
        The file cannot be read, which is no fault of its content.
    """
    return _read(_source(staged), part, node_kind=node_kind, max_nodes=max_nodes)


def read_parts(
    parts: Sequence[tuple[StagedFile, Part]],
    *,
    node_kind: NodeKind,
    max_nodes: int,
    n_threads: int,
    scheduler: "str | Client | None" = None,
) -> Generator[RawBlock | BadEdges, None, None]:
    """Read parts through dask, in order.

    ``2 n_threads`` parts are read or wait for the caller, so that at most ``2 n_threads + 1`` are
    in memory. What comes out does not depend on ``n_threads``. Slices of one row group are read
    one after the other, their columns together.

    Parameters
    ----------
    parts : sequence of (StagedFile, Part)
        What to read.
    node_kind : {"string", "int64", "dense"}
        What the ids of the graph are.
    max_nodes : int
        Bound of dense ids.
    n_threads : int
        Parts that are read together.
    scheduler : str, distributed.Client or None
        Address of a ``dask.distributed`` scheduler, or a client of one that stays open; its workers
        must see the staged files under the same paths. None reads in threads of this process.

    Yields
    ------
    RawBlock or BadEdges
        One per part; a part that breaks a rule gives its error and stops no other part.

    Raises
    ------
    OSError
        A file cannot be read, which is no fault of its content.
    """
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    read = partial(_read_run, node_kind=node_kind, max_nodes=max_nodes)
    try:
        with _engine(read, n_threads, scheduler) as (submit, longest_run):
            waiting = deque(_runs(parts, longest_run))
            pending: deque[_Task] = deque()
            results: deque[RawBlock | BadEdges] = deque()
            n_ahead = 0
            while waiting or pending or results:
                while waiting and n_ahead + len(waiting[0][1]) <= 2 * n_threads:
                    source, run = waiting.popleft()
                    pending.append(submit(source, run))
                    n_ahead += len(run)
                if not results:
                    results.extend(pending.popleft().result())
                n_ahead -= 1
                yield results.popleft()  # no name holds it: the caller lets it go
    finally:
        for local_path in {staged.local_path for staged, _ in parts}:
            _OPEN_SLICES.close(local_path)
        if len(parts) > 2 * n_threads:
            # Arrow's mimalloc keeps what it frees: 90 MB were seen. This takes 3 ms.
            pa.default_memory_pool().release_unused()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What a task must know of a staged file."""

    path: str
    local_path: str
    stamp: Stamp


def _source(staged: StagedFile) -> _Source:
    return _Source(path=staged.file.path, local_path=staged.local_path, stamp=staged.stamp)


def _runs(
    parts: Sequence[tuple[StagedFile, Part]], longest: int
) -> Iterator[tuple[_Source, list[Part]]]:
    """Parts that one task reads: one, or consecutive slices of a row group."""
    source: _Source | None = None
    run: list[Part] = []
    for staged, part in parts:
        next_source = _source(staged)
        if (
            run
            and len(run) < longest
            and part.skipped_rows
            and (next_source, part.row_group) == (source, run[-1].row_group)
        ):
            run.append(part)
            continue
        if source is not None:
            yield source, run
        source, run = next_source, [part]
    if source is not None:
        yield source, run


@contextmanager
def _engine(
    read: Callable[..., Run], n_threads: int, scheduler: "str | Client | None"
) -> Iterator[tuple[Callable[[_Source, list[Part]], _Task], int]]:
    """Function that submits a run as a dask task, and the most parts of a run."""
    if scheduler is None:
        turns = _Turns()
        with ThreadPoolExecutor(n_threads, thread_name_prefix="read-part") as pool:

            def submit(source: _Source, run: list[Part]) -> _Task:
                turn = turns.next(source, run[0])
                return pool.submit(_compute, partial(read, source, run, turn=turn))

            try:
                yield submit, 1
            finally:
                pool.shutdown(cancel_futures=True)
        return
    if not isinstance(scheduler, str):
        yield partial(scheduler.submit, read, pure=False), n_threads
        return
    from distributed import Client  # noqa: PLC0415 - see above

    with Client(scheduler, set_as_default=False) as client:
        yield partial(client.submit, read, pure=False), n_threads


def _compute(task: Callable[[], Run]) -> Run:
    """Run a task by dask, in this thread: its own pool would wait for all of a window."""
    return cast(Run, dask.get({"read-part": (task,)}, "read-part"))


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
        self._last: tuple[tuple[_Source, int], _Turn] | None = None

    def next(self, source: _Source, part: Part) -> _Turn | None:
        """Return the turn of the next part; None if it need not wait for any other."""
        if not part.is_slice:
            return None
        key = (source, part.row_group)
        before = self._last[1].done if self._last is not None and self._last[0] == key else None
        turn = _Turn(before, threading.Event())
        self._last = (key, turn)
        return turn


def _read_run(
    source: _Source,
    parts: list[Part],
    *,
    node_kind: NodeKind,
    max_nodes: int,
    turn: _Turn | None = None,
) -> Run:
    results: Run = []
    for part in parts:
        try:
            block = _read(source, part, node_kind=node_kind, max_nodes=max_nodes, turn=turn)
            results.append(block)
        except BadEdges as error:
            results.append(error.bare())
    return results


def _read(
    source: _Source,
    part: Part,
    *,
    node_kind: NodeKind,
    max_nodes: int,
    turn: _Turn | None = None,
) -> RawBlock:
    try:
        with content_faults(f"{_row_groups(part)} of {source.path} cannot be decoded"):
            if part.is_slice:
                with turn or nullcontext():
                    table = _read_slice(source, part, use_threads=turn is not None)
            else:
                table = _read_groups(source, part)
        if table.num_rows != part.n_rows:
            raise BadEdges(
                f"{_row_groups(part)} of {source.path} must hold {part.n_rows} rows, as "
                f"the footer says, got {table.num_rows}"
            )
        return read_columns(
            table,
            node_kind=node_kind,
            max_nodes=max_nodes,
            first_row=part.first_row,
            is_owned=True,
        )
    except BadEdges as error:
        error.part = part.number
        raise


def _row_groups(part: Part) -> str:
    last = part.row_group + part.n_groups - 1
    return f"row group {last}" if part.n_groups == 1 else f"row groups {part.row_group} to {last}"


def _read_groups(source: _Source, part: Part) -> pa.Table:
    groups = list(range(part.row_group, part.row_group + part.n_groups))
    with open_parquet(source.local_path, _metadata(source.local_path, source.stamp)) as parquet:
        return parquet.read_row_groups(groups, columns=projection(parquet), use_threads=False)


@lru_cache(maxsize=4)
def _metadata(local_path: str, stamp: Stamp) -> pq.FileMetaData:  # noqa: ARG001 - part of the key
    """Footer of a file; reading it for every part would cost more, the more row groups."""
    with open_parquet(local_path) as parquet:
        return parquet.metadata


class _SliceReader:
    """Reads one row group from its first row on, slice by slice."""

    def __init__(self, source: _Source, part: Part, *, use_threads: bool) -> None:
        self.key = (source, part.row_group)
        self.next_row = 0
        metadata = _metadata(source.local_path, source.stamp)
        self._parquet = open_parquet(source.local_path, metadata)
        self._n_rows: int = self._parquet.metadata.row_group(part.row_group).num_rows
        self._batches = self._parquet.iter_batches(
            part.n_rows,
            row_groups=[part.row_group],
            columns=projection(self._parquet),
            use_threads=use_threads,
        )
        self._rest: deque[pa.RecordBatch] = deque()

    def read(self, n_rows: int) -> pa.Table:
        """Return the next ``n_rows`` rows, fewer at the end."""
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
    def is_done(self) -> bool:
        """Whether no slice is left."""
        return self.next_row >= self._n_rows

    def close(self) -> None:
        """Close the file."""
        self._parquet.close()


class _OpenSlices:
    """Readers that wait for the next slice of their row group; a few stay open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: OrderedDict[tuple[_Source, int], _SliceReader] = OrderedDict()

    def take(self, key: tuple[_Source, int], row: int) -> _SliceReader | None:
        """Return the reader that stands at ``row`` of the row group, if there is one."""
        with self._lock:
            reader = self._readers.pop(key, None)
        if reader is not None and reader.next_row != row:
            reader.close()
            return None
        return reader

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

    def close(self, local_path: str) -> None:
        """Close the readers of one file."""
        with self._lock:
            keys = [key for key in self._readers if key[0].local_path == local_path]
            closing = [self._readers.pop(key) for key in keys]
        for reader in closing:
            reader.close()


_OPEN_SLICES = _OpenSlices()


def _read_slice(source: _Source, part: Part, *, use_threads: bool) -> pa.Table:
    reader = _OPEN_SLICES.take((source, part.row_group), part.skipped_rows)
    if reader is None:
        reader = _SliceReader(source, part, use_threads=use_threads)
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
