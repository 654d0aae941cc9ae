"""Progress of a task: phases that are timed and reported, and the stop between two of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from peewit.service.tasks.tasks_and_messages import Advanced
from peewit.solvers.iteration_loop import ProgressReport

REPORT_SECONDS: Final = 0.5
"""Progress within one phase is reported this often."""

Report = Callable[[Advanced], None]
Cancelled = Callable[[], bool]


class StoppedEarly(Exception):
    """The task was told to stop between two phases."""


class Reporter:
    """Progress reports, at most every `REPORT_SECONDS` within a phase.

    Attributes
    ----------
    stage : str or None
        The stage of the job that what follows belongs to.
    """

    def __init__(self, report: Report) -> None:
        self.stage: str | None = None
        self._report = report
        self._phase = ""
        self._last_at = 0.0

    def __call__(self, report: ProgressReport) -> None:
        """Report it, unless the same phase was reported a moment ago."""
        now = monotonic()
        if report.phase != self._phase or now - self._last_at >= REPORT_SECONDS:
            self._phase, self._last_at = report.phase, now
            self._report(Advanced(phase=report.phase, fraction=report.fraction, stage=self.stage))


class Phases:
    """Times the phases of a task, reports where it is and stops it between two phases.

    Attributes
    ----------
    seconds : dict
        What each phase took.
    iteration : Reporter
        Takes what models report after each step.
    """

    def __init__(self, report: Report, cancelled: Cancelled) -> None:
        self.seconds: dict[str, float] = {}
        self.iteration = Reporter(report)
        self._report = report
        self._cancelled = cancelled

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """One phase of the task, a stage that what models report is part of."""
        if self._cancelled():
            raise StoppedEarly
        self.iteration.stage = name
        self._report(Advanced(phase=name, stage=name))
        began = monotonic()
        yield
        self.seconds[name] = round(monotonic() - began, 6)
