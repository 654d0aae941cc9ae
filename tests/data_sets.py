"""Real graphs that several tests use, built from installed or named data."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

from peewit.service.demo.digits import N_NEIGHBORS, neighbor_edges
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels


def digits_graph() -> tuple[Graph, Int64Array]:
    """The 100-NN graph of scikit-learn's digits (1,797 nodes, 112,374 edges) and their classes.

    An edge joins two images when either is among the other's neighbors; its weight is
    exp(-4 d^2 / (s_u s_v)), s the distance to the 7th neighbor.
    """
    images, classes = load_digits(return_X_y=True)
    u, v, weight = neighbor_edges(images, N_NEIGHBORS)
    graph = Graph.from_edges(u, v, weight, n_nodes=len(images))
    return graph, classes.astype(np.int64)


def labeled_graph(directory: Path, name: str) -> tuple[Graph, Int64Array]:
    """A graph of the data directory and its classes, -1 where the source gives none."""
    edges = pq.read_table(directory / f"{name}_edges.parquet")
    labels = pq.read_table(directory / f"{name}_labels.parquet")
    classes = np.full(labels.num_rows, -1, dtype=np.int64)
    classes[labels["node"].to_numpy()] = labels["label"].to_numpy()
    columns = (edges[column].to_numpy() for column in ("src", "dst", "weight"))
    return Graph.from_edges(*columns, n_nodes=len(classes)), classes


def draw_per_class(classes: Int64Array, per_class: int, *, seed: int) -> Int64Array:
    """Nodes drawn at random, equally many of each class >= 0, increasing."""
    rng = np.random.default_rng(seed)
    return np.sort(
        np.concatenate(
            [
                rng.choice(np.flatnonzero(classes == value), per_class, replace=False)
                for value in np.unique(classes[classes >= 0])
            ]
        )
    )


def accuracy(scores: np.ndarray, classes: Int64Array, labeled: Int64Array) -> float:
    """Share of right arg max among the nodes that were not labeled and whose class is known."""
    asked = classes >= 0
    asked[labeled] = False
    return float((scores[asked].argmax(axis=1) == classes[asked]).mean())


def labels_in(y: Int64Array) -> Labels:
    """Labels of the nodes whose entry of ``y`` is not -1."""
    known = np.flatnonzero(y != -1)
    return Labels.from_pairs(known, y[known])
