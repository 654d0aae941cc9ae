"""External ids as columns: how each kind is hashed, and the tail that no segment holds yet.

``StringIds`` and ``IntegerIds`` have the same methods; a ``NodeIndex`` holds one of them. The tail
is the ids that are not published yet.
"""

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import AnyArray, Int64Array, UInt64Array, frozen
from peewit.streaming.kernels.hashing import hash_integers, hash_strings
from peewit.streaming.kernels.node_table import gather_strings

_FIRST_ROOM = 1024
_NO_BYTES: AnyArray = frozen(np.empty(0, dtype=np.uint8))


class StringIds:
    """Ids that are strings: 64-bit hash and 32-bit fingerprint of their UTF-8 bytes."""

    def __init__(self, *, seed: int) -> None:
        self.arrow_type = pa.large_string()
        self.mapped_types = (pa.string(), pa.large_string())
        self.n_tail = 0
        self._seed = np.uint64(seed)
        self._offsets: Int64Array = np.zeros(_FIRST_ROOM, dtype=np.int64)
        self._data: AnyArray = np.empty(_FIRST_ROOM, dtype=np.uint8)

    def hash(
        self,
        ids: pa.Array,
        hashes: UInt64Array,
        fingerprints: UInt64Array,
        *,
        begin: int = 0,
        step: int = 1,
    ) -> None:
        """Fill every ``step``-th entry from ``begin`` on; ``ids`` hold no null."""
        offsets, data = _string_buffers(ids)
        with np.errstate(over="ignore"):  # uncompiled kernels: numpy warns where integers wrap
            hash_strings(offsets, data, self._seed, hashes, fingerprints, begin, step)

    def append(self, src: pa.Array, dst: pa.Array, added: Int64Array) -> None:
        """Append the strings at endpoints ``added`` to the tail (2 row: src, 2 row + 1: dst)."""
        src_offsets, src_data = _string_buffers(src)
        dst_offsets, dst_data = _string_buffers(dst)
        row, is_dst = added >> 1, (added & 1).astype(bool)
        lengths = np.where(is_dst, np.diff(dst_offsets)[row], np.diff(src_offsets)[row])
        n_tail = self.n_tail + len(added)
        n_bytes = int(self._offsets[self.n_tail]) + int(lengths.sum())
        self._offsets = _with_room(self._offsets, n_tail + 1)
        self._data = _with_room(self._data, n_bytes)
        out_offsets = self._offsets[self.n_tail : n_tail + 1]
        gather_strings(src_offsets, src_data, dst_offsets, dst_data, added, out_offsets, self._data)
        self.n_tail = n_tail

    def tail(self) -> pa.Array:
        """The tail, sharing memory: to be used before the next change."""
        n_bytes = int(self._offsets[self.n_tail])
        buffers = [
            None,
            pa.py_buffer(self._offsets[: self.n_tail + 1]),
            pa.py_buffer(self._data[:n_bytes]),
        ]
        return pa.Array.from_buffers(self.arrow_type, self.n_tail, buffers)

    def truncate(self, n_tail: int) -> None:
        """Keep the first ``n_tail`` strings of the tail."""
        self.n_tail = n_tail
        if n_tail == 0:  # after a publication: give the memory back
            self._offsets = np.zeros(_FIRST_ROOM, dtype=np.int64)
            self._data = np.empty(_FIRST_ROOM, dtype=np.uint8)


class IntegerIds:
    """Ids that are 64-bit integers: the hash is a bijection, so it needs no fingerprint."""

    def __init__(self, *, seed: int) -> None:
        self.arrow_type = pa.int64()
        self.mapped_types = (pa.int64(),)
        self.n_tail = 0
        self._seed = np.uint64(seed)
        self._values: Int64Array = np.empty(_FIRST_ROOM, dtype=np.int64)

    def hash(
        self,
        ids: pa.Array,
        hashes: UInt64Array,
        fingerprints: UInt64Array,
        *,
        begin: int = 0,
        step: int = 1,
    ) -> None:
        """Fill every ``step``-th entry from ``begin`` on; ``ids`` hold no null."""
        with np.errstate(over="ignore"):  # uncompiled kernels: numpy warns where integers wrap
            hash_integers(frozen(ids.to_numpy()), self._seed, hashes, begin, step)
        fingerprints[begin::step] = 0

    def append(self, src: pa.Array, dst: pa.Array, added: Int64Array) -> None:
        """Append the integers at endpoints ``added`` to the tail, as `StringIds` does."""
        row, is_dst = added >> 1, (added & 1).astype(bool)
        n_tail = self.n_tail + len(added)
        self._values = _with_room(self._values, n_tail)
        new = np.where(is_dst, dst.to_numpy()[row], src.to_numpy()[row])
        self._values[self.n_tail : n_tail] = new
        self.n_tail = n_tail

    def tail(self) -> pa.Array:
        """The tail, sharing memory: to be used before the next change."""
        return pa.array(self._values[: self.n_tail])

    def truncate(self, n_tail: int) -> None:
        """Keep the first ``n_tail`` integers of the tail."""
        self.n_tail = n_tail
        if n_tail == 0:
            self._values = np.empty(_FIRST_ROOM, dtype=np.int64)


IdColumn: TypeAlias = StringIds | IntegerIds
"""Ids of one kind: their hashes, and their tail."""


def _string_buffers(ids: pa.Array) -> tuple[Int64Array, AnyArray]:
    """Offsets and bytes of a string or large_string array, whatever its own offset."""
    if len(ids) == 0:
        return frozen(np.zeros(1, dtype=np.int64)), _NO_BYTES
    _, offset_buffer, data_buffer = ids.buffers()
    width = np.int64 if ids.type == pa.large_string() else np.int32
    offsets = np.frombuffer(offset_buffer, dtype=width)[ids.offset : ids.offset + len(ids) + 1]
    if data_buffer is None or data_buffer.size == 0:
        data = _NO_BYTES
    else:
        data = np.frombuffer(data_buffer, dtype=np.uint8)
    return frozen(offsets.astype(np.int64, copy=False)), frozen(data)


def _with_room(array: AnyArray, n_entries: int) -> AnyArray:
    """``array`` or a larger copy, at least doubled so that appending stays linear."""
    if n_entries <= len(array):
        return array
    larger = np.empty(max(n_entries, 2 * len(array)), dtype=array.dtype)
    larger[: len(array)] = array
    return larger
