"""How far is the default from the best of its arms, of the majority and of other libraries?

Graphs: those of the folder that ``PEEWIT_DATA`` names, digits, and generators of blocks with hubs
and unequal classes, of rings and of accounts with frauds. Labels are drawn equally many of each
class, or as many at random, 1 to 50 a class, or spread out (as many at random, none within two
steps of another, as far as there is room); classes are numbered otherwise in every draw, so that no
peer wins by how it breaks ties. Printed are what `auto` loses most on, beside the best of the
others on the same draws, and the mean loss for every way of drawing. The majority counts as the
mean of the largest classes where these tie. "Within" counts graphs where it loses no more points
than that, or than one standard error of the loss.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from docs.benchmarks.accuracy import Problem, peer_methods, self_tuned
from docs.benchmarks.frame import CONSOLE, folder, options, share_right
from docs.benchmarks.frame import show as show_table
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.poisson.poisson import Poisson
from tests.data_sets import digits_graph, draw_per_class, labeled_graph

Made = tuple[Graph, Int64Array]

ARMS: dict[str, Model] = {"harmonic-mbo": HarmonicMBO(), "poisson": Poisson()}
PEERS = [
    "sknetwork diffusion",
    "sknetwork pagerank",
    "graphlearning poisson",
    "sklearn spreading",
    "sklearn spreading .9",
]
WAYS = ("balanced", "random", "spread")
STORED = ("facebook_pagepage", "blogcatalog", "cora", "citeseer", "cora_ml", "acm", "mnist_knn10")


def blocks(shares: list[float], homophily: float, mean_degree: float, n_nodes: int = 8_000) -> Made:
    """Blocks with hubs: endpoints by a power law, so much of every node's weight in its class."""
    rng = np.random.default_rng(len(shares) * 1_000 + round(100 * homophily))
    classes = rng.choice(len(shares), n_nodes, p=np.array(shares) / sum(shares))
    pull = np.minimum(rng.pareto(1.5, n_nodes) + 1.0, np.sqrt(n_nodes))
    n_edges = int(n_nodes * mean_degree / 2)
    u = rng.choice(n_nodes, n_edges, p=pull / pull.sum())
    v = np.empty_like(u)
    is_inside = rng.random(n_edges) < homophily
    for own in range(len(shares)):
        for inside in (True, False):
            rows = np.flatnonzero((classes[u] == own) & (is_inside == inside))
            ends = np.flatnonzero((classes == own) == inside)
            v[rows] = rng.choice(ends, rows.size, p=pull[ends] / pull[ends].sum())
    return unit_graph(u, v, n_nodes), classes


