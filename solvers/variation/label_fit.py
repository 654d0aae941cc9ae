"""Fits of labels under a quadratic penalty: in a kernel's space, or along the graph alone.

A penalty is 1/2 [norm_penalty |f|_K^2 + graph_penalty f' L f + pull |f|^2]; without a norm f is
any function on the nodes. What all fits need of it is its inverse on a residual (G2, G4, G11).
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np
import scipy.linalg as sl

from solvers.arrays import FloatArray, Int64Array
from solvers.gram.feature_maps import FeatureMap
from solvers.graph import Graph
from solvers.iterate import Teller
from solvers.laplacian.solver import LaplacianSolver
from solvers.solution import Status, first_failure
from solvers.svm.dual import box_program

LossName = Literal["none", "squared", "hinge"]

_CHUNK_COLUMNS: Final = 64
_SOLVER_RTOL: Final = 1e-8


class PenaltyInverse(Protocol):
    """The inverse of a penalty."""

    @property
    def pull(self) -> float:
        """Its weight of |f|^2."""

    def apply(self, residual: FloatArray) -> FloatArray:
        """argmin_f penalty(f) - <residual, f>, (n_nodes, n_columns)."""


class SpaceInverse:
    """The penalty in a space of explicit features Phi, by one Cholesky factorisation.

    f = Phi A^{-1} Phi' residual with A = norm_penalty I + Phi' (graph_penalty L + pull I) Phi; of a
    factor Phi of the Gram matrix that is K (norm_penalty I + (graph_penalty L + pull I) K)^{-1}.

    Parameters
    ----------
    space : FeatureMap
    graph : Graph
        Of the combinatorial Laplacian.
    norm_penalty, graph_penalty, pull : float
        > 0, >= 0, >= 0.
    teller : callable or None
    """

    def __init__(
        self,
        space: FeatureMap,
        graph: Graph,
        *,
        norm_penalty: float,
        graph_penalty: float,
        pull: float,
        teller: Teller | None = None,
    ) -> None:
        self.pull = pull
        self._space = space

        def product(block: Any) -> Any:
            smooth = pull * block
            if graph_penalty > 0:
                smooth = smooth + graph_penalty * graph.laplacian_product(block)
            return smooth

        matrix = space.penalty_matrix(product, teller)
        matrix[np.diag_indices_from(matrix)] += norm_penalty
        self._factor = sl.cho_factor(matrix, check_finite=False, overwrite_a=True)

    def apply(self, residual: FloatArray) -> FloatArray:
        """Values at the nodes."""
        own = self._space.adjoint(residual)
        return self._space.values(sl.cho_solve(self._factor, own, check_finite=False))

    def nearest(self, values: FloatArray) -> FloatArray:
        """argmin_f penalty(f) + pull / 2 |f - values|^2, the f-block of (G5)."""
        return self.apply(self.pull * values)


class GraphInverse:
    """The penalty without a norm: (graph_penalty L + pull I)^{-1}, by Laplacian solves.

    Attributes
    ----------
    solver : LaplacianSolver
    pull : float
    status : Status
        Of the first solve that did not converge, or converged.
    """

    def __init__(self, solver: LaplacianSolver, pull: float) -> None:
        self.solver = solver
        self.pull = pull
        self.status = Status.CONVERGED

    def apply(self, residual: FloatArray) -> FloatArray:
        """Values at the nodes."""
        self.solver.rtol = _SOLVER_RTOL
        solution = self.solver.solve(residual)
        self.status = first_failure(self.status, solution.status)
        return np.asarray(solution.x, np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelFit:
    """argmin_f penalty(f) + pull / 2 |f - values|^2 + loss at the labels; build it with `of`.

    Attributes
    ----------
    inverse : PenaltyInverse
        With the pull in it.
    nodes : (n_labeled,) int64
    targets : (n_labeled, n_columns) float64
        1 or -1 of the hinge.
    loss : {'none', 'squared', 'hinge'}
        label_weight / 2 (y - f)^2, or label_weight max(0, 1 - y f).
    label_weight : float
        eta or mu.
    offset : (n_columns,) float64 or None
        What the hinge adds to f; None for a free intercept b.
    margin : float
        What the hinge asks of y f: label_weight max(0, 1 - y f / margin).
    kernel : (n_labeled, n_labeled) float64
        The inverse between the labels, G of (G11).
    factor : tuple
        Of the squared loss, the Cholesky factor of I + label_weight G.
    """

    inverse: PenaltyInverse
    nodes: Int64Array
    targets: FloatArray
    loss: LossName
    label_weight: float
    offset: FloatArray | None
    margin: float
    kernel: FloatArray
    factor: Any

    @classmethod
    def of(
        cls,
        inverse: PenaltyInverse,
        nodes: Int64Array,
        targets: FloatArray,
        n_nodes: int,
        *,
        loss: LossName,
        label_weight: float,
        offset: FloatArray | None = None,
        margin: float = 1.0,
        teller: Teller | None = None,
    ) -> "LabelFit":
        """One solve for each label, some at a time."""
        size = 0 if loss == "none" else nodes.size
        kernel = np.zeros((size, size))
        for start in range(0, size, _CHUNK_COLUMNS):
            if teller is not None:
                teller(start, size)
            some = nodes[start : start + _CHUNK_COLUMNS]
            unit = np.zeros((n_nodes, some.size))
            unit[some, np.arange(some.size)] = 1.0
            kernel[:, start : start + some.size] = inverse.apply(unit)[nodes]
        if teller is not None:
            teller(size, size)
        kernel = 0.5 * (kernel + kernel.T)
        matrix = np.eye(size) + label_weight * kernel
        return cls(
            inverse=inverse,
            nodes=nodes,
            targets=targets,
            loss=loss,
            label_weight=label_weight,
            offset=offset,
            margin=margin,
            kernel=kernel,
            factor=sl.cho_factor(matrix, check_finite=False) if loss == "squared" else None,
        )

    def nearest(self, values: FloatArray) -> tuple[FloatArray, FloatArray, Status]:
        """Functions without intercept, the intercepts (n_columns,), and how the hinge ended."""
        residual = self.inverse.pull * values
        intercepts, status = np.zeros(values.shape[1]), Status.CONVERGED
        if self.loss != "none":
            smooth = self.inverse.apply(residual)[self.nodes]
            if self.loss == "squared":
                missed = self.label_weight * (self.targets - smooth)
                dual = np.asarray(sl.cho_solve(self.factor, missed, check_finite=False))
            else:
                dual, intercepts, status = self._hinge_dual(smooth)
            residual = residual.copy()
            residual[self.nodes] += dual
        return self.inverse.apply(residual), intercepts, status

    def _hinge_dual(self, smooth: FloatArray) -> tuple[FloatArray, FloatArray, Status]:
        """Y b of (G11) for every column, with b <= label_weight / margin."""
        most = self.label_weight / self.margin
        kernel, constant = self.kernel, np.zeros(self.nodes.size)
        if self.offset is not None:
            smooth = smooth + self.offset
        else:  # constants cost nothing, and may be nearly all of it
            constant = kernel.mean(axis=0)  # what centring takes off f is put into b again
            kernel = kernel - constant - constant[:, None] + kernel.mean()
        dual, intercepts = np.zeros_like(smooth), np.zeros(smooth.shape[1])
        status = Status.CONVERGED
        for column in range(smooth.shape[1]):
            target = self.targets[:, column]
            found = box_program(
                most * kernel * np.outer(target, target),
                gain=self.margin - target * smooth[:, column],
                balance=target if self.offset is None else None,
            )
            dual[:, column] = most * target * found.shares
            if self.offset is None:
                intercepts[column] = found.multiplier - constant @ dual[:, column]
            status = first_failure(status, found.status)
        return dual, intercepts, status
