"""Are answers as right by the snapshots of a window as by all the edges that live?

Six communities, whose members change, send edges; a window of 16 buckets passes over three times as
many. At some looks twenty nodes of each community are labeled with where they belong by then, and
all others are asked for: by the snapshot of the window, by a graph of exactly the edges that live,
and by the snapshot of a stream that never forgets. Many edges are older than their nodes' last
move, so nobody can be right about all.
"""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Final

import numpy as np

from docs.benchmarks.frame import options, share_right, show
from docs.benchmarks.streams import newest, opened
from docs.benchmarks.windows import N_BUCKETS, TURNS, Ends, Size, edges_inside, settings_of, write
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.harmonic import StableHFS
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.sources import EdgeFiles

N_CLASSES: Final = 6
PER_CLASS: Final = 20
BETWEEN: Final = 0.5
"""Part of the edges that join any two nodes."""

MODELS: Final[dict[str, Model]] = {"stable-hfs": StableHFS(), "auto": Auto()}
GRAPHS: Final = ("window", "exact", "never forgets")


def accuracy(graph: Graph, true: Int64Array, nodes: Int64Array) -> dict[str, float]:
    """Part of the other nodes that each model is right about."""
    labels = Labels.from_pairs(nodes, true[nodes])
    codes = np.array(labels.class_names)
    found = {}
    for name, model in MODELS.items():
        scores = model.solve(model.prepare(graph), labels).scores
        found[name] = share_right(codes[scores.argmax(axis=1)], true, nodes)
    return found


def play(size: Size, moving: float, seed: int, every: int) -> dict[tuple[str, str], list[float]]:
    rng = np.random.default_rng(seed)
    community = rng.integers(0, N_CLASSES, size.n_nodes)
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    kept: list[Ends] = []
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        streams = {}
        for name, has_window in (("window", True), ("never forgets", False)):
            root_of = root / name.replace(" ", "-")
            settings = settings_of(size, 0.7, seed, has_window=has_window)
            streams[name] = root_of, opened(root_of, **settings), has_window
        for bucket in range(TURNS * N_BUCKETS):
            movers = rng.random(size.n_nodes) < moving
            community[movers] = rng.integers(0, N_CLASSES, movers.sum())
            edges = edges_inside(community, size.n_edges, rng, between=BETWEEN)
            kept = [*kept, edges][-N_BUCKETS:]
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
            graphs |= {name: newest(root_of).graph for name, (root_of, _, _) in streams.items()}
            for name, graph in graphs.items():
                for model, share in accuracy(graph, community, nodes).items():
                    shares[model, name].append(share)
    return shares


def main() -> None:
    asked = options(
        __doc__,
        quick={"seeds": 1, "every": N_BUCKETS},
        seeds=5,
        every=(8, "buckets from one look to the next"),
    )
    size = Size(n_nodes=3_000, n_edges=12_000)
    rows = []
    for moving in (0.01, 0.03):
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for seed in range(asked.seeds):
            for key, shares in play(size, moving, seed, asked.every).items():
                found[key] += shares
        for model in MODELS:
            percent = {name: 100.0 * np.array(found[model, name]) for name in GRAPHS}
            means = ((each.mean(), each.min()) for each in percent.values())
            worst = (percent["window"] - percent["exact"]).min()
            rows.append((f"{moving:.0%}", model, *means, worst))
    columns = "|".join(f"{name} {{:.1f}} ({{:.1f}})" for name in GRAPHS)
    columns = f"moves a bucket|model|{columns}|to exact, worst look {{:+.1f}}"
    show("percent of the nodes right, mean (least) over looks and seeds", columns, rows, left=2)


if __name__ == "__main__":
    main()
