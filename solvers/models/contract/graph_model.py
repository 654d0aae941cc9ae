"""Models of a graph alone: what they keep between solves, and what they prepare ahead."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array, IntArray
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Cancelled, Watch
from peewit.solvers.laplacian.multigrid.amended_multigrid import AmendedCycle
from peewit.solvers.laplacian.multigrid.hierarchy import Hierarchy
from peewit.solvers.laplacian.multigrid.multigrid import Multigrid
from peewit.solvers.laplacian.solver import LaplacianSolver, LinearSolution
from peewit.solvers.models.contract.laplacian_kernel import LabeledKernel
from peewit.solvers.models.contract.model import KEPT_BYTES, Model, refuse_features
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import Solution, grown
from peewit.solvers.status import Status

_AHEAD_COLUMNS = 8
"""Columns per call of `work_ahead`: what a task that arrives meanwhile may have to wait for."""


@dataclass(slots=True, kw_only=True, eq=False)
class PreparedGraph:
    """What models of a graph alone keep between solves; it grows with the labels seen."""

    graph: Graph
    kernel: LabeledKernel  # for the choice of the penalty and for warm solves
    parallel: Parallel = map  # runs the parts of products
    n_warm_columns: int = 0  # columns that warm solves without the kernel have solved for
    # labeled nodes of the last warm solve without the kernel
    wanted: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    # last solutions that another model builds on
    last: dict[type[Model], Solution] = field(default_factory=dict)
    # of the last solver with a shift; the next shift may differ by one label only
    cycle: Multigrid | AmendedCycle | None = None

    @classmethod
    def of_graph(
        cls, graph: Graph, parallel: Parallel = map, kept_bytes: int = KEPT_BYTES
    ) -> "PreparedGraph":
        """The graph and an unshifted solver on it, nothing more."""
        solver = LaplacianSolver(graph, parallel=parallel)
        kernel = LabeledKernel(solver=solver, column_bytes=kept_bytes)
        return cls(graph=graph, kernel=kernel, parallel=parallel)

    def solver(self, *, scale: float, shift: FloatArray, **settings: Any) -> LaplacianSolver:
        """A solver that shares the graph's hierarchy and, if it can, the last solver's cycle."""
        return LaplacianSolver(
            self.graph,
            scale=scale,
            shift=shift,
            hierarchy=self.kernel.solver.hierarchy,
            cycle_before=self.cycle,
            parallel=self.parallel,
            **settings,
        )

    def solved(
        self, solver: LaplacianSolver, rhs: FloatArray, start: FloatArray | None, watch: Watch
    ) -> LinearSolution:
        """The solver's solution for ``rhs``, which is overwritten.

        The solver's hierarchy is kept, and its cycle for the next solver. Solutions have error
        bounds where the solver is blind, that is where residuals do not tell how good they are.
        """
        solution = solver.solve(
            rhs.copy() if solver.is_blind else rhs,
            start,
            project=True,
            phase="scores",
            progress=watch.progress,
            cancelled=watch.cancelled,
            overwrite=True,
        )
        self.cycle = solver.cycle
        self.kernel.learn(solver.hierarchy)
        if solver.is_blind and solution.bound is None:
            return solver.bounded(solution, rhs)
        return solution

    def near_in_memory(self) -> tuple[Graph, IntArray]:
        """The graph in a numbering that is quick to multiply with, and each number's node.

        The numbering is that of the hierarchy if there is one. Weights may be in float32.
        """
        hierarchy, near = self.kernel.solver.hierarchy, self.graph.near_in_memory
        if hierarchy is not None:
            return hierarchy.graph, hierarchy.order
        if near is None:
            return self.graph, np.arange(self.graph.n_nodes)
        return near.in_single or near.graph, near.order

    def has_columns(
        self, nodes: Int64Array, n_columns: int, *, is_warm: bool, watch: Watch
    ) -> bool:
        """Whether the kernel has a column for each node, after solving for missing ones if cheap.

        Missing columns are solved for if they are at most the ``n_columns`` of the answer, or at
        most the columns that warm solves have cost so far. None are where weights lie far apart
        (the solver is blind), since residuals do not tell there how good they are.
        """
        if self.kernel.solver.eliminates or self.kernel.solver.is_blind:
            return False
        n_missing = self.kernel.n_missing(nodes)
        is_worth_it = n_missing <= max(n_columns, self.n_warm_columns)
        if not (self.kernel.fits(nodes.size) and is_worth_it):
            if is_warm:
                self.n_warm_columns += n_columns
                self.wanted = nodes
            return False
        if n_missing:
            _, status = self.kernel.between(nodes, watch.progress, watch.cancelled)
            return status is Status.CONVERGED
        return True

    def work_ahead(self, cancelled: Cancelled) -> bool:
        """Solve for a few columns that the next warm solve could use; False if it has them all."""
        if not self.kernel.fits(self.wanted.size):
            return False
        missing = self.wanted[~self.kernel.has(self.wanted)]
        if missing.size == 0:
            return False
        known = self.wanted[self.kernel.has(self.wanted)]
        nodes = np.union1d(known, missing[:_AHEAD_COLUMNS])
        _, status = self.kernel.between(nodes, None, cancelled)
        return status is Status.CONVERGED


class GraphModel(Model):
    """A model prepared by a `PreparedGraph`, which all such models can share."""

    preparation: ClassVar[str] = "graph"

    @one_blas_thread
    def prepare(
        self,
        graph: Graph,
        features: Any = None,
        *,
        parallel: Parallel = map,
        kept_bytes: int = KEPT_BYTES,
    ) -> PreparedGraph:
        """The graph and an unshifted solver on it; little is paid before labels come.

        Raises ValueError if ``features`` is not None.
        """
        refuse_features(type(self).__name__, features)
        return PreparedGraph.of_graph(graph, parallel, kept_bytes)

    def bequest(self, prepared: PreparedGraph) -> Mapping[Any, Any]:
        """The last solutions, and whether Jacobi's preconditioner did not suffice."""
        return {**prepared.last, Hierarchy: prepared.kernel.solver.hierarchy is not None}

    def inherit(self, prepared: PreparedGraph, left: Mapping[Any, Any]) -> None:
        """Grow the solutions to new nodes; build a hierarchy at once if one was needed before."""
        graph = prepared.graph
        for kind, last in left.items():
            if kind is not Hierarchy:
                prepared.last[kind] = grown(last, graph.adjacency)
        if left.get(Hierarchy):
            prepared.kernel.solver = LaplacianSolver(
                graph, hierarchy=Hierarchy.of_graph(graph), parallel=prepared.parallel
            )

    @one_blas_thread
    def work_ahead(self, prepared: PreparedGraph, *, cancelled: Cancelled) -> bool:
        """Solve for kernel columns between labels, for warm solves."""
        return prepared.work_ahead(cancelled)
