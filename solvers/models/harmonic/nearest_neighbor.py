"""1-NN: the class of the nearest labeled node, by features or along the graph."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.point_model import PointProblem, ScoringModel
from peewit.solvers.neighbors.distances import distance_blocks
from peewit.solvers.status import Status

ALONG_EDGES = "shortest paths"
"""Stats entry ``input`` of distances along the graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestNeighbor(ScoringModel):
    """The class of the nearest labeled node (section D.5).

    With features by their Euclidean distance, whatever the edges; without them along the shortest
    path, an edge being 1 / weight long. Scores are the inverse distances to the nearest node of
    each class, scaled to sum to 1; a labeled node keeps its class.

    Notes
    -----
    Without features one Dijkstra pass per class, O(n_edges + n_nodes log n_nodes) each; with
    features n_nodes x n_labeled distances.
    """

    of_graph: ClassVar[str] = ALONG_EDGES

    def _answer(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        prepared, labels = problem.prepared, problem.labels
        if prepared.features is None:
            distance = path_lengths(prepared.graph, labels, problem.watch)
        else:
            distance = row_distances(prepared.features, labels, problem.watch)
        scores = inverse_shares(distance, problem.task.reachable)
        scores[labels.nodes] = labels.targets()
        return scores, Status.CONVERGED


def edge_lengths(graph: Graph) -> Any:
    """(n_nodes, n_nodes) csr_array of 1 / weight."""
    adjacency = graph.adjacency
    lengths = 1.0 / adjacency.data.astype(np.float64)
    return sp.csr_array((lengths, adjacency.indices, adjacency.indptr), shape=adjacency.shape)


def path_lengths(graph: Graph, labels: Labels, watch: Watch) -> FloatArray:
    """(n_nodes, n_classes) length of the shortest path to a node of each class."""
    lengths = edge_lengths(graph)
    distance = np.empty((graph.n_nodes, labels.n_classes))
    for code in range(labels.n_classes):
        watch.step(ALONG_EDGES, code, labels.n_classes)
        sources = labels.nodes[labels.classes == code]
        distance[:, code] = dijkstra(lengths, indices=sources, min_only=True)
    watch.step(ALONG_EDGES, labels.n_classes, labels.n_classes)
    return distance


def row_distances(features: Any, labels: Labels, watch: Watch) -> FloatArray:
    """(n_nodes, n_classes) distance to the nearest row of each class."""
    by_class = np.argsort(labels.classes, kind="stable")
    starts = np.searchsorted(labels.classes[by_class], np.arange(labels.n_classes))
    others = features[labels.nodes[by_class]]
    distance = np.empty((features.shape[0], labels.n_classes))
    for place, block in distance_blocks(features, others, watch, "distances"):
        np.minimum.reduceat(block, starts, axis=1, out=distance[place])
    return distance


def inverse_shares(distance: FloatArray, reachable: Any) -> FloatArray:
    """Rows proportional to 1 / distance that sum to 1; 0 where a node is not ``reachable``.

    Scaled by the nearest distance first: a distance of 0 gives its class everything.
    """
    shares = np.zeros_like(distance)
    nearest = distance[reachable].min(axis=1, keepdims=True)
    ratio = np.zeros((nearest.size, distance.shape[1]))
    np.divide(nearest, distance[reachable], out=ratio, where=distance[reachable] > 0)
    ratio[distance[reachable] == 0] = 1.0
    shares[reachable] = ratio / ratio.sum(axis=1, keepdims=True)
    return shares
