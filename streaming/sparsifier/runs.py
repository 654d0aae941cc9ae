"""Runs: which records of a buffer each file brought, so that a file can be taken out again.

The buffer keeps the order of arrival, so the records of a file stand together, whatever was thrown
away between them; those that a repair has thrown anew stand together behind them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import AnyArray, Int64Array, frozen


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """Numbers of records, in the order of the buffer.

    Attributes
    ----------
    keys : tuple of str
        What tells each run from others: the digest of its file. Empty for records that came before
        runs were counted.
    counts : (n_runs,) int64
        Records of each run, > 0.
    """

    keys: tuple[str, ...]
    counts: Int64Array

    @classmethod
    def of(cls, keys: Sequence[str], counts: Sequence[int] | Int64Array) -> "Runs":
        """Runs without those that hold nothing."""
        held = np.asarray(counts, np.int64)
        kept = np.flatnonzero(held)
        if kept.size < held.size:
            keys = [keys[place] for place in kept.tolist()]
        return cls(keys=tuple(keys), counts=frozen(held[kept]))

    @property
    def n_records(self) -> int:
        """Records of all runs."""
        return int(self.counts.sum())

    def grown(self, key: str, n_records: int) -> "Runs":
        """With so many more records at the end, of a file that may be the last one."""
        if n_records == 0:
            return self
        if self.keys and self.keys[-1] == key:
            counts = self.counts.copy()
            counts[-1] += n_records
            return Runs(keys=self.keys, counts=frozen(counts))
        counts = np.append(self.counts, n_records)
        return Runs(keys=(*self.keys, key), counts=frozen(counts))

    def joined(self, following: "Runs") -> "Runs":
        """With the runs of a buffer that is put behind this one."""
        joined = self
        for key, count in zip(following.keys, following.counts.tolist(), strict=True):
            joined = joined.grown(key, count)
        return joined

    def places(self, key: str) -> list[slice]:
        """Where the records of a run stand in the buffer, which a repair puts behind others."""
        stop = np.cumsum(self.counts)
        return [
            slice(int(stop[place] - self.counts[place]), int(stop[place]))
            for place, each in enumerate(self.keys)
            if each == key
        ]

    def kept(self, lowered: Sequence[AnyArray]) -> "Runs":
        """What is left of every run where zeros stand for records that go.

        Parameters
        ----------
        lowered : sequence of (n_records,) arrays
            One for each chunk of the buffer; records of a number other than 0, or True, stay.
        """
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
        return Runs.of(self.keys, left)


EMPTY_RUNS = Runs.of((), ())
"""Of a buffer without records."""
