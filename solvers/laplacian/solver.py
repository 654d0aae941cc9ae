"""LaplacianSolver: prepare a graph once, solve many right-hand sides.

It checks arguments, projects, chooses the preconditioner by trying, and reports the outcome. The
iteration itself is in `peewit.solvers.laplacian.pcg`.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from peewit.solvers.arguments import require_one_of
from peewit.solvers.arrays import FloatArray, IntArray, RealArray
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.graph import LEAST_ORDERED, Graph
from peewit.solvers.iteration_loop import Cancelled, Progress, Watch
from peewit.solvers.kernels.laplacian_products import column_dots, component_sums
from peewit.solvers.laplacian.error_bounds import error_bounds
from peewit.solvers.laplacian.leading import LEAST_COLUMNS
from peewit.solvers.laplacian.low_rank_residual import lead
from peewit.solvers.laplacian.multigrid.amended_multigrid import AmendedCycle
from peewit.solvers.laplacian.multigrid.elimination import BLIND_RATIO, Elimination, is_eliminated
from peewit.solvers.laplacian.multigrid.hierarchy import Hierarchy
from peewit.solvers.laplacian.multigrid.multigrid import Multigrid
from peewit.solvers.laplacian.pcg import FIRST_FORECAST
from peewit.solvers.laplacian.preconditioned_system import System
from peewit.solvers.laplacian.preconditioners import ApproximateCholesky, Jacobi
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.status import Status

SolverPreconditioner = Literal["auto", "jacobi", "multigrid", "approx-chol"]

PATIENCE: Final = {"jacobi": 60, "multigrid": 60}
"""Forecast of steps above which the next preconditioner pays.

A hierarchy costs about 25 products and 4 to 5 more a step, a factor 15 to 100 products and 10 a
step (measured).
"""

_LARGEST_EXPONENT: Final = 300  # binary; larger numbers are first brought to size 1
_LARGEST_FACTOR: Final = 2.0**40  # taken out of the matrix instead of multiplied into its weights
_FARTHEST_EXPONENT: Final = 1000  # so that its inverse is finite, too

_ORDER: Final = 100
"""Cost of finding a memory order, in products with one column (measured)."""

_TRIED_AT_ONCE: Final = 24
"""Columns that all try a preconditioner: a step with them costs hardly two with one."""

_BLOCK: Final = 0.25  # of rtol; the rest is slack that many later solves may use
_FINEST: Final = 1e-10  # residuals below are near what rounding leaves

_SINGLE_RTOL: Final = 1e-3
"""Residual that float32 reaches also where Jacobi stalls."""

_BY_TRIAL: Final = ("jacobi", "multigrid", "approx-chol")


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
        True relative residual of every column, or a bound on it where a few directions stood for
        all columns; 0 for a zero right-hand side; 1 if a solve was cancelled before the column's
        turn.
    n_iter : int
        Steps over all preconditioners tried.
    preconditioner : str
        The last one used: ``jacobi``, ``multigrid`` or ``approx-chol``; ``elimination`` if the
        system was eliminated.
    bound : (n_nodes, k) float64 or None
        On the error of each entry, if the system was eliminated or the bound was requested. After
        an elimination ``residual`` is the largest bound of a column over its largest entry, and the
        status is `ILL_CONDITIONED` where that exceeds ``rtol``.
    """

    x: RealArray
    status: Status
    residual: FloatArray
    n_iter: int
    preconditioner: str
    bound: FloatArray | None = None


