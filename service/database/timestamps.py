"""Clock of the database, and timestamps as both databases keep them."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, DateTime, Dialect, Float, Text, TypeDecorator, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class Timestamp(TypeDecorator[datetime]):
    """An aware UTC datetime: timestamptz on PostgreSQL, ISO 8601 milliseconds on SQLite."""

    impl = DateTime(timezone=True).with_variant(Text(), "sqlite")
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """The stored form; text of equal width, so that SQLite orders times by text."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"times must carry a time zone, got {value!r}")
        if dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """The stored time in UTC."""
        del dialect  # what came tells its form
        if value is None:
            return None
        return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone(UTC)


class _ClockReading(FunctionElement[datetime]):
    type = Timestamp()
    name = "clock_reading"
    inherit_cache = True


@compiles(_ClockReading, "sqlite")
def _sqlite_clock(element: _ClockReading, compiler: SQLCompiler, **options: Any) -> str:
    (seconds,) = element.clauses
    shift = f"printf('%+.3f seconds', {compiler.process(seconds, **options)})"
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', 'now', {shift})"


@compiles(_ClockReading, "postgresql")
def _postgresql_clock(element: _ClockReading, compiler: SQLCompiler, **options: Any) -> str:
    (seconds,) = element.clauses
    return (
        f"(statement_timestamp() + make_interval(secs => {compiler.process(seconds, **options)}))"
    )


def now(plus_seconds: float = 0.0) -> ColumnElement[datetime]:
    """The database's clock when the statement starts, plus some seconds, as an SQL expression.

    Every time that two processes compare comes from here: their own clocks need not agree.
    """
    return _ClockReading(literal(float(plus_seconds), Float(53)))
