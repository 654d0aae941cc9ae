"""Work divided by rows: the caller chooses who runs the tasks, which does not change results."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np

from peewit.solvers.arrays import Int64Array, IntArray

Parallel: TypeAlias = Callable[[Callable[[int], Any], Iterable[int]], Iterable[Any]]
"""How independent tasks are run: ``map``, or the ``map`` of a thread pool."""

_N_RANGES = 16
_LEAST_WORK = 1 << 17
_LEAST_SHARED = 1 << 20
_BLOCK_ROWS = 1 << 16
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowRanges:
    """Fixed ranges of rows with about equal numbers of entries."""

    cuts: Int64Array  # (n_ranges + 1,); range r is `cuts[r] .. cuts[r + 1] - 1`
    parallel: Parallel  # runs one task for each range

    @classmethod
    def of(cls, indptr: IntArray, parallel: Parallel) -> "RowRanges":
        """Ranges of CSR rows, the same for every ``parallel``; one if there is little work."""
        work = indptr.astype(np.float64) + np.arange(indptr.size)
        n_ranges = _N_RANGES if work[-1] >= _LEAST_WORK else 1
        cuts = np.searchsorted(work, np.linspace(0.0, work[-1], n_ranges + 1))
        cuts[0], cuts[-1] = 0, indptr.size - 1
        return cls(cuts=cuts.astype(np.int64), parallel=parallel)

    def run(self, task: Callable[[int, int], _T], work: float = np.inf) -> list[_T]:
        """Results of ``task(start, stop)`` for every range, in order.

        ``work`` is how many numbers the tasks read and write; small work is done by the caller, as
        handing it out takes longer.
        """
        cuts = self.cuts.tolist()
        run = self.parallel if work >= _LEAST_SHARED and len(cuts) > 2 else map
        return list(run(lambda r: task(cuts[r], cuts[r + 1]), range(len(cuts) - 1)))


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Slices of rows, where temporary arrays of all rows would take much memory."""
    for start in range(0, n_rows, _BLOCK_ROWS):
        yield slice(start, start + _BLOCK_ROWS)
