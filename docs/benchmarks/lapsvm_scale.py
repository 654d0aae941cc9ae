"""How long and how much memory do Laplacian SVMs take, from 4,000 nodes to a million?

Each case runs in a process of its own, whose peak memory is that of the case. Wall seconds.

- ``inverse``: 4,000 handwritten 3s and 8s, exact by Newton; beside it the usual dense LapSVM, which
  inverts an n x n matrix, in the same run.
- ``stopped``: all 11,900 of them by conjugate gradients stopped by stability, graph and Gram matrix
  included, float32; with ``--others`` beside Newton and the dual, whose times do not count either.
- ``exact``: 20,000 points, Gaussian kernel, Gram matrix in memory, at the optimum.
- ``blocked``: 31,000 points, Gaussian kernel, Gram matrix never stored; stopped by stability.
- ``landmarks``: a million points in 50 dimensions from Parquet, 2,000 landmarks, a sparsifier of
  8 M edges; and how far 2,000 landmarks are from the exact solution on 10,000 of the points.
- ``sparse``: 20,000 and 100,000 points and sparse Gram matrices by conjugate gradients and Newton,
  beside landmarks and, of the fewer, a dense matrix. CPU seconds without the graph.

The points that are no digits are clouds of a mixture of Gaussians.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from docs.benchmarks import N_THREADS
from docs.benchmarks.frame import CONSOLE, alone, folder, options, share_right, wall_of
from docs.benchmarks.peak_memory import peak_bytes
from peewit.service.kernel_warmup import warm as compile_kernels
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.machines.lapsvm import LapSVM
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from peewit.streaming.calls.sparsify_call import sparsify
from peewit.streaming.features.feature_files import ParquetFeatures
from tests.data_sets import draw_per_class

GIB = 1 << 30


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    CONSOLE.print(f"  {what}: {time.perf_counter() - began:.2f} s")


def threes_and_eights(n_points: int | None, *, seed: int = 0) -> tuple[FloatArray, Int64Array]:
    """Training images of 3 and 8, each of length 1, and which is which."""
    with np.load(folder() / "mnist.npz") as stored:
        images, digits = stored["X"][:60_000], stored["y"][:60_000]
    chosen = np.flatnonzero((digits == 3) | (digits == 8))
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(chosen)[:n_points]
    points = images[chosen].astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points, digits[chosen].astype(np.int64)


def clouds(n_points: int, n_columns: int, n_classes: int, seed: int) -> tuple[Any, Int64Array]:
    """Points of overlapping round Gaussians, several of which make a class, in float32."""
    rng = np.random.default_rng(seed)
    n_clouds = 5 * n_classes
    centers = rng.normal(size=(n_clouds, n_columns)).astype(np.float32)
    cloud = rng.integers(n_clouds, size=n_points)
    points = centers[cloud] + 0.7 * rng.standard_normal((n_points, n_columns), np.float32)
    return points, cloud % n_classes


def some_labels(classes: Int64Array, per_class: int, seed: int) -> Labels:
    nodes = draw_per_class(classes, per_class, seed=seed)
    return Labels.from_pairs(nodes, classes[nodes])


def told(
    what: str,
    model: LapSVM,
    graph: Graph,
    points: Any,
    labels: Labels,
    truth: Int64Array,
    kept_bytes: int,
    *,
    twice: bool = True,
) -> FloatArray:
    """Solve from nothing, on the same preparation once more, and print what came of it."""
    with ThreadPoolExecutor(N_THREADS) as pool:
        began = time.perf_counter()
        prepared = model.prepare(graph, points, parallel=pool.map, kept_bytes=kept_bytes)
        solution = model.solve(prepared, labels)
        seconds = time.perf_counter() - began
        warm = ""
        if twice:
            again, taken = wall_of(model.solve, prepared, labels)
            warm = f", again {taken:.2f} s"
            assert again.status is solution.status
    predicted = np.array(labels.class_names)[solution.scores.argmax(axis=1)]
    stats = solution.stats
    CONSOLE.print(
        f"  {what}: {seconds:.2f} s{warm}; {stats['n_iter']} iterations, "
        f"{stats['stopped_by']}, {stats['gram']} {stats['precision']}, {solution.status.value}; "
        f"error {1 - share_right(predicted, truth, labels.nodes):.2%}"
    )
    return solution.scores


def dense_inverse(points: FloatArray, graph: Graph, labels: Labels, model: LapSVM) -> FloatArray:
    """The usual LapSVM: alpha = (gamma_A I + gamma_I L^p K)^{-1} J' c, with the inverse formed."""
    gram = ((1.0 + points @ points.T) / 2.0) ** model.degree
    inverse_root = 1.0 / np.sqrt(graph.degree)
    scaled = graph.adjacency.toarray() * np.outer(inverse_root, inverse_root)
    laplacian = np.eye(graph.n_nodes) - scaled
    penalty = np.linalg.matrix_power(laplacian, model.power)
    matrix = model.norm_penalty * np.eye(graph.n_nodes) + model.graph_penalty * penalty @ gram
    inverse = np.linalg.inv(matrix)[:, labels.nodes]
    target = 2.0 * labels.classes - 1.0
    kernel = gram[labels.nodes] @ inverse
    active = np.ones(target.size, bool)
    while True:
        own = np.flatnonzero(active)
        dual = np.zeros(target.size)
        system = kernel[np.ix_(own, own)] + np.eye(own.size)
        dual[own] = np.linalg.solve(system, target[own])
        before, active = active, target * (kernel @ dual) < 1.0
        if (before == active).all():
            return np.asarray(gram @ (inverse @ dual))


