"""Models of a graph alone: what they keep of it between solves, and what they prepare ahead."""

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
"""Columns solved for at once while nobody waits: what a task that comes in between may cost."""


@dataclass(slots=True, kw_only=True, eq=False)
class PreparedGraph:
    """What the models of a graph alone keep of it; it grows with the labels seen.

    Attributes
    ----------
    graph : Graph
        The graph itself.
    kernel : LabeledKernel
        For the choice of the penalty and for warm solves.
    parallel : callable
        Runs the parts of products.
    n_warm_columns : int
        Columns that warm solves without the kernel have cost so far.
    wanted : (n_labeled,) int64
        Labeled nodes of the last warm solve that had to do without the kernel.
    last : dict of Solution by type of Model
        The last solution of a model that another one makes something else of.
    cycle : Multigrid, AmendedCycle or None
        Of the last solver with a shift: the next one's may differ by one label only.
    """

    graph: Graph
    kernel: LabeledKernel
    parallel: Parallel = map
    n_warm_columns: int = 0
    wanted: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))
    last: dict[type[Model], Solution] = field(default_factory=dict)
    cycle: Multigrid | AmendedCycle | None = None

    @classmethod
    def of_graph(
        cls, graph: Graph, parallel: Parallel = map, kept_bytes: int = KEPT_BYTES
    ) -> "PreparedGraph":
        """Nothing but the graph and an unshifted solver on it."""
        solver = LaplacianSolver(graph, parallel=parallel)
        kernel = LabeledKernel(solver=solver, column_bytes=kept_bytes)
        return cls(graph=graph, kernel=kernel, parallel=parallel)

    def solver(self, *, scale: float, shift: FloatArray, **settings: Any) -> LaplacianSolver:
        """A solver on the graph that shares its hierarchy, and the last one's cycle if it can."""
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
        """The scores of a solver on the graph; ``rhs`` is overwritten.

        The hierarchy that the solver had to make is kept, and its cycle for the next one. Where
        residuals are blind scores have error bounds.
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
        """The graph in a numbering that is quick to multiply with, and the node each was.

        That of the hierarchy, where there is one; weights may be in float32.
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
        """Whether the kernel has a column for each node, or could be given them for little.

        Missing columns are solved for when they are as few as the ``n_columns`` of the answer, or
        once warm solves have cost as many; none where weights lie far apart,
        since residuals do not tell there how good they are.
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
        """Solve for some columns that the next warm solve could use; False when it has them all."""
        if not self.kernel.fits(self.wanted.size):
            return False
        missing = self.wanted[~self.kernel.has(self.wanted)]
        if missing.size == 0:
            return False
        known = self.wanted[self.kernel.has(self.wanted)]
        nodes = np.union1d(known, missing[:_AHEAD_COLUMNS])
        _, status = self.kernel.between(nodes, None, cancelled)
        return status is Status.CONVERGED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bequest:
    """What is known of a graph before it is solved, from the one that it grew from.

    Attributes
    ----------
    last : dict of Solution by type of Model
        As in `PreparedGraph`.
    needs_hierarchy : bool
        Whether Jacobi did not suffice.
    """

    last: dict[type[Model], Solution]
    needs_hierarchy: bool


class GraphModel(Model):
    """A model that is prepared by a `PreparedGraph`; all of them can use the same one."""

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

        Raises
        ------
        ValueError
            ``features`` is not None.
        """
        refuse_features(type(self).__name__, features)
        return PreparedGraph.of_graph(graph, parallel, kept_bytes)

    def bequest(self, prepared: PreparedGraph) -> Bequest:
        """The last solutions, and whether there was need of a hierarchy."""
        return Bequest(
            last=prepared.last, needs_hierarchy=prepared.kernel.solver.hierarchy is not None
        )

    def inherit(self, prepared: PreparedGraph, bequest: Bequest | None) -> None:
        """Grow the solutions to the nodes that came since; contract the graph without a trial."""
        if bequest is None:
            return
        graph = prepared.graph
        prepared.last = {kind: grown(each, graph.adjacency) for kind, each in bequest.last.items()}
        if bequest.needs_hierarchy:
            prepared.kernel.solver = LaplacianSolver(
                graph, hierarchy=Hierarchy.of_graph(graph), parallel=prepared.parallel
            )

    @one_blas_thread
    def work_ahead(self, prepared: PreparedGraph, *, cancelled: Cancelled) -> bool:
        """Columns of the kernel between labels, for warm solves."""
        return prepared.work_ahead(cancelled)
