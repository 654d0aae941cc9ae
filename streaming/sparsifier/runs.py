"""Runs: which records of a buffer each file brought, so that a file can be taken out again.

The buffer keeps the order of arrival, so the records of a file stand together, whatever was thrown
away between them; those that a repair throws anew stand together behind them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from peewit.solvers.arrays import AnyArray, BoolArray, Int64Array, frozen


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """Numbers of records, in the order of the buffer."""

    keys: tuple[str, ...]  # digest of the file that brought each run
    counts: Int64Array  # (n_runs,), records of each run, > 0
    buckets: Int64Array  # (n_runs,), of graphs with a window; else 0

    @classmethod
    def of(
        cls,
        keys: Sequence[str],
        counts: Sequence[int] | Int64Array,
        buckets: Sequence[int] | Int64Array | None = None,
    ) -> "Runs":
        """Runs, without those that hold nothing."""
        held = np.asarray(counts, np.int64)
        places = np.flatnonzero(held)
        if places.size < held.size:
            keys = [keys[place] for place in places.tolist()]
        times = np.zeros_like(held) if buckets is None else np.asarray(buckets, np.int64)
        return cls(keys=tuple(keys), counts=frozen(held[places]), buckets=frozen(times[places]))

    @property
    def stored(self) -> dict[str, Any]:
        """Arguments with which `of` makes equal runs; without buckets where all are 0."""
        stored = {"keys": self.keys, "counts": self.counts.tolist()}
        return {**stored, "buckets": self.buckets.tolist()} if self.buckets.any() else stored

    @property
    def n_records(self) -> int:
        """Number of records of all runs."""
        return int(self.counts.sum())

    def grown(self, key: str, counts: Sequence[int], buckets: Sequence[int]) -> "Runs":
        """Runs with the records of some blocks of one file at the end, each block of one bucket."""
        return self.joined(Runs.of([key] * len(counts), counts, buckets))

    def joined(self, following: "Runs") -> "Runs":
        """Runs followed by those of the buffer behind this one; equal neighbors become one."""
        keys = (*self.keys, *following.keys)
        counts = np.concatenate([self.counts, following.counts])
        buckets = np.concatenate([self.buckets, following.buckets])
        is_new = np.ones(counts.size, bool)
        first = max(len(self.keys), 1)  # what is here is joined already
        for place in range(first, counts.size):
            is_new[place] = (keys[place], buckets[place]) != (keys[place - 1], buckets[place - 1])
        starts = np.flatnonzero(is_new)
        if not starts.size:
            return self
        return Runs(
            keys=tuple(keys[place] for place in starts.tolist()),
            counts=frozen(np.add.reduceat(counts, starts)),
            buckets=frozen(buckets[starts]),
        )

    def marks(self, is_marked: BoolArray, sizes: Sequence[int]) -> list[BoolArray]:
        """Masks of the records of marked runs, (n_runs,), for chunks of these sizes."""
        of_all = np.repeat(is_marked, self.counts)
        return np.split(of_all, np.cumsum(sizes)[:-1]) if sizes else []

    def kept(self, lowered: Sequence[AnyArray]) -> "Runs":
        """Runs of the records that stay, those not 0 in ``lowered``: (n_records,) of each chunk."""
        left = np.zeros_like(self.counts)
        stop = np.cumsum(self.counts)
        first = 0
        for chunk in lowered:
            if not chunk.size:
                continue
            run = int(np.searchsorted(stop, first, side="right"))
            last = int(np.searchsorted(stop, first + chunk.size - 1, side="right"))
            starts = np.maximum(stop[run : last + 1] - self.counts[run : last + 1] - first, 0)
            left[run : last + 1] += np.add.reduceat(chunk != 0, starts, dtype=np.int64)
            first += chunk.size
        return Runs.of(self.keys, left, self.buckets)


EMPTY_RUNS = Runs.of((), ())
"""Runs of a buffer without records."""
