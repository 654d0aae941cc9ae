"""What does the default model answer on graphs that nobody here chose, with thinned edges, too?

``PEEWIT_DATA`` names the folder whose folder ``strangers`` has the graphs. Labels are drawn 1, 5 or
20 a class, at most half of a class, or 1 or 5 % at random; classes are numbered otherwise in every
draw, so that no method wins by how it breaks ties, and ties share a hit. *near* is `auto` without
points of nodes, what it was before these. LINK is ridge regression on the rows of the adjacency
matrix, of unit length; spreading is scikit-learn's. ``scikit-network`` and ``graphlearning`` are
left out where they are missing; they give labels alone, so that their log loss says nothing.

``arms`` prints, for every graph, the gain of points in each way of drawing, and how much is lost to
the best of all after the fact; ``thinned`` what is right on dense graphs of which little was kept,
with points of the edges kept, with those made from all edges, and on all edges; ``walks``, on
graphs of neighbors, what walks of each length say, from labels of equal weight in the degrees,
beside those of any length, which are Poisson learning, and spreading.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading

import peewit
from docs.benchmarks.accuracy import Problem, peer_methods
from docs.benchmarks.frame import folder, installed, options, show
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.point_arms import points_by_passes
from peewit.solvers.models.auto.preparation import PreparedAuto
from peewit.solvers.models.poisson.poisson import Poisson

WAYS = ("1 a class", "5 a class", "20 a class", "1 %", "5 %")
PEERS = ("sknetwork diffusion", "sknetwork pagerank", "graphlearning poisson")
NEEDS = {name: name.replace("sknetwork", "sknetwork.classification").split()[0] for name in PEERS}
DENSE = ("amherst_year", "hopkins_dorm", "squirrel_filtered", "twitch_DE")
NEIGHBORS = ("knn_dna", "knn_satellite", "knn_spam", "sdcn_hhar")
TELEPORTS = (0.1, 0.05, 0.01, 1e-3, 1e-4)
MEASURES = ("accuracy", "balanced", "macro-F1", "log loss", "ECE")

Scores = Callable[[Labels], FloatArray]


def load(name: str) -> tuple[Graph, Int64Array]:
    """The graph and the classes of its nodes, -1 where unknown."""
    edges, known = (
        pq.read_table(folder() / "strangers" / f"{name}_{part}.parquet")
        for part in ("edges", "labels")
    )
    u, v = (edges[column].to_numpy().astype(np.int64) for column in ("src", "dst"))
    nodes, labels = known["node"].to_numpy(), known["label"].to_numpy()
    weight = edges["weight"].to_numpy() if "weight" in edges.column_names else np.ones(u.size)
    n_nodes = int(max(u.max(), v.max(), nodes.max())) + 1
    classes = np.full(n_nodes, -1)
    classes[nodes] = labels
    return Graph.from_edges(u, v, weight.astype(np.float64), n_nodes=n_nodes), classes


def draws(first: Int64Array, way: str, n_draws: int) -> Iterator[tuple[Int64Array, Labels]]:
    """Classes under other numbers, and labels; draws of one class alone are left out."""
    for seed in range(n_draws):
        n_classes = int(first.max()) + 1
        order = np.random.default_rng([9, seed]).permutation(n_classes)
        classes = np.where(first >= 0, order[first], -1)
        rng, amount = np.random.default_rng([7, seed]), int(way.split(maxsplit=1)[0])
        known = np.flatnonzero(classes >= 0)
        if way.endswith("class"):
            of_class = [rng.permutation(np.flatnonzero(classes == own)) for own in range(n_classes)]
            nodes = np.concatenate([own[: max(1, min(amount, own.size // 2))] for own in of_class])
        else:
            nodes = rng.permutation(known)[: round(known.size * amount / 100)]
        if np.unique(classes[nodes]).size > 1:
            nodes = np.sort(nodes)
            yield classes, Labels.from_pairs(nodes, classes[nodes])


def judged(scores: FloatArray, classes: Int64Array, labels: Labels) -> list[float]:
    """`MEASURES` on the nodes without label, in percent but for the log loss."""
    rest = np.setdiff1d(np.flatnonzero(classes >= 0), labels.nodes)
    truth, n_classes = classes[rest], int(classes.max()) + 1
    probabilities = np.zeros((rest.size, n_classes))
    probabilities[:, np.asarray(labels.class_names, np.int64)] = scores[rest]
    best = probabilities >= probabilities.max(axis=1, keepdims=True) - 1e-12
    of_truth = np.arange(rest.size), truth
    right = best[of_truth] / best.sum(axis=1)
    said, present = probabilities.argmax(axis=1), np.unique(truth)
    recalls = [right[truth == own].mean() for own in present]
    f1 = [
        2 * np.sum((said == own) & (truth == own)) / (np.sum(said == own) + np.sum(truth == own))
        for own in present
    ]
    sure = probabilities.max(axis=1)
    part = np.minimum((15 * sure).astype(int), 14)
    gaps = np.abs(np.bincount(part, sure) - np.bincount(part, right)).sum() / rest.size
    loss = -np.log(np.maximum(probabilities[of_truth], 1e-6)).mean()
    return [100 * right.mean(), 100 * np.mean(recalls), 100 * np.mean(f1), loss, 100 * gaps]


def auto(prepared: PreparedAuto) -> Scores:
    def scores(labels: Labels) -> FloatArray:
        prepared.walk_cache = prepared.harmonic_cache = None  # each draw begins anew
        return Auto().solve(prepared, labels).scores

    return scores


def near(graph: Graph) -> Scores:
    prepared = Auto().prepare(graph)
    prepared.points = {}
    return auto(prepared)


def link(graph: Graph) -> Scores:
    rows = normalize(sp.csr_matrix(graph.adjacency))

    def scores(labels: Labels) -> FloatArray:
        model = RidgeClassifier(class_weight="balanced").fit(rows[labels.nodes], labels.classes)
        decision = model.decision_function(rows)
        two = np.stack([-decision, decision], axis=1) if decision.ndim == 1 else decision
        return np.asarray(softmax(two, axis=1))

    return scores


def spreading(graph: Graph) -> Scores:
    adjacency = sp.csr_matrix(graph.adjacency)

    def scores(labels: Labels) -> FloatArray:
        given = np.full(graph.n_nodes, -1)
        given[labels.nodes] = labels.classes
        model = LabelSpreading(kernel=lambda _x, _y=None: adjacency, alpha=0.99, max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its limit on iterations is part of what is compared
            return np.nan_to_num(model.fit(np.zeros((given.size, 1)), given).label_distributions_)

    return scores


def peers(graph: Graph) -> dict[str, Scores]:
    """Methods of other libraries, where these are installed."""

    def scores_of(name: str) -> Scores:
        def scores(labels: Labels) -> FloatArray:
            given = np.full(graph.n_nodes, -1)
            given[labels.nodes] = labels.classes
            problem = Problem(graph=graph, classes=given, draws=lambda *_: iter(()))
            predicted = peer_methods(problem, [name])[name](labels.nodes)
            return np.eye(labels.n_classes)[np.maximum(predicted, 0)]

        return scores

    return {name: scores_of(name) for name in PEERS if installed(NEEDS[name])}


def majority(graph: Graph) -> Scores:
    return lambda labels: np.tile(labels.class_prior(), (graph.n_nodes, 1))


def compared(
    methods: dict[str, Scores], classes: Int64Array, n_draws: int, ways: Sequence[str] = WAYS
) -> dict[str, dict[str, FloatArray]]:
    """Means of `MEASURES` of every method by the way of drawing."""
    found: dict[str, dict[str, FloatArray]] = {}
    for way in ways:
        rows = defaultdict(list)
        for numbered, labels in draws(classes, way, n_draws):
            for name, scores in methods.items():
                rows[name].append(judged(scores(labels), numbered, labels))
        found |= {way: {name: np.mean(each, axis=0) for name, each in rows.items()}} if rows else {}
    return found


def of_arms(names: list[str], n_draws: int) -> None:
    gains, cells = [], defaultdict(list)
    for name in names:
        graph, classes = load(name)
        methods = {
            "auto": auto(Auto().prepare(graph)),
            "near": near(graph),
            "LINK": link(graph),
            "spreading .99": spreading(graph),
            "majority": majority(graph),
            **peers(graph),
        }
        found = compared(methods, classes, n_draws)
        gains.append([name, *(_gain(found.get(way)) for way in WAYS)])
        for way, of in found.items():
            kind = "balanced" if way.endswith("class") else "random"
            best = max(each[0] for each in of.values())
            for method, each in of.items():
                cells[kind, method].append([*each, best - each[0]])
    show(
        "accuracy of auto over near, in points",
        "graph|" + "|".join(f"{w} {{:+.1f}}" for w in WAYS),
        gains,
    )
    show(
        "means over graphs",
        "labels|method|" + "|".join(f"{each} {{:.2f}}" for each in (*MEASURES, "lost to the best")),
        ([*key, *np.mean(each, axis=0)] for key, each in sorted(cells.items())),
        left=2,
    )


def _gain(of: dict[str, FloatArray] | None) -> float | None:
    return None if of is None else float(of["auto"][0] - of["near"][0])


def of_thinned(names: list[str], n_draws: int, epsilon: float) -> None:
    rows = []
    for name in names:
        graph, classes = load(name)
        adjacency = sp.csr_matrix(graph.adjacency)
        thin = peewit.sparsify(adjacency, epsilon=epsilon, seed=0).graph
        prepared = Auto().prepare(thin)
        degrees = FullDegrees(
            weight=np.asarray(graph.degree), n_edges=np.diff(graph.adjacency.indptr)
        )
        prepared.points = points_by_passes(prepared, graph.laplacian_product, degrees, UNWATCHED)
        methods = {
            "near, edges kept": near(thin),
            "points of edges kept": auto(Auto().prepare(thin)),
            "points of all edges": auto(prepared),
            "near, all edges": near(graph),
            "all edges": auto(Auto().prepare(graph)),
        }
        found = compared(methods, classes, n_draws)
        means = np.mean([[of[method][0] for method in methods] for of in found.values()], axis=0)
        rows.append([name, 100 * thin.adjacency.nnz / graph.adjacency.nnz, *means])
    rows.append(["mean", *np.mean([row[1:] for row in rows], axis=0)])
    show(
        f"accuracy of auto at epsilon {epsilon}",
        "graph|kept, % {:.0f}|" + "|".join(f"{name} {{:.1f}}" for name in methods),
        rows,
    )


def walks(graph: Graph, teleport: float) -> Scores:
    """Densities (K6) of walks of 1 / teleport steps, alone."""
    pagerank = PersonalizedPageRank.of_graph(graph)
    root = pagerank.inverse_root[:, None]

    def scores(labels: Labels) -> FloatArray:
        sources = np.zeros((graph.n_nodes, labels.n_classes))
        sources[labels.nodes] = labels.targets()
        filtered = pagerank.filtered(root * sources, teleport, rtol=1e-5)
        return np.asarray(root * filtered / sources.sum(axis=0), np.float64)

    return scores


def potentials(graph: Graph) -> Scores:
    prepared = Poisson().prepare(graph)
    return lambda labels: Poisson().solve(prepared, labels).scores


def of_walks(names: list[str], n_draws: int) -> None:
    rows = []
    for name in names:
        graph, classes = load(name)
        methods = {f"{round(1 / each):,}": walks(graph, each) for each in TELEPORTS}
        methods |= {"Poisson": potentials(graph), "spreading .99": spreading(graph)}
        methods |= {"auto": auto(Auto().prepare(graph))}
        for way, found in compared(methods, classes, n_draws, ("5 a class", "1 %")).items():
            rows.append([name, way, *(each[0] for each in found.values())])
    show(
        f"accuracy by steps of walks, {n_draws} draws",
        "graph|labels|" + "|".join(f"{name} {{:.1f}}" for name in methods),
        rows,
        left=2,
    )


def main() -> None:
    cases = ("arms", "thinned", "walks")
    asked = options(__doc__, cases=cases, draws=4, epsilon=0.7, graphs=[""])
    named = [name for name in asked.graphs if name]
    if "arms" in asked.cases:
        files = sorted((folder() / "strangers").glob("*_edges.parquet"))
        names = named or [file.name.removesuffix("_edges.parquet") for file in files]
        of_arms(names, asked.draws)
    if "thinned" in asked.cases:
        of_thinned(named or list(DENSE), asked.draws, asked.epsilon)
    if "walks" in asked.cases:
        of_walks(named or list(NEIGHBORS), asked.draws)


if __name__ == "__main__":
    main()