class LaplacianSolver:
    """Solves (scale * L + diag(shift)) x = b for one graph and any number of right-hand sides.

    On components that carry a shift the matrix is positive definite. On the others it is singular:
    b must sum to zero there (or ``project`` it), and x has zero mean, which makes x the
    pseudo-inverse solution. With ``zero_mean`` every component is treated so: x solves P (scale * L
    + diag(shift)) P x = P b, P the projection to zero sums (D4).

    Parameters
    ----------
    scale : float
        Finite, > 0.
    shift : (n_nodes,) floats or None
        Finite, >= 0; None means no shift at all.
    rtol : float
        Relative residual of every column to reach, in (0, 1).
    max_iter : int
        Limit on the steps of one `solve`, >= 1; a trial on one column has its own.
    preconditioner : {"auto", "jacobi", "multigrid", "approx-chol"}
        ``auto`` tries Jacobi (on one of many columns), then aggregation multigrid, then approximate
        Cholesky; it goes on when one stalls or its rate forecasts more steps than `PATIENCE`. Later
        solves keep the choice. Multigrid is skipped where weights lie far apart (`is_blind`). A
        small graph whose weights lie far apart is eliminated instead, see
        `peewit.solvers.laplacian.multigrid.elimination`.
    dtype : float64 or float32
        Of products and vectors. In float32 Jacobi iterates in float32, and multigrid for an
        ``rtol`` from 1e-3 on (for less, a system where Jacobi stalls is too ill-conditioned).
    hierarchy : Hierarchy or None
        Of ``graph``, if it exists already; ``auto`` then starts with multigrid. The attribute also
        holds a hierarchy that the solver made.
    cycle_before : Multigrid, AmendedCycle or None
        The `cycle` of another solver, used again if that one has the same hierarchy and differs
        only in less shift at a few nodes.
    parallel : callable
        Runs the parts of products, ``map`` or that of a thread pool; results do not depend on it.
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
        preconditioner: SolverPreconditioner = "auto",
        dtype: npt.DTypeLike = np.float64,
        hierarchy: Hierarchy | None = None,
        cycle_before: Multigrid | AmendedCycle | None = None,
        parallel: Parallel = map,
    ) -> None:
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(f"scale must be finite and > 0, got {scale}")
        if not 0 < rtol < 1:
            raise ValueError(f"rtol must lie in (0, 1), got {rtol}")
        if max_iter < 1:
            raise ValueError(f"max_iter must be >= 1, got {max_iter}")
        require_one_of("preconditioner", preconditioner, get_args(SolverPreconditioner))
        if np.dtype(dtype) not in (np.float64, np.float32):
            raise ValueError(f"dtype must be float64 or float32, got {np.dtype(dtype)}")
        self.graph = graph
        self.scale = scale
        self.shift = _checked_shift(shift, graph.n_nodes)
        self.zero_mean = zero_mean
        self.rtol = rtol
        self.max_iter = max_iter
        self.preconditioner: SolverPreconditioner = preconditioner
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        # solved is (scale / factor * L + diag(shift / factor)) 2^-unit, which shares L's weights
        # where it can
        self._factor = scale if 1 / _LARGEST_FACTOR < scale < _LARGEST_FACTOR else 1.0
        largest = scale * graph.degree.max(initial=0.0) + self.shift.max(initial=0.0)
        self._unit = int(_unit_exponents(np.array([largest / self._factor]))[0])
        self.hierarchy = hierarchy
        self.parallel = parallel
        by_trial = _BY_TRIAL if hierarchy is None else _BY_TRIAL[1:]
        self._candidates: tuple[str, ...] = (
            by_trial if preconditioner == "auto" else (preconditioner,)
        )
        self._is_settled = preconditioner != "auto"
        self._prepared: System | None = None
        self._cycle_before = cycle_before
        self._n_products = 0
        self._elimination: Elimination | None = None

    @property
    def eliminates(self) -> bool:
        """Whether systems are eliminated, which needs no start, no limit and no hierarchy."""
        return self.preconditioner == "auto" and is_eliminated(self.graph)

    @property
    def is_blind(self) -> bool:
        """Whether weights lie too far apart for a residual to say how good a solution is."""
        return self.graph.weight_spread >= BLIND_RATIO

    def bounded(self, solution: LinearSolution, rhs: FloatArray) -> LinearSolution:
        """The solution with `error_bounds` for ``rhs`` (n_nodes, k); infinite with zero_mean."""
        if self.zero_mean and self.shift.any():
            bound = np.full(rhs.shape, np.inf)
        else:
            x = solution.x.astype(np.float64, copy=False)
            bound = error_bounds(self.graph, x, rhs, scale=self.scale, shift=self.shift)
        return replace(solution, bound=bound)

    @property
    def chosen(self) -> str:
        """Preconditioner of the next solve: ``jacobi``, ``multigrid`` or ``approx-chol``."""
        return self._candidates[0]

    @property
    def cycle(self) -> Multigrid | AmendedCycle | None:
        """The multigrid cycle, if one has been used."""
        used = None if self._prepared is None else self._prepared.preconditioner
        return used if isinstance(used, Multigrid | AmendedCycle) else None

    @one_blas_thread
    def solve(
        self,
        rhs: npt.ArrayLike,
        start: npt.ArrayLike | None = None,
        *,
        project: bool = False,
        phase: str = "linear solve",
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
        overwrite: bool = False,
    ) -> LinearSolution:
        """Solve for ``rhs``, (n_nodes,) or (n_nodes, k), all columns at once.

        A cancelled solve returns its present iterates. Raises ValueError for a wrong shape, a value
        that is not finite, or a right-hand side outside the range.

        Parameters
        ----------
        start : array of the shape of ``rhs``, or None
            First iterates (warm start).
        project : bool
            Project ``rhs`` to zero sum on components without shift instead of refusing it. With
            ``zero_mean`` the projection is part of the problem and always done.
        overwrite : bool
            Whether the memory of ``rhs`` and ``start`` may be overwritten.
        """
        shape = np.shape(rhs)
        block = self._own_block("rhs", rhs, overwrite)
        first = (
            np.zeros_like(block) if start is None else self._own_block("start", start, overwrite)
        )
        if first.shape != block.shape:
            raise ValueError(f"start must have the shape of rhs {block.shape}, got {first.shape}")
        if not (project or self.zero_mean):
            _require_zero_sums(self.graph, self.shift, block)
        watch = Watch(progress=progress, cancelled=cancelled)
        if self.eliminates and not watch.is_cancelled():
            eliminated = self.eliminated(block)
            answer = eliminated.x.astype(self.dtype, copy=False)
            return replace(eliminated, x=answer.reshape(shape))
        n_iter = 0
        needs_trial = not self._is_settled and self.chosen == "jacobi"
        if needs_trial and block.shape[1] > _TRIED_AT_ONCE and not first.any():
            trial = self._attempt(block[:, :1], first[:, :1], self.max_iter, watch, phase)
            first[:, :1], n_iter = trial.x, trial.n_iter
            if trial.status is Status.STAGNATED:
                self._give_up()
            elif trial.status is not Status.CANCELLED:
                n_iter = 0  # the block takes as many, or more
        attempt = self._try_preconditioners(block, first, self.max_iter, watch, phase)
        answer = attempt.x.astype(self.dtype, copy=False)
        return replace(attempt, x=answer.reshape(shape), n_iter=attempt.n_iter + n_iter)

    def eliminated(self, rhs: RealArray, mass: FloatArray | None = None) -> LinearSolution:
        """The solution for ``rhs`` (n_nodes, k) by elimination, where `eliminates`.

        Arguments as in `peewit.solvers.laplacian.multigrid.elimination.Elimination.solve`.
        """
        if self._elimination is None:
            self._elimination = Elimination(
                self.graph, scale=self.scale, shift=self.shift, zero_mean=self.zero_mean
            )
        potentials = self._elimination.solve(rhs.astype(np.float64, copy=False), mass)
        return LinearSolution(
            x=potentials.x,
            status=potentials.status(self.rtol),
            residual=potentials.relative,
            n_iter=0,
            preconditioner="elimination",
            bound=potentials.bound,
        )

    def _try_preconditioners(
        self, rhs: RealArray, start: RealArray, max_iter: int, watch: Watch, phase: str
    ) -> LinearSolution:
        """Run PCG with one preconditioner after another, until one serves."""
        attempt = self._attempt(rhs, start, max_iter, watch, phase)
        while attempt.status is Status.STAGNATED and len(self._candidates) > 1:
            self._give_up()
            left = max_iter - attempt.n_iter
            later = self._attempt(rhs, attempt.x, left, watch, phase)
            attempt = replace(later, n_iter=later.n_iter + attempt.n_iter)
        # a solve of a few steps may have been an easy one: it proves nothing
        self._is_settled |= attempt.status is Status.CONVERGED and attempt.n_iter >= FIRST_FORECAST
        return attempt

    def _give_up(self) -> None:
        """Go on to the next preconditioner."""
        near = self.graph.near_in_memory if self.graph.known_order is not None else None
        if self.chosen == "jacobi" and near is not None:
            near.forget_graph()  # the others have an order of their own
        later = self._candidates[1:]
        # multigrid takes hundreds of steps where light edges alone join heavy clusters
        self._candidates = later[-1:] if self.is_blind else later
        self._prepared = None

    def _attempt(
        self, rhs: RealArray, start: RealArray, max_iter: int, watch: Watch, phase: str
    ) -> LinearSolution:
        """One PCG run with the present preconditioner, in its floating type.

        It may overwrite both blocks; ``rhs`` remains a right-hand side of the same system.
        """
        if self._orders_now(rhs.shape[1]):
            self._prepared = None
        if self._prepared is None and not watch.is_cancelled():
            self._prepared = self._system(rhs.shape[1])
        if self._prepared is None or watch.is_cancelled():
            return LinearSolution(
                x=start,
                status=Status.CANCELLED,
                residual=np.ones(rhs.shape[1]),
                n_iter=0,
                preconditioner=self.chosen,
            )
        system = self._prepared
        operator = system.operator
        largest = np.maximum(rhs.max(axis=0, initial=0.0), -rhs.min(axis=0, initial=0.0))
        unit = _unit_exponents(largest)
        inside = system.inside(_times_power(rhs, -unit))
        operator.project(inside)
        norms = np.sqrt(column_dots(inside, inside))
        first = system.inside(_times_power(start, self._unit - unit))
        if not norms.all():
            first[:, norms == 0] = 0.0
        if self._factor != 1.0:
            first *= self._factor
        operator.project(first)
        norms = np.where(norms > 0, norms, 1.0)
        patience, run = self._patience(), partial(watch.run, phase=phase)
        led = lead(
            system,
            inside,
            first,
            norms,
            rtol=self.rtol,
            max_iter=max_iter,
            patience=patience,
            run=run,
        )
        first, status, residual, n_iter = led.x, led.status, led.residual, led.n_iter
        goes_on = status is not Status.STAGNATED or len(self._candidates) == 1
        if goes_on and not (residual <= self.rtol).all():
            method = system.pcg(inside, first, norms, self._block_rtol(inside), patience)
            outcome = run(method, max_iter=max_iter - n_iter)
            first, residual = method.finish(outcome.state)
            status, n_iter = outcome.status, n_iter + outcome.n_iter
            if (residual <= self.rtol).all():
                status = Status.CONVERGED
        system.preconditioner.rest()
        self._n_products += n_iter * rhs.shape[1]
        operator.project(first)
        if self._factor != 1.0:
            first /= self._factor
        return LinearSolution(
            x=_times_power(system.outside(first), unit - self._unit),
            status=status,
            residual=residual,
            n_iter=n_iter,
            preconditioner=system.preconditioner.name,
        )

    def _patience(self) -> int | None:
        """Most steps that a forecast may give this preconditioner; None if it is the last."""
        is_last = len(self._candidates) == 1
        return None if is_last or self._is_settled else PATIENCE[self.chosen]

    def _block_rtol(self, rhs: RealArray) -> float:
        """``rtol``, or a finer one if a later solve may start from this solution."""
        is_fine = self.dtype == np.float32 or self.rtol * _BLOCK < _FINEST
        return self.rtol if is_fine or rhs.shape[1] < LEAST_COLUMNS else _BLOCK * self.rtol

    def _needs_order(self, n_columns: int) -> bool:
        """Whether numbering nodes anew for Jacobi pays for itself, or was done already."""
        if self.preconditioner != "auto" or self.graph.known_order is not None:
            return True
        return self._n_products + n_columns * FIRST_FORECAST >= _ORDER

    def _orders_now(self, n_columns: int) -> bool:
        """Whether the prepared system is one whose nodes are to be numbered anew."""
        is_plain = self._prepared is not None and self._prepared.order is None
        is_large = self.graph.n_nodes >= LEAST_ORDERED
        return is_plain and is_large and self.chosen == "jacobi" and self._needs_order(n_columns)

    def _system(self, n_columns: int) -> System:
        """The operator and the chosen preconditioner; the first solve has ``n_columns``."""
        if self.chosen == "multigrid":
            if self.hierarchy is None:
                self.hierarchy = Hierarchy.of_graph(self.graph)
            hierarchy = self.hierarchy
            dtype = self.dtype if self.rtol >= _SINGLE_RTOL else np.float64
            operator = self._operator(hierarchy.graph, self.shift[hierarchy.order], dtype)
            return System(
                operator=operator,
                preconditioner=self._cycle(operator, hierarchy),
                order=hierarchy.order,
            )
        if self.chosen == "approx-chol":
            operator = self._operator(self.graph, self.shift, np.float64)
            factor = ApproximateCholesky(operator)
            return System(operator=operator, preconditioner=factor, order=None)
        near = self.graph.near_in_memory if self._needs_order(n_columns) else None
        if near is None:
            operator, order = self._operator(self.graph, self.shift, self.dtype), None
        else:
            order = near.order
            single = near.in_single if self.dtype == np.float32 else None
            operator = self._operator(single or near.graph, self.shift[order], self.dtype)
        return System(operator=operator, preconditioner=Jacobi(operator), order=order)

    def _cycle(self, operator: ShiftedLaplacian, hierarchy: Hierarchy) -> Multigrid | AmendedCycle:
        """A multigrid cycle for the operator: the cycle before, if it can be amended."""
        before, self._cycle_before = self._cycle_before, None
        if before is not None and before.hierarchy is hierarchy:
            amended = AmendedCycle.of(before, operator)
            if amended is not None:
                return amended
        return Multigrid(operator, hierarchy)

    def _operator(self, graph: Graph, shift: FloatArray, dtype: Any) -> ShiftedLaplacian:
        return ShiftedLaplacian.of_graph(
            graph,
            scale=float(np.ldexp(self.scale / self._factor, -self._unit)),
            shift=np.ldexp(shift / self._factor, -self._unit),
            zero_mean=self.zero_mean,
            dtype=dtype,
            parallel=self.parallel,
        )

    def _own_block(self, name: str, values: npt.ArrayLike, overwrite: bool) -> RealArray:
        """A finite C-contiguous (n_nodes, k) block in the solver's type, copied unless allowed."""
        copied = np.asarray if overwrite else np.array
        block: RealArray = copied(values, dtype=self.dtype, order="C")
        n_nodes = self.graph.n_nodes
        if block.ndim not in (1, 2) or block.shape[0] != n_nodes:
            raise ValueError(
                f"{name} must have shape ({n_nodes},) or ({n_nodes}, k), got {block.shape}"
            )
        if not np.isfinite(block).all():
            raise ValueError(f"{name} must be finite, got nan or infinity")
        return block[:, None] if block.ndim == 1 else block