DIGITS = LapSVM(kernel="polynomial", degree=9, width=1.0, power=3, graph_penalty=1.0)


def inverse(n_points: int) -> None:
    """Newton beside the dense inverse."""
    points, digits = threes_and_eights(n_points)
    graph = neighbor_graph(points, 20, weights="heat", symmetrize="max")
    labels = some_labels(digits, 40, 0)
    exact = points.astype(np.float64)
    scores = told("newton", DIGITS, graph, exact, labels, digits, 8 * GIB)
    with timed("dense inverse"):
        expected = dense_inverse(exact, graph, labels, DIGITS)
    CONSOLE.print(f"  largest difference {np.abs(scores[:, 1] - expected).max():.1e}")


def stopped(n_points: int | None, *, others: bool) -> None:
    """Early-stopped conjugate gradients, with everything before them."""
    points, digits = threes_and_eights(n_points)
    labels = some_labels(digits, 40, 0)
    began = time.perf_counter()
    with timed("graph"):
        graph = neighbor_graph(points, 20, weights="heat", symmetrize="max")
    for penalties in ((1e-2, 1.0), (1e-6, 1e-2)):
        norm, graph_penalty = penalties
        faster = {"method": "pcg", "stop": "stability", "precision": "float32"}
        model = replace(DIGITS, norm_penalty=norm, graph_penalty=graph_penalty, **faster)
        CONSOLE.print(f"  penalties {penalties}")
        told("pcg stopped by stability", model, graph, points, labels, digits, 2 * GIB)
        if penalties == (1e-2, 1.0):
            CONSOLE.print(f"  graph to answers {time.perf_counter() - began:.2f} s, twice solved")
    if others:
        for method in ("newton", "dual"):
            model = replace(DIGITS, method=method)
            told(method, model, graph, points, labels, digits, 8 * GIB)


def exact(n_points: int) -> None:
    """The Gram matrix in memory, at the optimum."""
    points, classes = clouds(n_points, 50, 10, 0)
    with timed("graph"):
        graph = neighbor_graph(points, 10, weights="heat", symmetrize="max")
    labels = some_labels(classes, 10, 0)
    told("pcg", LapSVM(method="pcg"), graph, points, labels, classes, 3 * GIB, twice=False)


def blocked(n_points: int) -> None:
    """The Gram matrix made at every product."""
    points, classes = clouds(n_points, 361, 2, 0)
    with timed("graph"):
        graph = neighbor_graph(points, 6, weights="heat", symmetrize="max")
    labels = some_labels(classes, 10, 0)
    model = LapSVM(method="pcg", gram="blocked", precision="float32", stop="stability")
    told("pcg stopped by stability", model, graph, points, labels, classes, GIB, twice=False)


def neighbors_by_cloud(points: Any, n_neighbors: int, size: int) -> tuple[Any, Any, Any]:
    """Edges to the nearest of ``size`` points that lie together, which takes minutes less."""
    order = np.lexsort((points[:, 1], np.round(points[:, 0] * 8)))
    pieces = []
    for start in range(0, order.size, size):
        own = order[start : start + size]
        graph = neighbor_graph(points[own], min(n_neighbors, own.size - 1))
        u, v, weight = graph.edges()
        pieces.append((own[u], own[v], weight))
    u, v, weight = (np.concatenate([piece[i] for piece in pieces]) for i in range(3))
    return u, v, weight


