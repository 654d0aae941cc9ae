"""Forecast of a job's end, from its own pace and from the last equal job."""

from collections.abc import Callable, Mapping
from itertools import dropwhile
from time import monotonic
from typing import Any, Final

from peewit.service.jobs.job import Job, JobStatus
from peewit.service.jobs.queue import JobQueue
from peewit.service.tasks.tasks_and_messages import Advanced

_JOBS_LOOKED_AT: Final = 200
_LEAST_FRACTION: Final = 0.02
"""Of a phase; less of it tells no pace."""


def last_equal(
    queue: JobQueue, graph_id: str, kind: str, model: str | None, parameters: Mapping[str, Any]
) -> Job | None:
    """The last job of a graph that was asked the same and succeeded, of a number of recent ones."""
    page = queue.list(graph_id=graph_id, status=JobStatus.SUCCEEDED, limit=_JOBS_LOOKED_AT)
    equal = (
        job
        for job in page.jobs
        if (job.kind, job.model, job.parameters) == (kind, model, parameters)
    )
    return next(equal, None)


def seconds_by_stage(job: Job | None) -> dict[str, float]:
    """Seconds of each stage of a finished job, in order; empty where they are unknown."""
    taken = None if job is None or job.result is None else job.result.get("seconds")
    return dict(taken) if isinstance(taken, Mapping) else {}


class Forecast:
    """Forecast of the time that one attempt has left, from the last equal job if there is one."""

    def __init__(self, last: Job | None, *, clock: Callable[[], float] = monotonic) -> None:
        self._expected = seconds_by_stage(last)
        self._clock = clock
        self._stage: str | None = None
        self._phase: str | None = None
        self._stage_began = self._phase_began = clock()

    def seconds_left(self, advanced: Advanced) -> float | None:
        """Seconds until the job ends, estimated; None where nothing tells.

        Of the present stage the longer of two: what its phase needs at the pace so far, and what
        is left of the time that the stage took last. Of later stages what they took last.
        """
        now = self._clock()
        if advanced.stage != self._stage:
            self._stage, self._stage_began = advanced.stage, now
        if advanced.phase != self._phase:
            self._phase, self._phase_began = advanced.phase, now
        left = []
        if advanced.fraction is not None and advanced.fraction >= _LEAST_FRACTION:
            still = (1.0 - advanced.fraction) / advanced.fraction
            left.append((now - self._phase_began) * still)
        if self._stage in self._expected:
            left.append(max(self._expected[self._stage] - (now - self._stage_began), 0.0))
        if not left:
            return None
        from_here = dropwhile(lambda stage: stage != self._stage, self._expected)
        later = list(from_here)[1:]
        return max(left) + sum(self._expected[stage] for stage in later)
