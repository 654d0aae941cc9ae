"""Edges that a dask.dataframe computes, beside the Parquet files that it reads, read directly.

`sparsify` takes both, each in a process of its own, after a small graph has made every kernel
compile: CPU seconds, their ratio, and memory. "partitions" computes the frame as tables and drops
them, which is dask's share. A frame has a row group of a million rows a partition.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import dask.dataframe as dd

from docs.benchmarks.edge_families import FAMILIES, write
from docs.benchmarks.frame import Spent, alone, options, show, spent
from docs.benchmarks.peak_memory import peak_bytes
from peewit.streaming import sparsify
from peewit.streaming.calls.dask_partitions import DaskPartitions
from peewit.streaming.edges.column_mapping import PLAIN

EPSILON = 0.7

Task = Callable[[Path, int, int], int]


def files(directory: Path, n_nodes: int, n_threads: int) -> int:
    result = sparsify(directory, EPSILON, n_nodes=n_nodes, n_threads=n_threads)
    return result.edges_kept


def frame(directory: Path, n_nodes: int, n_threads: int) -> int:
    edges = dd.read_parquet(directory, split_row_groups=True)
    return sparsify(edges, EPSILON, n_nodes=n_nodes, n_threads=n_threads).edges_kept


def partitions(directory: Path, n_nodes: int, n_threads: int) -> int:
    del n_nodes
    edges = dd.read_parquet(directory, split_row_groups=True)
    return sum(each.table.num_rows for each in DaskPartitions(edges, PLAIN).tables(n_threads))


TASKS: dict[str, Task] = {"files": files, "frame": frame, "partitions": partitions}


def measured(
    name: str, warm: Path, directory: Path, n_nodes: int, n_threads: int
) -> tuple[int, Spent, float]:
    """What a task gives once it has been done with a small graph, its seconds, and peak MiB."""
    TASKS[name](warm, n_nodes, n_threads)
    with spent() as taken:
        n_edges = TASKS[name](directory, n_nodes, n_threads)
    return n_edges, taken, peak_bytes() / 2**20


def main() -> None:
    asked = options(
        __doc__,
        quick={"edges": 1_000_000, "nodes": 5_000},
        dir=(Path, "where the files are, or are written"),
        family=("communities", [*FAMILIES]),
        edges=100_000_000,
        nodes=200_000,
        threads=min(2, os.cpu_count() or 1),
    )
    found: dict[str, tuple[int, Spent, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        directory = (asked.dir or Path(temporary)) / f"{asked.family}-{asked.edges}-{asked.nodes}"
        write(asked.family, directory, n_nodes=asked.nodes, n_edges=asked.edges)
        warm = Path(temporary) / "warm"
        write(asked.family, warm, n_nodes=2_000, n_edges=40_000)
        for name in ("partitions", *TASKS):  # the first brings the files into the page cache
            found[name] = alone(measured, name, warm, directory, asked.nodes, asked.threads)
    base = found["files"][1].cpu
    rows = [
        (name, taken.wall, taken.cpu, taken.cpu / base, n_edges, mib)
        for name, (n_edges, taken, mib) in found.items()
    ]
    title = f"{asked.family}, {asked.edges:,} edges, {asked.nodes:,} nodes, {asked.threads} threads"
    show(title, "|s {:.1f}|CPU s {:.1f}|of files {:.2f}|edges {:,}|peak MiB {:,.0f}", rows)


if __name__ == "__main__":
    main()
