"""Edge records in any order, merged: every pair once, sorted by its lower end, then the higher.

Records come in chunks that can be iterated again, so that callers need not join them, compute their
conductances or copy the surviving ones. Ranges of nodes, one after another, bound the memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from peewit.solvers.arrays import (
    AnyArray,
    Int64Array,
    IntArray,
    RealArray,
    checked_nodes,
    index_dtype,
    integer_ids,
)
from peewit.solvers.kernels.adjacency import count_records, fill_buckets, sort_buckets

MAX_RECORDS = 1 << 23
"""Records merged at a time, unless a few nodes have more."""

_MAX_BUCKETS = 1 << 11  # so many write positions, and one bucket's sort, stay in the second cache
_MAX_SHIFT = 16  # nodes are counted from the start of their bucket in 16 bits


class EdgeChunk(Protocol):
    """Some edge records; `peewit.streaming.sparsifier.settings_and_state.Records` is one."""

    @property
    def u(self) -> Any:
        """(n_records,) integers: one end."""

    @property
    def v(self) -> Any:
        """(n_records,) integers: the other end."""

    @property
    def weight(self) -> Any:
        """(n_records,) float32 or float64, as they arrived."""

    @property
    def keep_probability(self) -> Any:
        """(n_records,) divisors of the weights that give conductances; None for 1.

        0 marks a record that is not in the graph.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedEdges:
    """Edge records whose conductances are known: an EdgeChunk."""

    u: IntArray
    v: IntArray
    weight: RealArray
    keep_probability: None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buckets:
    """Number of records for each 2^shift consecutive nodes, by their lower ends.

    ``counts`` leaves out self-loops and dropped records.
    """

    n_nodes: int
    shift: int
    counts: Int64Array

    @classmethod
    def of_records(cls, chunks: Iterable[EdgeChunk], n_nodes: int) -> "Buckets":
        """Count the records, and check them.

        TypeError if ``u`` or ``v`` are not integers; ValueError for unequal lengths, an id outside
        [0, n_nodes), or a conductance that is not finite and > 0.
        """
        shift = min(max((n_nodes - 1) // _MAX_BUCKETS, 0).bit_length(), _MAX_SHIFT)
        counts = np.zeros(-(-n_nodes // (1 << shift)), dtype=np.int64)
        for chunk in chunks:
            if count_records(*_columns(chunk), n_nodes, shift, counts) >= 0:
                _refuse(chunk, n_nodes)
        return cls(n_nodes=n_nodes, shift=shift, counts=counts)

    @property
    def n_records(self) -> int:
        """Number of records counted."""
        return int(self.counts.sum())

    def first_node(self, bucket: int) -> int:
        """First node of a bucket; the number of nodes for the bucket after the last."""
        return min(bucket << self.shift, self.n_nodes)

    def ranges(self, max_records: int) -> Iterator[tuple[int, int]]:
        """Ranges ``first .. stop - 1`` of buckets that hold no more records, or are one bucket."""
        starts = row_starts(self.counts)
        first = 0
        while first < self.counts.size:
            fitting = np.searchsorted(starts, starts[first] + max_records, side="right") - 1
            stop = max(int(fitting), first + 1)
            yield first, stop
            first = stop


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergedEdges:
    """Merged edges of consecutive nodes, each by its lower end."""

    first: int  # number of the first node
    counts: Int64Array  # (n_range_nodes,) edges of each node to higher ones
    v: IntArray  # (n_edges,) higher ends, sorted for each node
    weight: RealArray  # (n_edges,) summed conductances

    @property
    def u(self) -> IntArray:
        """(n_edges,) lower ends, in the type of ``v``."""
        nodes = np.arange(self.first, self.first + self.counts.size, dtype=self.v.dtype)
        return np.repeat(nodes, self.counts)


def merged_ranges(
    chunks: Iterable[EdgeChunk],
    *,
    n_nodes: int,
    max_records: int = MAX_RECORDS,
    dtype: npt.DTypeLike = np.float64,
) -> Iterator[MergedEdges]:
    """Merged edges of all nodes, one range of nodes after another; each overwrites the last.

    ``chunks`` are iterated once, and once more for each range, and must be the same every time. A
    bucket with more than ``max_records`` is a range by itself. Sums run in float64, in the order of
    the records, and are kept as ``dtype``, float64 or float32. Raises as `Buckets.of_records`.

    Notes
    -----
    14 bytes (float32: 10) for each record of a range and 8 for each node of it, plus scratch for
    the largest bucket: as much again where a few nodes have most records.
    """
    if max_records < 1:
        raise ValueError(f"max_records must be at least 1, got {max_records}")
    buckets = Buckets.of_records(chunks, n_nodes)
    ranges = list(buckets.ranges(max_records))
    largest = max((int(buckets.counts[first:stop].sum()) for first, stop in ranges), default=0)
    v, weight = np.empty(largest, index_dtype(0, n_nodes)), np.empty(largest, dtype)
    for first, stop in ranges:
        counts = merge_into(chunks, buckets, first, stop, v, weight)
        n_edges = int(counts.sum())
        yield MergedEdges(
            first=buckets.first_node(first), counts=counts, v=v[:n_edges], weight=weight[:n_edges]
        )


def merge_into(
    chunks: Iterable[EdgeChunk],
    buckets: Buckets,
    first: int,
    stop: int,
    v: AnyArray,
    weight: AnyArray,
) -> Int64Array:
    """(n_range_nodes,) merged edges of the buckets ``first .. stop - 1``, into the caller's arrays.

    ``v`` and ``weight``, with room for all records, receive higher ends and summed conductances at
    their front; the rest is scratch. ``chunks`` are iterated once; ValueError if they are not those
    of ``buckets``.
    """
    starts = row_starts(buckets.counts[first:stop])
    cursor, offset = starts[:-1].copy(), np.empty(starts[-1], np.uint16)
    for chunk in chunks:
        columns = _columns(chunk)
        fits = fill_buckets(*columns, first, buckets.shift, cursor, starts[1:], offset, v, weight)
        if not fits:
            raise ValueError("chunks must hold the same records every time, got more than before")
    if not np.array_equal(cursor, starts[1:]):
        raise ValueError("chunks must hold the same records every time, got fewer than before")
    digit_bits = (max(buckets.n_nodes - 1, 1).bit_length() + 1) // 2
    counts = np.empty(buckets.first_node(stop) - buckets.first_node(first), np.int64)
    sort_buckets(starts, buckets.shift, digit_bits, offset, v, weight, counts)
    return counts


def row_starts(counts: IntArray) -> Int64Array:
    """(n_rows + 1,) position where each row begins, from the number of its entries."""
    starts = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _columns(chunk: EdgeChunk) -> tuple[IntArray, IntArray, RealArray, RealArray | None]:
    """Columns of a chunk as the kernels take them, copied only to change their type."""
    heads, tails = _kernel_ids("u", chunk.u), _kernel_ids("v", chunk.v)
    weights = _kernel_floats("weight", chunk.weight)
    if not heads.size == tails.size == weights.size:
        raise ValueError(
            "u, v and weight must have equal lengths, "
            f"got {heads.size}, {tails.size} and {weights.size}"
        )
    if chunk.keep_probability is None:
        return heads, tails, weights, None
    probability = _kernel_floats("keep_probability", chunk.keep_probability)
    if probability.size != weights.size:
        raise ValueError(
            f"keep_probability must be as long as weight, got {probability.size} and {weights.size}"
        )
    return heads, tails, weights, probability


def _kernel_ids(name: str, ids: npt.ArrayLike) -> IntArray:
    """Node ids as contiguous int32 or int64: the kernels are compiled for few types."""
    array = integer_ids(name, ids)
    wanted = np.int64 if array.dtype == np.int64 else np.int32
    return np.ascontiguousarray(array, dtype=wanted)


def _kernel_floats(name: str, values: npt.ArrayLike) -> RealArray:
    """Values as contiguous float32 or float64."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    wanted = np.float32 if array.dtype == np.float32 else np.float64
    return np.ascontiguousarray(array, dtype=wanted)


def _refuse(chunk: EdgeChunk, n_nodes: int) -> NoReturn:
    """Raise for the record of a chunk that breaks a rule."""
    checked_nodes("u", chunk.u, n_nodes)
    checked_nodes("v", chunk.v, n_nodes)
    weight = _kernel_floats("weight", chunk.weight)
    valid = np.isfinite(weight) & (weight > 0)
    if not valid.all():
        row = int(np.argmin(valid))
        raise ValueError(f"weight must be finite and > 0, got {weight[row]} in row {row}")
    probability = _kernel_floats("keep_probability", chunk.keep_probability)
    with np.errstate(all="ignore"):
        conductance = weight.astype(np.float64) / probability
    valid = np.isfinite(conductance) & (conductance > 0) | (probability == 0)
    row = int(np.argmin(valid))
    raise ValueError(
        "weight / keep_probability must be finite and > 0, "
        f"got {weight[row]} / {probability[row]} in row {row}"
    )
