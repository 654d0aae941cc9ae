"""A test that starts a process without saying so fails; one that says so is marked."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

STARTS: dict[str, Callable[[], object]] = {
    "subprocess": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "multiprocessing": lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
    "fork": os.fork,
    "system": lambda: os.system("true"),
}


@pytest.mark.parametrize("way", STARTS)
def test_a_process_is_refused_to_a_test_that_did_not_ask(way: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"usefixtures\('processes'\)"):
        STARTS[way]()


@pytest.mark.usefixtures("processes")
def test_a_process_is_given_to_a_test_that_asks(request: pytest.FixtureRequest) -> None:
    STARTS["subprocess"]()
    assert request.node.get_closest_marker("spawns") is not None


@pytest.fixture
def started(processes: None) -> None:
    STARTS["subprocess"]()


@pytest.mark.usefixtures("started")
def test_a_fixture_that_starts_processes_marks_the_test(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("spawns") is not None
