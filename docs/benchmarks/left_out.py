"""Does a solve say how often it is right, and whom that speaks for?

    python -m docs.benchmarks.left_out interval [--draws 200] [--labels 50 150] [--sets cora ...]
    python -m docs.benchmarks.left_out accounts [--draws 20]
    python -m docs.benchmarks.left_out large [--draws 2] [--labels 600 2000 10000]

``interval``: random labels; how often the interval that is told with left-out accuracy holds the
accuracy at all other nodes, where what no label reaches is wrong, and its median width.

``accounts``: accounts of which a twentieth are frauds, first with 150 labels, two of three of
frauds, then with 200 random ones, alone and beside the first: what is said of the sample, the told
share of frauds beside the true one, and how often the interval holds.

``large``: graphs of five families; CPU seconds of a solve by arms with what they ask of the graph
alone at hand, the share of nodes that is right, how far off the told one is, and log loss: with all
labels left out and potentials to 1e-4, with those of large graphs, and with one fifth left out.

Graphs are those of `docs.benchmarks.default_model`, and for ``large`` of `edge_families`.
"""

import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from docs.benchmarks.default_model import SETS
from docs.benchmarks.edge_families import FAMILIES
from docs.benchmarks.frame import CONSOLE, cpu_of, options, share_right, show
from docs.benchmarks.fraud import labeled
from docs.benchmarks.large import graph_of
from peewit.service.tasks.labels_task import Origins
from peewit.service.tasks.solving.judgement import judgement_of
from peewit.service.tasks.solving.state import Answered, Assessment, LeaveOutPlan
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.assessment.left_out_accuracy import accuracy_interval
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto import poisson_arm
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.preparation import tolerance
from peewit.solvers.models.left_out import label_groups
from peewit.solvers.solution import Solution

INTERVAL_SETS: Final = (
    *("cora", "citeseer", "acm", "facebook_pagepage", "blogcatalog", "usps", "digits"),
    *("blocks 5, .75", "rings 10 %", "accounts 5 %"),
)

WAYS: Final[dict[str, tuple[Callable[[float, int], float], int]]] = {
    "all, to 1e-4": (lambda rtol, _: rtol, sys.maxsize),
    "all": (tolerance, sys.maxsize),
    "a fifth": (tolerance, 1),
}
"""The residual of potentials, and from how many labels on a fifth is left out."""


def told_of(
    prepared: object, graph: Graph, labels: Labels, solution: Solution, is_random: BoolArray
) -> dict[str, Any]:
    """What a solve by `auto` tells first of itself."""
    none = np.zeros(labels.n_labeled, bool)
    answer = Answered(
        model=Auto(walks="anew"),
        prepared=prepared,
        snapshot=SimpleNamespace(graph=graph),  # type: ignore[arg-type]
        labels=labels,
        leave_out_plan=LeaveOutPlan.of(labels, Origins(none, none), 0),
        solution=solution,
    )
    found = judgement_of(answer, Assessment(), is_random, holds_out=False, watch=UNWATCHED)
    assert found is not None
    return found


def true_accuracy(solution: Solution, labels: Labels, classes: Int64Array) -> float:
    """At the nodes of known class without a label; nodes that no label reaches are wrong."""
    asked = classes >= 0
    asked[labels.nodes] = False
    is_right = np.array(labels.class_names)[solution.scores.argmax(axis=1)] == classes
    return float((is_right & solution.reachable)[asked].mean())


def interval(n_draws: int, counts: list[int], names: list[str]) -> None:
    table, model, every = [], Auto(walks="anew"), []
    for name in names:
        graph, classes = SETS[name]()
        prepared = model.prepare(graph)
        for n_labels in counts:
            rows = []
            for seed in range(n_draws):
                known = np.flatnonzero(classes >= 0)
                rng = np.random.default_rng([seed, n_labels])
                nodes = np.sort(rng.choice(known, n_labels, replace=False))
                if np.unique(classes[nodes]).size < 2:
                    continue
                labels = Labels.from_pairs(nodes, classes[nodes].tolist())
                solution = model.solve(prepared, labels)
                told = told_of(prepared, graph, labels, solution, np.ones(n_labels, bool))
                if told["accuracy"] is None:  # spread by chance: a job would solve again
                    continue
                low, high = accuracy_interval(told["accuracy"], told["n_left_out"])
                truth = true_accuracy(solution, labels, classes)
                is_blamed = told["sample"] == "biased"
                holds = low <= truth <= high
                rows.append([holds, high - low, told["accuracy"], truth, is_blamed])
            figures: FloatArray = np.array(rows, float)
            every.append(figures)
            means = figures.mean(axis=0)
            means[1] = np.median(figures[:, 1])
            table.append((name, str(n_labels), *(100 * means)))
    columns = "graph|labels|holds {:.1f}|width {:.1f}|told {:.1f}|true {:.1f}|sample blamed {:.1f}"
    show(f"intervals of left-out accuracy at 95 %, {n_draws} draws, percent", columns, table)
    holds, _, _, _, blamed = 100 * np.concatenate(every).mean(axis=0)
    CONSOLE.print(f"all draws: the interval holds in {holds:.1f} %, {blamed:.1f} % are blamed")


