"""Column names of a source: its own, else the graph's, else the usual ones."""

from collections.abc import Mapping

from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.live_sources.node_columns import Holds, NodeColumns
from peewit.service.tables.column_names import edge_columns
from peewit.streaming.edges.column_mapping import EdgeColumns


def source_columns(
    graph: GraphSettings, holds: Holds, names: Mapping[str, str] | None
) -> EdgeColumns | NodeColumns:
    """Column names of a source that holds edges, labels or features.

    Raises a ValueError where a name is given for what its rows do not hold.
    """
    if holds == "edges":
        return edge_columns(graph.columns_of_edges, names)
    return NodeColumns.of_names(holds, graph.columns, names or {})


def source_kinds(graph: GraphSettings, source: SourceRecord) -> tuple[str, ...]:
    """Kinds of the nodes of each column of them, of a source; '' where they have none."""
    return source_columns(graph, source.holds, source.columns).kinds


def relations_said(columns: Mapping[str, str] | None) -> str:
    """Which relations the edges of a source belong to, in words; '' where nothing says it."""
    said = columns or {}
    if "relation_column" in said:
        return f"by the column {said['relation_column']}"
    if "via" in said:
        return f"of {said.get('entity', '')} with {said['via']}"
    return said.get("relation", "")
