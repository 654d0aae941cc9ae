"""What is it worth that an answer says how sure it is? On digits, with a few labels of each class.

``python -m docs.benchmarks.worth`` prints, as means over draws of labels: the accuracy of HFS on
the quarter of nodes that is surest and on that which is least sure, by posterior variance and by
margin; cross-validated accuracy over the labels beside that on all other nodes; and the seconds of
each.
"""

import argparse
from dataclasses import asdict, dataclass, fields
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

from peewit.solvers.arrays import FloatArray
from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.solvers.models.harmonic.posterior_variance import posterior_variance
from tests.data_sets import digits_graph, draw_per_class

N_QUARTERS = 4
N_FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Figures of one draw of labels."""

    accuracy: float
    surest_by_variance: float
    least_sure_by_variance: float
    surest_by_margin: float
    least_sure_by_margin: float
    cross_validated: float
    seconds_solve: float
    seconds_variance: float
    seconds_cross_validation: float


def measure(graph: Graph, classes: np.ndarray, per_class: int, seed: int) -> Draw:
    """Solve for one draw, and judge the answer by the truth."""
    nodes = draw_per_class(classes, per_class, seed=seed)
    labels = Labels.from_pairs(nodes, classes[nodes])
    others = np.setdiff1d(np.arange(graph.n_nodes), nodes)
    times = [perf_counter()]
    model = HFS()
    prepared = model.prepare(graph)
    solution = model.solve(prepared, labels)
    times.append(perf_counter())
    penalty = float(solution.stats["graph_penalty"])
    variance = posterior_variance(graph, labels, graph_penalty=penalty, seed=seed).variance
    times.append(perf_counter())
    folds = cross_validate(model, prepared, labels, n_folds=N_FOLDS, seed=seed, start=solution)
    times.append(perf_counter())
    right = (solution.scores.argmax(axis=1) == classes)[others]
    best = np.sort(solution.scores[others], axis=1)
    by_variance = _quarters(right, variance[others])
    by_margin = _quarters(right, best[:, -2] - best[:, -1])
    seconds = np.diff(times)
    return Draw(
        accuracy=float(right.mean()),
        surest_by_variance=by_variance[0],
        least_sure_by_variance=by_variance[-1],
        surest_by_margin=by_margin[0],
        least_sure_by_margin=by_margin[-1],
        cross_validated=folds.mean,
        seconds_solve=seconds[0],
        seconds_variance=seconds[1],
        seconds_cross_validation=seconds[2],
    )


def _quarters(right: np.ndarray, doubt: FloatArray) -> list[float]:
    """Share of right answers in each quarter of the nodes, the surest first."""
    return [float(part.mean()) for part in np.array_split(right[np.argsort(doubt)], N_QUARTERS)]


def main() -> None:
    """Print the means over all draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--per-class", type=int, default=5)
    asked = parser.parse_args()
    graph, classes = digits_graph()
    draws = [measure(graph, classes, asked.per_class, seed) for seed in range(asked.draws)]
    rows = np.array([list(asdict(draw).values()) for draw in draws])
    table = Table(
        title=f"{graph.n_nodes:,} nodes, {graph.n_edges:,} edges, {asked.per_class} labels a "
        f"class, {asked.draws} draws"
    )
    for heading in ("", "mean", "deviation"):
        table.add_column(heading, justify="left" if not heading else "right")
    for figure, column in zip(fields(Draw), rows.T, strict=True):
        name = figure.name.replace("_", " ")
        table.add_row(name, f"{column.mean():.4g}", f"{column.std():.2g}")
    Console().print(table)


if __name__ == "__main__":
    main()
