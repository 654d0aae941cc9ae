"""Open-addressing hash table from 64-bit hashes to dense ids, all slots in one array.

Slot ``s`` is ``slots[2 s]`` (the hash) and ``slots[2 s + 1]`` (fingerprint in the upper half, dense
id + 1 in the lower; 0 is an empty slot), so that a probe touches one cache line. The home slot is
the upper bits of the hash, ``hash >> shift``: slot order is nearly hash order, and growing reads
and writes memory in sequence. A taken slot sends a key to the next one (linear probing).
"""

import numpy as np

from peewit.solvers.arrays import AnyArray, Int32Array, Int64Array, UInt64Array
from peewit.solvers.kernels.compilation import njit

DONE, COLLISION, FULL = 0, 1, 2
"""How ``map_rows`` ends: all rows mapped, two ids share a hash, ``max_nodes`` would be passed."""

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_HIGH_HALF = np.uint64(0xFFFFFFFF00000000)
_LOW_HALF = np.uint64(0x00000000FFFFFFFF)
_LOOKAHEAD = 256  # endpoints whose slots are fetched together: memory latencies overlap


@njit(cache=True, nogil=True, inline="always")
def _find(slots: UInt64Array, shift: np.uint64, key: np.uint64) -> np.uint64:
    """Position in ``slots`` of the key, or of the empty slot where it belongs."""
    last = np.uint64(len(slots)) - _ONE
    at = (key >> shift) * _TWO
    while slots[at + _ONE] != _ZERO and slots[at] != key:
        at = (at + _TWO) & last
    return at


@njit(cache=True, nogil=True)
def map_rows(
    slots: UInt64Array,
    shift: np.uint64,
    hashes: UInt64Array,
    fingerprints: UInt64Array,
    n_nodes: int,
    max_nodes: int,
    ids: Int32Array,
    added: Int64Array,
) -> tuple[int, int, int]:
    """Dense ids of endpoints; unknown ones get the next free ids in order of appearance.

    Parameters
    ----------
    slots, shift : (2 n_slots,) uint64, uint64
        The table; must have room for ``len(hashes)`` more entries.
    hashes, fingerprints : (n_endpoints,) uint64
        Of the endpoints, in order of appearance.
    n_nodes, max_nodes : int
        Ids given so far, and how many there may be.
    ids : (n_endpoints,) int32, filled
        Dense ids.
    added : (n_endpoints,) int64, filled
        Positions of the endpoints that were new, the first ``n_added`` entries.

    Returns
    -------
    status, n_added, n_mapped : int
        DONE, COLLISION or FULL; new ids; endpoints mapped before it ended.
    """
    n_endpoints = len(hashes)
    n_added = 0
    seen_key = np.empty(_LOOKAHEAD, dtype=np.uint64)
    seen_entry = np.empty(_LOOKAHEAD, dtype=np.uint64)
    for start in range(0, n_endpoints, _LOOKAHEAD):
        stop = min(start + _LOOKAHEAD, n_endpoints)
        for position in range(start, stop):
            at = (hashes[position] >> shift) * _TWO
            seen_key[position - start] = slots[at]
            seen_entry[position - start] = slots[at + _ONE]
        for position in range(start, stop):
            key = hashes[position]
            entry = seen_entry[position - start]
            # what was fetched may be out of date, or of another key: look again
            if entry == _ZERO or seen_key[position - start] != key:
                at = _find(slots, shift, key)
                entry = slots[at + _ONE]
                if entry == _ZERO:
                    if n_nodes + n_added >= max_nodes:
                        return FULL, n_added, position
                    entry = fingerprints[position] | np.uint64(n_nodes + n_added + 1)
                    slots[at] = key
                    slots[at + _ONE] = entry
                    added[n_added] = position
                    n_added += 1
            if (entry ^ fingerprints[position]) & _HIGH_HALF != _ZERO:
                return COLLISION, n_added, position
            ids[position] = np.int64(entry & _LOW_HALF) - 1
    return DONE, n_added, n_endpoints


@njit(cache=True, nogil=True)
def find_rows(
    slots: UInt64Array,
    shift: np.uint64,
    hashes: UInt64Array,
    fingerprints: UInt64Array,
    ids: Int32Array,
) -> None:
    """Fill ``ids`` with the dense ids of known endpoints, -1 for others; changes nothing else.

    Arguments are as of `map_rows`.
    """
    for position in range(len(hashes)):
        entry = slots[_find(slots, shift, hashes[position]) + _ONE]
        if entry != _ZERO and (entry ^ fingerprints[position]) & _HIGH_HALF == _ZERO:
            ids[position] = np.int64(entry & _LOW_HALF) - 1
        else:
            ids[position] = -1


@njit(cache=True, nogil=True)
def move_slots(slots: UInt64Array, larger: UInt64Array, larger_shift: np.uint64) -> None:
    """Copy every entry of ``slots`` into the empty table ``larger``, nearly in sequence."""
    for at in range(0, len(slots), 2):
        if slots[at + 1] != _ZERO:
            to = _find(larger, larger_shift, slots[at])
            larger[to] = slots[at]
            larger[to + _ONE] = slots[at + 1]


@njit(cache=True, nogil=True)
def remove_keys(slots: UInt64Array, shift: np.uint64, hashes: UInt64Array) -> None:
    """Remove the entries with these hashes, which must be there, and close the gaps they leave."""
    size = np.uint64(len(slots))
    last = size - _ONE
    for position in range(len(hashes)):
        # Knuth, The art of computer programming, volume 3, section 6.4, Algorithm R
        hole = _find(slots, shift, hashes[position])
        at = (hole + _TWO) & last
        while slots[at + _ONE] != _ZERO:
            home = (slots[at] >> shift) * _TWO
            # The entry may fill the hole if its home does not lie between the hole and itself.
            if ((at + size - home) & last) >= ((at + size - hole) & last):
                slots[hole] = slots[at]
                slots[hole + _ONE] = slots[at + _ONE]
                hole = at
            at = (at + _TWO) & last
        slots[hole] = _ZERO
        slots[hole + _ONE] = _ZERO


@njit(cache=True, nogil=True)
def gather_strings(
    src_offsets: Int64Array,
    src_data: AnyArray,
    dst_offsets: Int64Array,
    dst_data: AnyArray,
    added: Int64Array,
    out_offsets: Int64Array,
    out_data: AnyArray,
) -> None:
    """Append the strings at the endpoints ``added``, in that order, behind ``out_offsets[0]``.

    Endpoint ``2 row`` is a string of src, endpoint ``2 row + 1`` one of dst.

    Parameters
    ----------
    src_offsets, dst_offsets : (n_rows + 1,) int64
        Where each string begins and ends.
    src_data, dst_data : (n_bytes,) uint8
        Their bytes.
    added : (n_added,) int64
        Endpoints.
    out_offsets : (n_added + 1,) int64, filled but for its first entry
        Where each string begins and ends in ``out_data``.
    out_data : (at least the last offset,) uint8, filled
        The bytes.
    """
    to = out_offsets[0]
    for position in range(len(added)):
        row = added[position] >> 1
        if added[position] & 1:
            for at in range(dst_offsets[row], dst_offsets[row + 1]):
                out_data[to] = dst_data[at]
                to += 1
        else:
            for at in range(src_offsets[row], src_offsets[row + 1]):
                out_data[to] = src_data[at]
                to += 1
        out_offsets[position + 1] = to
