"""Windows: a graph of the edges of the last days, by when they were or by when they arrived.

Time is cut into buckets of equal width. An edge lives until the whole bucket of its time lies
farther back than the window is long, counted from the watermark: the latest time of the files in
the graph. The horizon, the first bucket that lives, moves at file boundaries only, so that equal
files in equal order give equal graphs. A relation may have a length of its own, or keep all; the
watermark is that of the graph, so that edges of a relation that nobody feeds leave as others come.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from peewit.solvers.arguments import BadArgument, require_one_of
from peewit.solvers.relations.relation_names import MOST_RELATIONS, check_relation_name
from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.time_units import NEVER, SECOND, TimeUnit

WindowBy: TypeAlias = Literal["time", "arrival"]
"""What the window looks at: a column of the edges, or when their file was listed or pushed."""

DEFAULT_BUCKETS: Final = 30
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_BUCKETS: Final = 4096
_GREATEST: Final = 2**62 // SECOND

FOR_EVER: Final = "none"
"""In place of a length: edges of a relation have no window."""


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
    relations: Mapping[str, float | None] = field(default_factory=dict)
    """Lengths by relation, of those that have one of their own; None keeps all its edges."""

    def __post_init__(self) -> None:
        for name in ("length", "width"):
            value = getattr(self, name)
            if not 1e-3 <= value <= _GREATEST:
                rule = f"must lie in 0.001 to {_GREATEST} seconds, got {value}"
                raise BadArgument(f"window.{name}", rule)
        self._check_buckets("window.length", self.length)
        self._check_relations()
        if not 0.0 <= self.allowed_ahead <= _GREATEST:
            rule = f"must lie in 0 to {_GREATEST} seconds, got {self.allowed_ahead}"
            raise BadArgument("window.allowed_ahead", rule)
        require_one_of("window.by", self.by, get_args(WindowBy))
        if self.time_unit is not None:
            require_one_of("window.time_unit", self.time_unit, get_args(TimeUnit))

    def _check_buckets(self, argument: str, length: float, of: str = "") -> None:
        if not self.width <= length <= _MOST_BUCKETS * self.width:
            most = _MOST_BUCKETS * self.width
            rule = f"must be 1 to {_MOST_BUCKETS} buckets: {self.width:g} to {most:g} seconds"
            raise BadArgument(argument, f"{rule}, got {length:g}{of}")

    def _check_relations(self) -> None:
        if len(self.relations) > MOST_RELATIONS:
            rule = f"must name at most {MOST_RELATIONS} relations, got {len(self.relations)}"
            raise BadArgument("window.relations", rule)
        for name, length in self.relations.items():
            if name:  # '' is the relation without a name
                check_relation_name(name, argument="window.relations")
            if length is not None:
                self._check_buckets("window.relations", length, f" for the relation {name!r}")

    @classmethod
    def of(
        cls,
        length: float,
        *,
        by: WindowBy = "time",
        buckets: int = DEFAULT_BUCKETS,
        allowed_ahead: float | None = None,
        time_unit: TimeUnit | None = None,
        relations: Mapping[str, float | None] | None = None,
    ) -> "Window":
        """Window of a number of buckets; by default a time may lie one bucket ahead."""
        if not 1 <= buckets <= _MOST_BUCKETS:
            raise BadArgument("window.buckets", f"must be 1 to {_MOST_BUCKETS}, got {buckets}")
        width = length / buckets
        ahead = width if allowed_ahead is None else allowed_ahead
        return cls(
            length=length,
            by=by,
            width=width,
            allowed_ahead=ahead,
            time_unit=time_unit,
            relations=relations or {},
        )

    def require_deletions(self, deletions: Deletions) -> None:
        """Raise BadArgument unless edges can leave a graph of these deletions."""
        if deletions != "exact":
            raise BadArgument(
                "deletions",
                f"must be 'exact' in a graph with a window, got {deletions!r}: edges leave "
                "by the log that exact ones keep; leave deletions out, since a window "
                "makes them exact",
            )

    def bucket(self, time: int) -> int:
        """Number of the bucket of a time in microseconds since 1970."""
        return time // whole(self.width)

    def length_of(self, relation: str) -> float | None:
        """How long edges of a relation live; None for ever."""
        return self.relations.get(relation, self.length)

    def horizon(self, watermark: int, relation: str = "") -> int:
        """The first bucket of a relation that is not wholly farther back than its window is long.

        `NEVER` where there is none, as all of its edges live.
        """
        length = self.length_of(relation)
        if watermark == NEVER or length is None:
            return NEVER
        return self.bucket(watermark - whole(length))

    def start(self, bucket: int) -> int:
        """Time at which a bucket begins."""
        return bucket * whole(self.width)


def seconds_of(length: float | str, name: str, also: str = "") -> float:
    """Seconds of a number, or of text as 30d, 12h, 90m, 45s; BadArgument where it is none.

    ``also`` says in the error what else it may be.
    """
    match = _LENGTH.fullmatch(str(length).strip())
    if match is None:
        rule = f"must be seconds, or as 30d, 12h, 90m or 45s{also}, got {length!r}"
        raise BadArgument(name, rule)
    return float(match[1]) * _SECONDS[match[2] or "s"]


def relation_lengths(lengths: Mapping[str, float | str | None] | str) -> dict[str, float | None]:
    """Lengths by relation, of a mapping or of text as ``login=30d,card=none``; none of ''.

    BadArgument where a part of it reads otherwise, or names a relation twice.
    """
    argument = "window.relations"
    if isinstance(lengths, str):
        parts = [part.rpartition("=") for part in lengths.split(",")] if lengths.strip() else []
        said: dict[str, float | str | None] = {}
        for name, equals, length in ((a.strip(), b, c.strip()) for a, b, c in parts):
            if not equals:
                rule = f"must read relation=length,relation=length, got {length!r}"
                raise BadArgument(argument, f"{rule}; write such as login=30d,card={FOR_EVER}")
            if name in said:
                raise BadArgument(argument, f"must name each relation once, got {name!r} twice")
            said[name] = length
        lengths = said
    return {
        name: None
        if length is None or length == FOR_EVER
        else seconds_of(length, argument, f", or {FOR_EVER}, for the relation {name!r}")
        for name, length in lengths.items()
    }


def whole(seconds: float) -> int:
    """Seconds as a whole number of microseconds."""
    return round(seconds * SECOND)
