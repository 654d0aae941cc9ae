"""What do total variation and Cheeger models get right, and what do they cost?

``tables`` repeats Tables 1 and 2 of Bresson and Zhang (2012) on USPS digits, 4 against 9 and
{0, 1, 4, 9}: errors in percent of the unlabeled digits with 1, 5, 10 and 50 labels per class, the
same draws for every method, beside the published figures. Digits are joined to their 5 nearest
neighbors, w = exp(-d^2 / (s_i s_j)), s the distance of the fifth, made symmetric by (W + W^T) / 2.
"graph" models see the graph alone, some also as "kernel" models with the pixels. With
``--test-subset`` they are the 2,007 test digits of that set. ``sparsified`` does the same on
sparsifiers of the graph, ``points`` holds half of the digits back and predicts them by functions of
the pixels, beside the models' own errors at nodes, ``normalizations`` with each normalization of
TV-RLS. ``clusters`` asks for graphs whose classes are clusters to a different degree what each
start of the models gets right, and ``cuts`` what the race of the starts of a cut gains and loses.
``speed`` takes ``mnist_knn10`` with 10 labels per class, ``million`` a generated graph of a
million nodes and eight million edges with two classes.
"""

import argparse
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from scipy.spatial import cKDTree

from docs.benchmarks.frame import CONSOLE, Figures, folder, options, share_right, wall_of
from docs.benchmarks.peak_memory import peak_bytes
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.variational.cut_then_name import cut_starts
from peewit.solvers.models.variational.simplex_machines import LapRLS, SimplexLapSVM
from peewit.solvers.models.variational.total_variation_machines import TVRLS
from peewit.solvers.neighbors.neighbor_graph import TieRule, edges_of
from peewit.solvers.neighbors.neighbor_lists import NeighborLists
from peewit.solvers.variation.cheeger_cut import best_cut, best_threshold, descend
from peewit.solvers.variation.splitting import NORMALIZATIONS
from peewit.streaming.calls.sparsify_call import sparsify
from tests.data_sets import draw_per_class, labeled_graph
from tests.streaming.graphs import blocks_with_hubs

SETS: Final = {"4 vs 9": (4, 9), "0, 1, 4, 9": (0, 1, 4, 9)}
COUNTS: Final = (1, 5, 10, 50)
PUBLISHED: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "4 vs 9": {
        "lap-rls": (18.09, 10.48, 7.77, 4.14),
        "lap-svm": (13.79, 9.84, 7.61, 4.77),
        "tv-rls": (3.18, 3.16, 3.13, 3.16),
        "tv-svm": (3.18, 3.13, 3.13, 3.08),
        "cheeger-rls": (4.06, 3.74, 4.03, 2.84),
        "cheeger-svm": (3.87, 3.74, 4.00, 2.73),
    },
    "0, 1, 4, 9": {
        "lap-rls": (20.06, 6.64, 4.03, 3.3),
        "lap-svm": (49.95, 14.21, 6.27, 2.82),
        "tv-rls": (2.0, 2.06, 1.91, 1.98),
        "tv-svm": (1.75, 1.82, 1.77, 1.85),
        "cheeger-rls": (3.35, 1.95, 1.85, 1.87),
        "cheeger-svm": (2.94, 2.08, 1.72, 1.74),
    },
}
PEERS: Final = ("poisson", "poisson-mbo", "harmonic-mbo")
EPSILONS: Final = (0.3, 0.5, 0.9)
ERROR: Final = "{:.2f} ({:.2f}) ± {:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Digits:
    """Some classes of USPS: pixels, classes numbered from 0, and the graph."""

    points: FloatArray
    classes: Int64Array
    graph: Graph


def usps(digits: tuple[int, ...], *, n_neighbors: int, is_test_only: bool) -> Digits:
    with np.load(folder() / "usps.npz") as stored:
        points, classes = stored["X"].astype(np.float64), stored["y"].astype(np.int64)
        kept = np.isin(classes, digits)
        if is_test_only:
            kept &= stored["is_test"] == 1
    points, classes = points[kept], np.searchsorted(digits, classes[kept])
    return Digits(points=points, classes=classes, graph=joined(points, n_neighbors))


