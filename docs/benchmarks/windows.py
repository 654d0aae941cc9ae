"""Does a window of time keep the accuracy asked, and what does it cost?

Streams of one file for each bucket pass a window of 16 buckets, three times as many in all, with a
snapshot after every file:

- *drift*: six communities, of which a twentieth of the nodes change every bucket;
- *burst*: one bucket has twenty times the edges of others;
- *campaigns*: each bucket has the inner edges of one of sixteen communities, and a thin background.

Once the window is full, the true error of some snapshots is found by dense algebra, beside that of
a fresh stream of the edges that live; ``--cost`` measures CPU seconds instead, of larger streams,
beside the same files without a window, which keep all edges.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from docs.benchmarks.frame import CONSOLE, Figures, options
from docs.benchmarks.peak_memory import peak_bytes
from docs.benchmarks.streams import ingested, newest, opened
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.windows import Window
from peewit.streaming.events import IngestEvent, Repaired
from tests.reference.spectrum import spectral_error

N_BUCKETS: Final = 16
TURNS: Final = 3
"""So many windows of buckets pass."""

BACKGROUND: Final = 0.15
"""Part of the edges of campaigns that join any two nodes."""

Ends: TypeAlias = tuple[Int64Array, Int64Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of a stream: nodes, and edges of a usual bucket."""

    n_nodes: int
    n_edges: int


def drift(size: Size, rng: np.random.Generator) -> Callable[[int], Ends]:
    """Communities whose members change."""
    community = rng.integers(0, 6, size.n_nodes)

    def edges(_bucket: int) -> Ends:
        movers = rng.random(size.n_nodes) < 0.05
        community[movers] = rng.integers(0, 6, movers.sum())
        return edges_inside(community, size.n_edges, rng, between=0.02)

    return edges


def burst(size: Size, rng: np.random.Generator) -> Callable[[int], Ends]:
    """One bucket of many edges, in the second turn."""
    community = rng.integers(0, 6, size.n_nodes)

    def edges(bucket: int) -> Ends:
        n_edges = size.n_edges * (20 if bucket == N_BUCKETS + 2 else 1)
        return edges_inside(community, n_edges, rng, between=0.02)

    return edges


def campaigns(size: Size, rng: np.random.Generator) -> Callable[[int], Ends]:
    """Each community has its edges in one bucket of each turn."""
    community = np.arange(size.n_nodes) % N_BUCKETS

    def edges(bucket: int) -> Ends:
        n_inside = round((1.0 - BACKGROUND) * size.n_edges)
        members = np.flatnonzero(community == bucket % N_BUCKETS)
        inside = rng.choice(members, (2, n_inside))
        background = rng.integers(0, size.n_nodes, (2, size.n_edges - n_inside))
        u, v = np.concatenate([inside, background], axis=1)
        return u, v

    return edges


STREAMS: Final = {"drift": drift, "burst": burst, "campaigns": campaigns}


def edges_inside(
    community: Int64Array, n_edges: int, rng: np.random.Generator, between: float
) -> Ends:
    """Edges inside communities, and a part between any nodes."""
    order = np.argsort(community, kind="stable")
    first = np.searchsorted(community[order], np.arange(7))
    u = rng.integers(0, community.size, n_edges)
    start, stop = first[community[u]], first[community[u] + 1]
    v = order[start + (rng.random(n_edges) * (stop - start)).astype(np.int64)]
    is_between = rng.random(n_edges) < between
    v[is_between] = rng.integers(0, community.size, is_between.sum())
    return u, v


@dataclass(slots=True)
class Repairs:
    """How often edges were sampled anew, and how many."""

    n_parts: int = 0
    n_all: int = 0
    n_edges: int = 0

    def note(self, event: IngestEvent) -> None:
        if isinstance(event, Repaired):
            self.n_parts += event.repair.kind == "part"
            self.n_all += event.repair.kind == "all"
            self.n_edges += event.repair.n_edges


def settings_of(size: Size, epsilon: float, seed: int, *, has_window: bool) -> dict[str, Any]:
    window = Window(length=N_BUCKETS - 1.0, width=1.0, allowed_ahead=1e9)
    usual = {"epsilon": epsilon, "expected_nodes": size.n_nodes, "seed": seed, "n_threads": 1}
    return usual | ({"deletions": "exact", "window": window} if has_window else {})


def write(path: Path, ends: Ends, bucket: int | None = None) -> None:
    """A file of edges, all in the middle of a bucket."""
    columns: dict[str, Any] = {"src": ends[0], "dst": ends[1]}
    if bucket is not None:
        microseconds = np.full(ends[0].size, 1_000_000 * bucket + 500_000)
        columns["time"] = pa.array(microseconds).cast(pa.timestamp("us"))
    pq.write_table(pa.table(columns), path)


