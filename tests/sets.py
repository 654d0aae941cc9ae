"""Three sets of tests, each within the next, and the line that says what was left out.

`pytest --quick` (`make test`) leaves out what starts processes, what is `slow`, and most of what is
`thinned`. `pytest` (`make test-all`) leaves out what is `nightly` and most of each `sweep`. `pytest
--nightly` (`make test-nightly`) runs everything. Whoever names a file, a test, a keyword or a mark
gets all of it.
"""

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pytest

_SPAWNING: Final = "tests/end_to_end"
_LEFT_OUT: Final = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--quick` and `--nightly`."""
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out what spawns and what is slow, unless the command line chooses tests",
    )
    parser.addoption("--nightly", action="store_true", help="run sweeps whole")


def pytest_configure(config: pytest.Config) -> None:
    """Leave nothing out where the command line chooses, which workers of xdist are given, too."""
    config.stash[_LEFT_OUT] = Counter()
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    marks = any(each.startswith("-m") for each in config.invocation_params.args)
    if chosen or marks or config.option.keyword:
        config.option.quick, config.option.nightly = False, True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a room all of whose tests start processes."""
    is_left_out = config.option.quick and collection_path == config.rootpath / _SPAWNING
    return True if is_left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, and count by reason."""
    if config.option.nightly:
        return
    places: Counter[tuple[pytest.Item | pytest.Collector | None, str]] = Counter()
    kept, left_out = [], []
    for item in items:
        function = (item.parent, getattr(item, "originalname", item.name))
        reason = _reason(item, places[function], quick=config.option.quick)
        places[function] += 1
        if reason is None:
            kept.append(item)
        else:
            left_out.append(item)
            config.stash[_LEFT_OUT][reason] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)


def _reason(item: pytest.Item, place: int, *, quick: bool) -> str | None:
    """Why an item is left out; its place is that among the items of its function."""
    if item.get_closest_marker("nightly"):
        return "are sweeps"
    if quick and item.get_closest_marker("spawns"):
        return "start processes"
    if quick and item.get_closest_marker("slow"):
        return "take long"
    for name in ("sweep", "thinned") if quick else ("sweep",):
        mark = item.get_closest_marker(name)
        if mark is not None and (place + _offset(item)) % mark.args[0]:
            return "repeat one path"
    return None


def _offset(item: pytest.Item) -> int:
    """Where the sample of a function begins, so that those of a suite are of different models."""
    return crc32(getattr(item, "originalname", item.name).encode())


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the counts to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(session.config.stash[_LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the counts of a worker; each has collected the same items."""
    node.config.stash[_LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # to have the last word
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, None, None]:
    """Say what was left out."""
    yield
    left_out = terminalreporter.config.stash[_LEFT_OUT]
    if left_out:
        whole = f"{_SPAWNING} and " if terminalreporter.config.option.quick else ""
        counts = ", ".join(f"{count} that {reason}" for reason, count in left_out.items())
        terminalreporter.write_line(
            f"left out {whole}{left_out.total()} tests ({counts}); "
            "`make test-nightly` runs everything"
        )
