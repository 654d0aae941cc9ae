"""What each test costs in CPU seconds: kept from run to run, told, and held to what is usual.

Seconds of CPU, user and system, of the process that runs the test and of the processes that it
waited for: time would say how busy the machine is. Collections of garbage are left out: whose they
are is chance. An item whose call takes ten times its usual seconds fails.

What is usual is the median of the last calls that passed. They lie in pytest's cache, or in the
file that PEEWIT_ITEM_COSTS names. Of an item that has none there, `usual_costs.json` tells it; what
that leaves out of `make test` is cheap, whatever earlier calls took, so that a new dear item fails
on the machine where it is written, not on the next. After a run of `make test` this writes it anew:

    python -m pytest --quick --collect-only --write-usual-costs
"""

import gc
import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest
from hypothesis import strategies as st

USUAL_COSTS: Final = Path(__file__).with_name("usual_costs.json")
ALWAYS_ALLOWED_SECONDS: Final = 3.0
"""No item fails for fewer: they are noise, or what the first of a process loads."""

_FACTOR: Final = 10.0
DEAR_SECONDS: Final = ALWAYS_ALLOWED_SECONDS / _FACTOR
"""What usually takes fewer need not be named in `usual_costs.json`."""

_KEPT_RUNS: Final = 5
_PHASES: Final = ("setup", "call", "teardown")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--dearest` and `--write-usual-costs`."""
    parser.addoption(
        "--dearest", type=int, default=0, metavar="N", help="print the N items of most CPU seconds"
    )
    parser.addoption(
        "--write-usual-costs",
        action="store_true",
        help=f"write what the dear ones of the collected items usually take to {USUAL_COSTS.name}",
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


def is_unusual(seconds: float, usual: float | None, always_allowed: float) -> bool:
    """Whether a call took ten times what is usual, if that is known."""
    return usual is not None and seconds > max(always_allowed, _FACTOR * usual)


class _Meter:
    """Measures phases and fails what is unusual, in the process that runs the tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._earlier = _kept(config)
        self._costs = _usual_costs()
        self._always_allowed = ALWAYS_ALLOWED_SECONDS
        self._is_usual_run = (
            os.environ.get("HYPOTHESIS_PROFILE") != "thorough"
            and os.environ.get("NUMBA_DISABLE_JIT") != "1"
        )
        self._spent: dict[str, float] = {}
        self._collecting = self._collection_began = 0.0
        gc.callbacks.append(self._time_garbage)
        self._compiled = Path(os.environ["NUMBA_CACHE_DIR"]).absolute()
        self._has_compiled = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        yield from self._measured("setup")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        before = self._last_compiled()
        yield from self._measured("call")
        self._has_compiled = self._last_compiled() != before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        yield from self._measured("teardown")

    def pytest_unconfigure(self) -> None:
        gc.callbacks.remove(self._time_garbage)

    def _time_garbage(self, phase: str, _info: dict[str, int]) -> None:
        """Add up what collections take."""
        if phase == "start":
            self._collection_began = time.process_time()
        else:
            self._collecting += time.process_time() - self._collection_began

    def _last_compiled(self) -> int:
        """When a kernel was last compiled, also anew: who does so pays what is not the test's."""
        folders = (Path(folder) for folder, _folders, _files in os.walk(self._compiled))
        return max((folder.stat().st_mtime_ns for folder in folders), default=0)

    def _measured(self, phase: str) -> Generator[None, None, None]:
        begin = cpu_seconds() - self._collecting
        try:
            return (yield)
        finally:
            self._spent[phase] = cpu_seconds() - self._collecting - begin

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        report = yield
        seconds = self._spent.pop(call.when, 0.0)
        report.cpu_seconds = seconds
        report.is_usual = (
            call.when == "call" and report.passed and not self._has_compiled and self._is_usual_run
        )
        usual = self._usual_seconds(item)
        if report.is_usual and is_unusual(seconds, usual, self._always_allowed):
            report.is_usual = False
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} took {seconds:.1f} CPU seconds, usual are {usual:.2f}; make it "
                "cheaper or mark it slow, or forget what was usual with `pytest --cache-clear` "
                f"and write into {USUAL_COSTS.name} what is"
            )
        return report

    def _usual_seconds(self, item: pytest.Item) -> float | None:
        """Those of earlier calls or of the table; what `make test` has in neither is cheap."""
        is_quick = item.config.getoption("quick", default=False)
        if is_quick and item.nodeid not in self._costs:
            return 0.0
        if item.nodeid in self._earlier:
            return median(self._earlier[item.nodeid])
        return self._costs.get(item.nodeid)


class _Ledger:
    """Adds up what the workers report; keeps and prints it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._items: dict[str, dict[str, float]] = defaultdict(dict)
        self._usual: set[str] = set()

    @pytest.hookimpl(trylast=True)  # hypothesis minds before, xdist starts workers after
    def pytest_sessionstart(self) -> None:
        """Have hypothesis make its table of characters, once a checkout, before workers read it.

        It takes 3 CPU seconds, which would be those of whatever test first draws a text.
        """
        st.text().validate()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Write the table, where it is asked for."""
        if not self._config.option.write_usual_costs:
            return
        earlier, before = _kept(self._config), _usual_costs()
        dear = {}
        for nodeid in (item.nodeid for item in session.items):
            usual = median(earlier.get(nodeid, [before.get(nodeid, 0.0)]))
            if usual > DEAR_SECONDS:
                dear[nodeid] = round(usual, 2)
        USUAL_COSTS.write_text(json.dumps(dear, indent=2, sort_keys=True) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._items[report.nodeid][report.when or ""] = getattr(report, "cpu_seconds", 0.0)
        if getattr(report, "is_usual", False):
            self._usual.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        kept, file = _kept(self._config), _costs_file(self._config)
        for nodeid in self._usual:
            seconds = round(self._items[nodeid]["call"], 3)
            kept[nodeid] = [*kept.get(nodeid, []), seconds][-_KEPT_RUNS:]
        if file is not None and self._usual:
            file.parent.mkdir(parents=True, exist_ok=True)
            new = file.with_name(f"{file.name}.new")
            new.write_text(json.dumps(kept))
            new.replace(file)

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


def _usual_costs() -> dict[str, float]:
    """The table of dear items."""
    costs: dict[str, float] = json.loads(USUAL_COSTS.read_text())
    return costs


def _kept(config: pytest.Config) -> dict[str, list[float]]:
    """CPU seconds of the last calls of each item."""
    file = _costs_file(config)
    if file is None or not file.exists():
        return {}
    kept: dict[str, list[float]] = json.loads(file.read_text())
    return kept


def _costs_file(config: pytest.Config) -> Path | None:
    """What PEEWIT_ITEM_COSTS names, or one in pytest's cache, unless it runs without its plugin."""
    if named := os.environ.get("PEEWIT_ITEM_COSTS"):
        return Path(named)
    cache: pytest.Cache | None = getattr(config, "cache", None)
    return None if cache is None else cache.mkdir("peewit") / "cpu_seconds.json"
