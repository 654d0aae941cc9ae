"""Small things stay small: which heavy modules each command, role and name may load."""

import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from peewit.service.cli.machine.version_and_health import role_fault
from tests.end_to_end.processes import eventually, free_port
from tests.service.cli.conftest import Peewit

HEAVY = frozenset(
    {
        *("alembic", "dask", "distributed", "fastapi", "fsspec", "httpx", "numba", "numpy"),
        *("prometheus_client", "pyarrow", "scipy.linalg", "scipy.optimize", "scipy.sparse"),
        *("scipy.special", "scipy.stats", "sklearn", "sqlalchemy", "uvicorn"),
    }
)

STORES = {"sqlalchemy"}
TABLES = STORES | {"numpy", "pyarrow"}
READING = TABLES | {"fsspec", "numba"}
SOLVING = READING | {
    *("prometheus_client", "scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.special")
}

ALLOWED = {
    "--help": set(),
    "version": STORES,
    "graph --help": set(),
    "labels --help": set(),
    "graph list": STORES,
    "jobs list": STORES,
    "graph create another": TABLES,
    "graph show g": TABLES,
    "labels put g {labels}": TABLES,
    "predictions g": TABLES,
    "ingest g {more}": READING | {"dask", "scipy.linalg"},
    "solve g": SOLVING,
}
"""By command; it may load less."""

RUN = """
import sys
from peewit.service.cli import main
try:
    main()
finally:
    sys.stderr.write("\\nloaded " + " ".join(sys.modules))
"""

WATCHING = SOLVING - {"numba", "scipy.optimize"}
ROLES = {
    "serve": STORES,
    "api": WATCHING | {"fastapi", "uvicorn"},
    "worker": STORES,
    "ingest --follow": WATCHING,
}
"""By command that stays, until it is ready; it may load less."""

RUN_ROLE = """
import sys, threading

def tell():
    sys.stdin.readline()
    print(*sys.modules, flush=True)

threading.Thread(target=tell, daemon=True).start()
from peewit.service.cli import main
main()
"""
"""Tells what is loaded when it is asked."""

NAMES = {
    "Client": {"httpx", "numpy", "pyarrow"},
    "sparsify": {"numpy", "pyarrow"},
    "Auto": {"numpy", "sklearn"} | {each for each in HEAVY if each.startswith("scipy")},
}


def is_ready(command: str, pid: int, port: int) -> bool:
    match command:
        case "serve":
            return len(psutil.Process(pid).children()) == 3
        case "api":
            try:
                return httpx.get(f"http://127.0.0.1:{port}/v1/graphs", verify=False).is_success
            except httpx.ConnectError:
                return False
        case "worker":
            return not role_fault("worker")
        case _:
            return not role_fault("ingest")


def heavy_in(words: str) -> set[str]:
    return HEAVY & set(words.split())


@pytest.mark.usefixtures("processes")
def test_light_commands_load_what_they_need(peewit: Peewit, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.csv" for name in ("edges", "more", "labels")}
    files["edges"].write_text("src,dst\na,b\nb,c\nc,a\nd,e\ne,f\nf,d\nc,d\n")
    files["more"].write_text("src,dst\nf,g\ng,d\n")
    files["labels"].write_text("node,label\na,left\nf,right\n")
    for command in ("graph create g", "ingest g {edges}", "labels put g {labels}", "solve g"):
        done = peewit(*command.format(**files).split())
        assert done.exit_code == 0, done.err
    too_much = {}
    for command, allowed in ALLOWED.items():
        arguments = command.format(**files).split()
        ended = subprocess.run(
            [sys.executable, "-c", RUN, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        told, loaded = ended.stderr.rsplit("\nloaded ", 1)
        if unwanted := heavy_in(loaded) - allowed:
            too_much[command] = unwanted, told
    assert too_much == {}


@pytest.mark.usefixtures("processes", "home")
@pytest.mark.parametrize("command", ROLES)
def test_a_role_that_is_ready_has_loaded_what_it_needs(command: str) -> None:
    port = free_port()
    options = ("--port", str(port)) if command in {"serve", "api"} else ()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN_ROLE, *command.split(), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    with process:
        try:
            eventually(lambda: is_ready(command, process.pid, port), pause_seconds=0.1)
            process.stdin.write("\n")
            process.stdin.flush()
            loaded = process.stdout.readline()
        finally:
            process.terminate()
    assert heavy_in(loaded) <= ROLES[command]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_package_loads_what_it_needs(name: str) -> None:
    # scikit-learn loads pandas where that is installed, and pandas loads pyarrow: neither is ours
    code = "import sys; sys.modules['pandas'] = None; "
    code += f"from peewit import {name}; print(*(m for m in sys.modules if m != 'pandas'))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert heavy_in(done.stdout) <= NAMES[name]