def joined(points: FloatArray, n_neighbors: int) -> Graph:
    """The graph of section G.8: exp(-d^2 / (s_i s_j)), s the distance of the last neighbor."""
    squares = np.square(points).sum(axis=1)
    n_points = squares.size
    distances = np.empty((n_points, n_neighbors))
    neighbors = np.empty((n_points, n_neighbors), np.int64)
    for row in range(n_points):
        square = np.maximum(squares + squares[row] - 2.0 * (points @ points[row]), 0.0)
        square[row] = np.inf
        nearest = np.argpartition(square, n_neighbors)[:n_neighbors]
        nearest = nearest[np.argsort(square[nearest], kind="stable")]
        neighbors[row], distances[row] = nearest, np.sqrt(square[nearest])
    scale = distances[:, -1]
    weight = np.exp(-np.square(distances) / (scale[:, None] * scale[neighbors]))
    rows = np.repeat(np.arange(n_points), n_neighbors)
    return Graph.from_edges(rows, neighbors.ravel(), 0.5 * weight.ravel(), n_nodes=n_points)


def errors(
    model: Model,
    digits: Digits,
    graph: Graph,
    features: FloatArray | None,
    count: int,
    n_draws: int,
) -> tuple[FloatArray, float]:
    """Percent of unlabeled digits that are wrong in each draw, and seconds of a solve."""
    prepared = model.prepare(graph, features)
    wrong, started = np.empty(n_draws), time.perf_counter()
    for seed in range(n_draws):
        nodes = draw_per_class(digits.classes, count, seed=seed)
        scores = model.solve(prepared, Labels.from_pairs(nodes, digits.classes[nodes])).scores
        if is_centered(model, scores):
            scores = scores - np.median(scores, axis=0)
        wrong[seed] = 100.0 * (1.0 - share_right(scores.argmax(axis=1), digits.classes, nodes))
    return wrong, (time.perf_counter() - started) / n_draws


def is_centered(model: Model, scores: FloatArray) -> bool:
    """Whether functions are centered, as the reference of section G.8 has it."""
    return scores.shape[1] == 2 and isinstance(model, LapRLS | SimplexLapSVM)


def columns_of(counts: Iterable[int], shape: str) -> str:
    return "|".join(f"{count} per class {shape}" for count in counts)


def cells(
    model: Model, digits: Digits, features: FloatArray | None, counts: Iterable[int], n_draws: int
) -> list[Any]:
    """Mean, median and deviation of the errors for each number of labels, and seconds."""
    found = [errors(model, digits, digits.graph, features, count, n_draws) for count in counts]
    spreads = [(each.mean(), np.median(each), each.std()) for each, _ in found]
    return [*spreads, np.mean([seconds for _, seconds in found])]


def rows(name: str) -> Iterator[tuple[str, str]]:
    """Methods and what they see; Cheeger-SVM without a kernel is Cheeger-RLS."""
    for model in PUBLISHED[name]:
        if model != "cheeger-svm":
            yield model, "graph"
        if not model.startswith("lap"):
            yield model, "kernel"
    yield from ((model, "graph") for model in PEERS)


def tables(options: argparse.Namespace) -> None:
    """Tables 1 and 2."""
    for name, chosen in SETS.items():
        digits = usps(chosen, n_neighbors=options.neighbors, is_test_only=options.test_subset)
        title = f"{name}: {digits.graph}, errors in %, mean (median) ± sd of {options.draws} draws"
        counts = COUNTS[:2] if options.quick else COUNTS
        table = Figures(title, f"method|{columns_of(counts, ERROR)}|seconds {{:.2f}}")
        for model, form in rows(name):
            features = digits.points if form == "kernel" else None
            row = cells(CATALOGUE[model](), digits, features, counts, options.draws)
            table.add(f"{model}, {form}", *row)
            if (form == "graph" or model == "cheeger-svm") and model in PUBLISHED[name]:
                published = PUBLISHED[name][model][: len(counts)]
                table.add("  published", *(f"{each:.2f}" for each in published))
        CONSOLE.print(table)


def points(options: argparse.Namespace) -> None:
    """Held-back digits by functions of the pixels, and the nodes of the same solves."""
    counts = COUNTS[1:2] if options.quick else COUNTS
    for name, chosen in SETS.items():
        wrong: dict[str, list[FloatArray]] = {}
        for seed in range(options.draws):
            seen, new = halves(chosen, seed, options.neighbors)
            for model in (*PUBLISHED[name], "laprlsc", "lapsvm"):
                found = [held_back(CATALOGUE[model](), seen, new, count, seed) for count in counts]
                wrong.setdefault(model, []).append(np.array(found))
        title = f"{name}: errors of half held back, and of nodes, in %, {options.draws} draws"
        table = Figures(title, f"model|{columns_of(counts, '{:.2f} ({:.2f})')}")
        for model, found in wrong.items():
            table.add(model, *map(tuple, np.mean(found, axis=0)))
        CONSOLE.print(table)


