"""Arrivals at a window by arrival: which are believed, and which a wrong clock may have stamped.

One arrival that is wrong by more than the window's length would end all other edges, and make later
ones late. So the clock may run on as monotonic time does, and may jump by ``allowed_ahead``.
"""

import time
from collections.abc import Callable, Iterable
from typing import Final

from peewit.service.inbox.inbox_records import FileRecord
from peewit.service.jobs.ingest_steps import duration
from peewit.streaming.edges.time_units import NEVER, SECOND
from peewit.streaming.edges.times import moment
from peewit.streaming.edges.windows import Window, whole

_REMEDY: Final = (
    "set the clock right if it is wrong; then `peewit graph set {name} --clock-right` lets what "
    "waits in"
)


class ArrivalClock:
    """The least time that it is now, as far as arrivals that are in a graph tell.

    ``monotonic`` gives seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known, self._known_at = NEVER, 0.0

    @property
    def now(self) -> int:
        """Microseconds since 1970; `NEVER` before anything has arrived."""
        if self._known == NEVER:
            return NEVER
        return self._known + whole(self._monotonic() - self._known_at)

    def learn(self, known: int) -> None:
        """Take in that it is at least this time."""
        self._known, self._known_at = max(self.now, known), self._monotonic()

    def believed(
        self, files: Iterable[FileRecord], window: Window, *, in_hand: str | None
    ) -> list[FileRecord]:
        """The files that did not arrive too far ahead; each tells what time it is.

        ``in_hand`` is the path of the half absorbed file, which goes on.
        """
        believed = []
        for file in files:
            arrived = _arrival(file)
            if self.now == NEVER or arrived <= self.now + whole(window.allowed_ahead):
                self.learn(arrived)
            elif file.path != in_hand:
                continue
            believed.append(file)
        return believed

    def fault(
        self, waiting: Iterable[FileRecord], window: Window, *, present: float, name: str
    ) -> str | None:
        """Why files of a graph wait, or why others will come too late; None where all is well.

        ``present`` is the time by this machine's clock, in seconds since 1970.
        """
        arrivals = [_arrival(file) for file in waiting]
        if arrivals:
            ahead = duration((min(arrivals) - self.now) / SECOND)
            return (
                f"files wait ({len(arrivals):,}), as by the clock they came {ahead} after all "
                f"before them, at {moment(min(arrivals))}: {_REMEDY.format(name=name)}"
            )
        clock = round(present * SECOND)
        if self.now != NEVER and self.now > clock + whole(window.allowed_ahead):
            return (
                f"the latest edges came at {moment(self.now)}, which is "
                f"{duration((self.now - clock) / SECOND)} ahead of the clock. The window "
                "moves with them, so edges with the right time come too late. If the clock "
                "is wrong, set it right; else make the graph anew"
            )
        return None


def _arrival(file: FileRecord) -> int:
    return round(file.created_at.timestamp() * SECOND)
