"""Features as a graph: the self-tuned graph of nearest neighbors, and ties of new points to it.

A tie of point i to its neighbor j weighs exp(-4 d_ij^2 / d_k(i)^2), d_k(i) the distance of i's
k-th neighbor: between exp(-4) and 1 in any unit of the features, so none is lost to underflow.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.neighbors.neighbor_graph import TieRule, neighbor_graph, tie_weights
from peewit.solvers.neighbors.neighbor_lists import metric_rows, nearest, require_neighbors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighborhood:
    """Training points, ready to be searched for neighbors; build it with `of_points`.

    Attributes
    ----------
    points : (n_points, n_features) array or scipy.sparse.csr_array
        The training points.
    n_neighbors : int
        Neighbors of each point.
    """

    points: Any
    n_neighbors: int

    @classmethod
    def of_points(cls, points: Any, n_neighbors: int) -> "Neighborhood":
        """Neighborhood of ``points``, (n_points, n_features) dense or scipy sparse."""
        require_neighbors(n_neighbors, points.shape[0])
        return cls(points=metric_rows(points, "euclidean"), n_neighbors=n_neighbors)

    def graph(self) -> Graph:
        """The graph of the training points; see `neighbor_graph`."""
        return neighbor_graph(self.points, self.n_neighbors)

    def extend(
        self, points: Any, values: FloatArray, known: BoolArray
    ) -> tuple[FloatArray, BoolArray]:
        """Harmonic extension of ``values`` to new points: the mean of the neighbors', by tie.

        Parameters
        ----------
        points : (n_new, n_features)
            Dense or scipy sparse, as the training points are.
        values : (n_points, k) float64
            Of the training points.
        known : (n_points,) bool
            Points that lend their values; where a new point has no such neighbor, all lend.

        Returns
        -------
        extended : (n_new, k) float64
        reached : (n_new,) bool
            Whether one of the neighbors is known.
        """
        new = metric_rows(self._as_training(points), "euclidean")
        neighbors, distances = nearest(new, self.points, self.n_neighbors)
        lends = known[neighbors]
        reached: BoolArray = np.asarray(lends.any(axis=1))
        weight = tie_weights(distances, TieRule(), distances[:, -1:]) * (lends | ~reached[:, None])
        weight /= weight.sum(axis=1, keepdims=True)
        n_new, n_neighbors = neighbors.shape
        indptr = np.arange(n_new + 1) * n_neighbors
        ties = sp.csr_array(
            (weight.ravel(), neighbors.ravel(), indptr), shape=(n_new, values.shape[0])
        )
        return ties @ values, reached

    def _as_training(self, points: Any) -> Any:
        """New points as sparse or dense as the training points."""
        if sp.issparse(self.points):
            return sp.csr_array(points)
        return points.toarray() if sp.issparse(points) else points
