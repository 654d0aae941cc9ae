"""Passing a window: blocks of a file are parted by buckets, and what is late is left out."""

from dataclasses import dataclass, replace

import numpy as np

from peewit.solvers.arrays import Int64Array
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock
from peewit.streaming.edges.operations import DELETE
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.edges.times import moment
from peewit.streaming.edges.windows import Window, whole


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

    @property
    def least(self) -> int:
        """The first bucket that lives when the file ends, as far as it is known."""
        return max(self.horizon, self.window.horizon(self.reached))

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
        passed = replace(self, reached=max(self.reached, latest))
        least = passed.least
        if times.size:
            first, last = (self.window.bucket(int(each)) for each in (times.min(), times.max()))
            if first == last >= least:
                return passed, [replace(block, time=None, bucket=first)]
        buckets = times // whole(self.window.width)
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
    latest += whole(window.allowed_ahead)
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
