"""Progress of a task: stages that are timed and reported, and the stop between two of them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from peewit.service.tasks.tasks_and_messages import Advanced
from peewit.solvers.iteration_loop import ProgressReport, Watch

REPORT_SECONDS: Final = 0.5
"""Shortest time between two reports within one phase."""

Report = Callable[[Advanced], None]
Cancelled = Callable[[], bool]


class StoppedEarly(Exception):
    """The task was told to stop between two stages."""


class Reporter:
    """Progress reports, at most every `REPORT_SECONDS` within a phase.

    ``seconds`` of each phase is by stage, up to the report of the next one.
    """

    def __init__(self, report: Report) -> None:
        self.seconds: dict[str, dict[str, float]] = defaultdict(dict)
        self._report = report
        self._stage: str | None = None
        self._phase = ""
        self._began = self._last_at = monotonic()

    def __call__(self, report: ProgressReport) -> None:
        """Report it, unless the same phase was reported a moment ago."""
        now = monotonic()
        if report.phase != self._phase or now - self._last_at >= REPORT_SECONDS:
            if report.phase != self._phase:
                self.turn_to(report.phase)
            self._last_at = now
            self._report(Advanced(phase=report.phase, fraction=report.fraction, stage=self._stage))

    def turn_to(self, phase: str = "", *, stage: str | None = None) -> None:
        """End the phase, and begin another of the same stage or of ``stage``."""
        now = monotonic()
        if self._stage is not None and self._phase:
            phases = self.seconds[self._stage]
            phases[self._phase] = round(phases.get(self._phase, 0.0) + now - self._began, 6)
        self._phase, self._began, self._stage = phase, now, stage or self._stage


class StageTimer:
    """Times and reports the stages of a task, and stops it between two of them.

    ``seconds`` is by stage, and so are ``passes`` over all edges; ``iteration`` takes what models
    report after each step; ``watch`` is both that and the question whether to stop.
    """

    def __init__(self, report: Report, cancelled: Cancelled) -> None:
        self.seconds: dict[str, float] = {}
        self.passes: Counter[str] = Counter()
        self.iteration = Reporter(report)
        self._report = report
        self._stage = ""
        self.watch = Watch(progress=self.iteration, cancelled=cancelled)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """One stage, that of what models report; raises `StoppedEarly` if cancelled."""
        if self.watch.is_cancelled():
            raise StoppedEarly
        self.iteration.turn_to(stage=name)
        self._stage = name
        self._report(Advanced(phase=name, stage=name))
        began = monotonic()
        yield
        self.iteration.turn_to()
        self.seconds[name] = round(monotonic() - began, 6)

    def count_passes(self, number: int) -> None:
        """Count passes over all edges that the stage has made."""
        self.passes[self._stage] += number
