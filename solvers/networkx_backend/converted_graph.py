"""A networkx graph as this backend needs it: its adjacency matrix and its current labels."""

from functools import cached_property
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import AnyArray, FloatArray, IntArray
from peewit.solvers.graph import Graph


class ConvertedGraph:
    """A networkx graph with its adjacency matrix.

    networkx caches converted graphs: weights are those of the conversion, while labels and all
    other attributes are read from ``source`` at each call, so changes to them count.
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
        """Whether edges have directions."""
        return bool(self.source.is_directed())

    def is_multigraph(self) -> bool:
        """Whether there may be parallel edges; their weights are summed here."""
        return bool(self.source.is_multigraph())

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def graph(self) -> Graph:
        """The graph without its loops.

        Raises NotImplementedError for weights that are negative or not finite; networkx takes them.
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
        """(n_nodes,) sums of weights with loops, and 1 for isolated nodes, as in networkx."""
        sums: FloatArray = self.graph.degree + self.matrix.diagonal()
        return np.where(sums == 0.0, 1.0, sums)

    def labels(self, name: str) -> tuple[IntArray, IntArray, AnyArray]:
        """Labeled nodes, the class code of each, and the classes in order of first appearance.

        Raises `networkx.NetworkXError` if no node has the attribute.
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
