"""SubSampling: harmonic functions on a sample of the nodes; the others copy their nearest one."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.graph_model import PreparedGraph
from peewit.solvers.models.contract.point_model import PointProblem, Points, ScoringModel
from peewit.solvers.models.harmonic.harmonic import SOFT_PENALTY, StableHFS
from peewit.solvers.models.harmonic.nearest_neighbor import ALONG_EDGES, edge_lengths
from peewit.solvers.neighbors.distances import nearest_rows, positive_median
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Sampled nodes, increasing, and their graph, prepared for Stable-HFS."""

    nodes: Int64Array
    prepared: PreparedGraph

    @classmethod
    def of_graph(cls, nodes: Int64Array, graph: Graph) -> "Sample":
        """The sample with this graph."""
        return cls(nodes=nodes, prepared=StableHFS().prepare(graph))


@dataclass(frozen=True, slots=True, kw_only=True)
class SubSampling(ScoringModel):
    """Stable-HFS on a random sample that holds every label; others copy (section D.5).

    With features the graph of the sample is its k-NN graph, an edge joining two nodes when either
    is among the other's neighbors, with weight exp(-d^2 / (2 s^2)), s the median distance to the
    furthest neighbor counted; the others copy the sampled node nearest by features. Without
    features it is the induced subgraph. Nodes that are not sampled, or whose component there has no
    label, copy the nearest sampled node whose component has one, an edge being 1 / weight long.
    """

    n_sampled: int = hyperparameter(
        15_000, Rule(doc="Nodes drawn at random; labeled nodes come on top.", kind=int, minimum=1)
    )
    n_neighbors: int = hyperparameter(
        10, Rule(doc="Neighbors of a sampled node; used with features.", kind=int, minimum=1)
    )
    graph_penalty: float | Literal["auto"] = hyperparameter("auto", SOFT_PENALTY)
    seed: int = hyperparameter(0, Rule(doc="Draws the sample.", kind=int, minimum=0))

    of_graph: ClassVar[str] = ALONG_EDGES

    def _answer(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        prepared, watch = problem.prepared, problem.watch
        sample = self._sample(prepared, problem.labels, watch)
        inner = self._solve(sample, problem)
        problem.stats.update(
            inner.stats,
            n_sampled=int(sample.nodes.size),
            n_sampled_edges=sample.prepared.graph.n_edges,
            n_copied=prepared.graph.n_nodes - int(np.count_nonzero(inner.reachable)),
        )
        if inner.status is Status.CANCELLED:
            raise RunStopped
        place = _teachers(prepared, sample, inner, problem.task.reachable, watch)
        return inner.scores[place], inner.status

    def _sample(self, prepared: Points, labels: Labels, watch: Watch) -> Sample:
        """The sampled nodes and their graph; equal labels and settings give an equal sample."""
        n_nodes = prepared.graph.n_nodes
        size = min(self.n_sampled, n_nodes)
        drawn = np.random.default_rng(self.seed).choice(n_nodes, size, replace=False)
        nodes: Int64Array = np.union1d(drawn, labels.nodes)
        key = (nodes.tobytes(), self.n_neighbors)

        def make() -> Sample:
            if prepared.features is None:
                part = prepared.graph.adjacency[nodes][:, nodes]
                return Sample.of_graph(nodes, Graph.from_adjacency(part))
            rows = prepared.features[nodes]
            return Sample.of_graph(nodes, neighbor_graph(rows, self.n_neighbors, watch))

        return prepared.latest("sample", key, make)

    def _solve(self, sample: Sample, problem: PointProblem) -> Solution:
        labels, start, watch = problem.labels, problem.start, problem.watch
        place = np.searchsorted(sample.nodes, labels.nodes)
        model = StableHFS(graph_penalty=self.graph_penalty)
        first = None
        if start is not None and start.scores.shape[0] > sample.nodes[-1]:
            nodes = sample.nodes
            first = replace(start, scores=start.scores[nodes], reachable=start.reachable[nodes])
        among = None if labels.among is None else labels.among[sample.nodes]
        known = replace(labels, nodes=place, among=among)
        return model.solve_watched(sample.prepared, known, first, watch)


def neighbor_graph(rows: Any, n_neighbors: int, watch: Watch) -> Graph:
    """Union k-NN graph of rows, with Gaussian weights of their median furthest distance."""
    n_rows = rows.shape[0]
    k = min(n_neighbors, n_rows - 1)
    near, far = nearest_rows(rows, rows, k + 1, watch, "neighbors of the sample")
    width = positive_median(far[:, -1])
    u = np.repeat(np.arange(n_rows), k + 1)
    weight = np.exp(-0.5 * np.square(far.ravel() / width))
    weight = np.maximum(weight, np.finfo(np.float64).tiny)
    directed = sp.csr_array((weight, (u, near.ravel())), shape=(n_rows, n_rows))
    return Graph.from_adjacency(directed.maximum(directed.T))


def _teachers(
    prepared: Points, sample: Sample, inner: Solution, reachable: BoolArray, watch: Watch
) -> Int64Array:
    """Place in the sample of the node whose scores each node copies; its own where it has some."""
    answered = np.flatnonzero(inner.reachable)
    taught = sample.nodes[answered]
    place = np.zeros(prepared.graph.n_nodes, np.int64)
    place[taught] = answered
    others = np.ones(prepared.graph.n_nodes, dtype=bool)
    others[taught] = False
    others &= reachable
    if not others.any():
        return place
    if prepared.features is None:
        watch.step(ALONG_EDGES, 0, 1)
        _, _, source = dijkstra(
            edge_lengths(prepared.graph), indices=taught, min_only=True, return_predecessors=True
        )
        watch.step(ALONG_EDGES, 1, 1)
        place[others] = answered[np.searchsorted(taught, source[others])]
        return place
    rows, known = prepared.features[others], prepared.features[taught]
    near, _ = nearest_rows(rows, known, 1, watch, "nearest sampled nodes")
    place[others] = answered[near[:, 0]]
    return place
