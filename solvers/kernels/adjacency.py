"""Loops that turn edge records into sorted, merged rows, and those into a symmetric CSR matrix.

Everything is counting: records go to buckets of neighboring rows, each bucket (small enough for the
cache) is sorted by stable counting passes, and parallel records are summed in the order they came
in. Results do not depend on threads, nor times on the order of records, but for caches.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True, inline="always")
def conductance_of(weight: Any, keep_probability: Any, record: int) -> Any:
    """Conductance in float64: the weight, divided by the probability if there is one."""
    if keep_probability is None:
        return np.float64(weight[record])
    return np.float64(weight[record]) / np.float64(keep_probability[record])  # (B14): a / p


@njit(cache=True, nogil=True, inline="always")
def is_gone(keep_probability: Any, record: int) -> Any:
    """Whether the record is marked as dropped, by a probability of 0."""
    if keep_probability is None:
        return False
    return keep_probability[record] == 0.0


@njit(cache=True, nogil=True)
def count_records(
    u: Any, v: Any, weight: Any, keep_probability: Any, n_nodes: int, shift: int, counts: Any
) -> int:
    """Add the records to ``counts`` by bucket: 2^shift nodes, which hold the lower end.

    Self-loops and dropped records do not count. Stops at the first record with an end outside [0,
    n_nodes) or a conductance that is not finite and > 0, and returns it; -1 if there is none.
    """
    for record in range(u.size):
        i = u[record]
        j = v[record]
        if not (0 <= i < n_nodes and 0 <= j < n_nodes):
            return record
        if is_gone(keep_probability, record):
            continue
        conductance = conductance_of(weight, keep_probability, record)
        if not (conductance > 0.0 and conductance < np.inf):
            return record
        if i != j:
            counts[min(i, j) >> shift] += 1
    return -1


@njit(cache=True, nogil=True)
def fill_buckets(
    u: Any,
    v: Any,
    weight: Any,
    keep_probability: Any,
    first: int,
    shift: int,
    cursor: Any,
    limit: Any,
    offset: Any,
    neighbor: Any,
    value: Any,
) -> bool:
    """Put the records of consecutive buckets into them, from ``first`` on, one bucket a cursor.

    Bucket ``first + b`` is filled from ``cursor[b]``, which advances, up to ``limit[b]``. Fills
    ``offset`` (the lower end within its bucket), ``neighbor`` (the higher end) and ``value`` (the
    conductance). Stops and returns False if a bucket overflows: the records are not those that were
    counted.
    """
    mask = (1 << shift) - 1
    for record in range(u.size):
        low = np.int64(min(u[record], v[record]))
        high = max(u[record], v[record])
        bucket = (low >> shift) - first
        if not 0 <= bucket < cursor.size or low == high or is_gone(keep_probability, record):
            continue
        slot = cursor[bucket]  # a counting sort by the bits above shift
        if slot >= limit[bucket]:
            return False
        cursor[bucket] = slot + 1
        offset[slot] = low & mask
        neighbor[slot] = high
        value[slot] = conductance_of(weight, keep_probability, record)
    return True


@njit(cache=True, nogil=True, inline="always")
def _to_positions(counts: Any) -> None:
    """Turn counts into the positions where each key begins."""
    position = 0
    for key in range(counts.size):
        count = counts[key]
        counts[key] = position
        position += count


@njit(cache=True, nogil=True)
def sort_buckets(
    bucket_start: Any, shift: int, digit_bits: int, offset: Any, neighbor: Any, value: Any, out: Any
) -> int:
    """Sort every bucket by row, then neighbor, and merge equal pairs; all arrays change.

    Three stable counting passes per bucket: the two digits of the neighbor, then the row. Equal
    pairs are summed in float64 in the order of the records and rounded once, when stored. Merged
    edges move to the front of ``neighbor`` and ``value``; ``out`` (n_rows,) receives the number of
    each row. Returns their number. Allocates scratch for the largest bucket.
    """
    n_rows = out.size
    n_buckets = bucket_start.size - 1
    largest = 0
    for bucket in range(n_buckets):
        largest = max(largest, bucket_start[bucket + 1] - bucket_start[bucket])
    other_offset = np.empty(largest, offset.dtype)
    other_neighbor = np.empty(largest, neighbor.dtype)
    other_value = np.empty(largest, value.dtype)
    low_digit = np.empty(1 << digit_bits, np.int64)
    high_digit = np.empty(1 << digit_bits, np.int64)
    row_end = np.empty(1 << shift, np.int64)
    mask = (1 << digit_bits) - 1
    n_kept = 0
    for bucket in range(n_buckets):
        start = bucket_start[bucket]
        stop = bucket_start[bucket + 1]
        first_row = bucket << shift
        n_bucket_rows = min(1 << shift, n_rows - first_row)
        if start == stop:
            out[first_row : first_row + n_bucket_rows] = 0
            continue
        low_digit[:] = 0
        high_digit[:] = 0
        row_end[:] = 0
        # one reading counts the keys of all three passes, which no pass changes
        for entry in range(start, stop):
            low_digit[neighbor[entry] & mask] += 1
            high_digit[neighbor[entry] >> digit_bits] += 1
            row_end[offset[entry]] += 1
        _to_positions(low_digit)
        _to_positions(high_digit)
        _to_positions(row_end)
        # by the low digit of the neighbor, into scratch
        for entry in range(start, stop):
            key = neighbor[entry] & mask
            slot = low_digit[key]
            low_digit[key] = slot + 1
            other_offset[slot] = offset[entry]
            other_neighbor[slot] = neighbor[entry]
            other_value[slot] = value[entry]
        # by the high digit, back; order among equals is kept, so neighbors are sorted now
        for entry in range(stop - start):
            key = other_neighbor[entry] >> digit_bits
            slot = start + high_digit[key]
            high_digit[key] += 1
            offset[slot] = other_offset[entry]
            neighbor[slot] = other_neighbor[entry]
            value[slot] = other_value[entry]
        # by the row; `row_end` moves from where each row begins to where it ends
        for entry in range(start, stop):
            key = np.int64(offset[entry])
            slot = row_end[key]
            row_end[key] = slot + 1
            other_neighbor[slot] = neighbor[entry]
            other_value[slot] = value[entry]
        entry = 0
        for row in range(n_bucket_rows):
            n_before = n_kept
            # (A1): parallel records are one edge
            while entry < row_end[row]:
                high = other_neighbor[entry]
                total = np.float64(other_value[entry])
                entry += 1
                while entry < row_end[row] and other_neighbor[entry] == high:
                    total += np.float64(other_value[entry])
                    entry += 1
                neighbor[n_kept] = high
                value[n_kept] = total
                n_kept += 1
            out[first_row + row] = n_kept - n_before
    return n_kept


@njit(cache=True, nogil=True)
def spread_rows(upper_count: Any, indptr: Any, indices: Any, weight: Any) -> None:
    """Move packed rows of the upper triangle to their places in the symmetric matrix.

    On entry the first entries of ``indices`` and ``weight`` hold the upper triangle, row after row
    and ``upper_count`` per row. Fills ``indptr`` (n_nodes + 1,) and leaves the lower half of every
    row free, before the upper one. In place: rows only move up, so the last one moves first.
    """
    n_nodes = upper_count.size
    indptr[:] = 0
    n_upper = 0
    for row in range(n_nodes):
        for entry in range(n_upper, n_upper + upper_count[row]):
            indptr[indices[entry] + 1] += 1
        n_upper += upper_count[row]
    for row in range(n_nodes):
        indptr[row + 1] += indptr[row] + upper_count[row]
    source = n_upper
    for row in range(n_nodes - 1, -1, -1):
        target = indptr[row + 1]
        if target == source:
            break  # nothing before this row moves
        for _ in range(upper_count[row]):
            source -= 1
            target -= 1
            indices[target] = indices[source]
            weight[target] = weight[source]


@njit(cache=True, nogil=True)
def mirror_rows(indptr: Any, cursor: Any, indices: Any, weight: Any) -> None:
    """Fill the lower half of every row that `spread_rows` left free.

    ``cursor`` must start as ``indptr[:-1]`` and is changed. Rows are taken in order, so lower
    halves come out sorted, and that of a row is full when its turn comes.
    """
    for row in range(cursor.size):
        for entry in range(cursor[row], indptr[row + 1]):
            other = indices[entry]
            slot = cursor[other]
            cursor[other] = slot + 1
            indices[slot] = row
            weight[slot] = weight[entry]


@njit(cache=True, nogil=True)
def count_sorted(
    u: Any, v: Any, weight: Any, n_nodes: int, last: Any, lower_count: Any, upper_count: Any
) -> int:
    """Add edges ``u < v`` to the counts of their rows in the two triangles.

    ``last`` (2,) holds the pair before the first edge and then the last pair. Stops at the first
    edge that is out of order, has an end outside the range or a weight that is not finite and > 0,
    and returns it; -1 if there is none.
    """
    last_u, last_v = last
    for edge in range(u.size):
        i = u[edge]
        j = v[edge]
        in_range = 0 <= i < j < n_nodes
        in_order = i > last_u or (i == last_u and j > last_v)
        if not (in_range and in_order and weight[edge] > 0.0 and weight[edge] < np.inf):
            return edge
        upper_count[i] += 1
        lower_count[j] += 1
        last_u, last_v = i, j
    last[0] = last_u
    last[1] = last_v
    return -1


@njit(cache=True, nogil=True)
def place_sorted(
    u: Any, v: Any, weight: Any, lower_cursor: Any, upper_cursor: Any, indices: Any, out: Any
) -> None:
    """Write sorted edges to both triangles of a CSR matrix, at the cursors, which advance.

    Fills ``indices`` and ``out``; sorted edges leave every row sorted.
    """
    for edge in range(u.size):
        i = u[edge]
        j = v[edge]
        slot = upper_cursor[i]
        upper_cursor[i] = slot + 1
        indices[slot] = j
        out[slot] = weight[edge]
        slot = lower_cursor[j]
        lower_cursor[j] = slot + 1
        indices[slot] = i
        out[slot] = weight[edge]


@njit(cache=True, nogil=True)
def label_components(indptr: Any, indices: Any, queue: Any, component: Any) -> int:
    """Fill ``component`` (n_nodes,) with the connected components; returns their number.

    They are numbered by their smallest nodes. Breadth first, with ``queue`` (n_nodes,) as scratch;
    ends as soon as every node has a number, long before every edge of a well-connected graph.
    """
    n_nodes = component.size
    component[:] = -1
    n_components = 0
    n_reached = 0
    for root in range(n_nodes):
        if component[root] >= 0:
            continue
        component[root] = n_components
        queue[n_reached] = root
        head = n_reached
        n_reached += 1
        while head < n_reached:
            if n_reached == n_nodes:  # edges not seen yet join numbered nodes
                return n_components + 1
            row = queue[head]
            head += 1
            for entry in range(indptr[row], indptr[row + 1]):
                other = indices[entry]
                if component[other] < 0:
                    component[other] = n_components
                    queue[n_reached] = other
                    n_reached += 1
        n_components += 1
    return n_components


@njit(cache=True, nogil=True)
def row_sums(indptr: Any, data: Any, out: Any) -> None:
    """Fill ``out`` with the sums of the CSR rows, in float64 and in the order stored."""
    for row in range(out.size):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += np.float64(data[entry])
        out[row] = total
