"""Simple-HFS (SSSL): labels fitted by the leading eigenvectors of a Gaussian kernel."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.basis_model import Basis, BasisModel
from peewit.solvers.models.contract.point_model import Stats
from peewit.solvers.neighbors.distances import (
    distance_blocks,
    euclidean_distances,
    nearest_rows,
    positive_median,
)

_MOST_FUNCTIONS = 200
_LABELS_PER_FUNCTION = 5
_WIDTH_NEIGHBOR = 7
_WIDTH_FACTOR = 2.0
_WIDTH_ROWS = 1_000
_RIDGE = 1e-8
_LEAST_SHARE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleHFS(BasisModel):
    """The simple algorithm of Ji, Yang, Lin, Jin and Han (2012) (section D.5).

    The leading eigenvectors of the Gaussian kernel exp(-d^2 / (2 s^2)) on all points fit the
    labels by least squares. Up to ``n_landmarks`` points the eigenvectors are exact; above they
    are those of the Nystrom approximation on that many random points.

    Points are the features, or the spectral embedding of the graph where there are none. Class
    scores around the label means, not probabilities.
    """

    n_dimensions: int = hyperparameter(
        32,
        Rule(
            doc="Dimensions of the graph's spectral embedding; used without features.",
            kind=int,
            minimum=1,
        ),
    )
    n_functions: int | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Leading eigenvectors used; 'auto' takes one for five labels, at least two for "
            "each class and at most 200.",
            kind=int,
            minimum=1,
            words=("auto",),
        ),
    )
    width: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Width s of the Gaussian kernel; 'auto' is twice the median distance to the 7th "
            "nearest point.",
            above=0.0,
            words=("auto",),
        ),
    )
    n_landmarks: int = hyperparameter(
        1_000, Rule(doc="Points that the kernel is approximated on.", kind=int, minimum=1)
    )
    seed: int = hyperparameter(
        0,
        Rule(
            doc="Draws the landmarks and the points whose width is measured.", kind=int, minimum=0
        ),
    )

    def _n_used(self, labels: Labels) -> int:
        """Eigenvectors that fit these labels."""
        if self.n_functions != "auto":
            return self.n_functions
        wanted = max(2 * labels.n_classes, labels.n_labeled // _LABELS_PER_FUNCTION)
        return min(wanted, _MOST_FUNCTIONS)

    def _basis_size(self, labels: Labels) -> int:
        """As many as used; 'auto' rounds up to powers of two: a new label is no new basis."""
        used = self._n_used(labels)
        return used if self.n_functions != "auto" else 1 << (used - 1).bit_length()

    def _basis(self, points: Any, n_functions: int, watch: Watch) -> Basis:
        rng = np.random.default_rng(self.seed)
        width = neighbor_width(points, rng, watch) if self.width == "auto" else self.width
        size = min(self.n_landmarks, points.shape[0])
        landmarks = np.sort(rng.choice(points.shape[0], size, replace=False))
        values, functions = kernel_eigenvectors(points, landmarks, width, n_functions, watch)
        return Basis(
            functions=functions, eigenvalues=values, stats={"width": width, "n_landmarks": size}
        )

    def _fit(self, basis: Basis, labels: Labels, centered: FloatArray, stats: Stats) -> FloatArray:
        functions = basis.functions[:, : self._n_used(labels)]
        stats["n_functions"] = functions.shape[1]
        known = functions[labels.nodes]
        gram = known.T @ known
        ridge = _RIDGE * max(float(np.trace(gram)), np.finfo(np.float64).tiny)
        matrix = gram + ridge * np.eye(gram.shape[0])
        return functions @ np.linalg.solve(matrix, known.T @ centered)


def neighbor_width(points: Any, rng: np.random.Generator, watch: Watch) -> float:
    """Twice the median distance to the 7th nearest other point, of at most 1,000 random points."""
    n_points = points.shape[0]
    sample = np.sort(rng.choice(n_points, min(_WIDTH_ROWS, n_points), replace=False))
    k = min(_WIDTH_NEIGHBOR + 1, n_points)
    _, far = nearest_rows(points[sample], points, k, watch, "kernel width")
    return _WIDTH_FACTOR * positive_median(far[:, -1])


def kernel_eigenvectors(
    points: Any, landmarks: Any, width: float, n_functions: int, watch: Watch
) -> tuple[FloatArray, FloatArray]:
    """Leading eigenpairs of C W^+ C^T, C the kernel between all points and the landmarks.

    Returns
    -------
    (n,) float64, (n_points, n) float64
        Eigenvalues, falling, and orthonormal eigenvectors; n <= ``n_functions``, fewer where the
        kernel has a lower rank.

    Notes
    -----
    W = V S V^T is the kernel of the landmarks and F = C V S^{-1/2}; with F^T F = E T E^T the
    eigenvectors are F E T^{-1/2}. With every point a landmark they are those of the kernel. Rows
    of C are made twice and never kept.
    """
    others = points[landmarks]
    inner, rotation = np.linalg.eigh(_kernel(euclidean_distances(others), width))
    is_kept = inner > _LEAST_SHARE * inner[-1]
    to_features = rotation[:, is_kept] / np.sqrt(inner[is_kept])
    gram = np.zeros((to_features.shape[1], to_features.shape[1]))
    for _, distance in distance_blocks(points, others, watch, "kernel"):
        rows = _kernel(distance, width) @ to_features
        gram += rows.T @ rows
    values, turned = np.linalg.eigh(gram)
    order = np.argsort(values)[::-1][:n_functions]
    order = order[values[order] > _LEAST_SHARE * values[-1]]
    to_vectors = to_features @ (turned[:, order] / np.sqrt(values[order]))
    vectors = np.empty((points.shape[0], order.size))
    for place, distance in distance_blocks(points, others, watch, "eigenvectors"):
        vectors[place] = _kernel(distance, width) @ to_vectors
    return values[order], vectors


def _kernel(distance: FloatArray, width: float) -> FloatArray:
    """exp(-d^2 / (2 s^2))."""
    return np.exp(-0.5 * np.square(distance / width))
