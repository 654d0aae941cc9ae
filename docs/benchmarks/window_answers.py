"""Are answers as right by the snapshots of a window as by all the edges that live?

Run ``python -m docs.benchmarks.window_answers`` or ``--quick``. Six communities, whose members
change, send edges; a window of 16 buckets passes over three times as many. At some looks twenty
nodes of each community are labeled with where they belong by then, and all others are asked for:
by the snapshot of the window, by a graph of exactly the edges that live, and by the snapshot of a
stream that never forgets. Many edges are older than their nodes' last move, so nobody can be right
about all.
"""

import argparse
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from docs.benchmarks.windows import N_BUCKETS, TURNS, Ends, Size, settings_of, write
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.harmonic import StableHFS
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.snapshots.store import SnapshotStore

N_CLASSES: Final = 6
PER_CLASS: Final = 20
BETWEEN: Final = 0.5
"""Part of the edges that join any two nodes."""

MODELS: Final[dict[str, Model]] = {"stable-hfs": StableHFS(), "auto": Auto()}
GRAPHS: Final = ("window", "exact", "never forgets")


def edges_inside(community: Int64Array, n_edges: int, rng: np.random.Generator) -> Ends:
    """Edges of which about half stay in their community."""
    order = np.argsort(community, kind="stable")
    first = np.searchsorted(community[order], np.arange(N_CLASSES + 1))
    u = rng.integers(0, community.size, n_edges)
    start, stop = first[community[u]], first[community[u] + 1]
    v = order[start + (rng.random(n_edges) * (stop - start)).astype(np.int64)]
    is_between = rng.random(n_edges) < BETWEEN
    v[is_between] = rng.integers(0, community.size, is_between.sum())
    return u, v


def accuracy(graph: Graph, true: Int64Array, nodes: Int64Array) -> dict[str, float]:
    """Part of the other nodes that each model is right about."""
    labels = Labels.from_pairs(nodes, true[nodes])
    codes = np.array(labels.class_names)
    asked = np.ones(true.size, bool)
    asked[nodes] = False
    found = {}
    for name, model in MODELS.items():
        scores = model.solve(model.prepare(graph), labels).scores
        found[name] = float((codes[scores.argmax(axis=1)] == true)[asked].mean())
    return found


def play(size: Size, moving: float, seed: int, every: int) -> dict[tuple[str, str], list[float]]:
    """Accuracy at each look, by model and graph."""
    rng = np.random.default_rng(seed)
    community = rng.integers(0, N_CLASSES, size.n_nodes)
    right: dict[tuple[str, str], list[float]] = defaultdict(list)
    kept: list[Ends] = []
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        streams = {}
        for name, has_window in (("window", True), ("never forgets", False)):
            paths = GraphPaths(root=root / name.replace(" ", "-"))
            settings = settings_of(size, 0.7, seed, has_window=has_window)
            streams[name] = paths, Stream(paths, settings), has_window
        for bucket in range(TURNS * N_BUCKETS):
            movers = rng.random(size.n_nodes) < moving
            community[movers] = rng.integers(0, N_CLASSES, movers.sum())
            kept = [*kept, edges_inside(community, size.n_edges, rng)][-N_BUCKETS:]
            write(path := root / f"{bucket:03d}.parquet", kept[-1], bucket)
            for _, stream, has_window in streams.values():
                columns = EdgeColumns(time="time") if has_window else EdgeColumns()
                stream.ingest(EdgeFiles(path, columns=columns).list())
            path.unlink()
            if bucket < N_BUCKETS or (bucket - N_BUCKETS) % every:
                continue
            nodes = np.sort(
                np.concatenate(
                    [
                        rng.choice(np.flatnonzero(community == each), PER_CLASS, replace=False)
                        for each in range(N_CLASSES)
                    ]
                )
            )
            u, v = (np.concatenate(ends) for ends in zip(*kept, strict=True))
            graphs = {"exact": Graph.from_edges(u, v, np.ones(u.size), n_nodes=size.n_nodes)}
            for name, (paths, _, _) in streams.items():
                store = SnapshotStore(paths.snapshots)
                graphs[name] = store.load(store.numbers()[-1]).graph
            for name, graph in graphs.items():
                for model, share in accuracy(graph, community, nodes).items():
                    right[model, name].append(share)
    return right


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--every", type=int, default=8, help="buckets from one look to the next")
    parser.add_argument("--quick", action="store_true", help="one seed, one look a turn")
    arguments = parser.parse_args()
    size = Size(n_nodes=3_000, n_edges=12_000)
    table = Table(title="percent of the nodes right, mean (least) over looks and seeds")
    for heading in ("moves a bucket", "model", *GRAPHS, "to exact, worst look"):
        table.add_column(heading, justify="right")
    for moving in (0.01, 0.03):
        right: dict[tuple[str, str], list[float]] = defaultdict(list)
        for seed in range(1 if arguments.quick else arguments.seeds):
            every = N_BUCKETS if arguments.quick else arguments.every
            for key, shares in play(size, moving, seed, every).items():
                right[key] += shares
        for model in MODELS:
            percent = {name: 100.0 * np.array(right[model, name]) for name in GRAPHS}
            table.add_row(
                f"{moving:.0%}",
                model,
                *(f"{each.mean():.1f} ({each.min():.1f})" for each in percent.values()),
                f"{(percent['window'] - percent['exact']).min():+.1f}",
            )
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