def landmarks(n_points: int, n_landmarks: int) -> None:
    """A million nodes, features from Parquet, a sparsified graph."""
    points, classes = clouds(n_points, 50, 10, 0)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "points.parquet"
        values = pa.FixedSizeListArray.from_arrays(pa.array(points.ravel()), 50)
        table = pa.table({"node": np.arange(n_points), "features": values})
        pq.write_table(table, path, row_group_size=1 << 16)
        with timed("edges"):
            edges = neighbors_by_cloud(points, 25, 4000)
        with timed(f"sparsified from {edges[0].size:,} edges"):
            made = sparsify(edges, 0.7, max_edges=8 * n_points, n_nodes=n_points)
        graph = made.graph
        CONSOLE.print(f"  {graph}")
        del edges, made, table, values
        sample = np.sort(
            np.random.default_rng(1).choice(n_points, min(10_000, n_points // 2), False)
        )
        few = points[sample].copy()
        del points
        labels = some_labels(classes, 50, 0)
        model = LapSVM(gram="landmarks", n_landmarks=n_landmarks, precision="float32")
        rows = ParquetFeatures.open(path, n_threads=N_THREADS)
        told(f"{n_landmarks} landmarks", model, graph, rows, labels, classes, 3 * GIB)
    CONSOLE.print(f"  the same on {sample.size:,} of the points, with the graph between them")
    small = neighbor_graph(few, 10, weights="heat", symmetrize="max")
    own = some_labels(classes[sample], 20, 0)
    near = told("landmarks", model, small, few, own, classes[sample], 3 * GIB)
    exact_scores = told("exact", LapSVM(method="newton"), small, few, own, classes[sample], 8 * GIB)
    same = (near.argmax(axis=1) == exact_scores.argmax(axis=1)).mean()
    gap = np.linalg.norm(near - exact_scores) / np.linalg.norm(exact_scores)
    CONSOLE.print(f"  same class {same:.2%}, scores differ by {gap:.1%} of their norm")


SPARSE: dict[str, dict[str, Any]] = {
    "dense, pcg": {"gram": "dense", "method": "pcg", "precision": "float32"},
    "landmarks": {"gram": "landmarks"},
    "local features, pcg": {"gram": "sparse", "method": "pcg"},
    "local features, newton": {"gram": "sparse", "method": "newton"},
    "compact support, pcg": {"gram": "sparse", "kernel": "wendland", "method": "pcg"},
    "compact support, newton": {"gram": "sparse", "kernel": "wendland", "method": "newton"},
}
"""Forms of a Gram matrix and methods."""


def sparse(sizes: tuple[int, int]) -> None:
    """Every form in a process of its own; a dense matrix of the smaller size alone."""
    for n_points in sizes:
        CONSOLE.print(f"  {n_points:,} points")
        for form in list(SPARSE)[n_points > sizes[0] :]:
            alone(one_form, n_points, form)


def one_form(n_points: int, form: str) -> None:
    """CPU seconds and memory of a solve from nothing, errors at nodes and held back."""
    n_new = 2_000
    points, classes = clouds(n_points + n_new, 50, 10, 0)
    graph = neighbor_graph(points[:-n_new], 10, weights="heat", symmetrize="max")
    labels = some_labels(classes[:-n_new], 10, 0)
    before, began = peak_bytes(), time.process_time()
    model = LapSVM(graph_penalty=1.0, **SPARSE[form])
    prepared = model.prepare(graph, points[:-n_new], kept_bytes=8 * GIB)
    solution = model.solve(prepared, labels)
    seconds, peak = time.process_time() - began, peak_bytes() - before
    names, stats = np.array(labels.class_names), solution.stats
    at_nodes = share_right(names[solution.scores.argmax(axis=1)], classes[:-n_new], labels.nodes)
    scores = model.predict(prepared, solution, points[-n_new:])
    at_points = np.mean(names[scores.argmax(axis=1)] == classes[-n_new:])
    CONSOLE.print(
        f"  {form}: {seconds:.1f} CPU s, {stats['n_iter']} iterations, {solution.status.value}, "
        f"{peak / GIB:.2f} GiB more; {stats.get('row_entries', stats['gram'])} a row, "
        f"error {1 - at_nodes:.2%}, held back {1 - at_points:.2%}"
    )


def run(case: str, arguments: dict[str, Any]) -> None:
    compile_kernels()
    CASES[case][0](**arguments)
    CONSOLE.print(f"  peak memory {peak_bytes() / GIB:.2f} GiB")


CASES: dict[str, tuple[Callable[..., None], dict[str, Any], dict[str, Any]]] = {
    "inverse": (inverse, {"n_points": 4_000}, {"n_points": 500}),
    "stopped": (stopped, {"n_points": None}, {"n_points": 1_000}),
    "exact": (exact, {"n_points": 20_000}, {"n_points": 2_000}),
    "blocked": (blocked, {"n_points": 31_000}, {"n_points": 3_000}),
    "sparse": (sparse, {"sizes": (20_000, 100_000)}, {"sizes": (1_000, 5_000)}),
    "landmarks": (
        landmarks,
        {"n_points": 1_000_000, "n_landmarks": 2_000},
        {"n_points": 40_000, "n_landmarks": 500},
    ),
}
"""What runs, with which sizes, and with which small ones."""


def main() -> None:
    others = False, "Newton and the dual in 'stopped'"
    asked = options(__doc__, cases=CASES, quick={"sizes": "small"}, others=others)
    for name in asked.cases:
        arguments = dict(CASES[name][2 if asked.quick else 1])
        if name == "stopped":
            arguments["others"] = asked.others
        CONSOLE.print(f"{name} {arguments}")
        alone(run, name, arguments)


if __name__ == "__main__":
    main()
