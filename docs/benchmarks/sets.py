"""Do sets of classes hold the true one as often as was asked, and are probabilities true?

Labels are a random sample, equally many of each class (``--way balanced``), or as `Label next` asks
for them (``--way suggested``): a tenth at random, the others where the margin is least by the
labels before; then a second row judges by the random ones alone. Graphs are those of
`docs.benchmarks.default_model`. Printed are, of all other nodes that labels reach, in percent: how
many sets hold the true class, in the mean over the draws and of the worst class in it, beside the
share that was asked (90); mean size of a set, and how many hold one class; the same of *split*
conformal prediction, which solves with half of the labels and compares with the other half; and the
calibration error (15 bins) and Brier score of probabilities, before (scores shifted above 0, with
sum 1) and after.
"""

from collections import defaultdict
from itertools import product

import numpy as np

from docs.benchmarks.default_model import SETS, drawn
from docs.benchmarks.frame import options, show
from peewit.solvers.active_learning import least_margins
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.assessment.calibration import CalibrationMetrics
from peewit.solvers.assessment.conformal import ConformalPValues, SetKind, groups_of
from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.classes.score_calibration import Calibration
from peewit.solvers.models.contract.model import Model

COVERAGE = 0.9
N_FOLDS = 5
ROUND = 20
"""Labels of a round of suggestions, and of the random ones before the first."""

LEAST_NODES = 30
"""Of a class whose coverage is looked at by itself."""

QUICK = ("digits", "cora", "blocks 10/90, .75", "rings 10 %")
USUAL = (
    *("digits", "cora", "citeseer", "acm", "facebook_pagepage", "usps"),
    *("blocks 5, .75", "blocks 10/90, .75", "rings 10 %", "accounts 5 %"),
)


