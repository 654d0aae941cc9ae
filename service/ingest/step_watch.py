"""Step watch: tells slow work from stuck work, from outside the process.

It runs in the renewer, which goes on while the watched process hangs in a system call or holds its
interpreter's lock.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import psutil

from peewit.service.jobs.ingest_steps import StepNow

LEAST_SECONDS: Final = 1.0
LEAST_SHARE: Final = 0.02
"""Of one processor; heartbeats and polls of a waiting process take a tenth of that."""


@dataclass(slots=True, kw_only=True)
class _WatchedStep:
    """A step, since when it is quiet, and its processor time then (None: not looked at)."""

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

    Progress is what the work itself reports: a step begins, a block is read, an iteration done,
    some mebibytes are on the disk. Heartbeats do not count, as they go on regardless. Between
    reports processor time counts, since a factorization reports nothing until it ends: work that
    has used a second, and a fiftieth of the time since its last progress, is slow and not quiet.
    Work that neither reports nor computes for ``PEEWIT_STALL_SECONDS`` is stuck.

    ``processor_seconds`` gives user and system seconds of some threads, of all if none is named.
    ``clock`` is monotonic, and the same for the process and its watch.
    """

    def __init__(
        self,
        processor_seconds: Callable[[frozenset[int]], float],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._processor_seconds = processor_seconds
        self._clock = clock
        self._steps: dict[str, _WatchedStep] = {}

    def begin(self, key: str, *, threads: list[int], since: float, **values: Any) -> None:
        """Watch a step in place of the key's last one."""
        self._steps[key] = _WatchedStep(
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
        """The present steps."""
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

    def _quiet_since(self, step: _WatchedStep, now: float) -> float:
        seconds = self._processor_seconds(step.threads)
        if step.seconds_then is None:
            step.seconds_then = seconds
        elif seconds - step.seconds_then >= max(
            LEAST_SECONDS, LEAST_SHARE * (now - step.quiet_since)
        ):
            step.quiet_since, step.seconds_then = now, seconds
        return step.quiet_since


def processor_seconds(pid: int, threads: frozenset[int]) -> float:
    """Processor seconds of threads of a process, of all if none is named; 0 once gone."""
    try:
        process = psutil.Process(pid)
        if threads:
            try:
                return sum(
                    thread.user_time + thread.system_time
                    for thread in process.threads()
                    if thread.id in threads
                )
            except psutil.AccessDenied:  # macOS tells only root: count them all
                pass
        times = process.cpu_times()
        return float(times.user + times.system)
    except psutil.NoSuchProcess:
        return 0.0
