"""Walk rows: where walks go from each node, for walks from one node that need no whole graph."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import AnyArray, Float32Array, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.row_ranges import row_blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WalkRows:
    """Where walks go from each node of a graph whose nodes have loops, as in (K1).

    Attributes
    ----------
    indptr : (n_nodes + 1,) int
    indices : (n_entries,) int32
        Neighbors of each node.
    probability : (n_entries,) float32
        That a walk goes to each; else it stays.
    degree : (n_nodes,) float64
        With the loops; 1 of an isolated node.
    """

    indptr: AnyArray
    indices: AnyArray
    probability: Float32Array
    degree: FloatArray

    @classmethod
    def of_graph(cls, graph: Graph) -> "WalkRows":
        """In memory."""
        adjacency = graph.adjacency
        parts = [part for _, part in probabilities(graph)]
        return cls(
            indptr=adjacency.indptr,
            indices=adjacency.indices,
            probability=np.concatenate(parts) if parts else np.zeros(0, np.float32),
            degree=looped_degrees(graph.degree, np.diff(adjacency.indptr)),
        )

    @property
    def n_nodes(self) -> int:
        """Number of rows."""
        return self.degree.size


def looped_degrees(degree: FloatArray, n_edges: Int64Array) -> FloatArray:
    """(n_nodes,) degrees with a loop of the mean weight of each node's edges; 1 without any."""
    looped = degree * (1.0 + 1.0 / np.maximum(n_edges, 1))
    return np.where(n_edges > 0, looped, 1.0)


def probabilities(graph: Graph) -> Iterator[tuple[slice, Float32Array]]:
    """Entries of ``graph.adjacency`` in order, and the probability that a walk goes along each."""
    adjacency = graph.adjacency
    degree = looped_degrees(graph.degree, np.diff(adjacency.indptr))
    for rows in row_blocks(graph.n_nodes):
        bounds = adjacency.indptr[rows.start : rows.stop + 1]
        entries = slice(int(bounds[0]), int(bounds[-1]))
        own = np.repeat(degree[rows], np.diff(bounds))
        yield entries, (adjacency.data[entries] / own).astype(np.float32)