def rings(share: float, far: float, n_hubs: int = 0, n_nodes: int = 20_000, size: int = 20) -> Made:
    """Rings of accounts, a part of them frauds; some edges to anywhere, or to hubs."""
    rng = np.random.default_rng(round(1_000 * share) + n_hubs)
    u = rng.integers(0, n_nodes, int(3.8 * n_nodes))
    v = u // size * size + rng.integers(0, size, u.size)
    is_far = rng.random(u.size) < far
    v[is_far] = rng.integers(0, n_nodes, np.count_nonzero(is_far))
    classes = (rng.random(n_nodes // size) < share).astype(np.int64)[np.arange(n_nodes) // size]
    if n_hubs:
        rank = 1.0 / np.arange(1, n_hubs + 1)
        hubs = rng.choice(n_nodes, n_hubs, replace=False)
        u = np.concatenate([u, rng.integers(0, n_nodes, u.size // 3)])
        extra = hubs[rng.choice(n_hubs, u.size - v.size, p=rank / rank.sum())]
        v = np.concatenate([v, extra])
    return unit_graph(u, v, n_nodes), classes


def accounts(share: float, n_nodes: int = 15_000) -> Made:
    """Frauds in small dense rings that pay popular merchants, among accounts that trade, too."""
    rng = np.random.default_rng(round(1_000 * share))
    order = rng.permutation(n_nodes)
    frauds, honest = order[: int(share * n_nodes)], order[int(share * n_nodes) :]
    classes = np.zeros(n_nodes, np.int64)
    classes[frauds] = 1
    ring = np.sort(rng.integers(0, max(1, frauds.size // 12), frauds.size))
    starts, sizes = np.unique(ring, return_index=True, return_counts=True)[1:]
    pick = rng.integers(0, frauds.size, 3 * frauds.size)
    mates = starts[ring[pick]] + rng.integers(0, sizes[ring[pick]])
    pull = rng.pareto(1.3, honest.size) + 1.0
    popular = honest[
        rng.choice(honest.size, 4 * honest.size + 3 * frauds.size, p=pull / pull.sum())
    ]
    near = rng.integers(0, honest.size, 2 * honest.size)
    town = np.minimum(near // 200 * 200 + rng.integers(0, 200, near.size), honest.size - 1)
    buyers = np.concatenate(
        [rng.choice(honest, 4 * honest.size), rng.choice(frauds, 3 * frauds.size)]
    )
    u = np.concatenate([frauds[pick], buyers, honest[near]])
    v = np.concatenate([frauds[mates], popular, honest[town]])
    return unit_graph(u, v, n_nodes), classes


def unit_graph(u: Int64Array, v: Int64Array, n_nodes: int) -> Graph:
    """Of edges of weight 1 that are no self-loops, parallel ones summed."""
    different = u != v
    ones = np.ones(np.count_nonzero(different))
    return Graph.from_edges(u[different], v[different], ones, n_nodes=n_nodes)


def _usps() -> Made:
    with np.load(folder() / "usps.npz") as stored:
        return self_tuned(stored["X"], 10), stored["y"].astype(np.int64)


SETS: dict[str, Callable[[], Made]] = {
    **{name: lambda name=name: labeled_graph(folder(), name) for name in STORED},
    "usps": _usps,
    "digits": digits_graph,
    "blocks 5, .55": lambda: blocks([1] * 5, 0.55, 12),
    "blocks 5, .75": lambda: blocks([1] * 5, 0.75, 8),
    "blocks 5, .95": lambda: blocks([1] * 5, 0.95, 6),
    "blocks 1/10/89, .85": lambda: blocks([0.01, 0.1, 0.89], 0.85, 8),
    "blocks 10/90, .75": lambda: blocks([0.9, 0.1], 0.75, 10),
    "blocks 50/50, .70": lambda: blocks([0.5, 0.5], 0.70, 8),
    "blocks, noise": lambda: blocks([0.6, 0.3, 0.1], 0.46, 8),
    "rings 10 %": lambda: rings(0.1, 0.02),
    "rings 50 %": lambda: rings(0.5, 0.05, n_nodes=6_000),
    "rings 3 %": lambda: rings(0.03, 0.1),
    "rings 10 %, hubs": lambda: rings(0.1, 0.05, 50),
    "accounts 20 %": lambda: accounts(0.2),
    "accounts 5 %": lambda: accounts(0.05),
    "accounts 1 %": lambda: accounts(0.01),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Accuracy of every method on the draws of one graph."""

    name: str
    way: str
    per_class: int
    draws: dict[str, list[float]]

    @property
    def right(self) -> dict[str, float]:
        return {name: float(np.mean(each)) for name, each in self.draws.items()}

    @property
    def best(self) -> str:
        others = {name: each for name, each in self.right.items() if name != "auto"}
        return max(others, key=lambda name: others[name])

    @property
    def lead(self) -> float:
        """Of the default over the best of the others."""
        return self.right["auto"] - self.right[self.best]

    @property
    def error(self) -> float:
        """Standard error of the lead, of the draws that both had."""
        gaps = np.subtract(self.draws["auto"], self.draws[self.best])
        return float(gaps.std(ddof=1) / np.sqrt(gaps.size)) if gaps.size > 1 else 0.0

    def is_close(self, margin: float) -> bool:
        """Whether the default is so near the best of the others, or within a standard error."""
        return self.lead >= -max(margin, self.error)


def drawn(
    graph: Graph, classes: Int64Array, way: str, per_class: int, seed: int
) -> Int64Array | None:
    """Labeled nodes; None where a class is too small, or the labels are all of one."""
    known = np.flatnonzero(classes >= 0)
    counts = np.bincount(classes[known])
    if per_class * counts.size > known.size // 4:
        return None
    if way == "balanced" and counts.min() < 2 * per_class:
        return None
    if way == "balanced":
        return draw_per_class(classes, per_class, seed=seed)
    rng = np.random.default_rng(seed)
    if way == "spread":
        nodes = spread(graph, rng.permutation(known), per_class * counts.size)
    else:
        nodes = np.sort(rng.choice(known, per_class * counts.size, replace=False))
    return nodes if np.unique(classes[nodes]).size > 1 else None


def spread(graph: Graph, order: Int64Array, n_labels: int) -> Int64Array:
    """The first nodes of an order that are not within two steps of one before."""
    adjacency = graph.adjacency
    is_free, chosen = np.ones(graph.n_nodes, bool), []
    for node in order:
        if len(chosen) < n_labels and is_free[node]:
            chosen.append(node)
            near = adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]]
            is_free[node] = is_free[near] = False
            for each in near:
                further = slice(*adjacency.indptr[each : each + 2])
                is_free[adjacency.indices[further]] = False
    return np.sort(np.array(chosen))


def measure(name: str, n_draws: int, ways: list[str], label_counts: list[int]) -> list[Row]:
    graph, true = SETS[name]()
    models = {"auto": Auto(), **ARMS}
    prepared = {each: model.prepare(graph) for each, model in models.items()}
    rows = []
    for way in ways:
        for per_class in label_counts:
            right: dict[str, list[float]] = defaultdict(list)
            for seed in range(n_draws):
                mixed = np.roll(np.random.default_rng(0).permutation(int(true.max()) + 1), seed)
                classes = np.where(true >= 0, mixed[true], -1)
                nodes = drawn(graph, classes, way, per_class, seed)
                if nodes is None:
                    continue
                labels = Labels.from_pairs(nodes, classes[nodes])
                codes = np.array(labels.class_names)
                for each, model in models.items():
                    found = codes[model.solve(prepared[each], labels).scores.argmax(axis=1)]
                    right[each].append(share_right(found, classes, nodes))
                counts = np.bincount(labels.classes)
                largest = codes[counts == counts.max()]
                shares = [share_right(np.full(classes.size, c), classes, nodes) for c in largest]
                right["majority"].append(float(np.mean(shares)))
                problem = Problem(graph=graph, classes=classes, draws=lambda *_: iter(()))
                for peer, predict in peer_methods(problem, PEERS).items():
                    right[peer].append(share_right(predict(nodes), classes, nodes))
            if right:
                rows.append(Row(name=name, way=way, per_class=per_class, draws=dict(right)))
                CONSOLE.print(f"{name}, {way} {per_class}: {100 * rows[-1].lead:+.1f}")
    return rows


def show(rows: list[Row]) -> None:
    """The worst rows, then a line for each way of drawing labels."""
    worst = (
        (
            *(row.name, f"{row.way} {row.per_class}", 100 * row.right["auto"]),
            *(100 * row.right[row.best], row.best, -100 * row.lead, 100 * row.error),
        )
        for row in sorted(rows, key=lambda each: each.lead)[:10]
    )
    columns = "graph|labels|auto {:.1f}|best of the others {:.1f}||loses {:.1f}|+- {:.1f}"
    show_table("where auto loses most", columns, worst, left=7)
    table = []
    names = list(rows[0].right)
    for way in WAYS:
        for per_class in sorted({row.per_class for row in rows}):
            own = [row for row in rows if row.way == way and row.per_class == per_class]
            if not own:
                continue
            lead = 100 * np.mean(
                [[row.right[name] - row.right[row.best] for name in names] for row in own], axis=0
            )
            below = min(row.right["auto"] - row.right["majority"] for row in own)
            near = [sum(row.is_close(margin) for row in own) for margin in (0.01, 0.02)]
            least = 100 * min(row.lead for row in own)
            table.append([f"{way} {per_class}", len(own), *lead, *near, least, 100 * min(below, 0)])
    means = "|".join(f"{name} {{:+.1f}}" for name in names)
    columns = f"labels|graphs|{means}|within 1|within 2|worst {{:+.1f}}|below the majority {{:.1f}}"
    show_table("mean lead over the best of the others, by labels", columns, table)


def main() -> None:
    asked = options(
        __doc__,
        quick={"sets": ["digits"], "draws": 1},
        sets=(list(SETS), SETS),
        labels=([1, 5, 20, 50], "per class"),
        ways=(["balanced", "random"], WAYS),
        draws=3,
    )
    rows: list[Row] = []
    for name in asked.sets:
        try:
            rows += measure(name, asked.draws, asked.ways, asked.labels)
        except FileNotFoundError as missing:
            CONSOLE.print(f"left out: {name} ({missing})")
    if rows:
        show(rows)


if __name__ == "__main__":
    main()
