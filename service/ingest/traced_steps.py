"""Spans of a pass of ingest: its steps below it, and the pushes that it takes in linked with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from peewit.service.inbox.push_log import PushLog
from peewit.service.tracing.spans import Stages, span, stages, tracing
from peewit.streaming.steps import Step, Steps

_MAX_LINKS: Final = 100
"""Requests whose pushes a pass is linked with in a trace."""


class TracedSteps(Steps):
    """Steps that are also spans while a pass is traced.

    Parameters
    ----------
    steps : Steps
        Who else is told.
    """

    def __init__(self, steps: Steps) -> None:
        self._stages: Stages | None = None
        self._steps = steps

    def begin(self, step: Step, path: str | None = None) -> None:
        """Hand it on; the file is named in no span."""
        self._steps.begin(step, path)
        if self._stages is not None:
            self._stages.begin(step)

    def move_on(self) -> None:
        """Hand it on."""
        self._steps.move_on()

    @contextmanager
    def traced(self, pushes: PushLog, graph_id: str) -> Iterator[Any]:
        """A span of a pass, below the push that waits for longest; None while tracing is off."""
        if tracing() is None:
            yield None
            return
        led_to = pushes.traceparents(graph_id, limit=_MAX_LINKS)
        first = led_to[0] if led_to else None
        with (
            span("ingest pass", parent=first, links=led_to[1:], graph_id=graph_id) as opened,
            stages() as begun,
        ):
            self._stages = begun
            try:
                yield opened
            finally:
                self._stages = None
