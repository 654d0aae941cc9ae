"""LaplacianSolver: prepare a graph once, solve many right-hand sides.

Checks arguments, projects, chooses the preconditioner by trying, and says how it went. The
iteration itself is in `solvers.laplacian.pcg`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from solvers.arrays import FloatArray, RealArray
from solvers.graph import Graph
from solvers.iterate import Cancelled, Outcome, Progress, iterate
from solvers.kernels.block_products import column_dots
from solvers.laplacian.operator import ShiftedLaplacian
from solvers.laplacian.pcg import BlockPCG, PCGState
from solvers.laplacian.preconditioners import (
    ApproximateCholesky,
    Jacobi,
    Preconditioner,
    PreconditionerName,
    check_preconditioner,
)
from solvers.solution import Status

JACOBI_PATIENCE = 250
"""Jacobi steps worth taking before a factor pays: it costs 15 to 100 block products (measured)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearSolution:
    """Solutions of a linear system, and how they were reached.

    Attributes
    ----------
    x : array of the right-hand sides' shape
        Zero mean on every component without a shift.
    status : Status
        Converged only if every column's true residual is within ``rtol``.
    residual : (k,) float64
        True relative residual of every column, 0 for a zero right-hand side.
    n_iter : int
        Steps over all preconditioners tried.
    preconditioner : str
        The last one used: ``jacobi`` or ``approx-chol``.
    """

    x: RealArray
    status: Status
    residual: FloatArray
    n_iter: int
    preconditioner: str