def _unit_exponents(largest: RealArray) -> IntArray:
    """Powers of two that scale numbers whose squares might leave the range; 0 for others."""
    _, exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))
    is_far = np.abs(exponent) > _LARGEST_EXPONENT
    return np.where(is_far, np.clip(exponent, -_FARTHEST_EXPONENT, _FARTHEST_EXPONENT), 0)


def _times_power(block: RealArray, exponent: IntArray | int) -> RealArray:
    """The block * 2^exponent, exact unless it underflows; the block itself for exponents 0."""
    if not np.any(exponent):
        return block
    scaled: RealArray = np.ldexp(block, exponent)
    return scaled


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


def _require_zero_sums(graph: Graph, shift: FloatArray, block: RealArray) -> None:
    """Refuse right-hand sides whose sum is more than rounding where M is singular."""
    is_singular = np.ones(graph.n_components, dtype=bool)
    is_singular[graph.component[shift > 0]] = False
    sums, sizes = np.zeros((2, graph.n_components, block.shape[1]))
    component_sums(block, graph.component, sums)
    component_sums(np.abs(block), graph.component, sizes)
    wrong = np.abs(sums) > np.sqrt(np.finfo(block.dtype).eps) * sizes
    wrong &= is_singular[:, None]
    if wrong.any():
        component, column = np.argwhere(wrong)[0]
        raise ValueError(
            "rhs must sum to zero on every component without shift, "
            f"got a sum of {sums[component, column]:g} in column {column}; "
            "pass project=True to drop that part"
        )
