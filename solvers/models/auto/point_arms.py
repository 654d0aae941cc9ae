"""Arms that say what a node is like, not whom it is near: ridge regression on points of nodes.

Decision: points are made without labels. Context: all other arms say that neighbors are alike, and
lose where buyers know sellers only, or where classes are roles. Consequence: points are made once a
graph, a changed label costs a solve of their few columns, and each label is left out exactly.
"""

from typing import Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from peewit.solvers.arrays import BoolArray, Float32Array
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.laplacian.adjacency_spectrum import (
    WIDTH,
    multiplied,
    regularized,
    spectral_subspace,
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
"""Passes that points of all edges take, beside that for degrees."""

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
    degree, scale = degrees.weight, regularized(degrees.weight)[:, None]
    own = log_degrees(degree, int(degrees.n_edges.sum()))
    subspace = spectral_subspace(prepared.graph, prepared.pagerank, watch=watch)
    beside, sums = first_columns(own), []

    def multiply(block: Float32Array) -> Float32Array:
        columns = np.concatenate([scale * block, beside], axis=1)
        adjacent = degree[:, None] * columns - product(columns)
        sums.append(neighbor_means(adjacent[:, block.shape[1] :], degree))
        return np.asarray(scale * adjacent[:, : block.shape[1]], np.float32)

    subspace = multiplied(subspace, multiply)
    near, squares = np.transpose(sums[0])
    beside = near[:, None]
    watch.check()
    subspace = multiplied(subspace, multiply)
    roles = standardized(own, near, squares, sums[1][:, 0])
    return points_of(np.concatenate([subspace.points(), roles], axis=1))


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
