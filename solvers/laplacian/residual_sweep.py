"""Sweeps: a block moved along the residual of a system, row by row, in compiled threads.

One is the smoother of multigrid; with other factors they are steps of a random walk, or of heat.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from peewit.solvers.arrays import FloatArray, IntArray, RealArray, frozen_all
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.laplacian_products import multiply_rows
from peewit.solvers.kernels.multigrid import relax_rows, residual_rows
from peewit.solvers.row_ranges import Parallel, RowRanges


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """block + factor (rhs - (L + diag(shift)) block), for one matrix and one factor per row.

    Attributes
    ----------
    indptr, indices, weight : CSR arrays
        The graph of L.
    shift, factor : (n_nodes,)
        In the type of ``weight``, which blocks have as well.
    ranges : RowRanges
        Runs the parts.
    """

    indptr: IntArray
    indices: IntArray
    weight: RealArray
    shift: RealArray
    factor: RealArray
    ranges: RowRanges

    @classmethod
    def of_graph(cls, graph: Graph, factor: FloatArray, parallel: Parallel) -> "Sweep":
        """With L alone, in float64."""
        adjacency = graph.adjacency
        return cls(
            indptr=adjacency.indptr,
            indices=adjacency.indices,
            weight=adjacency.data.astype(np.float64, copy=False),
            shift=np.zeros(graph.n_nodes),
            factor=factor,
            ranges=RowRanges.of(adjacency.indptr, parallel),
        )

    @classmethod
    def of_walk(cls, graph: Graph, parallel: Parallel) -> "Sweep":
        """Without a right-hand side one step of the random walk D^-1 A, in float32.

        From an isolated node it goes nowhere.
        """
        adjacency = graph.adjacency
        degree = np.repeat(graph.degree, np.diff(adjacency.indptr))
        return cls(
            indptr=adjacency.indptr,
            indices=adjacency.indices,
            weight=(adjacency.data / degree).astype(np.float32),
            shift=np.zeros(graph.n_nodes, np.float32),
            factor=np.ones(graph.n_nodes, np.float32),
            ranges=RowRanges.of(adjacency.indptr, parallel),
        )

    @property
    def n_nodes(self) -> int:
        """Rows of a block."""
        return self.shift.size

    def start(self, rhs: RealArray, out: RealArray) -> None:
        """Fill ``out`` with one sweep from zero."""
        self.ranges.run(lambda a, b: multiply_rows(rhs, self.factor, out, a, b))

    def residual(self, block: RealArray, rhs: RealArray, out: RealArray) -> None:
        """Fill ``out`` with the right-hand side minus the matrix times the block."""
        matrix: tuple[Any, Any, Any, Any] = frozen_all(
            self.indptr, self.indices, self.weight, self.shift
        )
        self.ranges.run(lambda a, b: residual_rows(*matrix, block, rhs, out, a, b))

    def relaxed(self, block: RealArray, rhs: RealArray, out: RealArray) -> None:
        """Fill ``out`` with the block after one more sweep."""
        matrix: tuple[Any, Any, Any, Any, Any] = frozen_all(
            self.indptr, self.indices, self.weight, self.shift, self.factor
        )
        self.ranges.run(lambda a, b: relax_rows(*matrix, block, rhs, out, a, b))
