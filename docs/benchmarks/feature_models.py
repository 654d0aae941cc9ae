"""What do features beside a graph add, what do networks make of them, and what does it cost?

Run ``python -m docs.benchmarks.feature_models [--draws 10] [--sets cora ...]``; ``PEEWIT_DATA``
names the folder of the citation sets and of BlogCatalog. Blocks with hubs are made: one of thirty
edges a node, three in four of which leave the class, and two where most neighbors are of another
class. Labels are drawn equally many of each class, 1 to 50, or are those of the public split where
a set has one, again in every draw, as networks begin at random. Beside `auto` with and without
features and `filtered-ridge` stand GCN and APPNP, and scikit-learn's LogisticRegression on the
features as they are, and on features that `filter_features` has smoothed. Printed first is where
`auto` loses most to the best of these, then the CPU seconds of a first solve on one thread, the
median. Networks are left out, and said to be, where PyTorch Geometric is not installed (extra
``bench``).
"""

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

from docs.benchmarks.accuracy import installed, mean_and_error
from docs.benchmarks.default_model import blocks
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.estimators.feature_filter import filter_features
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge
from tests.data_sets import draw_per_class, labeled_graph

STORED = ("cora", "citeseer", "acm", "cora_ml", "blogcatalog")
OURS = ("auto", "filtered-ridge", "auto, no features")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A graph whose nodes have features and known classes, -1 where there is none.

    Attributes
    ----------
    parts : dict of str to (n,) int64
        Nodes of the public split: train, test and perhaps val; empty without one.
    """

    graph: Graph
    classes: Int64Array
    features: Any
    parts: dict[str, Int64Array]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """Labels that are given, nodes that are asked for, and labels that networks may stop by."""

    labels: Labels
    asked: Int64Array
    validation: Labels | None
    seed: int


Scores = Callable[[Draw], FloatArray]


def stored(name: str) -> Problem:
    """A set of the folder that ``PEEWIT_DATA`` names."""
    if not os.environ.get("PEEWIT_DATA"):
        raise FileNotFoundError("PEEWIT_DATA is not set; it names the folder of the sets")
    folder = Path(os.environ["PEEWIT_DATA"])
    graph, classes = labeled_graph(folder, name)
    table = pq.read_table(folder / f"{name}_labels.parquet").to_pydict()
    parts = defaultdict(list)
    for node, part in zip(table["node"], table.get("split", []), strict=False):
        if classes[node] >= 0:
            parts[part].append(node)
    return Problem(
        graph=graph,
        classes=classes,
        features=sp.csr_array(sp.load_npz(folder / f"{name}_features.npz"), dtype=float),
        parts={part: np.sort(nodes) for part, nodes in parts.items()},
    )


def worded(n_classes: int, homophily: float, mean_degree: float, n_nodes: int = 2_000) -> Problem:
    """Blocks with hubs whose nodes have 15 words of 500 each, one in five of their class's 40."""
    graph, classes = blocks([1.0] * n_classes, homophily, mean_degree, n_nodes)
    rng = np.random.default_rng(n_classes)
    vocabulary = np.stack([rng.choice(500, 40, replace=False) for _ in range(n_classes)])
    words = rng.integers(0, 500, (n_nodes, 15))
    own = vocabulary[classes[:, None], rng.integers(0, 40, words.shape)]
    words = np.where(rng.random(words.shape) < 0.2, own, words)
    features = np.zeros((n_nodes, 500))
    features[np.arange(n_nodes)[:, None], words] = 1.0
    return Problem(graph=graph, classes=classes, features=sp.csr_array(features), parts={})


SETS: dict[str, Callable[[], Problem]] = {
    **{name: lambda name=name: stored(name) for name in STORED},
    "fast-mixing": lambda: worded(5, 0.25, 30.0),
    "heterophilous 2": lambda: worded(2, 0.2, 10.0),
    "heterophilous 5": lambda: worded(5, 0.02, 10.0),
}


def methods(problem: Problem, console: Console, row_norm: str | None = "l1") -> dict[str, Scores]:
    """From labels to class scores of all nodes; preparation is part of each."""
    graph, features = problem.graph, problem.features

    def solved(model: Model, given: Any) -> Scores:
        return lambda draw: model.solve(model.prepare(graph, given), draw.labels).scores

    def fitted(rows: Callable[[], Any]) -> Scores:
        def scores(draw: Draw) -> FloatArray:
            given = rows()
            machine = LogisticRegression(C=100.0, max_iter=2_000)
            machine.fit(given[draw.labels.nodes], draw.labels.classes)
            found: FloatArray = machine.predict_proba(given)
            return found

        return scores

    return {
        "auto": solved(Auto(), features),
        "filtered-ridge": solved(FilteredRidge(), features),
        **_networks(problem, console, row_norm),
        "auto, no features": solved(Auto(), None),
        "logistic regression": fitted(lambda: features),
        "the same, smoothed": fitted(lambda: filter_features(graph, features)),
    }


