"""Quadratic penalties by their inverses: in a kernel's space, or along the graph alone.

A penalty is 1/2 [norm_penalty |f|_K^2 + graph_penalty f' L f + pull |f|^2]; without a norm f is any
function on the nodes. Fits need only its inverse on a residual (G2), (G4), (G11).
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, Self

import numpy as np
import scipy.linalg as sl

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.gram.feature_spaces import FeatureMap
from peewit.solvers.gram.space_base import Expansion
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, OnStep, RunStopped, Watch, ignore_step
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.status import Status, first_failure

_SOLVER_RTOL: Final = 1e-8


class PenaltyInverse(Protocol):
    """The inverse of a penalty."""

    @property
    def pull(self) -> float:
        """Weight of |f|^2."""

    @property
    def status(self) -> Status:
        """Status of the first solve that did not converge, or converged."""

    def apply(self, residual: FloatArray) -> FloatArray:
        """argmin_f penalty(f) - <residual, f>, (n_nodes, n_columns)."""

    def functions(self, residual: FloatArray, intercept: FloatArray) -> Expansion | None:
        """What `apply` gives, plus the intercepts (n_columns,), at any point; None on a graph."""

    def with_squares(self, nodes: Int64Array, weight: float) -> Self:
        """The inverse of penalty(f) + weight / 2 |f|^2 at some nodes."""


class Smoothing(Protocol):
    """Functions that a quadratic penalty smooths, and the status of finding them."""

    @property
    def status(self) -> Status:
        """Status of the first that was not found, or converged."""

    def nearest(self, values: FloatArray) -> FloatArray:
        """argmin_f penalty(f) + pull / 2 |f - values|^2 for the pull it was made for."""

    def nearest_functions(self, values: FloatArray, intercept: FloatArray) -> Expansion:
        """What `nearest` gives, plus the intercepts (n_columns,), at any point."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpaceInverse:
    """The penalty in a space of explicit features Phi, by one Cholesky factorization.

    f = Phi A^{-1} Phi' residual with A = norm_penalty I + Phi' (graph_penalty L + pull I) Phi; for
    a factor Phi of the Gram matrix that is K (norm_penalty I + (graph_penalty L + pull I) K)^{-1}.
    """

    status: ClassVar[Status] = Status.CONVERGED

    space: FeatureMap
    matrix: FloatArray  # (n_coef, n_coef) A
    factor: Any  # Cholesky factor of A
    pull: float

    @classmethod
    def of(
        cls,
        space: FeatureMap,
        graph: Graph,
        *,
        norm_penalty: float,
        graph_penalty: float,
        pull: float,
        on_step: OnStep = ignore_step,
    ) -> Self:
        """The inverse for ``norm_penalty`` > 0, the others >= 0, with L the combinatorial one."""

        def product(block: Any) -> Any:
            smooth = pull * block
            if graph_penalty > 0:
                smooth = smooth + graph_penalty * graph.laplacian_product(block)
            return smooth

        matrix = space.penalty_matrix(product, on_step)
        matrix[np.diag_indices_from(matrix)] += norm_penalty
        return cls._factor(space, matrix, pull)

    @classmethod
    def _factor(cls, space: FeatureMap, matrix: FloatArray, pull: float) -> Self:
        factor = sl.cho_factor(matrix, check_finite=False)
        return cls(space=space, matrix=matrix, factor=factor, pull=pull)

    def apply(self, residual: FloatArray) -> FloatArray:
        """Values at the nodes."""
        return self.space.values(self._coefficients(residual))

    def functions(self, residual: FloatArray, intercept: FloatArray) -> Expansion:
        """f(x) = sum_i alpha_i k(x, x_i) + intercept of (G2a), for any x."""
        return self.space.expansion(self._coefficients(residual), intercept)

    def nearest(self, values: FloatArray) -> FloatArray:
        """argmin_f penalty(f) + pull / 2 |f - values|^2, the f-block of (G5)."""
        return self.apply(self.pull * values)

    def nearest_functions(self, values: FloatArray, intercept: FloatArray) -> Expansion:
        """`nearest` plus the intercepts, for any x."""
        return self.functions(self.pull * values, intercept)

    def _coefficients(self, residual: FloatArray) -> FloatArray:
        own = self.space.adjoint(residual)
        return np.asarray(sl.cho_solve(self.factor, own, check_finite=False))

    def with_squares(self, nodes: Int64Array, weight: float) -> Self:
        """A + weight Phi_S' Phi_S, factored."""
        some = self.space.features(nodes)
        return self._factor(self.space, self.matrix + weight * (some.T @ some), self.pull)


class GraphInverse:
    """The penalty without a norm: (graph_penalty L + diag(pull + squares))^{-1}, by solves.

    Each solve starts from the last one for as many columns. ``graph_penalty`` and ``pull`` are > 0;
    ``squares`` (n_nodes,) are weights of further squares. ``watch`` is told of solves and asked
    within them.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        graph_penalty: float,
        pull: float,
        squares: FloatArray | None = None,
        parallel: Parallel = map,
        watch: Watch = UNWATCHED,
    ) -> None:
        self.pull = pull
        self.status = Status.CONVERGED
        self._squares = np.zeros(graph.n_nodes) if squares is None else squares
        self._watch = watch
        self._parallel = parallel
        self._solver = LaplacianSolver(
            graph,
            scale=graph_penalty,
            shift=pull + self._squares,
            rtol=_SOLVER_RTOL,
            parallel=parallel,
        )
        self._last = np.zeros((graph.n_nodes, 0))

    def apply(self, residual: FloatArray) -> FloatArray:
        """Values at the nodes; raises `RunStopped` when the watch is cancelled."""
        start = self._last.copy() if self._last.shape == residual.shape else None
        solution = self._solver.solve(
            residual, start, progress=self._watch.progress, cancelled=self._watch.cancelled
        )
        if solution.status is Status.CANCELLED:
            raise RunStopped
        self.status = first_failure(self.status, solution.status)
        self._last = np.asarray(solution.x, np.float64)
        return self._last

    def functions(self, residual: FloatArray, intercept: FloatArray) -> None:
        """None: nothing off the graph is tied to it."""

    def with_squares(self, nodes: Int64Array, weight: float) -> Self:
        """The inverse with ``weight`` added to the diagonal at some nodes."""
        squares = self._squares.copy()
        squares[nodes] += weight
        return type(self)(
            self._solver.graph,
            graph_penalty=self._solver.scale,
            pull=self.pull,
            squares=squares,
            parallel=self._parallel,
            watch=self._watch,
        )
