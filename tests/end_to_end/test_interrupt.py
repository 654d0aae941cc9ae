"""Ctrl-C, which the terminal sends to the whole group of processes, at any moment of a solve."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from peewit.service.database.engine import Database, open_database
from peewit.service.jobs.queue import JobQueue
from peewit.service.settings import Settings
from tests.end_to_end.processes import Home, descendants, eventually, is_gone
from tests.service.solvable import (
    ENDLESS_CLASSES,
    ENDLESS_SIDE,
    TIGHT,
    Solvable,
    grid,
    spread_labels,
    two_communities,
)


@pytest.fixture
def database(home: Home) -> Iterator[Database]:
    """Of the home."""
    database = open_database(Settings(home=home.directory, database_url=None).database)
    yield database
    database.close()


@pytest.fixture
def graph(home: Home, database: Database) -> Solvable:
    """An empty graph g."""
    return Solvable.create(database, Settings(home=home.directory, database_url=None), "g")


@pytest.fixture
def quick(home: Home, graph: Solvable) -> Home:
    """A home with a graph that is solved at once."""
    graph.publish(1, *two_communities())
    graph.label({"n3": "left", "n33": "right"})
    return home


@pytest.fixture
def endless(home: Home, graph: Solvable) -> Home:
    """A home with a graph whose solve outlasts every test."""
    graph.publish(1, *grid(ENDLESS_SIDE))
    graph.label(spread_labels(ENDLESS_SIDE**2, ENDLESS_CLASSES))
    return home


def solving_children(process: subprocess.Popen[str]) -> list[int]:
    """Processes that the command has spawned to solve, from the moment that they exist."""
    found = []
    for child in descendants(process.pid):
        with child.oneshot():
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child.pid)
    return found


# A child is spawned at once and loads its libraries for about a second; its first words come later.
@pytest.mark.parametrize("n_looks", [0, 20])
def test_an_interrupt_while_the_solving_process_starts_leaves_one_plain_line(
    endless: Home, n_looks: int
) -> None:
    process = solving(endless, "--model", "poisson-mbo")
    eventually(lambda: bool(solving_children(process)))
    children = solving_children(process)
    for _ in range(n_looks):
        children = solving_children(process) or children
    err = interrupt(process)
    assert_cancelled(process, err)
    eventually(lambda: all(map(is_gone, children)))


def test_an_interrupt_while_a_command_solves_itself_leaves_one_plain_line(
    endless: Home, database: Database
) -> None:
    settings = (word for name, value in TIGHT.items() for word in ("--set", f"{name}={value}"))
    process = solving(endless, "--model", "hfs", *settings)
    job_id = first_words(process).split()[1]
    eventually(lambda: JobQueue(database).get(job_id).progress is not None)
    assert not solving_children(process)
    assert_cancelled(process, interrupt(process))


def test_an_interrupt_at_the_first_words_cancels_or_comes_when_all_is_done(quick: Home) -> None:
    process = solving(quick)
    first_words(process)
    err = interrupt(process)
    if process.returncode == 130:
        assert_cancelled(process, err)
    else:  # it was done before the signal came, or the interpreter on its way out
        assert process.returncode in (0, -signal.SIGINT), err
        assert "`peewit predictions g -o FILE` writes them" in err


def solving(home: Home, *options: str) -> subprocess.Popen[str]:
    """A command that solves."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return home.start("solve", "g", *options, **pipes, start_new_session=True)


def first_words(process: subprocess.Popen[str]) -> str:
    """The line that names the job."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("job ")
    return line


def interrupt(process: subprocess.Popen[str]) -> str:
    """Interrupt its group; what it says then, which is no traceback."""
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert "KeyboardInterrupt" not in err
    return err


def assert_cancelled(process: subprocess.Popen[str], err: str) -> None:
    """It has cancelled its job, and said so last."""
    assert process.returncode == 130, err
    assert err.splitlines()[-1].startswith("stopped; job ")
    assert err.splitlines()[-1].endswith(" is cancelled")
