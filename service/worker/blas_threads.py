"""Threads of the BLAS: as many as there are processors that nobody else keeps busy.

The threads of a dense product wait for one another by spinning. Where other processes take the
processors, each waits for those that got none, and two threads need up to twice as long as one and
two to four times its processor time. Threads of `peewit.solvers.row_ranges` sleep while they wait,
and need no such care.
"""

import os
from dataclasses import dataclass
from time import monotonic
from typing import Final, Self

import psutil
from threadpoolctl import ThreadpoolController

_LEAST_SECONDS: Final = 0.2
"""Processor times are counted in hundredths of a second; a shorter while tells too little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProcessorTimes:
    """Seconds, since some moment, of the clock, of all processors in use, and of this process."""

    clock: float
    used: float
    own: float

    @classmethod
    def now(cls) -> Self:
        machine, own = psutil.cpu_times(), psutil.Process().cpu_times()
        # guests are counted as users already; what a host steals is not there for us
        kinds = ("user", "nice", "system", "irq", "softirq", "steal")
        used = sum(getattr(machine, kind, 0.0) for kind in kinds)
        return cls(clock=monotonic(), used=used, own=own.user + own.system)


class BlasThreads:
    """Keeps the threads of this process's BLAS to the processors that are free.

    Parameters
    ----------
    n_threads : int
        The most there may be.
    """

    def __init__(self, n_threads: int) -> None:
        self._most = n_threads
        self._seen = _ProcessorTimes.now()
        self._libraries = ThreadpoolController().select(user_api="blas")
        self._set(n_threads)

    @property
    def n_threads(self) -> int:
        """How many there are."""
        return self._now

    def begin(self) -> None:
        """Take notice of libraries loaded since, and adjust."""
        self._libraries = ThreadpoolController().select(user_api="blas")
        self._set(self._now)
        self.adjust()

    def adjust(self) -> None:
        """Set their number by what others have used since it was adjusted last.

        Only where no product is under way.
        """
        now, before = _ProcessorTimes.now(), self._seen
        seconds = now.clock - before.clock
        if seconds < _LEAST_SECONDS:
            return
        self._seen = now
        others = (now.used - before.used) - (now.own - before.own)
        n_threads = threads_beside(others / seconds, self._most, os.cpu_count() or 1)
        if n_threads != self._now:
            self._set(n_threads)

    def _set(self, n_threads: int) -> None:
        self._now = n_threads
        for library in self._libraries.lib_controllers:
            library.set_num_threads(n_threads)


def threads_beside(n_taken: float, n_most: int, n_processors: int) -> int:
    """From 1 to ``n_most`` threads, where others keep ``n_taken`` processors busy."""
    return max(1, min(n_most, round(n_processors - n_taken)))
