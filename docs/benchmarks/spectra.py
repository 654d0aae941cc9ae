"""Exact extremes of a sparsifier against its graph: how good it truly is."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.status import Status

_DENSE_NODES = 1_200
_MAX_STEPS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Extremes:
    """Least and greatest quotient x'Hx / x'Gx over x that are not constant on components."""

    lowest: float
    highest: float

    @property
    def kappa(self) -> float:
        """Relative condition number, infinite where the sparsifier has come apart."""
        return self.highest / self.lowest if self.lowest > 0.0 else float("inf")

    @property
    def epsilon(self) -> float:
        """Smallest epsilon of (B1)."""
        return max(1.0 - self.lowest, self.highest - 1.0)


def extremes(graph: Graph, sparsifier: Graph, *, rtol: float = 1e-2) -> Extremes:
    """Extreme generalized eigenvalues, of relative error at most ``rtol``, ``rtol**2`` as a rule.

    Dense up to 1,200 nodes; else Lanczos on H^+ G in the inner product of H, every vector
    orthogonal to all before it, until both residuals are below ``rtol``. Where the sparsifier has
    more components than the graph the lowest is zero, and the highest is not looked for (NaN).
    """
    if sparsifier.component.max() > graph.component.max():
        return Extremes(lowest=0.0, highest=float("nan"))
    if graph.n_nodes <= _DENSE_NODES:
        return _dense(graph, sparsifier)
    return _lanczos(graph, sparsifier, rtol)


def _dense(graph: Graph, sparsifier: Graph) -> Extremes:
    """One node of every component grounded: the same quotients, and definite matrices."""
    _, grounded = np.unique(graph.component, return_index=True)
    free = np.setdiff1d(np.arange(graph.n_nodes), grounded)
    corner = np.ix_(free, free)
    exact = graph.laplacian().toarray()[corner]
    eigenvalues = scipy.linalg.eigh(
        sparsifier.laplacian().toarray()[corner], exact, eigvals_only=True
    )
    return Extremes(lowest=float(eigenvalues[0]), highest=float(eigenvalues[-1]))


def _lanczos(graph: Graph, sparsifier: Graph, rtol: float) -> Extremes:
    solver = LaplacianSolver(sparsifier, rtol=1e-7)

    def solve(rhs: FloatArray) -> FloatArray:
        solution = solver.solve(rhs, project=True)
        if solution.status is not Status.CONVERGED:
            raise RuntimeError(f"the sparsifier's equations were not solved: {solution.status}")
        return np.asarray(solution.x)

    def product(of: Graph, vector: FloatArray) -> FloatArray:
        return of.laplacian_product(vector[:, None])[:, 0]

    rng = np.random.default_rng(0)
    vector = solve(product(graph, rng.normal(size=graph.n_nodes)))
    basis = np.empty((_MAX_STEPS, graph.n_nodes))
    images = np.empty((_MAX_STEPS, graph.n_nodes))
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(_MAX_STEPS):
        image = product(sparsifier, vector)
        length = np.sqrt(vector @ image)
        beside.append(length)
        basis[step], images[step] = vector / length, image / length
        through = product(graph, basis[step])
        diagonal.append(float(basis[step] @ through))
        vector = solve(through)
        for _ in range(2):
            vector -= (images[: step + 1] @ vector) @ basis[: step + 1]
            vector -= _means(graph, vector)
        remaining = np.sqrt(max(vector @ product(sparsifier, vector), 0.0))
        ritz, ends = scipy.linalg.eigh_tridiagonal(diagonal, beside[1:])
        residual = remaining * np.abs(ends[-1, [0, -1]])
        if step > 8 and np.all(residual <= rtol * ritz[[0, -1]]):
            return Extremes(lowest=float(1.0 / ritz[-1]), highest=float(1.0 / ritz[0]))
    raise RuntimeError(f"no convergence in {_MAX_STEPS} Lanczos steps: {residual}")


def _means(graph: Graph, vector: FloatArray) -> FloatArray:
    """Component means, which the inner product of H does not see and rounding feeds."""
    means = np.bincount(graph.component, vector) / np.bincount(graph.component)
    return np.asarray(means[graph.component])
