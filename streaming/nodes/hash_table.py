"""In-memory map from 64-bit id hashes to dense ids, grown by doubling.

The loops are in ``kernels.node_table``; here are the room they need and the dtypes they expect.
"""

from typing import NamedTuple

import numpy as np

from peewit.solvers.arrays import Int32Array, Int64Array, UInt64Array
from peewit.streaming.kernels import node_table

_MAX_LOAD = 0.6
_MIN_BITS = 10


class MapResult(NamedTuple):
    """Result of ``HashTable.map``."""

    ids: Int32Array  # (n_endpoints,), undefined from ``n_mapped`` on
    added: Int64Array  # (n_added,), positions of the endpoints whose ids are new
    n_mapped: int  # endpoints mapped before it ended
    status: int  # ``kernels.node_table.DONE``, ``COLLISION`` or ``FULL``


class HashTable:
    """Hashes of the ids of one graph; dense ids are given in the order of insertion.

    16 bytes per slot, between 0.3 and 0.6 of the slots in use.
    """

    def __init__(self) -> None:
        self._bits = _MIN_BITS
        self._slots: UInt64Array = np.zeros(2 << self._bits, dtype=np.uint64)
        self.n_entries = 0

    def map(self, hashes: UInt64Array, fingerprints: UInt64Array, *, max_nodes: int) -> MapResult:
        """Dense ids of endpoints in order of appearance; unknown ones are added."""
        self.reserve(len(hashes))
        ids: Int32Array = np.empty(len(hashes), dtype=np.int32)
        added: Int64Array = np.empty(len(hashes), dtype=np.int64)
        status, n_added, n_mapped = node_table.map_rows(
            self._slots, self._shift, hashes, fingerprints, self.n_entries, max_nodes, ids, added
        )
        self.n_entries += n_added
        return MapResult(ids=ids, added=added[:n_added], n_mapped=n_mapped, status=status)

    def find(self, hashes: UInt64Array, fingerprints: UInt64Array) -> Int32Array:
        """Dense ids, -1 where unknown."""
        ids: Int32Array = np.empty(len(hashes), dtype=np.int32)
        node_table.find_rows(self._slots, self._shift, hashes, fingerprints, ids)
        return ids

    def remove(self, hashes: UInt64Array) -> None:
        """Remove the entries with these hashes, which must be there, each once."""
        node_table.remove_keys(self._slots, self._shift, hashes)
        self.n_entries -= len(hashes)

    def reserve(self, n_more: int) -> None:
        """Make room for ``n_more`` further entries."""
        bits = self._bits
        while self.n_entries + n_more > _MAX_LOAD * (1 << bits):
            bits += 1
        if bits > self._bits:
            larger: UInt64Array = np.zeros(2 << bits, dtype=np.uint64)
            node_table.move_slots(self._slots, larger, np.uint64(64 - bits))
            self._slots, self._bits = larger, bits

    @property
    def _shift(self) -> np.uint64:
        return np.uint64(64 - self._bits)
