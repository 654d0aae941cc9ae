"""How long until a node is gone from a large graph, and what a log of all edges costs until then?

Run ``python -m docs.benchmarks.erase`` or ``--quick``; ``--edges 1_000_000_000 --nodes 1_000_000``
is the large one. Files of a graph of communities (kept if ``--dir`` is given) are ingested without
deletions and with exact ones. Then a node leaves for good: its edges are struck and looked for in
the log, what that damaged is sampled anew, a snapshot is published, and then the log is written
without them. Each takes a process of its own, and is told by the clock and in CPU seconds.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from rich.console import Console
from rich.table import Table

from docs.benchmarks.communities import Communities
from docs.benchmarks.peak_memory import peak_bytes
from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Repaired
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

Row: TypeAlias = tuple[str, float, float, str]
"""What was done, seconds by the clock and of CPU, and a note."""

WARM_NODES: Final = 2_000


def opened(
    home: Path, deletions: Deletions, n_nodes: int, note: Callable[[IngestEvent], None]
) -> Stream:
    """The stream of a graph."""
    settings = StreamSettings(
        node_kind="dense",
        sparsifier=SparsifierSettings(epsilon=0.7, expected_nodes=n_nodes),
        deletions=deletions,
        n_threads=min(2, os.cpu_count() or 1),
    )
    return Stream(GraphPaths(root=home), settings, on_event=note)


def ingested(files: Path, home: Path, deletions: Deletions, n_nodes: int) -> list[Row]:
    """Edges from files to a snapshot."""
    clock, cpu = time.perf_counter(), time.process_time()
    summary = opened(home, deletions, n_nodes, _ignore).ingest(EdgeFiles(files).list())
    taken = time.perf_counter() - clock, time.process_time() - cpu
    note = f"{summary.edges_seen:,} edges"
    if deletions == "exact":
        size = sum(path.stat().st_size for path in (home / "log").iterdir())
        note += f", {size / summary.edges_seen:.1f} bytes of log each"
    return [(f"ingest, deletions {deletions}", *taken, note)]


def erased(files: Path, home: Path, deletions: Deletions, n_nodes: int) -> list[Row]:
    """A node that leaves, from the call to the snapshot without it."""
    repairs: list[Repaired] = []

    def note(event: IngestEvent) -> None:
        if isinstance(event, Repaired):
            repairs.append(event)

    stream = opened(home, deletions, n_nodes, note)
    n_dead = stream.state.n_dead
    began, clock, cpu = time.time(), time.perf_counter(), time.process_time()
    stream.erase(np.array([n_nodes // 2], np.int32))
    taken = time.perf_counter() - clock, time.process_time() - cpu
    gone = f"{stream.state.n_dead - n_dead:,} edges"
    rows = [("erase a node", *taken, gone)]
    for each in repairs:
        anew = f"{each.repair.n_edges:,} edges anew, {each.repair.n_damaged:,} nodes damaged"
        rows.append(("  resolved and repaired", each.seconds, np.nan, anew))
    snapshots = GraphPaths(root=home).snapshots
    published = max(path.stat().st_mtime for path in snapshots.rglob("*"))
    rows.append(("  until the snapshot without it", published - began, np.nan, ""))
    return rows


def _ignore(event: IngestEvent) -> None:
    """Nobody asks."""


def in_turn(
    task: Callable[..., list[Row]], warm: Path, files: Path, home: Path, *rest: object
) -> list[Row]:
    """Rows of a task, after everything was done once with a small graph, and most memory."""
    with tempfile.TemporaryDirectory() as directory:
        ingested(warm, Path(directory), "exact", WARM_NODES)
        erased(warm, Path(directory), "exact", WARM_NODES)
    (label, clock, cpu, note), *others = task(files, home, *rest)
    return [(label, clock, cpu, f"{note}, {peak_bytes() / 2**20:,.0f} MiB"), *others]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the files are, or are written")
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true", help="a million edges")
    options = parser.parse_args()
    if options.quick:
        options.edges, options.nodes = 1_000_000, 5_000
    console = Console(width=120)
    with tempfile.TemporaryDirectory(dir=options.dir and options.dir.parent) as directory:
        files, warm = options.dir or Path(directory, "files"), Path(directory, "warm")
        Communities(n_nodes=options.nodes, n_edges=options.edges).write(files)
        Communities(n_nodes=WARM_NODES, n_edges=400_000).write(warm)
        table = Table(title=f"{options.edges:,} edges, {options.nodes:,} nodes")
        for name in ("", "s", "CPU s", ""):
            table.add_column(name, justify="right" if "s" in name else "left")
        for task, deletions in ((ingested, "off"), (ingested, "exact"), (erased, "exact")):
            place = Path(directory, deletions)
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
                asked = alone.submit(in_turn, task, warm, files, place, deletions, options.nodes)
            for label, clock, cpu, note in asked.result():
                shown = "" if np.isnan(cpu) else f"{cpu:.2f}"
                table.add_row(label, f"{clock:.2f}", shown, note)
    console.print(table)


if __name__ == "__main__":
    main()
