"""Log lines of long-running processes: on stderr, in one format for our loggers and libraries.

A line is one JSON object, or text for people on a terminal. All of it passes `redacted` first, and
no value can begin a new line.
"""

import logging
import sys
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import structlog

from peewit.service.redaction import redacted
from peewit.service.settings import LogFormat, LogLevel
from peewit.service.tracing.spans import add_trace_id

_QUIET: Final = ("alembic", "asyncio", "distributed", "fsspec", "numba")
"""Libraries whose messages below a warning concern nobody here."""

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    10: "\\n",
    13: "\\r",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
_CONTROLS_OF_TRACEBACKS: Final = {code: _CONTROLS[code] for code in _CONTROLS if code != 10}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """How a process logs, to be handed to the processes that it starts.

    Format ``auto`` is text on a terminal and JSON elsewhere.
    """

    level: LogLevel = "error"
    log_format: LogFormat = "console"

    @property
    def is_json(self) -> bool:
        """Whether each line is a JSON object."""
        if self.log_format == "auto":
            return not sys.stderr.isatty()
        return self.log_format == "json"


_chosen = [LogChoice()]


def log_choice() -> LogChoice:
    """How this process logs."""
    return _chosen[0]


def configure_logging(level: LogLevel, log_format: LogFormat = "console") -> None:
    """Send what structlog and `logging` log from ``level`` on to stderr.

    JSON lines have ``timestamp``, ``level``, ``logger``, ``event``, the context variables bound by
    structlog, ``trace_id`` within a trace, and ``exception`` with its frames. Text is colored on a
    terminal. Warnings and uncaught exceptions are logged too.
    """
    choice = LogChoice(level=level, log_format=log_format)
    _chosen[0] = choice
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        add_trace_id,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # a process may be configured more than once
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(allow=[])],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_as_json() if choice.is_json else _as_text()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(choice.is_json)
    sys.excepthook = _log_uncaught if choice.is_json else sys.__excepthook__
    threading.excepthook = _log_uncaught_in_thread if choice.is_json else threading.__excepthook__


def _as_json() -> list[structlog.typing.Processor]:
    tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [
        structlog.processors.ExceptionRenderer(tracebacks),
        _without_secrets,
        structlog.processors.JSONRenderer(default=str),
    ]


def _as_text() -> list[structlog.typing.Processor]:
    return [
        structlog.processors.format_exc_info,
        _without_secrets,
        _on_one_line,
        structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        ),
    ]


def _without_secrets(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return {name: _redact(value) for name, value in event.items()}


def _redact(value: Any) -> Any:
    match value:
        case str():
            return redacted(value)
        case dict():
            return {name: _redact(each) for name, each in value.items()}
        case list() | tuple():
            return [_redact(each) for each in value]
        case None | bool() | int() | float():
            return value
        case _:
            return redacted(str(value))


def _on_one_line(
    _logger: Any, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape control characters, so that one message cannot pose as two; tracebacks keep lines."""
    return {
        name: value.translate(_CONTROLS_OF_TRACEBACKS if name == "exception" else _CONTROLS)
        if isinstance(value, str)
        else value
        for name, value in event.items()
    }


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    _log.critical("ended by an error", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(arguments: threading.ExceptHookArgs) -> None:
    error = arguments.exc_value
    name = None if arguments.thread is None else arguments.thread.name
    _log.critical("a thread ended by an error", thread=name, exc_info=error or True)
