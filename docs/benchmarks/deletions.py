"""What do deleted edges do to the accuracy, and what does it cost to strike them?

Run ``python -m docs.benchmarks.deletions`` or ``--quick``. Six communities of 200 nodes with
240,000 random edges, and ten between each two of them, are streamed and thinned. Then some edges
are deleted, and the true error of what is left is found by dense algebra: *struck*, as approximate
deletions leave it, beside the error they expect; *exact*, after the repair that exact deletions
make, with the share of the edges that was sampled anew; and *fresh*, of a stream that never had
the deleted edges. "Apart" counts seeds in which the struck sparsifier has more components than the
graph, and so an infinite error; the others make the means of its column. The last tables tell CPU:
an ingest with a log, the resolution of deletes, and strikes, at a million nodes.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from peewit.solvers.arrays import BoolArray, FloatArray, Int32Array, Int64Array, IntArray
from peewit.solvers.graph import Graph
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Repaired
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.sparsifier.repair import Repair, repair, resolved
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import (
    absorb,
    expected_epsilon,
    is_full,
    resparsify,
    sparsifier_graph,
    thinned,
)
from peewit.streaming.sparsifier.strikes import strike
from tests.reference.spectrum import spectral_error

N_COMMUNITIES: Final = 6
SIZE: Final = 200
N_NODES: Final = N_COMMUNITIES * SIZE
N_EDGES: Final = 240_000
N_BETWEEN: Final = 10
"""Edges between each two communities."""

BLOCKS: Final = 16
STRUCK: Final = (1_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """Edges of weight 1, in the order of the stream."""

    u: Int32Array
    v: Int32Array

    def where(self, is_taken: BoolArray) -> "Edges":
        """Those that are marked."""
        return Edges(u=self.u[is_taken], v=self.v[is_taken])

    @property
    def pairs(self) -> Int64Array:
        """A number for each one's unordered pair."""
        return np.minimum(self.u, self.v).astype(np.int64) * N_NODES + np.maximum(self.u, self.v)

    def graph(self) -> Graph:
        """All of them."""
        return Graph.from_edges(self.u, self.v, np.ones(self.u.size), n_nodes=N_NODES)


