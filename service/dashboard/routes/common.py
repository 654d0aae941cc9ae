"""Parts that several pages share."""

from typing import Annotated

from fastapi import Query

from peewit.service.api.served_home import ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.problems import InvalidArgument
from peewit.service.tables.uploads import NodeId, node_array, node_id
from peewit.service.tables.uploads.label_columns import MAX_COLUMN_BYTES
from peewit.service.wire.labels import LABEL_ORIGINS, LabelOrigin, origin_named
from peewit.streaming.edges.node_kinds import TEXT

PAGE_ROWS = 50
"""Rows of one page of a table."""

Seen = Annotated[str, Query(max_length=64, description="What the page shows already.")]


Column = Annotated[
    str, Query(alias="label_column", max_length=MAX_COLUMN_BYTES, description="Empty: the unnamed.")
]


def node_of(text: str, graph: GraphRecord, home: ServedHome, *, name: str = "node") -> NodeId:
    """A typed node, without surrounding blanks unless a node has them in its name."""
    kind = graph.settings.node_ids
    if kind in TEXT and text != text.strip():
        exact = node_id(text, kind, name=name)
        if home.nodes.knows(graph, node_array([exact], kind)).all():
            return exact
    return node_id(text.strip(), kind, name=name)


def origin_in(text: str) -> LabelOrigin:
    """The origin of a label that a form gives."""
    origin = origin_named(text)
    if origin is not None:
        return origin
    raise InvalidArgument(
        f"origin must be one of {', '.join(LABEL_ORIGINS)}, got {text[:80]!r}", argument="origin"
    )
