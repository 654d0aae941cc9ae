"""Does the default rank frauds as well as its best arm, and do warnings come where they should?

Run ``python -m docs.benchmarks.fraud [ranking] [warnings] [--draws 10]``. Accounts of which 1 to
20 % are frauds, in small rings among popular merchants. Two thirds of the labels are frauds, as
where frauds are what people report, or labels are a random sample that knows a fraud. Ranking: the
average precision of the fraud class, by its score on the nodes without label, of `auto` beside each
arm and other libraries on the same draws, the worst loss first. Warnings: of how many draws a job
would tell each, there and on the graphs of digits, USPS and mnist, where nothing is wrong. The last
two are read from the folder that ``PEEWIT_DATA`` names; libraries that are not installed are left
out, and said to be.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.metrics import average_precision_score, roc_auc_score

from docs.benchmarks.accuracy import Problem, installed, named, spread
from docs.benchmarks.default_model import SETS, accounts, drawn
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.assessment.plausibility import ComparedShares, answer_warnings
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.auto.arms import TELEPORT
from peewit.solvers.models.auto.auto import Auto
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Average precision and area under the ROC curve of every draw, by method."""

    frauds: float
    way: str
    n_labels: int
    precision: dict[str, list[float]]
    area: dict[str, list[float]]

    @property
    def best(self) -> str:
        """The arm with the best mean average precision."""
        arms = [name for name in self.precision if name in OURS and name != "auto"]
        return max(arms, key=lambda name: float(np.mean(self.precision[name])))

    @property
    def gaps(self) -> FloatArray:
        """(n_draws,) average precision of `auto` less that of the best arm."""
        return np.subtract(self.precision["auto"], self.precision[self.best])

    @property
    def cells(self) -> list[str]:
        """Of the table; standard errors are those of the gaps."""
        n_draws = self.gaps.size
        error = self.gaps.std(ddof=1) / n_draws**0.5 if n_draws > 1 else float("nan")
        both = [
            f"{np.mean(self.precision[name]):.3f} / {np.mean(self.area[name]):.2f}"
            for name in self.precision
        ]
        gap = f"{self.gaps.mean():+.3f} ± {error:.3f} ({self.best})"
        return [f"{self.frauds:.0%}", f"{self.way} {self.n_labels}", str(n_draws), gap, *both]


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


def methods(problem: Problem, console: Console) -> dict[str, Score]:
    """Ours and those of other libraries, prepared."""

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
    network = installed("sknetwork.classification", console)
    if network is not None:
        found["sknetwork diffusion"] = lambda nodes: network.DiffusionClassifier(
            n_iter=50
        ).fit_predict_proba(adjacency, named(problem, nodes))[:, 1]
    learning = installed("graphlearning", console)
    if learning is not None:
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


def rank(frauds: float, label_counts: list[int], n_draws: int, console: Console) -> list[Ranking]:
    """Every way of drawing labels at one share of frauds."""
    problem = _without_isolated(*accounts(frauds))
    graph, classes = problem.graph, problem.classes
    scores = methods(problem, console)
    rankings = []
    for way in WAYS:
        for n_labels in label_counts:
            draws = [labeled(graph, classes, way, n_labels, seed) for seed in range(n_draws)]
            row = Ranking(
                frauds=frauds,
                way=way,
                n_labels=n_labels,
                precision={name: [] for name in scores},
                area={name: [] for name in scores},
            )
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
                console.print(" | ".join(row.cells))
    return rankings


def _without_isolated(graph: Graph, classes: Int64Array) -> Problem:
    """Nodes that have edges: of one that has none graphlearning makes every score NaN."""
    kept = np.flatnonzero(graph.degree > 0)
    edges = sp.triu(sp.csr_matrix(graph.adjacency)[kept][:, kept]).tocoo()
    smaller = Graph.from_edges(edges.row, edges.col, edges.data, n_nodes=kept.size)
    return Problem(graph=smaller, classes=classes[kept], draws=lambda *_: iter(()))


def show_rankings(rankings: list[Ranking], console: Console) -> None:
    """One row for each way of drawing labels, the worst loss first."""
    table = Table(title="average precision of the fraud class / area under the ROC curve")
    headings = ["frauds", "labels", "draws", "auto less best arm", *rankings[0].precision]
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "labels" else "right")
    for row in sorted(rankings, key=lambda each: float(np.mean(each.gaps))):
        table.add_row(*row.cells)
    console.print(table)


def count_warnings(
    name: str, label_counts: dict[str, list[int]], n_draws: int, table: Table, console: Console
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
                nodes = draw(classes, way, n_labels, seed)
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
                table.add_row(*row)
                console.print(" | ".join(row))


def kind_of(warning: str) -> str:
    """The heading that a warning counts for."""
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, warning))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ["ranking", "warnings"]
    parser.add_argument("parts", nargs="*", default=parts, metavar="ranking|warnings")
    parser.add_argument("--frauds", type=float, nargs="*", default=[0.01, 0.05, 0.1, 0.2])
    parser.add_argument("--labels", type=int, nargs="+", default=[30, 60, 120])
    parser.add_argument("--sets", nargs="*", choices=UNIFORM_SETS, default=list(UNIFORM_SETS))
    parser.add_argument("--draws", type=int, default=10)
    arguments = parser.parse_args()
    console = Console(width=max(220, Console().width))
    if "ranking" in arguments.parts:
        rankings: list[Ranking] = []
        for frauds in arguments.frauds:
            rankings += rank(frauds, arguments.labels, arguments.draws, console)
        show_rankings(rankings, console)
    if "warnings" in arguments.parts:
        table = Table(title="draws of which a job warns")
        for heading in ("graph", "labels", "draws", *KINDS, "any"):
            table.add_column(heading, justify="left" if heading in ("graph", "labels") else "right")
        ways = dict.fromkeys(WAYS, arguments.labels)
        for frauds in arguments.frauds:
            count_warnings(str(frauds), ways, arguments.draws, table, console)
        for name in arguments.sets:
            try:
                per_class = {way: [1, 5, 20] for way in ("balanced", "random")}
                count_warnings(name, per_class, arguments.draws, table, console)
            except FileNotFoundError as missing:
                console.print(f"left out: {name} ({missing})")
        console.print(table)


if __name__ == "__main__":
    main()
