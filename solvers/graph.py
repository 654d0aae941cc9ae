"""Graph: an immutable undirected weighted graph in CSR form.

Weights are conductances. Parallel edges and both orientations of an edge sum, self-loops are
dropped (they do not enter the Laplacian), isolated nodes stay. Components are found once.
"""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from peewit.solvers.arrays import (
    AnyArray,
    Float32Array,
    FloatArray,
    Int32Array,
    Int64Array,
    IntArray,
    RealArray,
    checked_nodes,
    frozen,
    index_dtype,
)
from peewit.solvers.edge_merging import Buckets, EdgeChunk, WeightedEdges, merge_into, row_starts
from peewit.solvers.interchange import EdgeTable
from peewit.solvers.kernels.adjacency import (
    count_sorted,
    label_components,
    mirror_rows,
    place_sorted,
    row_sums,
    spread_rows,
)
from peewit.solvers.kernels.components import join_edges, number_components
from peewit.solvers.kernels.laplacian_products import laplacian_rows
from peewit.solvers.kernels.multigrid import renumber_rows
from peewit.solvers.late_modules import LateModule
from peewit.solvers.memory_order import memory_order
from peewit.solvers.scratch_arrays import scratch_array

sp = LateModule("scipy.sparse")

LEAST_ORDERED = 1 << 15
"""Blocks of graphs with fewer nodes are in the cache in any order."""

