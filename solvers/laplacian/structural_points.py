"""What role a node has in a graph, whoever its neighbors are: by degrees near it."""

from typing import Final

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray
from peewit.solvers.graph import Graph

N_ROWS: Final = 4
N_WAVES: Final = 48
"""Directions of random Fourier features, each with a cosine and a sine."""

_FLAT: Final = 1e-6
"""Deviation of a column that is but rounding."""


def structural_rows(graph: Graph) -> Float32Array:
    """(n_nodes, 4) log degree, mean and spread of the neighbors', and mean two steps away (K22).

    Degrees are in units of the mean weight of an edge; a neighbor counts by the weight of its edge.
    Columns are standardized.
    """
    degree, adjacency = np.asarray(graph.degree), graph.adjacency
    if adjacency.nnz == 0:
        return np.zeros((graph.n_nodes, N_ROWS), np.float32)
    own = log_degrees(degree, adjacency.nnz)
    near, squares = np.transpose(neighbor_means(adjacency @ first_columns(own), degree))
    further = neighbor_means(adjacency @ near[:, None], degree)[:, 0]
    return standardized(own, near, squares, further)


def log_degrees(degree: FloatArray, n_entries: int) -> FloatArray:
    """(n_nodes,) of mean 0; ``n_entries`` counts each edge at both ends."""
    own = np.log1p(degree * n_entries / degree.sum())
    return np.asarray(own - own.mean())


def first_columns(own: FloatArray) -> FloatArray:
    """(n_nodes, 2) log degrees and their squares, of which neighbors' means are taken first."""
    return np.stack([own, np.square(own)], axis=1)


def neighbor_means(sums: FloatArray, degree: FloatArray) -> FloatArray:
    """(n_nodes, k) D^-1 of sums over neighbors; 0 without a neighbor."""
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    return np.asarray(inverse[:, None] * sums)


def standardized(
    own: FloatArray, near: FloatArray, squares: FloatArray, further: FloatArray
) -> Float32Array:
    """(n_nodes, 4) rows of log degrees, their means and mean squares nearby, and means further."""
    spread = np.sqrt(np.maximum(squares - np.square(near), 0.0))
    rows = np.stack([own, near, spread, further], axis=1)
    rows -= rows.mean(axis=0)
    size = rows.std(axis=0)
    rows /= np.where(size > _FLAT, size, 1.0)
    return rows.astype(np.float32)


def fourier_points(rows: Float32Array) -> Float32Array:
    """(n_rows, 96) points whose inner products are about those of a Gaussian kernel (K22).

    Rahimi and Recht (2007), Random features for large-scale kernel machines.
    """
    n_columns = rows.shape[1]
    draws = np.random.default_rng(1).standard_normal((n_columns, N_WAVES)) / np.sqrt(n_columns)
    waves = rows @ draws.astype(np.float32)
    points = np.concatenate([np.cos(waves), np.sin(waves)], axis=1)
    points /= np.float32(np.sqrt(N_WAVES))
    return points
