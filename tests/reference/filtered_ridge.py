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
    """Rows of length 1 after their mean is subtracted."""
    rows = np.array(features.toarray() if sp.issparse(features) else features, np.float64)
    rows -= rows.mean(axis=0)
    lengths = np.linalg.norm(rows, axis=1)
    return rows / np.where(lengths > 0, lengths, 1.0)[:, None]


@dataclass(frozen=True, kw_only=True)
class DenseRidge:
    """min |H V / sqrt(s) - T|^2 + norm_penalty |V|^2 for the labeled rows H of ``points``.

    Beside each row H / sqrt(s) stands the root of ``constant``.
    """

    points: np.ndarray
    nodes: np.ndarray
    targets: np.ndarray
    norm_penalty: float
    constant: float = 0.03

    @property
    def rows(self) -> np.ndarray:
        scale = np.square(self.points[self.nodes]).sum() / len(self.nodes)
        return np.hstack(
            [self.points / np.sqrt(scale), np.full((len(self.points), 1), np.sqrt(self.constant))]
        )

    def scores(self, without: np.ndarray | None = None) -> np.ndarray:
        """Those of all nodes, of a fit without some labels; targets and scale as with them."""
        kept = np.setdiff1d(np.arange(len(self.nodes)), [] if without is None else without)
        rows = self.rows[self.nodes[kept]]
        system = rows.T @ rows + self.norm_penalty * np.eye(rows.shape[1])
        return self.rows @ np.linalg.solve(system, rows.T @ self.targets[kept])

    def left_out(self, fold: np.ndarray) -> np.ndarray:
        """The row of each label by the fit without its fold; -1 is a fold of its own for each."""
        values = np.empty(self.targets.shape)
        for row, number in enumerate(fold):
            without = np.flatnonzero(fold == number) if number >= 0 else np.array([row])
            values[row] = self.scores(without)[self.nodes[row]]
        return values


def targets_of(classes: np.ndarray) -> np.ndarray:
    """1 / sqrt(labels of the class) in its column."""
    one_hot = (classes[:, None] == np.unique(classes)).astype(np.float64)
    return one_hot / np.sqrt(one_hot.sum(axis=0))
