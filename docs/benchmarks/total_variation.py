"""What do total variation and Cheeger models get right, and what do they cost?

Run ``python -m docs.benchmarks.total_variation tables``, ``sparsified``,
``normalizations``, ``clusters``, ``cuts``, ``speed`` or ``million``; all but the last read the
folder that ``PEEWIT_DATA`` names.

``tables`` repeats Tables 1 and 2 of Bresson and Zhang (2012) on USPS digits, 4 against 9 and
{0, 1, 4, 9}: errors in percent of the unlabeled digits with 1, 5, 10 and 50 labels per class, the
same draws for every method, beside the published figures. Digits are joined to their 5 nearest
neighbors, w = exp(-d^2 / (s_i s_j)), s the distance of the fifth, made symmetric by (W + W^T) / 2.
"graph" models see the graph alone, some also as "kernel" models with the pixels. With
``--test-subset`` they are the 2,007 test digits of that set. ``sparsified`` does the same on
sparsifiers of the graph, ``normalizations`` with each normalization of TV-RLS. ``clusters`` asks
for graphs whose classes are clusters to a different degree what each start of the models gets
right, and ``cuts`` what the race of the starts of a cut gains and loses.
``speed`` takes ``mnist_knn10`` with 10 labels per class, ``million`` a generated graph of a
million nodes and eight million edges with two classes.
"""

import argparse
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.spatial import cKDTree

from docs.benchmarks.peak_memory import peak_bytes
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.variational.cut_then_name import cut_starts
from peewit.solvers.models.variational.total_variation_machines import TVRLS
from peewit.solvers.neighbors.neighbor_graph import TieRule, edges_of
from peewit.solvers.neighbors.neighbor_lists import NeighborLists
from peewit.solvers.variation.cheeger_cut import best_cut, best_threshold, descend
from peewit.solvers.variation.splitting import NORMALIZATIONS
from peewit.streaming.sparsify_call import sparsify
from tests.data_sets import draw_per_class, labeled_graph

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Digits:
    """Some classes of USPS: pixels, classes numbered from 0, and the graph."""

    points: FloatArray
    classes: Int64Array
    graph: Graph


def usps(digits: tuple[int, ...], *, n_neighbors: int, is_test_only: bool) -> Digits:
    """The digits of some classes.

    Raises
    ------
    FileNotFoundError
        ``PEEWIT_DATA`` is not set, or the file is not there.
    """
    with np.load(_folder() / "usps.npz") as stored:
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
        if scores.shape[1] == 2 and type(model).__name__ in {"LapRLS", "SimplexLapSVM"}:
            scores = scores - np.median(scores, axis=0)  # as the reference of section G.8
        missed = scores.argmax(axis=1) != digits.classes
        missed[nodes] = False
        wrong[seed] = 100.0 * missed.sum() / (missed.size - nodes.size)
    return wrong, (time.perf_counter() - started) / n_draws


def show(title: str, digits: Digits, graph: Graph, name: str, options: argparse.Namespace) -> None:
    """One table: mean, median and spread of the errors for every method and label count."""
    counts = COUNTS[:2] if options.quick else COUNTS
    table = Table(title=title)
    table.add_column("method")
    for count in counts:
        table.add_column(f"{count} per class", justify="right")
    table.add_column("seconds", justify="right")
    for model, form in rows(name):
        cells, seconds = [], []
        for count in counts:
            features = digits.points if form == "kernel" else None
            found, each = errors(CATALOGUE[model](), digits, graph, features, count, options.draws)
            cells.append(f"{found.mean():.2f} ({np.median(found):.2f}) ± {found.std():.2f}")
            seconds.append(each)
        table.add_row(f"{model}, {form}", *cells, f"{np.mean(seconds):.2f}")
        if form == "graph" and model in PUBLISHED[name]:
            published = (f"{value:.2f}" for value in PUBLISHED[name][model][: len(counts)])
            table.add_row("  published", *published, "")
    Console(width=140).print(table)