_SYMMETRY_RTOL = 1e-9
_DECADES = 1e4
_LEAST_IN_SINGLE, _MOST_IN_SINGLE = 1e-25, 1e25
"""Weights whose sums and quotients are in the range of float32, too."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Graph(EdgeTable):
    """An undirected weighted graph; build it with `from_edges` or `from_adjacency`.

    Attributes
    ----------
    adjacency : (n_nodes, n_nodes) scipy.sparse.csr_array
        Symmetric, float64 (float32 on request), sorted indices (int32 while they fit), zero
        diagonal, no stored zeros. Its arrays are read-only.
    degree : (n_nodes,) float64
        Row sums of ``adjacency``, summed in float64.
    component : (n_nodes,) int32
        Number of the connected component of each node, 0 .. n_components - 1.
    n_components : int
        An isolated node is a component.
    """

    adjacency: Any
    degree: FloatArray
    component: Int32Array
    n_components: int

    def __repr__(self) -> str:
        return (
            f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}, "
            f"n_components={self.n_components})"
        )

    def _matrix(self) -> Any:
        return self.adjacency

    def _facts(self) -> dict[str, Any]:
        return {"nodes": self.n_nodes, "edges": self.n_edges, "components": self.n_components}

    @classmethod
    def from_edges(
        cls,
        u: npt.ArrayLike,
        v: npt.ArrayLike,
        weight: npt.ArrayLike,
        *,
        n_nodes: int,
        dtype: npt.DTypeLike = np.float64,
    ) -> "Graph":
        """Graph of the edges (u, v, weight) on the nodes 0 .. n_nodes - 1.

        Parallel records and both orientations sum; ``u == v`` is dropped. Weights are conductances,
        finite and > 0, kept as ``dtype``, float64 or float32. TypeError if ids are not integers;
        ValueError for unequal lengths, an id outside [0, n_nodes), or a weight out of range.

        Notes
        -----
        As `from_records`. Contiguous int32 or int64 ids and float32 or float64 weights are read
        where they are.
        """
        edges = WeightedEdges(u=np.asarray(u), v=np.asarray(v), weight=np.asarray(weight))
        return cls.from_records([edges], n_nodes=n_nodes, dtype=dtype)

    @classmethod
    def from_records(
        cls, chunks: Iterable[EdgeChunk], *, n_nodes: int, dtype: npt.DTypeLike = np.float64
    ) -> "Graph":
        """Graph of edge records with conductances ``weight / keep_probability``.

        Chunks are iterated twice. Parallel records and both orientations sum; ``u == v`` and
        records with a ``keep_probability`` of 0 are dropped. Errors are those of `from_edges`.

        Notes
        -----
        Linear in records and nodes. Parallel records are summed in float64, in the order of the
        records, and rounded once to ``dtype``; a float32 graph rounds the records before, too.
        Memory beyond the result: 2 bytes for each record and 24 for each node, plus scratch for the
        records of a few rows, and while records are parallel as much as they would take unmerged.
        """
        n_nodes = operator.index(n_nodes)  # numpy's integers are not all that int is
        if n_nodes < 0:
            raise ValueError(f"n_nodes must be >= 0, got {n_nodes}")
        if np.dtype(dtype) not in (np.float64, np.float32):
            raise ValueError(f"dtype must be float64 or float32, got {np.dtype(dtype)}")
        buckets = Buckets.of_records(chunks, n_nodes)
        n_records = buckets.n_records
        ids = index_dtype(2 * n_records, n_nodes)
        # Memory that is not written to costs nothing, so there is room for both triangles.
        indices, weights = np.empty(2 * n_records, ids), np.empty(2 * n_records, dtype)
        counts = merge_into(chunks, buckets, 0, buckets.counts.size, indices, weights)
        n_edges = int(counts.sum())
        indptr = np.empty(n_nodes + 1, ids)
        spread_rows(counts, indptr, indices, weights)
        mirror_rows(indptr, indptr[:-1].copy(), indices, weights)
        if n_edges < n_records:
            for array in (indices, weights):
                array.resize(2 * n_edges, refcheck=False)
        return cls._of_rows(indptr, indices, weights)

    @classmethod
    def from_sorted_edges(
        cls,
        batches: Iterable[tuple[AnyArray, AnyArray, RealArray]],
        *,
        n_nodes: int,
        scratch: Path | None = None,
    ) -> "Graph":
        """Graph of merged edges as `edges` lists them, in one linear pass without sorting.

        Batches (u, v, weight) are integers and float64, ``u < v``, sorted by u, then v, over all
        batches; they are iterated twice. ``scratch`` is a directory for a large adjacency matrix,
        see `scratch_array`. ValueError if an edge is out of order, has ``u >= v`` or an id outside
        [0, n_nodes), or a weight that is not finite and > 0. Memory beyond the result: 24 bytes for
        each node.
        """
        if n_nodes < 0:
            raise ValueError(f"n_nodes must be >= 0, got {n_nodes}")
        lower, upper = np.zeros((2, n_nodes), index_dtype(0, n_nodes))
        last, n_before = np.full(2, -1, np.int64), 0
        for u, v, weight in batches:
            edge = count_sorted(u, v, weight, n_nodes, last, lower, upper)
            if edge >= 0:
                raise ValueError(
                    f"edges must have 0 <= u < v < {n_nodes} in rising order and a finite "
                    f"weight > 0, got ({u[edge]}, {v[edge]}, {weight[edge]}) in row "
                    f"{n_before + edge}"
                )
            n_before += u.size
        ids = index_dtype(2 * n_before, n_nodes)
        indptr: IntArray = row_starts(lower + upper).astype(ids)
        indices = scratch_array(2 * n_before, ids, scratch)
        weights = scratch_array(2 * n_before, np.float64, scratch)
        lower_cursor, upper_cursor = indptr[:-1].copy(), (indptr[:-1] + lower).astype(ids)
        for u, v, weight in batches:
            place_sorted(u, v, weight, lower_cursor, upper_cursor, indices, weights)
        return cls._of_rows(indptr, indices, weights)

    @classmethod
    def from_adjacency(cls, matrix: Any) -> "Graph":
        """Graph of a symmetric adjacency matrix (scipy sparse or dense).

        The diagonal is dropped and stored zeros are ignored. ValueError if ``matrix`` is not
        square, not symmetric, or has an entry that is negative or not finite.
        """
        if sp.issparse(matrix):  # before duplicates sum, which may pass the largest integer
            matrix = matrix.astype(np.float64)
        adjacency = sp.csr_array(matrix, dtype=np.float64, copy=True)
        rows, columns = adjacency.shape
        if rows != columns:
            raise ValueError(f"matrix must be square, got shape ({rows}, {columns})")
        if not np.isfinite(adjacency.data).all() or (adjacency.data < 0).any():
            raise ValueError("matrix entries must be finite and >= 0; an edge weight is not")
        adjacency.sum_duplicates()
        difference = abs(adjacency - adjacency.T.tocsr())
        largest = float(difference.max()) if difference.nnz else 0.0
        scale = float(adjacency.max()) if adjacency.nnz else 0.0
        if largest > _SYMMETRY_RTOL * scale:
            raise ValueError(
                f"matrix must be symmetric, got entries that differ by {largest:g} from their "
                "mirror; pass matrix + matrix.T or use Graph.from_edges"
            )
        upper = sp.triu(adjacency, k=1, format="csr")
        upper.eliminate_zeros()
        return cls._of_matrix(sp.csr_array(upper + upper.T.tocsr()))

    @classmethod
    def weighted_sum(cls, graphs: "Sequence[Graph]", factors: Sequence[float]) -> "Graph":
        """Graph of the sum of factor > 0 times adjacency matrix, in float64, in order."""
        total = np.float64(factors[0]) * graphs[0].adjacency
        for graph, factor in zip(graphs[1:], factors[1:], strict=True):
            total = total + np.float64(factor) * graph.adjacency
        whole = cls._of_matrix(total.tocsr())
        whole.keep_parts(graphs, factors)
        return whole

    @classmethod
    def _of_matrix(cls, matrix: Any) -> "Graph":
        """The graph of a clean symmetric csr_array, which it takes over."""
        matrix.sort_indices()
        ids = index_dtype(matrix.nnz, matrix.shape[0])
        indptr, indices = (part.astype(ids, copy=False) for part in (matrix.indptr, matrix.indices))
        return cls._of_rows(indptr, indices, matrix.data)

    @classmethod
    def _of_rows(cls, indptr: IntArray, indices: IntArray, weight: RealArray) -> "Graph":
        """The graph of the clean, sorted rows of a symmetric matrix, which it takes over."""
        n_nodes = indptr.size - 1
        adjacency = sp.csr_array((weight, indices, indptr), shape=(n_nodes, n_nodes))
        adjacency.has_canonical_format = True
        degree, component = np.empty(n_nodes), np.empty(n_nodes, np.int32)
        row_sums(indptr, weight, degree)
        n_components = label_components(
            indptr, indices, np.empty_like(indices, shape=n_nodes), component
        )
        for array in (adjacency.data, adjacency.indices, adjacency.indptr):
            array.setflags(write=False)
        return cls(
            adjacency=adjacency,
            degree=frozen(degree),
            component=frozen(component),
            n_components=int(n_components),
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes, isolated ones included."""
        return int(self.adjacency.shape[0])

    @property
    def n_edges(self) -> int:
        """Number of undirected edges after summing."""
        return int(self.adjacency.nnz) // 2

    def renumbered(self, order: IntArray, dtype: npt.DTypeLike | None = None) -> "Graph":
        """The same graph with node ``order[i]`` as node i; linear, rows stay sorted.

        A ``dtype`` of None keeps that of the weights. ValueError if ``order`` is no permutation.
        """
        rank = np.full(self.n_nodes, -1, dtype=np.int64)
        nodes = checked_nodes("order", order, self.n_nodes)
        if nodes.size == self.n_nodes:
            rank[nodes] = np.arange(self.n_nodes)
        if (rank < 0).any():
            raise ValueError(f"order must name each of the {self.n_nodes} nodes once")
        old = self.adjacency.indptr, self.adjacency.indices, self.adjacency.data
        indptr, indices = (np.empty_like(array) for array in old[:2])
        weight = np.empty_like(old[2], dtype)
        renumber_rows(*old, nodes, rank, indptr, indices, weight)
        return self._of_rows(indptr, indices, weight)

    def subgraph(self, nodes: IntArray) -> "Graph":
        """The graph of some nodes and the edges between them; node ``nodes[i]`` becomes node i.

        ValueError if ``nodes`` do not increase or lie outside the graph.
        """
        chosen = checked_nodes("nodes", nodes, self.n_nodes)
        if (np.diff(chosen) <= 0).any():
            raise ValueError("nodes must be increasing, each at most once")
        return self._of_matrix(self.adjacency[chosen][:, chosen].tocsr())

    def edges(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Every edge once: (u, v, weight) with u < v, sorted by u, then v."""
        counts = np.diff(self.adjacency.indptr)
        rows = np.repeat(np.arange(self.n_nodes, dtype=self.adjacency.indices.dtype), counts)
        once = rows < self.adjacency.indices
        return rows[once], self.adjacency.indices[once], self.adjacency.data[once]

    @cached_property
    def weight_in_single(self) -> Float32Array:
        """(2 * n_edges,) the adjacency matrix's entries in float32, made on first use."""
        return frozen(self.adjacency.data.astype(np.float32, copy=False))

    @cached_property
    def in_single(self) -> "Graph | None":
        """The graph with weights in float32, of the same structure and degrees.

        None if weights are out of its range, see `fits_single`.
        """
        return self.with_weights(self.weight_in_single) if self.fits_single else None

    @cached_property
    def fits_single(self) -> bool:
        """Whether weights are in the range in which float32 can compute with them."""
        weight = self.adjacency.data
        least, most = weight.min(initial=np.inf), weight.max(initial=0.0)
        return bool(least > _LEAST_IN_SINGLE and most < _MOST_IN_SINGLE)

    def with_weights(self, weight: RealArray) -> "Graph":
        """The same nodes, edges and degrees, with the weights in another type."""
        rows = self.adjacency.indices, self.adjacency.indptr
        adjacency = sp.csr_array((frozen(weight), *rows), shape=self.adjacency.shape)
        adjacency.has_canonical_format = True
        return replace(self, adjacency=adjacency)

    @cached_property
    def near_in_memory(self) -> "Renumbered | None":
        """The graph in its `memory_order`, made on first use; None if it is small."""
        if self.n_nodes < LEAST_ORDERED:
            return None
        return self._in_order(memory_order(self.adjacency))

    def keep_near(self, order: IntArray) -> None:
        """Set an order for `near_in_memory` that was found before.

        ValueError if ``order`` does not name each node once.
        """
        if self.n_nodes >= LEAST_ORDERED:
            nodes = checked_nodes("order", order, self.n_nodes)
            if not (np.bincount(nodes, minlength=self.n_nodes) == 1).all():
                raise ValueError(f"order must name each of the {self.n_nodes} nodes once")
            self.__dict__["near_in_memory"] = self._in_order(nodes)

    def keep_parts(self, graphs: "Sequence[Graph]", factors: Sequence[float]) -> None:
        """Say which graphs this one is the weighted sum of, for models that look at each."""
        self.__dict__["parts"] = tuple(
            Part(graph=graph, weight=weight) for graph, weight in zip(graphs, factors, strict=True)
        )

    @property
    def parts(self) -> "tuple[Part, ...]":
        """The graphs that this one is the weighted sum of; none where that is not known."""
        parts: tuple[Part, ...] = self.__dict__.get("parts", ())
        return parts

    @property
    def known_order(self) -> Int64Array | None:
        """The order of `near_in_memory`, if that was made and the graph is large."""
        near = self.__dict__.get("near_in_memory")
        return None if near is None else near.order

    def _in_order(self, order: Int64Array) -> "Renumbered":
        own = replace(self)  # a copy that shares all arrays: a cycle would outlive its last user
        return Renumbered(of=own, order=frozen(order))

    @cached_property
    def weight_spread(self) -> float:
        """The largest power r of 1e4 for which edges above heaviest / r leave more components.

        1 if they never do: light edges beside heavy ones do not count.
        """
        weight = self.adjacency.data
        heaviest = float(weight.max(initial=0.0))
        lightest, spread = float(weight.min(initial=heaviest)), 1.0
        while heaviest / (_DECADES * spread) > lightest:
            if self.components_above(heaviest / (_DECADES * spread))[1] == self.n_components:
                break
            spread *= _DECADES
        return spread

    def components_above(self, least: float) -> tuple[Int32Array, int]:
        """Components by edges of at least this weight, (n_nodes,), and their number."""
        is_heavy = self.adjacency.data >= least
        others = self.adjacency.indices[is_heavy].astype(np.int64)
        rows = np.repeat(np.arange(self.n_nodes), np.diff(self.adjacency.indptr))[is_heavy]
        parent = np.arange(self.n_nodes)
        join_edges(rows, others, parent)
        component = np.empty(self.n_nodes, np.int32)
        return component, int(number_components(parent, component))

    def component_sizes(self) -> Int64Array:
        """(n_components,) number of nodes of each component."""
        return np.bincount(self.component, minlength=self.n_components)

    def laplacian(self) -> Any:
        """The Laplacian D - A as a new csr_array, with sorted indices."""
        laplacian = (sp.diags_array(self.degree, format="csr") - self.adjacency).tocsr()
        laplacian.sort_indices()
        return laplacian

    def laplacian_product(self, vectors: RealArray) -> FloatArray:
        """The Laplacian times ``vectors``, (n_nodes,) or (n_nodes, k), as float64.

        Differences are summed edge by edge, so constant vectors give exactly zero. ValueError if
        ``vectors`` do not have ``n_nodes`` rows.
        """
        block = np.ascontiguousarray(vectors, dtype=np.float64)
        if block.ndim not in (1, 2) or block.shape[0] != self.n_nodes:
            raise ValueError(
                f"vectors must have shape ({self.n_nodes},) or ({self.n_nodes}, k), "
                f"got {block.shape}"
            )
        columns = block[:, None] if block.ndim == 1 else block
        product = np.zeros_like(columns)
        rows = self.adjacency.indptr, self.adjacency.indices, self.adjacency.data
        laplacian_rows(*rows, np.zeros(self.n_nodes), columns, product, 0, self.n_nodes)
        return product.reshape(block.shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """A graph in a weighted sum."""

    graph: Graph
    weight: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Renumbered:
    """A graph under other numbers: node i is node ``order[i]`` of the graph ``of``."""

    of: Graph
    order: Int64Array

    @cached_property
    def graph(self) -> Graph:
        """The graph in that order; it shares the structure of `in_single`, if that was made."""
        graph = self.of.renumbered(self.order)
        single = self.__dict__.get("in_single")
        return graph if single is None else single.with_weights(graph.adjacency.data)

    @cached_property
    def in_single(self) -> Graph | None:
        """The same with weights in float32, as `Graph.in_single`."""
        if not self.of.fits_single:
            return None
        if "graph" in self.__dict__:
            return self.graph.in_single
        single = self.of.renumbered(self.order, np.float32)
        return replace(single, degree=frozen(self.of.degree[self.order]))

    def forget_graph(self) -> None:
        """Release the memory of `graph` unless others hold it; it is made again on demand."""
        self.__dict__.pop("graph", None)
