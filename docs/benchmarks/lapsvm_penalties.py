"""What is it worth to choose a Laplacian SVM's penalties by labels left out?

Objects that turn, seventy-two views each of twenty: a view is a smooth closed curve of its angle in
a few dimensions, with noise; the digits of USPS' test part, two groups of them, G50C, and 2,000
digits of MNIST. Graphs of ten neighbors, 5 and 10 labels a class; share of the unlabeled right,
mean over draws, with both penalties as they are (.01 and 1), with the graph's chosen, and with both
('auto', the default). No constant was chosen on the seeds of these objects.
"""

from collections.abc import Iterator

import numpy as np

from docs.benchmarks.frame import CONSOLE, Figures, folder, options, share_right
from docs.benchmarks.lapsvm.sets import g50c, uspst, uspst_b
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.labels import Labels
from peewit.solvers.models.machines.lapsvm import LapSVM
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from tests.data_sets import draw_per_class

N_OBJECTS, N_VIEWS = 20, 72
MODELS = {
    ".01, 1": LapSVM(norm_penalty=0.01, graph_penalty=1.0),
    ".01, auto": LapSVM(norm_penalty=0.01),
    "auto": LapSVM(),
}


def turning_objects(
    seed: int, *, n_columns: int, n_waves: int, noise: float
) -> tuple[FloatArray, Int64Array]:
    """Views of objects, each of length 1 before the noise, and which object each shows."""
    rng = np.random.default_rng(seed)
    angle = 2.0 * np.pi * np.arange(N_VIEWS) / N_VIEWS
    wave = np.arange(1, n_waves + 1)
    views = []
    for _ in range(N_OBJECTS):
        cosines, sines = rng.normal(size=(2, n_waves, n_columns)) / wave[:, None] ** 0.8
        curve = np.cos(np.outer(angle, wave)) @ cosines + np.sin(np.outer(angle, wave)) @ sines
        curve += 0.6 * rng.normal(size=n_columns)
        views.append(curve / np.linalg.norm(curve, axis=1, keepdims=True))
    points = np.concatenate(views)
    return points + noise * rng.normal(size=points.shape), np.repeat(np.arange(N_OBJECTS), N_VIEWS)


def sets() -> Iterator[tuple[str, FloatArray, Int64Array]]:
    """Names, points and classes."""
    for n_columns, n_waves, noise in ((8, 3, 0.05), (10, 4, 0.05), (16, 6, 0.07)):
        points, objects = turning_objects(
            100 + n_columns, n_columns=n_columns, n_waves=n_waves, noise=noise
        )
        yield f"objects, {n_columns} columns, {n_waves} waves", points, objects
    for data in (uspst(), uspst_b(), g50c()):
        yield data.name, data.features, data.classes
    with np.load(folder() / "mnist.npz") as stored:
        rows = np.random.default_rng(0).choice(60_000, 2_000, replace=False)
        yield "mnist, 2,000", stored["X"][rows] / 255.0, stored["y"][rows].astype(np.int64)


def main() -> None:
    asked = options(__doc__, quick={"draws": 1}, draws=8, labels=[5, 10])
    columns = "".join(f"|{name} {{:.3f}}" for name in MODELS)
    table = Figures(f"{asked.draws} draws", f"|labels a class {{}}{columns}")
    for name, points, classes in sets():
        prepared = LapSVM().prepare(neighbor_graph(points, 10), points)  # serves all models
        for n_labels in asked.labels:
            right: dict[str, list[float]] = {model: [] for model in MODELS}
            for seed in range(asked.draws):
                nodes = draw_per_class(classes, n_labels, seed=seed)
                labels = Labels.from_pairs(nodes, classes[nodes])
                for told, model in MODELS.items():
                    solution = model.solve(prepared, labels)
                    right[told].append(share_right(solution.scores.argmax(1), classes, nodes))
            table.add(name, n_labels, *map(np.mean, right.values()))
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