def rows(name: str) -> Iterator[tuple[str, str]]:
    """Methods and what they see; Cheeger-SVM without a kernel is Cheeger-RLS."""
    for model in PUBLISHED[name]:
        yield model, "graph"
        if model in {"tv-rls", "tv-svm", "cheeger-rls"}:
            yield model, "kernel"
    for model in PEERS:
        yield model, "graph"


def tables(options: argparse.Namespace) -> None:
    """Tables 1 and 2."""
    for name, chosen in SETS.items():
        digits = usps(chosen, n_neighbors=options.neighbors, is_test_only=options.test_subset)
        title = f"{name}: {digits.graph}, errors in %, mean (median) ± sd of {options.draws} draws"
        show(title, digits, digits.graph, name, options)


def sparsified(options: argparse.Namespace) -> None:
    """The same models on sparsifiers: of the graph above, and of one of 100 neighbors."""
    models = ("tv-rls", "tv-svm", "cheeger-rls", "lap-rls")
    for n_neighbors, (name, chosen) in product((5, 100), SETS.items()):
        digits = usps(chosen, n_neighbors=n_neighbors, is_test_only=False)
        table = Table(
            title=f"{name}, {n_neighbors} neighbors: errors in %, 10 labels per class, "
            f"{options.draws} draws"
        )
        for heading in ("graph", "edges", *models):
            table.add_column(heading, justify="right")
        for epsilon in (0.0, *(EPSILONS[-1:] if options.quick else EPSILONS)):
            graph = digits.graph
            if epsilon:
                graph = sparsify(graph, epsilon=epsilon, seed=0).graph
            cells = []
            for model in models:
                found, _ = errors(CATALOGUE[model](), digits, graph, None, 10, options.draws)
                cells.append(f"{found.mean():.2f} ± {found.std():.2f}")
            heading = f"epsilon {epsilon}" if epsilon else "whole"
            table.add_row(heading, f"{graph.n_edges:,}", *cells)
        Console(width=140).print(table)


def normalizations(options: argparse.Namespace) -> None:
    """TV-RLS by its normalization, started from the labels so that only that differs."""
    for name, chosen in SETS.items():
        digits = usps(chosen, n_neighbors=options.neighbors, is_test_only=options.test_subset)
        table = Table("normalization", title=f"{name}: errors in %, {options.draws} draws")
        for count in COUNTS:
            table.add_column(f"{count} per class", justify="right")
        table.add_column("seconds", justify="right")
        for normalization in NORMALIZATIONS:
            model = TVRLS(normalization=normalization, initial="harmonic")
            cells, seconds = [], []
            for count in COUNTS:
                found, each = errors(model, digits, digits.graph, None, count, options.draws)
                cells.append(f"{found.mean():.2f} ({np.median(found):.2f}) ± {found.std():.2f}")
                seconds.append(each)
            table.add_row(normalization, *cells, f"{np.mean(seconds):.2f}")
        Console(width=140).print(table)


def speed(options: argparse.Namespace) -> None:
    """One solve of each model on the graph of all MNIST digits, by two threads."""
    graph, classes = labeled_graph(_folder(), "mnist_knn10")
    per_class = (10,) if options.quick else (1, 5, 10)
    models = [*PEERS, "tv-rls", "tv-svm", "cheeger-rls"]
    table = Table(title=f"mnist_knn10, {graph}: accuracy and seconds, {options.draws} draws")
    table.add_column("model")
    for count in per_class:
        table.add_column(f"{count} per class", justify="right")
    for model in models:
        cells = []
        for count in per_class:
            runs = [
                timed(CATALOGUE[model](), graph, classes, count, seed)
                for seed in range(options.draws)
            ]
            right, seconds = np.array(runs).T
            cells.append(f"{right.mean():.4f} ± {right.std():.4f} in {np.median(seconds):.1f} s")
        table.add_row(model, *cells)
    Console(width=140).print(table)


