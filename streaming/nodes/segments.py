"""External ids on disk: append-only Arrow segments, named by the dense ids they hold.

``00000000000-00000001000.arrow`` holds the external ids of the dense ids 0 to 999, in one column,
and is published whole. A new segment absorbs the small ones before it, so that frequent publishing
leaves few files; those inside it are superseded, and deleted once it is there. Readers may keep a
deleted segment mapped. An erased node has a null id: its dense id is never given again.
"""

import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import BoolArray, Int32Array
from peewit.streaming.durable_files import fsync_directory, publish_file

_NAME = re.compile(r"(\d{11})-(\d{11})\.arrow")
_COLUMN = "node"
_CHECKSUM = b"crc32"
_MERGED_ROWS = 1 << 22  # segments are not merged beyond this: bounds what one publication rewrites
_LIST_ATTEMPTS = 10


class CorruptSegment(RuntimeError):
    """Published ids cannot be read back; restore the graph from a backup or ingest it again."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Segment:
    """One file of the ids of ``start .. stop - 1``."""

    start: int
    stop: int
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MappedIds:
    """External ids of the dense ids ``start .. stop - 1``, memory-mapped."""

    start: int
    stop: int
    ids: pa.Array


def segment_path(directory: Path, start: int, stop: int) -> Path:
    """Path of the ids of ``start .. stop - 1``."""
    return directory / f"{start:011d}-{stop:011d}.arrow"


def list_segments(directory: Path) -> list[Segment]:
    """All segments in ``directory``, superseded ones too, sorted."""
    if not directory.exists():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    return sorted(
        Segment(start=int(match[1]), stop=int(match[2]), path=path)
        for match, path in matches
        if match
    )


def require_ids(directory: Path, n_nodes: int) -> None:
    """Raise unless segments hold the first ``n_nodes`` ids; their content is not read.

    `CorruptSegment` where ids between two segments are missing, ValueError where fewer are
    published.
    """
    _chain(list_segments(directory), start=0, stop=n_nodes)


def read_ids(
    directory: Path, arrow_type: pa.DataType, *, start: int, stop: int | None, verify: bool
) -> list[MappedIds]:
    """Ids of the dense ids ``start .. stop - 1`` (None: all published), in order without gaps.

    ``verify`` reads every byte and compares checksums. Raises `CorruptSegment` where a segment is
    damaged or ids between two are missing, ValueError where fewer than ``stop`` ids are published.
    """
    for attempt in range(_LIST_ATTEMPTS):
        try:
            return _read_chain(directory, arrow_type, start=start, stop=stop, verify=verify)
        except FileNotFoundError:  # the writer merged segments meanwhile: list again
            if attempt == _LIST_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def publish_ids(directory: Path, ids: pa.Array, *, start: int, published: list[MappedIds]) -> None:
    """Write ``ids`` as the segment that begins at ``start``, with the small segments before it.

    ``published`` are the ids before ``start``; not changed.
    """
    stop = start + len(ids)
    merged = [ids]
    for chunk in reversed(published):
        size = chunk.stop - chunk.start
        if size > stop - start or stop - chunk.start > _MERGED_ROWS:
            break
        merged.insert(0, chunk.ids)
        start = chunk.start
    merged_path = segment_path(directory, start, stop)
    _write(merged_path, merged)
    _delete(
        [
            segment
            for segment in list_segments(directory)
            if start <= segment.start and segment.stop <= stop and segment.path != merged_path
        ]
    )


def truncate_ids(directory: Path, arrow_type: pa.DataType, n_nodes: int | None) -> None:
    """Remove the ids from ``n_nodes`` on (None: none), and superseded segments.

    What remains is written before anything is deleted, and the last ids are deleted first: killed
    at any line, the first ``n_nodes`` ids are there and no gap is. Raises `CorruptSegment` where
    the segment to be cut is damaged, ValueError where fewer than ``n_nodes`` ids are published.
    """
    chain = _chain(list_segments(directory), start=0, stop=n_nodes)
    if n_nodes is not None and chain and chain[-1].stop > n_nodes:
        start = max([0, *(segment.stop for segment in chain[:-1])])
        ids = _map(chain[-1], arrow_type, verify=True)
        rest = ids.slice(start - chain[-1].start, n_nodes - start)
        _write(segment_path(directory, start, n_nodes), [rest])
        chain[-1] = Segment(start=start, stop=n_nodes, path=segment_path(directory, start, n_nodes))
    paths = {segment.path for segment in chain}
    _delete([segment for segment in list_segments(directory) if segment.path not in paths])


def erase_ids(directory: Path, arrow_type: pa.DataType, nodes: Int32Array) -> None:
    """Write null over the external ids of some published nodes, segment by segment.

    Each segment is replaced whole; called again after it was killed, it does the rest. Segments of
    another cut, which may hold the ids too, are deleted. Raises `CorruptSegment`.
    """
    chain = _chain(list_segments(directory), start=0, stop=None)
    paths = {segment.path for segment in chain}
    _delete([segment for segment in list_segments(directory) if segment.path not in paths])
    for segment in chain:
        inside = nodes[(segment.start <= nodes) & (nodes < segment.stop)] - segment.start
        if not inside.size:
            continue
        ids = _map(segment, arrow_type, verify=True)
        is_erased = np.zeros(len(ids), bool)
        is_erased[inside] = True
        if ids.null_count:
            is_erased |= ids.is_null().to_numpy(zero_copy_only=False)
        _write(segment.path, [_blanked(ids, is_erased)])


def _blanked(ids: pa.Array, is_erased: BoolArray) -> pa.Array:
    """Copy of ids with null where they are erased, of which no byte is left."""
    remaining = ids.filter(pa.array(~is_erased))
    place = np.cumsum(~is_erased) - 1
    return remaining.take(pa.array(place, mask=is_erased))


def _chain(segments: list[Segment], *, start: int, stop: int | None) -> list[Segment]:
    """The longest segments that cover ``start .. stop - 1``, in order."""
    end = max((segment.stop for segment in segments), default=0)
    if stop is not None and stop > end:
        raise ValueError(f"{stop} node ids are asked for, only {end} are published")
    position, chain = start, []
    while position < (end if stop is None else stop):
        covering = [segment for segment in segments if segment.start <= position < segment.stop]
        if not covering:
            raise CorruptSegment(
                f"no segment holds dense id {position}, though ids up to {end - 1} are published; "
                "restore the graph from a backup or ingest it again"
            )
        chain.append(max(covering, key=lambda segment: segment.stop))
        position = chain[-1].stop
    return chain


def _read_chain(
    directory: Path, arrow_type: pa.DataType, *, start: int, stop: int | None, verify: bool
) -> list[MappedIds]:
    chunks = []
    for segment in _chain(list_segments(directory), start=start, stop=stop):
        ids = _map(segment, arrow_type, verify=verify)
        end = segment.stop if stop is None else min(segment.stop, stop)
        ids = ids.slice(start - segment.start, end - start)
        chunks.append(MappedIds(start=start, stop=end, ids=ids))
        start = end
    return chunks


def _map(segment: Segment, arrow_type: pa.DataType, *, verify: bool) -> pa.Array:
    try:
        # Closing frees the descriptor; the arrays keep the mapping alive.
        with pa.memory_map(str(segment.path)) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
        batch.validate()
        names = batch.schema.names
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _corrupt_segment(segment, str(error)) from error
    if names != [_COLUMN] or batch.schema.types != [arrow_type]:
        raise _corrupt_segment(
            segment, f"it must hold one column of {arrow_type}, got {batch.schema}"
        )
    ids = batch.column(0)
    if len(ids) != segment.stop - segment.start:
        raise _corrupt_segment(segment, f"it holds {len(ids)} ids")
    if verify and (batch.schema.metadata or {}).get(_CHECKSUM) != _checksum(ids):
        raise _corrupt_segment(segment, "its checksum differs")
    return ids


def _corrupt_segment(segment: Segment, reason: str) -> CorruptSegment:
    return CorruptSegment(
        f"{segment.path} is damaged: {reason}; restore the graph from a backup or ingest it again"
    )


def _write(path: Path, chunks: list[pa.Array]) -> None:
    # The empty slice makes concat_arrays copy, so that offsets begin at 0 as they will on disk.
    ids = chunks[0]
    if len(chunks) > 1 or ids.offset:
        ids = pa.concat_arrays([*chunks, ids.slice(0, 0)])
    schema = pa.schema([(_COLUMN, ids.type)], metadata={_CHECKSUM: _checksum(ids)})

    def write(temporary: Path) -> None:
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.record_batch([ids], schema=schema))

    publish_file(path, write)


def _checksum(ids: pa.Array) -> bytes:
    """CRC-32 of the ids; they must begin where their buffers do."""
    _, first, *data = ids.buffers()
    crc = 0
    if ids.null_count:
        crc = zlib.crc32(np.packbits(ids.is_valid().to_numpy(zero_copy_only=False)).tobytes())
    if ids.type == pa.int64():
        crc = zlib.crc32(memoryview(first)[: 8 * len(ids)], crc)
    else:
        crc = zlib.crc32(memoryview(first)[: 8 * (len(ids) + 1)], crc)
        if data[0] is not None:
            n_bytes = int(np.frombuffer(first, dtype=np.int64)[len(ids)])
            crc = zlib.crc32(memoryview(data[0])[:n_bytes], crc)
    return str(crc).encode()


def _delete(segments: list[Segment]) -> None:
    """Delete the last ids first, so that a gap never shows."""
    for segment in sorted(segments, reverse=True):
        segment.path.unlink()
    if segments:
        fsync_directory(segments[0].path.parent)