class LaplacianSolver:
    """Solves (scale * L + diag(shift)) x = b for one graph and any number of right-hand sides.

    On components that carry a shift the matrix is positive definite. On the others it is
    singular: b must sum to zero there (or ``project`` it), and x has zero mean, which makes x
    the pseudo-inverse solution. With ``zero_mean`` every component is treated so: x solves
    P (scale * L + diag(shift)) P x = P b, P the projection to zero sums (ALGORITHMS D4).

    Parameters
    ----------
    graph : Graph
        Weights are conductances.
    scale : float
        Finite, > 0.
    shift : (n_nodes,) floats or None
        Finite, >= 0; None means no shift at all.
    zero_mean : bool
        Solve among vectors of zero sum on every component, shifted or not.
    rtol : float
        Relative residual asked of every column, in (0, 1).
    max_iter : int
        Limit on the steps of one `solve`, >= 1.
    preconditioner : {"auto", "jacobi", "approx-chol"}
        ``auto`` starts with Jacobi and switches to approximate Cholesky when Jacobi stalls or
        its rate forecasts more than 250 steps; later solves keep the choice.
    dtype : float64 or float32
        Of products and vectors. In float32 the approximate Cholesky runs still iterate in
        float64 (Jacobi stalled, so the system is too ill-conditioned for float32).

    Raises
    ------
    ValueError
        An argument outside its range.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        scale: float = 1.0,
        shift: npt.ArrayLike | None = None,
        zero_mean: bool = False,
        rtol: float = 1e-8,
        max_iter: int = 10_000,
        preconditioner: PreconditionerName = "auto",
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(f"scale must be finite and > 0, got {scale}")
        if not 0 < rtol < 1:
            raise ValueError(f"rtol must lie in (0, 1), got {rtol}")
        if max_iter < 1:
            raise ValueError(f"max_iter must be >= 1, got {max_iter}")
        check_preconditioner(preconditioner)
        if np.dtype(dtype) not in (np.float64, np.float32):
            raise ValueError(f"dtype must be float64 or float32, got {np.dtype(dtype)}")
        self.graph = graph
        self.scale = scale
        self.shift = _checked_shift(shift, graph.n_nodes)
        self.zero_mean = zero_mean
        self.rtol = rtol
        self.max_iter = max_iter
        self.preconditioner: PreconditionerName = preconditioner
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._chosen = "jacobi" if preconditioner == "auto" else preconditioner
        self._may_switch = preconditioner == "auto"
        self._prepared: tuple[ShiftedLaplacian, Preconditioner] | None = None

    @property
    def chosen(self) -> str:
        """The preconditioner the next solve starts with: ``jacobi`` or ``approx-chol``."""
        return self._chosen

    def solve(
        self,
        rhs: npt.ArrayLike,
        start: npt.ArrayLike | None = None,
        *,
        project: bool = False,
        phase: str = "linear solve",
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> LinearSolution:
        """Solve for ``rhs``, (n_nodes,) or (n_nodes, k), all columns at once.

        Parameters
        ----------
        rhs : array
            Right-hand sides, finite.
        start : array of the same shape, or None
            First iterates (warm start), finite.
        project : bool
            Project ``rhs`` to zero sum on components without shift instead of refusing it.
            With ``zero_mean`` the projection is part of the problem and always done.
        phase, progress, cancelled
            As in `solvers.iterate.iterate`. A cancelled solve returns its present iterates.

        Raises
        ------
        ValueError
            Wrong shape, a value that is not finite, or a right-hand side outside the range.
        """
        block = self._checked_block("rhs", rhs)
        first = np.zeros_like(block) if start is None else self._checked_block("start", start)
        if first.shape != block.shape:
            raise ValueError(f"start must have the shape of rhs {block.shape}, got {first.shape}")
        if not (project or self.zero_mean):
            _require_zero_sums(self._operator(), block)
        run = partial(iterate, phase=phase, progress=progress, cancelled=cancelled)
        attempt = self._attempt(block, first, self.max_iter, run)
        if attempt.status is Status.STAGNATED and self._may_switch:
            self._chosen, self._may_switch, self._prepared = "approx-chol", False, None
            left = self.max_iter - attempt.n_iter
            second = self._attempt(block, attempt.x, left, run)
            attempt = replace(second, n_iter=second.n_iter + attempt.n_iter)
        answer = attempt.x.astype(self._dtype, copy=False)
        return replace(attempt, x=answer.reshape(np.shape(rhs)))

    def _attempt(
        self, rhs: RealArray, start: RealArray, max_iter: int, run: Callable[..., Outcome[PCGState]]
    ) -> LinearSolution:
        """One PCG run with the present preconditioner, in the type it works in."""
        operator, preconditioner = self._prepare()
        inside = rhs.astype(operator.dtype)
        operator.project(inside)
        norms = np.sqrt(column_dots(inside, inside))
        first = np.where(norms > 0, start, 0.0).astype(operator.dtype)
        operator.project(first)
        method = BlockPCG(
            operator=operator,
            preconditioner=preconditioner,
            rhs=inside,
            start=first,
            norms=np.where(norms > 0, norms, 1.0),
            rtol=self.rtol,
            patience=JACOBI_PATIENCE if self._may_switch else None,
        )
        outcome = run(method, max_iter=max_iter)
        x, residual = method.finish(outcome.state)
        operator.project(x)
        return LinearSolution(
            x=x,
            status=Status.CONVERGED if (residual <= self.rtol).all() else outcome.status,
            residual=residual,
            n_iter=outcome.n_iter,
            preconditioner=preconditioner.name,
        )

    def _prepare(self) -> tuple[ShiftedLaplacian, Preconditioner]:
        """The operator and the chosen preconditioner, made once."""
        if self._prepared is None:
            operator = self._operator()
            cholesky = self._chosen == "approx-chol"
            self._prepared = (
                operator,
                ApproximateCholesky(operator) if cholesky else Jacobi(operator),
            )
        return self._prepared

    def _operator(self) -> ShiftedLaplacian:
        """The matrix in the type the present preconditioner works in."""
        if self._prepared is not None:
            return self._prepared[0]
        return ShiftedLaplacian.of_graph(
            self.graph,
            scale=self.scale,
            shift=self.shift,
            zero_mean=self.zero_mean,
            dtype=np.float64 if self._chosen == "approx-chol" else self._dtype,
        )

    def _checked_block(self, name: str, values: npt.ArrayLike) -> RealArray:
        """A finite C-contiguous (n_nodes, k) block in the solver's type, not the caller's array."""
        block: RealArray = np.array(values, dtype=self._dtype, order="C")
        n_nodes = self.graph.n_nodes
        if block.ndim not in (1, 2) or block.shape[0] != n_nodes:
            raise ValueError(
                f"{name} must have shape ({n_nodes},) or ({n_nodes}, k), got {block.shape}"
            )
        if not np.isfinite(block).all():
            raise ValueError(f"{name} must be finite, got nan or infinity")
        return block[:, None] if block.ndim == 1 else block


def _checked_shift(shift: npt.ArrayLike | None, n_nodes: int) -> FloatArray:
    """The shift as float64, zeros for None."""
    if shift is None:
        return np.zeros(n_nodes)
    values = np.array(shift, dtype=np.float64)
    if values.shape != (n_nodes,):
        raise ValueError(f"shift must have shape ({n_nodes},), got {values.shape}")
    valid = np.isfinite(values) & (values >= 0)
    if not valid.all():
        row = int(np.argmin(valid))
        raise ValueError(f"shift must be finite and >= 0, got {values[row]} at node {row}")
    return values


def _require_zero_sums(operator: ShiftedLaplacian, block: RealArray) -> None:
    """Refuse right-hand sides with a sum that rounding does not explain where M is singular."""
    sums = np.abs(operator.component_sums(block))[operator.projected]
    sizes = operator.component_sums(np.abs(block))[operator.projected]
    wrong = sums > np.sqrt(np.finfo(block.dtype).eps) * sizes
    if wrong.any():
        raise ValueError(
            "rhs must sum to zero on every component without shift, "
            f"got a sum of {sums[wrong][0]:g} in column {int(np.argwhere(wrong)[0, 1])}; "
            "pass project=True to drop that part"
        )
