"""Graph: an immutable undirected weighted graph in CSR form.

Weights are conductances. Parallel edges and both orientations of an edge sum, self-loops are
dropped (they do not enter the Laplacian), isolated nodes stay. Components are found once.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from solvers.arrays import (
    FloatArray,
    Int32Array,
    Int64Array,
    IntArray,
    RealArray,
    checked_nodes,
    frozen,
    index_dtype,
)
from solvers.kernels.block_products import laplacian_rows

_SYMMETRY_RTOL = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """An undirected weighted graph; build it with `from_edges` or `from_adjacency`.

    Attributes
    ----------
    adjacency : (n_nodes, n_nodes) scipy.sparse.csr_array
        Symmetric, float64, sorted indices (int32 while they fit), zero diagonal, no stored zeros.
        Its arrays are read-only.
    degree : (n_nodes,) float64
        Row sums of ``adjacency``.
    component : (n_nodes,) int32
        Number of the connected component of each node, 0 .. n_components - 1.
    n_components : int
        Number of connected components; an isolated node is one.
    """

    adjacency: Any
    degree: FloatArray
    component: Int32Array
    n_components: int

    @classmethod
    def from_edges(
        cls, u: npt.ArrayLike, v: npt.ArrayLike, weight: npt.ArrayLike, *, n_nodes: int
    ) -> "Graph":
        """Graph of the edges (u, v, weight) on the nodes 0 .. n_nodes - 1.

        Parameters
        ----------
        u, v : (n_records,) integers
            Endpoints. Parallel records and both orientations sum; ``u == v`` is dropped.
        weight : (n_records,) floats
            Conductances, finite and > 0.
        n_nodes : int
            Number of nodes, >= 0.

        Raises
        ------
        TypeError
            ``u`` or ``v`` are not integers.
        ValueError
            Unequal lengths, an id outside [0, n_nodes), or a weight that is not finite and > 0.
        """
        if n_nodes < 0:
            raise ValueError(f"n_nodes must be >= 0, got {n_nodes}")
        heads = checked_nodes("u", u, n_nodes)
        tails = checked_nodes("v", v, n_nodes)
        weights = _checked_weights(weight)
        if not heads.size == tails.size == weights.size:
            raise ValueError(
                "u, v and weight must have equal lengths, "
                f"got {heads.size}, {tails.size} and {weights.size}"
            )
        proper = heads != tails
        if not proper.all():
            heads, tails, weights = heads[proper], tails[proper], weights[proper]
        ids = index_dtype(2 * weights.size, n_nodes)
        low = np.minimum(heads, tails).astype(ids, copy=False)
        high = np.maximum(heads, tails).astype(ids, copy=False)
        upper = sp.coo_array((weights, (low, high)), shape=(n_nodes, n_nodes)).tocsr()
        upper.sum_duplicates()
        return cls._of_symmetric((upper + upper.T.tocsr()).tocsr())

    @classmethod
    def from_adjacency(cls, matrix: Any) -> "Graph":
        """Graph of a symmetric adjacency matrix (scipy sparse or dense).

        The diagonal is dropped and stored zeros are ignored.

        Raises
        ------
        ValueError
            ``matrix`` is not square, not symmetric, or has an entry that is negative or not finite.
        """
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
        return cls._of_symmetric((upper + upper.T.tocsr()).tocsr())

    @classmethod
    def _of_symmetric(cls, adjacency: Any) -> "Graph":
        """The graph of a clean symmetric csr_array, which it takes over."""
        adjacency = sp.csr_array(adjacency)
        adjacency.sort_indices()
        ids = index_dtype(adjacency.nnz, adjacency.shape[0])
        adjacency.indices = adjacency.indices.astype(ids, copy=False)
        adjacency.indptr = adjacency.indptr.astype(ids, copy=False)
        n_components, component = 0, np.zeros(0, dtype=np.int32)
        if adjacency.shape[0]:
            n_components, component = connected_components(adjacency, directed=False)
        for array in (adjacency.data, adjacency.indices, adjacency.indptr):
            array.setflags(write=False)
        return cls(
            adjacency=adjacency,
            degree=frozen(np.asarray(adjacency.sum(axis=1), dtype=np.float64)),
            component=frozen(component.astype(np.int32, copy=False)),
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

    def edges(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Every edge once: (u, v, weight) with u < v, sorted by u, then v."""
        counts = np.diff(self.adjacency.indptr)
        rows = np.repeat(np.arange(self.n_nodes, dtype=self.adjacency.indices.dtype), counts)
        once = rows < self.adjacency.indices
        return rows[once], self.adjacency.indices[once], self.adjacency.data[once]

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

        Differences are summed edge by edge, so that constant vectors give exactly zero.

        Raises
        ------
        ValueError
            ``vectors`` do not have ``n_nodes`` rows.
        """
        block = np.ascontiguousarray(vectors, dtype=np.float64)
        if block.ndim not in (1, 2) or block.shape[0] != self.n_nodes:
            raise ValueError(
                f"vectors must have shape ({self.n_nodes},) or ({self.n_nodes}, k), "
                f"got {block.shape}"
            )
        columns = (
            block.reshape(self.n_nodes, -1) if block.size else block.reshape(block.shape[0], 0)
        )
        product = np.zeros_like(columns)
        laplacian_rows(
            self.adjacency.indptr,
            self.adjacency.indices,
            self.adjacency.data,
            np.zeros(self.n_nodes),
            columns,
            product,
            0,
            self.n_nodes,
        )
        return product.reshape(block.shape)


def _checked_weights(weight: npt.ArrayLike) -> FloatArray:
    """Weights as float64, each finite and > 0."""
    weights = np.asarray(weight, dtype=np.float64)
    if weights.ndim != 1:
        raise ValueError(f"weight must be one-dimensional, got shape {weights.shape}")
    valid = np.isfinite(weights) & (weights > 0)
    if not valid.all():
        row = int(np.argmin(valid))
        raise ValueError(f"weight must be finite and > 0, got {weights[row]} in row {row}")
    return weights