def halves(chosen: tuple[int, ...], seed: int, n_neighbors: int) -> tuple[Digits, Digits]:
    """Two random halves of the digits, each with a graph of its own."""
    whole = usps(chosen, n_neighbors=n_neighbors, is_test_only=False)
    order = np.random.default_rng(seed).permutation(whole.classes.size)
    parts = np.sort(order[::2]), np.sort(order[1::2])
    seen, new = (
        Digits(
            points=whole.points[part],
            classes=whole.classes[part],
            graph=joined(whole.points[part], n_neighbors),
        )
        for part in parts
    )
    return seen, new


def held_back(
    model: Model, seen: Digits, new: Digits, count: int, seed: int
) -> tuple[float, float]:
    """Percent of the new digits that functions get wrong, and of the unlabeled nodes."""
    if not isinstance(model, InductiveModel):
        raise TypeError(f"{model} predicts no new points")
    prepared = model.prepare(seen.graph, seen.points)
    nodes = draw_per_class(seen.classes, count, seed=seed)
    solution = model.solve(prepared, Labels.from_pairs(nodes, seen.classes[nodes]))
    scores, own = model.predict(prepared, solution, new.points), solution.scores
    if is_centered(model, own):
        middle = np.median(own, axis=0)
        scores, own = scores - middle, own - middle
    wrong = 1.0 - np.mean(scores.argmax(axis=1) == new.classes)
    return 100.0 * wrong, 100.0 * (1.0 - share_right(own.argmax(axis=1), seen.classes, nodes))


def sparsified(options: argparse.Namespace) -> None:
    """The same models on sparsifiers: of the graph above, and of one of 100 neighbors."""
    models = ("tv-rls", "tv-svm", "cheeger-rls", "lap-rls")
    for n_neighbors, (name, chosen) in product((5, 100), SETS.items()):
        digits = usps(chosen, n_neighbors=n_neighbors, is_test_only=False)
        table = Figures(
            f"{name}, {n_neighbors} neighbors: errors in %, 10 labels per class, "
            f"{options.draws} draws",
            "graph|edges {:,}|" + "|".join(f"{model} {{:.2f}} ± {{:.2f}}" for model in models),
        )
        for epsilon in (0.0, *(EPSILONS[-1:] if options.quick else EPSILONS)):
            graph = digits.graph
            if epsilon:
                graph = sparsify(graph, epsilon=epsilon, seed=0).graph
            found = [
                errors(CATALOGUE[model](), digits, graph, None, 10, options.draws)[0]
                for model in models
            ]
            heading = f"epsilon {epsilon}" if epsilon else "whole"
            table.add(heading, graph.n_edges, *((each.mean(), each.std()) for each in found))
        CONSOLE.print(table)


def normalizations(options: argparse.Namespace) -> None:
    """TV-RLS by its normalization, started from the labels so that only that differs."""
    for name, chosen in SETS.items():
        digits = usps(chosen, n_neighbors=options.neighbors, is_test_only=options.test_subset)
        title = f"{name}: errors in %, {options.draws} draws"
        table = Figures(title, f"normalization|{columns_of(COUNTS, ERROR)}|seconds {{:.2f}}")
        for normalization in NORMALIZATIONS:
            model = TVRLS(normalization=normalization, initial="harmonic")
            table.add(normalization, *cells(model, digits, None, COUNTS, options.draws))
        CONSOLE.print(table)


def speed(options: argparse.Namespace) -> None:
    """One solve of each model on the graph of all MNIST digits, by two threads."""
    given = labeled_graph(folder(), "mnist_knn10")
    models = {name: CATALOGUE[name]() for name in (*PEERS, "tv-rls", "tv-svm", "cheeger-rls")}
    show_accuracy("mnist_knn10", given, models, (10,) if options.quick else (1, 5, 10), options)


def show_accuracy(
    name: str,
    given: tuple[Graph, Int64Array],
    models: dict[str, Model],
    per_class: tuple[int, ...],
    options: argparse.Namespace,
) -> None:
    title = f"{name}, {given[0]}: accuracy and seconds, {options.draws} draws"
    table = Figures(title, f"model|{columns_of(per_class, '{:.4f} ± {:.4f} in {:.1f} s')}")
    for kind, model in models.items():
        cells = []
        for count in per_class:
            runs = [timed(model, *given, count, seed) for seed in range(options.draws)]
            right, seconds = np.array(runs).T
            cells.append((right.mean(), right.std(), float(np.median(seconds))))
        table.add(kind, *cells)
    CONSOLE.print(table)


