"""Graphs over the same nodes, one for each relation, and their weighted sums."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.relations.relation_names import MOST_RELATIONS, check_relation_name
from peewit.solvers.relations.weight_texts import check_weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelationGraphs:
    """Relations by name, in order; build it with `of`."""

    names: tuple[str, ...]
    graphs: tuple[Graph, ...]

    @classmethod
    def of(cls, graphs: Mapping[str, Graph]) -> "RelationGraphs":
        """Relations in the order of the mapping.

        `BadArgument` for none or too many, names that no relation may have, or graphs of different
        numbers of nodes. One relation may have no name.
        """
        if not 1 <= len(graphs) <= MOST_RELATIONS:
            raise BadArgument(
                "relations", f"must be 1 to {MOST_RELATIONS} named graphs, got {len(graphs)}"
            )
        for name in filter(None, map(str, graphs)):
            check_relation_name(name, argument="relations")
        sizes = {name: graph.n_nodes for name, graph in graphs.items()}
        if len(set(sizes.values())) > 1:
            raise BadArgument(
                "relations",
                f"must be graphs over the same nodes, got {sizes} nodes; give nodes without an "
                "edge of a relation to its graph, too",
            )
        return cls(names=tuple(map(str, graphs)), graphs=tuple(graphs.values()))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, the same in each graph."""
        return self.graphs[0].n_nodes

    @property
    def volumes(self) -> FloatArray:
        """(n_relations,) sums of degrees."""
        return np.array([graph.degree.sum() for graph in self.graphs])

    def combined(self, weights: Sequence[float]) -> Graph:
        """The graph of the sum of weight times adjacency matrix over the relations.

        Relations of weight 0 leave no edges. Weights of 1 give the very bits of the graph of all
        edges, relation after relation, where each relation has an edge at most once; otherwise
        sums of parallel edges may be rounded differently. `BadArgument` as `check_weights`.
        """
        check_weights("weights", weights, self.names)
        used = [place for place, weight in enumerate(weights) if weight > 0]
        if len(used) == 1 and weights[used[0]] == 1.0:
            return self.graphs[used[0]]
        return Graph.weighted_sum(
            [self.graphs[place] for place in used], [weights[place] for place in used]
        )
