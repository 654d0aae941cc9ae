"""Relations as estimators take them: a mapping of names to graphs, matrices or tables of edges."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from peewit.solvers.arguments import BadArgument
from peewit.solvers.estimators.edge_tables import column_names, graphs_of_tables, is_edge_table
from peewit.solvers.graph import Graph
from peewit.solvers.late_modules import LateModule
from peewit.solvers.relations.relation_graphs import RelationGraphs

pa = LateModule("pyarrow")
pc = LateModule("pyarrow.compute")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedRelations:
    """Relations over the same nodes, and the nodes' names; build it with `of`."""

    relations: RelationGraphs
    external_ids: Any  # pyarrow.Array of names of nodes, or None
    is_one_order: bool  # whether the nodes of each were the same in one order that callers know

    @property
    def graph(self) -> Graph:
        """One of the graphs, for what they have in common."""
        return self.relations.graphs[0]

    @classmethod
    def of(cls, sources: Mapping[Any, Any]) -> "NamedRelations":
        """Relations joined by the names of their nodes, or by their numbers where none has names.

        Tables of edges are read within one budget. `BadArgument` as `RelationGraphs.of`, where some
        have names and others do not, and for what is no graph.
        """
        tables = {name: source for name, source in sources.items() if is_edge_table(source)}
        if tables:
            sources = {**sources, **graphs_of_tables(tables)}
        graphs, names = {}, {}
        for name, source in sources.items():
            graphs[name], names[name] = _graph_and_names(name, source)
        without = [name for name, own in names.items() if own is None]
        if len(without) == len(names):
            return cls(relations=RelationGraphs.of(graphs), external_ids=None, is_one_order=True)
        if without:
            raise BadArgument(
                "X",
                "must be relations all with names of nodes or all without, got none for "
                f"{without[0]!r}",
            )
        types = {str(own.type) for own in names.values()}
        if len(types) > 1:
            raise BadArgument(
                "X", f"must have names of nodes of one type, got {' and '.join(sorted(types))}"
            )
        columns = list(names.values())
        if all(own.equals(columns[0]) for own in columns):
            relations = RelationGraphs.of(graphs)
            return cls(relations=relations, external_ids=columns[0], is_one_order=not tables)
        union = pc.unique(pa.concat_arrays(columns))
        for name, own in names.items():
            place = pc.index_in(own, value_set=union).to_numpy().astype(np.int64)
            u, v, weight = graphs[name].edges()
            graphs[name] = Graph.from_edges(place[u], place[v], weight, n_nodes=len(union))
        return cls(relations=RelationGraphs.of(graphs), external_ids=union, is_one_order=False)


def _graph_and_names(name: Any, source: Any) -> tuple[Graph, Any]:
    """The graph of one relation, and the names of its nodes."""
    graph, names = getattr(source, "graph", source), names_of(source)
    if isinstance(graph, Graph):
        return graph, names
    try:
        matrix = check_array(
            source, accept_sparse=("csr", "csc", "coo"), dtype=(np.float64, np.float32)
        )
        return Graph.from_adjacency(matrix), names
    except (TypeError, ValueError) as error:
        raise BadArgument(
            "X",
            f"must hold graphs or tables of edges, and the relation {name!r} does not: "
            f"{error}; give tables with columns src and dst, or name others in "
            "`peewit.sparsify_relations`",
        ) from error


def names_of(source: Any) -> Any:
    """Names of the nodes, of what `sparsify` returns or of a frame, as a pyarrow.Array; or None."""
    names = getattr(source, "external_ids", None)
    if isinstance(names, pa.ChunkedArray):
        return names.combine_chunks()
    if names is not None or (columns := column_names(source)) is None:
        return names
    names = pa.array(columns)
    return names.cast(pa.large_string()) if pa.types.is_string(names.type) else names
