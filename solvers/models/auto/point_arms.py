"""Arms that say what a node is like, not whom it is near: ridge regression on points of nodes.

Decision: points are made without labels. Context: all other arms say that neighbors are alike, and
lose where buyers know sellers only, or where classes are roles. Consequence: points are made once a
graph, a changed label costs a solve of their few columns, and each label is left out exactly.
"""

from typing import Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from peewit.solvers.arrays import BoolArray
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.laplacian.adjacency_spectrum import spectral_subspace
from peewit.solvers.laplacian.structural_points import fourier_points, structural_rows
from peewit.solvers.models.auto.poisson_arm import scaled
from peewit.solvers.models.auto.preparation import NodePoints, PreparedAuto
from peewit.solvers.models.auto.stacked_arm import StackedArm
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.models.linear.kernel_ridge import class_targets
from peewit.solvers.row_ranges import row_blocks

POINT_ARMS: Final = ("spectral", "structural")

_NORM_PENALTY = 1.0
_CERTAIN = 1e-6


def node_points(prepared: PreparedAuto, watch: Watch) -> dict[str, NodePoints]:
    """Points for each arm, made on first use; raises `RunStopped`."""
    if prepared.points is None:
        graph, pagerank = prepared.graph, prepared.pagerank
        prepared.points = {
            "spectral": NodePoints(rows=spectral_subspace(graph, pagerank, watch=watch).points()),
            "structural": NodePoints(rows=structural_rows(graph), of_rows=fourier_points),
        }
    return prepared.points


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
    left_out = (fitted - own[:, None] * targets) / np.maximum(1.0 - own, _CERTAIN)[:, None]
    scores = np.empty((groups.n_nodes, labels.n_classes))
    for rows in row_blocks(groups.n_nodes):
        scores[rows] = points.of_rows(points.rows[rows]) @ coef
    return scaled(scores, np.concatenate([left_out, scores[groups.stand_ins]]), reachable)
