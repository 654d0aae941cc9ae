"""Does a solve say what thinning did to it?

``blocks``: 20,000 nodes in ten equal blocks that a quarter of 2.0 M edges tells apart, 50 labels of
each. Printed for `auto` and Stable-HFS, with all edges that fit, and thinned for epsilon .7: how
many predictions are right, the share that thinning is told to have decided beside that which all
edges change, and what is right after the correction by passes over all edges.

``budget``: the same on real graphs with ``max_edges`` at a half and a quarter of their edges, 10
random labels a class; also what estimates cost, in processor time of the solve.

Graphs are those of `docs.benchmarks.default_model`; dblp is that of typed papers, whose kinds are
part of the names of nodes.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from docs.benchmarks.default_model import SETS, Made, drawn, unit_graph
from docs.benchmarks.frame import CONSOLE, Figures, cpu_of, options, share_right
from docs.benchmarks.relations import collapsed
from docs.benchmarks.streams import ingested, store_of, write_graph
from peewit.service.tasks.solving.thinning import CORRECTED_RTOL, MOST_PASSES, share_of_thinning
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.contract.refinable_model import Refinable, refine
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.solution import Solution
from peewit.streaming.snapshots.store import SnapshotStore

LINEAR: Final[dict[str, Refinable]] = {
    "stable-hfs": StableHFS(),
    "hfs": HFS(),
    "poisson": Poisson(),
}
MODELS: Final[dict[str, Refinable]] = {**LINEAR, "auto": Auto()}
BUDGET_SETS: Final = ("facebook_pagepage", "mnist_knn10", "blogcatalog", "dblp")


def weak_blocks(seed: int) -> Made:
    """Ten equal blocks, of whose edges 32.5 % join equal classes."""
    rng = np.random.default_rng(seed)
    n_nodes, n_edges, n_classes = 20_000, 2_000_000, 10
    classes = np.arange(n_nodes) % n_classes
    inside = rng.random(n_edges) < 0.25
    u, v = rng.integers(0, n_nodes, (2, n_edges))
    v = np.where(inside, v // n_classes * n_classes + classes[u], v)
    return unit_graph(u, v, n_nodes), classes


def with_edges_last(made: Made) -> Made:
    """A graph without the nodes after the last one that has an edge."""
    graph, classes = made
    n_nodes = int(np.flatnonzero(graph.degree)[-1]) + 1
    return Graph.from_edges(*graph.edges(), n_nodes=n_nodes), classes[:n_nodes]


@contextmanager
def snapshots(graph: Graph, **asked: float | None) -> Iterator[SnapshotStore]:
    """The snapshots of a graph that was ingested with an epsilon or a budget."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write_graph(root / "edges.parquet", graph)
        ingested(root / "graph", root / "edges.parquet", expected_nodes=graph.n_nodes, **asked)
        yield store_of(root / "graph")


def solved(model: Model, graph: Graph, labels: Labels) -> tuple[Solution, float]:
    return cpu_of(lambda: model.solve(model.prepare(graph), labels))


def winners(solution: Solution) -> Int64Array:
    found: Int64Array = solution.scores.argmax(axis=1)
    return found


def corrected(model: Refinable, graph: Graph, whole: Graph, labels: Labels) -> Solution:
    """The answer of a sparsifier after the passes that a solve makes by itself."""
    prepared = model.prepare(graph)
    n_edges = np.diff(whole.adjacency.indptr)
    return refine(
        replace(model, rtol=CORRECTED_RTOL),  # type: ignore[call-arg]
        prepared,
        labels,
        model.solve(prepared, labels),
        whole.laplacian_product,
        lambda: FullDegrees(whole.degree, n_edges.astype(np.int64)),
        max_passes=MOST_PASSES,
        looks=False,
    )


def right(found: Int64Array, classes: Int64Array, labels: Labels) -> float:
    """Accuracy at the nodes of known class that carry no label."""
    return share_right(np.array(labels.class_names)[found], classes, labels.nodes)


