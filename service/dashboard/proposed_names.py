"""Proposed names: what kinds of nodes and of edges a file seems to hold, for people to check."""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.kinds_here import kinds_here, likely_kind
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.tables.table_heads import TableHead
from peewit.solvers.relations.relation_names import is_relation_name
from peewit.streaming.edges.column_mapping import shared_word
from peewit.streaming.edges.node_kinds import KIND

_OF_IDS = re.compile(r"[ _.-]?(id|no|nr|number|key|hash)$", re.IGNORECASE)
_OF_DAYS = re.compile(r"[ _.-]*[0-9][0-9 _.-]*$")


def kind_in(column: str) -> str:
    """The kind of nodes that a column's name says, as account_id; '' where it says none."""
    stem = _OF_IDS.sub("", column)
    return stem if KIND.fullmatch(stem) else ""


def proposed_kinds(
    head: TableHead, graph: GraphRecord, nodes: KnownNodes, *columns: str
) -> tuple[str, ...]:
    """Kinds of the nodes in some columns; '' in graphs without kinds, and where nothing tells.

    A kind that the graph has goes before a new one of the column's name. Columns that are called
    as the two ends of an edge, as from and to, say no kind by that.
    """
    if graph.settings.node_ids != "typed":
        return ("",) * len(columns)
    kinds = kinds_here(nodes, graph)
    word = shared_word(*columns) if len(columns) == 2 else None
    stems = [kind_in(each if word is None else word) for each in columns]

    def found(column: str, stem: str) -> str:
        if stem in kinds or column not in head.names:
            return stem
        place = head.names.index(column)
        ids = [row[place] for row in head.rows if row[place]]
        return likely_kind(nodes, graph, kinds, ids)

    of_columns = list(map(found, columns, stems))
    if word is None:
        return tuple(each or stem for each, stem in zip(of_columns, stems, strict=True))
    only = kinds[0] if len(kinds) == 1 else ""
    shared = next(filter(None, of_columns), stems[0] or only)
    return tuple(each or shared for each in of_columns)


def name_of_place(url: str) -> str:
    """What a place is named by: its last part without wildcards, the table or the topic."""
    scheme, _, _ = url.partition("://")
    path = urlsplit(url).path if "://" in url else url
    parts = [part for part in path.split("/") if part and not part.startswith(("*", "?", "["))]
    name = re.split(r"[*?\[{]", parts[-1])[0].rstrip(" _.-") if parts else ""
    return name.rpartition(".")[2] if scheme == "iceberg" else name


def proposed_relation(file_name: str, known: Sequence[str]) -> str:
    """A kind of edges by the name of a file, messages-2026-03.csv; '' where that is no name."""
    stem = _OF_DAYS.sub("", file_name.partition(".")[0])
    alike = [name for name in known if name and name in {stem, stem.removesuffix("s")}]
    return alike[0] if alike else stem if is_relation_name(stem) else ""