def _networks(problem: Problem, console: Console, row_norm: str | None) -> dict[str, Scores]:
    """Of PyTorch Geometric, if it is there."""
    if installed("torch_geometric.nn", console) is None:
        return {}
    from docs.benchmarks import graph_networks

    def trained(kind: type[graph_networks.Network]) -> Scores:
        return lambda draw: graph_networks.trained(
            kind,
            problem.graph,
            problem.features,
            draw.labels,
            draw.validation,
            seed=draw.seed,
            row_norm=row_norm,
        )

    return {"GCN": trained(graph_networks.GCN), "APPNP": trained(graph_networks.APPNP)}


def draws(problem: Problem, label_counts: list[int], n_draws: int) -> dict[str, list[Draw]]:
    """By the way that labels are drawn."""
    classes = problem.classes
    known = np.flatnonzero(classes >= 0)

    def told(nodes: Int64Array) -> Labels:
        return Labels.from_pairs(nodes, classes[nodes])

    def draw(count: int, seed: int) -> Draw:
        nodes = draw_per_class(classes, count, seed=seed)
        asked = np.setdiff1d(known, nodes)
        return Draw(labels=told(nodes), asked=asked, validation=None, seed=seed)

    found = {
        f"{count} a class": [draw(count, seed) for seed in range(n_draws)] for count in label_counts
    }
    if problem.parts:
        labels, asked = told(problem.parts["train"]), problem.parts["test"]
        validation = told(problem.parts["val"]) if "val" in problem.parts else None
        found["public"] = [
            Draw(labels=labels, asked=asked, validation=validation, seed=seed)
            for seed in range(n_draws)
        ]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Accuracy and CPU seconds of every method, for each draw."""

    name: str
    way: str
    right: dict[str, list[float]]
    seconds: dict[str, list[float]]

    @property
    def rival(self) -> str:
        """The best of the methods that are not ours."""
        return max(
            (each for each in self.right if each not in OURS),
            key=lambda each: float(np.mean(self.right[each])),
        )

    @property
    def lead(self) -> FloatArray:
        """Of the default over the rival, for each draw."""
        return np.subtract(self.right["auto"], self.right[self.rival])


def compile_all(console: Console) -> None:
    """Every method once, on a small problem."""
    problem = worded(2, 0.5, 10.0, n_nodes=200)
    (draw,) = draws(problem, [5], 1)["5 a class"]
    for scores in methods(problem, console).values():
        scores(draw)


def measure(
    name: str, label_counts: list[int], n_draws: int, row_norm: str | None, console: Console
) -> list[Row]:
    """Every method on every draw of one set."""
    problem = SETS[name]()
    known = methods(problem, Console(quiet=True), row_norm)
    rows = []
    for way, drawn in draws(problem, label_counts, n_draws).items():
        right, seconds = defaultdict(list), defaultdict(list)
        for draw in drawn:
            codes = np.array(draw.labels.class_names)
            for method, scores in known.items():
                begun = time.process_time()
                won = codes[scores(draw).argmax(axis=1)]
                seconds[method].append(time.process_time() - begun)
                right[method].append(float((won == problem.classes)[draw.asked].mean()))
        rows.append(Row(name=name, way=way, right=dict(right), seconds=dict(seconds)))
        means = [f"{each} {100 * np.mean(values):.1f}" for each, values in right.items()]
        console.print(f"{name}, {way}: {', '.join(means)}")
    return rows


def show(rows: list[Row], console: Console) -> None:
    """The worst rows first, then seconds."""
    names = list(rows[0].right)
    table = Table(title="accuracy in %, standard error; the worst for auto first")
    for heading in ("set", "labels", *names, "auto leads by"):
        table.add_column(heading)
    for row in sorted(rows, key=lambda each: float(each.lead.mean())):
        cells = ["{:.1f} ± {:.1f}".format(*mean_and_error(row.right[each])) for each in names]
        lead = "{:+.1f} ± {:.1f}".format(*mean_and_error(row.lead.tolist()))
        table.add_row(row.name, row.way, *cells, lead)
    console.print(table)
    table = Table(title="CPU seconds of a first solve")
    for heading in ("set", "labels", *names):
        table.add_column(heading)
    for row in rows:
        cells = [f"{np.median(row.seconds[each]):.2f}" for each in names]
        table.add_row(row.name, row.way, *cells)
    console.print(table)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 5, 20, 50], help="per class")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument(
        "--as-is", action="store_true", help="networks see features that are not scaled by rows"
    )
    parser.add_argument("--quick", action="store_true", help="one draw of cora")
    arguments = parser.parse_args()
    console = Console(width=max(170, Console().width))
    rows: list[Row] = []
    compile_all(console)
    for name in ["cora"] if arguments.quick else arguments.sets:
        n_draws = 1 if arguments.quick else arguments.draws
        try:
            row_norm = None if arguments.as_is else "l1"
            rows += measure(name, arguments.labels, n_draws, row_norm, console)
        except FileNotFoundError as missing:
            console.print(f"left out: {name} ({missing})")
    if rows:
        show(rows, console)


if __name__ == "__main__":
    main()
