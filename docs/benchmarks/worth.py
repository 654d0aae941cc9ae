"""What is it worth that an answer says how sure it is? On digits, with a few labels of each class.

``python -m docs.benchmarks.worth`` prints, as means over draws of labels: the accuracy of HFS on
the quarter of nodes that is surest and on that which is least sure, by posterior variance and by
margin; cross-validated accuracy over the labels beside that on all other nodes; and the seconds of
each.
"""

from time import perf_counter

import numpy as np

from docs.benchmarks.frame import options, show
from peewit.solvers.arrays import FloatArray
from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.solvers.models.harmonic.posterior_variance import posterior_variance
from tests.data_sets import digits_graph, draw_per_class

N_QUARTERS = 4
N_FOLDS = 5


def measure(graph: Graph, classes: np.ndarray, per_class: int, seed: int) -> dict[str, float]:
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
    return {
        "accuracy": float(right.mean()),
        "surest by variance": by_variance[0],
        "least sure by variance": by_variance[-1],
        "surest by margin": by_margin[0],
        "least sure by margin": by_margin[-1],
        "cross validated": folds.mean,
        "seconds solve": seconds[0],
        "seconds variance": seconds[1],
        "seconds cross validation": seconds[2],
    }


def _quarters(right: np.ndarray, doubt: FloatArray) -> list[float]:
    """Share of right answers in each quarter of the nodes, the surest first."""
    return [float(part.mean()) for part in np.array_split(right[np.argsort(doubt)], N_QUARTERS)]


def main() -> None:
    asked = options(__doc__, draws=10, per_class=5)
    graph, classes = digits_graph()
    draws = [measure(graph, classes, asked.per_class, seed) for seed in range(asked.draws)]
    rows = (
        (name, column.mean(), column.std())
        for name, column in zip(
            draws[0], np.array([[*each.values()] for each in draws]).T, strict=True
        )
    )
    size = f"{graph.n_nodes:,} nodes, {graph.n_edges:,} edges"
    title = f"{size}, {asked.per_class} labels a class, {asked.draws} draws"
    show(title, "|mean {:.4g}|deviation {:.2g}", rows)


if __name__ == "__main__":
    main()
