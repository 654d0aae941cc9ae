"""Only a test that asks for the fixture `processes` may start a process.

`make test` leaves such tests out, so a test that starts one unseen would make it slow and dependent
on how busy the machine is. A fixture that starts processes asks for `processes` itself: the mark
`spawns` comes from the fixtures of a test, never by hand.
"""

import multiprocessing.util
import sys
from collections.abc import Generator
from typing import Any, Final

import pytest

_STARTS: Final = frozenset(
    {
        "multiprocessing.spawn",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "subprocess.Popen",
    }
)
"""Audit events of a process that starts."""

_spawnv_passfds = multiprocessing.util.spawnv_passfds
_running: list[pytest.Item] = []
"""The test that runs is the last: a test may run others."""


@pytest.fixture(scope="session")
def processes() -> None:
    """Lets a test, or another fixture, start processes."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts processes."""
    for item in items:
        if "processes" in getattr(item, "fixturenames", ()):
            item.add_marker("spawns")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Note which test runs."""
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()


def _refuse(event: str, _arguments: tuple[Any, ...]) -> None:
    """Fail the test that starts a process without the fixture."""
    if _running and event in _STARTS and _running[-1].get_closest_marker("spawns") is None:
        pytest.fail(
            f"{_running[-1].nodeid} starts a process ({event}) and does not ask for the fixture "
            "`processes`; add @pytest.mark.usefixtures('processes')"
        )


def _audited_spawn(path: Any, arguments: Any, descriptors: Any) -> int:
    """`multiprocessing.util.spawnv_passfds`, which raises no audit event of its own."""
    sys.audit("multiprocessing.spawn", path, arguments)
    return _spawnv_passfds(path, arguments, descriptors)


multiprocessing.util.spawnv_passfds = _audited_spawn
sys.addaudithook(_refuse)
