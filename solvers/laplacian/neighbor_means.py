"""Steps of the random walk on a graph, for a block of functions, in compiled threads."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from peewit.solvers.arrays import Float32Array, IntArray, frozen_all
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.laplacian_products import mean_rows
from peewit.solvers.row_ranges import Parallel, RowRanges


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeighborMeans:
    """D^-1 A in float32; from an isolated node the walk goes nowhere.

    Attributes
    ----------
    indptr, indices, weight : CSR arrays
        Rows sum to 1, but those of isolated nodes.
    no_shift : (n_nodes,) float32
        Zeros.
    ranges : RowRanges
        Runs the parts.
    """

    indptr: IntArray
    indices: IntArray
    weight: Float32Array
    no_shift: Float32Array
    ranges: RowRanges

    @classmethod
    def of(cls, graph: Graph, parallel: Parallel) -> "NeighborMeans":
        """The walk that leaves along edges in the proportion of their weights."""
        adjacency = graph.adjacency
        degree = np.repeat(graph.degree, np.diff(adjacency.indptr))
        return cls(
            indptr=adjacency.indptr,
            indices=adjacency.indices,
            weight=(adjacency.data / degree).astype(np.float32),
            no_shift=np.zeros(graph.n_nodes, np.float32),
            ranges=RowRanges.of(adjacency.indptr, parallel),
        )

    def step(self, block: Float32Array, out: Float32Array) -> None:
        """Fill ``out`` with the means of ``block`` over where one step leads."""
        matrix: tuple[Any, Any, Any, Any] = frozen_all(
            self.indptr, self.indices, self.weight, self.no_shift
        )
        self.ranges.run(lambda a, b: mean_rows(*matrix, block, out, a, b))
