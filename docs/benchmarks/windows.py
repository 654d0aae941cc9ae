"""Does a window of time keep the accuracy asked, and what does it cost?

Run ``python -m docs.benchmarks.windows`` or ``--quick``. Streams of one file for each bucket pass a
window of 16 buckets, three times as many in all, with a snapshot after every file:

- *drift*: six communities, of which a twentieth of the nodes change every bucket;
- *burst*: one bucket has twenty times the edges of others;
- *campaigns*: each bucket has the inner edges of one of sixteen communities, and a thin background.

Once the window is full, the true error of some snapshots is found by dense algebra, beside that of
a fresh stream of the edges that live; ``--cost`` measures CPU seconds instead, of larger streams,
beside the same files without a window, which keep all edges.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from docs.benchmarks.peak_memory import peak_bytes
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.windows import Window
from peewit.streaming.events import IngestEvent, Repaired
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
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
        return _inside(community, size.n_edges, rng, between=0.02)

    return edges


def burst(size: Size, rng: np.random.Generator) -> Callable[[int], Ends]:
    """One bucket of many edges, in the second turn."""
    community = rng.integers(0, 6, size.n_nodes)

    def edges(bucket: int) -> Ends:
        n_edges = size.n_edges * (20 if bucket == N_BUCKETS + 2 else 1)
        return _inside(community, n_edges, rng, between=0.02)

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


def _inside(community: Int64Array, n_edges: int, rng: np.random.Generator, between: float) -> Ends:
    """Edges inside communities, and a part between any nodes."""
    order = np.argsort(community, kind="stable")
    first = np.searchsorted(community[order], np.arange(7))
    u = rng.integers(0, community.size, n_edges)
    start, stop = first[community[u]], first[community[u] + 1]
    v = order[start + (rng.random(n_edges) * (stop - start)).astype(np.int64)]
    is_between = rng.random(n_edges) < between
    v[is_between] = rng.integers(0, community.size, is_between.sum())
    return u, v


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was found of one snapshot: errors, and records of the buffer to those published."""

    bucket: int
    error: float
    fresh: float
    expected: float
    room: float


@dataclass(slots=True)
class Repairs:
    """How often edges were sampled anew, and how many."""

    n_parts: int = 0
    n_all: int = 0
    n_edges: int = 0

    def note(self, event: IngestEvent) -> None:
        """Count a repair."""
        if isinstance(event, Repaired):
            self.n_parts += event.repair.kind == "part"
            self.n_all += event.repair.kind == "all"
            self.n_edges += event.repair.n_edges


def settings_of(size: Size, epsilon: float, seed: int, *, has_window: bool) -> StreamSettings:
    """Of a stream, with a window or without."""
    window = Window(length=N_BUCKETS - 1.0, width=1.0, allowed_ahead=1e9)
    return StreamSettings(
        node_kind="dense",
        sparsifier=SparsifierSettings(epsilon=epsilon, expected_nodes=size.n_nodes, seed=seed),
        deletions="exact" if has_window else "off",
        window=window if has_window else None,
        n_threads=1,
    )


def write(path: Path, ends: Ends, bucket: int | None = None) -> None:
    """A file of edges, all in the middle of a bucket."""
    columns: dict[str, Any] = {"src": ends[0], "dst": ends[1]}
    if bucket is not None:
        microseconds = np.full(ends[0].size, 1_000_000 * bucket + 500_000)
        columns["time"] = pa.array(microseconds).cast(pa.timestamp("us"))
    pq.write_table(pa.table(columns), path)


def looks(name: str, size: Size, epsilon: float, seed: int, every: int) -> tuple[list[Look], int]:
    """Errors of some snapshots of a full window, and edges that were sampled anew."""
    rng = np.random.default_rng(seed)
    edges, repairs = STREAMS[name](size, rng), Repairs()
    found: list[Look] = []
    kept: list[Ends] = []
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        settings = settings_of(size, epsilon, seed, has_window=True)
        paths = GraphPaths(root=root / "graph")
        stream = Stream(paths, settings, on_event=repairs.note)
        for bucket in range(TURNS * N_BUCKETS):
            kept = [*kept, edges(bucket)][-N_BUCKETS:]
            write(path := root / f"{bucket:03d}.parquet", kept[-1], bucket)
            stream.ingest(EdgeFiles(path, columns=EdgeColumns(time="time")).list())
            path.unlink()
            if bucket < N_BUCKETS or (bucket - N_BUCKETS) % every:
                continue
            newest = stream.summary().newest
            if newest is None:
                raise RuntimeError("a snapshot must be there")
            u, v = (np.concatenate(columns) for columns in zip(*kept, strict=True))
            exact = Graph.from_edges(u, v, np.ones(u.size), n_nodes=newest.n_nodes)
            loaded = SnapshotStore(paths.snapshots).load(newest.number).graph
            found.append(
                Look(
                    bucket=bucket,
                    error=_error(exact, loaded),
                    fresh=_fresh(root / f"fresh-{bucket}", (u, v), exact, size, epsilon, seed),
                    expected=newest.epsilon_expected,
                    room=stream.state.n_records / newest.n_records,
                )
            )
    return found, repairs.n_edges


