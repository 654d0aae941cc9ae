"""How many nodes do the models get right from 1 to 50 labels per class, beside other libraries?

``--set digits`` (1,797 images), ``usps`` (9,298) or ``mnist``. The first two are joined to their 10
nearest neighbors, w = exp(-4 d^2 / d_10(i)^2), made symmetric by (W + W^T) / 2; mnist is the stored
graph of 70,000 images with the published draws of labels. All methods see the same graph and draws;
``poisson-mbo, known sizes`` alone is told the sizes of the classes. Seconds are CPU seconds of one
draw, preparation apart. Peers: ``graphlearning`` 1.7.5, ``scikit-network``, scikit-learn.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors
from sklearn.semi_supervised import LabelSpreading

from docs.benchmarks import frame
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.models.poisson.poisson_mbo import PoissonMBO
from peewit.solvers.status import Status
from tests.data_sets import draw_per_class, labeled_graph

Predict = Callable[[Int64Array], Int64Array]
"""From labeled nodes to the class of every node."""

MODELS: dict[str, Model] = {
    DEFAULT_MODEL: Auto(),
    "harmonic-mbo": HarmonicMBO(),
    "hfs, class mass": HFS(graph_penalty=0.0, class_mass="labels"),
    "hfs": HFS(graph_penalty=0.0),
    "stable-hfs": StableHFS(),
    "poisson": Poisson(),
    "poisson-mbo": PoissonMBO(),
    "poisson-mbo, estimated": PoissonMBO(class_balance="estimated"),
}
KNOWN_SIZES = "poisson-mbo, known sizes"
"""Told the sizes of the classes, which no other method is."""
NAMES = [*MODELS, KNOWN_SIZES]
PEERS = "sknetwork diffusion", "sknetwork propagation", "graphlearning poisson", "sklearn spreading"
"""Diffusion of 50 steps, 100 rounds of propagation (without limit it went on for ever on USPS),
Poisson learning, LabelSpreading with alpha .99."""

LABEL_COUNTS = {"digits": (1, 5, 10, 50), "usps": (1, 5, 10, 50), "mnist": (1, 2, 3, 4, 5)}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A graph with known classes, and nodes drawn to carry labels."""

    graph: Graph
    classes: Int64Array
    draws: Callable[[int, int], Iterator[Int64Array]]


def load(name: str) -> Problem:
    if name == "digits":
        points, classes = load_digits(return_X_y=True)
        return _joined(points, classes.astype(np.int64))
    if name == "usps":
        with np.load(frame.folder() / "usps.npz") as stored:
            return _joined(stored["X"], stored["y"].astype(np.int64))
    graph, classes = labeled_graph(frame.folder(), "mnist_knn10")
    with np.load(frame.folder() / "mnist_label_trials.npz") as stored:
        trials = {count: stored[f"per_class_{count}"] for count in LABEL_COUNTS["mnist"]}

    def published(per_class: int, n_draws: int) -> Iterator[Int64Array]:
        for nodes in trials[per_class][:n_draws]:
            yield np.sort(nodes).astype(np.int64)

    return Problem(graph=graph, classes=classes, draws=published)


def _joined(points: FloatArray, classes: Int64Array) -> Problem:
    """The self-tuned 10-NN graph of points, and seeded draws."""

    def drawn(per_class: int, n_draws: int) -> Iterator[Int64Array]:
        for seed in range(n_draws):
            yield draw_per_class(classes, per_class, seed=seed)

    return Problem(graph=self_tuned(points, 10), classes=classes, draws=drawn)


def self_tuned(points: FloatArray, k: int) -> Graph:
    """w_ij = exp(-4 d_ij^2 / d_k(i)^2) to the k nearest of each point, then (W + W^T) / 2."""
    exact = points.astype(np.float64)
    distance, near = NearestNeighbors(n_neighbors=k + 1).fit(exact).kneighbors(exact)
    distance, near = distance[:, 1:], near[:, 1:]
    weight = np.exp(-4.0 * (distance / distance[:, -1:]) ** 2)
    rows = np.repeat(np.arange(len(points)), k)
    return Graph.from_edges(rows, near.ravel(), weight.ravel() / 2, n_nodes=len(points))


def our_methods(problem: Problem, names: list[str]) -> dict[str, Predict]:
    def method(model: Model) -> Predict:
        prepared = model.prepare(problem.graph)

        def predict(nodes: Int64Array) -> Int64Array:
            labels = Labels.from_pairs(nodes, problem.classes[nodes])
            solution = model.solve(prepared, labels)
            if solution.status is not Status.CONVERGED:
                raise RuntimeError(f"{model} did not converge: {solution.status.message}")
            return solution.scores.argmax(axis=1)

        return predict

    counts = np.bincount(problem.classes[problem.classes >= 0])
    sizes = {str(number): float(count) for number, count in enumerate(counts) if count}
    models = MODELS | {KNOWN_SIZES: PoissonMBO(class_balance=sizes)}
    return {name: method(models[name]) for name in names}


