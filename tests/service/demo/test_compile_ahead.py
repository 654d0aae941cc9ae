"""A process beside the demo compiles its solve, unless that is kept, and ends with the block."""

import subprocess
import sys
from pathlib import Path

import pytest
from numba.core import config

from tests.end_to_end.processes import REPOSITORY, Home

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(config.DISABLE_JIT, reason="needs compiled kernels"),
]

COUNT = """
import psutil
from peewit.service.demo.compile_ahead import compiling_ahead
from peewit.service.settings import Settings
with compiling_ahead(Settings(threads=2)):
    print(len(psutil.Process().children()))
print(len(psutil.Process().children()))
"""
SOLVE = "from peewit.service.demo.compile_ahead import solve_small\nsolve_small()\n"


def n_processes(home: Home, code: str) -> list[int]:
    out = subprocess.run(
        [sys.executable, "-c", code],
        env=home.environment,
        cwd=REPOSITORY,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    return [int(number) for number in out.split()]


def test_one_process_compiles_until_the_block_ends(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", NUMBA_CACHE_DIR=str(tmp_path / "compiled"))
    assert n_processes(home, COUNT) == [1, 0]


def test_none_is_started_once_its_solve_is_kept(tmp_path: Path) -> None:
    assert n_processes(Home(tmp_path / "home"), SOLVE + COUNT) == [0, 0]
