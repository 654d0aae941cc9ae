"""A whole ingest beside plain reading of the same files, each in a process of its own.

A graph of communities (kept if ``--dir`` is given) is read with pyarrow on two threads and
ingested: speeds, their ratio and memory. ``--family all --nodes 1_000_000 --edges 8_000_000`` has
graphs that do not mix well beside, roads with 1.3 edges a node whatever is asked. ``--relations 4``
also deals the files to so many relations, and both ingests keep ``--max-edges`` in place of an
epsilon.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from docs.benchmarks.edge_families import FAMILIES, write
from docs.benchmarks.frame import CONSOLE, Figures, Spent, alone, options, spent
from docs.benchmarks.peak_memory import peak_bytes
from docs.benchmarks.streams import newest_meta, opened
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.sources import EdgeFiles

Outcome = tuple[int, str, Spent, float]
"""Edges, notes, seconds, and peak MiB of one process."""


def read(directory: Path, n_threads: int) -> tuple[int, str]:
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
    kept_share: float | None,
    n_relations: int,
) -> tuple[int, str]:
    """Files to snapshot by the stream, with its checkpoints, dealt to relations if need be."""
    files = EdgeFiles(directory).list()
    n_edges = sum(pq.read_metadata(file.path).num_rows for file in files)
    with tempfile.TemporaryDirectory(dir=directory.parent) as home:
        stream = opened(
            Path(home),
            node_kind=node_kind,
            epsilon=None if kept_share else epsilon,
            max_edges=kept_share and round(kept_share * n_edges),
            expected_nodes=n_nodes,
            n_threads=n_threads,
            memory_limit=memory_limit,
        )
        if n_relations:
            names = [EdgeColumns(relation=f"relation {each}") for each in range(n_relations)]
            files = [
                replace(file, columns=names[place % n_relations])
                for place, file in enumerate(files)
            ]
        summary, meta = stream.ingest(files), newest_meta(Path(home))
    notes = (
        f"kept {meta.edges_kept:,}, {meta.n_resparsifications} resparsifications, "
        f"epsilon {meta.epsilon_expected:.2f} expected"
    )
    return summary.edges_seen, notes


def measured(task: Callable[..., tuple[int, str]], warm: Path, *arguments: object) -> Outcome:
    """Outcome of a task that has been done once with a small graph."""
    task(warm, *arguments[1:])
    with spent() as taken:
        n_edges, notes = task(*arguments)
    return n_edges, notes, taken, peak_bytes() / 2**20


def main() -> None:
    asked = options(
        __doc__,
        quick={"edges": 1_000_000, "nodes": 5_000},
        dir=(Path, "where the files are, or are written"),
        family=("communities", [*FAMILIES, "all"]),
        edges=100_000_000,
        nodes=200_000,
        epsilon=0.7,
        threads=min(2, os.cpu_count() or 1),
        memory_limit=str,
        relations=0,
        max_edges=(10_000_000, "where there are relations"),
    )
    families = [*FAMILIES] if asked.family == "all" else [asked.family]
    table = Figures(
        f"{asked.edges:,} edges, {asked.nodes:,} nodes, {asked.threads} threads",
        "|s {:.2f}|CPU s {:.2f}|M edges/s {:.1f}|of reading|by CPU|peak MiB {:,.0f}",
    )
    all_notes = []
    for family in families:
        with tempfile.TemporaryDirectory() as temporary:
            rows = _both(family, asked, Path(temporary))
        all_notes += [f"{family}, {name}: {row[1]}" for name, row in rows.items() if row[1]]
        base = rows["pyarrow reading"][2]
        for name, (n_edges, _, taken, mib) in rows.items():
            ratios = f"1/{taken.wall / base.wall:.1f}", f"1/{taken.cpu / base.cpu:.1f}"
            speed = n_edges / taken.wall / 1e6
            table.add(f"{family}, {name}", taken.wall, taken.cpu, speed, *ratios, mib)
    CONSOLE.print(table, *all_notes, sep="\n")


def _both(family: str, asked: argparse.Namespace, temporary: Path) -> dict[str, Outcome]:
    """Reading and ingest of one family, after a small graph has made every kernel compile."""
    directory = (asked.dir or temporary) / f"{family}-{asked.edges}-{asked.nodes}"
    kind = write(family, directory, n_nodes=asked.nodes, n_edges=asked.edges)
    warm, limit = temporary / "warm", asked.memory_limit and _size(asked.memory_limit)
    write(family, warm, n_nodes=2_000, n_edges=400_000 if family == "communities" else 40_000)
    reading = read, warm, directory, asked.threads
    alone(measured, *reading)  # files into the page cache
    share = asked.max_edges / asked.edges if asked.relations else None  # so that both thin
    of_ingest = *reading[1:], asked.nodes, asked.epsilon, limit, kind, share
    rows = {
        "pyarrow reading": alone(measured, *reading),
        "ingest": alone(measured, ingest, *of_ingest, 0),
    }
    if asked.relations:
        name = f"ingest, {asked.relations} relations"
        rows[name] = alone(measured, ingest, *of_ingest, asked.relations)
    return rows


def _size(text: str) -> int:
    units = {"GiB": 2**30, "MiB": 2**20}
    for unit, factor in units.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)


if __name__ == "__main__":
    main()
