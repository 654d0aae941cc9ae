"""Log of the changes of one graph: what each committed file added and deleted, in dense ids.

One Arrow file of zstd batches for each file, a batch for each block of the stream, named by the
digest of the content and published whole before the file counts. Rows of weight zero delete what
stands before their block and come first in it. Bitmaps beside the files tell what is dead
(`DeadRows`), in a new version whenever deletes are resolved, so that files never change. A file of
which much is dead is written anew without it, as its next generation, which that version names.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import AnyArray, Int32Array, Int64Array, frozen
from peewit.streaming.durable_files import TEMPORARY_PREFIX, naming, publish_file, remove_unfinished
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.kernels.pair_set import pair_numbers
from peewit.streaming.log.logged_files import (
    BUCKET,
    REPLACES,
    SCHEMA,
    DeadRows,
    LoggedFile,
    open_log,
    present,
)

_DEAD_SCHEMA: Final = pa.schema(
    [("digest", pa.string()), ("batch", pa.int32()), ("bits", pa.large_binary())]
)
_GENERATIONS: Final = b"peewit.generations"
_HORIZON: Final = b"peewit.horizon"
_MOST_WAITING: Final = 2
"""Most blocks that wait to be written; more would take memory that the plan does not count."""

NO_NODES: Final = frozen(np.empty(0, np.int32))
"""Ends of no pairs, for blocks that delete nothing."""


class LogWriter:
    """Writes the changes of one file, in a thread of its own."""

    def __init__(self, writer: Any, path: Path, schema: pa.Schema, *, replaces: bool) -> None:
        self._writer = writer
        self._schema = schema
        self._path = path
        self._replaces = replaces
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="log")
        self._waiting: list[Future[None]] = []

    def append(self, added: EdgeBlock, u: Int32Array, v: Int32Array) -> None:
        """Note a block: edges that it adds, and pairs that it deletes before.

        Raises OSError where a block before could not be written.
        """
        if self._replaces:  # rows that add delete by themselves
            u, v = _without_pairs(u, v, added)
        zeros = np.zeros(u.size, np.float32)
        columns = (u, added.u), (v, added.v), (zeros, added.weight)
        joined: list[AnyArray | pa.Array] = [
            last if not u.size else np.concatenate([first, last]) for first, last in columns
        ]
        if BUCKET.name in self._schema.names:
            joined.append(_constant(added.bucket, joined[0].size))
        batch = pa.record_batch(joined, schema=self._schema)
        self._waiting.append(self._pool.submit(self._write, batch))
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.pop(0).result()

    def append_all(self, edges: Sequence[EdgeBlock], u: Int32Array, v: Int32Array) -> None:
        """Note blocks, of which the first deletes pairs before it, as `append`."""
        for block in edges:
            self.append(block, u, v)
            u = v = NO_NODES

    def flush(self) -> None:
        """Wait until everything is written; raises what went wrong."""
        while self._waiting:
            self._waiting.pop(0).result()

    def close(self) -> None:
        """End the thread, whatever waits."""
        self._pool.shutdown(cancel_futures=True)

    def _write(self, batch: pa.RecordBatch) -> None:
        with naming(self._path):
            self._writer.write_batch(batch)


class ChangeLog:
    """The log of one graph, which a single process writes.

    ``guard`` is called before every change on disk, and raises where this process may no longer
    write. The first file makes the directory.
    """

    def __init__(self, directory: Path, *, guard: Callable[[], None] = lambda: None) -> None:
        self._directory = directory
        self._guard = guard
        self._buckets: dict[str, Int64Array] = {}

    @contextmanager
    def writing(
        self, digest: str, *, replaces: bool, has_buckets: bool = False, generation: int = 0
    ) -> Iterator[LogWriter]:
        """Writer of one file, which is there once the block ends; nothing is where that raises."""
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._path(digest, generation)
        temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
        schema = SCHEMA.append(BUCKET) if has_buckets else SCHEMA
        schema = schema.with_metadata({REPLACES: b"1" if replaces else b"0"})
        try:
            with (
                naming(path),
                pa.OSFile(str(temporary), "wb") as sink,
                pa.ipc.new_file(sink, schema, options=_options()) as writer,
            ):
                log = LogWriter(writer, path, schema, replaces=replaces)
                try:
                    yield log
                    log.flush()
                finally:
                    log.close()
            self._guard()
            publish_file(path, partial(os.replace, temporary))
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def file(self, digest: str, dead: DeadRows | None = None) -> LoggedFile:
        """The changes of a committed file, of the generation that ``dead`` belongs to.

        Raises `LogFileMissing` where it was never logged, or is no longer kept.
        """
        path = self._path(digest, 0 if dead is None else dead.generations.get(digest, 0))
        with present(path), pa.memory_map(str(path)) as source:
            reader = open_log(source)
            return LoggedFile(
                path=path,
                digest=digest,
                n_batches=reader.num_record_batches,
                has_buckets=BUCKET.name in reader.schema.names,
            )

    def buckets(self, digest: str, dead: DeadRows) -> Int64Array:
        """(n_batches,) int64 bucket of each block of a file, see `LoggedFile.buckets`."""
        if digest not in self._buckets:
            self._buckets[digest] = self.file(digest, dead).buckets()
        return self._buckets[digest]

    def keeps(self, version: int, digests: Collection[str] = ()) -> bool:
        """Whether a version of the dead rows is kept, and some files as it has them."""
        if version and not self._dead_path(version).exists():
            return False
        generations = self.dead(version).generations
        return all(self._path(digest, generations.get(digest, 0)).exists() for digest in digests)

    def dead(self, version: int) -> DeadRows:
        """Dead rows of some version; none in version 0.

        Raises `LogFileMissing` where the version is no longer kept.
        """
        if version == 0:
            return DeadRows({})
        path = self._dead_path(version)
        with present(path), pa.memory_map(str(path)) as source:
            reader = open_log(source)
            table, metadata = reader.read_all(), reader.schema.metadata
        keys = zip(table["digest"].to_pylist(), table["batch"].to_pylist(), strict=True)
        values = (np.frombuffer(bits.as_buffer(), np.uint8) for bits in table["bits"])
        horizon = int(metadata.get(_HORIZON, NEVER))
        generations = json.loads(metadata[_GENERATIONS])
        return DeadRows(dict(zip(keys, values, strict=True)), generations, horizon=horizon)

    def publish_dead(self, version: int, dead: DeadRows) -> None:
        """Keep a version of the dead rows, whole."""
        self._directory.mkdir(parents=True, exist_ok=True)
        keys = sorted(dead.bits)
        generations = json.dumps(dead.generations, sort_keys=True).encode()
        metadata = {_GENERATIONS: generations}
        if dead.horizon != NEVER:
            metadata[_HORIZON] = str(dead.horizon).encode()
        schema = _DEAD_SCHEMA.with_metadata(metadata)

        def write(path: Path) -> None:
            with (
                naming(path),
                pa.OSFile(str(path), "wb") as sink,
                pa.ipc.new_file(sink, schema, options=_options()) as writer,
            ):
                digests, batches = zip(*keys, strict=True) if keys else ((), ())
                bits = [dead.bits[key].tobytes() for key in keys]
                writer.write_table(pa.table([digests, batches, bits], schema=schema))

        self._guard()
        publish_file(self._dead_path(version), write)

    def retain(self, digests: Collection[str], version: int, *, also: Collection[int] = ()) -> None:
        """Remove all but these files and this version, and what a killed process left.

        Versions ``also`` stay where they are there. Raises `LogFileMissing`, and removes nothing,
        where ``version`` is not there.
        """
        if not self._directory.exists():
            return
        versions = {version, *filter(self.keeps, also)}
        needed = {path for number in versions for path in self._paths(digests, number)}
        self._guard()
        remove_unfinished(self._directory)
        for path in set(self._directory.iterdir()) - needed:
            path.unlink()
        for digest in self._buckets.keys() - set(digests):
            del self._buckets[digest]

    def linked(self, directory: Path, digests: Collection[str], version: int) -> "ChangeLog":
        """A log of second names for these files in a version, which `retain` does not reach.

        Raises `LogFileMissing` where ``version`` is not there, and OSError where the file system
        has no links.
        """
        directory.mkdir(parents=True, exist_ok=True)
        for path in self._paths(digests, version):
            with present(path), suppress(FileExistsError):
                os.link(path, directory / path.name)
        return ChangeLog(directory)

    def n_bytes(self, digests: Collection[str], version: int) -> int:
        """Bytes of what a version of the log has of some files; raises as `retain`."""
        paths = self._paths(digests, version)
        return sum(path.stat().st_size for path in paths if path.exists())

    def _paths(self, digests: Collection[str], version: int) -> set[Path]:
        generations = self.dead(version).generations
        paths = {self._path(digest, generations.get(digest, 0)) for digest in digests}
        return paths | {self._dead_path(version)} if version else paths

    def _path(self, digest: str, generation: int) -> Path:
        name = digest if generation == 0 else f"{digest}-{generation}"
        return self._directory / f"{name}.arrow"

    def _dead_path(self, version: int) -> Path:
        return self._directory / f"dead-{version:09d}.arrow"


def _constant(value: int, length: int) -> pa.Array:
    """An array of equal numbers that takes no room."""
    runs = ([length], [value]) if length else ([], [])
    return pa.RunEndEncodedArray.from_arrays(
        pa.array(runs[0], pa.int32()), pa.array(runs[1], pa.int64())
    )


def _options() -> pa.ipc.IpcWriteOptions:
    return pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)


def _without_pairs(u: Int32Array, v: Int32Array, added: EdgeBlock) -> tuple[Int32Array, Int32Array]:
    """Pairs that have no edge among those added."""
    is_added = np.isin(pair_numbers(u, v), pair_numbers(added.u, added.v))
    return u[~is_added], v[~is_added]
