"""The demo's data: scikit-learn's 1,797 handwritten digits as a graph of similar images.

Real images, no download. Node ids are strings such as ``digit-0042``; only the demo and the tests
know that they are digits.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

from peewit.solvers.arrays import FloatArray, Int64Array

N_NEIGHBORS: Final = 100
WIDTH_NEIGHBOR: Final = 7
"""The kernel width of an image is the distance to this neighbor."""

ROWS_PER_GROUP: Final = 16_384


def digit_edges(n_neighbors: int = N_NEIGHBORS) -> pa.Table:
    """Edges between each image and its nearest ones, each once: ``src``, ``dst`` and ``weight``.

    Two images are joined when either is among the ``n_neighbors`` (at least 7) nearest of the
    other, with weight exp(-4 d² / (s_u s_v)), d their distance and s the distance to the 7th
    neighbor; 100 neighbors give 112,374 edges.
    """
    u, v, weight = neighbor_edges(load_digits().data, n_neighbors)
    return pa.table({"src": _names(u), "dst": _names(v), "weight": weight.astype(np.float32)})


def neighbor_edges(
    images: FloatArray, n_neighbors: int
) -> tuple[Int64Array, Int64Array, FloatArray]:
    """Edges (u, v, weight) of the neighbor graph of a few images with integer pixels, u < v.

    Not scikit-learn's neighbors: its order of equal distances depends on the threads of the BLAS.
    Here distances are exact, and of two images equally near the first one counts.
    """
    n_images = len(images)
    square = np.einsum("ij,ij->i", images, images)
    squared = square[:, None] + square[None, :] - 2.0 * images @ images.T
    np.fill_diagonal(squared, np.inf)
    neighbor = np.argsort(squared, axis=1, kind="stable")[:, :n_neighbors]
    width = np.sqrt(squared[np.arange(n_images), neighbor[:, WIDTH_NEIGHBOR - 1]])
    u, v = np.repeat(np.arange(n_images), n_neighbors), neighbor.ravel()
    u, v = np.divmod(np.unique(np.minimum(u, v) * n_images + np.maximum(u, v)), n_images)
    return u, v, np.exp(-4.0 * squared[u, v] / (width[u] * width[v]))


def digit_labels() -> pa.Table:
    """Every image's digit: ``node`` (string) and ``label`` (int64)."""
    digits: Any = load_digits().target
    return pa.table({"node": _names(np.arange(len(digits))), "label": digits.astype(np.int64)})


def draw_labels(labels: pa.Table, per_class: int, *, seed: int) -> pa.Table:
    """Some rows of a label table, equally many of each class, drawn at random.

    Raises a ValueError where a class has fewer rows than ``per_class``.
    """
    rng = np.random.default_rng(seed)
    classes = labels["label"].to_numpy()
    drawn = []
    for value in np.unique(classes):
        rows = np.flatnonzero(classes == value)
        if len(rows) < per_class:
            raise ValueError(f"per_class must be at most {len(rows)} for {value}, got {per_class}")
        drawn.append(rng.choice(rows, per_class, replace=False))
    return labels.take(pa.array(np.sort(np.concatenate(drawn))))


def write_shuffled(edges: pa.Table, path: Path, *, seed: int) -> None:
    """Write edges in random order as a Parquet file of several row groups."""
    order = np.random.default_rng(seed).permutation(edges.num_rows)
    pq.write_table(edges.take(pa.array(order)), path, row_group_size=ROWS_PER_GROUP)


def write_pictures(directory: Path) -> None:
    """Write every image as an SVG named after its node."""
    directory.mkdir(parents=True, exist_ok=True)
    images: Any = load_digits().images
    names = _names(np.arange(len(images))).to_pylist()
    for name, image in zip(names, images, strict=True):
        (directory / f"{name}.svg").write_text(_svg(image))


def _svg(image: FloatArray) -> str:
    """White on black, one square for each pixel that is not black; pixels are 0 to 16."""
    squares = [
        f'<rect x="{x}" y="{y}" width="1" height="1" opacity="{image[y, x] / 16:.2g}"/>'
        for y, x in np.argwhere(image).tolist()
    ]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8" width="160" height="160" '
        f'shape-rendering="crispEdges"><rect width="8" height="8"/>'
        f'<g fill="#fff">{"".join(squares)}</g></svg>'
    )


def _names(numbers: Int64Array) -> pa.Array:
    return pa.array([f"digit-{number:04d}" for number in numbers.tolist()])
