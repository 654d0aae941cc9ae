"""Windows: a graph of the edges of the last days, by when they were or by when they arrived.

Time is cut into buckets of equal width. An edge lives until the whole bucket of its time lies
farther back than the window is long, counted from the watermark: the latest time of the files in
the graph. The horizon, the first bucket that lives, moves at file boundaries only, so that equal
files in equal order give equal graphs.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from peewit.solvers.arguments import BadArgument, require_one_of
from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.time_units import NEVER, SECOND, TimeUnit

WindowBy: TypeAlias = Literal["time", "arrival"]
"""What the window looks at: a column of the edges, or when their file was listed or pushed."""

DEFAULT_BUCKETS: Final = 30
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_BUCKETS: Final = 4096
_GREATEST: Final = 2**62 // SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which edges live; all lengths are in seconds.

    Raises ``BadArgument`` where a field breaks its rule.
    """

    length: float  # that an edge lives, at least; at most a bucket more
    by: WindowBy = "time"
    width: float  # of a bucket, of which edges leave together
    allowed_ahead: float  # of watermark and arrival; one wrong time would end all other edges
    time_unit: TimeUnit | None = None  # of times that are numbers; None: seconds of our days

    def __post_init__(self) -> None:
        for name in ("length", "width"):
            value = getattr(self, name)
            if not 1e-3 <= value <= _GREATEST:
                rule = f"must lie in 0.001 to {_GREATEST} seconds, got {value}"
                raise BadArgument(f"window.{name}", rule)
        if not self.width <= self.length <= _MOST_BUCKETS * self.width:
            most = _MOST_BUCKETS * self.width
            rule = f"must be 1 to {_MOST_BUCKETS} buckets: {self.width:g} to {most:g} seconds"
            raise BadArgument("window.length", f"{rule}, got {self.length:g}")
        if not 0.0 <= self.allowed_ahead <= _GREATEST:
            rule = f"must lie in 0 to {_GREATEST} seconds, got {self.allowed_ahead}"
            raise BadArgument("window.allowed_ahead", rule)
        require_one_of("window.by", self.by, get_args(WindowBy))
        if self.time_unit is not None:
            require_one_of("window.time_unit", self.time_unit, get_args(TimeUnit))

    @classmethod
    def of(
        cls,
        length: float,
        *,
        by: WindowBy = "time",
        buckets: int = DEFAULT_BUCKETS,
        allowed_ahead: float | None = None,
        time_unit: TimeUnit | None = None,
    ) -> "Window":
        """Window of a number of buckets; by default a time may lie one bucket ahead."""
        if not 1 <= buckets <= _MOST_BUCKETS:
            raise BadArgument("window.buckets", f"must be 1 to {_MOST_BUCKETS}, got {buckets}")
        width = length / buckets
        ahead = width if allowed_ahead is None else allowed_ahead
        return cls(length=length, by=by, width=width, allowed_ahead=ahead, time_unit=time_unit)

    def require_deletions(self, deletions: Deletions) -> None:
        """Raise BadArgument unless edges can leave a graph of these deletions."""
        if deletions != "exact":
            raise BadArgument(
                "deletions",
                f"must be 'exact' in a graph with a window, got {deletions!r}: edges leave by the "
                "log that exact ones keep; leave deletions out, and a window makes them exact",
            )

    def bucket(self, time: int) -> int:
        """Number of the bucket of a time in microseconds since 1970."""
        return time // whole(self.width)

    def horizon(self, watermark: int) -> int:
        """The first bucket that is not wholly farther back than the window is long."""
        return NEVER if watermark == NEVER else self.bucket(watermark - whole(self.length))

    def start(self, bucket: int) -> int:
        """Time at which a bucket begins."""
        return bucket * whole(self.width)


def seconds_of(length: float | str, name: str) -> float:
    """Seconds of a number, or of text as 30d, 12h, 90m, 45s; BadArgument where it is none."""
    match = _LENGTH.fullmatch(str(length).strip())
    if match is None:
        raise BadArgument(name, f"must be seconds, or as 30d, 12h, 90m or 45s, got {length!r}")
    return float(match[1]) * _SECONDS[match[2] or "s"]


def whole(seconds: float) -> int:
    """Seconds as a whole number of microseconds."""
    return round(seconds * SECOND)
