"""Do suggested nodes teach more than random ones? Accuracy against the number of labels.

Each run begins with one random label of each class and adds some in each round: drawn at random, or
as `peewit.solvers.active_learning` suggests by the predictions of the round before and the
resistance embedding that a job of kind embed makes. What is suggested gets its true label. Figures
are means over the runs, which begin alike for every strategy. ``--figure FILE`` draws them.
"""

from pathlib import Path

import numpy as np

from docs.benchmarks.frame import CONSOLE, Figures, folder, options, wall_of
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
        margin = best[:, 1] - best[:, 0]
        taken, spent = wall_of(chosen, strategy, points, margin, labeled, free, n_each, rng)
        seconds += spent
        labeled = np.append(labeled, taken)
    return accuracies, seconds / n_rounds


def draw_figure(path: Path, curves: dict[str, FloatArray], n_labels: list[int], title: str) -> None:
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
    asked = options(
        __doc__,
        quick={"rounds": 2, "draws": 2},
        set=("digits", SETS),
        model=("stable-hfs", sorted(CATALOGUE)),
        rounds=6,
        draws=8,
        figure=Path,
    )
    name, model = asked.set, CATALOGUE[asked.model]()
    graph, classes = digits_graph() if name == "digits" else labeled_graph(folder(), name)
    found, seconds = wall_of(locate, graph, seed=0)
    n_each, n_classes = SETS[name], len(np.unique(classes[classes >= 0]))
    n_labels = [n_classes + n_each * number for number in range(asked.rounds + 1)]
    title = f"{name}, {asked.model}, means of {asked.draws} runs"
    counts = "|".join(f"{count} {{:.3f}}" for count in n_labels)
    table = Figures(title, f"strategy|{counts}|s a round {{:.2f}}")
    curves = {}
    CONSOLE.print(f"{graph}, embedded in {seconds:.1f} s")
    for strategy in STRATEGIES:
        size = {"n_rounds": asked.rounds, "n_each": n_each}
        runs = [
            learn(model, graph, classes, found.vectors, strategy, seed=seed, **size)
            for seed in range(asked.draws)
        ]
        curves[strategy] = np.mean([accuracies for accuracies, _ in runs], axis=0)
        table.add(strategy, *curves[strategy], np.mean([each for _, each in runs]))
    CONSOLE.print(table)
    if asked.figure is not None:
        draw_figure(asked.figure, curves, n_labels, title)


if __name__ == "__main__":
    main()
