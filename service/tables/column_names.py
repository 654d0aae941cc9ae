"""Names of the columns of tables: those of the call, else of the graph, else the usual ones."""

from collections.abc import Mapping
from typing import Any, cast

from peewit.service.tables.uploads import LabelColumns
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.column_mapping import (
    COLUMN_NAMES,
    NO_COLUMN,
    EdgeColumns,
)
from peewit.streaming.edges.reading_options import READING_OPTIONS


def edge_columns(graph: Mapping[str, str], chosen: Mapping[str, str] | None = None) -> EdgeColumns:
    """Names of the columns of edges: those given, else the graph's, else the usual ones.

    A weight column named by the call must exist. One named by the graph may be missing and counts
    as 1 then, unless the table has a column of the usual name. The same holds for the column of
    operations, without which every row inserts; text whose columns are places has none that only
    the graph names.
    """
    known = *COLUMN_NAMES, *READING_OPTIONS
    for name in chosen or ():
        if name not in known:
            raise BadArgument("columns", f"must name {', '.join(known)} alone, got {name!r}")
    if "time" in (chosen or {}) and "time" not in graph:
        raise BadArgument("columns.time", "must be left out of a graph without a window by time")
    named = {**graph, **(chosen or {})}
    are_places = named.get("src", "").startswith("#")
    if are_places and "op" not in (chosen or {}) and not named.get("op", "#").startswith("#"):
        del named["op"]
    return EdgeColumns(
        src=named.get("src", "src"),
        dst=named.get("dst", "dst"),
        weight=named.get("weight", "weight"),
        needs_weight="weight" in (chosen or {}),
        op=NO_COLUMN if named.get("op") == "" else named.get("op"),
        needs_op=bool((chosen or {}).get("op")),
        time=named.get("time"),
        **{name: cast("Any", named[name]) for name in READING_OPTIONS if name in named},
    )


def label_columns(
    graph: Mapping[str, str], chosen: Mapping[str, str], **others: Any
) -> LabelColumns:
    """Names of the columns of labels: those given, else the graph's, else the usual ones."""
    named = {**graph, **chosen}
    return LabelColumns(node=named.get("node", "node"), label=named.get("label", "label"), **others)
