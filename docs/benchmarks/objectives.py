"""What does ``objective=macro-f1`` gain and cost, and what do known class shares?

Graphs: those of ``strangers`` in the folder that ``PEEWIT_DATA`` names. Labels are drawn equally
many of each class, 1, 5 or 20, or 1 % or 5 % of the nodes at random; classes are numbered otherwise
in every draw. Printed are accuracy and macro-F1 of `auto` at the nodes that are not labeled, by the
most probable class and by the rule for macro-F1, the same with the true class shares, and the
accuracies of the worst and the best draw.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq

from docs.benchmarks.frame import CONSOLE, folder, options, show
from peewit.solvers.arrays import Int64Array
from peewit.solvers.assessment.left_out_accuracy import macro_f1
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from tests.data_sets import draw_per_class

GRAPHS = (
    "outlier_reddit",
    "minesweeper",
    "twitch_RU",
    "lfr_1",
    "lfr_5",
    "hopkins_dorm",
    "squirrel_filtered",
    "knn_dna",
)
WAYS = ("1 a class", "5 a class", "20 a class", "1 % at random", "5 % at random")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Percentages of one draw, or means of several."""

    accuracy: float
    macro_f1: float
    accuracy_of_rule: float  # by the rule for macro-F1
    macro_f1_of_rule: float
    accuracy_of_shares: float  # most probable classes, with the true class shares
    macro_f1_of_shares: float


def main() -> None:
    """Print a row for every graph and way of drawing, and means."""
    asked = options(__doc__, cases=GRAPHS, draws=3)
    rows: dict[tuple[str, str], list[Judged]] = {}
    for name in asked.cases:
        graph, classes = made(name)
        prepared = Auto().prepare(graph)
        for way in WAYS:
            for seed in range(asked.draws):
                rng = np.random.default_rng(seed)
                own = np.where(classes >= 0, rng.permutation(classes.max() + 1)[classes], -1)
                nodes = drawn(own, way, seed)
                if nodes is not None:
                    rows.setdefault((name, way), []).append(judged(prepared, own, nodes))
        CONSOLE.print(f"done {name}", style="dim")
    shown = [(name, way, *_means(draws)) for (name, way), draws in rows.items()]
    for way in WAYS:
        every = [each for (_, own), draws in rows.items() if own == way for each in draws]
        shown.append(("mean", way, *_means(every)))
    columns = "graph|labels|accuracy|F1|rule: accuracy|rule: F1|shares: accuracy|shares: F1|draws"
    show("auto", columns, shown)


def made(name: str) -> tuple[Graph, Int64Array]:
    """A graph and its classes, -1 where the source gives none."""
    edges = pq.read_table(folder() / "strangers" / f"{name}_edges.parquet")
    labels = pq.read_table(folder() / "strangers" / f"{name}_labels.parquet")
    classes = np.full(labels.num_rows, -1, np.int64)
    classes[labels["node"].to_numpy()] = labels["label"].to_numpy()
    has_weights = "weight" in edges.schema.names
    weight = edges["weight"].to_numpy() if has_weights else np.ones(edges.num_rows)
    u, v = edges["src"].to_numpy(), edges["dst"].to_numpy()
    return Graph.from_edges(u, v, weight, n_nodes=classes.size), classes


def drawn(classes: Int64Array, way: str, seed: int) -> Int64Array | None:
    """Nodes to label; None where a class has too few, or one class alone was drawn."""
    number, known = int(way.split(maxsplit=1)[0]), np.flatnonzero(classes >= 0)
    if "class" in way:
        is_possible = np.bincount(classes[known]).min() >= 2 * number
        return draw_per_class(classes, number, seed=seed) if is_possible else None
    n_drawn = max(2, round(number / 100 * known.size))
    nodes = np.random.default_rng(seed).choice(known, n_drawn, replace=False)
    return None if np.ptp(classes[nodes]) == 0 else np.sort(nodes)


def judged(prepared: object, classes: Int64Array, nodes: Int64Array) -> Judged:
    """Both rules on one answer, and the answer with true class shares."""
    labels = Labels.from_pairs(nodes, classes[nodes].tolist())
    names = np.array(labels.class_names)
    is_asked = classes >= 0
    is_asked[nodes] = False
    truth, n_classes = classes[is_asked], int(classes.max()) + 1
    sizes = np.bincount(classes[classes >= 0], minlength=n_classes)
    shares = {int(name): int(sizes[name]) for name in names}

    def figures(predicted: Int64Array) -> tuple[float, float]:
        own = names[predicted[is_asked]]
        return 100 * float((own == truth).mean()), 100 * macro_f1(truth, own, n_classes)

    answer = Auto(objective="macro-f1").solve(prepared, labels)
    known = Auto(class_shares=shares).solve(prepared, labels)
    accuracy, f1 = figures(answer.scores.argmax(axis=1))
    accuracy_of_rule, f1_of_rule = figures(answer.classes())
    accuracy_of_shares, f1_of_shares = figures(known.classes())
    return Judged(
        accuracy=accuracy,
        macro_f1=f1,
        accuracy_of_rule=accuracy_of_rule,
        macro_f1_of_rule=f1_of_rule,
        accuracy_of_shares=accuracy_of_shares,
        macro_f1_of_shares=f1_of_shares,
    )


def _means(draws: list[Judged]) -> tuple[str, ...]:
    values = np.array([[getattr(each, name) for name in Judged.__slots__] for each in draws])
    accuracy = values[:, 0]
    return (
        *(f"{value:.1f}" for value in values.mean(axis=0)),
        f"{accuracy.min():.0f} to {accuracy.max():.0f}",
    )


if __name__ == "__main__":
    main()
