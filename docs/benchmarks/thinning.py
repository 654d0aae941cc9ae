"""What does it cost to thin a buffer, where clusters bound resistances and where they do not?

Run ``python -m docs.benchmarks.thinning``, with ``--nodes`` and ``--graphs`` at will. Each graph is
thinned as it would be without clusters and with them: CPU seconds on one thread, share of the
records kept, and what of the seconds went to clusters. ``--errors`` thins rings of 4,200
nodes by both with ten seeds and prints the true epsilon (B1).
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from docs.benchmarks import edge_families
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
        """The function, whose time counts."""

        def call(*arguments: Any, **options: Any) -> Any:
            started = time.process_time()
            result = function(*arguments, **options)
            self.seconds += time.process_time() - started
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
    """Print a row for each graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=[*GRAPHS])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--epsilon", type=float, default=0.7)
    parser.add_argument("--errors", action="store_true")
    options = parser.parse_args()
    (_print_errors if options.errors else _print_costs)(options)


def _print_costs(options: argparse.Namespace) -> None:
    trial = Trial()
    for name in ("_promising_clusters", "bounds_inside"):
        function = trial.timed(getattr(buffer_resistances, name))
        setattr(buffer_resistances, name, function)
    settings = SparsifierSettings(epsilon=options.epsilon, expected_nodes=options.nodes)
    warm = partial(thinned, records_of("rings-20", 5_000), settings, 5_000)
    warm(ALWAYS), warm(NEVER)
    table = Table(title=f"{options.nodes:,} nodes, epsilon {options.epsilon}")
    for column in ("graph", "records", "CPU s", "kept", "with clusters", "kept", "trying", "by"):
        table.add_column(column, justify="left" if column == "graph" else "right")
    for name in options.graphs:
        chunks = records_of(name, options.nodes)
        n_records = sum(chunk.n_records for chunk in chunks)
        row = [name, f"{n_records:,}"]
        for least_nodes in (NEVER, ALWAYS):
            trial.seconds = 0.0
            started = time.process_time()
            thinning = thinned(chunks, settings, options.nodes, least_nodes)
            seconds = time.process_time() - started
            row += [f"{seconds:.2f}", f"{thinning.n_survivors / n_records:.4f}"]
        way = "embedding" if thinning.cards.has_vectors else "bounds"
        row += [f"{trial.seconds:.2f}", "clusters" if _by_clusters(thinning, chunks) else way]
        table.add_row(*row)
    Console(width=120).print(table)


def _by_clusters(thinning: Thinning, chunks: list[Records]) -> bool:
    """Whether records lie between components of the cards."""
    component = thinning.cards.views[2][:, -1]
    return any(bool((component[each.u] != component[each.v]).any()) for each in chunks)


def _print_errors(options: argparse.Namespace) -> None:
    n_nodes = 4_200
    settings = SparsifierSettings(epsilon=options.epsilon, expected_nodes=n_nodes)
    table = Table(title=f"{n_nodes:,} nodes, epsilon {options.epsilon}, ten seeds: mean (worst)")
    for column in ("graph", "way", "kept", "true epsilon"):
        table.add_column(column)
    for name in [name for name in options.graphs if "rings" in name]:
        for way, least_nodes in (("embedding", NEVER), ("clusters", ALWAYS)):
            kept, errors = [], []
            for seed in range(10):
                chunks = records_of(name, n_nodes, seed)
                thinning = thinned(chunks, replace(settings, seed=seed), n_nodes, least_nodes)
                graph = Graph.from_records(chunks, n_nodes=n_nodes)
                survivors = list(packed(chunks, thinning.lowered))
                errors.append(
                    extremes(graph, Graph.from_records(survivors, n_nodes=n_nodes)).epsilon
                )
                kept.append(thinning.n_survivors / sum(chunk.n_records for chunk in chunks))
            spread = f"{np.mean(errors):.3f} ({np.max(errors):.3f})"
            table.add_row(name, way, f"{np.mean(kept):.3f}", spread)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
