"""How many passes does the exact answer on the full graph take, by how much of it was kept?

A graph of communities (20 k nodes, 21 M edges) is ingested with several limits on the edges that
are kept; Stable-HFS with 10 classes and 100 labels is solved on each snapshot and carried on to the
full graph. Every row is a process of its own, so that peak memory is its own; it holds raw edges
only a chunk at a time.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from docs.benchmarks.communities import Communities
from docs.benchmarks.frame import CONSOLE, Figures, alone, options
from docs.benchmarks.peak_memory import peak_bytes
from docs.benchmarks.streams import ingested, newest, store_of
from peewit.solvers.arrays import FloatArray, IntArray
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.refinable_model import refine
from peewit.solvers.models.harmonic.harmonic import StableHFS
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.raw_edge_passes import snapshot_edges

N_CLASSES = 10
N_LABELS = 100
N_THREADS = 2


COLUMNS = (
    "kept {:.2%}|epsilon {:.2f}|rtol {:g}|passes|residual {:.1e}|s {:.1f}|s/pass {:.2f}|"
    "peak MiB {:.0f}|accuracy: snapshot {:.4f}|full {:.4f}|changed"
)


def measure(root: Path, n_edges: int, classes: IntArray, rtol: float) -> tuple[Any, ...]:
    paths, snapshot = GraphPaths(root=root), newest(root)
    nodes = np.random.default_rng(0).choice(classes.size, N_LABELS, replace=False)
    labels = Labels.from_pairs(nodes, classes[nodes])
    model = StableHFS(rtol=rtol)
    pass_seconds = 0.0
    prepared = model.prepare(snapshot.graph)
    sparse = model.solve(prepared, labels)
    with snapshot_edges(
        paths, snapshot.meta, spool=paths.root / "spool", staging=paths.staging, n_threads=N_THREADS
    ) as edges:

        def product(block: FloatArray) -> FloatArray:
            nonlocal pass_seconds
            began = time.monotonic()
            result = edges.laplacian_product(block)
            pass_seconds += time.monotonic() - began
            return result

        began = time.monotonic()
        edges.open()
        full = refine(model, prepared, labels, sparse, product, edges.degrees, max_passes=300)
        seconds = time.monotonic() - began
    first, second = (
        float((each.scores.argmax(axis=1) == classes).mean()) for each in (sparse, full)
    )
    passes, status = int(full.stats["passes"]), full.status.value
    return (
        *(snapshot.meta.edges_kept / n_edges, snapshot.meta.epsilon_expected, rtol),
        f"{passes}" if status == "converged" else f"{passes} ({status})",
        *(float(full.stats["residual"]), seconds, pass_seconds / passes, peak_bytes() / 2**20),
        *(first, second, int(full.stats["n_changed"])),
    )


def main() -> None:
    asked = options(
        __doc__,
        quick={"nodes": 4_000, "edges": 2_000_000},
        nodes=20_000,
        edges=21_000_000,
        shares=([0.003, 0.01, 0.03], "of the edges to keep"),
        rtols=[1e-6, 1e-8],
        dir=(Path, "keeps the files for the next run"),
    )
    graph = Communities(n_nodes=asked.nodes, n_edges=asked.edges)
    title = f"{graph.n_edges:,} edges, {graph.n_nodes:,} nodes, {N_CLASSES} classes"
    table = Figures(title, COLUMNS, left=0)
    with tempfile.TemporaryDirectory(prefix="peewit-refine-") as temporary:
        root, size = asked.dir or Path(temporary), f"{asked.nodes}-{asked.edges}"
        graph.write(data := root / f"edges-{size}")
        for share in (*asked.shares, None):
            home = root / f"graph-{size}-{share}"
            if store_of(home).latest() is None:
                most = None if share is None else int(share * asked.edges)
                limits = {"expected_nodes": asked.nodes, "max_edges": most, "epsilon": 0.7}
                ingested(home, data, seed=0, n_threads=N_THREADS, **limits)
            for rtol in asked.rtols:
                table.add(*alone(measure, home, asked.edges, graph.classes(N_CLASSES), rtol))
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
    main()
