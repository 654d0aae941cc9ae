"""Spool of raw edges: a committed file as dense ids, for passes after the first.

One Arrow file of lz4 batches per committed file and relation, named by its content and how that
was read (`AbsorbedFile.edges_key`). Dense ids never change: a spooled file is good as long as its
graph lives; it is published whole, and equal keys mean equal edges. Random ids and weights take 12
bytes an edge, equal weights 8.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from peewit.streaming.durable_files import publish_file
from peewit.streaming.edges.blocks import EdgeBlock

_SCHEMA: Final = pa.schema([("u", pa.int32()), ("v", pa.int32()), ("weight", pa.float32())])


@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledFile:
    """One spooled file."""

    path: Path
    n_batches: int  # blocks, in the order of the source
    relation: str = ""  # of its edges

    def block(self, number: int) -> EdgeBlock:
        """Read one block; safe in any thread."""
        with pa.memory_map(str(self.path)) as source:
            batch = _open(source).get_batch(number)
            columns = [batch.column(name).to_numpy() for name in _SCHEMA.names]
            return EdgeBlock(u=columns[0], v=columns[1], weight=columns[2], n_rows=batch.num_rows)


class Spool:
    """The spooled files of one graph; the first one makes the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, key: str, relation: str = "") -> SpooledFile | None:
        """The edges of a relation in the file of this content; None when they were not spooled."""
        path = self._path(key, relation)
        if not path.exists():
            return None
        with pa.memory_map(str(path)) as source:
            return SpooledFile(
                path=path, n_batches=_open(source).num_record_batches, relation=relation
            )

    def write(self, key: str, blocks: Iterable[EdgeBlock], relation: str = "") -> SpooledFile:
        """Spool the edges of a relation in a file; where ``blocks`` raises nothing is left."""
        self._directory.mkdir(parents=True, exist_ok=True)
        n_batches = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal n_batches
            for block in blocks:
                n_batches += 1
                yield pa.record_batch([block.u, block.v, block.weight], schema=_SCHEMA)

        path = self._path(key, relation)
        publish_file(path, lambda temporary: _write(temporary, batches()))
        return SpooledFile(path=path, n_batches=n_batches, relation=relation)

    def _path(self, key: str, relation: str) -> Path:
        of = f"-{hashlib.sha256(relation.encode()).hexdigest()[:16]}" if relation else ""
        return self._directory / f"{key}{of}.arrow"


def _open(source: Any) -> Any:
    options = pa.ipc.IpcReadOptions(use_threads=False)  # callers have threads of their own
    return pa.ipc.open_file(source, options=options)


def _write(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, _SCHEMA, options=options) as writer,
    ):
        for batch in batches:
            writer.write_batch(batch)