def as_suggested(
    graph: Graph, classes: Int64Array, model: Model, n_labels: int, seed: int
) -> tuple[Int64Array, BoolArray]:
    """Labeled nodes, increasing, and which of them were drawn at random."""
    rng = np.random.default_rng(seed)
    prepared = model.prepare(graph)
    free = classes >= 0
    is_random = np.zeros(graph.n_nodes, bool)
    first = rng.choice(np.flatnonzero(free), ROUND, replace=False)
    free[first], is_random[first] = False, True
    while np.count_nonzero(~free & (classes >= 0)) < n_labels:
        nodes = np.flatnonzero(~free & (classes >= 0))
        labels = Labels.from_pairs(nodes, classes[nodes].tolist())
        if labels.n_classes > 1:
            best = np.sort(model.solve(prepared, labels).scores, axis=1)
            picked = least_margins(best[:, -1] - best[:, -2], free, ROUND - ROUND // 10)
            free[picked] = False
        drawn_too = rng.choice(np.flatnonzero(free), ROUND // 10, replace=False)
        free[drawn_too], is_random[drawn_too] = False, True
    nodes = np.flatnonzero(~free & (classes >= 0))
    return nodes, is_random[nodes]


def looked_at(
    graph: Graph,
    classes: Int64Array,
    nodes: Int64Array,
    model: Model,
    kind: SetKind,
    seed: int,
    judged: BoolArray | None = None,
) -> dict[str, float]:
    """Figures of one draw, judged by all labels or by some of the nodes."""
    labels = Labels.from_pairs(nodes, classes[nodes].tolist())
    code = np.full(classes.max() + 1, -1)
    code[np.array(labels.class_names)] = np.arange(labels.n_classes)
    truth = np.where(classes >= 0, code[classes], -2)  # -1 of a class without a label
    others = truth >= -1
    others[nodes] = False
    prepared = model.prepare(graph)
    solution = model.solve(prepared, labels)
    others &= solution.reachable
    groups = groups_of(labels, kind, judged)
    values = ConformalPValues(
        labels=labels,
        n_nodes=graph.n_nodes,
        groups=groups,
        score_kind=model.for_validation.score_kind,
    )
    found = cross_validate(
        model,
        prepared,
        labels,
        n_folds=N_FOLDS,
        seed=seed,
        may_leave_out=judged,
        start=solution,
        on_fold=values.add,
    )
    told = _of_sets("", values.values(solution.reachable) > 1.0 - COVERAGE, truth, others)
    told["groups"] = float(groups.max() + 1)
    told["accuracy"] = float((solution.scores.argmax(axis=1) == truth)[others].mean())
    told |= _split(graph, classes, nodes, model, seed)
    scores, known = solution.scores, others & (truth >= 0)
    raw = scores if model.score_kind == "probability" else _shares(scores)
    if found.scores is not None:
        finite = np.isfinite(found.scores).all(axis=1)
        calibration = Calibration.fitted(found.scores[finite], labels.classes[finite])
        given = raw if model.is_calibrated else calibration.probabilities(scores)
        for name, each in (("raw ", raw), ("", given)):
            true = CalibrationMetrics.of(each[known], truth[known])
            told[f"{name}error"] = true.expected_calibration_error
            told[f"{name}Brier"] = true.brier_score
    return told


def _split(
    graph: Graph, classes: Int64Array, nodes: Int64Array, model: Model, seed: int
) -> dict[str, float]:
    """Sets by half of the labels, for all nodes together."""
    mixed = np.random.default_rng(seed).permutation(nodes)
    half = mixed[: nodes.size // 2]
    labels = Labels.from_pairs(half, classes[half].tolist())
    if labels.n_classes < 2:
        return {}
    code = np.full(classes.max() + 1, -1)
    code[np.array(labels.class_names)] = np.arange(labels.n_classes)
    truth = np.where(classes >= 0, code[classes], -2)
    solution = model.solve(model.prepare(graph), labels)
    ordered = np.sort(solution.scores, axis=1)
    behind = (
        np.where(solution.scores == ordered[:, -1:], ordered[:, -2:-1], ordered[:, -1:])
        - solution.scores
    )
    kept = mixed[nodes.size // 2 :]
    kept = kept[solution.reachable[kept]]
    own = np.where(truth[kept] >= 0, behind[kept, np.maximum(truth[kept], 0)], np.inf)
    rank = int(np.ceil((kept.size + 1) * COVERAGE))
    bound = np.sort(own)[rank - 1] if rank <= kept.size else np.inf
    others = (truth >= -1) & solution.reachable
    others[nodes] = False
    return _of_sets("split ", behind <= bound, truth, others)


def _of_sets(name: str, is_in: BoolArray, truth: Int64Array, others: BoolArray) -> dict[str, float]:
    rows = np.flatnonzero(others)
    has = np.zeros(rows.size, bool)
    known = truth[rows] >= 0
    has[known] = is_in[rows[known], truth[rows[known]]]
    sizes = is_in[rows].sum(axis=1)
    counts = np.bincount(truth[rows[known]], minlength=is_in.shape[1])
    hits = np.bincount(truth[rows[known]], has[known], is_in.shape[1])
    large = counts >= LEAST_NODES
    return {
        f"{name}covered": float(has.mean()),
        f"{name}worst class": float((hits[large] / counts[large]).min()),
        f"{name}size": float(sizes.mean()),
        f"{name}certain": float((sizes == 1).mean()),
    }


def _shares(scores: FloatArray) -> FloatArray:
    above = scores - scores.min(axis=1, keepdims=True) + 1e-12
    shares: FloatArray = above / above.sum(axis=1, keepdims=True)
    return shares


COLUMNS = {
    "groups": "groups {:.1f}",
    "accuracy": "right {:.1%}",
    "covered": "covered {:.1%}",
    "worst class": "worst class {:.1%}",
    "size": "size {:.2f}",
    "certain": "certain {:.1%}",
    "split covered": "split {:.1%}",
    "split worst class": "worst class {:.1%}",
    "split size": "size {:.2f}",
    "raw error": "raw error {:.1%}",
    "error": "error {:.1%}",
    "raw Brier": "raw Brier {:.1%}",
    "Brier": "Brier {:.1%}",
}


def main() -> None:
    asked = options(
        __doc__,
        quick={"draws": 2, "sets": list(QUICK)},
        draws=100,
        labels=100,
        kind=("auto", ("auto", "by-class", "marginal")),
        models=["auto", "stable-hfs"],
        sets=list(USUAL),
        way=("random", ("random", "balanced", "suggested")),
    )
    for name in asked.sets:
        graph, classes = SETS[name]()
        per_class = max(1, asked.labels // np.unique(classes[classes >= 0]).size)
        told = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
        for model, seed in product(asked.models, range(asked.draws)):
            made = CATALOGUE[model]()
            judges: dict[str, BoolArray | None] = {model: None}
            if asked.way == "suggested":
                nodes, is_random = as_suggested(graph, classes, made, asked.labels, seed)
                judges[f"{model}, judged by random ones"] = is_random
            else:
                chosen = drawn(graph, classes, asked.way, per_class, seed)
                if chosen is None:
                    continue
                nodes = chosen
            for row, judged in judges.items():
                found = looked_at(graph, classes, nodes, made, asked.kind, seed, judged)
                for key, value in found.items():
                    told[row][key].append(value)
        rows = ((row, *(np.mean(each[key]) for key in COLUMNS)) for row, each in told.items())
        title = f"{name}; {asked.labels} labels, {asked.way}; asked 90 %; {asked.kind}"
        show(title, "|".join(("model", *COLUMNS.values())), rows)


if __name__ == "__main__":
    main()
    main()
