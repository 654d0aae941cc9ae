"""The problem reduced to the labeled nodes: their kernel once the graph penalty is eliminated.

Whatever the loss, the minimum has coef = (norm_penalty I + graph_penalty L^p K)^{-1} J' c, where c
holds minus the slopes of the losses at the labeled nodes (E13). The labeled values are then J K
coef = kernel c, and one factorization serves every class and every change of a label.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

import numpy as np
import scipy.linalg as sl

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray
from peewit.solvers.gram.feature_spaces import FeatureMap, symmetric
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.gram.space_base import Space
from peewit.solvers.iteration_loop import OnStep, ignore_step
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.svm.regularized_problem import BiasName

_CHUNK_COLUMNS: Final = 256
_PRODUCT_ROWS: Final = 512
_MAX_REFINEMENTS: Final = 60
_REFINED: Final = 1e-12
"""Relative change of the values below which no further refinement is made."""
_ACCEPTED: Final = 1e-8
"""Relative change of the values by the last refinement that still counts as accurate."""
_ROUNDED: Final = 1e-3
"""Relative error of the values that rounding to float32 may leave."""
_FLAT: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabeledProblem:
    """The problem on the labeled nodes alone."""

    kernel: FloatArray  # (n_labeled, n_labeled) symmetric; includes a penalized intercept
    has_free_bias: bool  # then c sums to 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabeledSystem(LabeledProblem):
    """The problem on the labeled nodes, and its solution extended to all nodes.

    ``lift`` maps (n_labeled, k) c to its (n_coef, k) coefficients, without an intercept's. A
    penalized intercept is intercept_share' c, and ``intercept_coef`` times it is subtracted from
    coef.
    """

    lift: Callable[[FloatArray], FloatArray]
    intercept_share: FloatArray
    intercept_coef: FloatArray
    inverse: "PenaltyInverse"  # that made it

    @classmethod
    def of(
        cls, inverse: "PenaltyInverse", nodes: Int64Array, constant: FloatArray, bias: BiasName
    ) -> "LabeledSystem":
        """The system at ``nodes``; ``constant`` is graph_penalty L^p 1, (n_nodes, 1).

        Notes
        -----
        An intercept inside the penalty, f = K coef + b 1, gives coef = A^{-1} J' c - b q with q =
        A^{-1} constant, and b = u' c / s with u = 1 - (K q) at the labels and s = constant' (1 - K
        q) (E13).
        """
        kernel, lift = inverse.at(nodes)
        share, coef = np.zeros(nodes.size), np.zeros((inverse.space.n_coef, 1))
        free = bias == "free"
        if bias == "penalized":
            coef = inverse.apply(constant)
            rest = 1.0 - inverse.space.values(coef)
            stiffness = float(np.vdot(constant, rest))
            if stiffness > _FLAT * float(np.abs(constant).sum()) > 0:
                share = rest[nodes, 0] / stiffness
                kernel = kernel + stiffness * np.outer(share, share)  # (E13): u u' / s
            else:  # the penalty does not see constants
                free, coef = True, np.zeros_like(coef)
        return cls(
            kernel=kernel,
            has_free_bias=free,
            lift=lift,
            intercept_share=share,
            intercept_coef=coef,
            inverse=inverse,
        )

    @property
    def is_accurate(self) -> bool:
        """Whether all results so far are accurate; ask after `lifted`."""
        return self.inverse.is_accurate

    def lifted(self, dual: FloatArray, free: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients and intercepts of (n_labeled, k) dual values and the free intercepts."""
        intercept = self.intercept_share @ dual
        # (E13): alpha less b q
        return self.lift(dual) - self.intercept_coef * intercept, intercept + free