def blocks(n_draws: int) -> None:
    rows: dict[tuple[str, str], list[list[float]]] = {}
    for seed in range(n_draws):
        graph, classes = weak_blocks(seed)
        rng = np.random.default_rng(seed)
        nodes = [rng.choice(np.flatnonzero(classes == each), 50, False) for each in range(10)]
        chosen = np.sort(np.concatenate(nodes))
        labels = Labels.from_pairs(chosen, classes[chosen].tolist())
        whole = {
            name: winners(solved(MODELS[name], graph, labels)[0]) for name in ("auto", "stable-hfs")
        }
        for asked in ({"max_edges": 20_000_000}, {"epsilon": 0.7}):
            with snapshots(graph, **asked) as store:
                snapshot = store.load(1)
                for name, truth in whole.items():
                    solution, _ = solved(MODELS[name], snapshot.graph, labels)
                    share = share_of_thinning(store, snapshot, solution)
                    found = winners(solution)
                    mended = np.nan
                    if share is not None and name in LINEAR:
                        after = corrected(LINEAR[name], snapshot.graph, graph, labels)
                        mended = right(winners(after), classes, labels)
                    row = [
                        snapshot.meta.edges_kept / graph.n_edges,
                        right(truth, classes, labels),
                        right(found, classes, labels),
                        0.0 if share is None else share.share,
                        float((found != truth).mean()),
                        mended,
                    ]
                    rows.setdefault((name, str(asked)), []).append(row)
    columns = "kept|right, all edges|right|told|differ|corrected".replace("|", " {:.4f} ({:.4f})|")
    title = f"weak blocks, {n_draws} seeds: mean (least)"
    table = Figures(title, f"model|asked|{columns} {{:.4f}} ({{:.4f}})", left=2)
    for (name, asked_text), each in rows.items():
        table.add(name, asked_text, *((np.mean(c), np.min(c)) for c in np.array(each).T))
    CONSOLE.print(table)


def budget(n_draws: int, names: list[str]) -> None:
    columns = "graph|budget|model|all {:.1%}|thinned {:.1%}|told {:.1%}|differ {:.1%}|ratio {:.2f}|"
    title = f"thinned to a budget, {n_draws} draws, percent"
    table = Figures(title, columns + "cost {:.3f}", left=3)
    for name in names:
        graph, classes = with_edges_last(collapsed("dblp") if name == "dblp" else SETS[name]())
        n_classes = int(classes.max()) + 1
        draws = [drawn(graph, classes, "random", 10, seed) for seed in range(n_draws)]
        sets = [
            Labels.from_pairs(nodes, classes[nodes].tolist())
            for nodes in draws
            if nodes is not None
        ]
        truths = {
            key: [winners(solved(model, graph, labels)[0]) for labels in sets]
            for key, model in MODELS.items()
        }
        for part in (1, 2, 4):
            with snapshots(graph, max_edges=graph.n_edges // part) as store:
                snapshot = store.load(1)
                if part == 1:
                    kept, given = snapshot.graph.edges(), graph.edges()
                    is_same = all(np.array_equal(*each) for each in zip(kept, given, strict=True))
                    CONSOLE.print(
                        f"{name}: {graph.n_edges:,} edges, {n_classes} classes; "
                        f"within the budget equal to all edges: {is_same}"
                    )
                    continue
                for key, model in MODELS.items():
                    rows = []
                    for labels, truth in zip(sets, truths[key], strict=True):
                        solution, seconds = solved(model, snapshot.graph, labels)
                        share, spent = cpu_of(share_of_thinning, store, snapshot, solution)
                        found = winners(solution)
                        told = 0.0 if share is None else share.share
                        differ = float((found != truth)[solution.reachable].mean())
                        both = (right(each, classes, labels) for each in (truth, found))
                        rows.append([*both, told, differ, spent / seconds])
                    *shares, cost = np.mean(rows, axis=0)
                    ratio = shares[2] / shares[3] if shares[3] else None
                    table.add(name, f"1/{part}", key, *shares, ratio, cost)
    CONSOLE.print(table)


def main() -> None:
    cases = "blocks", "budget"
    asked = options(__doc__, cases=cases, draws=10, sets=list(BUDGET_SETS))
    if "blocks" in asked.cases:
        blocks(asked.draws)
    if "budget" in asked.cases:
        budget(asked.draws, asked.sets)


if __name__ == "__main__":
    main()
