"""A whole ingest beside plain reading of the same files, each in a process of its own.

``python -m docs.benchmarks.ingest`` writes a graph of communities (kept if ``--dir`` is given),
reads it with pyarrow on two threads, ingests it, and prints speeds, their ratio and memory.
``--edges 1_000_000_000 --nodes 1_000_000 --memory-limit 2.5GiB`` is the large one, ``--family all
--nodes 1_000_000 --edges 8_000_000`` has graphs that do not mix well beside, roads with 1.3 edges a
node whatever is asked.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from docs.benchmarks.edge_families import FAMILIES, write
from docs.benchmarks.peak_memory import peak_bytes
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one process did."""

    n_edges: int
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    notes: str = ""


def read(directory: Path, n_threads: int) -> tuple[int, str]:
    """Decode every row group, as pyarrow does by itself."""

    def read_file(path: Path) -> int:
        with pq.ParquetFile(path) as parquet:
            groups = range(parquet.num_row_groups)
            return sum(parquet.read_row_group(g, use_threads=False).num_rows for g in groups)

    with ThreadPoolExecutor(n_threads) as pool:
        return sum(pool.map(read_file, sorted(directory.glob("*.parquet")))), ""


def ingest(
    directory: Path,
    n_threads: int,
    n_nodes: int,
    epsilon: float,
    memory_limit: int | None,
    node_kind: NodeKind,
) -> tuple[int, str]:
    """Files to snapshot by the stream, with its checkpoints."""
    settings = StreamSettings(
        node_kind=node_kind,
        sparsifier=SparsifierSettings(epsilon=epsilon, expected_nodes=n_nodes),
        n_threads=n_threads,
        memory_limit=memory_limit,
    )
    with tempfile.TemporaryDirectory(dir=directory.parent) as home:
        paths = GraphPaths(root=Path(home))
        summary = Stream(paths, settings).ingest(EdgeFiles(directory).list())
        meta = SnapshotStore(paths.snapshots).list()[-1]
    notes = (
        f"kept {meta.edges_kept:,}, {meta.n_resparsifications} resparsifications, "
        f"epsilon {meta.epsilon_expected:.2f} expected"
    )
    return summary.edges_seen, notes


def measured(task: Callable[..., tuple[int, str]], warm: Path, *arguments: object) -> Outcome:
    """Outcome of a task in a new process, which has done it once with a small graph."""
    context = get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_run, args=(theirs, task, warm, arguments))
    process.start()
    theirs.close()
    try:
        outcome: Outcome = mine.recv()
    finally:
        process.join()
    return outcome


def _run(
    answer: Connection,
    task: Callable[..., tuple[int, str]],
    warm: Path,
    arguments: tuple[object, ...],
) -> None:
    task(warm, *arguments[1:])
    started, cpu = time.perf_counter(), time.process_time()
    n_edges, notes = task(*arguments)
    answer.send(
        Outcome(
            n_edges=n_edges,
            seconds=time.perf_counter() - started,
            cpu_seconds=time.process_time() - cpu,
            peak_bytes=peak_bytes(),
            notes=notes,
        )
    )


def main() -> None:
    """Print reading and ingest side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the files are, or are written")
    parser.add_argument("--family", choices=[*FAMILIES, "all"], default="communities")
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--epsilon", type=float, default=0.7)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--memory-limit", type=_size)
    parser.add_argument("--quick", action="store_true", help="a million edges")
    options = parser.parse_args()
    if options.quick:
        options.edges, options.nodes = 1_000_000, 5_000
    families = [*FAMILIES] if options.family == "all" else [options.family]
    console = Console(width=120)
    table = Table(
        title=f"{options.edges:,} edges, {options.nodes:,} nodes, {options.threads} threads"
    )
    for name in ("", "s", "CPU s", "M edges/s", "of reading", "by CPU", "peak MiB"):
        table.add_column(name, justify="left" if not name else "right")
    notes = []
    for family in families:
        with tempfile.TemporaryDirectory() as temporary:
            rows = _both(family, options, Path(temporary))
        notes.append(f"{family}: {rows['ingest'].notes}")
        base = rows["pyarrow reading"]
        for name, outcome in rows.items():
            table.add_row(
                f"{family}, {name}",
                f"{outcome.seconds:.2f}",
                f"{outcome.cpu_seconds:.2f}",
                f"{outcome.n_edges / outcome.seconds / 1e6:.1f}",
                f"1/{outcome.seconds / base.seconds:.1f}",
                f"1/{outcome.cpu_seconds / base.cpu_seconds:.1f}",
                f"{outcome.peak_bytes / 2**20:,.0f}",
            )
    console.print(table)
    console.print("\n".join(notes))


def _both(family: str, options: argparse.Namespace, temporary: Path) -> dict[str, Outcome]:
    """Reading and ingest of one family, after a small graph has made every kernel compile."""
    place = options.dir or temporary
    directory = place / f"{family}-{options.edges}-{options.nodes}"
    kind = write(family, directory, n_nodes=options.nodes, n_edges=options.edges)
    warm = temporary / "warm"
    write(family, warm, n_nodes=2_000, n_edges=400_000 if family == "communities" else 40_000)
    measured(read, warm, directory, options.threads)  # files into the page cache
    return {
        "pyarrow reading": measured(read, warm, directory, options.threads),
        "ingest": measured(
            ingest,
            warm,
            directory,
            options.threads,
            options.nodes,
            options.epsilon,
            options.memory_limit,
            kind,
        ),
    }


def _size(text: str) -> int:
    units = {"GiB": 2**30, "MiB": 2**20}
    for unit, factor in units.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)


if __name__ == "__main__":
    main()
