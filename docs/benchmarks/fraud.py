"""Does the default rank frauds as well as its best arm, and do warnings come where they should?

Accounts of which 1 to 20 % are frauds, in small rings among popular merchants. Two thirds of the
labels are frauds, as where frauds are what people report, or labels are a random sample that knows
a fraud. Ranking: the average precision of the fraud class, by its score on the nodes without label,
of `auto` beside each arm and other libraries on the same draws, the worst loss first. Warnings: of
how many draws a job would tell each, there and on the graphs of digits, USPS and mnist, where
nothing is wrong; the last two are read from the folder that ``PEEWIT_DATA`` names.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.metrics import average_precision_score, roc_auc_score

from docs.benchmarks.accuracy import Problem, named, spread
from docs.benchmarks.default_model import SETS, accounts, drawn
from docs.benchmarks.frame import CONSOLE, Figures, installed, options, show
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.assessment.plausibility import ComparedShares, answer_warnings
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.density_arm import TELEPORT
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.poisson.poisson import Poisson

Score = Callable[[Int64Array], FloatArray]
"""From labeled nodes to a number of every node, larger for frauds."""

MODELS: dict[str, Model] = {
    "auto": Auto(),
    "poisson": Poisson(),
    "harmonic-mbo": HarmonicMBO(),
    "stable-hfs": StableHFS(),
    "hfs": HFS(),
}
DENSITY = "density"
OURS = [*MODELS, DENSITY]

KINDS = {
    "no random sample": "no random sample of the nodes",
    "shares differ": "predicted otherwise than labeled",
    "class lost": "nearly collapsed|hardly a node",
    "as good as the majority": "labels left out were predicted right",
    "all of one sort": "say little of|all labels lie in one|lie close together",
}
UNIFORM_SETS = ("digits", "usps", "mnist_knn10")
WAYS = ("mostly fraud", "random")


@dataclass(frozen=True, slots=True)
class Ranking:
    """Average precision and area under the ROC curve of every draw, by method."""

    frauds: float
    way: str
    n_labels: int
    precision: dict[str, list[float]]
    area: dict[str, list[float]]

    @property
    def best(self) -> str:
        arms = [name for name in self.precision if name in OURS and name != "auto"]
        return max(arms, key=lambda name: float(np.mean(self.precision[name])))

    @property
    def gaps(self) -> FloatArray:
        """(n_draws,) average precision of `auto` less that of the best arm."""
        return np.subtract(self.precision["auto"], self.precision[self.best])

    @property
    def cells(self) -> list[Any]:
        """Of the table; standard errors are those of the gaps."""
        n_draws = self.gaps.size
        error = self.gaps.std(ddof=1) / n_draws**0.5 if n_draws > 1 else float("nan")
        both = [
            (np.mean(self.precision[name]), np.mean(self.area[name])) for name in self.precision
        ]
        gap = self.gaps.mean(), error, self.best
        return [f"{self.frauds:.0%}", f"{self.way} {self.n_labels}", n_draws, gap, *both]


def labeled(
    graph: Graph, classes: Int64Array, way: str, n_labels: int, seed: int
) -> Int64Array | None:
    """Labeled nodes; None where these are most of all frauds, or know one class."""
    if way == "random":
        return drawn(graph, classes, way, n_labels // 2, seed)
    rng = np.random.default_rng(seed)
    frauds, honest = np.flatnonzero(classes == 1), np.flatnonzero(classes == 0)
    n_frauds = 2 * n_labels // 3
    if 2 * n_frauds > frauds.size:
        return None
    chosen = [rng.choice(frauds, n_frauds, replace=False)]
    chosen.append(rng.choice(honest, n_labels - n_frauds, replace=False))
    return np.sort(np.concatenate(chosen))


def methods(problem: Problem) -> dict[str, Score]:
    def of_model(model: Model) -> Score:
        prepared = model.prepare(problem.graph)

        def score(nodes: Int64Array) -> FloatArray:
            labels = Labels.from_pairs(nodes, problem.classes[nodes])
            scores: FloatArray = model.solve(prepared, labels).scores[:, 1]
            return scores

        return score

    found = {name: of_model(model) for name, model in MODELS.items()}
    found[DENSITY] = _density(problem)
    adjacency = sp.csr_matrix(problem.graph.adjacency)
    found["sklearn spreading"] = lambda nodes: spread(problem, nodes).label_distributions_[:, 1]
    if network := installed("sknetwork.classification"):
        found["sknetwork diffusion"] = lambda nodes: network.DiffusionClassifier(
            n_iter=50
        ).fit_predict_proba(adjacency, named(problem, nodes))[:, 1]
    if learning := installed("graphlearning"):
        found["graphlearning poisson"] = lambda nodes: learning.ssl.poisson(adjacency).fit(
            nodes, problem.classes[nodes]
        )[:, 1]
    return found


def _density(problem: Problem) -> Score:
    """How much more often walks from frauds come by than walks from honest accounts (K6)."""
    pagerank = PersonalizedPageRank.of_graph(problem.graph)
    root = pagerank.inverse_root
    volume = float((1.0 / np.square(root)).sum())

    def score(nodes: Int64Array) -> FloatArray:
        targets = np.zeros((problem.graph.n_nodes, 2))
        targets[nodes, problem.classes[nodes]] = 1.0
        found = pagerank.filtered(targets * root[:, None], TELEPORT).astype(np.float64)
        honest, frauds = (found * (volume * root[:, None]) / targets.sum(axis=0) + 0.3).T
        return np.asarray(frauds / honest)

    return score


def rank(frauds: float, label_counts: list[int], n_draws: int) -> list[Ranking]:
    """Every way of drawing labels at one share of frauds."""
    problem = _without_isolated(*accounts(frauds))
    graph, classes = problem.graph, problem.classes
    scores = methods(problem)
    rankings = []
    for way in WAYS:
        for n_labels in label_counts:
            draws = [labeled(graph, classes, way, n_labels, seed) for seed in range(n_draws)]
            row = Ranking(frauds, way, n_labels, *({name: [] for name in scores} for _ in range(2)))
            for nodes in draws:
                if nodes is None:
                    continue
                asked = np.setdiff1d(np.arange(classes.size), nodes)
                for name, score in scores.items():
                    values = score(nodes)[asked]
                    row.precision[name].append(average_precision_score(classes[asked], values))
                    row.area[name].append(roc_auc_score(classes[asked], values))
            if row.precision["auto"]:
                rankings.append(row)
                gap = "{:+.3f} ± {:.3f} ({})".format(*row.cells[3])
                CONSOLE.print(f"{frauds:.0%}, {way} {n_labels}, {row.gaps.size} draws: {gap}")
    return rankings


def _without_isolated(graph: Graph, classes: Int64Array) -> Problem:
    """Nodes that have edges: of one that has none graphlearning makes every score NaN."""
    kept = np.flatnonzero(graph.degree > 0)
    edges = sp.triu(sp.csr_matrix(graph.adjacency)[kept][:, kept]).tocoo()
    smaller = Graph.from_edges(edges.row, edges.col, edges.data, n_nodes=kept.size)
    return Problem(graph=smaller, classes=classes[kept], draws=lambda *_: iter(()))


def show_rankings(rankings: list[Ranking]) -> None:
    """One row for each way of drawing labels, the worst loss first."""
    methods = "|".join(f"{name} {{:.3f}} / {{:.2f}}" for name in rankings[0].precision)
    columns = f"frauds|labels|draws|auto less best arm {{:+.3f}} ± {{:.3f}} ({{}})|{methods}"
    rows = sorted(rankings, key=lambda each: float(np.mean(each.gaps)))
    title = "average precision of the fraud class / area under the ROC curve"
    show(title, columns, (row.cells for row in rows), left=2)


def count_warnings(
    name: str, label_counts: dict[str, list[int]], n_draws: int, table: Figures
) -> None:
    """Rows of ``table``: of how many draws on one graph each kind of warning is told."""
    graph, classes = accounts(float(name)) if name[0].isdigit() else SETS[name]()
    model = Auto()
    prepared = model.prepare(graph)
    for way, counts in label_counts.items():
        for n_labels in counts:
            told: Counter[str] = Counter()
            n_drawn = n_told = 0
            for seed in range(n_draws):
                draw = labeled if "mostly fraud" in label_counts else drawn
                nodes = draw(graph, classes, way, n_labels, seed)
                if nodes is None:
                    continue
                labels = Labels.from_pairs(nodes, classes[nodes])
                solution = model.solve(prepared, labels)
                shares = ComparedShares.of(labels, solution)
                found = [*solution.warnings, *answer_warnings(labels, graph, solution, shares)]
                told.update({kind_of(each) for each in found})
                n_drawn += 1
                n_told += bool(found)
            if n_drawn:
                cells = [str(told[kind]) if told[kind] else "" for kind in KINDS]
                title = f"accounts {float(name):.0%}" if name[0].isdigit() else name
                unit = "" if "mostly fraud" in label_counts else " a class"
                row = [title, f"{way} {n_labels}{unit}", str(n_drawn), *cells, str(n_told or "")]
                table.add(*row)
                CONSOLE.print(" | ".join(row))


def kind_of(warning: str) -> str:
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, warning))


def main() -> None:
    asked = options(
        __doc__,
        cases=("ranking", "warnings"),
        frauds=[0.01, 0.05, 0.1, 0.2],
        labels=[30, 60, 120],
        sets=(list(UNIFORM_SETS), UNIFORM_SETS),
        draws=10,
    )
    if "ranking" in asked.cases:
        rankings = [rank(frauds, asked.labels, asked.draws) for frauds in asked.frauds]
        show_rankings(list(chain.from_iterable(rankings)))
    if "warnings" in asked.cases:
        columns = "|".join(("graph", "labels", "draws", *KINDS, "any"))
        table = Figures("draws of which a job warns", columns, left=2)
        ways = dict.fromkeys(WAYS, asked.labels)
        for frauds in asked.frauds:
            count_warnings(str(frauds), ways, asked.draws, table)
        for name in asked.sets:
            try:
                per_class = {way: [1, 5, 20] for way in ("balanced", "random")}
                count_warnings(name, per_class, asked.draws, table)
            except FileNotFoundError as missing:
                CONSOLE.print(f"left out: {name} ({missing})")
        CONSOLE.print(table)


if __name__ == "__main__":
    main()
