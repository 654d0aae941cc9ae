"""How many labels do passes prove to be those of all edges, and what does a proof cost?

Two graphs of equal size are thinned to a spectral error: communities that share an edge in twenty,
and ten blocks of which three edges in four are drawn anywhere. Models are proven to 1 % unproven
labels, once more from the ends that this found, and refined to a residual of 1e-6 beside it.
``wrong`` are proven labels that the refined answer contradicts. Each row is a process of its own.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from docs.benchmarks.communities import Communities
from docs.benchmarks.frame import CONSOLE, Figures, alone, options
from docs.benchmarks.peak_memory import peak_bytes
from docs.benchmarks.streams import ingested, newest, store_of
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.provable_model import Proof, Provable, prove
from peewit.solvers.models.contract.refinable_model import refine
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.proof.spectral_ends import SpectralEnds
from peewit.solvers.solution import Solution
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.edge_passes import EdgePasses
from peewit.streaming.passes.raw_edge_passes import snapshot_edges

N_CLASSES = 10
MODELS: dict[str, Provable] = {
    "stable-hfs": StableHFS(),
    "hfs": HFS(),
    "poisson": Poisson(),
    "auto": Auto(),
}
COLUMNS = (
    "model|kept {:.1%}|right, edges kept {:.4f}|proven answer {:.4f}|passes|proven {:.4f}|"
    "at each look|wrong|CPU s {:.0f}|peak MiB {:.0f}|from known ends: passes|CPU s {:.0f}|"
    "refined: passes|CPU s {:.0f}|"
    "a pass of 1 column, CPU s {:.2f}|of 20 {:.2f}"
)


def graph_of(kind: str, n_nodes: int, n_edges: int) -> Communities:
    if kind == "communities":
        return Communities(n_nodes=n_nodes, n_edges=n_edges)
    size = n_nodes // N_CLASSES
    return Communities(n_nodes=n_nodes, n_edges=n_edges, community_nodes=size, cross_share=0.75)


def ingest(root: Path, data: Path, epsilon: float, nodes: int) -> float:
    """CPU seconds of an ingest, to be run alone."""
    began = time.process_time()
    ingested(root, data, seed=0, n_threads=1, expected_nodes=nodes, epsilon=epsilon)
    return time.process_time() - began


def measure(
    root: Path, name: str, graph: Communities, per_class: int, n_edges: int
) -> tuple[Any, ...]:
    paths, snapshot, classes = GraphPaths(root=root), newest(root), graph.classes(N_CLASSES)
    rng = np.random.default_rng(0)
    nodes = np.concatenate(
        [
            rng.choice(np.flatnonzero(classes == each), per_class, replace=False)
            for each in range(N_CLASSES)
        ]
    )
    labels = Labels.from_pairs(nodes, classes[nodes])
    model = MODELS[name]
    prepared = model.prepare(snapshot.graph)
    sparse = model.solve(prepared, labels)
    with snapshot_edges(
        paths, snapshot.meta, spool=paths.root / "spool", staging=paths.staging, n_threads=1
    ) as edges:
        edges.open()
        passes = [seconds_of(edges, graph.n_nodes, columns) for columns in (1, 20)]

        def proven(known: SpectralEnds | None) -> tuple[Solution, Proof, float]:
            began = time.process_time()
            answer, proof = prove(
                model,
                prepared,
                labels,
                sparse,
                edges.laplacian_product,
                edges.degrees,
                most_unproven=0.01,
                max_passes=100,
                known_ends=known,
            )
            return answer, proof, time.process_time() - began

        answer, proof, proving = proven(None)
        _, again, proving_again = proven(proof.ends)
        finer = replace(model, rtol=1e-6)  # type: ignore[type-var]
        began = time.process_time()
        refined = refine(
            finer, prepared, labels, sparse, edges.laplacian_product, edges.degrees, max_passes=200
        )
        refining = time.process_time() - began
    differs = answer.classes() != refined.classes()
    looks = " ".join(f"{share:.3f}" for share in proof.shares)
    # of auto other columns and weights are judged anew: what differs is not what is proven
    wrong = "-" if name == "auto" else str(int(np.count_nonzero(differs & proof.is_proven)))
    right = [float((each.classes() == classes).mean()) for each in (sparse, answer)]
    return (
        *(name, snapshot.meta.edges_kept / n_edges, *right, proof.n_passes, proof.share, looks),
        *(wrong, proving, peak_bytes() / 2**20, again.n_passes, proving_again),
        *(int(refined.stats["passes"]) + 1, refining),
        *passes,
    )


def seconds_of(edges: EdgePasses, n_nodes: int, n_columns: int) -> float:
    block = np.random.default_rng(0).standard_normal((n_nodes, n_columns))
    edges.laplacian_product(block)  # files are in memory then
    began = time.process_time()
    edges.laplacian_product(block)
    return time.process_time() - began


def main() -> None:
    asked = options(
        __doc__,
        quick={"nodes": 20_000, "edges": 2_000_000},
        nodes=1_000_000,
        edges=100_000_000,
        per_class=50,
        epsilon=0.7,
        kinds=["communities", "blocks"],
        models=["stable-hfs", "hfs", "poisson"],
        dir=(Path, "keeps the files for the next run"),
    )
    with tempfile.TemporaryDirectory(prefix="peewit-proven-") as temporary:
        root, size = asked.dir or Path(temporary), f"{asked.nodes}-{asked.edges}"
        for kind in asked.kinds:
            graph = graph_of(kind, asked.nodes, asked.edges)
            graph.write(data := root / f"{kind}-{size}")
            home, seconds = root / f"{kind}-{size}-{asked.epsilon}", None
            if store_of(home).latest() is None:
                seconds = alone(ingest, home, data, asked.epsilon, asked.nodes)
            title = f"{kind}: {graph.n_edges:,} edges, {graph.n_nodes:,} nodes, {N_CLASSES} classes"
            if seconds is not None:
                title += f"; ingest {seconds:.0f} CPU s"
            table = Figures(title, COLUMNS, left=1)
            for name in asked.models:
                table.add(*alone(measure, home, name, graph, asked.per_class, asked.edges))
            CONSOLE.print(table)


if __name__ == "__main__":
    main()
