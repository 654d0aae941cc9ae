"""Files of a log as they are read: what each block changed, and what of it lives."""

import errno
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import BoolArray, Float32Array, Int32Array, Int64Array, UInt8Array
from peewit.streaming.durable_files import naming
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.edges.time_units import NEVER

SCHEMA: Final = pa.schema([("u", pa.int32()), ("v", pa.int32()), ("weight", pa.float32())])
BUCKET: Final = pa.field("bucket", pa.run_end_encoded(pa.int32(), pa.int64()))
"""Column of the logs of graphs with a window; a batch is of one bucket, so it takes no room."""

REPLACES: Final = b"peewit.replaces"
"""Key in the schema of a file: whether rows that add delete, too."""

BatchKey: TypeAlias = tuple[str, int]
"""Digest of a file, and the number of a batch in it."""


class LogFileMissing(OSError):
    """A file of the log is not there; it was never written, or is no longer kept."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ENOENT, "a part of the log of the graph must be there", str(path))
        self.path = path

    def __reduce__(self) -> tuple[type["LogFileMissing"], tuple[Path]]:
        return type(self), (self.path,)


@contextmanager
def present(path: Path) -> Iterator[None]:
    """Faults of a missing file as LogFileMissing, which is no fault of whoever is being read."""
    try:
        with naming(path):
            yield
    except FileNotFoundError as error:
        raise LogFileMissing(path) from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoggedBlock:
    """What one block of the stream changed; its columns are (n_rows,)."""

    u: Int32Array
    v: Int32Array
    weight: Float32Array  # zero where a row deletes
    replaces: bool  # rows that add delete, too, what stands before their block
    bucket: int = 0  # of the edges, in graphs with a window

    @property
    def adds(self) -> BoolArray:
        """(n_rows,) mask of the rows that are edges."""
        return np.asarray(self.weight > 0.0)

    @property
    def deleted(self) -> tuple[Int32Array, Int32Array]:
        """Ends of the pairs that are deleted before the block."""
        if self.replaces:
            return self.u, self.v
        n_deletes = int(np.count_nonzero(self.weight == 0.0))
        return self.u[:n_deletes], self.v[:n_deletes]

    def edges(self, is_taken: BoolArray) -> EdgeBlock:
        """The edges that are marked."""
        everything = EdgeBlock(
            u=self.u, v=self.v, weight=self.weight, n_rows=self.u.size, bucket=self.bucket
        )
        return everything if is_taken.all() else everything.where(is_taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFile:
    """What one file changed."""

    path: Path
    digest: str  # of its content
    n_batches: int  # blocks, in the order of the stream
    has_buckets: bool = False  # of a window

    def block(self, number: int) -> LoggedBlock:
        """One block; safe in any thread. Raises `LogFileMissing`."""
        with present(self.path), pa.memory_map(str(self.path)) as source:
            reader = open_log(source)
            batch = reader.get_batch(number)
            u, v, weight = (batch.column(name).to_numpy() for name in SCHEMA.names)
            replaces = (reader.schema.metadata or {}).get(REPLACES) == b"1"
            bucket = _bucket(batch)
            return LoggedBlock(u=u, v=v, weight=weight, replaces=replaces, bucket=bucket)

    def buckets(self) -> Int64Array:
        """(n_batches,) int64 bucket of each block, 0 of those that hold nothing."""
        if not self.has_buckets:
            return np.zeros(self.n_batches, np.int64)
        with present(self.path), pa.memory_map(str(self.path)) as source:
            reader = open_log(source, [len(SCHEMA)])
            batches = (reader.get_batch(number) for number in range(self.n_batches))
            return np.array([_bucket(batch) for batch in batches], np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LiveFile:
    """The live edges of a file."""

    file: LoggedFile
    dead: "DeadRows"  # of this file alone
    relation: str = ""  # of its edges

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self.file.path

    @property
    def n_batches(self) -> int:
        """Number of blocks, in the order of the stream."""
        return self.file.n_batches

    def block(self, number: int) -> EdgeBlock:
        """Live edges of one block; safe in any thread."""
        block = self.file.block(number)
        return block.edges(~self.dead.mask((self.file.digest, number), block))

    def only(self, number: int) -> "LiveFile":
        """The file, to read one block: without the dead rows of others, which would be sent."""
        dead = self.dead.only((self.file.digest, number))
        return LiveFile(file=self.file, dead=dead, relation=self.relation)


class LogDamaged(ValueError):
    """Parts of the log do not belong together."""


class DeadRows:
    """Which rows of a log are no edges any more, by batch.

    ``bits`` holds the packed masks, (n_bytes,), of batches with dead rows. ``generations`` says by
    digest how often files were written anew; files that it lacks never were. Blocks of buckets
    before ``horizon`` are dead.
    """

    def __init__(
        self,
        bits: Mapping[BatchKey, UInt8Array],
        generations: Mapping[str, int] | None = None,
        *,
        horizon: int = NEVER,
    ) -> None:
        self.bits = dict(bits)
        self.generations = dict(generations or {})
        self.horizon = horizon

    def mask(self, key: BatchKey, block: LoggedBlock) -> BoolArray:
        """(n_rows,) mask of a block, True for dead rows and for those that delete."""
        if block.bucket < self.horizon:
            return np.ones(block.u.size, bool)
        bits = self.bits.get(key)
        if bits is None:
            return ~block.adds
        if bits.size != -(-block.u.size // 8):
            raise LogDamaged(
                f"block {key[1]} of {key[0]} must be the one whose dead rows are known"
            )
        return np.unpackbits(bits, count=block.u.size).view(np.bool_) | ~block.adds

    def of(self, digests: Collection[str]) -> "DeadRows":
        """Dead rows of some files."""
        return DeadRows(
            {key: bits for key, bits in self.bits.items() if key[0] in digests},
            {key: generation for key, generation in self.generations.items() if key in digests},
            horizon=self.horizon,
        )

    def only(self, *keys: BatchKey) -> "DeadRows":
        """Dead rows of some batches."""
        bits = {key: self.bits[key] for key in keys if key in self.bits}
        return DeadRows(bits, horizon=self.horizon)

    def joined(self, bits: Mapping[BatchKey, UInt8Array]) -> "DeadRows":
        """Dead rows with the present masks of some batches."""
        return DeadRows({**self.bits, **bits}, self.generations, horizon=self.horizon)

    def since(self, horizon: int) -> "DeadRows":
        """Dead rows with all blocks of buckets before the horizon among them."""
        return DeadRows(self.bits, self.generations, horizon=horizon)

    def without(self, file: LoggedFile) -> LiveFile:
        """A file without its dead rows."""
        keys = ((file.digest, number) for number in range(file.n_batches))
        return LiveFile(file=file, dead=self.only(*keys))


def open_log(source: Any, columns: list[int] | None = None) -> Any:
    """Reader of a mapped Arrow file, of some columns or of all."""
    # callers have threads of their own
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=columns)
    return pa.ipc.open_file(source, options=options)


def _bucket(batch: pa.RecordBatch) -> int:
    if batch.num_rows == 0 or BUCKET.name not in batch.schema.names:
        return 0
    return int(batch.column(BUCKET.name)[0].as_py())
