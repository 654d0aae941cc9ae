"""Windows: a graph of the edges of the last days, by when they were or by when they arrived.

Time is cut into buckets of equal width. An edge belongs to the bucket of its time, and lives until
the whole bucket lies farther back than the window is long: by the watermark, the latest time of
the files that are in the graph. The horizon, the first bucket that lives, moves at file boundaries
only, so that equal files in equal order give equal graphs.
"""

import re
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Int64Array
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock
from peewit.streaming.edges.operations import DELETE
from peewit.streaming.edges.times import NEVER, SECOND, moment

WindowBy: TypeAlias = Literal["time", "arrival"]
"""What the window looks at: a column of the edges, or when their file was listed or pushed."""

DEFAULT_BUCKETS: Final = 30
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw]?)")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_BUCKETS: Final = 4096
_GREATEST: Final = 2**62 // SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which edges live.

    Attributes
    ----------
    length : float
        Seconds that an edge lives, at least; at most a bucket more.
    by : {"time", "arrival"}
        By the column of times, or by when their file was listed or pushed.
    width : float
        Seconds of a bucket.
    allowed_ahead : float
        Seconds that an edge may lie ahead of both the watermark and the arrival of its file; one
        row with a wrong time would end all the others.

    Raises
    ------
    ValueError
        A field breaks its rule.
    """

    length: float
    by: WindowBy = "time"
    width: float
    allowed_ahead: float

    def __post_init__(self) -> None:
        for name in ("length", "width"):
            value = getattr(self, name)
            if not 1e-3 <= value <= _GREATEST:
                raise ValueError(
                    f"{name} of a window must lie in 0.001 to {_GREATEST} seconds, got {value}"
                )
        if not self.length / _MOST_BUCKETS <= self.width <= self.length:
            raise ValueError(
                f"a window must have 1 to {_MOST_BUCKETS} buckets, got {self.length / self.width}"
            )
        if not 0.0 <= self.allowed_ahead <= _GREATEST:
            raise ValueError(
                f"allowed_ahead must lie in 0 to {_GREATEST} seconds, got {self.allowed_ahead}"
            )
        if self.by not in get_args(WindowBy):
            known = ", ".join(get_args(WindowBy))
            raise ValueError(f"by of a window must be one of {known}, got {self.by!r}")

    def bucket(self, time: int) -> int:
        """Number of the bucket of a time in microseconds since 1970."""
        return time // _whole(self.width)

    def horizon(self, watermark: int) -> int:
        """The first bucket that is not wholly farther back than the window is long."""
        return NEVER if watermark == NEVER else self.bucket(watermark - _whole(self.length))

    def start(self, bucket: int) -> int:
        """Time at which a bucket begins."""
        return bucket * _whole(self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """What a window does with the blocks of one file, in order.

    Attributes
    ----------
    window : Window
    watermark, horizon : int
        Of the stream when the file began.
    arrived : int
        When the file was listed or pushed, in microseconds since 1970.
    reached : int
        The latest time of its rows so far; `NEVER` before the first.
    n_late, n_expired : int
        Rows so far that came behind the horizon, and that end with the file.
    """

    window: Window
    watermark: int
    horizon: int
    arrived: int
    reached: int = NEVER
    n_late: int = 0
    n_expired: int = 0

    def take(self, block: EdgeBlock, raw: RawBlock) -> tuple["Passing", list[EdgeBlock]]:
        """What comes next, and the edges of a block that live, one block for each bucket.

        There is one at least, which counts all rows; buckets come in their order, rows in theirs.
        Edges that are to leave at the end of the file, as rows before them in it say, never come.

        Raises
        ------
        BadEdges
            A row lies too far ahead.
        """
        if self.window.by == "arrival" or block.time is None:
            return self._cut(block, np.full(block.u.size, self.arrived), self.arrived)
        require_past(raw, max(self.watermark, self.arrived), self.window)
        is_added = slice(None) if raw.op is None else raw.op != DELETE
        times = block.time if raw.time is None else raw.time[is_added]
        return self._cut(block, block.time, int(times.max(initial=NEVER)))

    def _cut(
        self, block: EdgeBlock, times: Int64Array, latest: int
    ) -> tuple["Passing", list[EdgeBlock]]:
        reached = max(self.reached, latest)
        least = max(self.horizon, self.window.horizon(reached))
        passed = replace(self, reached=reached)
        if times.size:
            first, last = (self.window.bucket(int(each)) for each in (times.min(), times.max()))
            if first == last >= least:
                return passed, [replace(block, time=None, bucket=first)]
        buckets = times // _whole(self.window.width)
        n_late = int(np.count_nonzero(buckets < self.horizon))
        n_gone = int(np.count_nonzero(buckets < least))
        order = np.argsort(buckets, kind="stable")[n_gone:]
        found = buckets[order]
        cuts = np.flatnonzero(found[1:] != found[:-1]) + 1
        rows = np.split(order, cuts) if order.size else [order]
        parts = [
            replace(
                block.where(each) if each.size < block.u.size else block,
                time=None,
                bucket=int(buckets[each[0]]) if each.size else least,
                n_self_loops=0,
                n_rows=each.size,
            )
            for each in rows
        ]
        n_others = block.n_rows - sum(each.n_rows for each in parts)
        parts[0] = replace(
            parts[0], n_rows=parts[0].n_rows + n_others, n_self_loops=block.n_self_loops
        )
        n_expired = self.n_expired + n_gone - n_late
        return replace(passed, n_late=self.n_late + n_late, n_expired=n_expired), parts


def require_past(raw: RawBlock, latest: int, window: Window) -> None:
    """Raise BadEdges with the first row that lies too far ahead of a time in microseconds."""
    latest += _whole(window.allowed_ahead)
    if raw.time is None or not raw.time.size or int(raw.time.max()) <= latest:
        return
    is_ahead = raw.time > latest
    if raw.op is not None:  # rows that delete need no time
        is_ahead &= raw.op != DELETE
    row = int(np.argmax(is_ahead))
    if not is_ahead[row]:
        return
    raise BadEdges(
        f"a time must not lie ahead of {moment(latest)}, which is allowed_ahead of the window "
        "beyond what came before",
        argument="time",
        row=raw.first_row + row,
        value=moment(int(raw.time[row])),
    )


def seconds_of(given: float | str, name: str) -> float:
    """A length of time: seconds, or text as 30d, 12h, 90m, 45s; BadArgument where it is none."""
    found = _LENGTH.fullmatch(str(given).strip())
    if found is None:
        raise BadArgument(name, f"must be seconds, or as 30d, 12h, 90m or 45s, got {given!r}")
    return float(found[1]) * _SECONDS[found[2] or "s"]


def _whole(seconds: float) -> int:
    """Seconds in microseconds."""
    return round(seconds * SECOND)
