"""Are wrong labels the most doubtful ones, and what is it worth to drop these?

Labels are a random sample, or equally many of each class (``--balanced``), of graphs of
`docs.benchmarks.default_model`; 5 and 10 % of them are flipped to another class at random. Printed
are, in percent: how many of the first labels of a ranking are flipped ones, as many as were flipped
being looked at (by chance 5 or 10), in Peewit's ranking and in those of cleanlab (by the margin,
and by self-confidence, which is Peewit's of probabilities) on the same left-out probabilities; how
many of what ``cleanlab.filter.find_label_issues`` returns are flipped, and how many of the flipped
it returns; and how many other nodes are predicted right with flipped labels, without as many
doubtful ones as were flipped, and with clean labels. Without cleanlab its columns are empty.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from rich.box import MARKDOWN

from docs.benchmarks.default_model import SETS, drawn
from docs.benchmarks.frame import CONSOLE, Figures, options
from peewit.solvers.arrays import BoolArray, Float32Array, Int64Array
from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.assessment.label_doubts import LabelDoubts
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.classes.score_calibration import fitted_without_fold
from peewit.solvers.models.contract.model import Model
from peewit.solvers.solution import Solution

HAS_CLEANLAB = find_spec("cleanlab") is not None
N_FOLDS = 5
SHARES = (0.05, 0.1)
QUICK = ("digits", "cora")
USUAL = (
    *("digits", "usps", "cora", "citeseer"),
    *("blocks 5, .75", "blocks 10/90, .75", "rings 10 %, hubs"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """Nodes of a graph that are labeled, and the classes of all."""

    graph: Graph
    classes: Int64Array
    nodes: Int64Array

    def right(self, labels: Labels, solution: Solution, reached: BoolArray) -> float:
        """Part of the other nodes that is predicted right, of those that labels reached."""
        asked = (self.classes >= 0) & reached
        asked[self.nodes] = False
        predicted = np.array(labels.class_names)[solution.scores.argmax(axis=1)]
        return float(((predicted == self.classes) & solution.reachable)[asked].mean())

    def right_clean(self, model: Model) -> float:
        labels = Labels.from_pairs(self.nodes, self.classes[self.nodes].tolist())
        solution = model.solve(model.prepare(self.graph), labels)
        return self.right(labels, solution, solution.reachable)


def flipped(classes: Int64Array, n_flipped: int, rng: np.random.Generator) -> Int64Array:
    """Classes of which so many are another one, at random."""
    codes, place = np.unique(classes, return_inverse=True)
    rows = rng.choice(classes.size, n_flipped, replace=False)
    place[rows] = (place[rows] + rng.integers(1, codes.size, n_flipped)) % codes.size
    return codes[place]


def looked_at(
    draw: Draw, model: Model, share: float, seed: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """Figures of one draw with flipped labels, by the model's scores and by probabilities."""
    truth = draw.classes[draw.nodes]
    n_flipped = round(share * truth.size)
    values = flipped(truth, n_flipped, np.random.default_rng(seed))
    labels = Labels.from_pairs(draw.nodes, values.tolist())
    prepared = model.prepare(draw.graph)
    solution = model.solve(prepared, labels)
    found = cross_validate(model, prepared, labels, n_folds=N_FOLDS, start=solution)
    known = np.flatnonzero(np.isfinite(found.scores).all(axis=1))
    ranked = [("", found.scores, model.score_kind)]
    if not model.is_calibrated:
        shares = found.scores.copy()
        shares[known] = fitted_without_fold(shares[known], labels.classes[known], found.fold[known])
        ranked.append((", probabilities", shares, "probability"))
    is_flipped = values != truth
    right = draw.right(labels, solution, solution.reachable)
    for name, scores, kind in ranked:
        doubts = LabelDoubts.of(scores, labels.classes, kind)
        is_dropped = doubts.dropped(n_flipped)
        kept = labels.subset(np.flatnonzero(~is_dropped))
        told = {
            "found": float(is_flipped[doubts.order[:n_flipped]].mean()),
            "flipped": right,
            "without": draw.right(labels, model.solve(prepared, kept), solution.reachable),
        }
        if kind == "probability" and HAS_CLEANLAB:
            told |= _of_cleanlab(scores[known], labels.classes[known], is_flipped[known], n_flipped)
        yield name, told


def _of_cleanlab(
    scores: Float32Array, classes: Int64Array, is_flipped: BoolArray, n_flipped: int
) -> dict[str, float]:
    """The same of its rankings, and of the labels that it calls issues."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    shares = scores / scores.sum(axis=1, keepdims=True)
    told = {}
    for name in ("self_confidence", "normalized_margin"):
        order = np.argsort(get_label_quality_scores(classes, shares, method=name), kind="stable")
        told[name] = float(is_flipped[order[:n_flipped]].mean())
    is_issue = find_label_issues(classes, shares, n_jobs=1)
    if is_issue.any():
        told["issues flipped"] = float(is_flipped[is_issue].mean())
    told["flipped issues"] = float(is_issue[is_flipped].mean())
    return told


COLUMNS = {
    "found": "found",
    "self_confidence": "self-confidence",
    "normalized_margin": "margin",
    "issues flipped": "issues flipped",
    "flipped issues": "flipped found",
    "flipped": "right, flipped",
    "without": "dropped",
    "clean": "clean",
}


def shown(figures: dict[float, dict[str, list[float]]], key: str) -> str:
    """Mean of a figure, of each share of flipped labels; one number where they are equal."""
    means = [f"{100 * np.mean(told[key]):.1f}" if key in told else "-" for told in figures.values()]
    return " / ".join(dict.fromkeys(means))


def main() -> None:
    asked = options(
        __doc__,
        quick={"draws": 1, "sets": list(QUICK)},
        draws=5,
        labels=140,
        models=["auto", "stable-hfs"],
        sets=(list(USUAL), SETS),
        balanced=(False, "equally many of each class"),
    )
    if not HAS_CLEANLAB:
        CONSOLE.print("left out: cleanlab, which is not installed (extra bench)")
    way = "balanced" if asked.balanced else "random"
    title = f"{asked.labels} labels, {way}; {' / '.join(f'{each:.0%}' for each in SHARES)} flipped"
    columns = "|".join(("graph", "model", *COLUMNS.values()))
    table = Figures(title, columns, left=2, box=MARKDOWN)
    for name in asked.sets:
        graph, classes = SETS[name]()
        per_class = max(1, asked.labels // np.unique(classes[classes >= 0]).size)
        for model_name in asked.models:
            model = CATALOGUE[model_name]()
            rows: dict[str, dict[float, dict[str, list[float]]]] = {}
            for seed in range(asked.draws):
                nodes = drawn(graph, classes, way, per_class, seed)
                if nodes is None:
                    continue
                draw = Draw(graph=graph, classes=classes, nodes=nodes)
                clean = draw.right_clean(model)
                for share in SHARES:
                    for suffix, told in looked_at(draw, model, share, seed):
                        figures = rows.setdefault(model_name + suffix, {}).setdefault(share, {})
                        for key, value in (told | {"clean": clean}).items():
                            figures.setdefault(key, []).append(value)
            for row, of_shares in rows.items():
                table.add(name, row, *(shown(of_shares, key) for key in COLUMNS))
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
    main()