class PenaltyInverse(Protocol):
    """The inverse of A = norm_penalty I + graph_penalty L^p K in some space."""

    @property
    def space(self) -> Space:
        """The space of its coefficients."""

    @property
    def is_accurate(self) -> bool:
        """Whether the last labeled kernel, and every solve since, are accurate."""

    def at(self, nodes: Int64Array) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """The labeled kernel J K A^{-1} J', and the map from c to A^{-1} J' c."""

    def apply(self, residual: FloatArray) -> FloatArray:
        """Coefficients A^{-1} residual, of a residual on all nodes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoGraphPenalty:
    """Without a graph penalty A is a multiple of the identity: SVM and RLSC, and no Gram matrix."""

    is_accurate: ClassVar[bool] = True

    space: Space
    norm_penalty: float

    def at(self, nodes: Int64Array) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """The kernel of the labeled nodes; other nodes are not needed."""
        kernel = np.asarray(self.space.between(nodes), np.float64) / self.norm_penalty
        return symmetric(kernel), lambda dual: _spread(self, nodes, dual)

    def apply(self, residual: FloatArray) -> FloatArray:
        """Coefficients residual / norm_penalty."""
        return self.space.adjoint(residual) / self.norm_penalty


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FactoredInverse:
    """In a space of explicit features, by one eigenproblem for all penalties (E14)."""

    is_accurate: ClassVar[bool] = True

    space: FeatureMap
    values: FloatArray  # (n_coef,) eigenvalues of features' L^p features
    vectors: FloatArray  # (n_coef, n_coef)
    norm_penalty: float
    graph_penalty: float

    @classmethod
    def of(
        cls, space: FeatureMap, laplacian: IteratedLaplacian, on_step: OnStep = ignore_step
    ) -> "FactoredInverse":
        """The eigenproblem solved, for penalties of 1 and 0; see `with_penalties`."""
        matrix = space.penalty_matrix(laplacian.product, on_step)
        values, vectors = sl.eigh(matrix, overwrite_a=True, check_finite=False, driver="evd")
        return cls(
            space=space,
            values=np.maximum(values, 0.0),
            vectors=vectors,
            norm_penalty=1.0,
            graph_penalty=0.0,
        )

    def with_penalties(self, norm_penalty: float, graph_penalty: float) -> "FactoredInverse":
        """The same eigenpairs for other penalties."""
        return replace(self, norm_penalty=norm_penalty, graph_penalty=graph_penalty)

    def at(self, nodes: Int64Array) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """B diag(1 / (norm_penalty + graph_penalty s)) B' of the turned features B."""
        turned = self.space.features(nodes) @ self.vectors  # (E14): B
        weighted = turned / self._scale
        return symmetric(weighted @ turned.T), lambda dual: self.vectors @ (weighted.T @ dual)

    def apply(self, residual: FloatArray) -> FloatArray:
        """Coefficients of a residual on all nodes."""
        turned = self.vectors.T @ self.space.adjoint(residual)
        return np.asarray(self.vectors @ (turned / self._scale[:, None]))

    @property
    def _scale(self) -> FloatArray:
        return self.norm_penalty + self.graph_penalty * self.values


