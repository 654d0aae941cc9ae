"""Passing a window: blocks of a file are split by buckets, and late edges are left out."""

from dataclasses import dataclass, replace

import numpy as np

from peewit.solvers.arrays import Int64Array
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock
from peewit.streaming.edges.operations import DELETE
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.edges.times import moment
from peewit.streaming.edges.windows import Window, whole
from peewit.streaming.left_out import NO_ROWS, LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCheck:
    """What a window does with the blocks of a file, in order; times in microseconds since 1970."""

    window: Window
    watermark: int  # of the stream when the file began
    arrived: int  # when the file was listed or pushed
    reached: int = NEVER  # latest time of its rows so far
    relation: str = ""  # in hand
    horizon: int = NEVER  # first bucket of that relation that lived when the file began
    latest: int = NEVER  # time of that relation's rows so far
    n_late: int = 0  # its rows so far behind the horizon
    n_expired: int = 0  # its rows so far that end with the file

    @property
    def least(self) -> int:
        """First bucket of the relation that lives when the file ends, as far as it is known."""
        return max(self.horizon, self.window.horizon(self.reached, self.relation))

    def of(self, relation: str, horizon: int) -> "WindowCheck":
        """The state before rows of another relation, whose first living bucket is ``horizon``."""
        return replace(self, relation=relation, horizon=horizon, latest=NEVER)

    def take(self, block: EdgeBlock, raw: RawBlock) -> tuple["WindowCheck", list[EdgeBlock]]:
        """The next state, and the live edges of a block, one block for each bucket.

        There is at least one, which counts all rows; buckets come in their order, rows in theirs.
        Edges that would leave at the end of the file, by rows before them in it, never come. Raises
        `BadEdges` where a row lies too far ahead.
        """
        if self.window.by == "arrival" or block.time is None:
            return self._cut(block, np.full(block.u.size, self.arrived), self.arrived)
        require_past(raw, max(self.watermark, self.arrived), self.window)
        is_added = slice(None) if raw.op is None else raw.op != DELETE
        times = block.time if raw.time is None else raw.time[is_added]
        return self._cut(block, block.time, int(times.max(initial=NEVER)))

    def _cut(
        self, block: EdgeBlock, times: Int64Array, latest: int
    ) -> tuple["WindowCheck", list[EdgeBlock]]:
        passed = replace(self, reached=max(self.reached, latest), latest=max(self.latest, latest))
        least = passed.least
        if times.size:
            first, last = (self.window.bucket(int(time)) for time in (times.min(), times.max()))
            if first == last >= least:
                return passed, [replace(block, time=None, bucket=first)]
        buckets = times // whole(self.window.width)
        n_late = int(np.count_nonzero(buckets < self.horizon))
        n_gone = int(np.count_nonzero(buckets < least))
        order = np.argsort(buckets, kind="stable")[n_gone:]
        ordered = buckets[order]
        cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        groups = np.split(order, cuts) if order.size else [order]
        parts = [
            replace(
                block.where(rows) if rows.size < block.u.size else block,
                time=None,
                bucket=int(buckets[rows[0]]) if rows.size else least,
                left_out=NO_ROWS,
                n_rows=rows.size,
            )
            for rows in groups
        ]
        n_others = block.n_rows - sum(part.n_rows for part in parts)
        left_out = block.left_out + LeftOut(too_old=n_gone)
        parts[0] = replace(parts[0], n_rows=parts[0].n_rows + n_others, left_out=left_out)
        n_expired = self.n_expired + n_gone - n_late
        return replace(passed, n_late=self.n_late + n_late, n_expired=n_expired), parts


def require_past(raw: RawBlock, latest: int, window: Window) -> None:
    """Raise BadEdges with the first row too far ahead of ``latest``, in microseconds since 1970."""
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
