"""What does ``objective=macro-f1`` gain and cost, and what do known class shares?

Graphs and draws are some of `docs.benchmarks.strangers`. Printed are accuracy and macro-F1 of
`auto` at the nodes that are not labeled, by the most probable class and by the rule for macro-F1,
the same with the true class shares, and the accuracies of the worst and the best draw.
"""

from dataclasses import dataclass

import numpy as np

from docs.benchmarks.frame import CONSOLE, options, show
from docs.benchmarks.strangers import WAYS, draws, load
from peewit.solvers.arrays import Int64Array
from peewit.solvers.assessment.left_out_accuracy import macro_f1
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto

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
        graph, classes = load(name)
        prepared = Auto().prepare(graph)
        for way in WAYS:
            rows[name, way] = [
                judged(prepared, own, labels) for own, labels in draws(classes, way, asked.draws)
            ]
        CONSOLE.print(f"done {name}", style="dim")
    shown = [(name, way, *_means(own)) for (name, way), own in rows.items() if own]
    for way in WAYS:
        every = [each for (_, own), some in rows.items() if own == way for each in some]
        shown.append(("mean", way, *_means(every)))
    columns = "graph|labels|accuracy|F1|rule: accuracy|rule: F1|shares: accuracy|shares: F1|draws"
    show("auto", columns, shown)


def judged(prepared: object, classes: Int64Array, labels: Labels) -> Judged:
    """Both rules on one answer, and the answer with true class shares."""
    names = np.array(labels.class_names)
    is_asked = classes >= 0
    is_asked[labels.nodes] = False
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
