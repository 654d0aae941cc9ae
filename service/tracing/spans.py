"""Spans for the rest of the service; each does nothing while tracing is off."""

import os
from collections.abc import Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from peewit.solvers.extras import how_to_install

if TYPE_CHECKING:
    from peewit.service.tracing.otlp import Tracing

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables that say where spans go; without either there are none."""

_log = structlog.get_logger(__name__)
_started: "list[Tracing]" = []


def start_tracing(role: str) -> None:
    """Trace from now on, where the environment names a collector; ``role`` is such as ``api``.

    Faults in the settings of traces are logged, and the service goes on without traces.
    """
    if _started or not any(map(os.environ.get, ENDPOINTS)):
        return
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    if os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return
    try:
        from peewit.service.tracing.otlp import Tracing  # noqa: PLC0415 - an extra

        _started.append(Tracing(role))
    except ModuleNotFoundError:
        _log.error("no traces", error=f"they need OpenTelemetry; {how_to_install('otel')}")
    except ValueError as error:
        _log.error("no traces", error=str(error))


def tracing() -> "Tracing | None":
    """The maker of spans; None while tracing is off."""
    return _started[0] if _started else None


def traceparent() -> str | None:
    """The present span as W3C Trace Context writes it, to be kept with the job that follows."""
    return _started[0].traceparent() if _started else None


def span(
    name: str, *, parent: str | None = None, since: datetime | None = None, **attributes: str | int
) -> AbstractContextManager[Any]:
    """A span around a block, whose ``set`` adds attributes; None while tracing is off.

    ``name`` is one of few: what is done, not with what. ``parent`` is a `traceparent`, by default
    the present span; ``since`` is by default now; attributes go below ``peewit.``.
    """
    if not _started:
        return nullcontext()
    return _started[0].span(name, parent=parent, since=since, attributes=attributes)


def note_span(name: str, began: datetime, ended: datetime) -> None:
    """Record a span that is over, below the present one."""
    if _started:
        _started[0].note(name, began, ended)


class Stages:
    """Spans of consecutive stages, below the span that was present at the start."""

    def __init__(self) -> None:
        self._tracing = tracing()
        self._place = None if self._tracing is None else self._tracing.place()
        self._stage: str | None = None
        self._span: Any = None

    def begin(self, stage: str) -> None:
        """End the stage before, unless it is the same, and begin one."""
        if self._tracing is None or stage == self._stage:
            return
        self.end()
        self._stage, self._span = stage, self._tracing.begin(stage, self._place)

    def end(self) -> None:
        """End the present stage."""
        if self._span is not None:
            self._span.end()
        self._stage = self._span = None


@contextmanager
def stages() -> Iterator[Stages]:
    """Stages of a block; the last one ends with it."""
    begun = Stages()
    try:
        yield begun
    finally:
        begun.end()


def add_trace_id(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """A processor of structlog: lines logged within a span carry the id of its trace."""
    if _started and (trace_id := _started[0].trace_id()) is not None:
        event["trace_id"] = trace_id
    return event
