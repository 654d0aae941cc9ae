"""Filtered ridge written out densely, in the primal: all features of all nodes (section K.1)."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


def pagerank(adjacency: np.ndarray, teleport: float) -> np.ndarray:
    """P = a (1 - (1 - a) S)^-1 with self-loops of each row's mean weight, or of 1."""
    counts = (adjacency > 0).sum(axis=1)
    loops = np.where(counts > 0, adjacency.sum(axis=1) / np.maximum(counts, 1), 1.0)
    looped = adjacency + np.diag(loops)
    degree = looped.sum(axis=1)
    similarity = looped / np.sqrt(np.outer(degree, degree))
    return teleport * np.linalg.inv(np.eye(len(looped)) - (1 - teleport) * similarity)


def unit_rows(features) -> np.ndarray:
    """Rows of length 1, dense ones after their mean is subtracted."""
    rows = np.array(features.toarray() if sp.issparse(features) else features, np.float64)
    if not sp.issparse(features):
        rows -= rows.mean(axis=0)
    lengths = np.linalg.norm(rows, axis=1)
    return rows / np.where(lengths > 0, lengths, 1.0)[:, None]


@dataclass(frozen=True, kw_only=True)
class DenseRidge:
    """min |H V / sqrt(s) - T|^2 + norm_penalty |V|^2 for the labeled rows H of ``points``."""

    points: np.ndarray
    nodes: np.ndarray
    targets: np.ndarray
    norm_penalty: float

    @property
    def scale(self) -> float:
        return float(np.square(self.points[self.nodes]).sum() / len(self.nodes))

    def scores(self, without: int | None = None) -> np.ndarray:
        """Those of all nodes, of a fit without one of the labels; targets and scale as with it."""
        kept = np.array([row for row in range(len(self.nodes)) if row != without])
        rows = self.points[self.nodes[kept]] / np.sqrt(self.scale)
        system = rows.T @ rows + self.norm_penalty * np.eye(rows.shape[1])
        weights = np.linalg.solve(system, rows.T @ self.targets[kept])
        return self.points @ weights / np.sqrt(self.scale)

    def left_out(self) -> np.ndarray:
        """The row of each label by the fit to the others."""
        return np.array([self.scores(row)[node] for row, node in enumerate(self.nodes)])


def targets_of(classes: np.ndarray) -> np.ndarray:
    """1 / sqrt(labels of the class) in its column."""
    one_hot = (classes[:, None] == np.unique(classes)).astype(np.float64)
    return one_hot / np.sqrt(one_hot.sum(axis=0))
