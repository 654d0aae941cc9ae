"""Steps of the random walk on a graph, for a block of functions, in compiled threads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, IntArray, frozen_all
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.laplacian_products import class_mean_rows, mean_rows
from peewit.solvers.row_ranges import Parallel, RowRanges


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeighborMeans:
    """D^-1 A in float32; a walk from an isolated node goes nowhere.

    ``indptr``, ``indices`` and ``weight`` are A as CSR, or D^-1 A if weights are out of range.
    """

    indptr: IntArray
    indices: IntArray
    weight: Float32Array
    inverse_degree: Float32Array  # (n_nodes,) diagonal of D^-1, or ones; 0 for isolated nodes
    no_shift: Float32Array  # (n_nodes,) zeros
    ranges: RowRanges

    @classmethod
    def of(cls, graph: Graph, parallel: Parallel) -> "NeighborMeans":
        """The walk along edges in proportion to their weights.

        It shares the graph's float32 weights, unless they are out of range.
        """
        adjacency, degree = graph.adjacency, graph.degree
        if graph.fits_single:
            weight, scale = graph.weight_in_single, degree
        else:
            of_entries = np.repeat(degree, np.diff(adjacency.indptr))
            weight = (adjacency.data / of_entries).astype(np.float32)
            scale = (degree > 0).astype(np.float64)
        inverse = np.divide(1.0, scale, out=np.zeros(scale.size), where=scale > 0)
        return cls(
            indptr=adjacency.indptr,
            indices=adjacency.indices,
            weight=weight,
            inverse_degree=inverse.astype(np.float32),
            no_shift=np.zeros(graph.n_nodes, np.float32),
            ranges=RowRanges.of(adjacency.indptr, parallel),
        )

    def step(self, block: Float32Array, out: Float32Array) -> None:
        """Fill ``out`` with the means of ``block`` over the targets of one step."""
        matrix: tuple[Any, Any, Any, Any, Any] = frozen_all(
            self.indptr, self.indices, self.weight, self.inverse_degree, self.no_shift
        )
        self.ranges.run(lambda a, b: mean_rows(*matrix, block, out, a, b))

    def step_from_classes(self, classes: IntArray, out: Float32Array) -> None:
        """`step` from the indicators of ``classes``, (n_nodes,), each a column of ``out``."""
        matrix: tuple[Any, Any, Any, Any] = frozen_all(
            self.indptr, self.indices, self.weight, self.inverse_degree
        )
        self.ranges.run(lambda a, b: class_mean_rows(*matrix, classes, out, a, b))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeansByPasses:
    """Steps of the walk on a graph that is not stored: a product with its Laplacian each."""

    product: Callable[[FloatArray], FloatArray]
    degree: FloatArray  # (n_nodes,)

    def step(self, block: Float32Array, out: Float32Array) -> None:
        """As `NeighborMeans.step`."""
        exact, degree = block.astype(np.float64), self.degree[:, None]
        along = degree * exact - self.product(exact)
        np.divide(along, degree, out=along, where=degree > 0)
        along[self.degree == 0] = 0.0
        out[...] = along
