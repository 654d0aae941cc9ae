"""The wheel alone in its environment, beside a package that owns `streaming` and `service`.

The libraries come from the environment of the tests, by a path file: what they import is theirs,
but `peewit` is the wheel's, as path files of a directory that was added so are not read.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.client import Client
from tests.end_to_end.processes import eventually, free_port, kill_tree

REPOSITORY = Path(__file__).parents[2]
SOURCES = (".src", "service", "streaming", "solvers", "pyproject.toml", "README.md", "LICENSE")
SCHEDULER = """
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


def built(kind: str, source: Path, into: Path) -> Path:
    """The file that setuptools makes of a tree, without an index."""
    code = f"from setuptools.build_meta import build_{kind} as build; print(build({str(into)!r}))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=source,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return into / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from what the source distribution holds."""
    directory = tmp_path_factory.mktemp("wheel")
    checkout = directory / "checkout"
    checkout.mkdir()
    for name in SOURCES:
        if (REPOSITORY / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(REPOSITORY / name, checkout / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(REPOSITORY / name, checkout)
    shutil.unpack_archive(built("sdist", checkout, directory), directory, filter="data")
    (unpacked,) = (path for path in directory.glob("peewit-*") if path.is_dir())
    return built("wheel", unpacked, directory)


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


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.split("/")[0] for name in names} == {"peewit", "peewit-0.1.0.dist-info"}
    assert "peewit/py.typed" in names
    in_checkout = {
        f"peewit/{path.relative_to(REPOSITORY)}"
        for package in ("service", "streaming", "solvers")
        for path in (REPOSITORY / package).rglob("*")
        if path.suffix in {".py", ".html", ".js", ".css", ".svg"}
    }
    assert in_checkout - names == set()


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


def test_serve_runs_from_the_wheel(python: Path, tmp_path: Path) -> None:
    port = free_port()
    with subprocess.Popen(
        [python, "-m", "peewit", "serve", "--port", str(port)],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
    ) as server:
        try:
            with Client(f"http://127.0.0.1:{port}", timeout_seconds=60) as client:
                eventually(client.is_ready)
                client.create_graph("g", node_ids="int64", expected_nodes=3)
                client.push_edges("g", pa.table({"src": [1, 2, 3], "dst": [2, 3, 1]}))
                client.put_labels("g", {1: "a", 2: "b"})
                eventually(lambda: client.graph("g").snapshot is not None)
                assert client.solve("g", "stable-hfs").table.num_rows == 3
        finally:
            kill_tree(server.pid)
