"""Do suggested nodes teach more than random ones? Accuracy against the number of labels.

Run ``python -m docs.benchmarks.suggestions --set facebook_pagepage`` or ``mnist_knn10``, read from
the folder that ``PEEWIT_DATA`` names, or ``digits``. Each run begins with one random label of each
class and adds some in each round: drawn at random, or as `peewit.solvers.active_learning` suggests
by the predictions of the round before and the resistance embedding that a job of kind embed makes.
What is suggested gets its true label. Accuracy counts the nodes without label; figures are means
over the runs, which begin alike for every strategy. ``--figure FILE`` draws them.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from peewit.solvers.active_learning import coverage, least_margins, least_variance, unsureness
from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import Model
from peewit.streaming.passes.node_embedding import locate
from tests.data_sets import accuracy, digits_graph, draw_per_class, labeled_graph

STRATEGIES = ("random", "margin", "variance", "coverage")
SETS = {"digits": 10, "facebook_pagepage": 20, "mnist_knn10": 10}
"""Labels of each round."""


def chosen(
    strategy: str,
    points: Float32Array,
    margin: FloatArray,
    labeled: Int64Array,
    free: BoolArray,
    n_chosen: int,
    rng: np.random.Generator,
) -> Int64Array:
    """The nodes of one round."""
    match strategy:
        case "margin":
            return least_margins(margin, free, n_chosen)
        case "variance":
            return least_variance(points, points[labeled], unsureness(margin), free, n_chosen)
        case "coverage":
            return coverage(points, margin, free, n_chosen, seed=int(rng.integers(2**31)))
        case _:
            return rng.choice(np.flatnonzero(free), n_chosen, replace=False)


def learn(
    model: Model,
    graph: Graph,
    classes: Int64Array,
    points: Float32Array,
    strategy: str,
    *,
    n_rounds: int,
    n_each: int,
    seed: int,
) -> tuple[list[float], float]:
    """Accuracy before each round and after the last, and seconds of choosing in one round."""
    rng = np.random.default_rng(seed)
    prepared = model.prepare(graph)
    labeled = draw_per_class(classes, 1, seed=seed)
    accuracies, seconds = [], 0.0
    for number in range(n_rounds + 1):
        nodes = np.sort(labeled)
        solution = model.solve(prepared, Labels.from_pairs(nodes, classes[nodes]))
        accuracies.append(accuracy(solution.scores, classes, labeled))
        if number == n_rounds:
            break
        best = np.partition(solution.scores, -2, axis=1)[:, -2:]
        free = classes >= 0
        free[labeled] = False
        began = time.perf_counter()
        margin = best[:, 1] - best[:, 0]
        taken = chosen(strategy, points, margin, labeled, free, n_each, rng)
        seconds += time.perf_counter() - began
        labeled = np.append(labeled, taken)
    return accuracies, seconds / n_rounds


def draw_figure(path: Path, curves: dict[str, FloatArray], n_labels: list[int], title: str) -> None:
    """Accuracy against labels, a line for each strategy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for strategy, curve in curves.items():
        style = {"color": "black", "linestyle": "--"} if strategy == "random" else {}
        axes.plot(n_labels, curve, label=strategy, marker="o", markersize=3, **style)
    axes.set(title=title, xlabel="labels", ylabel="accuracy on the others")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print a table for one set and one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=SETS, default="digits")
    parser.add_argument("--model", choices=sorted(CATALOGUE), default="stable-hfs")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--quick", action="store_true", help="Two rounds of two runs.")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds = arguments.draws = 2
    name = arguments.set
    if name == "digits":
        graph, classes = digits_graph()
    else:
        graph, classes = labeled_graph(Path(os.environ["PEEWIT_DATA"]), name)
    began = time.perf_counter()
    points = locate(graph, seed=0).vectors
    n_each = SETS[name]
    n_classes = len(np.unique(classes[classes >= 0]))
    n_labels = [n_classes + n_each * number for number in range(arguments.rounds + 1)]
    title = f"{name}, {arguments.model}, means of {arguments.draws} runs"
    table = Table(*("strategy", *map(str, n_labels), "s a round"), title=title)
    curves = {}
    console = Console()
    console.print(f"{graph}, embedded in {time.perf_counter() - began:.1f} s")
    for strategy in STRATEGIES:
        runs = [
            learn(
                CATALOGUE[arguments.model](),
                graph,
                classes,
                points,
                strategy,
                n_rounds=arguments.rounds,
                n_each=n_each,
                seed=seed,
            )
            for seed in range(arguments.draws)
        ]
        curve = np.mean([accuracies for accuracies, _ in runs], axis=0)
        curves[strategy] = curve
        seconds = np.mean([each for _, each in runs])
        table.add_row(strategy, *(f"{each:.3f}" for each in curve), f"{seconds:.2f}")
    console.print(table)
    if arguments.figure is not None:
        draw_figure(arguments.figure, curves, n_labels, title)


if __name__ == "__main__":
    main()
