"""`make dist`: the sdist and the wheel, built, checked, and tried on every Python that is here.

    python -m tests.end_to_end.dist [PYTHON ...]

Each Python has an environment of its own, far from the checkout, with the wheel and what pip brings
for it. There run the demo and `peewit try` on three messy files as for somebody new, `peewit warm`,
`peewit serve` with the session over HTTP, the page about notebooks and a cell of the notebook. Each
extra is installed in an environment above that one, which sees its libraries, and what needs it is
imported; those of development are resolved only. An extra without a distribution for one Python is
said to have none; all else that fails fails this.
"""

import csv
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.request import urlopen

from rich.console import Console
from rich.table import Table

from tests.end_to_end.built_wheel import PACKAGES, Failed, build, check, run
from tests.end_to_end.messy_tables import write
from tests.end_to_end.pages import SECTION, read, run_in_bash, session
from tests.end_to_end.processes import REPOSITORY, eventually, free_port, kill_tree

VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
EXTRAS: Final = {
    "az": "adlfs",
    "cluster": "peewit.streaming.cluster.connection",
    "delta": "peewit.service.live_sources.delta_log",
    "gs": "gcsfs",
    "iceberg": "peewit.service.live_sources.iceberg_log",
    "kafka": "peewit.service.live_sources.kafka",
    "knn": "faiss",
    "mcp": "peewit.service.mcp.server",
    "networkx": "peewit.solvers.networkx_backend.interface",
    "otel": "peewit.service.tracing.otlp",
    "s3": "s3fs",
}
"""What each extra is for: our module that imports it at once, else its own."""

RESOLVED: Final = ("bench", "dev")
"""Of a checkout, gigabytes of them; `dev` holds `docs` and `test`."""

NO_DISTRIBUTION: Final = "Could not find a version that satisfies the requirement"
UNREACHABLE: Final = "Retrying (Retry("
"""What pip says of a distribution that is not there for a Python, and of an index that is not."""

WARNING: Final = {"PYTHONWARNINGS": "default"}
NOTEBOOK: Final = REPOSITORY / "docs" / "tutorials" / "in-a-notebook.ipynb"
RUN_CELL: Final = """
import sys
import nbformat
from nbclient import NotebookClient
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(sys.stdin.read())])
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
sys.stdout.write(nbformat.writes(notebook))
"""

console = Console(highlight=False, markup=False, soft_wrap=True)


