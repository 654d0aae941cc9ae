"""Products with an adjacency matrix, scaled on both sides, in the memory order of its rows."""

from functools import partial

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, RealArray, frozen
from peewit.solvers.kernels.laplacian_products import diagonal_rows
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank


class AdjacencyProduct:
    """C A C for a diagonal C, by the float32 weights that personalized PageRank keeps."""

    def __init__(self, pagerank: PersonalizedPageRank, scale: FloatArray) -> None:
        """``scale``, (n_nodes,), is the diagonal of C by node."""
        self.pagerank = pagerank
        if pagerank.is_normalized:
            scale = scale / pagerank.inverse_root
        self._scale = self.in_order(scale[:, None])
        self._nothing = frozen(np.zeros(pagerank.n_nodes, np.float32))

    def times(self, block: Float32Array) -> Float32Array:
        """The product with a block, (n_nodes, k), of rows in order."""
        pagerank, product = self.pagerank, np.empty_like(block)
        matrix = pagerank.indptr, pagerank.indices, pagerank.weight, self._nothing
        pagerank.rows.run(partial(diagonal_rows, *matrix, block * self._scale, product))
        product *= -self._scale
        return product

    def in_order(self, block: RealArray) -> Float32Array:
        """Rows of nodes as rows in order, in float32."""
        order = self.pagerank.order
        rows = block if order is None else np.take(block, order, axis=0)
        return np.ascontiguousarray(rows, np.float32)

    def by_node(self, block: Float32Array) -> Float32Array:
        """Rows in order as rows of nodes."""
        if self.pagerank.order is None:
            return block
        rows = np.empty_like(block)
        rows[self.pagerank.order] = block
        return rows