def timed(
    model: Model, graph: Graph, classes: Int64Array, count: int, seed: int
) -> tuple[float, float]:
    """Share of right unlabeled nodes, and seconds of preparation and solve together."""
    nodes = draw_per_class(classes, count, seed=seed)
    with ThreadPoolExecutor(2) as pool:
        solution, seconds = wall_of(
            lambda: model.solve(
                model.prepare(graph, parallel=pool.map), Labels.from_pairs(nodes, classes[nodes])
            )
        )
    return share_right(solution.scores.argmax(axis=1), classes, nodes), seconds


def clusters(options: argparse.Namespace) -> None:
    """Accuracy from each start, beside models without cuts, with 1 to 10 labels per class."""
    kinds: dict[str, Model] = {
        **{name: CATALOGUE[name]() for name in ("hfs", *PEERS)},
        **{
            f"{name}, {initial}": CATALOGUE[name](initial=initial)
            for name in ("tv-rls", "cheeger-rls")
            for initial in ("auto", "cut", "contrasts", "harmonic", "poisson")
        },
    }
    given = {
        f"two camps, {inside} inside": blocks_with_hubs(2, 600, inside=inside, seed=0)
        for inside in (0.8, 0.6)
    }
    for name in () if options.quick else ("cora", "citeseer"):
        given[name] = largest_component(*labeled_graph(folder(), name))
    for name, graph in given.items():
        show_accuracy(name, graph, kinds, (1, 2, 5, 10), options)


def largest_component(graph: Graph, classes: Int64Array) -> tuple[Graph, Int64Array]:
    nodes = np.flatnonzero(graph.component == np.bincount(graph.component).argmax())
    return graph.subgraph(nodes), classes[nodes]


def cuts(options: argparse.Namespace) -> None:
    """Cheeger ratios and seconds of a cut by the race, and by all of its starts to the end."""
    quiet = Watch()
    columns = "graph|nodes {:,}|race {:.5f}|s {:.2f}|all starts {:.5f}|s {:.2f}"
    table = Figures("Least Cheeger ratio", columns)
    given: dict[str, Graph] = {}
    for name, chosen in {**SETS, "all digits": tuple(range(10))}.items():
        for is_test_only in (True, False):
            digits = usps(chosen, n_neighbors=options.neighbors, is_test_only=is_test_only)
            given[f"{name}{', test' * is_test_only}"] = digits.graph
    for name in () if options.quick else ("cora", "citeseer", "mnist_knn10"):
        given[name] = labeled_graph(folder(), name)[0]
    for name, whole in given.items():
        graph, _ = largest_component(whole, np.zeros(whole.n_nodes, np.int64))
        starts, _ = cut_starts(graph, quiet)
        with ThreadPoolExecutor(2) as pool:
            began = time.perf_counter()
            cut = best_cut(graph, starts, graph.degree, parallel=pool.map)
            raced = time.perf_counter()
            found = descend(graph, starts, graph.degree, parallel=pool.map)
            least = min(best_threshold(graph, each, graph.degree)[1] for each in found.functions.T)
            ended = time.perf_counter()
        table.add(name, graph.n_nodes, cut.ratio, raced - began, least, ended - raced)
    CONSOLE.print(table)


def million(options: argparse.Namespace) -> None:
    """Two moons of points in the plane, joined to their nearest."""
    n_nodes = 100_000 if options.quick else 1_000_000
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 2, n_nodes)
    angle = rng.uniform(0.0, np.pi, n_nodes)
    points = np.column_stack([np.cos(angle), np.sin(angle)])
    points[classes == 1] = np.array([1.0, 0.5]) - points[classes == 1]
    points += rng.normal(0.0, 0.12, points.shape)  # wide enough that some edges join the moons
    distances, neighbors = cKDTree(points).query(points, 15, workers=-1)
    lists = NeighborLists(neighbors=neighbors[:, 1:], distances=distances[:, 1:])
    edges = [edges_of(lists, place, TieRule()) for place in lists.blocks()]
    graph = Graph.from_records(edges, n_nodes=n_nodes)
    del edges, lists, distances, neighbors, points
    CONSOLE.print(f"{graph}; making it took {peak_bytes() / (1 << 30):.1f} GiB")
    for model in (*PEERS, "tv-rls"):
        right, seconds = timed(CATALOGUE[model](), graph, classes, 10, 0)
        peak = peak_bytes() / (1 << 30)
        CONSOLE.print(f"{model}: {right:.4f} right in {seconds:.1f} s, peak so far {peak:.1f} GiB")


def main() -> None:
    kinds = tables, points, sparsified, normalizations, clusters, cuts, speed, million
    cases = {kind.__name__: kind for kind in kinds}
    small = {"sizes": "a small part"}
    asked = options(__doc__, cases=cases, quick=small, draws=10, neighbors=5, test_subset=False)
    for name in asked.cases:
        cases[name](asked)


if __name__ == "__main__":
    main()