def communities(seed: int) -> Edges:
    """Dense communities, joined by a few edges."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, N_COMMUNITIES, N_EDGES) * SIZE
    u, v = (own + rng.integers(0, SIZE, N_EDGES) for _ in range(2))
    first, second = np.triu_indices(N_COMMUNITIES, 1)
    far_u, far_v = (
        np.repeat(each * SIZE, N_BETWEEN) + rng.integers(0, SIZE, first.size * N_BETWEEN)
        for each in (first, second)
    )
    u, v = np.concatenate([u, far_u]), np.concatenate([v, far_v])
    order = rng.permutation(u.size)
    order = order[u[order] != v[order]]
    return Edges(u=u[order].astype(np.int32), v=v[order].astype(np.int32))


def _users(edges: Edges, rng: np.random.Generator) -> BoolArray:
    users = rng.choice(N_NODES, N_NODES // 50, replace=False)
    touches = np.isin(edges.u, users) | np.isin(edges.v, users)
    return touches & (rng.random(edges.u.size) < 0.8)


def _between(edges: Edges, rng: np.random.Generator) -> BoolArray:
    is_far = edges.u // SIZE != edges.v // SIZE
    return is_far & (rng.random(edges.u.size) < 0.9)


def _inside(edges: Edges, rng: np.random.Generator) -> BoolArray:
    is_inside = (edges.u < SIZE) & (edges.v < SIZE)
    return np.asarray(is_inside & (rng.random(edges.u.size) < 0.97))


def _hub(edges: Edges, rng: np.random.Generator) -> BoolArray:
    touches = np.asarray((edges.u == SIZE) | (edges.v == SIZE))
    return touches & (rng.random(edges.u.size) < 0.95)


SCENARIOS: Final[dict[str, Callable[[Edges, np.random.Generator], BoolArray]]] = {
    "1 % at random": lambda edges, rng: rng.random(edges.u.size) < 0.01,
    "10 % at random": lambda edges, rng: rng.random(edges.u.size) < 0.1,
    "30 % at random": lambda edges, rng: rng.random(edges.u.size) < 0.3,
    "50 % at random": lambda edges, rng: rng.random(edges.u.size) < 0.5,
    "80 % of 2 % of the nodes": _users,
    "97 % inside one community": _inside,
    "9 of 10 edges between communities": _between,
    "95 % of one node": _hub,
}


def _block(edges: Edges, rows: IntArray) -> EdgeBlock:
    weight = np.ones(rows.size, np.float32)
    u, v = edges.u[rows], edges.v[rows]
    return EdgeBlock(u=u, v=v, weight=weight, n_self_loops=0, n_rows=rows.size)


def streamed(edges: Edges, settings: SparsifierSettings) -> SparsifierState:
    """The sparsifier of a stream, thinned at its end."""
    state = SparsifierState()
    for rows in np.array_split(np.arange(edges.u.size), BLOCKS):
        state = absorb(state, settings, [_block(edges, rows)], n_nodes=N_NODES)
        if is_full(state, settings):
            state = resparsify(state, settings)
    return resparsify(state, settings)


def show_errors(epsilon: float, n_seeds: int, console: Console) -> None:
    """True and expected errors, means and largest over the seeds."""
    table = Table(title=f"errors, asked {epsilon:g}: mean (largest) over {n_seeds} seeds")
    table.add_column("deleted")
    headings = "before", "struck", "expected", "apart", "exact", "anew", "fresh", "to fresh"
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, choose in SCENARIOS.items():
        found, anew = [], []
        for seed in range(n_seeds):
            edges, rng = communities(seed), np.random.default_rng(seed)
            settings = SparsifierSettings(epsilon=epsilon, seed=seed, expected_nodes=N_NODES)
            gone = edges.where(choose(edges, rng))
            lives = ~np.isin(edges.pairs, gone.pairs)  # a pair goes with all its parallel edges
            left, graph = edges.where(lives), edges.where(lives).graph()
            state = streamed(edges, settings)
            struck = strike(state, gone.u, gone.v)
            exact, report = repaired(struck, settings, left, edges.where(~lives))
            fresh = streamed(left, settings)
            errors = [_error(graph, each) for each in (struck, exact, fresh)]
            found.append(
                [_error(edges.graph(), state), expected_epsilon(struck, settings), *errors]
            )
            anew.append(report.n_edges / left.u.size)
        before, expected, struck_only, exact_error, fresh_error = np.array(found).T
        is_apart = np.isinf(struck_only)
        table.add_row(
            name,
            _text(before),
            _text(struck_only[~is_apart]),
            _text(expected),
            str(is_apart.sum()),
            _text(exact_error),
            f"{np.mean(anew):.1%}",
            _text(fresh_error),
            f"{exact_error.mean() / fresh_error.mean():.2f}",
        )
    console.print(table)


def repaired(
    struck: SparsifierState, settings: SparsifierSettings, left: Edges, gone: Edges
) -> tuple[SparsifierState, Repair]:
    """What exact deletions make of a struck sparsifier, thinned as for a snapshot."""

    def live(at: BoolArray | None) -> Iterator[tuple[str, EdgeBlock]]:
        for rows in np.array_split(np.arange(left.u.size), BLOCKS):
            block = _block(left, rows)
            if at is not None:
                block = block.where(at[block.u] | at[block.v])
            if block.n_rows:
                yield "", block

    number = left.graph().component
    first = np.full(number.max() + 1, N_NODES)
    np.minimum.at(first, number, np.arange(N_NODES))
    told = resolved(struck, degree=left.graph().degree, killed=gone.graph().degree)
    state, report = repair(
        told, settings, live, component=first[number].astype(np.int32), group_blocks=1
    )
    return thinned(state, settings), report


def _error(graph: Graph, state: SparsifierState) -> float:
    kept = sparsifier_graph(state)
    return (
        spectral_error(graph, kept) if np.array_equal(graph.component, kept.component) else np.inf
    )


def _text(errors: FloatArray) -> str:
    return f"{errors.mean():.2f} ({errors.max():.2f})" if errors.size else "-"


def show_costs(n_nodes: int, console: Console) -> None:
    """CPU nanoseconds of a strike for each record of the sparsifier."""
    rng = np.random.default_rng(0)
    n_edges = 10 * n_nodes
    u, v = rng.integers(0, n_nodes, (2, n_edges), dtype=np.int32)
    block = EdgeBlock(u=u, v=v, weight=np.ones(n_edges, np.float32), n_self_loops=0, n_rows=n_edges)
    state = absorb(SparsifierState(), SparsifierSettings(), [block], n_nodes=n_nodes)
    strike(state, u[:10], v[:10])  # compiles
    table = Table(title=f"a strike from {state.n_records:,} records of {n_nodes:,} nodes")
    table.add_column("pairs", justify="right")
    table.add_column("ns of CPU a record", justify="right")
    for n_pairs in STRUCK:
        chosen = rng.choice(n_edges, min(n_pairs, n_edges), replace=False)
        began = time.process_time()
        strike(state, u[chosen], v[chosen])
        seconds = time.process_time() - began
        table.add_row(f"{chosen.size:,}", f"{1e9 * seconds / state.n_records:.1f}")
    console.print(table)


def show_log_costs(n_nodes: int, console: Console) -> None:
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
        table = Table(title=f"{n_edges:,} edges of {n_nodes:,} nodes, in CPU seconds")
        table.add_column("")
        table.add_column("s", justify="right")
        table.add_column("note")
        for deletions, taken in seconds.items():
            ratio = f"{taken / seconds['off']:.2f} of off"
            table.add_row(f"ingest, deletions {deletions}", f"{taken:.2f}", ratio)
        log = sum(path.stat().st_size for path in (root / "exact" / "log").iterdir())
        table.add_row("its log", "", f"{log / n_edges:.1f} bytes an edge")
        for n_pairs in (10, n_edges // 1_000, n_edges // 50):
            rows = rng.choice(n_edges, n_pairs, replace=False)
            columns = {"src": first[rows], "dst": second[rows], "op": ["delete"] * n_pairs}
            path = root / f"{n_pairs}.parquet"
            pq.write_table(pa.table(columns), path)
            told: list[Repaired] = []
            stream = _stream(root / "exact", "exact", n_nodes, told)
            began = time.process_time()
            stream.ingest(EdgeFiles(path, columns=CHANGES).list())
            taken = time.process_time() - began
            sampled = told[0].repair.n_edges if told else 0
            note = f"{1e6 * taken / n_pairs:.2f} microseconds a delete, {sampled:,} edges anew"
            table.add_row(f"{n_pairs:,} deletes and a snapshot", f"{taken:.2f}", note)
        console.print(table)


def _stream(
    root: Path, deletions: Deletions, n_nodes: int, told: list[Repaired] | None = None
) -> Stream:
    def note(event: IngestEvent) -> None:
        if told is not None and isinstance(event, Repaired):
            told.append(event)

    settings = StreamSettings(
        node_kind="dense",
        sparsifier=SparsifierSettings(expected_nodes=n_nodes),
        deletions=deletions,
        n_threads=1,
    )
    return Stream(GraphPaths(root=root), settings, on_event=note)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.9, 0.5, 0.3])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="one seed, .7 alone, 20,000 nodes")
    arguments = parser.parse_args()
    console = Console(width=120)
    for epsilon in [0.7] if arguments.quick else arguments.epsilon:
        show_errors(epsilon, 1 if arguments.quick else arguments.seeds, console)
    n_nodes = 20_000 if arguments.quick else arguments.nodes
    if n_nodes:
        show_log_costs(n_nodes, console)
        show_costs(n_nodes, console)


if __name__ == "__main__":
    main()
