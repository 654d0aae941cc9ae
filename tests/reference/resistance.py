"""Dense twins of the resistance embedding: the identity it rests on and the projection it makes."""

from typing import NamedTuple

import numpy as np

from peewit.solvers.arrays import FloatArray, IntArray, UInt64Array
from peewit.solvers.graph import Graph
from tests.reference.laplacian import dense_laplacian, pseudo_inverse
from tests.reference.signs import probe_signs

_NODE_SIGNS = 0x6E6F6465


class DenseGraph(NamedTuple):
    """Matrices of L + ridge I: its inverse, its diagonal and the adjacency matrix."""

    inverse: FloatArray
    diagonal: FloatArray
    adjacency: FloatArray

    @staticmethod
    def of(graph: Graph, ridge: float = 0.0) -> "DenseGraph":
        """Those of a graph, by pseudo-inverse."""
        matrix = dense_laplacian(graph) + ridge * np.eye(graph.n_nodes)
        diagonal = np.diag(matrix).copy()
        return DenseGraph(pseudo_inverse(matrix), diagonal, np.diag(diagonal) - matrix)

    def smoothed(self, block: FloatArray) -> FloatArray:
        """D^-1 A ``block``, zero where D is."""
        sums = self.adjacency @ block
        return np.divide(
            sums, self.diagonal[:, None], out=np.zeros_like(sums), where=self.diagonal[:, None] > 0
        )

    def local_terms(self, u: IntArray, v: IntArray) -> FloatArray:
        """1/d_u + 1/d_v - 2w / (d_u d_v), what the degrees tell exactly."""
        first, second = self.diagonal[u], self.diagonal[v]
        return 1 / first + 1 / second - 2 * self.adjacency[u, v] / (first * second)

    def remainder(self, u: IntArray, v: IntArray) -> FloatArray:
        """b' D^-1 A L^+ A D^-1 b with b = chi_u - chi_v, what is projected."""
        smooth = self.smoothed(np.eye(self.diagonal.size))
        gram = smooth @ self.inverse @ smooth.T
        return gram[u, u] + gram[v, v] - 2 * gram[u, v]

    def resistances(self, u: IntArray, v: IntArray) -> FloatArray:
        """b' (L + ridge I)^+ b (B3), (B4)."""
        return self.inverse[u, u] + self.inverse[v, v] - 2 * self.inverse[u, v]


def projected_vectors(
    u: IntArray,
    v: IntArray,
    weight: FloatArray,
    key: UInt64Array,
    *,
    n_nodes: int,
    n_probes: int,
    seed: int,
    ridge: float = 0.0,
) -> FloatArray:
    """D^-1 A (L + ridge I)^+ (B' W^(1/2) Q + ridge^(1/2) Q'), record by record (B8)."""
    signs = probe_signs(seed, key, n_probes) / np.sqrt(n_probes)
    rhs = np.zeros((n_nodes, n_probes))
    for i, j, conductance, sign in zip(u, v, weight, signs, strict=True):
        rhs[min(i, j)] += np.sqrt(conductance) * sign
        rhs[max(i, j)] -= np.sqrt(conductance) * sign
    nodes = np.arange(n_nodes, dtype=np.uint64)
    node_seed = (seed % 2**64) ^ _NODE_SIGNS
    rhs += np.sqrt(ridge / n_probes) * probe_signs(node_seed, nodes, n_probes)
    dense = DenseGraph.of(Graph.from_edges(u, v, weight, n_nodes=n_nodes), ridge)
    return dense.smoothed(dense.inverse @ rhs)
