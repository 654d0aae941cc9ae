"""The kernel between labeled nodes, L^+ E_S, and the harmonic functions that it gives.

On a component the soft models are kernel ridge regression with the pseudo-inverse of L as kernel
(D9): f = G alpha with G = L^+ E_S, one column per labeled node. L does not change with the labels,
so a new label costs one solve and a dense system over the labels, for all classes at once, whereas
M = kappa L + I_S changes in every entry.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array, column_norms
from peewit.solvers.iteration_loop import Cancelled, Progress
from peewit.solvers.laplacian.multigrid.hierarchy import Hierarchy
from peewit.solvers.laplacian.solver import LaplacianSolver, LinearSolution
from peewit.solvers.models.contract.model import KEPT_BYTES
from peewit.solvers.status import Status

COLUMN_RTOL = 1e-8
"""Residual of kept columns: answers made of them meet 1e-6 without more work."""

ENTRIES_RTOL = 1e-4
"""Residual of columns of which only the entries between labels are kept."""

CORRECTED_RTOL = 1e-2
"""As `ENTRIES_RTOL`, but where all columns are in memory at once and (D11) corrects the entries."""

_RHS_BYTES = 2**27
_MAX_COLUMNS = 64


@dataclass(slots=True, kw_only=True, eq=False)
class LabeledKernel:
    """Columns of the pseudo-inverse of L at labeled nodes, kept from solve to solve.

    A changed label set costs one solve per new node. If the columns would take more than
    ``column_bytes``, only the entries between labeled nodes are kept.

    Attributes
    ----------
    solver : LaplacianSolver
        Of L, without shift; its ``rtol`` is set here.
    rtol : float
        Residual asked of kept columns; if only entries are kept, `ENTRIES_RTOL` holds.
    nodes : (n_known,) int64
        Nodes whose entries are known, increasing.
    entries : (n_known, n_known) float64
        Symmetric; zero between components.
    slots : (n_known,) int64, or None
        Row of ``rows`` that holds the column of each node; None if no columns are kept.
    rows : (n_slots, n_nodes) float64
        The columns, each contiguous; 0 in slots never used.
    residuals : (n_known,) float64
        True residual of each column, relative to its right-hand side, whose norm is below 1.
    rough : LaplacianSolver or None
        Of L in float32, for columns that are not kept.
    """

    solver: LaplacianSolver
    rtol: float = COLUMN_RTOL
    column_bytes: int = KEPT_BYTES
    nodes: Int64Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    entries: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    slots: Int64Array | None = None
    rows: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    residuals: FloatArray = field(default_factory=lambda: np.zeros(0))
    rough: LaplacianSolver | None = None

    def fits(self, n_labeled: int) -> bool:
        """Whether the columns of this many labels may be kept."""
        return 8 * self.solver.graph.n_nodes * n_labeled <= self.column_bytes

    def has(self, nodes: Int64Array) -> BoolArray:
        """Which of ``nodes`` have a column."""
        known = self.nodes if self.slots is not None else self.nodes[:0]
        return np.isin(nodes, known)

    def n_missing(self, nodes: Int64Array) -> int:
        """How many of ``nodes`` have no column."""
        return int(np.count_nonzero(~self.has(nodes)))

    def between(
        self, nodes: Int64Array, progress: Progress | None, cancelled: Cancelled | None
    ) -> tuple[FloatArray, Status]:
        """Entries between ``nodes`` (increasing), and the status of the solves for new ones.

        What is known of ``nodes`` changes only if all solves converge. Columns of other nodes are
        kept while there is room.
        """
        requested, both = nodes, np.union1d(self.nodes, nodes)
        if self.slots is not None and self.fits(both.size):
            nodes = both
        keeps = self.fits(nodes.size)
        in_single = 4 * self.solver.graph.n_nodes * nodes.size
        is_all_new = not np.isin(nodes, self.nodes).any()
        if not keeps and is_all_new and in_single <= self.column_bytes:
            return self._correct(nodes, progress, cancelled)
        known = np.isin(nodes, self.nodes) & (not keeps or self.slots is not None)
        place = np.searchsorted(self.nodes, nodes[known])
        kernel = np.zeros((nodes.size, nodes.size))
        kernel[np.ix_(known, known)] = self.entries[np.ix_(place, place)]
        residuals = np.zeros(nodes.size)
        residuals[known] = self.residuals[place]
        fresh = np.flatnonzero(~known)
        slots = self._slots(nodes.size, known, place) if keeps else None
        itemsize = 8 if keeps else 4
        for chosen in self._blocks(fresh, itemsize):
            solver = self._fine_solver() if keeps else self._rough_solver(ENTRIES_RTOL)
            solution = self._solve(solver, nodes[chosen], progress, cancelled)
            if solution.status is not Status.CONVERGED:
                at = np.searchsorted(nodes, requested)
                return kernel[np.ix_(at, at)], solution.status
            residuals[chosen] = solution.residual
            if slots is not None:
                self.rows[slots[chosen]] = solution.x.T
            kernel[:, chosen] = solution.x[nodes]
            kernel[chosen, :] = solution.x[nodes].T
        kernel = (kernel + kernel.T) / 2
        self.nodes, self.entries, self.residuals, self.slots = nodes, kernel, residuals, slots
        if slots is None:
            self.rows = np.zeros((0, 0))
        at = np.searchsorted(nodes, requested)
        return kernel[np.ix_(at, at)], Status.CONVERGED

    def _correct(
        self, nodes: Int64Array, progress: Progress | None, cancelled: Cancelled | None
    ) -> tuple[FloatArray, Status]:
        """Entries between ``nodes``, none of them known, from rough columns (D11)."""
        graph = self.solver.graph
        near = graph.near_in_memory
        rows = np.empty((nodes.size, graph.n_nodes), np.float32)
        at_labels, energies = np.empty((2, nodes.size, nodes.size))
        residuals = np.empty(nodes.size)
        for chosen in self._blocks(np.arange(nodes.size), rows.itemsize):
            solver = self._rough_solver(CORRECTED_RTOL)
            solution = self._solve(solver, nodes[chosen], progress, cancelled)
            if solution.status is not Status.CONVERGED:
                return np.zeros((nodes.size, nodes.size)), solution.status
            at_labels[:, chosen], residuals[chosen] = solution.x[nodes], solution.residual
            x = solution.x if near is None else solution.x[near.order]
            product = (graph if near is None else near.graph).laplacian_product(x)
            rows[chosen] = x.T
            done = slice(0, chosen[-1] + 1)
            energies[done, chosen] = rows[done] @ product.astype(np.float32)
            energies[chosen, done] = energies[done, chosen].T
        kernel = at_labels + at_labels.T - (energies + energies.T) / 2  # (D11)
        self.nodes, self.entries, self.residuals, self.slots = nodes, kernel, residuals, None
        self.rows = np.zeros((0, 0))
        return kernel, Status.CONVERGED

    def _blocks(self, places: Int64Array, itemsize: int) -> Iterator[Int64Array]:
        """Blocks of ``places`` whose columns, of ``itemsize`` bytes an entry, fit `_RHS_BYTES`."""
        column = itemsize * max(self.solver.graph.n_nodes, 1)
        width = max(1, min(_MAX_COLUMNS, _RHS_BYTES // column))
        for first in range(0, places.size, width):
            yield places[first : first + width]

    def _solve(
        self,
        solver: LaplacianSolver,
        nodes: Int64Array,
        progress: Progress | None,
        cancelled: Cancelled | None,
    ) -> LinearSolution:
        """Columns of L^+ at ``nodes``."""
        rhs = np.zeros((self.solver.graph.n_nodes, nodes.size), solver.dtype)
        rhs[nodes, np.arange(nodes.size)] = 1.0
        solution = solver.solve(
            rhs,
            project=True,
            phase="kernel",
            progress=progress,
            cancelled=cancelled,
            overwrite=True,
        )
        self.learn(solver.hierarchy)
        return solution

    def learn(self, hierarchy: Hierarchy | None) -> None:
        """Take over the hierarchy that another solver had to make, if there was none yet."""
        if self.solver.hierarchy is None and hierarchy is not None:
            graph, parallel = self.solver.graph, self.solver.parallel
            self.solver = LaplacianSolver(graph, hierarchy=hierarchy, parallel=parallel)

    def _fine_solver(self) -> LaplacianSolver:
        """For columns that are kept."""
        self.solver.rtol = self.rtol
        return self.solver

    def _rough_solver(self, rtol: float) -> LaplacianSolver:
        """For entries alone: float32 suffices and takes half as long."""
        rough = self.rough
        if rough is None or rough.hierarchy is not self.solver.hierarchy:
            rough = self.rough = LaplacianSolver(
                self.solver.graph,
                dtype=np.float32,
                hierarchy=self.solver.hierarchy,
                parallel=self.solver.parallel,
            )
        rough.rtol, rough.max_iter = rtol, self.solver.max_iter
        return rough

    def _slots(self, n_labeled: int, known: BoolArray, place: Int64Array) -> Int64Array:
        """Slots for all labels; those of unlabeled nodes are reused only for lack of room."""
        in_use = np.zeros(0, np.int64) if self.slots is None else self.slots
        n_fresh = n_labeled - int(np.count_nonzero(known))
        free = np.setdiff1d(np.arange(len(self.rows)), in_use)
        if free.size < n_fresh and len(self.rows) >= n_labeled and self.slots is not None:
            free = np.setdiff1d(np.arange(len(self.rows)), self.slots[place])
            self._forget_all_but(place)
            in_use = self.slots
            place = np.arange(place.size)
        if free.size < n_fresh:
            most = self.column_bytes // max(8 * self.solver.graph.n_nodes, 1)
            n_slots = max(n_labeled, min(2 * n_labeled, most))
            rows = np.zeros((n_slots, self.solver.graph.n_nodes))
            if self.slots is not None:
                self._forget_all_but(place)
                rows[: place.size] = self.rows[self.slots]
                self.slots = np.arange(place.size)
                in_use, place = self.slots, np.arange(place.size)
            self.rows = rows
            free = np.arange(in_use.size, n_slots)
        slots = np.empty(n_labeled, np.int64)
        slots[known] = in_use[place]
        slots[~known] = free[:n_fresh]
        return slots

    def _forget_all_but(self, place: Int64Array) -> None:
        self.nodes, self.residuals = self.nodes[place], self.residuals[place]
        self.entries = self.entries[np.ix_(place, place)]
        if self.slots is not None:
            self.slots = self.slots[place]

    def harmonic(
        self, nodes: Int64Array, targets: FloatArray, kappa: float, *, zero_mean: bool
    ) -> "KernelFunction | None":
        """The soft harmonic function (C1) of centered targets; None if it cannot be made.

        That is if columns are not known, or if ``kappa`` is lost beside a singular kernel.
        ``nodes`` are increasing, and ``targets`` are centered per component. ``kappa`` 0 gives the
        hard harmonic function (D1). With ``zero_mean`` f sums to zero on each component
        (Stable-HFS); without, a constant on each component is free (HFS).
        """
        if self.n_missing(nodes) > 0 or self.slots is None:
            return None
        place = np.searchsorted(self.nodes, nodes)
        component = self.solver.graph.component
        of_label = component[nodes]
        weights = np.zeros_like(targets)
        constants = np.zeros((self.solver.graph.n_components, targets.shape[1]))
        for number in np.unique(of_label):
            rows = np.flatnonzero(of_label == number)
            at = place[rows]
            try:
                weights[rows], constants[number] = _coefficients(
                    self.entries[np.ix_(at, at)], targets[rows], kappa, zero_mean=zero_mean
                )
            except np.linalg.LinAlgError:
                return None
        values = self._combine(place, weights)  # G alpha of (D9)
        if not zero_mean:
            values += constants[component]
        # not zero, as columns and symmetrized entries differ slightly
        off_labels = values[nodes] + kappa * weights - targets
        return KernelFunction(
            values=values,
            residual=self.residuals[place] @ np.abs(weights),
            off_labels=column_norms(off_labels),
        )

    def potential(self, nodes: Int64Array, sources: FloatArray) -> "KernelFunction | None":
        """L^+ of ``sources`` (n_labeled, k) at ``nodes``; None if columns are not known."""
        if self.n_missing(nodes) > 0 or self.slots is None:
            return None
        place = np.searchsorted(self.nodes, nodes)
        return KernelFunction(
            values=self._combine(place, sources),
            residual=self.residuals[place] @ np.abs(sources),
            off_labels=np.zeros(sources.shape[1]),
        )

    def _combine(self, place: Int64Array, weights: FloatArray) -> FloatArray:
        """(n_nodes, k) weighted sum of the columns at these places."""
        by_slot = np.zeros((len(self.rows), weights.shape[1]))
        if self.slots is not None:
            by_slot[self.slots[place]] = weights
        return np.ascontiguousarray((by_slot.T @ self.rows).T)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelFunction:
    """A harmonic function made of columns, f = G alpha plus constants, and how exact it is."""

    values: FloatArray  # (n_nodes, k): f
    residual: FloatArray  # (k,) bounds |L f - E_S alpha|, from the columns' residuals
    off_labels: FloatArray  # (k,) |f_S + kappa alpha - targets|; 0 if alpha was given


def accepted(
    bound: FloatArray, rhs: FloatArray, values: FloatArray, rtol: float
) -> LinearSolution | None:
    """The solution in kernel form, None if its residual may be above ``rtol``.

    ``bound``, (k,), bounds the norm of the residual; of ``rhs``, (n, k), only the norms count.
    """
    norms = column_norms(rhs)
    relative = np.divide(bound, norms, out=np.where(bound > 0, np.inf, 0.0), where=norms > 0)
    if not (relative <= rtol).all():
        return None
    return LinearSolution(
        x=values, status=Status.CONVERGED, residual=relative, n_iter=0, preconditioner="kernel"
    )


def _coefficients(
    kernel: FloatArray, targets: FloatArray, kappa: float, *, zero_mean: bool
) -> tuple[FloatArray, FloatArray]:
    """Alpha and b of (K + kappa I) alpha + 1 b = targets with sum alpha = 0, or with b = 0."""
    n_labeled = len(kernel)
    system = kernel + kappa * np.eye(n_labeled)
    if zero_mean:
        return np.linalg.solve(system, targets).astype(np.float64), np.zeros(targets.shape[1])
    ones = np.ones((n_labeled, 1))
    bordered = np.block([[system, ones], [ones.T, np.zeros((1, 1))]])
    right = np.vstack([targets, np.zeros((1, targets.shape[1]))])
    solved = np.linalg.solve(bordered, right).astype(np.float64)
    return solved[:-1], solved[-1]
