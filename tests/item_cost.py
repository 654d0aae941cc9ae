"""What each test costs in CPU seconds: kept from run to run, told, and held to what is usual.

Seconds of CPU, user and system, of the process that runs the test and of the processes that it
waited for: time would say how busy the machine is. An item whose call takes ten times its usual
seconds fails. What is usual lies in pytest's cache, so a fresh clone has to learn it first.
"""

import os
import resource
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

_KEY: Final = "peewit/cpu_seconds"
_KEPT_RUNS: Final = 5
_LEARNED_AFTER: Final = 3
"""Runs before an item is held to what is usual."""

_FACTOR: Final = 10.0
ALWAYS_ALLOWED_SECONDS: Final = 10.0
"""No item fails for fewer: they are noise, a collection of all garbage, or what the first of a
module prepares."""

_PHASES: Final = ("setup", "call", "teardown")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--dearest`."""
    parser.addoption(
        "--dearest", type=int, default=0, metavar="N", help="print the N items of most CPU seconds"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Count in every process; the one that prints keeps what is usual."""
    config.pluginmanager.register(_Meter(config), "peewit-item-meter")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Ledger(config), "peewit-item-ledger")


def cpu_seconds() -> float:
    """CPU seconds of this process and of the children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def is_unusual(seconds: float, earlier: list[float]) -> bool:
    """Whether a call took ten times what the last runs took."""
    return (
        len(earlier) >= _LEARNED_AFTER
        and seconds > ALWAYS_ALLOWED_SECONDS
        and seconds > _FACTOR * median(earlier)
    )


class _Meter:
    """Measures phases and fails what is unusual, in the process that runs the tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._usual: dict[str, list[float]] = _kept(config)
        self._spent: dict[str, float] = {}
        self._compiled = Path(os.environ["NUMBA_CACHE_DIR"]).absolute()
        self._n_compiled = 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        yield from self._measured("setup")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        before = self._n_kept()
        yield from self._measured("call")
        self._n_compiled = self._n_kept() - before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        yield from self._measured("teardown")

    def _n_kept(self) -> int:
        """Files of compiled kernels: who compiles one pays what is not the test's."""
        return sum(len(files) for _folder, _folders, files in os.walk(self._compiled))

    def _measured(self, phase: str) -> Generator[None, None, None]:
        begin = cpu_seconds()
        try:
            return (yield)
        finally:
            self._spent[phase] = cpu_seconds() - begin

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        report = yield
        seconds = self._spent.pop(call.when, 0.0)
        report.cpu_seconds = seconds
        earlier = self._usual.get(item.nodeid, [])
        is_judged = call.when == "call" and report.passed and not self._n_compiled
        if is_judged and is_unusual(seconds, earlier):
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} took {seconds:.1f} CPU seconds, usual are {median(earlier):.2f}; "
                "make it cheaper, or forget what was usual with `pytest --cache-clear`"
            )
        return report


class _Ledger:
    """Adds up what the workers report; keeps and prints it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._items: dict[str, dict[str, float]] = defaultdict(dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._items[report.nodeid][report.when or ""] = getattr(report, "cpu_seconds", 0.0)

    def pytest_sessionfinish(self) -> None:
        kept = _kept(self._config)
        for nodeid, phases in self._items.items():
            if "call" in phases:
                kept[nodeid] = [*kept.get(nodeid, []), round(phases["call"], 3)][-_KEPT_RUNS:]
        cache = _cache(self._config)
        if cache is not None and self._items:
            cache.set(_KEY, kept)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._items:
            return
        totals = {nodeid: sum(phases.values()) for nodeid, phases in self._items.items()}
        terminalreporter.write_line(
            f"{len(totals):,} tests took {sum(totals.values()):,.0f} CPU seconds"
        )
        dearest = sorted(totals, key=totals.__getitem__, reverse=True)
        for nodeid in dearest[: self._config.option.dearest]:
            phases = self._items[nodeid]
            parts = " ".join(f"{phases.get(phase, 0.0):7.2f}" for phase in _PHASES)
            terminalreporter.write_line(f"{totals[nodeid]:8.2f} = {parts}  {nodeid}")


def _kept(config: pytest.Config) -> dict[str, list[float]]:
    """CPU seconds of the last calls of each item."""
    cache = _cache(config)
    return {} if cache is None else dict(cache.get(_KEY, {}))


def _cache(config: pytest.Config) -> pytest.Cache | None:
    """pytest's cache, unless it runs without its plugin."""
    return getattr(config, "cache", None)
