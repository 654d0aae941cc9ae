"""Forecast of a job's progress and end, from its own pace and the last equal job."""

from collections.abc import Callable, Mapping
from itertools import dropwhile, takewhile
from time import monotonic
from typing import Any, Final

from peewit.service.jobs.job import Job, JobStatus
from peewit.service.jobs.queue import JobQueue
from peewit.service.tasks.tasks_and_messages import Advanced

_JOBS_LOOKED_AT: Final = 200
_LEAST_FRACTION: Final = 0.02
"""Part of a phase below which it tells no pace."""

_PHASE_SHARE: Final = 0.75
"""Assumed part of a stage's rest that each phase takes, as the number of phases is unknown."""

_USUAL: Final[Mapping[str, float]] = {
    "loading": 1.0,
    "preparing": 3.0,
    "solving": 14.0,
    "tuning": 14.0,
    "refining": 14.0,
    "proving": 14.0,
    "writing": 1.0,
}
"""Relative seconds of stages where no equal job has told them."""


def last_equal(
    queue: JobQueue, graph_id: str, kind: str, model: str | None, parameters: Mapping[str, Any]
) -> Job | None:
    """The last of the recent jobs of a graph that succeeded with the same parameters."""
    page = queue.list(graph_id=graph_id, status=JobStatus.SUCCEEDED, limit=_JOBS_LOOKED_AT)
    equal = (
        job
        for job in page.jobs
        if (job.kind, job.model, job.parameters) == (kind, model, parameters)
    )
    return next(equal, None)


def seconds_by_stage(job: Job | None) -> dict[str, float]:
    """Seconds of each stage of a finished job, in order; empty if unknown."""
    taken = None if job is None or job.result is None else job.result.get("seconds")
    return dict(taken) if isinstance(taken, Mapping) else {}


class Forecast:
    """Forecast of one attempt, from its reports and the last equal job if there is one."""

    def __init__(self, last: Job | None, *, clock: Callable[[], float] = monotonic) -> None:
        self._expected = seconds_by_stage(last)
        self._clock = clock
        self._stage: str | None = None
        self._phase: str | None = None
        self._stage_began = self._phase_began = clock()
        self._fraction: float | None = None
        self._stage_done = self._done_before_phase = self._done = 0.0

    def take(self, advanced: Advanced) -> None:
        """Update the forecast with the attempt's progress."""
        is_new_stage = advanced.stage != self._stage
        if is_new_stage:
            self._stage, self._stage_began, self._stage_done = advanced.stage, self._clock(), 0.0
        if is_new_stage or advanced.phase != self._phase:
            self._phase, self._phase_began = advanced.phase, self._clock()
            self._done_before_phase = self._stage_done
        self._fraction = advanced.fraction
        self._advance()

    @property
    def fraction_done(self) -> float:
        """Estimated part of the whole job that is done, in [0, 1); it never falls.

        Stages are weighted by their seconds in the last equal job, or by usual ones. Within a stage
        each phase takes a fixed part of what earlier phases left.
        """
        return self._done

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the job ends; None if unknown.

        For the present stage, the longer of what its phase needs at the pace so far and what is
        left of the stage's last duration. For later stages, their last durations.
        """
        now = self._clock()
        left = []
        if self._fraction is not None and self._fraction >= _LEAST_FRACTION:
            still = (1.0 - self._fraction) / self._fraction
            left.append((now - self._phase_began) * still)
        if self._stage in self._expected:
            left.append(max(self._expected[self._stage] - (now - self._stage_began), 0.0))
        if not left:
            return None
        from_here = dropwhile(lambda stage: stage != self._stage, self._expected)
        later = list(from_here)[1:]
        return max(left) + sum(self._expected[stage] for stage in later)

    def _advance(self) -> None:
        begun, rest = self._done_before_phase, 1.0 - self._done_before_phase
        here = begun + rest * _PHASE_SHARE * (self._fraction or 0.0)
        self._stage_done = max(self._stage_done, here)
        before, share = self._stage_shares()
        self._done = max(self._done, before + share * self._stage_done)

    def _stage_shares(self) -> tuple[float, float]:
        """Parts of the job before this stage and in it; (0, 1) where the stage is unknown."""
        seconds = self._expected if self._stage in self._expected else _USUAL
        total = sum(seconds.values())
        if self._stage is None or self._stage not in seconds or not total > 0.0:
            return 0.0, 1.0
        before = sum(seconds[each] for each in takewhile(lambda s: s != self._stage, seconds))
        return before / total, seconds[self._stage] / total
