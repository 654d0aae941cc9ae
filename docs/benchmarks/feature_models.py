"""What do features beside a graph add, and what does it cost?

Run ``python -m docs.benchmarks.feature_models [--draws 10]``; ``PEEWIT_DATA`` names the folder of
the citation sets and of BlogCatalog. Labels are drawn equally many of each class, 1, 5 and 20, or
are those of the public split where a set has one. Beside `auto` with and without features and
`filtered-ridge` stands scikit-learn's LogisticRegression on the features as they are, and on
features that `filter_features` has smoothed. Seconds are CPU seconds of a first solve.
"""

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.estimators.feature_filter import filter_features
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto import Auto
from peewit.solvers.models.base import Model
from peewit.solvers.models.filtered_ridge import FilteredRidge
from tests.data_sets import draw_per_class, labeled_graph

SETS = ("cora", "citeseer", "acm", "cora_ml", "blogcatalog")
LABEL_COUNTS = (1, 5, 20)

Scores = Callable[[Labels], FloatArray]


def methods(graph: Graph, features: Any) -> dict[str, Scores]:
    """From labels to class scores of all nodes; preparation is part of each."""

    def solved(model: Model, given: Any) -> Scores:
        return lambda labels: model.solve(model.prepare(graph, given), labels).scores

    def fitted(rows: Callable[[], Any]) -> Scores:
        def scores(labels: Labels) -> FloatArray:
            given = rows()
            machine = LogisticRegression(C=100.0, max_iter=2_000)
            machine.fit(given[labels.nodes], labels.classes)
            found: FloatArray = machine.predict_proba(given)
            return found

        return scores

    return {
        "auto": solved(Auto(), features),
        "filtered-ridge": solved(FilteredRidge(), features),
        "auto, no features": solved(Auto(), None),
        "logistic regression": fitted(lambda: features),
        "the same, smoothed": fitted(lambda: filter_features(graph, features)),
    }


def splits(
    folder: Path, name: str, classes: Int64Array, n_draws: int
) -> dict[str, list[tuple[Int64Array, Int64Array]]]:
    """Labeled and judged nodes by the way labels are drawn."""
    known = np.flatnonzero(classes >= 0)
    found = {}
    for count in LABEL_COUNTS:
        drawn = [draw_per_class(classes, count, seed=seed) for seed in range(n_draws)]
        found[f"{count} a class"] = [(nodes, np.setdiff1d(known, nodes)) for nodes in drawn]
    table = pq.read_table(folder / f"{name}_labels.parquet")
    if "split" in table.column_names:
        part = np.array(table["split"].to_pylist())
        node = table["node"].to_numpy().astype(np.int64)
        train, test = (np.intersect1d(node[part == each], known) for each in ("train", "test"))
        found["public"] = [(train, test)]
    return found


def main() -> None:
    """Print one row for each set and way of drawing labels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="one draw of cora")
    arguments = parser.parse_args()
    folder = os.environ.get("PEEWIT_DATA")
    if not folder:
        print("skipped: PEEWIT_DATA is not set; it names the folder of the sets")  # noqa: T201 - why
        sys.exit(0)
    console = Console(width=max(130, Console().width))
    table = Table(title="accuracy in %, CPU seconds in brackets")
    names: list[str] = []
    for name in ["cora"] if arguments.quick else arguments.sets:
        graph, classes = labeled_graph(Path(folder), name)
        features = sp.csr_array(sp.load_npz(Path(folder) / f"{name}_features.npz"), dtype=float)
        known = methods(graph, features)
        if not names:
            names = list(known)
            for heading in ("set", "labels", *names):
                table.add_column(heading)
            nodes = draw_per_class(classes, 2, seed=0)
            for scores in known.values():
                scores(Labels.from_pairs(nodes, classes[nodes]))  # compiles; thrown away
        n_draws = 1 if arguments.quick else arguments.draws
        for way, drawn in splits(Path(folder), name, classes, n_draws).items():
            right, seconds = defaultdict(list), defaultdict(list)
            for nodes, judged in drawn:
                labels = Labels.from_pairs(nodes, classes[nodes])
                codes = np.array(labels.class_names)
                for method, scores in known.items():
                    begun = time.process_time()
                    won = codes[scores(labels).argmax(axis=1)]
                    seconds[method].append(time.process_time() - begun)
                    right[method].append(float((won == classes)[judged].mean()))
            cells = [
                f"{100 * np.mean(right[each]):.1f} ({np.mean(seconds[each]):.2f})" for each in names
            ]
            table.add_row(name, way, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
