"""Progress lines of `peewit ingest` and `peewit features` on stderr."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Self

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from peewit.service.cli.option_names import as_options
from peewit.service.cli.session import printable
from peewit.service.inbox.inbox_records import FileRecord
from peewit.streaming.events import (
    Committed,
    Duplicate,
    IngestEvent,
    Progress,
    Quarantined,
    Repaired,
)

LINE_SECONDS: Final = 5.0
"""Interval of lines if stderr is no terminal."""

_BAR_WIDTH: Final = 24
_MEGABYTE: Final = 2**20


class LiveLine:
    """A line of stderr that a terminal shows as long as the context lasts."""

    def __init__(self, console: Console, text: str = "") -> None:
        self._console = console
        self._live = Live(Text(text), console=console, transient=True, auto_refresh=False)

    def __enter__(self) -> Self:
        """Begin to show."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Take the line away."""
        self._live.stop()

    def _say(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(Text(printable(text)), soft_wrap=True)


class CompileCount:
    """Counts kernels that are compiled, of those still to be; draws a bar of both.

    ``expected`` gives the names of the latter; it is called before the first kernel is compiled.
    """

    def __init__(self, expected: Callable[[], Iterable[str]]) -> None:
        self._expected = expected
        self._all: set[str] | None = None
        self._begun: set[str] = set()

    def begin(self, kernel: str) -> Table:
        """Count a kernel that is being compiled; for other types it counts as the same."""
        if self._all is None:
            self._all = set(self._expected())
        self._all.add(kernel)
        self._begun.add(kernel)
        n_begun, total = len(self._begun), len(self._all)
        row = Table.grid(padding=(0, 1))
        row.add_row(
            Text(f"compiling, once for this installation: {n_begun} of {total} kernels"),
            ProgressBar(total=total, completed=n_begun - 1, width=_BAR_WIDTH),
        )
        return row


class CompileProgress(LiveLine):
    """Counts the kernels that this process compiles, on a line that stays until `clear`."""

    def __init__(self, console: Console, expected: Callable[[], Iterable[str]]) -> None:
        super().__init__(console)
        self._count = CompileCount(expected)

    def __call__(self, kernel: str) -> None:
        """Count a kernel that is being compiled."""
        row = self._count.begin(kernel)
        if self._console.is_terminal:
            self._live.start()
            self._live.update(row, refresh=True)

    def clear(self) -> None:
        """Take the line away, so that others can be written."""
        self._live.stop()


class _Figures(LiveLine):
    """Figures that change; if stderr is no terminal, they are printed now and then."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        super().__init__(console, "reading")
        self._clock = clock
        self._started = self._printed = clock()

    def _show(self, line: Callable[[], str]) -> None:
        if self._console.is_terminal:
            self._live.update(Text(printable(line())), refresh=True)
        elif self._clock() - self._printed >= LINE_SECONDS:
            self._printed = self._clock()
            self._say(line())


class IngestProgress(_Figures):
    """Follows ingest events; a context manager that keeps one line of stderr up to date.

    The sizes of the ``waiting`` files tell the time left; ``expected`` is as of `CompileCount`;
    ``told`` are the paths of refused files and duplicates that were shown with the reason.
    """

    def __init__(
        self,
        console: Console,
        waiting: Sequence[FileRecord],
        *,
        expected: Callable[[], Iterable[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console, clock)
        self._count = CompileCount(expected)
        self._sizes = {file.path: file.size for file in waiting}
        self._done = dict.fromkeys(self._sizes, 0.0)
        self._n_rows = 0
        self._process = psutil.Process()
        self.told: set[str] = set()

    def __call__(self, event: IngestEvent) -> None:
        """Update the line with an event."""
        match event:
            case Progress():
                self._advance(event)
            case Quarantined():
                self._finish(event.file.path)
                fault = fault_text(event.reason, event.row, event.value)
                self._say(f"quarantined {event.file.path}: {fault}")
                self.told.add(event.file.path)
            case Duplicate():
                self._finish(event.file.path)
                self._say(f"skipped {event.file.path}: {as_options(event.reason)}")
                self.told.add(event.file.path)
            case Repaired(repair=repair) if repair.has_failed:
                self._say(
                    "edges that deletes have spoiled are not sampled anew, as resistances "
                    "did not converge; the snapshot says how large its spectral error is"
                )
            case Repaired(repair=repair) if repair.kind != "none":
                self._say(
                    f"all {repair.n_edges:,} edges were sampled anew"
                    if repair.kind == "all"
                    else f"sampled {repair.n_edges:,} edges anew after deletes, those of "
                    f"{repair.n_damaged:,} nodes"
                )
            case Committed():
                for file in event.files:
                    self._finish(file.path)
                    if file.n_rows + file.n_bad_rows == 0:
                        self._say(f"{file.path} has no rows")

    def compiling(self, kernel: str) -> None:
        """Count a kernel that is being compiled."""
        row = self._count.begin(kernel)
        if self._live.is_started:
            self._live.update(row, refresh=True)

    def line(self, event: Progress) -> str:
        """The present figures."""
        seconds = max(self._clock() - self._started, 1e-9)
        memory = self._process.memory_info().rss / _MEGABYTE
        parts = [
            f"{event.summary.edges_seen:,} edges in",
            f"{self._n_rows / seconds:,.0f} edges/s",
            f"{event.summary.n_records:,} kept",
            f"{event.summary.n_nodes:,} nodes",
            f"{memory:,.0f} MB",
        ]
        remaining = self.remaining_seconds(seconds)
        return "  ".join(parts if remaining is None else [*parts, f"{shown_time(remaining)} left"])

    def remaining_seconds(self, elapsed: float) -> float | None:
        """Time left at the present speed; None before anything is known."""
        total = sum(self._sizes.values())
        done = sum(self._sizes[path] * part for path, part in self._done.items())
        return elapsed * (total - done) / done if done > 0 else None

    def _advance(self, event: Progress) -> None:
        self._n_rows += event.n_rows
        n_rows = _rows_of(event.path)
        if n_rows:
            done = self._done.get(event.path, 0.0) + event.n_rows / n_rows
            self._done[event.path] = min(done, 1.0)
            self._sizes.setdefault(event.path, 0)
        self._show(lambda: self.line(event))

    def _finish(self, path: str) -> None:
        self._sizes.setdefault(path, 0)
        self._done[path] = 1.0


class RowProgress(_Figures):
    """Counts rows on one line of stderr; a context manager. ``n_rows`` is None if unknown."""

    def __init__(
        self, console: Console, n_rows: int | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(console, clock)
        self._n_rows = n_rows
        self._n_done = 0

    def advance(self, n_rows: int) -> None:
        """Count rows that are done."""
        self._n_done += n_rows
        self._show(self.line)

    def line(self) -> str:
        """The present figures."""
        seconds = max(self._clock() - self._started, 1e-9)
        done = f"{self._n_done:,}" if self._n_rows is None else f"{self._n_done:,}/{self._n_rows:,}"
        parts = [f"{done} rows", f"{self._n_done / seconds:,.0f} rows/s"]
        if self._n_rows and self._n_done:
            left = seconds * max(self._n_rows - self._n_done, 0) / self._n_done
            parts.append(f"{shown_time(left)} left")
        return "  ".join(parts)


@cache
def _rows_of(path: str) -> int | None:
    """Rows of a local file by its footer; None if that costs a read of the file."""
    try:
        return pq.read_metadata(path).num_rows if Path(path).is_file() else None
    except (OSError, pa.ArrowException):
        return None


def fault_text(reason: str | None, row: int | None, value: str | None) -> str:
    """The rule that a file breaks, what it holds instead, and where."""
    received = "" if value is None else f", got {value}"
    place = "" if row is None else f" in row {row} (rows count from 0)"
    return f"{as_options(reason or '')}{received}{place}"


def shown_time(seconds: float) -> str:
    """Duration as text, such as 48 s, 3:07 min or 2:15 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 100:
        return f"{minutes}:{seconds:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"
