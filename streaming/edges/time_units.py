"""Units of times of edges; needs the standard library alone."""

from typing import Final, Literal, TypeAlias

TimeUnit: TypeAlias = Literal["s", "ms", "us", "ns"]
"""What a number counts."""

SECOND: Final = 1_000_000
"""Microseconds."""

NEVER: Final = -(2**62)
"""A time, or the number of a stretch of time, before all others."""
