"""Reading parts: one, or many of them through dask, in order and ahead of the caller.

A part that breaks a rule becomes a value, ``BadEdges``, in its place among the blocks. In flight is
a fixed number of parts, never a whole file.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import dask
import pyarrow as pa

from streaming.blocks import BadEdges, NodeKind, RawBlock, read_columns
from streaming.parts import Part, StagedFile, Stamp, content_faults, open_parquet, projection

_MAX_OPEN_SLICES = 4

Run: TypeAlias = list[RawBlock | BadEdges]
"""Results of the parts that one task reads."""

_T = TypeVar("_T")
_R = TypeVar("_R")


def read_part(staged: StagedFile, part: Part, *, node_kind: NodeKind, max_nodes: int) -> RawBlock:
    """Rows of one part, checked.

    Whole row groups may be read in any order. Slices of one row group are cheap in ascending order,
    as their reader waits for the next one; any other slice decodes all rows before it.

    Parameters
    ----------
    staged : StagedFile
        From ``sources.stage``.
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
    return _read(_reading(staged), part, node_kind=node_kind, max_nodes=max_nodes)


def read_parts(
    parts: Sequence[tuple[StagedFile, Part]],
    *,
    node_kind: NodeKind,
    max_nodes: int,
    n_threads: int,
    scheduler: str | None = None,
) -> Generator[RawBlock | BadEdges, None, None]:
    """Read parts through dask, in order.

    ``n_threads`` parts are read together, and the next ones while the caller works on these: at
    most ``2 n_threads + 1`` parts are in memory. What comes out does not depend on ``n_threads``.
    Slices of one row group are read one after the other.

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
    scheduler : str or None
        Address of a ``dask.distributed`` scheduler, whose workers must see the staged files under
        the same paths; None reads in threads of this process.

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
    windows = (parts[start : start + n_threads] for start in range(0, len(parts), n_threads))
    try:
        with _engine(n_threads, scheduler) as compute:
            for runs in _one_ahead(lambda window: compute(_tasks(window, read)), windows):
                results = deque(result for run in runs for result in run)
                del runs  # the results are let go one by one
                while results:
                    yield results.popleft()
    finally:
        for local_path in {staged.local_path for staged, _ in parts}:
            _OPEN_SLICES.close(local_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What a task must know of a staged file."""

    path: str
    local_path: str
    stamp: Stamp


def _reading(staged: StagedFile) -> _Reading:
    return _Reading(path=staged.file.path, local_path=staged.local_path, stamp=staged.stamp)


@contextmanager
def _engine(n_threads: int, scheduler: str | None) -> Iterator[Callable[[list[Any]], list[Run]]]:
    """Compute delayed tasks in threads, or on a cluster."""
    if scheduler is None:
        with ThreadPoolExecutor(n_threads, thread_name_prefix="read-part") as pool:
            # An executor for a scheduler: dask would import dask.distributed to resolve a name.
            yield lambda tasks: list(
                dask.compute(*tasks, scheduler=pool, traverse=False, optimize_graph=False)
            )
        return
    from distributed import Client  # noqa: PLC0415 - a slow import that only clusters need

    with Client(scheduler, set_as_default=False) as client:
        yield lambda tasks: list(
            client.gather(client.compute(tasks, traverse=False, optimize_graph=False))
        )


def _one_ahead(compute: Callable[[_T], _R], windows: Iterable[_T]) -> Iterator[_R]:
    """Results of all windows in order; each is computed while the caller has the one before."""
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as ahead:
        pending: deque[Future[_R]] = deque()
        for window in windows:
            pending.append(ahead.submit(compute, window))
            if len(pending) > 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _tasks(
    window: Sequence[tuple[StagedFile, Part]], read: Callable[[_Reading, list[Part]], Run]
) -> list[Any]:
    """Delayed tasks of a window; consecutive slices of a row group are one task."""
    runs: list[tuple[_Reading, list[Part]]] = []
    for staged, part in window:
        reading = _reading(staged)
        if part.skipped_rows and runs:
            last_reading, last = runs[-1]
            if last_reading == reading and last[-1].row_group == part.row_group:
                last.append(part)
                continue
        runs.append((reading, [part]))
    # partial and traverse=False keep dask from searching the records for tasks.
    return [
        dask.delayed(partial(read, reading, run), pure=False, traverse=False)()
        for reading, run in runs
    ]


def _read_run(reading: _Reading, parts: list[Part], *, node_kind: NodeKind, max_nodes: int) -> Run:
    results: Run = []
    for part in parts:
        try:
            results.append(_read(reading, part, node_kind=node_kind, max_nodes=max_nodes))
        except BadEdges as error:
            results.append(_without_traceback(error))
    return results


def _without_traceback(error: BadEdges) -> BadEdges:
    """Return an equal error that does not hold the table it was raised for."""
    return BadEdges(error.reason, row=error.row, value=error.value, part=error.part)


def _read(reading: _Reading, part: Part, *, node_kind: NodeKind, max_nodes: int) -> RawBlock:
    try:
        with content_faults(f"row group {part.row_group} of {reading.path} cannot be decoded"):
            table = _read_slice(reading, part) if part.is_slice else _read_groups(reading, part)
        if table.num_rows != part.n_rows:
            raise BadEdges(
                f"row group {part.row_group} of {reading.path} must hold {part.n_rows} rows, as "
                f"the footer says, got {table.num_rows}"
            )
        return read_columns(
            table, node_kind=node_kind, max_nodes=max_nodes, first_row=part.first_row
        )
    except BadEdges as error:
        error.part = part.number
        raise


def _read_groups(reading: _Reading, part: Part) -> pa.Table:
    groups = list(range(part.row_group, part.row_group + part.n_groups))
    with open_parquet(reading.local_path) as parquet:
        return parquet.read_row_groups(groups, columns=projection(parquet), use_threads=False)


class _SliceReader:
    """Reads one row group from its first row on, slice by slice."""

    def __init__(self, reading: _Reading, part: Part) -> None:
        self.key = (reading, part.row_group)
        self.next_row = 0
        self._parquet = open_parquet(reading.local_path)
        self._n_rows: int = self._parquet.metadata.row_group(part.row_group).num_rows
        self._batches = self._parquet.iter_batches(
            part.n_rows,
            row_groups=[part.row_group],
            columns=projection(self._parquet),
            use_threads=False,
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
        self._readers: OrderedDict[tuple[_Reading, int], _SliceReader] = OrderedDict()

    def take(self, key: tuple[_Reading, int], row: int) -> _SliceReader | None:
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


def _read_slice(reading: _Reading, part: Part) -> pa.Table:
    reader = _OPEN_SLICES.take((reading, part.row_group), part.skipped_rows)
    if reader is None:
        reader = _SliceReader(reading, part)
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