# ------------------------------------------------------------------------------------- Pythons
def find_python(name: str) -> Path | None:
    """An interpreter of that name that runs and makes environments; a shim of pyenv may not run."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    directories = (*os.environ["PATH"].split(os.pathsep), *sorted(pyenv.glob("versions/*/bin")))
    for directory in directories:
        if (path := shutil.which(name, path=str(directory))) is not None:
            try:
                run(path, "-c", "import ensurepip, venv")
            except Failed:
                continue
            return Path(path)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A directory far from the checkout, where one Python has the wheel alone."""

    python: Path
    wheel: Path
    place: Path

    @property
    def programs(self) -> Path:
        """Of its environment."""
        return self.place / "environment" / "bin"

    @property
    def environment(self) -> dict[str, str]:
        """Nothing that could lead back to the checkout, and no compiled code but its own."""
        ours = ("IPYTHON", "JUPYTER", "NUMBA", "PEEWIT", "PYTHON", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return kept | {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "IPYTHONDIR": str(self.place / "ipython"),
            "NUMBA_CACHE_DIR": str(self.place / "numba"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def run(self, program: str, *arguments: object, text: str = "", **variables: str) -> str:
        """What a program of the environment printed."""
        return run(
            self.programs / program,
            *arguments,
            directory=self.place,
            environment=self.environment | variables,
            text=text,
        )


def install(room: Room) -> str:
    """Install the wheel, as the README says, beside packages that have the names of our folders."""
    run(room.python, "-m", "venv", room.programs.parent)
    printed = room.run("pip", "install", room.wheel)
    room.run("pip", "check")
    found = Path(room.run("python", "-c", "import peewit; print(peewit.__file__)").strip())
    if not found.is_relative_to(room.place):
        raise Failed(f"peewit is that of {found}")
    for name in PACKAGES:  # a stranger's, which ours must not take for their own
        (found.parents[1] / name).mkdir()
        (found.parents[1] / name / "__init__.py").touch()
    return f"{len(_installed(printed))} distributions"


def warm(room: Room) -> str:
    """Compile every kernel; what follows waits for none, however busy the machine."""
    return room.run("peewit", "warm").splitlines()[-1]


def demo(room: Room) -> str:
    """Run `peewit demo`, with all that Python has to say about our code."""
    printed = room.run("peewit", "demo", **WARNING)
    _refuse_warnings(printed)
    (line,) = re.findall(r"^accuracy +(.*)$", printed, re.MULTILINE)
    if float(line.split()[0]) < 0.9:
        raise Failed(printed)
    return f"accuracy {line}"


def try_tables(room: Room) -> str:
    """Run `peewit try` on three files as strangers publish them, and judge the list."""
    tables = room.place / "tables"
    tables.mkdir()
    truth = write(tables)
    room.run("peewit", "try", *sorted(tables.iterdir()))
    home = room.place / "peewit-data" / "try"
    text = room.run("peewit", "predictions", "mine", "--unlabeled", PEEWIT_HOME=str(home))
    rows = list(csv.DictReader(io.StringIO(text)))
    right = sum(truth[row["node"]] == row["label"] for row in rows)
    return f"{right:,} of {len(rows):,} predictions are right"


def serve(room: Room) -> str:
    """Run `peewit serve` from ready to its end, and the session over HTTP as it is printed."""
    with _served(room) as url:
        run_in_bash("http", room.place, room.environment | {"PEEWIT_URL": url})
    return "ready, docs/tutorials/http.md as printed, ended by SIGTERM"


@contextmanager
def _served(room: Room) -> Iterator[str]:
    """The address of a server that is ready, and ends well afterwards."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    log = room.place / "serve.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [room.programs / "peewit", "serve", "--port", str(port)],
            cwd=room.place,
            env=room.environment | WARNING,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(lambda: process.poll() is not None or _is_ready(url), 180)
        if process.poll() is None:
            yield url
            process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=60)
    finally:
        kill_tree(process.pid)
        process.wait()
    printed = log.read_text()
    _refuse_warnings(printed)
    if status:
        raise Failed(f"{printed}\npeewit serve ended with status {status}")


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _refuse_warnings(printed: str) -> None:
    """Fail where Python warns of a line of ours."""
    if lines := re.findall(r"^.*/peewit/\S+\.py:\d+: \w*Warning: .*$", printed, re.MULTILINE):
        raise Failed("\n".join(lines))


def notebook_page(room: Room) -> str:
    """Run the sessions of the page about notebooks as they are printed, each from its beginning."""
    names = [name for name, _ in SECTION.findall(read(REPOSITORY / "docs/how-to/notebook.md"))]
    for name in names:
        (room.place / f"{name}.txt").write_text(session(name), encoding="utf-8")
    room.run("python", "-m", "doctest", "-o", "ELLIPSIS", *(f"{name}.txt" for name in names))
    return f"{len(names)} sessions of docs/how-to/notebook.md as printed"


def notebook_cell(room: Room) -> str:
    """Run the first cell of the notebook in a kernel."""
    room.run("pip", "install", "ipykernel", "nbclient")
    cells = json.loads(read(NOTEBOOK))["cells"]
    cell = next("".join(each["source"]) for each in cells if each["cell_type"] == "code")
    printed = room.run("python", "-c", RUN_CELL, text=cell)
    if "<b>Sparsified</b>" not in printed:
        raise Failed(printed)
    return f"the first of {NOTEBOOK.relative_to(REPOSITORY)}"


def install_extra(room: Room, extra: str) -> str:
    """Install the wheel with an extra above the environment, and import what the extra is for."""
    layer = room.place / extra
    run(room.python, "-m", "venv", "--without-pip", layer)
    paths = "import sysconfig; print(sysconfig.get_path('purelib'))"
    above, below = (
        Path(run(programs / "python", "-c", paths).strip())
        for programs in (layer / "bin", room.programs)
    )
    (above / "below.pth").write_text(f"{below}\n")
    where = ("--python", layer / "bin" / "python")
    printed = room.run("pip", *where, *_install_extra(room, extra))
    room.run(str(layer / "bin" / "python"), "-c", f"import {EXTRAS[extra]}")
    shutil.rmtree(layer)
    return f"{len(_installed(printed))} distributions more, imports {EXTRAS[extra]}"


def resolve_extra(room: Room, extra: str) -> str:
    """Let pip find all that an extra of a checkout needs, without installing it."""
    printed = room.run("pip", *_install_extra(room, extra), "--dry-run")
    return f"pip would install {len(_installed(printed))} distributions"


def _install_extra(room: Room, extra: str) -> tuple[str, ...]:
    return "install", "--only-binary", ":all:", f"{room.wheel}[{extra}]"


def _installed(printed: str) -> list[str]:
    """What pip says that it has installed, or would install."""
    lines = re.findall(r"^(?:Successfully|Would) install(?:ed)? (.*)$", printed, re.MULTILINE)
    return " ".join(lines).split()


STEPS: Final[Mapping[str, Callable[[Room], str]]] = {
    "install": install,
    "demo": demo,
    "try": try_tables,
    "warm": warm,
    "serve": serve,
    "notebook page": notebook_page,
    "notebook cell": notebook_cell,
    **{f"[{extra}]": partial(install_extra, extra=extra) for extra in EXTRAS},
    **{f"[{extra}]": partial(resolve_extra, extra=extra) for extra in RESOLVED},
}


# --------------------------------------------------------------------------------------- sweep
def attempt(title: str, name: str, step: Callable[[], str]) -> str:
    """Run a step and print its line; its outcome."""
    start, start_cpu = time.monotonic(), _cpu_seconds()
    try:
        outcome, detail = "ok", step()
    except (Failed, AssertionError, subprocess.TimeoutExpired) as error:
        lines = str(error).splitlines()
        outcome, detail = "FAILED", "\n".join(line[:300] for line in lines[-40:])
        reasons = [line for line in lines if NO_DISTRIBUTION in line]
        if name.startswith("[") and reasons and UNREACHABLE not in str(error):
            outcome, detail = "none", reasons[0]
    seconds = time.monotonic() - start
    cpu = _cpu_seconds() - start_cpu
    console.print(f"{title:<8} {name:<14} {outcome:<6} {seconds:5.0f} s {cpu:5.0f} CPU s  {detail}")
    return outcome


def _cpu_seconds() -> float:
    """Of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tried(python: Path, title: str, wheel: Path) -> dict[str, str]:
    """The outcome of each step on one Python."""
    outcomes: dict[str, str] = {}
    with TemporaryDirectory(prefix="peewit-") as place:
        room = Room(python=python, wheel=wheel.resolve(), place=Path(place).resolve())
        for name, step in STEPS.items():
            outcomes[name] = attempt(title, name, partial(step, room))
            if outcomes[name] == "FAILED" and name == "install":
                break
    return outcomes


def table(outcomes: Mapping[str, Mapping[str, str]]) -> Table:
    """A row for each step, a column for each Python."""
    found = Table("", *outcomes, box=None)
    for name in STEPS:
        found.add_row(name, *(column.get(name, "-") for column in outcomes.values()))
    return found


def main(names: list[str]) -> int:
    """Build, check and try; 1 if something failed."""
    into = REPOSITORY / "dist"
    into.mkdir(exist_ok=True)
    for old in into.glob("peewit-*"):
        old.unlink()
    try:
        sdist, wheel = build(into)
    except Failed as error:
        console.print(f"build FAILED\n{error}")
        return 1
    for path in (sdist, wheel):
        console.print(f"built    {path.relative_to(REPOSITORY)}, {path.stat().st_size:,} bytes")
    failed = attempt("dist", "check", partial(check, sdist, wheel)) == "FAILED"
    outcomes: dict[str, dict[str, str]] = {}
    for name in names or [f"python{version}" for version in VERSIONS]:
        python = find_python(name)
        if python is None:
            console.print(f"{name} is not here")
            failed |= name in names
            continue
        title = run(python, "-c", "import platform; print(platform.python_version())").strip()
        outcomes[title] = tried(python, title, wheel)
    console.print(table(outcomes))
    for name in STEPS:
        seen = {column.get(name) for column in outcomes.values()}
        failed |= "FAILED" in seen
        if seen == {"none"}:
            console.print(f"{name} has distributions for none of these Pythons")
            failed = True
    return int(failed or not outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
