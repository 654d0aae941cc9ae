"""A bar that shows how far a call is, in a notebook or a terminal.

with ProgressBar() as bar:
result = sparsify("edges.parquet", progress=bar)
found = client.solve("papers", progress=bar)
"""

import sys
from html import escape
from importlib import import_module
from typing import Any, Self

from rich.console import Console
from rich.progress import Progress

from peewit.solvers.notebook_html import progress


class ProgressBar:
    """Shows each report that a call gives its ``progress``; a context that ends the bar.

    Parameters
    ----------
    console : rich.console.Console or None
        Of a terminal; None for the standard error, where no notebook runs.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._bar: _NotebookBar | _TerminalBar
        shell = _notebook() if console is None else None
        if shell is not None:
            self._bar = _NotebookBar()
        else:
            self._bar = _TerminalBar(console or Console(stderr=True))

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._bar.show("done", 1.0)
        self._bar.stop()

    def __call__(self, report: Any) -> None:
        """Show a report of `sparsify` or a solver, or a job as a client sees it."""
        done = report.fraction if hasattr(report, "fraction") else report.progress
        phase = report.phase or getattr(report, "status", "")
        self._bar.show(phase, 1.0 if getattr(report, "status", "") == "succeeded" else done)


class _TerminalBar:
    """A bar of rich."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(console=console)
        self._task = self._progress.add_task("", total=1.0)

    def start(self) -> None:
        self._progress.start()

    def show(self, phase: str, done: float | None) -> None:
        self._progress.update(self._task, description=phase, completed=done or 0.0)

    def stop(self) -> None:
        self._progress.stop()


class _NotebookBar:
    """A progress element of HTML, which needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None

    def start(self) -> None:
        self.show("", 0.0)

    def show(self, phase: str, done: float | None) -> None:
        interactive = import_module("IPython.display")  # there where a notebook runs
        page = interactive.HTML(f"<div>{progress(done, phase or 'progress')} {escape(phase)}</div>")
        if self._handle is None:
            self._handle = interactive.display(page, display_id=True)
        else:
            self._handle.update(page)

    def stop(self) -> None:
        """The element stays as it was shown last."""


def _notebook() -> Any:
    """The shell of a notebook; None in a terminal or a program."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    return shell if hasattr(shell, "kernel") else None
