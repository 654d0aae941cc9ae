"""1-NN: the class of the nearest labeled node, by features or along the graph."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from solvers.arrays import FloatArray
from solvers.graph import Graph
from solvers.iterate import Cancelled, Progress
from solvers.labels import Labels
from solvers.laplacian.parallel import Parallel
from solvers.models.base import Model, check_labels
from solvers.models.features import (
    GIVEN,
    Centring,
    Stopped,
    Watch,
    checked_features,
    components,
    distance_blocks,
)
from solvers.solution import Solution, Status

ALONG_EDGES = "shortest paths"
"""What the stats say of distances along the graph."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedRows:
    """The graph, and features of its nodes or None."""

    graph: Graph
    features: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestNeighbor(Model):
    """The class of the nearest labeled node (D.5, 1-NN).

    With features by their Euclidean distance, whatever the edges; without them along the shortest
    path, an edge being 1 / weight long. Scores are the inverse distances to the nearest node of
    each class, scaled to sum to 1; a labeled node keeps its class.
    """

    uses_features: ClassVar[bool] = True

    def prepare(
        self,
        graph: Graph,
        features: Any = None,
        *,
        parallel: Parallel = map,  # noqa: ARG002 - no large product is repeated here
    ) -> PreparedRows:
        """The features, checked.

        Raises
        ------
        TypeError, ValueError
            As `solvers.models.features.checked_features`.
        """
        rows = None if features is None else checked_features(features, graph.n_nodes)
        return PreparedRows(graph=graph, features=rows)

    def solve(
        self,
        prepared: PreparedRows,
        labels: Labels,
        *,
        start: Solution | None = None,  # noqa: ARG002 - nothing here is iterated
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Solution:
        """Scores of every node; see `solvers.models.base.Model.solve`.

        Without features one Dijkstra pass per class, O(n_edges + n_nodes log n_nodes) each; with
        features n_nodes x n_labeled distances.
        """
        graph, features = prepared.graph, prepared.features
        check_labels(labels, graph)
        watch = Watch(progress=progress, cancelled=cancelled)
        task = Centring.of_labels(labels, components(graph, features))
        stats: dict[str, float | int | str] = {
            "input": ALONG_EDGES if features is None else GIVEN,
        }
        try:
            if features is None:
                distance = path_lengths(graph, labels, watch)
            else:
                distance = row_distances(features, labels, watch)
        except Stopped:
            return task.solution(task.baseline, Status.CANCELLED, stats)
        scores = inverse_shares(distance, task.reachable)
        scores[labels.nodes] = labels.targets()
        return task.solution(scores, Status.CONVERGED, stats)


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
    """Rows proportional to 1 / distance that sum to 1; 0 where ``reachable`` is not.

    Scaled by the nearest distance first: a distance of 0 gives its class everything.
    """
    shares = np.zeros_like(distance)
    nearest = distance[reachable].min(axis=1, keepdims=True)
    ratio = np.zeros((nearest.size, distance.shape[1]))
    np.divide(nearest, distance[reachable], out=ratio, where=distance[reachable] > 0)
    ratio[distance[reachable] == 0] = 1.0
    shares[reachable] = ratio / ratio.sum(axis=1, keepdims=True)
    return shares