def peer_methods(problem: Problem, names: list[str]) -> dict[str, Predict]:
    """Methods of other libraries; those not installed are told."""
    adjacency = sp.csr_matrix(problem.graph.adjacency)
    found: dict[str, Predict] = {}
    libraries = {name.split()[0] for name in names}
    if "sknetwork" in libraries and (network := frame.installed("sknetwork.classification")):
        found["sknetwork diffusion"] = lambda nodes: network.DiffusionClassifier(
            n_iter=50
        ).fit_predict(adjacency, named(problem, nodes))
        found["sknetwork propagation"] = lambda nodes: network.Propagation(n_iter=100).fit_predict(
            adjacency, named(problem, nodes)
        )
        found["sknetwork pagerank"] = lambda nodes: network.PageRankClassifier().fit_predict(
            adjacency, named(problem, nodes)
        )
    if "graphlearning" in libraries and (learning := frame.installed("graphlearning")):
        # of one node without edges it makes every score NaN, so that those are left to the majority
        joined = problem.graph.degree > 0
        place, within = np.cumsum(joined) - 1, adjacency[joined][:, joined]

        def poisson(nodes: Int64Array) -> Int64Array:
            known = nodes[joined[nodes]]
            names, codes = np.unique(problem.classes[known], return_inverse=True)
            predicted = np.full(joined.size, np.bincount(problem.classes[nodes]).argmax())
            model = learning.ssl.poisson(within)
            predicted[joined] = names[model.fit_predict(place[known], codes).astype(np.int64)]
            return predicted

        found["graphlearning poisson"] = poisson
    found["sklearn spreading"] = lambda nodes: spread(problem, nodes, alpha=0.99).transduction_
    found["sklearn spreading .9"] = lambda nodes: spread(problem, nodes, alpha=0.9).transduction_
    return {name: predict for name, predict in found.items() if name in names}


def named(problem: Problem, nodes: Int64Array) -> dict[int, int]:
    """Classes of nodes, as scikit-network takes them."""
    return dict(zip(nodes.tolist(), problem.classes[nodes].tolist(), strict=True))


def spread(problem: Problem, nodes: Int64Array, *, alpha: float = 0.99) -> LabelSpreading:
    """Fitted on the given graph: the kernel is the adjacency matrix itself."""
    adjacency = sp.csr_matrix(problem.graph.adjacency)
    y = np.full(problem.graph.n_nodes, -1)
    y[nodes] = problem.classes[nodes]
    model = LabelSpreading(kernel=lambda _x, _y=None: adjacency, alpha=alpha, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its limit on iterations is part of what is compared
        return model.fit(np.zeros((y.size, 1)), y)


def measure(
    problem: Problem, methods: dict[str, Predict], per_class: int, n_draws: int
) -> dict[str, list[tuple[float, float]]]:
    """Share right and CPU seconds of every method on each of the first ``n_draws`` draws."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    for nodes in problem.draws(per_class, n_draws):
        for name, predict in methods.items():
            predicted, seconds = frame.cpu_of(predict, nodes)
            found[name].append((frame.share_right(predicted, problem.classes, nodes), seconds))
    return found


def show(title: str, found: dict[str, list[tuple[float, float]]], peers: Iterable[str]) -> None:
    """One row for each method, and the default model's lead over each on their common draws."""
    heading = "|draws|accuracy % {:.1f}|+- {:.1f}|CPU s {:.2f}|"
    table = frame.Figures(title, f"{heading}{DEFAULT_MODEL} leads by {{:+.1f}}|+- {{:.1f}}")
    ours = [share for share, _ in found.get(DEFAULT_MODEL, ())]
    for method, draws in found.items():
        shares, seconds = np.array(draws).T
        lead: Any = "", ""
        if ours and method != DEFAULT_MODEL:
            common = min(len(ours), len(draws))
            lead = frame.mean_and_error(np.subtract(ours[:common], shares[:common]))
        named_so = f"[dim]{method}[/dim]" if method in peers else method
        table.add(named_so, len(draws), *frame.mean_and_error(shares), seconds.mean(), *lead)
    frame.CONSOLE.print(table)


def main() -> None:
    asked = frame.options(
        __doc__,
        set=("digits", LABEL_COUNTS),
        labels=([int], "per class; default all of the set"),
        draws=10,
        peer_draws=(int, "fewer for the peers; 0 leaves them out"),
        models=(NAMES, NAMES),
        peers=(list(PEERS), PEERS),
    )
    problem = load(asked.set)
    n_peer = asked.draws if asked.peer_draws is None else asked.peer_draws
    ours = our_methods(problem, asked.models)
    peers = peer_methods(problem, asked.peers) if n_peer else {}
    for predict in [*ours.values(), *peers.values()]:
        predict(next(problem.draws(1, 1)))  # compiles and prepares; thrown away
    for per_class in asked.labels or LABEL_COUNTS[asked.set]:
        found = measure(problem, ours, per_class, asked.draws)
        found |= measure(problem, peers, per_class, n_peer) if n_peer else {}
        show(f"{asked.set}, {per_class} label{'s' * (per_class > 1)} per class", found, peers)


if __name__ == "__main__":
    main()