def accounts(n_draws: int) -> None:
    graph, classes = SETS["accounts 5 %"]()
    model = Auto(walks="anew")
    prepared = model.prepare(graph)
    is_reached = graph.degree > 0
    truth = float((classes[is_reached] == 1).mean())
    rows: dict[str, list[list[float]]] = {}
    for seed in range(n_draws):
        mostly = labeled(graph, classes, "mostly fraud", 150, seed)
        assert mostly is not None
        sample = np.random.default_rng(seed).choice(graph.n_nodes, 200, replace=False)
        for text, nodes in (
            ("150, two of three of frauds", mostly),
            ("200 random ones", sample),
            ("both", np.union1d(mostly, sample)),
        ):
            labels = Labels.from_pairs(np.sort(nodes), classes[np.sort(nodes)].tolist())
            solution = model.solve(prepared, labels)
            is_random = np.isin(labels.nodes, sample) & (text != "150, two of three of frauds")
            told = told_of(prepared, graph, labels, solution, is_random)
            asked = solution.reachable.copy()
            asked[labels.nodes] = False
            place = labels.class_names.index(1)
            accuracy = true_accuracy(solution, labels, classes)
            has_interval = told["low"] is not None
            row = [
                told["sample"] == "biased",
                float(solution.scores[asked, place].mean()),
                truth,
                told["accuracy"],
                accuracy,
                has_interval,
                told["low"] <= accuracy <= told["high"] if has_interval else np.nan,
            ]
            rows.setdefault(text, []).append(row)
    columns = "labels|blamed {:.1f}|frauds told {:.1f}|true {:.1f}|right told {:.1f}|true {:.1f}|"
    columns += "interval told {:.1f}|holds {:.1f}"
    means = (
        (text, *(100 * np.ma.masked_invalid(np.array(each, float)).mean(axis=0).filled(np.nan)))
        for text, each in rows.items()
    )
    show(f"accounts 5 %, {n_draws} draws, percent", columns, means)


def large(n_draws: int, counts: list[int], n_nodes: int) -> None:
    """Every way solves on one preparation, whose columns of labels are dropped before each."""
    for family in FAMILIES:
        graph, classes = graph_of(family, n_nodes)
        model, table = Auto(walks="anew"), []
        prepared, is_warm = model.prepare(graph), False
        for n_labels in counts:
            rows: dict[str, list[list[float]]] = {}
            for seed in range(n_draws):
                nodes = np.sort(
                    np.random.default_rng(seed).choice(n_nodes, n_labels, replace=False)
                )
                labels = Labels.from_pairs(nodes, classes[nodes].tolist())
                is_other = np.isin(classes, labels.class_names)
                is_other[nodes] = False
                truth = np.searchsorted(labels.class_names, classes[is_other])
                for way, (asked, least) in WAYS.items():
                    with (
                        patch.object(poisson_arm, "tolerance", asked),
                        patch.object(label_groups, "_HELD_OUT_LABELS", least),
                        patch.object(label_groups, "_HELD_OUT_OF_CLASS", 1),
                    ):
                        if not is_warm:  # points of nodes, and what is compiled
                            model.solve(prepared, labels)
                            is_warm = True
                        prepared.potential_columns.by_nodes.clear()
                        prepared.density_columns.by_nodes.clear()
                        solution, seconds = cpu_of(partial(model.solve, prepared), labels)
                    found = np.asarray(labels.class_names)[solution.scores.argmax(axis=1)]
                    right = 100 * share_right(found, classes, nodes)
                    of_truth = solution.scores[is_other][np.arange(truth.size), truth]
                    off = abs(100 * float(solution.stats["loo_accuracy"]) - right)
                    loss = -float(np.log(np.maximum(of_truth, 1e-6)).mean())
                    rows.setdefault(way, []).append([seconds, right, off, loss])
            for way, each in rows.items():
                table.append((f"{n_labels:,}", way, *np.mean(each, axis=0)))
        columns = "labels|left out|CPU s {:.1f}|right % {:.2f}|told off by {:.2f}|log loss {:.3f}"
        show(f"{family}, {n_nodes:,} nodes, {n_draws} draws", columns, table)


def main() -> None:
    sets = list(INTERVAL_SETS), SETS
    cases = ("interval", "accounts", "large")
    asked = options(__doc__, cases=cases, draws=10, labels=[50, 150], sets=sets, nodes=200_000)
    if "interval" in asked.cases:
        interval(asked.draws, asked.labels, asked.sets)
    if "accounts" in asked.cases:
        accounts(asked.draws)
    if "large" in asked.cases:
        large(asked.draws, asked.labels, asked.nodes)


if __name__ == "__main__":
    main()
