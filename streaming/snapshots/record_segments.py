"""Records on disk: segments that are written once and shared by the checkpoints after them.

``00000000000-00000001000.records`` holds the records 0 to 999 of a buffer, column after column in
the order of `Records`, little-endian. The buffer only grows between two resparsifications, so a
checkpoint links the segments of the one before and writes what came since; a new segment absorbs
the small ones before it, so that frequent saving leaves few files.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

from peewit.solvers.arrays import AnyArray
from peewit.streaming.durable_files import link_file, naming, write_flushed
from peewit.streaming.sparsifier.settings_and_state import Records

_COLUMNS = {
    item.name: getattr(Records.empty(), item.name).dtype.newbyteorder("<")
    for item in fields(Records)
}
_RECORD_BYTES = sum(dtype.itemsize for dtype in _COLUMNS.values())


class ArrayIdentity:
    """Identity of arrays, remembered without keeping them alive.

    Equal means the same objects: a state is immutable, so they hold the same values.
    """

    def __init__(self, arrays: Sequence[AnyArray]) -> None:
        self._references = [weakref.ref(array) for array in arrays]

    def is_of(self, arrays: Sequence[AnyArray]) -> bool:
        """Whether these are the arrays."""
        return len(arrays) == len(self._references) and all(
            reference() is array for reference, array in zip(self._references, arrays, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SavedRecords:
    """Segments that hold the records of a buffer, in order."""

    bounds: tuple[tuple[int, int], ...] = ()  # first record, and one past the last
    chunks: tuple[tuple[ArrayIdentity, int], ...] = field(default=(), repr=False)

    def n_common(self, chunks: Sequence[Records]) -> int:
        """Number of records at the front of a buffer that are the saved ones."""
        n_common = 0
        for chunk, (identity, n_records) in zip(chunks, self.chunks, strict=False):
            if not identity.is_of(chunk.columns):
                break
            n_common += n_records
        return n_common


def write_records(
    directory: Path,
    chunks: Sequence[Records],
    *,
    before: Path,
    saved: SavedRecords,
    on_flushed: Callable[[], None] = lambda: None,
) -> SavedRecords:
    """Write a buffer into an empty directory, linking what another one has.

    ``chunks`` are neither joined nor copied; ``saved`` is what the directory ``before`` holds, and
    what is returned is the same of ``directory``. ``on_flushed`` is called whenever some of it has
    reached the disk. An OSError names the file that cannot be written.
    """
    n_records = sum(chunk.n_records for chunk in chunks)
    n_common = saved.n_common(chunks)
    bounds = [(start, stop) for start, stop in saved.bounds if stop <= n_common]
    new_start = bounds[-1][1] if bounds else 0
    while bounds and bounds[-1][1] - bounds[-1][0] <= n_records - new_start:
        new_start = bounds.pop()[0]
    for start, stop in bounds:
        name = segment_name(start, stop)
        link_file(before / name, directory / name)
    if new_start < n_records:
        bounds.append((new_start, n_records))
        path = directory / segment_name(new_start, n_records)
        _write_segment(path, chunks, new_start, on_flushed)
    return SavedRecords(bounds=tuple(bounds), chunks=_identities(chunks))


def read_records(
    directory: Path, bounds: Sequence[tuple[int, int]]
) -> tuple[tuple[Records, ...], SavedRecords]:
    """The buffer in one chunk, none when it is empty, read once into its arrays.

    Raises RuntimeError where a segment has the wrong length.
    """
    n_records = bounds[-1][1] if bounds else 0
    columns = {name: np.empty(n_records, dtype) for name, dtype in _COLUMNS.items()}
    for start, stop in bounds:
        path = directory / segment_name(start, stop)
        n_bytes, expected = path.stat().st_size, _RECORD_BYTES * (stop - start)
        if n_bytes != expected:
            raise RuntimeError(
                f"{path} must be {expected} bytes long, it is {n_bytes}; "
                "restore the graph from a backup or ingest it again"
            )
        with naming(path), path.open("rb") as file:
            for column in columns.values():
                file.readinto(column[start:stop].data)
    chunks = (Records(**columns),) if n_records else ()
    return chunks, SavedRecords(bounds=tuple(bounds), chunks=_identities(chunks))


def segment_name(start: int, stop: int) -> str:
    """Name of the segment with the records ``start .. stop - 1``."""
    return f"{start:011d}-{stop:011d}.records"


def _write_segment(
    path: Path, chunks: Sequence[Records], start: int, on_flushed: Callable[[], None]
) -> None:
    with naming(path), path.open("wb") as file:
        for name, dtype in _COLUMNS.items():
            for column in _from_record(chunks, name, start):
                write_flushed(file, np.ascontiguousarray(column, dtype=dtype).data, on_flushed)


def _from_record(chunks: Sequence[Records], name: str, start: int) -> Iterator[AnyArray]:
    """One column from record ``start`` on, chunk by chunk."""
    for chunk in chunks:
        if start < chunk.n_records:
            yield getattr(chunk, name)[start:]
        start = max(start - chunk.n_records, 0)


def _identities(chunks: Sequence[Records]) -> tuple[tuple[ArrayIdentity, int], ...]:
    return tuple((ArrayIdentity(chunk.columns), chunk.n_records) for chunk in chunks)
