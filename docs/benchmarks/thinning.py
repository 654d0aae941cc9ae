"""What does it cost to thin a buffer, where clusters bound resistances and where they do not?

Each graph is thinned as it would be without clusters and with them: CPU seconds on one thread,
share of the records kept, and what of the seconds went to clusters. ``--errors`` thins rings of
4,200 nodes by both with ten seeds and prints the true epsilon (B1).
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from docs.benchmarks import edge_families
from docs.benchmarks.frame import cpu_of, mean_and_worst, options, show
from docs.benchmarks.spectra import extremes
from peewit.solvers.graph import Graph
from peewit.streaming.sparsifier import buffer_resistances
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.sample_size import sampling_constant
from peewit.streaming.sparsifier.settings_and_state import Records, SparsifierSettings
from peewit.streaming.sparsifier.thinning import Thinning, packed, thin

ALWAYS = buffer_resistances.LEAST_NODES
NEVER = 2**31
CHUNK = 1 << 20

GRAPHS = {
    "rings-20": ("rings", 20, 7.6),
    "rings-200": ("rings", 200, 7.6),
    "dense-rings-20": ("rings", 20, 20.0),
    "dense-rings-200": ("rings", 200, 20.0),
    "communities": ("communities", 0, 20.0),
    "social": ("social", 0, 20.0),
    "neighbors": ("neighbors", 0, 20.0),
    "road": ("road", 0, 1.3),
}
"""Family, size of a ring, edges of a node."""


@dataclass(kw_only=True)
class Trial:
    """What trying clusters has taken, in CPU seconds."""

    seconds: float = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result, seconds = cpu_of(function, *arguments, **options)
            self.seconds += seconds
            return result

        return call


def records_of(name: str, n_nodes: int, seed: int = 0) -> list[Records]:
    """A graph as records that have met no coin."""
    family, size, edges_per_node = GRAPHS[name]
    edge_families.RING = size
    u, v, _ = edge_families.made(family, n_nodes, int(edges_per_node * n_nodes), seed)
    apart = u != v
    n_records = int(np.count_nonzero(apart))
    records = Records(
        u=u[apart].astype(np.int32),
        v=v[apart].astype(np.int32),
        weight=np.ones(n_records, np.float32),
        keep_probability=np.ones(n_records, np.float32),
        key=np.random.default_rng(seed).integers(0, 2**32, n_records).astype(np.uint32),
    )
    return [records.part(start, start + CHUNK) for start in range(0, n_records, CHUNK)]


def thinned(
    chunks: list[Records], settings: SparsifierSettings, n_nodes: int, least_nodes: int
) -> Thinning:
    """One thinning of records with clusters or, for a ``least_nodes`` of `NEVER`, without."""
    buffer_resistances.LEAST_NODES = least_nodes
    thinning = thin(
        chunks,
        NodeCards.empty(),
        settings,
        n_nodes=n_nodes,
        constant=sampling_constant(settings, n_nodes),
        coin_stream=1,
    )
    if thinning is None:
        raise RuntimeError("the embedding did not converge")
    return thinning


def main() -> None:
    graphs = [*GRAPHS], GRAPHS
    asked = options(__doc__, graphs=graphs, nodes=1_000_000, epsilon=0.7, errors=False)
    (show_errors if asked.errors else show_costs)(asked)


def show_costs(options: argparse.Namespace) -> None:
    trial = Trial()
    for name in ("_promising_clusters", "bounds_inside"):
        function = trial.timed(getattr(buffer_resistances, name))
        setattr(buffer_resistances, name, function)
    settings = SparsifierSettings(epsilon=options.epsilon, expected_nodes=options.nodes)
    warm = partial(thinned, records_of("rings-20", 5_000), settings, 5_000)
    warm(ALWAYS), warm(NEVER)
    rows = []
    for name in options.graphs:
        chunks = records_of(name, options.nodes)
        n_records = sum(chunk.n_records for chunk in chunks)
        row: list[Any] = [name, n_records]
        for least_nodes in (NEVER, ALWAYS):
            trial.seconds = 0.0
            args = chunks, settings, options.nodes, least_nodes
            thinning, seconds = cpu_of(thinned, *args)
            row += [seconds, thinning.n_survivors / n_records]
        way = "embedding" if thinning.cards.has_vectors else "bounds"
        rows.append([*row, trial.seconds, "clusters" if _by_clusters(thinning, chunks) else way])
    columns = "graph|records {:,}|CPU s {:.2f}|kept {:.4f}|with clusters {:.2f}|kept {:.4f}|"
    title = f"{options.nodes:,} nodes, epsilon {options.epsilon}"
    show(title, columns + "trying {:.2f}|by", rows)


def _by_clusters(thinning: Thinning, chunks: list[Records]) -> bool:
    """Whether records lie between components of the cards."""
    component = thinning.cards.views[2][:, -1]
    return any(bool((component[each.u] != component[each.v]).any()) for each in chunks)


def show_errors(options: argparse.Namespace) -> None:
    n_nodes = 4_200
    settings = SparsifierSettings(epsilon=options.epsilon, expected_nodes=n_nodes)
    rows = []
    for name in [name for name in options.graphs if "rings" in name]:
        for way, least_nodes in (("embedding", NEVER), ("clusters", ALWAYS)):
            kept, errors = [], []
            for seed in range(10):
                chunks = records_of(name, n_nodes, seed)
                thinning = thinned(chunks, replace(settings, seed=seed), n_nodes, least_nodes)
                graph = Graph.from_records(chunks, n_nodes=n_nodes)
                survivors = Graph.from_records(
                    list(packed(chunks, thinning.lowered)), n_nodes=n_nodes
                )
                errors.append(extremes(graph, survivors).epsilon)
                kept.append(thinning.n_survivors / sum(chunk.n_records for chunk in chunks))
            rows.append((name, way, np.mean(kept), mean_and_worst(errors)))
    title = f"{n_nodes:,} nodes, epsilon {options.epsilon}, ten seeds: mean (worst)"
    show(title, "graph|way|kept {:.3f}|true epsilon {:.3f} ({:.3f})", rows, left=2)


if __name__ == "__main__":
    main()
