"""The matrix scale * L + diag(shift) of a graph, and the projection out of its null space.

No solving here: products, diagonal, component means.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from peewit.solvers.arrays import (
    AnyArray,
    BoolArray,
    FloatArray,
    Int32Array,
    RealArray,
    frozen,
    frozen_all,
)
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.laplacian_products import (
    IN_REGISTERS,
    column_dots,
    component_sums,
    diagonal_rows,
    laplacian_rows,
    subtract_by_component,
    vector_rows,
)
from peewit.solvers.row_ranges import Parallel, RowRanges

_FEW_COMPONENTS = 256
_LEAST_IN_SINGLE, _MOST_IN_SINGLE = 1e-15, 1e15  # so that squares and inverses are in range


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShiftedLaplacian:
    """M = scale * L + diag(shift) in one floating type; build it with `of_graph`.

    Attributes
    ----------
    indptr, indices, weight : CSR arrays
        The scaled adjacency matrix, ``weight`` in the operator's dtype.
    diagonal, shift : (n_nodes,) in the operator's dtype
        diag(M) and the shift.
    projected : (n_components,) bool
        Components on which vectors are kept at zero sum: those without any shift, on which M is
        singular, or all of them with ``zero_mean``.
    projects_products : bool
        Whether products leave the space of zero sums and must be projected back.
    graph : Graph or None
        The graph whose weights these are; None if they were scaled.
    """

    indptr: AnyArray
    indices: AnyArray
    weight: RealArray
    scale: float
    diagonal: RealArray
    shift: RealArray
    component: Int32Array  # (n_nodes,) of the graph
    component_size: FloatArray  # (n_components,)
    ranges: RowRanges
    projected: BoolArray
    projects_products: bool
    graph: Graph | None = None

    @classmethod
    def of_graph(
        cls,
        graph: Graph,
        *,
        scale: float,
        shift: FloatArray,
        zero_mean: bool,
        dtype: Any,
        parallel: Parallel = map,
    ) -> "ShiftedLaplacian":
        """The operator of ``graph``, from arguments that the caller has checked."""
        shifted = np.zeros(graph.n_components, dtype=bool)
        shifted[graph.component[shift > 0]] = True
        weight: RealArray = graph.adjacency.data
        if scale != 1.0:
            weight = (weight * scale).astype(dtype, copy=False)
        elif dtype == np.float32:
            weight = graph.weight_in_single
        return cls(
            indptr=graph.adjacency.indptr,
            indices=graph.adjacency.indices,
            weight=frozen(weight.astype(dtype, copy=False)),
            scale=scale,
            diagonal=frozen((scale * graph.degree + shift).astype(dtype, copy=False)),
            shift=frozen(shift.astype(dtype, copy=False)),
            component=graph.component,
            component_size=graph.component_sizes().astype(np.float64),
            ranges=RowRanges.of(graph.adjacency.indptr, parallel),
            projected=np.ones_like(shifted) if zero_mean else ~shifted,
            projects_products=zero_mean and bool(shifted.any()),
            graph=graph if scale == 1.0 else None,
        )

    def in_single(self) -> "ShiftedLaplacian | None":
        """The operator in float32; None if it is out of the range of float32."""
        if not _LEAST_IN_SINGLE <= self.diagonal.max(initial=1.0) <= _MOST_IN_SINGLE:
            return None
        weight = self.weight if self.graph is None else self.graph.weight_in_single
        return replace(
            self,
            weight=frozen(weight.astype(np.float32, copy=False)),
            diagonal=frozen(self.diagonal.astype(np.float32)),
            shift=frozen(self.shift.astype(np.float32)),
        )

    @property
    def n_nodes(self) -> int:
        """Number of rows."""
        return int(self.diagonal.size)

    @property
    def dtype(self) -> Any:
        """Floating type of the products."""
        return self.weight.dtype

    def product(self, block: RealArray, out: RealArray) -> None:
        """Fill ``out`` with M @ block, projected if `projects_products`."""
        self.ranges.run(self._product_rows(block, out), self._work(block))
        if self.projects_products:
            self.project(out)

    def product_and_dots(self, block: RealArray, out: RealArray) -> FloatArray:
        """`product`, and (n_columns,) float64 the dot product of each column with its image."""
        rows = self._product_rows(block, out)

        def dots(start: int, stop: int) -> FloatArray:
            rows(start, stop)
            products: FloatArray = column_dots(block[start:stop], out[start:stop])
            return products

        if self.projects_products:
            self.product(block, out)
            return self.dots(block, out)
        total: FloatArray = np.add.reduce(self.ranges.run(dots, self._work(block)))
        return total

    def dots(self, left: RealArray, right: RealArray) -> FloatArray:
        """(n_columns,) dot products of column pairs; the ranges' parts are added in order."""
        parts = self.ranges.run(lambda a, b: column_dots(left[a:b], right[a:b]), 2 * left.size)
        total: FloatArray = np.add.reduce(parts)
        return total

    def _work(self, block: RealArray) -> int:
        """Work of a product, in the unit of `RowRanges.run`."""
        return self.weight.size * int(block.shape[1])

    def _product_rows(self, block: RealArray, out: RealArray) -> Callable[[int, int], None]:
        """A function that fills rows ``start .. stop - 1`` of ``out`` with M @ block."""
        matrix: tuple[Any, Any, Any] = frozen_all(self.indptr, self.indices, self.weight)
        n_columns = block.shape[1]
        if self.dtype == np.float32 and n_columns == 1:
            return partial(vector_rows, *matrix, self.diagonal, block[:, 0], out[:, 0])
        if self.dtype == np.float32 and n_columns not in IN_REGISTERS:
            return partial(diagonal_rows, *matrix, self.diagonal, block, out)
        return partial(laplacian_rows, *matrix, self.shift, block, out)

    def component_sums(self, block: RealArray) -> FloatArray:
        """(n_components, n_columns) column sums over every component."""

        def summed(start: int, stop: int) -> FloatArray:
            sums = np.zeros((self.projected.size, block.shape[1]))
            component_sums(block[start:stop], self.component[start:stop], sums)
            return sums

        if self.projected.size > _FEW_COMPONENTS:  # one block of sums for all ranges
            return summed(0, self.n_nodes)
        total: FloatArray = np.add.reduce(self.ranges.run(summed, 2 * block.size))
        return total

    def project(self, block: RealArray) -> None:
        """Subtract in place the component means on the projected components."""
        if not self.projected.any():
            return
        means = self.component_sums(block) / self.component_size[:, None]
        means[~self.projected] = 0.0
        component = self.component
        self.ranges.run(
            lambda a, b: subtract_by_component(block[a:b], component[a:b], means), 2 * block.size
        )
