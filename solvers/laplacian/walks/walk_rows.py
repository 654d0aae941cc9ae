"""Walk rows: step probabilities from each node, for local walks that never read the whole graph."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import AnyArray, Float32Array, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.row_ranges import row_blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WalkRows:
    """Step probabilities of walks on a graph whose nodes have loops, as in (K1)."""

    indptr: AnyArray  # (n_nodes + 1,)
    indices: AnyArray  # (n_entries,) int32 neighbors of each node
    probability: Float32Array  # (n_entries,) of a step to each neighbor; else the walk stays
    degree: FloatArray  # (n_nodes,) with the loops; 1 at an isolated node

    @classmethod
    def of_graph(cls, graph: Graph) -> "WalkRows":
        """The walk rows of a graph in memory."""
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
    """(n_nodes,) degrees with a loop of the mean weight of each node's edges; 1 without edges."""
    looped = degree * (1.0 + 1.0 / np.maximum(n_edges, 1))
    return np.where(n_edges > 0, looped, 1.0)


def probabilities(graph: Graph) -> Iterator[tuple[slice, Float32Array]]:
    """Slices of the entries of ``graph.adjacency``, in order, with their step probabilities."""
    adjacency = graph.adjacency
    degree = looped_degrees(graph.degree, np.diff(adjacency.indptr))
    for rows in row_blocks(graph.n_nodes):
        bounds = adjacency.indptr[rows.start : rows.stop + 1]
        entries = slice(int(bounds[0]), int(bounds[-1]))
        own = np.repeat(degree[rows], np.diff(bounds))
        yield entries, (adjacency.data[entries] / own).astype(np.float32)
