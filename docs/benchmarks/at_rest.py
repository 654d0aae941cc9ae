"""What does `peewit serve` cost before anybody asks for anything?

    python -m docs.benchmarks.at_rest [--home DIRECTORY] [--seconds 60] [--settle 25]

Serves an empty home, or a copy of one that is given, and prints the processor seconds (user and
system, of all processes) until /readyz answers 200 and until all have settled, the processor time
that they then take, and their memory, each process for itself: resident, proportional (PSS, where
pages that processes share are divided among them) and of its own (USS). With ``--python`` the
installation of another interpreter is served, to compare two.

``--waits 10`` then makes a graph, pushes to it and solves it so often, with a pause before each,
and prints the seconds of the first push and solve, the medians of the others, and how long jobs
waited for their start.
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
from statistics import median
from typing import Final, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import psutil
import pyarrow as pa
from rich.console import Console

from peewit.service.client import Client
from tests.end_to_end.processes import free_port

CONSOLE: Final = Console(highlight=False)
LOOK_SECONDS: Final = 0.05
MEBIBYTE: Final = 2**20


class Use(NamedTuple):
    """Of a process: its processor seconds, with those of children that have ended, and memory."""

    name: str
    seconds: float
    rss: int
    pss: int
    uss: int


def look(pid: int) -> dict[int, Use]:
    """What a process and all below it use, by their ids."""
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


def seconds_of(pid: int) -> float:
    """Processor seconds of all processes so far."""
    first = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:4]) for each in (first, *first.children(recursive=True)))


def is_ready(port: int) -> bool:
    """Whether the API says so."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def waits(url: str, n_times: int) -> None:
    """Push and solve after pauses, and print how long that took."""
    rng = np.random.default_rng(0)
    pushes, solves, starts = [], [], []
    with Client(url, timeout_seconds=120) as client:
        client.create_graph("waits", node_ids="int64", expected_nodes=1000, seed=1)
        for number in range(n_times):
            time.sleep(rng.uniform(2.0, 3.0))
            ends = rng.integers(100, size=(2, 400))
            began = time.perf_counter()
            client.push_edges("waits", pa.table({"src": ends[0], "dst": ends[1]}), wait=120.0)
            pushes.append(time.perf_counter() - began)
            if number == 0:
                client.put_labels("waits", {node: node % 2 for node in range(20)})
            time.sleep(rng.uniform(2.0, 3.0))
            began = time.perf_counter()
            job = client.wait(client.submit_solve("waits", "stable-hfs"))
            solves.append(time.perf_counter() - began)
            if job.started_at is not None:
                starts.append((job.started_at - job.created_at).total_seconds())
    CONSOLE.print(
        f"first push {pushes[0]:.2f} s, solve {solves[0]:.2f} s; medians of the others: push "
        f"{median(pushes[1:]):.3f} s, solve {median(solves[1:]):.3f} s, a job's start "
        f"{median(starts[1:]):.3f} s"
    )


def measure(home: Path, options: argparse.Namespace) -> None:
    """Serve a home and print what that costs."""
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
        took, ready = time.monotonic() - began, seconds_of(process.pid)
        time.sleep(options.settle)
        before, at = look(process.pid), time.monotonic()
        time.sleep(options.seconds)
        after, elapsed = look(process.pid), time.monotonic() - at
        if options.waits > 1:
            waits(f"http://127.0.0.1:{port}", options.waits)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    settled = sum(each.seconds for each in before.values())
    CONSOLE.print(f"ready: {ready:.2f} CPU s, {took:.1f} s; settled: {settled:.2f} CPU s")
    CONSOLE.print("process            CPU s  % of a core  RSS MiB  PSS MiB  USS MiB")
    shares = {
        pid: 100.0 * (each.seconds - before[pid].seconds) / elapsed
        for pid, each in after.items()
        if pid in before
    }
    rows = [
        (each.name, each.seconds, shares.get(pid, 0.0), *each[2:]) for pid, each in after.items()
    ]
    total = ("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))
    for name, spent, share, *memory in (*rows, total):
        sizes = "  ".join(f"{size / MEBIBYTE:7.0f}" for size in memory)
        CONSOLE.print(f"{name:17} {spent:6.2f}  {share:11.2f}  {sizes}")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--home", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=25.0)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--waits", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name) / "home"
        if options.home is None:
            home.mkdir()
        else:
            shutil.copytree(options.home, home)
        measure(home, options)


if __name__ == "__main__":
    main()