def looks(
    name: str, size: Size, epsilon: float, seed: int, every: int
) -> tuple[list[tuple[float, ...]], int]:
    """Of some snapshots of a full window, errors, a fresh stream's, those that are expected, and
    records of the buffer to those published; and the edges that were sampled anew."""
    rng = np.random.default_rng(seed)
    edges, repairs = STREAMS[name](size, rng), Repairs()
    found: list[tuple[float, ...]] = []
    kept: list[Ends] = []
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        home, settings = root / "graph", settings_of(size, epsilon, seed, has_window=True)
        stream = opened(home, repairs.note, **settings)
        for bucket in range(TURNS * N_BUCKETS):
            kept = [*kept, edges(bucket)][-N_BUCKETS:]
            write(path := root / f"{bucket:03d}.parquet", kept[-1], bucket)
            stream.ingest(EdgeFiles(path, columns=EdgeColumns(time="time")).list())
            path.unlink()
            if bucket < N_BUCKETS or (bucket - N_BUCKETS) % every:
                continue
            snapshot = newest(home)
            u, v = (np.concatenate(columns) for columns in zip(*kept, strict=True))
            exact = Graph.from_edges(u, v, np.ones(u.size), n_nodes=snapshot.meta.n_nodes)
            fresh = root / f"fresh-{bucket}"
            fresh.mkdir()
            write(fresh / "edges.parquet", (u, v))
            settings = settings_of(size, epsilon, seed, has_window=False)
            alone = ingested(fresh / "graph", fresh / "edges.parquet", **settings)
            room = stream.state.n_records / snapshot.meta.n_records
            errors = (_error(exact, each.graph) for each in (snapshot, alone))
            found.append((*errors, snapshot.meta.epsilon_expected, room))
    return found, repairs.n_edges


def _error(exact: Graph, kept: Graph) -> float:
    is_same = np.array_equal(exact.component, kept.component)
    return spectral_error(exact, kept) if is_same else np.inf


def show_errors(epsilon: float, n_seeds: int, every: int) -> None:
    size = Size(n_nodes=1_200, n_edges=24_000)
    columns = "stream|mean {:.3f}|largest {:.3f}|expected {:.3f}|fresh {:.3f}|largest {:.3f}|"
    columns += "to fresh {:.2f}|anew {:.1%}|room {:.1f}"
    table = Figures(f"errors, asked {epsilon:g}, {n_seeds} seeds", columns)
    for name in STREAMS:
        of_all, n_anew = zip(
            *(looks(name, size, epsilon, seed, every) for seed in range(n_seeds)), strict=True
        )
        errors, fresh, expected, room = np.concatenate(of_all).T
        n_edges = n_seeds * TURNS * N_BUCKETS * size.n_edges
        table.add(
            *(name, errors.mean(), errors.max(), expected.mean(), fresh.mean(), fresh.max()),
            *(errors.mean() / fresh.mean(), sum(n_anew) / n_edges, room.max()),
        )
    CONSOLE.print(table)


def show_costs(n_edges: int, n_nodes: int, together: int) -> None:
    """CPU of the same files with a window and without one."""
    size, epsilon = Size(n_nodes=n_nodes, n_edges=n_edges), 0.7
    columns = (
        "stream|ns of CPU an edge {:.0f}|to none {:.2f}|parts|all|anew {:.1%}|peak MiB {:,.0f}"
    )
    title = f"a snapshot for {together} files of {n_edges:,} edges; {n_nodes:,} nodes"
    table = Figures(title, columns)
    for name, stream in STREAMS.items():
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            edges = stream(size, np.random.default_rng(0))
            for bucket in range(TURNS * N_BUCKETS):
                write(root / f"{bucket:03d}.parquet", edges(bucket), bucket)
            alone = 0.0
            for has_window in (False, True):
                repairs = Repairs()
                settings = settings_of(size, epsilon, 0, has_window=has_window)
                made = opened(root / f"graph-{has_window}", repairs.note, **settings)
                columns = EdgeColumns(time="time") if has_window else EdgeColumns()
                files = EdgeFiles(str(root / "*.parquet"), columns=columns).list()
                for file in files[:N_BUCKETS]:
                    made.ingest([file])
                repairs.n_parts = repairs.n_all = repairs.n_edges = 0
                started = time.process_time()
                for first in range(N_BUCKETS, len(files), together):
                    made.ingest(files[first : first + together])
                taken = time.process_time() - started
                alone = alone or taken
                n_passed = n_edges * (TURNS - 1) * N_BUCKETS
                table.add(
                    name if has_window else f"{name}, no window",
                    *(1e9 * taken / n_passed, taken / alone, repairs.n_parts, repairs.n_all),
                    *(repairs.n_edges / n_passed, peak_bytes() / 2**20),
                )
    CONSOLE.print(table)


def main() -> None:
    asked = options(
        __doc__,
        quick={"seeds": 1, "epsilon": [0.7], "edges": 20_000},
        seeds=10,
        epsilon=[0.9, 0.5, 0.3],
        every=(3, "buckets from one look to the next"),
        cost=False,
        together=(1, "files from snapshot to snapshot"),
        edges=(500_000, "of a bucket, for costs"),
        nodes=(10_000, "for costs"),
    )
    if asked.cost:
        show_costs(asked.edges, asked.nodes, asked.together)
        return
    for epsilon in asked.epsilon:
        show_errors(epsilon, asked.seeds, asked.every)


if __name__ == "__main__":
    main()
