"""How large are sets beside those of a graph network, from the same random labels?

``PEEWIT_DATA`` names the folder of the sets. `auto` with the features of the nodes makes sets by
cross-conformal prediction from all labels. A network, APPNP as in `docs.benchmarks.graph_networks`,
is trained on half of the labels and its scores are compared with the other half, split conformal
prediction: adaptive sets of classes (APS), and the same with scores that neighbors share in (DAPS,
half a node's own). Printed are, in the mean over draws and all other nodes, in percent: nodes
predicted right, sets that hold the true class where 90 are asked, and those of one class that do;
and mean sizes.

References
----------
Romano, Sesia and Candes, Classification with valid and adaptive coverage, NeurIPS 2020.
Zargarbashi, Antonelli and Bojchevski, Conformal prediction sets for graph neural networks, ICML
2023.
"""

from collections import defaultdict

import numpy as np
from scipy.special import softmax

from docs.benchmarks.default_model import drawn
from docs.benchmarks.feature_models import SETS, Problem
from docs.benchmarks.frame import options, show
from docs.benchmarks.graph_networks import APPNP, trained
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.assessment.conformal import ConformalPValues, groups_of
from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto

COVERAGE = 0.9
OWN = 0.5
"""What DAPS leaves of a node's own score, as in its paper."""


def sets_of_auto(problem: Problem, labels: Labels, seed: int) -> tuple[FloatArray, BoolArray]:
    """Scores, and which classes are in the sets, of all nodes."""
    model = Auto()
    prepared = model.prepare(problem.graph, problem.features)
    solution = model.solve(prepared, labels)
    values = ConformalPValues(
        labels=labels,
        n_nodes=problem.graph.n_nodes,
        groups=groups_of(labels, "auto", None),
        score_kind=model.score_kind,
    )
    cross_validate(
        model, prepared, labels, n_folds=5, seed=seed, start=solution, on_fold=values.add
    )
    return solution.scores, values.values(solution.reachable) > 1.0 - COVERAGE


def adaptive_scores(probabilities: FloatArray, seed: int) -> FloatArray:
    """(n_nodes, n_classes) probability of all likelier classes, and a random part of its own."""
    order = np.argsort(-probabilities, axis=1)
    ordered = np.take_along_axis(probabilities, order, axis=1)
    before = np.cumsum(ordered, axis=1) - ordered
    part = np.random.default_rng(seed).random((len(probabilities), 1))
    scores = np.empty_like(probabilities)
    np.put_along_axis(scores, order, before + part * ordered, axis=1)
    return scores


def diffused(scores: FloatArray, graph: Graph) -> FloatArray:
    """Scores of which neighbors give half."""
    degree = np.maximum(graph.degree, 1e-300)[:, None]
    shared = np.where(graph.degree[:, None] > 0, graph.adjacency @ scores / degree, scores)
    mixed: FloatArray = OWN * scores + (1.0 - OWN) * shared
    return mixed


def split_sets(scores: FloatArray, nodes: Int64Array, classes: Int64Array) -> BoolArray:
    """Classes whose scores are not above the one that enough of the compared labels stay below."""
    own = np.sort(scores[nodes, classes])
    rank = int(np.ceil((own.size + 1) * COVERAGE))
    bound = own[rank - 1] if rank <= own.size else np.inf
    return np.asarray(scores <= bound)


def looked_at(problem: Problem, nodes: Int64Array, seed: int) -> dict[str, list[float]]:
    """Figures of each method for one draw of labeled nodes."""
    known, graph = problem.classes, problem.graph
    labels = Labels.from_pairs(nodes, known[nodes].tolist())
    names = np.array(labels.class_names)
    others = np.isin(known, names)
    others[nodes] = False
    truth = np.searchsorted(names, known[others])
    scores, is_in = sets_of_auto(problem, labels, seed)
    found = {"auto, cross-conformal": _figures(scores, is_in, others, truth)}
    mixed = np.random.default_rng(seed).permutation(nodes)
    half = np.sort(mixed[: nodes.size // 2])
    missing = np.setdiff1d(names, known[half])  # a network needs a label of each class
    half = np.union1d(half, [nodes[known[nodes] == each][0] for each in missing]).astype(np.int64)
    compared = np.setdiff1d(nodes, half)
    trained_by = Labels.from_pairs(half, known[half].tolist())
    logits = trained(APPNP, graph, problem.features, trained_by, None, seed=seed)
    adaptive = adaptive_scores(softmax(logits.astype(np.float64), axis=1), seed)
    codes = np.searchsorted(names, known[compared])
    for name, each in (("APPNP, APS", adaptive), ("APPNP, DAPS", diffused(adaptive, graph))):
        found[name] = _figures(logits, split_sets(each, compared, codes), others, truth)
    return found


def _figures(
    scores: FloatArray, is_in: BoolArray, others: BoolArray, truth: Int64Array
) -> list[float]:
    rows = is_in[others]
    holds, sizes = rows[np.arange(truth.size), truth], rows.sum(axis=1)
    right = (scores[others].argmax(axis=1) == truth).mean()
    single = (holds & (sizes == 1)).mean()
    return [100 * right, 100 * holds.mean(), sizes.mean(), 100 * single]


def main() -> None:
    asked = options(__doc__, draws=20, labels=140, sets=["cora", "citeseer", "acm"])
    columns = "method|right {:.1f}|held {:.1f}|size {:.2f}|one and right {:.1f}"
    for name in asked.sets:
        problem = SETS[name]()
        per_class = asked.labels // np.unique(problem.classes[problem.classes >= 0]).size
        told: dict[str, list[list[float]]] = defaultdict(list)
        for seed in range(asked.draws):
            nodes = drawn(problem.graph, problem.classes, "random", per_class, seed)
            if nodes is None:
                continue
            for method, figures in looked_at(problem, nodes, seed).items():
                told[method].append(figures)
        rows = ((method, *np.mean(each, axis=0)) for method, each in told.items())
        show(f"{name}, {asked.labels} random labels, {COVERAGE:.0%} asked", columns, rows)


if __name__ == "__main__":
    main()
    main()
