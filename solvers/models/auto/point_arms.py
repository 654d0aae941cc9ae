"""Arms that say what a node is like, not whom it is near: ridge regression on points of nodes.

Decision: points are made without labels. Context: all other arms say that neighbors are alike, and
lose where buyers know sellers only, or where classes are roles. Consequence: points are made once a
graph, a changed label costs a solve of their few columns, and each label is left out exactly.
"""

from typing import Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.laplacian.adjacency_spectrum import (
    MOST_PRODUCTS,
    WIDTH,
    multiplied,
    regularized,
    spectral_subspace,
    subspace_by_products,
)
from peewit.solvers.laplacian.structural_points import (
    N_ROWS,
    first_columns,
    fourier_points,
    log_degrees,
    neighbor_means,
    standardized,
    structural_rows,
)
from peewit.solvers.laplacian.unsparsified_system import FullDegrees, Product
from peewit.solvers.models.auto.poisson_arm import scaled
from peewit.solvers.models.auto.preparation import NodePoints, PreparedAuto
from peewit.solvers.models.auto.stacked_arm import StackedArm
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.models.linear.kernel_ridge import class_targets

FULL_COLUMNS: Final = WIDTH + 2
"""Most columns of a pass over all edges."""

N_PASSES: Final = 2
"""Passes that points from those of the edges kept take, and roles, beside that for degrees."""

MOST_POINT_PASSES: Final = MOST_PRODUCTS
"""Most passes that points of all edges take, whatever is kept of them."""

POINT_ARMS: Final = ("spectral", "structural")

_BLOCK_ROWS: Final = 1 << 12
"""Nodes whose points of roles are there at a time."""

_NORM_PENALTY: Final = 1.0
"""lambda of (K23)."""


def node_points(prepared: PreparedAuto, watch: Watch) -> dict[str, NodePoints]:
    """Points for each arm, made on first use; raises `RunStopped`."""
    if prepared.points is None:
        graph = prepared.graph
        subspace = spectral_subspace(graph, prepared.pagerank, watch=watch)
        rows = np.concatenate([subspace.points(), structural_rows(graph)], axis=1)
        prepared.points = points_of(rows)
    return prepared.points


def points_of(rows: Float32Array) -> dict[str, NodePoints]:
    """Points for each arm by their rows, those of roles last."""
    return {
        "spectral": NodePoints(rows=rows[:, :-N_ROWS]),
        "structural": NodePoints(rows=rows[:, -N_ROWS:], of_rows=fourier_points),
    }


def points_by_passes(
    prepared: PreparedAuto, product: Product, degrees: FullDegrees, watch: Watch
) -> dict[str, NodePoints]:
    """Points of a graph of which only a sparsifier is stored, from those of the sparsifier (K21).

    Two passes, of `FULL_COLUMNS` columns at most, take two steps of the iteration on all edges.
    Raises `RunStopped`.

    Parameters
    ----------
    product : callable
        The Laplacian of the full graph times a block, one pass over its edges.
    """
    sums = _NeighborSums(product, degrees)
    subspace = spectral_subspace(prepared.graph, prepared.pagerank, watch=watch)
    for _ in range(N_PASSES):
        watch.check()
        subspace = multiplied(subspace, sums)
    return points_of(np.concatenate([subspace.points(), sums.roles()], axis=1))


def points_of_all_edges(
    product: Product, degrees: FullDegrees, watch: Watch
) -> dict[str, NodePoints]:
    """The points that a graph has whose edges are all stored, by passes over them.

    These are `MOST_POINT_PASSES` at most. Raises `RunStopped`.
    """
    sums = _NeighborSums(product, degrees)
    subspace = subspace_by_products(len(degrees.weight), sums, watch=watch)
    while sums.n_products < N_PASSES:  # roles take two, small graphs of few rounds take fewer
        watch.check()
        sums.of_degrees_alone()
    return points_of(np.concatenate([subspace.points(), sums.roles()], axis=1))


class _NeighborSums:
    """Products with S of all edges (K21), of which the first two also sum degrees (K22)."""

    def __init__(self, product: Product, degrees: FullDegrees) -> None:
        self.n_products = 0
        self._product = product
        self._degree = degrees.weight
        self._scale = regularized(degrees.weight)[:, None]
        self._own = log_degrees(degrees.weight, int(degrees.n_edges.sum()))
        self._sums: list[FloatArray] = []

    def __call__(self, block: Float32Array) -> Float32Array:
        """S times ``block``: one pass."""
        beside = np.empty((len(block), 0))
        if self.n_products == 0:
            beside = first_columns(self._own)
        elif self.n_products == 1:
            beside = self._sums[0][:, :1]
        self.n_products += 1
        columns = np.concatenate([self._scale * block, beside], axis=1)
        adjacent = self._degree[:, None] * columns - self._product(columns)
        n_columns = block.shape[1]
        if beside.shape[1]:
            self._sums.append(neighbor_means(adjacent[:, n_columns:], self._degree))
        return np.asarray(self._scale * adjacent[:, :n_columns], np.float32)

    def of_degrees_alone(self) -> None:
        """A pass that sums degrees, beside no block."""
        self(np.empty((len(self._degree), 0), np.float32))

    def roles(self) -> Float32Array:
        """Rows of roles, once two products were made."""
        near, squares = self._sums[0].T
        return standardized(self._own, near, squares, self._sums[1][:, 0])


def point_arm(points: NodePoints, groups: LabelGroups, reachable: BoolArray) -> StackedArm:
    """Ridge from points to classes, each label left out alone, in closed form (K23)."""
    labels = groups.labels
    of_labels = points.of_rows(points.rows[labels.nodes]).astype(np.float64)
    targets = class_targets(labels)
    targets -= targets.mean(axis=1, keepdims=True)
    size = float(np.square(of_labels).sum()) / labels.n_labeled or 1.0
    system = of_labels.T @ of_labels / size + _NORM_PENALTY * np.eye(of_labels.shape[1])
    factor = cho_factor(system)
    coef = cho_solve(factor, of_labels.T @ targets / size)
    fitted = of_labels @ coef
    own = np.einsum("ij,ji->i", of_labels, cho_solve(factor, of_labels.T / size))
    left_out = (fitted - own[:, None] * targets) / (1.0 - own)[:, None]
    scores = np.empty((groups.n_nodes, labels.n_classes))
    for start in range(0, groups.n_nodes, _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        scores[rows] = points.of_rows(points.rows[rows]) @ coef
    return scaled(scores, np.concatenate([left_out, scores[groups.stand_ins]]), reachable)
