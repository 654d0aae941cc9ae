"""EigFun: labels fitted by numerical eigenfunctions of each principal direction."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.basis_model import Basis, BasisModel
from peewit.solvers.models.contract.point_model import Stats

_EMPTY_BIN = 0.01
"""Added to the share of every bin before scaling: "a small constant" in the paper."""
_CLIPPED_SHARE = 0.025
_AUTO_WIDTH = 0.2
_FLAT = 1e-8
_COVARIANCE_COLUMNS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EigFun(BasisModel):
    """Eigenfunctions of Fergus, Weiss and Torralba (2009) (section D.5).

    The points are rotated by PCA; along each principal direction the density is a histogram, and
    the smoothest eigenfunctions of its Laplacian are found on the bins and interpolated. The
    smoothest of all directions together fit the labels; rough ones are penalized.

    Points are the features, or the spectral embedding of the graph where there are none. Class
    scores around the label means, not probabilities.
    """

    n_dimensions: int = hyperparameter(
        32,
        Rule(
            doc="Principal directions used; without features also the dimensions of the graph's "
            "spectral embedding.",
            kind=int,
            minimum=1,
        ),
    )
    n_functions: int = hyperparameter(
        50, Rule(doc="Smoothest eigenfunctions used.", kind=int, minimum=1)
    )
    n_bins: int = hyperparameter(
        50, Rule(doc="Bins of the histogram along a direction.", kind=int, minimum=3)
    )
    width: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Width of the Gaussian affinity between bins; 'auto' is a fifth of the standard "
            "deviation along the first direction.",
            above=0.0,
            words=("auto",),
        ),
    )
    label_weight: float = hyperparameter(
        100.0, Rule(doc="Weight of a label against smoothness.", above=0.0)
    )

    def _basis_size(self, labels: Labels) -> int:  # noqa: ARG002 - any labels take as many
        return self.n_functions

    def _basis(self, points: Any, n_functions: int, watch: Watch) -> Basis:
        watch.step("principal directions", 0, 1)
        rotated = principal_coordinates(points, self.n_dimensions)
        spread = rotated.std(axis=0)
        rotated = rotated[:, spread > _FLAT * spread.max()]
        n_nodes, n_directions = rotated.shape
        if n_directions == 0:
            return Basis(functions=np.zeros((n_nodes, 0)), eigenvalues=np.zeros(0), stats={})
        width = _AUTO_WIDTH * float(spread.max()) if self.width == "auto" else self.width
        along = []
        for direction in range(n_directions):
            watch.step("eigenfunctions", direction, n_directions)
            along.append(bin_eigenfunctions(rotated[:, direction], self.n_bins, width))
        roughness = np.concatenate([values for values, _, _ in along])
        chosen = np.argsort(roughness, kind="stable")[:n_functions]
        functions = np.empty((n_nodes, chosen.size))
        for column, (direction, number) in enumerate(
            zip(*divmod(chosen, self.n_bins - 1), strict=True)
        ):
            _, on_bins, centers = along[direction]
            functions[:, column] = np.interp(rotated[:, direction], centers, on_bins[:, number])
        norms = np.linalg.norm(functions, axis=0)
        functions /= np.where(norms > 0, norms, 1.0)
        watch.step("eigenfunctions", n_directions, n_directions)
        return Basis(
            functions=functions,
            eigenvalues=roughness[chosen],
            stats={"width": width, "n_directions": n_directions, "n_functions": chosen.size},
        )

    def _fit(
        self,
        basis: Basis,
        labels: Labels,
        centered: FloatArray,
        stats: Stats,  # noqa: ARG002 - nothing is chosen here
    ) -> FloatArray:
        known = basis.functions[labels.nodes]
        matrix = np.diag(basis.eigenvalues) + self.label_weight * known.T @ known  # section D.5
        coefficients = np.linalg.solve(matrix, self.label_weight * known.T @ centered)
        return basis.functions @ coefficients


def principal_coordinates(points: Any, n_dimensions: int) -> FloatArray:
    """Centered ``points``, dense or CSR, along their leading principal directions."""
    largest, least = points.max(axis=0), points.min(axis=0)
    if sp.issparse(points):
        largest, least = largest.toarray(), least.toarray()
    if np.array_equal(largest, least):
        return np.zeros((points.shape[0], 1))
    n_rows, n_columns = points.shape
    n_axes = min(n_dimensions, n_rows, n_columns)
    if sp.issparse(points) and n_axes >= min(n_rows, n_columns):
        points = points.toarray()
    if sp.issparse(points) or (n_columns > _COVARIANCE_COLUMNS and n_axes < min(n_rows, n_columns)):
        method = "arpack"
    else:
        method = "covariance_eigh" if n_columns <= _COVARIANCE_COLUMNS else "full"
    from sklearn.decomposition import PCA  # noqa: PLC0415 - slow, see peewit.solvers.neighbors.distances

    pca = PCA(n_components=n_axes, svd_solver=method, random_state=0)
    return np.asarray(pca.fit_transform(points), dtype=np.float64)


def bin_eigenfunctions(
    values: FloatArray, n_bins: int, width: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Eigenfunctions of one direction on the bins of its histogram, without the constant.

    Parameters
    ----------
    values : (n_nodes,) floats
        Coordinates; those outside the middle 95 % count in the outermost bins.
    width : float
        Of the Gaussian affinity between bin centers.

    Returns
    -------
    (n_bins - 1,) float64
        Eigenvalues, rising, in [0, 2].
    (n_bins, n_bins - 1) float64
        Eigenfunctions at the centers.
    (n_bins,) float64
        The centers.

    Notes
    -----
    Solves (D - P W P) g = sigma P E g with P = diag(share of each bin), W the affinity, D the row
    sums of P W P and E the column sums of P W, so that P E = D: a normalized Laplacian (section
    D.5).
    """
    lowest, highest = np.quantile(values, [_CLIPPED_SHARE, 1.0 - _CLIPPED_SHARE])
    if not highest > lowest:
        lowest, highest = float(values.min()), float(values.max())
    counts, edges = np.histogram(np.clip(values, lowest, highest), n_bins, (lowest, highest))
    share = counts / values.size + _EMPTY_BIN
    share /= share.sum()
    centers = (edges[:-1] + edges[1:]) / 2.0
    affinity = np.exp(-0.5 * np.square((centers[:, None] - centers) / width))
    joint = share[:, None] * affinity * share  # P W P
    degree = joint.sum(axis=1)  # D = P E
    roughness, functions = scipy.linalg.eigh(np.diag(degree) - joint, np.diag(degree))
    return np.maximum(roughness[1:], 0.0), functions[:, 1:], centers
