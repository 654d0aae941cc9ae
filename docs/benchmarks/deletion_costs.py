"""What does it cost to delete edges: to log them, to resolve deletes, to strike records?

In CPU seconds of one thread: an ingest without deletions and with them; then so many rows that
insert edges which are there already, and as many that delete them, each with its snapshot; and
strikes alone.
"""

import tempfile
import time
from pathlib import Path
from typing import Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from docs.benchmarks.frame import CONSOLE, Figures, cpu_of, options, show
from docs.benchmarks.streams import opened
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Repaired
from peewit.streaming.graph_stream import Stream
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import absorb
from peewit.streaming.sparsifier.strikes import strike

STRUCK: Final = (1_000, 100_000, 1_000_000)


def show_strikes(n_nodes: int) -> None:
    """CPU nanoseconds of a strike for each record of the sparsifier."""
    rng = np.random.default_rng(0)
    n_edges = 10 * n_nodes
    u, v = rng.integers(0, n_nodes, (2, n_edges), dtype=np.int32)
    block = EdgeBlock(u=u, v=v, weight=np.ones(n_edges, np.float32), n_rows=n_edges)
    state = absorb(SparsifierState(), SparsifierSettings(epsilon=0.7), [block], n_nodes=n_nodes)
    strike(state, u[:10], v[:10])  # compiles
    rows = []
    for n_pairs in STRUCK:
        chosen = rng.choice(n_edges, min(n_pairs, n_edges), replace=False)
        _, seconds = cpu_of(strike, state, u[chosen], v[chosen])
        rows.append((chosen.size, 1e9 * seconds / state.n_records))
    title = f"a strike from {state.n_records:,} records of {n_nodes:,} nodes"
    show(title, "pairs {:,}|ns of CPU a record {:.1f}", rows, left=0)


def show_log(n_nodes: int) -> None:
    """CPU of an ingest with a log to one without, and of resolving deletes."""
    n_edges, rng = 20 * n_nodes, np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        group = n_nodes // 50
        first = rng.integers(0, n_nodes, n_edges, dtype=np.int32)
        second = first // group * group + rng.integers(0, group, n_edges, dtype=np.int32)
        inserts = pa.table({"src": first, "dst": second})
        pq.write_table(inserts, root / "inserts.parquet")
        seconds = {}
        pq.write_table(inserts.slice(0, 1_000), root / "few.parquet")
        for name in ("warm", "warm again"):  # compiles
            _stream(root / name, "exact", n_nodes).ingest(EdgeFiles(root / "few.parquet").list())
        for deletions in get_args(Deletions):
            began = time.process_time()
            stream = _stream(root / deletions, deletions, n_nodes)
            stream.ingest(EdgeFiles(root / "inserts.parquet").list())
            seconds[deletions] = time.process_time() - began
        title = f"{n_edges:,} edges of {n_nodes:,} nodes, in CPU seconds"
        table = Figures(title, "|s {:.2f}|note")
        for deletions, taken in seconds.items():
            ratio = f"{taken / seconds['off']:.2f} of off"
            table.add(f"ingest, deletions {deletions}", taken, ratio)
        log = sum(path.stat().st_size for path in (root / "exact" / "log").iterdir())
        table.add("its log", "", f"{log / n_edges:.1f} bytes an edge")
        for n_pairs in (10, n_edges // 1_000, n_edges // 50):
            rows = rng.choice(n_edges, n_pairs, replace=False)
            for op in ("insert", "delete"):  # the inserts, so that all deletes meet an edge
                columns = {"src": first[rows], "dst": second[rows], "op": [op] * n_pairs}
                path = root / f"{op}-{n_pairs}.parquet"
                pq.write_table(pa.table(columns), path)
                told: list[Repaired] = []
                stream = _stream(root / "exact", "exact", n_nodes, told)
                files = EdgeFiles(path, columns=CHANGES).list()
                _, seconds[op] = cpu_of(stream.ingest, files)
                sampled = told[0].repair.n_edges if told else 0
                note = f"{sampled:,} edges anew" if op == "delete" else ""
                if op == "delete":
                    more = 1e6 * (seconds["delete"] - seconds["insert"]) / n_pairs
                    note += f", {more:.2f} microseconds more than an insert, each"
                table.add(f"{n_pairs:,} rows that {op}, a snapshot", seconds[op], note)
        CONSOLE.print(table)


def _stream(
    root: Path, deletions: Deletions, n_nodes: int, told: list[Repaired] | None = None
) -> Stream:
    def note(event: IngestEvent) -> None:
        if told is not None and isinstance(event, Repaired):
            told.append(event)

    size = {"epsilon": 0.7, "expected_nodes": n_nodes}
    return opened(root, note, deletions=deletions, n_threads=1, **size)


def main() -> None:
    asked = options(__doc__, quick={"nodes": 20_000}, nodes=1_000_000)
    show_log(asked.nodes)
    show_strikes(asked.nodes)


if __name__ == "__main__":
    main()