def _fresh(root: Path, ends: Ends, exact: Graph, size: Size, epsilon: float, seed: int) -> float:
    """Error of a stream that never had another edge."""
    root.mkdir()
    write(root / "edges.parquet", ends)
    paths = GraphPaths(root=root / "graph")
    stream = Stream(paths, settings_of(size, epsilon, seed, has_window=False))
    newest = stream.ingest(EdgeFiles(root / "edges.parquet").list()).snapshot
    if newest is None:
        raise RuntimeError("a snapshot must be there")
    return _error(exact, SnapshotStore(paths.snapshots).load(newest).graph)


def _error(exact: Graph, kept: Graph) -> float:
    is_same = np.array_equal(exact.component, kept.component)
    return spectral_error(exact, kept) if is_same else np.inf


def show_errors(epsilon: float, n_seeds: int, every: int, console: Console) -> None:
    """True and expected errors over the looks and seeds."""
    size = Size(n_nodes=1_200, n_edges=24_000)
    table = Table(title=f"errors, asked {epsilon:g}, {n_seeds} seeds")
    table.add_column("stream")
    for heading in ("mean", "largest", "expected", "fresh", "largest", "to fresh", "anew", "room"):
        table.add_column(heading, justify="right")
    for name in STREAMS:
        of_all: list[Look] = []
        n_anew = 0
        for seed in range(n_seeds):
            found, n_more = looks(name, size, epsilon, seed, every)
            of_all += found
            n_anew += n_more
        errors, fresh = (np.array([getattr(look, each) for look in of_all]) for each in _ERRORS)
        n_edges = n_seeds * TURNS * N_BUCKETS * size.n_edges
        table.add_row(
            name,
            f"{errors.mean():.3f}",
            f"{errors.max():.3f}",
            f"{np.mean([look.expected for look in of_all]):.3f}",
            f"{fresh.mean():.3f}",
            f"{fresh.max():.3f}",
            f"{errors.mean() / fresh.mean():.2f}",
            f"{n_anew / n_edges:.1%}",
            f"{np.max([look.room for look in of_all]):.1f}",
        )
    console.print(table)


_ERRORS: Final = ("error", "fresh")


def show_costs(n_edges: int, n_nodes: int, together: int, console: Console) -> None:
    """CPU of the same files with a window and without one."""
    size, epsilon = Size(n_nodes=n_nodes, n_edges=n_edges), 0.7
    table = Table(title=f"a snapshot for {together} files of {n_edges:,} edges; {n_nodes:,} nodes")
    for heading in ("stream", "ns of CPU an edge", "to none", "parts", "all", "anew", "peak MiB"):
        table.add_column(heading, justify="right")
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
                made = Stream(
                    GraphPaths(root=root / f"graph-{has_window}"), settings, on_event=repairs.note
                )
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
                table.add_row(
                    name if has_window else f"{name}, no window",
                    f"{1e9 * taken / n_passed:.0f}",
                    f"{taken / alone:.2f}",
                    str(repairs.n_parts),
                    str(repairs.n_all),
                    f"{repairs.n_edges / n_passed:.1%}",
                    f"{peak_bytes() / 2**20:,.0f}",
                )
    console.print(table)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.9, 0.5, 0.3])
    parser.add_argument("--every", type=int, default=3, help="buckets from one look to the next")
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--together", type=int, default=1, help="files from snapshot to snapshot")
    parser.add_argument("--edges", type=int, default=500_000, help="of a bucket, for costs")
    parser.add_argument("--nodes", type=int, default=10_000, help="for costs")
    parser.add_argument("--quick", action="store_true", help="one seed, and .7 alone")
    arguments = parser.parse_args()
    console = Console(width=150)
    if arguments.cost:
        n_edges = 20_000 if arguments.quick else arguments.edges
        show_costs(n_edges, arguments.nodes, arguments.together, console)
        return
    for epsilon in [0.7] if arguments.quick else arguments.epsilon:
        n_seeds = 1 if arguments.quick else arguments.seeds
        show_errors(epsilon, n_seeds, arguments.every, console)


if __name__ == "__main__":
    main()
