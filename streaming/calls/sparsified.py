"""What `sparsify` returns: a sparsifier with its counts, and several over the same nodes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import Int32Array
from peewit.solvers.graph import Graph
from peewit.solvers.interchange import EdgeTable
from peewit.solvers.notebook_html import shown
from peewit.streaming.edges.columns import node_ids
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.left_out import LeftOut


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sparsified(EdgeTable):
    """A sparsifier, its counts and its expected error.

    Attributes
    ----------
    graph : Graph
        The sparsifier; its weights stand for all edges.
    external_ids : pyarrow.Array or None
        Id of each node, in order of first appearance; None where nodes are ``0 .. n_nodes - 1``.
    edges_seen : int
        Rows that came.
    left_out : LeftOut
        Of these the ones without an edge: ``self_loops`` and ``zero_weights``.
    epsilon_expected : float
        Spectral error to expect from what was kept ((B10'), (B19)); 0 where every edge was.
    max_edges : int or None
        The budget; None where ``epsilon`` alone decided.
    max_edges_bound : bool
        Whether the budget threw edges away that ``epsilon``, if given, would have kept.
    """

    graph: Graph
    external_ids: pa.Array | None
    edges_seen: int
    left_out: LeftOut
    epsilon_expected: float
    max_edges: int | None
    max_edges_bound: bool

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.n_nodes

    @property
    def edges_kept(self) -> int:
        """Number of edges of ``graph``, parallel ones summed."""
        return self.graph.n_edges

    @property
    def adjacency(self) -> Any:
        """(n_nodes, n_nodes) symmetric scipy.sparse.csr_array of the weights."""
        return self.graph.adjacency

    def _matrix(self) -> Any:
        return self.graph.adjacency

    def _node_names(self) -> pa.Array | None:
        return self.external_ids

    @property
    def is_whole(self) -> bool:
        """Whether no edge was thrown away."""
        return self.epsilon_expected == 0.0

    def _facts(self) -> dict[str, Any]:
        return {
            "nodes": self.n_nodes,
            "edges seen": self.edges_seen,
            "different edges, all kept" if self.is_whole else "kept": self.edges_kept,
            "epsilon expected": self.epsilon_expected,
            "components": self.graph.n_components,
        }

    def lookup(self, ids: Any) -> Int32Array:
        """Node of each id, -1 where it is unknown.

        Parameters
        ----------
        ids : array-like
            Ids as they were given to `sparsify`.
        """
        wanted = pa.array(ids)
        if self.external_ids is None:
            values = np.asarray(wanted, dtype=np.int64)
            inside = (values >= 0) & (values < self.n_nodes)
            return np.where(inside, values, -1).astype(np.int32)
        kind: NodeKind = "int64" if pa.types.is_integer(self.external_ids.type) else "string"
        keys = pc.cast(node_ids(wanted, node_kind=kind, name="ids"), self.external_ids.type)
        nodes = pc.index_in(keys, value_set=self.external_ids)
        return np.asarray(pc.fill_null(nodes, -1), dtype=np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparsifiedRelations(Mapping[str, Sparsified]):
    """Sparsifiers of several relations over the same nodes, by the names of the relations.

    Estimators take it as it is: labels say how much each relation counts. For every non-negative
    weighing the weighed sum is within the worst ``epsilon_expected`` of that of all edges.

    Attributes
    ----------
    relations : dict of str to Sparsified
        Each with all nodes, in the same order.
    external_ids : pyarrow.Array or None
        Id of each node, in order of first appearance; None where nodes are ``0 .. n_nodes - 1``.
    """

    relations: dict[str, Sparsified]
    external_ids: pa.Array | None

    def __getitem__(self, name: str) -> Sparsified:
        """The sparsifier of one relation."""
        return self.relations[name]

    def __iter__(self) -> Iterator[str]:
        """Names of the relations, in the order in which they came."""
        return iter(self.relations)

    def __len__(self) -> int:
        """Number of relations."""
        return len(self.relations)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, which all relations share."""
        return next(iter(self.relations.values())).n_nodes

    def lookup(self, ids: Any) -> Int32Array:
        """Node of each id, -1 where it is unknown; see `Sparsified.lookup`."""
        return next(iter(self.relations.values())).lookup(ids)

    def _repr_html_(self) -> str:
        """HTML for a notebook: a row for each relation."""
        columns: dict[str, list[Any]] = {
            "relation": list(self.relations),
            "edges seen": [each.edges_seen for each in self.relations.values()],
            "kept": [each.edges_kept for each in self.relations.values()],
            "epsilon expected": [each.epsilon_expected for each in self.relations.values()],
        }
        return shown(type(self).__name__, {"nodes": self.n_nodes}, columns, len(self))
