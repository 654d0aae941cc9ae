"""Ctrl-C, which the terminal sends to the whole group of processes, at any moment of a solve."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.end_to_end.processes import Home, descendants, eventually, is_gone

N_NODES = 60


@pytest.fixture
def solvable(home: Home, tmp_path: Path) -> Home:
    """A home with a graph of a few nodes and two labels."""
    u, v = np.triu_indices(N_NODES, k=1)
    pq.write_table(pa.table({"src": u, "dst": v}), tmp_path / "edges.parquet")
    (tmp_path / "labels.csv").write_text("node,label\n1,left\n50,right\n")
    home.run("graph", "create", "g", "--node-ids", "int64", "--seed", 1)
    home.run("ingest", "g", tmp_path / "edges.parquet")
    home.run("labels", "put", "g", tmp_path / "labels.csv")
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
    solvable: Home, n_looks: int
) -> None:
    process = solving(solvable, "--model", "poisson-mbo")
    eventually(lambda: bool(solving_children(process)))
    children = solving_children(process)
    for _ in range(n_looks):
        children = solving_children(process) or children
    interrupt(process)
    assert n_looks > 0 or process.returncode == 130
    eventually(lambda: all(map(is_gone, children)))


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.0])
def test_an_interrupt_while_a_command_solves_itself_leaves_one_plain_line(
    solvable: Home, seconds: float
) -> None:
    process = solving(solvable)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("job ")
    time.sleep(seconds)
    interrupt(process)
    assert seconds > 0 or process.returncode == 130


def solving(home: Home, *options: str) -> subprocess.Popen[str]:
    """A command that solves."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return home.start("solve", "g", *options, **pipes, start_new_session=True)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Interrupt its group; it says one line, or was done before the signal came."""
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert "KeyboardInterrupt" not in err
    if process.returncode == 130:
        assert err.splitlines()[-1].startswith("stopped; job ")
        assert err.splitlines()[-1].endswith(" is cancelled")
    else:  # it was done before the signal came, or the interpreter on its way out
        assert process.returncode in (0, -signal.SIGINT), err
        assert "`peewit predictions g -o FILE` writes them" in err
