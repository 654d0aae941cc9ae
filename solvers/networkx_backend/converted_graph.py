"""A networkx graph as this backend wants it: its adjacency matrix, and labels as they stand."""

from functools import cached_property
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import AnyArray, FloatArray, IntArray
from peewit.solvers.graph import Graph


class ConvertedGraph:
    """A networkx graph with its adjacency matrix.

    networkx keeps converted graphs for later calls. So labels are read when they are asked for:
    one that was changed since counts. Weights are those of the conversion.

    Parameters
    ----------
    source : networkx.Graph or networkx.MultiGraph
        What is converted; kept, as labels and all other attributes stay there.
    """

    __networkx_backend__: ClassVar[str] = "peewit"

    def __init__(self, source: Any) -> None:
        self.source = source
        self.matrix = sp.csr_array(
            nx.to_scipy_sparse_array(source, dtype=np.float64, backend="networkx")
            if len(source)
            else (0, 0)
        )

    def is_directed(self) -> bool:
        """Whether edges have directions, as networkx asks."""
        return bool(self.source.is_directed())

    def is_multigraph(self) -> bool:
        """Whether there may be parallel edges, as networkx asks; here their weights are summed."""
        return bool(self.source.is_multigraph())

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def graph(self) -> Graph:
        """The graph without its loops.

        Raises
        ------
        NotImplementedError
            A weight is negative or not finite: networkx itself takes it.
        """
        weight = self.matrix.data
        wrong = weight[~(np.isfinite(weight) & (weight >= 0.0))]
        if wrong.size:
            raise NotImplementedError(
                f"peewit solves graphs whose weights are finite and >= 0, got {wrong[0]}; "
                "backend='networkx' takes any"
            )
        return Graph.from_adjacency(self.matrix)

    @cached_property
    def degree(self) -> FloatArray:
        """(n_nodes,) sums of weights, loops included, and 1 where there is none, as networkx."""
        sums: FloatArray = self.graph.degree + self.matrix.diagonal()
        return np.where(sums == 0.0, 1.0, sums)

    def labels(self, name: str) -> tuple[IntArray, IntArray, AnyArray]:
        """Labeled nodes, the class of each by its place, and the classes as they first appear.

        Raises
        ------
        networkx.NetworkXError
            No node has the attribute.
        """
        places: dict[Any, int] = {}
        nodes, codes = [], []
        for number, (_, attributes) in enumerate(self.source.nodes(data=True)):
            if name in attributes:
                nodes.append(number)
                codes.append(places.setdefault(attributes[name], len(places)))
        if not nodes:
            raise nx.NetworkXError(f"No node on the input graph is labeled by '{name}'.")
        return np.array(nodes), np.array(codes), np.array(list(places))