class DenseInverse:
    """On a Gram matrix in memory, by one LU factorization of I + ratio L^p K (E14).

    The factors are float32; their answers are refined in float64 by products, which need no n x n
    array of their own. If that does not converge, the factors are made anew in float64. ``on_step``
    is told of the parts of the matrix as it is filled.
    """

    def __init__(
        self,
        space: DenseGram,
        laplacian: IteratedLaplacian,
        norm_penalty: float,
        graph_penalty: float,
        *,
        on_step: OnStep = ignore_step,
    ) -> None:
        self.space = space
        self._laplacian = laplacian
        self._norm_penalty = norm_penalty
        self._ratio = graph_penalty / norm_penalty
        self.is_accurate = True
        with np.errstate(over="ignore", invalid="ignore"):  # the refinement will tell
            self._factors = self._factor(np.float32, on_step)
        self._at: tuple[bytes, FloatArray, bool] | None = None

    def at(self, nodes: Int64Array) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """Refined solves for some labeled nodes at a time; no n x n_labeled array is kept."""
        key = nodes.tobytes()
        if self._at is None or self._at[0] != key:
            self.is_accurate = True
            rows = self.space.matrix[nodes].astype(np.float64, copy=False)
            kernel = np.empty((nodes.size, nodes.size))
            for start in range(0, nodes.size, _CHUNK_COLUMNS):
                chunk = slice(start, start + _CHUNK_COLUMNS)
                unit = np.eye(nodes.size, min(_CHUNK_COLUMNS, nodes.size - start), -start)
                kernel[:, chunk] = rows @ _spread(self, nodes, unit)
            # a penalty only makes it smaller than the Gram matrix over norm_penalty
            limit = 2.0 * float(self.space.matrix.diagonal().max()) / self._norm_penalty
            if not (np.abs(kernel) <= limit).all():
                self.is_accurate, kernel = False, np.zeros_like(kernel)
            self._at = key, symmetric(kernel), self.is_accurate
        self.is_accurate = self._at[2]
        return self._at[1], lambda dual: _spread(self, nodes, dual)

    def apply(self, residual: FloatArray) -> FloatArray:
        """Coefficients A^{-1} residual, to the accuracy of products in float64 if possible.

        If even factors in float64 miss that, or if rounding of a float32 Gram matrix shows in the
        values, ``is_accurate`` is False until the next labeled kernel is computed.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # the refinement will tell
            return self._refine_or_refactor(residual / self._norm_penalty)

    def _refine_or_refactor(self, right: FloatArray) -> FloatArray:
        coef, values, is_accurate = self._refine(right)
        if not is_accurate and self._factors[0].dtype == np.float32:
            self._factors = (np.empty((0, 0)), np.empty(0, np.int32))  # not both in memory
            self._factors = self._factor(np.float64)
            coef, values, is_accurate = self._refine(right)
        self.is_accurate &= is_accurate and self._survives_rounding(coef, values)
        if not np.isfinite(coef).all():  # no answer at all
            coef = np.zeros_like(coef)
        return coef

    def _refine(self, right: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
        """A refined solution, its values K coef, and whether the values have settled.

        Only the values must settle: if the penalties differ by orders of magnitude, the residual of
        the coefficients stays above rounding, and does not matter.
        """
        coef, moved = self._solve(right), 1.0
        values = self._values(coef)
        for _ in range(_MAX_REFINEMENTS):
            # in float64 and by products, while the factors may be float32
            rest = right - coef - self._ratio * self._laplacian.product(values)
            added = coef + self._solve(rest)
            now = self._values(added)
            change = _relative(now - values, now)
            if not change < moved:
                break
            share, moved = change / moved, change
            coef, values = added, now
            if share * moved <= _REFINED or share > 0.5:  # the expected next change, or a stall
                break
        return coef, values, moved <= _ACCEPTED

    def _survives_rounding(self, coef: FloatArray, values: FloatArray) -> bool:
        """Whether rounding of the Gram matrix to float32 leaves the values unchanged.

        Large coefficients of both signs cancel in the values and leave this rounding.
        """
        if self.space.matrix.dtype == np.float64:
            return True
        return _relative(self.space.values(coef) - values, values) <= _ROUNDED

    def _values(self, coef: FloatArray) -> FloatArray:
        """K coef to the accuracy of float64, also for a float32 Gram matrix."""
        gram, values = self.space.matrix, np.empty_like(coef, order="C")
        for start in range(0, gram.shape[0], _PRODUCT_ROWS):
            rows = slice(start, start + _PRODUCT_ROWS)
            np.matmul(gram[rows].astype(np.float64, copy=False), coef, out=values[rows])
        return values

    def _solve(self, right: FloatArray) -> FloatArray:
        """Solve with the factors, which are those of the transposed matrix."""
        factors, _ = self._factors
        answer = sl.lu_solve(
            self._factors, right.astype(factors.dtype), trans=1, check_finite=False
        )
        return np.asarray(answer, np.float64)

    def _factor(
        self, dtype: type[np.float32 | np.float64], on_step: OnStep = ignore_step
    ) -> tuple[RealArray, RealArray]:
        """LU factors of the transpose: rows in memory are columns for LAPACK."""
        gram, n_rows = self.space.matrix, self.space.n_rows
        matrix, laplacian = np.empty((n_rows, n_rows), dtype), self._laplacian.serial(dtype)

        def fill(start: int) -> None:
            chunk = slice(start, start + _CHUNK_COLUMNS)
            with np.errstate(over="ignore", invalid="ignore"):  # the refinement will tell
                product = laplacian.product(gram[:, chunk])
                np.multiply(product, self._ratio, out=matrix[:, chunk])

        starts = range(0, n_rows, _CHUNK_COLUMNS)
        for start, _ in zip(starts, self.space.parallel(fill, starts), strict=True):
            on_step(start, n_rows)
        matrix[np.diag_indices(n_rows)] += 1.0
        (factor,) = sl.get_lapack_funcs(("getrf",), (matrix,))
        factors, pivots, _ = factor(matrix.T, overwrite_a=True)  # refinement detects a pivot 0
        return factors, pivots


def _relative(change: FloatArray, values: FloatArray) -> float:
    """Largest norm of a column over the norm of the same column of ``values``."""
    size = np.linalg.norm(values, axis=0)
    size[size == 0] = 1.0
    return float((np.linalg.norm(change, axis=0) / size).max(initial=0.0))


def _spread(inverse: PenaltyInverse, nodes: Int64Array, dual: FloatArray) -> FloatArray:
    """Coefficients A^{-1} J' dual."""
    residual = np.zeros((inverse.space.n_rows, dual.shape[1]))
    residual[nodes] = dual
    return inverse.apply(residual)
