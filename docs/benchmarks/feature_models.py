"""What do features beside a graph add, what do networks make of them, and what does it cost?

``PEEWIT_DATA`` names the folder of the citation sets and of BlogCatalog. Blocks with hubs are made:
one of thirty edges a node, three in four of which leave the class, and two where most neighbors are
of another class. Labels are drawn equally many of each class, 1 to 50, or are those of the public
split where a set has one, again in every draw, as networks begin at random. Beside `auto` with and
without features and `filtered-ridge` stand GCN and APPNP (extra ``bench``), and scikit-learn's
LogisticRegression on the features as they are, and on those that `filter_features` has smoothed.
Printed first is where `auto` loses most to the best of these, then the CPU seconds of a first solve
on one thread, the median. ``--points`` prints instead what points of the graph's spectrum are worth
as columns beside smoothed features, at weights of 0, .3 and 1, and alone: at other nodes and at
labels left out.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from docs.benchmarks.default_model import blocks
from docs.benchmarks.frame import CONSOLE, cpu_of, folder, installed, mean_and_error, options
from docs.benchmarks.frame import show as show_table
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.estimators.feature_filter import filter_features
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.point_arms import node_points
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.linear.filtered_features import Arm
from peewit.solvers.models.linear.filtered_ridge import TELEPORT, FilteredRidge
from peewit.solvers.models.linear.kernel_ridge import class_folds, class_targets, fitted_ridge
from tests.data_sets import draw_per_class, labeled_graph

STORED = ("cora", "citeseer", "acm", "cora_ml", "blogcatalog")
OURS = ("auto", "filtered-ridge", "auto, no features")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A graph whose nodes have features and known classes; ``parts`` are of the public split."""

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
    graph, classes = labeled_graph(folder(), name)
    table = pq.read_table(folder() / f"{name}_labels.parquet").to_pydict()
    parts = defaultdict(list)
    for node, part in zip(table["node"], table.get("split", []), strict=False):
        if classes[node] >= 0:
            parts[part].append(node)
    return Problem(
        graph=graph,
        classes=classes,
        features=sp.csr_array(sp.load_npz(folder() / f"{name}_features.npz"), dtype=float),
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


def methods(problem: Problem, row_norm: str | None = "l1") -> dict[str, Scores]:
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
        **_networks(problem, row_norm),
        "auto, no features": solved(Auto(), None),
        "logistic regression": fitted(lambda: features),
        "the same, smoothed": fitted(lambda: filter_features(graph, features)),
    }


def _networks(problem: Problem, row_norm: str | None) -> dict[str, Scores]:
    if installed("torch_geometric.nn") is None:
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


def compile_all() -> None:
    problem = worded(2, 0.5, 10.0, n_nodes=200)
    (draw,) = draws(problem, [5], 1)["5 a class"]
    for scores in methods(problem).values():
        scores(draw)


def measure(name: str, label_counts: list[int], n_draws: int, row_norm: str | None) -> list[Row]:
    problem = SETS[name]()
    known = methods(problem, row_norm)
    rows = []
    for way, drawn in draws(problem, label_counts, n_draws).items():
        right, seconds = defaultdict(list), defaultdict(list)
        for draw in drawn:
            codes = np.array(draw.labels.class_names)
            for method, scores in known.items():
                found, taken = cpu_of(scores, draw)
                won = codes[found.argmax(axis=1)]
                seconds[method].append(taken)
                right[method].append(float((won == problem.classes)[draw.asked].mean()))
        rows.append(Row(name=name, way=way, right=dict(right), seconds=dict(seconds)))
        means = [f"{each} {100 * np.mean(values):.1f}" for each, values in right.items()]
        CONSOLE.print(f"{name}, {way}: {', '.join(means)}")
    return rows


def show(rows: list[Row]) -> None:
    names = list(rows[0].right)
    errors = "|".join(f"{name} {{:.1f}} ± {{:.1f}}" for name in [*names, "auto leads by"])
    shares = (
        (
            *(row.name, row.way, *(mean_and_error(row.right[each]) for each in names)),
            "{:+.1f} ± {:.1f}".format(*mean_and_error(row.lead)),
        )
        for row in sorted(rows, key=lambda each: float(each.lead.mean()))
    )
    title = "accuracy in %, standard error; the worst for auto first"
    show_table(title, f"set|labels|{errors}", shares, left=2)
    seconds = ((row.name, row.way, *map(np.median, row.seconds.values())) for row in rows)
    columns = "|".join(f"{name} {{:.2f}}" for name in names)
    show_table("CPU seconds of a first solve", f"set|labels|{columns}", seconds, left=2)


def with_points(problem: Problem, draw: Draw) -> list[float]:
    """Right in percent at other nodes and at labels left out, by every weight of the points."""
    model, nodes, classes = FilteredRidge(), draw.labels.nodes, draw.labels.classes
    prepared = model.prepare(problem.graph, problem.features)
    points = node_points(Auto().prepare(problem.graph), UNWATCHED)["spectral"].rows
    arm, codes = Arm(name="filtered", teleport=TELEPORT), np.array(draw.labels.class_names)
    kernels = prepared.kernel(arm, nodes, UNWATCHED), points[nodes] @ points[nodes].T
    sizes = [float(np.trace(kernel)) / nodes.size or 1.0 for kernel in kernels]
    found = []
    for weights in ((1.0, 0.0), (1.0, 0.3), (1.0, 1.0), (0.0, 1.0)):
        ours, theirs = np.divide(weights, sizes)
        fit = fitted_ridge(
            ours * kernels[0] + theirs * kernels[1],
            class_targets(draw.labels),
            model.norm_penalty,
            fold=class_folds(draw.labels),
        )
        scores = ours * prepared.scores(arm, nodes, fit.dual_coef, UNWATCHED)[0]
        scores += theirs * (points @ (points[nodes].T @ fit.dual_coef))
        is_right = codes[scores.argmax(axis=1)] == problem.classes
        found += [is_right[draw.asked].mean(), (fit.left_out.argmax(axis=1) == classes).mean()]
    return [100.0 * float(share) for share in found]


def show_points(names: list[str], label_counts: list[int], n_draws: int) -> None:
    rows = []
    for name in names:
        problem = SETS[name]()
        for way, drawn in draws(problem, label_counts, n_draws).items():
            figures = [with_points(problem, draw) for draw in drawn]
            rows.append((name, way, *np.mean(figures, axis=0)))
    ways = ("features", "points .3", "points 1", "points alone")
    columns = "|".join(f"{way} {{:.1f}}|left out {{:.1f}}" for way in ways)
    show_table(f"right in %, {n_draws} draws", f"set|labels|{columns}", rows, left=2)


def main() -> None:
    asked = options(
        __doc__,
        quick={"draws": 1, "sets": ["cora"]},
        sets=(list(SETS), SETS),
        labels=([1, 5, 20, 50], "per class"),
        draws=10,
        as_is=(False, "networks see features that are not scaled by rows"),
        points=(False, "points of the spectrum as columns of filtered ridge"),
    )
    if asked.points:
        show_points(asked.sets, asked.labels, asked.draws)
        return
    rows: list[Row] = []
    compile_all()
    for name in asked.sets:
        try:
            rows += measure(name, asked.labels, asked.draws, None if asked.as_is else "l1")
        except FileNotFoundError as missing:
            CONSOLE.print(f"left out: {name} ({missing})")
    if rows:
        show(rows)


if __name__ == "__main__":
    main()