def timed(
    model: Model, graph: Graph, classes: Int64Array, count: int, seed: int
) -> tuple[float, float]:
    """Share of right unlabeled nodes, and seconds of preparation and solve together."""
    nodes = draw_per_class(classes, count, seed=seed)
    with ThreadPoolExecutor(2) as pool:
        started = time.perf_counter()
        prepared = model.prepare(graph, parallel=pool.map)
        solution = model.solve(prepared, Labels.from_pairs(nodes, classes[nodes]))
        seconds = time.perf_counter() - started
    asked = classes >= 0
    asked[nodes] = False
    return float((solution.scores.argmax(axis=1) == classes)[asked].mean()), seconds


def clusters(options: argparse.Namespace) -> None:
    """Accuracy from each start, beside models without cuts, with 1 and 10 labels per class."""
    per_class = (1, 10)
    kinds: dict[str, Model] = {
        **{name: CATALOGUE[name]() for name in ("hfs", *PEERS)},
        **{
            f"{name}, {initial}": CATALOGUE[name](initial=initial)
            for name in ("tv-rls", "cheeger-rls")
            for initial in ("cut", "harmonic", "poisson")
        },
    }
    for name in ("cora", "citeseer"):
        graph, classes = labeled_graph(_folder(), name)
        graph, classes = largest_component(graph, classes)
        title = f"{name}, {graph}: accuracy and seconds, {options.draws} draws"
        table = Table("model", title=title)
        for count in per_class:
            table.add_column(f"{count} per class", justify="right")
        for kind, model in kinds.items():
            cells = []
            for count in per_class:
                draws = range(options.draws)
                runs = [timed(model, graph, classes, count, seed) for seed in draws]
                right, seconds = np.array(runs).T
                cells.append(
                    f"{right.mean():.3f} ± {right.std():.3f} in {np.median(seconds):.1f} s"
                )
            table.add_row(kind, *cells)
        Console(width=140).print(table)


def largest_component(graph: Graph, classes: Int64Array) -> tuple[Graph, Int64Array]:
    """The largest component, and its classes."""
    nodes = np.flatnonzero(graph.component == np.bincount(graph.component).argmax())
    return graph.subgraph(nodes), classes[nodes]


def cuts(options: argparse.Namespace) -> None:
    """Cheeger ratios and seconds of a cut by the race, and by all of its starts to the end."""
    quiet = Watch()
    table = Table("graph", "nodes", "race", "s", "all starts", "s", title="Least Cheeger ratio")
    given: dict[str, Graph] = {}
    for name, chosen in {**SETS, "all digits": tuple(range(10))}.items():
        for is_test_only in (True, False):
            digits = usps(chosen, n_neighbors=options.neighbors, is_test_only=is_test_only)
            given[f"{name}{', test' * is_test_only}"] = digits.graph
    for name in () if options.quick else ("cora", "citeseer", "mnist_knn10"):
        given[name] = labeled_graph(_folder(), name)[0]
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
        figures = [
            f"{cut.ratio:.5f}",
            f"{raced - began:.2f}",
            f"{least:.5f}",
            f"{ended - raced:.2f}",
        ]
        table.add_row(name, f"{graph.n_nodes:,}", *figures)
    Console(width=140).print(table)


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
    console = Console(width=140)
    peak = peak_bytes() / (1 << 30)
    console.print(f"{graph}; making it took {peak:.1f} GiB")
    for model in (*PEERS, "tv-rls"):
        right, seconds = timed(CATALOGUE[model](), graph, classes, 10, 0)
        peak = peak_bytes() / (1 << 30)
        console.print(f"{model}: {right:.4f} right in {seconds:.1f} s, peak so far {peak:.1f} GiB")


def _folder() -> Path:
    folder = os.environ.get("PEEWIT_DATA")
    if not folder:
        raise FileNotFoundError("PEEWIT_DATA is not set; it names the folder of the data sets")
    return Path(folder)


def main(argv: list[str] | None = None) -> int:
    """Run one of the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds: dict[str, Any] = {
        "tables": tables,
        "sparsified": sparsified,
        "normalizations": normalizations,
        "clusters": clusters,
        "cuts": cuts,
        "speed": speed,
        "million": million,
    }
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--neighbors", type=int, default=5)
    parser.add_argument("--test-subset", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a small part of it, in a minute")
    options = parser.parse_args(argv)
    kinds[options.kind](options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
