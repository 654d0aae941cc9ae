"""What does `peewit serve` cost before anybody asks for anything?

Serves an empty home, or a copy of one that is given, and prints the processor seconds (user and
system, of all processes) until /readyz answers 200 and until all have settled, the processor time
that they then take, and their memory, each process for itself: resident, proportional (PSS, where
pages that processes share are divided among them) and of its own (USS). ``--python`` names another
installation.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from docs.benchmarks.frame import CONSOLE, options, show
from tests.end_to_end.processes import free_port

LOOK_SECONDS: Final = 0.05


class Use(NamedTuple):
    """Of a process: its processor seconds, with those of children that have ended, and memory."""

    name: str
    seconds: float
    rss: int
    pss: int
    uss: int


def look(pid: int) -> dict[int, Use]:
    found = {}
    first = psutil.Process(pid)
    for each in (first, *first.children(recursive=True)):
        try:
            memory = each.memory_full_info()
            name = _name(each.cmdline())
            found[each.pid] = Use(
                name, sum(each.cpu_times()[:4]), memory.rss, memory.pss, memory.uss
            )
        except psutil.NoSuchProcess:
            continue
    return found


def _name(command: list[str]) -> str:
    for word in ("resource_tracker", "spawn_main", "renewer"):
        if any(word in each for each in command):
            return word
    return command[3] if len(command) > 3 else " ".join(command)


def is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def measure(home: Path, options: argparse.Namespace) -> None:
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if "PEEWIT" not in name}
    process = subprocess.Popen(
        [options.python, "-m", "peewit", "serve", "--port", str(port)],
        env=environment | {"PEEWIT_HOME": str(home)},
        cwd=home,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    try:
        began = time.monotonic()
        while not is_ready(port):
            time.sleep(LOOK_SECONDS)
        took = time.monotonic() - began
        ready = sum(each.seconds for each in look(process.pid).values())
        time.sleep(options.settle)
        before, at = look(process.pid), time.monotonic()
        time.sleep(options.seconds)
        after, elapsed = look(process.pid), time.monotonic() - at
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    settled = sum(each.seconds for each in before.values())
    CONSOLE.print(f"ready: {ready:.2f} CPU s, {took:.1f} s; settled: {settled:.2f} CPU s")
    shares = {
        pid: 100.0 * (each.seconds - before[pid].seconds) / elapsed
        for pid, each in after.items()
        if pid in before
    }
    rows: list[tuple[Any, ...]] = [
        (each.name, each.seconds, shares.get(pid, 0.0), *(size / 2**20 for size in each[2:]))
        for pid, each in after.items()
    ]
    rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    columns = "process|CPU s {:.2f}|% of a core {:.2f}|RSS MiB {:.0f}|PSS MiB {:.0f}|USS MiB {:.0f}"
    show("", columns, rows)


def main() -> None:
    asked = options(__doc__, home=Path, seconds=60.0, settle=25.0, python=sys.executable)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        if asked.home is None:
            home.mkdir()
        else:
            shutil.copytree(asked.home, home)
        measure(home, asked)


if __name__ == "__main__":
    main()
