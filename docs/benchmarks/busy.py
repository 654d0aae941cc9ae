"""Solves on a machine that others keep busy: do they end in proportion, and does progress rise?

`peewit serve` on ten communities, beside so many processes that compute without end. A solve is
followed by its events: its seconds, the processor seconds of its process, and which part of a fair
share they are (two threads of a solve beside k others on c processors would get 2 c / (k + 2)
of them, at most 2 and at most c). Then a label is put, and `auto_solve` brings its prediction.
"""

import os
import time
from pathlib import Path
from typing import Final

import numpy as np

from docs.benchmarks.first_contact import busy
from docs.benchmarks.frame import CONSOLE, options
from docs.benchmarks.load import cpu_seconds, home_of
from peewit.service.client import Client
from tests.end_to_end.processes import Home, Server

LIMIT: Final = 1800.0


def followed(client: Client, model: str) -> tuple[float, float, int]:
    """Seconds of a solve, the part that was told as done last, and how often that fell."""
    began = time.monotonic()
    job = client.submit_solve("g", model)
    told = [
        event.data["fraction"]
        for event in client.events(job.id)
        if event.kind == "progress" and event.data["fraction"] is not None
    ]
    n_falls = int((np.diff(told) < 0.0).sum())
    ended = client.job(job.id)
    if ended.status != "succeeded":
        raise SystemExit(f"the solve {ended.status}: {ended.error}")
    return time.monotonic() - began, max(told, default=0.0), n_falls


def measure(home: Home, directory: Path, model: str, counts: list[int]) -> None:
    """A solve and an automatic one beside each number of busy processes."""
    ids = np.load(directory / "nodes.npy")
    server = Server(home, "serve")
    client = home.closing(Client(server.url, timeout_seconds=LIMIT))
    client.update_graph("g", auto_solve=None)
    followed(client, model)  # loads and prepares
    n_processors = os.cpu_count() or 1
    for turn, n_busy in enumerate(counts):
        with busy(n_busy):
            before = cpu_seconds(server.process.pid)
            seconds, last, n_falls = followed(client, model)
            used = cpu_seconds(server.process.pid) - before
            fair = min(2.0, n_processors, 2.0 * n_processors / (n_busy + 2))
            CONSOLE.print(
                f"beside {n_busy:>3}  solve {seconds:7.1f} s  processor {used:6.1f} s  "
                f"of a fair share {used / (seconds * fair):5.2f}  told {last:.0%}, "
                f"which fell {n_falls} times"
            )
            began = time.monotonic()
            client.update_graph("g", auto_solve={"model": model})
            node = int(ids[turn])
            put = client.put_labels("g", {node: "class-0"})
            while client.prediction("g", node).labels_seq < put.labels_seq:
                time.sleep(0.1)
            CONSOLE.print(
                f"{'':<12}from a label to its prediction {time.monotonic() - began:.1f} s"
            )
            client.update_graph("g", auto_solve=None)


def main() -> None:
    asked = options(__doc__, nodes=200_000, busy=[0, 8, 30], model="harmonic-mbo", home=Path)
    with home_of(asked.home, asked.nodes) as directory:
        home = Home(directory / "home", PEEWIT_LOG_LEVEL="warning")
        try:
            measure(home, directory, asked.model, asked.busy)
        finally:
            home.end()


if __name__ == "__main__":
    main()
