"""Log lines of the processes that stay: on stderr, one format for our loggers and libraries."""

import logging
import sys
from typing import Final

import structlog

from service.settings import LogLevel

_QUIET: Final = ("alembic", "asyncio", "distributed", "fsspec", "numba")
"""Libraries whose news below a warning concern nobody here."""

_CONTROLS: Final = {
    code: ascii(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)
}
"""What would begin a line, or speak to the terminal, as it is written in Python."""


def configure_logging(level: LogLevel) -> None:
    """Send what structlog and `logging` log from ``level`` on to stderr.

    Colored on a terminal, plain elsewhere.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
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
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(allow=[])],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_controls,
                structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _without_controls(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """One line for each event but for its traceback: names of files come from other people."""
    return {
        name: value.translate(_CONTROLS)
        if isinstance(value, str) and name != "exception"
        else value
        for name, value in event.items()
    }
