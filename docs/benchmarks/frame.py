"""What programs share: options, data at hand, seconds, processes of their own, and tables."""

import argparse
import importlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from peewit.solvers.arrays import AnyArray, Int64Array

CONSOLE = Console(width=max(200, Console().width), highlight=False)

Result = TypeVar("Result")


def options(
    doc: str | None,
    *,
    cases: Collection[str] = (),
    quick: dict[str, Any] | None = None,
    **asked: Any,
) -> argparse.Namespace:
    """What the command line says: an option for each name, of the kind of its default.

    False makes a flag, a list takes several, a type in place of a default has none. A tuple holds
    the default, and choices or a text of help. ``cases`` are told without a name, all unless some
    are; ``quick`` holds what ``--quick`` puts in place of the rest.
    """
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=doc, formatter_class=style)
    if cases:
        parser.add_argument("cases", nargs="*", default=list(cases), metavar="|".join(cases))
    for name, given in asked.items():
        default, *more = given if isinstance(given, tuple) else (given,)
        told: dict[str, Any] = {
            "help" if isinstance(each, str) else "choices": each for each in more
        }
        if default is False:
            told["action"] = "store_true"
        else:
            one = default[0] if isinstance(default, list) and default else default
            told |= {"nargs": "*"} if isinstance(default, list) else {}
            told["type"] = one if isinstance(one, type) else type(one)
            told["default"] = None if isinstance(one, type) else default
        parser.add_argument(f"--{name.replace('_', '-')}", **told)
    if quick is not None:
        small = ", ".join(f"{name} {value}" for name, value in quick.items())
        parser.add_argument("--quick", action="store_true", help=small)
    found = parser.parse_args()
    for case in getattr(found, "cases", ()):
        if case not in cases:
            parser.error(f"a case must be one of {', '.join(cases)}, got {case}")
    if quick is not None and found.quick:
        parser.set_defaults(**quick)
    return parser.parse_args()


def folder() -> Path:
    """The folder that ``PEEWIT_DATA`` names."""
    name = os.environ.get("PEEWIT_DATA")
    if not name:
        raise FileNotFoundError("PEEWIT_DATA is not set; it names the folder of the data sets")
    return Path(name)


@cache
def installed(name: str) -> Any:
    """The module, or None, which is told once."""
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        CONSOLE.print(f"left out: {name} ({missing})")
        return None


@dataclass(slots=True)
class Spent:
    """Seconds by the clock, and CPU seconds of this process."""

    wall: float = 0.0
    cpu: float = 0.0


@contextmanager
def spent() -> Iterator[Spent]:
    """What happens inside takes, known at its end."""
    taken, wall, cpu = Spent(), time.perf_counter(), time.process_time()
    yield taken
    taken.wall, taken.cpu = time.perf_counter() - wall, time.process_time() - cpu


def cpu_of(task: Callable[..., Result], *arguments: Any, **named: Any) -> tuple[Result, float]:
    """What a call gives, and its CPU seconds."""
    with spent() as taken:
        result = task(*arguments, **named)
    return result, taken.cpu


def wall_of(task: Callable[..., Result], *arguments: Any, **named: Any) -> tuple[Result, float]:
    """What a call gives, and its seconds by the clock."""
    with spent() as taken:
        result = task(*arguments, **named)
    return result, taken.wall


def alone(task: Callable[..., Result], *arguments: Any) -> Result:
    """What a call gives in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(task, *arguments).result()


def share_right(predicted: AnyArray, classes: Int64Array, labeled: Any) -> float:
    """Share of the nodes of known class without a label that is predicted right."""
    asked = classes >= 0
    asked[labeled] = False
    return float((predicted == classes)[asked].mean())


def mean_and_error(values: Any) -> tuple[float, float]:
    """Mean and standard error in percent; one value has no error."""
    shares = 100.0 * np.asarray(values)
    error = shares.std(ddof=1) / shares.size**0.5 if shares.size > 1 else np.nan
    return float(shares.mean()), float(error)


def mean_and_worst(values: Any) -> tuple[float, float]:
    """Mean and largest."""
    return float(np.mean(values)), float(np.max(values))


class Figures:
    """A table whose columns say how their numbers are shown, ``graph|kept {:,}|CPU s {:.2f}``.

    The first column, or ``left`` of them, is of words. Numbers of a tuple share a cell; None and
    NaN are shown as "-", strings as they are.
    """

    def __init__(self, title: str, columns: str, *, left: int = 1, **given: Any) -> None:
        self.table = Table(title=title, **given)
        self._shapes = []
        for place, column in enumerate(columns.split("|")):
            heading, brace, shape = column.partition("{")
            self.table.add_column(heading.strip(), justify="left" if place < left else "right")
            self._shapes.append(brace + shape or "{}")

    def add(self, *cells: Any) -> None:
        """One row."""
        self.table.add_row(*map(_shown, self._shapes, cells))

    def __rich__(self) -> Table:
        return self.table


def _shown(shape: str, cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return shape.format(*cell)
    is_missing = cell is None or (isinstance(cell, float) and np.isnan(cell))
    return "-" if is_missing else shape.format(cell)


def show(what: str, columns: str, rows: Iterable[Iterable[Any]], **given: Any) -> None:
    """Print a table of these rows."""
    table = Figures(what, columns, **given)
    for row in rows:
        table.add(*row)
    CONSOLE.print(table)
