"""Weights from features: the self-tuned graph of nearest neighbors, and ties of new points to it.

A tie of point i to its neighbor j weighs exp(-4 d_ij^2 / d_k(i)^2), d_k(i) the distance of i's
k-th neighbor: between exp(-4) and 1 in any unit of the features, so none is lost to underflow.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from solvers.arrays import BoolArray, FloatArray
from solvers.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighborhood:
    """Training points, indexed for their neighbors; build it with `of_points`.

    Attributes
    ----------
    index : sklearn.neighbors.NearestNeighbors
        Of the training points, Euclidean.
    """

    index: Any

    @classmethod
    def of_points(cls, points: Any, n_neighbors: int) -> "Neighborhood":
        """Neighborhood of ``points``, (n_points, n_features) dense or scipy sparse.

        Raises
        ------
        ValueError
            ``n_neighbors`` is not below the number of points.
        """
        if n_neighbors >= points.shape[0]:
            raise ValueError(
                f"n_neighbors must be below the number of samples, got {n_neighbors} neighbors "
                f"for {points.shape[0]} samples"
            )
        return cls(index=NearestNeighbors(n_neighbors=n_neighbors).fit(points))

    def graph(self) -> Graph:
        """The graph of the training points: (W + W^T) / 2, where W holds every point's ties.

        References
        ----------
        Calder, Cook, Thorpe and Slepcev, ICML 2020, section 4 (there a point counts as its own
        first neighbor; here it does not count).
        """
        distances, neighbors = self.index.kneighbors()
        rows = np.repeat(np.arange(neighbors.shape[0]), neighbors.shape[1])
        half = _ties(distances).ravel() / 2
        return Graph.from_edges(rows, neighbors.ravel(), half, n_nodes=neighbors.shape[0])

    def extend(
        self, points: Any, values: FloatArray, known: BoolArray
    ) -> tuple[FloatArray, BoolArray]:
        """Harmonic extension of ``values`` to new points: the mean of the neighbors', by tie.

        Parameters
        ----------
        points : (n_new, n_features)
            Dense or scipy sparse.
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
        distances, neighbors = self.index.kneighbors(points)
        lends = known[neighbors]
        reached = lends.any(axis=1)
        weight = _ties(distances) * (lends | ~reached[:, None])
        weight /= weight.sum(axis=1, keepdims=True)
        n_new, n_neighbors = neighbors.shape
        indptr = np.arange(n_new + 1) * n_neighbors
        ties = sp.csr_array(
            (weight.ravel(), neighbors.ravel(), indptr), shape=(n_new, values.shape[0])
        )
        return ties @ values, reached


def _ties(distances: FloatArray) -> FloatArray:
    """Weights of rows of increasing distances; 1 where all are 0."""
    farthest = distances[:, -1:]
    relative = np.divide(distances, farthest, out=np.zeros(distances.shape), where=farthest > 0)
    weight: FloatArray = np.exp(-4 * relative**2)
    return weight
