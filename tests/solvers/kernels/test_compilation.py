"""Compiled code is kept once for a user, by several processes at once, and never raises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("processes")

TOTAL = """
from peewit.solvers.kernels.compilation import njit
@njit(cache=True, nogil=True)
def total(values):
    found = 0.0
    for value in values:
        found += value
    return found
"""
CALL = """
import sys
import numpy as np
from kernel import total
sys.stdin.readline()
for name in sys.argv[1].split(","):
    assert total(np.arange(5).astype(name)) == 10
print(sum(total._cache_misses.values()))
"""
PAUSE = """
import sys
from numba.core.caching import IndexDataCacheFile
save_index = IndexDataCacheFile._save_index
def paused(self, overloads):  # between the reading of an index and its writing
    sys.stderr.write("saving\\n")
    sys.stderr.flush()
    sys.stdin.readline()
    save_index(self, overloads)
IndexDataCacheFile._save_index = paused
"""
TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "uint16", "uint32")


def start(
    directory: Path, names: tuple[str, ...], code: str = CALL, **environment: str
) -> subprocess.Popen[str]:
    (directory / "kernel.py").write_text(TOTAL)
    return subprocess.Popen(
        [sys.executable, "-c", code, ",".join(names)],
        cwd=directory,
        env={name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def n_compiled(process: subprocess.Popen[str]) -> int:
    out, err = process.communicate("\n", timeout=120)
    assert process.returncode == 0, err
    return int(out)


def test_what_processes_compile_at_once_is_all_kept(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "caches")}
    # at the same time, the same kernel for other types
    both = [start(tmp_path, names, **cache) for names in (TYPES[::2], TYPES[1::2])]
    for each in both:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    assert [n_compiled(each) for each in both] == [4, 4]
    assert n_compiled(start(tmp_path, TYPES, **cache)) == 0
    assert list((tmp_path / "caches" / "peewit" / "numba").iterdir())


def test_no_process_writes_an_index_that_another_has_read_to_write(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "caches")}
    first = start(tmp_path, ("int8",), PAUSE + CALL, **cache)
    assert first.stdin is not None
    assert first.stderr is not None
    first.stdin.write("\n")
    first.stdin.flush()
    assert first.stderr.readline() == "saving\n"
    second = start(tmp_path, ("float64",), **cache)
    with pytest.raises(subprocess.TimeoutExpired):
        second.communicate("\n", timeout=5)
    assert n_compiled(first) == 1
    out, _ = second.communicate(timeout=60)
    assert int(out) == 1
    assert n_compiled(start(tmp_path, ("int8", "float64"), **cache)) == 0


def test_a_named_directory_goes_before_that_of_the_user(tmp_path: Path) -> None:
    named = {"NUMBA_CACHE_DIR": str(tmp_path / "named"), "XDG_CACHE_HOME": str(tmp_path / "caches")}
    assert n_compiled(start(tmp_path, ("int8",), **named)) == 1
    assert not (tmp_path / "caches").exists()
    assert n_compiled(start(tmp_path, ("int8",), **named)) == 0


@pytest.mark.parametrize("place", ["/proc/none", "file"])
def test_where_nothing_can_be_kept_kernels_run_all_the_same(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("no directory")
    cache = {"XDG_CACHE_HOME": str(tmp_path / place)}
    assert n_compiled(start(tmp_path, ("int8",), **cache)) == 1


def test_what_was_kept_serves_where_nothing_can_be_written(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "caches")}
    n_compiled(start(tmp_path, ("int8",), **cache))
    (directory,) = (tmp_path / "caches" / "peewit" / "numba").iterdir()
    for path in (directory, *directory.iterdir()):
        path.chmod(path.stat().st_mode & ~0o222)
    assert n_compiled(start(tmp_path, ("int8",), **cache)) == 0


def test_a_kernel_whose_neighbor_has_changed_is_compiled_anew(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "caches")}
    n_compiled(start(tmp_path, ("int8",), **cache))
    (tmp_path / "other.py").write_text("# a kernel that it may call")
    assert n_compiled(start(tmp_path, ("int8",), **cache)) == 1


def test_kernels_that_are_compiled_are_told_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import numpy as np\n"
        "from peewit.solvers.kernels.compilation import told_of_compilations\n"
        "from peewit.solvers.kernels.components import find_root\n"
        "told = []\n"
        "with told_of_compilations(told.append):\n"
        "    find_root(np.zeros(1, np.int32), 0)\n"
        "print(len(told))\n"
    )
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "caches"))
    counts = [
        int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
        for _ in range(2)
    ]
    assert counts == [1, 0]


def test_numba_is_loaded_by_the_first_call_and_kernels_can_be_sent() -> None:
    code = (
        "import pickle, sys\n"
        "import numpy as np\n"
        "from peewit.solvers.kernels.components import find_root\n"
        "sent = pickle.dumps(find_root)\n"
        "print('numba' in sys.modules)\n"
        "root = find_root(np.zeros(1, np.int32), 0)\n"
        "print('numba' in sys.modules, pickle.loads(sent)(np.zeros(1, np.int32), 0) == root)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout
    assert told.split() == [b"False", b"True", b"True"]
