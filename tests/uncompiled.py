"""Run a test file again without numba's compiler, whose code checks no bounds and never warns."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

COMPILED = os.environ.get("NUMBA_DISABLE_JIT") != "1"

_if_compiled = pytest.mark.skipif(not COMPILED, reason="runs uncompiled already")


def only_compiled(test: Callable[[], None]) -> Callable[[], None]:
    """Decorates the test that runs its own file again."""
    return pytest.mark.usefixtures("processes")(_if_compiled(test))


def assert_passes_uncompiled(file: str) -> None:
    """All tests of a file pass in a process without compilation."""
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", file],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
