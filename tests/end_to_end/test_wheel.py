"""The wheel alone in its environment, beside a package that owns `streaming` and `service`.

`make dist` (`tests/end_to_end/dist.py`) tries it on each Python, with a server.

The libraries come from the environment of the tests, by a path file: what they import is theirs,
but `peewit` is the wheel's, as path files of a directory that was added so are not read.
"""

import json
import os
import subprocess
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.end_to_end.built_wheel import Failed, build, misplaced
from tests.end_to_end.dist import EXTRAS, RESOLVED, attempt
from tests.end_to_end.processes import REPOSITORY, kill_tree

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
SCHEDULER = """
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from what it holds."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(packed: tuple[Path, Path]) -> Path:
    return packed[1]


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel and a stranger's `streaming` and `service`."""
    directory = tmp_path_factory.mktemp("environment")
    venv.create(directory, with_pip=False, symlinks=True)
    found = directory / "bin" / "python"
    packages = Path(
        sysconfig.get_path("purelib", vars={"base": str(directory), "platbase": str(directory)})
    )
    (packages / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    for name in ("streaming", "service"):
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text("OWNER = 'a stranger'\n")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return found


def environment(home: Path) -> dict[str, str]:
    """Nothing of this process's but what finds compiled code and programs."""
    return {
        "PATH": os.environ["PATH"],
        "NUMBA_CACHE_DIR": str(home / "numba"),
        "PEEWIT_HOME": str(home),
    }


def run(python: Path, place: Path, *arguments: str) -> str:
    """What an interpreter printed that was run far from the checkout."""
    done = subprocess.run(
        [python, *arguments],
        cwd=place,
        env=environment(place / "home"),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_hold_the_packages_and_nothing_else(packed: tuple[Path, Path]) -> None:
    assert misplaced(*packed) == []
    with zipfile.ZipFile(packed[1]) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names} == {
        "peewit",
        f"peewit-{PROJECT['version']}.dist-info",
    }
    assert {
        "peewit/py.typed",
        "peewit/service/dashboard/static/app.css",
        "peewit/service/dashboard/templates/base.html",
        "peewit/service/database/migrations/env.py",
    } <= names


def test_what_has_no_place_in_the_wheel_is_named(packed: tuple[Path, Path], tmp_path: Path) -> None:
    sdist, wheel = packed
    other = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            if name != "peewit/py.typed":
                new.writestr(name, old.read(name))
        new.writestr("peewit/solvers/kernels/walks.nbi", b"compiled")
        new.writestr("tests/__init__.py", b"")
    wrong = ["py.typed", "solvers/kernels/walks.nbi", "tests/__init__.py"]
    assert misplaced(sdist, other) == [f"{wheel.name}: {name}" for name in wrong]


def test_each_extra_is_tried_with_a_module_that_is_there() -> None:
    assert PROJECT["optional-dependencies"].keys() == {*EXTRAS, *RESOLVED, "docs", "test"}
    ours = [module for module in EXTRAS.values() if module.startswith("peewit.")]
    assert [module for module in ours if find_spec(module) is None] == []


@pytest.mark.parametrize(
    ("name", "before", "outcome"),
    [
        ("[knn]", "", "none"),
        ("install", "", "FAILED"),
        ("[knn]", "WARNING: Retrying (Retry(total=0)) after connection broken\n", "FAILED"),
    ],
)
def test_an_extra_alone_may_lack_a_distribution(
    name: str, before: str, outcome: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = (
        "ERROR: Could not find a version that satisfies the requirement faiss-cpu>=1.12; "
        "extra == 'knn' (from peewit[knn]) (from versions: none)"
    )

    def step() -> str:
        raise Failed(f"{before}{reason}\nERROR: No matching distribution found for faiss-cpu>=1.12")

    assert attempt("3.14.0", name, step) == outcome
    assert reason in capsys.readouterr().out


def test_names_load_from_the_wheel_beside_a_stranger(python: Path, tmp_path: Path) -> None:
    code = (
        "import sys, streaming, service, peewit\n"
        "assert streaming.OWNER == service.OWNER == 'a stranger'\n"
        "assert 'numba' not in sys.modules\n"
        "from peewit import AsyncClient, Client, StableHFS, sparsify\n"
        "missing = [name for name in peewit.__all__ if getattr(peewit, name, None) is None]\n"
        "import numpy as np\n"
        "kept = sparsify((np.array([0, 1, 2]), np.array([1, 2, 0])), epsilon=0.5)\n"
        "print(peewit.__file__, missing, kept.graph.n_edges, streaming.__file__)\n"
    )
    where, missing, n_kept, stranger = run(python, tmp_path, "-c", code).split()
    assert Path(where).is_relative_to(python.parents[1])
    assert Path(stranger).is_relative_to(python.parents[1])
    assert (missing, n_kept) == ("[]", "3")


@pytest.fixture
def scheduler(python: Path, tmp_path: Path) -> Iterator[str]:
    """Address of a dask scheduler whose worker process has the wheel only."""
    script = tmp_path / "scheduler.py"
    script.write_text(SCHEDULER)
    with subprocess.Popen(
        [python, script],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        kill_tree(process.pid)


def test_dask_workers_ingest_from_the_wheel(python: Path, scheduler: str, tmp_path: Path) -> None:
    edges = tmp_path / "edges.parquet"
    rows = [(f"n{u}", f"n{v}") for u in range(60) for v in range(u)]
    pq.write_table(pa.table(dict(zip(("src", "dst"), zip(*rows, strict=True), strict=True))), edges)
    run(python, tmp_path, "-m", "peewit", "graph", "create", "g", "--expected-nodes", "60")
    command = ("-m", "peewit", "ingest", "g", str(edges), "--scheduler", scheduler, "--json")
    assert json.loads(run(python, tmp_path, *command))["progress"]["edges_seen"] == len(rows)
