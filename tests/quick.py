"""What `make test` leaves out (`pytest --quick`), and the line that says so.

It leaves out tests that start processes, tests that take long, and most of the large products of
parameters that walk one path. Whoever names a file, a test, a keyword or a mark gets all of it.
"""

from collections import Counter
from collections.abc import Generator
from typing import Any, Final

import pytest

_LEFT_OUT: Final = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--quick`."""
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out what spawns, is slow or thinned, unless the command line chooses tests",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Leave nothing out where the command line chooses; workers of xdist are told."""
    config.stash[_LEFT_OUT] = Counter()
    if not hasattr(config, "workerinput"):
        chosen = config.args_source is pytest.Config.ArgsSource.ARGS
        marks = any(each.startswith("-m") for each in config.invocation_params.args)
        config.option.quick &= not (chosen or marks or config.option.keyword)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, and count by reason."""
    if not config.option.quick:
        return
    places: Counter[tuple[pytest.Item | pytest.Collector | None, str]] = Counter()
    reasons: list[str | None] = []
    for item in items:
        function = (item.parent, getattr(item, "originalname", item.name))
        reasons.append(_reason(item, places[function]))
        places[function] += 1
    config.stash[_LEFT_OUT].update(reason for reason in reasons if reason)
    left_out = [item for item, reason in zip(items, reasons, strict=True) if reason]
    items[:] = [item for item, reason in zip(items, reasons, strict=True) if not reason]
    config.hook.pytest_deselected(items=left_out)


def _reason(item: pytest.Item, place: int) -> str | None:
    """Why an item is left out; its place is that among the items of its function."""
    if item.get_closest_marker("spawns"):
        return "start processes"
    if item.get_closest_marker("slow") or item.get_closest_marker("statistical"):
        return "take long"
    thinned = item.get_closest_marker("thinned")
    if thinned is not None and place % thinned.args[0]:
        return "repeat one path"
    return None


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
        counts = ", ".join(f"{count} that {reason}" for reason, count in left_out.items())
        terminalreporter.write_line(
            f"left out {left_out.total()} tests ({counts}); `make test-all` runs everything"
        )
