"""Names of the columns of tables: those of the call, else of the graph, else the usual ones."""

from collections.abc import Mapping
from typing import Any, cast

from peewit.service.tables.uploads import LabelColumns
from peewit.service.tables.uploads.givers import GIVER_COLUMNS, LABEL_TIME
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.column_mapping import COLUMN_NAMES, NO_COLUMN, EdgeColumns
from peewit.streaming.edges.reading_options import READING_OPTIONS, NodelessRows
from peewit.streaming.edges.relations import RELATION_NAMES
from peewit.streaming.features.encoding import ColumnWishes


def edge_columns(graph: Mapping[str, str], chosen: Mapping[str, str] | None = None) -> EdgeColumns:
    """Names of the columns of edges: those given, else the graph's, else the usual ones.

    A weight column named by the call must exist. One named by the graph may be missing and counts
    as 1 then, unless the table has a column of the usual name. The same holds for the column of
    operations, without which every row inserts; text whose columns are places has none that only
    the graph names. Relations are the call's alone. Where it names columns of events, as via, their
    entity is the one end, and ends of the graph do not count.
    """
    known = *COLUMN_NAMES, *RELATION_NAMES, *READING_OPTIONS
    for name in chosen or ():
        if name not in known:
            raise BadArgument("columns", f"must name {', '.join(known)} alone, got {name!r}")
    if "time" in (chosen or {}) and "time" not in graph:
        raise BadArgument("columns.time", "must be left out of a graph without a window by time")
    named = {**graph, **_relations(chosen or {})}
    if "via" in named:
        named |= {"src": named["entity"], "dst": "dst"}
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
        relation=named.get("relation"),
        relation_column=named.get("relation_column"),
        src_kind_column=named.get("src_kind_column"),
        dst_kind_column=named.get("dst_kind_column"),
        via=column_list(named.get("via")),
        **{name: cast("Any", named[name]) for name in READING_OPTIONS if name in named},
    )


def _relations(chosen: Mapping[str, str]) -> Mapping[str, str]:
    """What is chosen; raises BadArgument unless via and entity stand together, without ends."""
    if ("via" in chosen) != ("entity" in chosen):
        without, other = ("entity", "via") if "via" in chosen else ("via", "entity")
        what = "the column that is joined with" if "via" in chosen else "the columns joined with"
        rule = f"must name {what} {other} {chosen[other]!r}, as KIND:COLUMN or COLUMN, got none"
        raise BadArgument(without, rule)
    for end in ("src", "dst"):
        if "via" in chosen and end in chosen:
            raise BadArgument(
                end,
                "must be left out where via joins the entity with each of its columns; name it in "
                f"via, got {chosen[end]!r}",
            )
    return chosen


def label_columns(
    graph: Mapping[str, str], chosen: Mapping[str, str], **others: Any
) -> LabelColumns:
    """Names of the columns of labels: those given, else the graph's, else the usual ones.

    Those of origin, annotator and time that only the graph names may be missing from a table.
    """
    named = {**graph, **chosen}
    return LabelColumns(
        node=named.get("node", "node"),
        label=named.get("label", "label"),
        graph_names={name: graph[name] for name in (*GIVER_COLUMNS, LABEL_TIME) if name in graph},
        **others,
    )


def column_list(text: str | None, argument: str = "via") -> tuple[str, ...]:
    """Names of columns with commas between, which no name then has; none where nothing is said."""
    names = () if text is None else tuple(each.strip() for each in text.split(","))
    if "" in names:
        rule = "must name a column before and after each comma; leave it out for none"
        raise BadArgument(argument, f"{rule}, got {text!r}")
    return names


def column_wishes(
    text: str | None, without: str | None, missing_ids: NodelessRows = "refuse"
) -> ColumnWishes:
    """What is said of columns of features; lists have commas between."""
    texts, unwanted = column_list(text, "text"), column_list(without, "without")
    return ColumnWishes(texts=texts, without=unwanted, missing_ids=missing_ids)
