"""Are several classes at once (F9) worth more than each against the rest, in transductive machines?

``python -m docs.benchmarks.one_of_k --sets digits cora``: error on the unlabeled rows of the linear
SVM, and of switching and annealing both ways, its norm penalty chosen by the labels; the difference
of the two ways in each draw; trainings and seconds. ``--way known`` draws so many labels of each
class and tells the shares of the classes; ``--way sample`` draws as many at random, and the shares
are those of the labels. Sets: scikit-learn's digits, and the rest from the folder that
``PEEWIT_DATA`` names: USPST, 2,000 of MNIST, and the words of papers and bloggers.
"""

from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits

from docs.benchmarks import frame
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.linear.linear_machine import LinearMachine
from peewit.solvers.models.linear.linear_svm import LinearSVM
from peewit.solvers.models.linear.transductive_svms import DASVM, TSVM
from peewit.solvers.status import Status
from tests.data_sets import draw_per_class, labeled_graph

Rows = tuple[Any, Int64Array]
N_DRAWN = 2_000


def digits() -> Rows:
    images, classes = load_digits(return_X_y=True)
    return images, classes.astype(np.int64)


def uspst() -> Rows:
    with np.load(frame.folder() / "usps.npz") as stored:
        is_test = stored["is_test"] == 1
        return stored["X"][is_test].astype(float), stored["y"][is_test].astype(np.int64)


def mnist() -> Rows:
    with np.load(frame.folder() / "mnist.npz") as stored:
        rows = np.random.default_rng(0).choice(stored["y"].size, N_DRAWN, replace=False)
        return stored["X"][rows] / 255.0, stored["y"][rows].astype(np.int64)


def words(name: str) -> Rows:
    """Which words occur, each by how rare it is."""
    _, classes = labeled_graph(frame.folder(), name)
    rows = sp.csr_array(sp.load_npz(frame.folder() / f"{name}_features.npz"), dtype=np.float64)
    frequency = np.maximum(np.bincount(rows.indices, minlength=rows.shape[1]), 1)
    rows.data = np.log(rows.shape[0] / frequency)[rows.indices]
    return rows[classes >= 0], classes[classes >= 0]


TEXTS = ("cora", "cora_ml", "citeseer", "acm", "blogcatalog")
SETS = {"digits": digits, "uspst": uspst, "mnist": mnist} | {
    name: partial(words, name) for name in TEXTS
}
WAYS = ("one-against-rest", "one-of-k")
MACHINES: dict[str, LinearMachine] = {"SVM": LinearSVM()} | {
    f"{name}, {way}": kind(multi_class=way)
    for name, kind in (("TSVM", TSVM), ("DA", DASVM))
    for way in WAYS
}


def drawn(classes: Int64Array, per_class: int, way: str, seed: int) -> Int64Array:
    """Labeled rows, so many of each class or as many at random with one of each class."""
    if way == "known":
        return draw_per_class(classes, per_class, seed=seed)
    rng = np.random.default_rng(seed)
    first = draw_per_class(classes, 1, seed=seed)
    n_more = per_class * first.size
    return np.union1d(first, rng.choice(classes.size, n_more, replace=False))


def compare(name: str, way: str, per_class: int, n_draws: int) -> None:
    rows, classes = SETS[name]()
    figures: dict[str, list[FloatArray]] = defaultdict(list)
    for seed in range(n_draws):
        draw = drawn(classes, per_class, way, seed)
        labels = Labels.from_pairs(draw, classes[draw].tolist())
        prepared = LinearSVM().prepare(Graph.from_edges([], [], [], n_nodes=classes.size), rows)
        settings: dict[str, Any] = {}
        for label, machine in MACHINES.items():
            own = machine
            if label != "SVM":
                own = replace(machine, **settings)
            with frame.spent() as taken:
                solution = own.solve(prepared, labels)
            if solution.status is not Status.CONVERGED:
                frame.CONSOLE.print(f"[red]{label}: {solution.status.value}[/red]")
            settings["norm_penalty"] = solution.stats["norm_penalty"]
            if way == "known":
                shares = np.bincount(classes) / classes.size
                settings["class_balance"] = dict(enumerate(shares.tolist()))
            right = frame.share_right(solution.scores.argmax(axis=1), classes, draw)
            figures[label].append(np.array([1 - right, solution.stats["n_trainings"], taken.wall]))
    table = []
    for label, found in figures.items():
        error, n_trainings, seconds = np.array(found).T
        less = "-"
        if label.endswith(WAYS[1]):
            rest = np.array(figures[label.replace(*reversed(WAYS))])[:, 0]
            less = "{:+.2f} ({:.2f})".format(*frame.mean_and_error(error - rest))
        table.append(
            (label, *frame.mean_and_error(error), less, n_trainings.mean(), seconds.mean())
        )
    columns = "machine|unlabeled % {:.2f}|(se) {:.2f}|less the other way (se)"
    columns += "|trainings {:.0f}|s {:.2f}"
    frame.show(f"{name}, {per_class} labels a class, {way}, {n_draws} draws", columns, table)


def main() -> None:
    asked = frame.options(
        __doc__,
        quick={"sets": ["digits"], "draws": 2},
        sets=(["digits", "uspst", "cora", "citeseer"], SETS),
        way=("known", ["known", "sample"]),
        per_class=(5, "labels"),
        draws=10,
    )
    for name in asked.sets:
        compare(name, asked.way, asked.per_class, asked.draws)


if __name__ == "__main__":
    main()
