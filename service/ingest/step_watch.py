"""Step watch: tells work that takes long from work that stands still, from outside the process.

It runs in the renewer, which goes on while the process that it watches is stuck in a system call or
keeps its interpreter to itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import psutil

from peewit.service.jobs.ingest_steps import StepNow

LEAST_SECONDS: Final = 1.0
LEAST_SHARE: Final = 0.02
"""Of one processor; heartbeats and polls of a process that waits take a tenth of that."""


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A step, since when it is quiet, and the processor time of then (None: not looked at)."""

    graph_id: str | None
    source_id: str | None
    step: str
    file: str | None
    threads: frozenset[int]
    since: float
    quiet_since: float
    seconds_then: float | None = None


class StepWatch:
    """Steps of a process, and for how long each has been quiet.

    Progress is what the work itself tells: a step begins, a block was read, an iteration done, some
    mebibytes are on the disk. No heartbeat counts, as that goes on whatever the work does. Between
    two such reports the processor time of the work stands for it, since a factorisation can tell
    nothing until it ends: work that has taken a second of it, and a fiftieth of the time that has
    passed, since it last made progress is slow and not quiet. Work that neither tells anything nor
    computes is stuck, once that has lasted for ``PEEWIT_STALL_SECONDS``.

    Parameters
    ----------
    processor_seconds : callable
        User and system seconds of some threads of the process, of all where none is named.
    clock : callable
        Monotonic seconds, the same for the process and for its watch.
    """

    def __init__(
        self,
        processor_seconds: Callable[[frozenset[int]], float],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._processor_seconds = processor_seconds
        self._clock = clock
        self._steps: dict[str, _Watched] = {}

    def begin(self, key: str, *, threads: list[int], since: float, **values: Any) -> None:
        """Take up a step in place of the one of that key."""
        self._steps[key] = _Watched(
            **values, threads=frozenset(threads), since=since, quiet_since=since
        )

    def move_on(self, key: str) -> None:
        """Note progress of a step."""
        if (step := self._steps.get(key)) is not None:
            step.quiet_since, step.seconds_then = self._clock(), None

    def end(self, key: str) -> None:
        """Drop a step."""
        self._steps.pop(key, None)

    def look(self) -> list[StepNow]:
        """What is done now."""
        now = self._clock()
        return [
            StepNow(
                key=key,
                graph_id=step.graph_id,
                source_id=step.source_id,
                step=step.step,
                file=step.file,
                step_seconds=now - step.since,
                quiet_seconds=now - self._quiet_since(step, now),
            )
            for key, step in self._steps.items()
        ]

    def _quiet_since(self, step: _Watched, now: float) -> float:
        seconds = self._processor_seconds(step.threads)
        if step.seconds_then is None:
            step.seconds_then = seconds
        elif seconds - step.seconds_then >= max(
            LEAST_SECONDS, LEAST_SHARE * (now - step.quiet_since)
        ):
            step.quiet_since, step.seconds_then = now, seconds
        return step.quiet_since


def processor_seconds(pid: int, threads: frozenset[int]) -> float:
    """Seconds that threads of a process have computed, all where none is named; 0 once gone."""
    try:
        process = psutil.Process(pid)
        if threads:
            try:
                return sum(
                    each.user_time + each.system_time
                    for each in process.threads()
                    if each.id in threads
                )
            except psutil.AccessDenied:  # macOS tells only root: count them all
                pass
        times = process.cpu_times()
        return float(times.user + times.system)
    except psutil.NoSuchProcess:
        return 0.0
