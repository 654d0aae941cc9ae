"""The iterated Laplacian L^p of a graph, normalized or not, by products alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from peewit.solvers.arrays import AnyArray, RealArray, frozen
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.laplacian_products import diagonal_rows, vector_rows
from peewit.solvers.row_ranges import Parallel, RowRanges

LaplacianName = Literal["normalized", "combinatorial"]
_ROUNDING = 16
_LEAST_WORK = 1 << 21
"""Products with fewer entries times columns are not divided among threads."""

LAPLACIANS: tuple[LaplacianName, ...] = ("normalized", "combinatorial")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IteratedLaplacian:
    """L^power in one floating type; build it with `of_graph` (A2), (A3).

    ``indptr``, ``indices`` and ``weight`` are D - L as CSR: the adjacency matrix, scaled for a
    normalized Laplacian.
    """

    indptr: AnyArray
    indices: AnyArray
    weight: RealArray
    diagonal: RealArray  # (n_nodes,) of L; 0 at isolated nodes
    power: int
    ranges: RowRanges
    ignores_constants: bool  # L 1 = 0: false for the normalized Laplacian

    @classmethod
    def of_graph(
        cls,
        graph: Graph,
        *,
        name: LaplacianName = "normalized",
        power: int = 1,
        dtype: Any = np.float64,
        parallel: Parallel = map,
    ) -> "IteratedLaplacian":
        """L_sym^power = (D^{-1/2} L D^{-1/2})^power, or L^power."""
        adjacency = graph.adjacency
        if name == "normalized":
            root = np.sqrt(graph.degree)
            inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
            counts = np.diff(adjacency.indptr)
            weight = adjacency.data * np.repeat(inverse, counts) * inverse[adjacency.indices]
            diagonal = (root > 0).astype(np.float64)
        else:
            weight, diagonal = adjacency.data, graph.degree
        return cls(
            indptr=adjacency.indptr,
            indices=adjacency.indices,
            weight=frozen(weight.astype(dtype, copy=False)),
            diagonal=frozen(diagonal.astype(dtype, copy=False)),
            power=power,
            ranges=RowRanges.of(adjacency.indptr, parallel),
            ignores_constants=name == "combinatorial",
        )

    @property
    def n_nodes(self) -> int:
        """Number of rows."""
        return int(self.diagonal.size)

    def product(self, block: RealArray) -> RealArray:
        """L^power @ block as a new array, (n_nodes, n_columns), in the operator's dtype."""
        current = np.ascontiguousarray(block, self.weight.dtype)
        for _ in range(self.power):
            current = self._once(current)
        return current

    def rounded(self, dtype: Any) -> "IteratedLaplacian":
        """The same operator in another floating type."""
        return replace(
            self,
            weight=frozen(self.weight.astype(dtype, copy=False)),
            diagonal=frozen(self.diagonal.astype(dtype, copy=False)),
        )

    def serial(self, dtype: Any) -> "IteratedLaplacian":
        """The same in another floating type, for products inside tasks that run in threads."""
        return replace(self.rounded(dtype), ranges=replace(self.ranges, parallel=map))

    def of_ones(self) -> RealArray:
        """L^power @ 1, (n_nodes, 1), without the entries that are only rounding.

        It is exactly 0 where L 1 = 0, and where neighbors have equal degrees.
        """
        ones = np.ones((self.n_nodes, 1))
        if self.ignores_constants:
            return np.zeros_like(ones)
        product = self.product(ones)
        rounding = _ROUNDING * 2.0**self.power * float(np.finfo(product.dtype).eps)
        return np.where(np.abs(product) > rounding, product, 0.0)

    def _once(self, block: RealArray) -> RealArray:
        out = np.empty_like(block)
        matrix = self.indptr, self.indices, self.weight
        fill: Callable[[int, int], None]
        if block.shape[1] == 1:
            fill = partial(vector_rows, *matrix, self.diagonal, block[:, 0], out[:, 0])
        else:
            fill = partial(diagonal_rows, *matrix, self.diagonal, block, out)
        if self.weight.size * block.shape[1] < _LEAST_WORK:
            fill(0, self.n_nodes)
        else:
            self.ranges.run(fill)
        return out
