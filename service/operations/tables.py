"""Tables as bodies and as answers, which each door reads and writes in its own way."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, BinaryIO, ClassVar, Protocol

import orjson

from peewit.service.catalog import GraphRecord
from peewit.service.operations.declaration import Group, Query
from peewit.service.operations.here import Here
from peewit.service.tables.uploads import (
    BadUpload,
    LabelColumns,
    UploadedLabels,
    UploadLimits,
    json_labels,
)
from peewit.service.tables.uploads.label_columns import PLAIN_LABELS
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.json_tables import json_value
from peewit.streaming.edges.reading_options import MissingIds, Quote
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.edges.time_units import TimeUnit

Pieces = Iterable[bytes | memoryview]

Quoting = Annotated[
    Quote | None,
    Query(
        "Whether a double quote before a field of CSV quotes it; text that seems not to quote is "
        "refused until this is said."
    ),
]


@dataclass(frozen=True, kw_only=True)
class EdgeColumnNames(Group):
    """What the columns of a table of edges are called, and how it is read."""

    src: Annotated[
        str | None,
        Query(
            "Column of one end; the graph's otherwise. '#1' by place, KIND:COLUMN where its nodes "
            "are of a kind, as account:id.",
            metavar="COLUMN",
        ),
    ] = None
    dst: Annotated[
        str | None,
        Query("Column of the other end, or KIND:COLUMN, as device:id.", metavar="COLUMN"),
    ] = None
    weight: Annotated[str | None, Query("Column of the weight.", metavar="COLUMN")] = None
    op: Annotated[
        str | None,
        Query("Column that says insert, delete or set; the graph's otherwise.", metavar="COLUMN"),
    ] = None
    time: Annotated[
        str | None, Query("Column of the time, in graphs with a window by time.", metavar="COLUMN")
    ] = None
    relation: Annotated[
        str | None, Query("Kind of edges that all rows are of.", metavar="NAME")
    ] = None
    relation_column: Annotated[
        str | None, Query("Column of the kind of edges of each row.", metavar="COLUMN")
    ] = None
    src_kind_column: Annotated[
        str | None,
        Query("Column of the kind of the node at one end of each row.", metavar="COLUMN"),
    ] = None
    dst_kind_column: Annotated[
        str | None, Query("Column of the kind of the node at the other end.", metavar="COLUMN")
    ] = None
    entity: Annotated[
        str | None, Query("Column that `via` joins with others, as KIND:COLUMN.", metavar="COLUMN")
    ] = None
    via: Annotated[
        str | None,
        Query(
            "Columns of events, with commas between, instead of `src` and `dst`: `entity` is "
            "joined with each by a kind of edges of its name. An empty cell is no edge.",
            metavar="COLUMN,...",
            examples=["device:device_id,ip"],
        ),
    ] = None
    time_unit: Annotated[
        TimeUnit | None,
        Query(
            "What times that are numbers count: s, ms, us or ns; by default seconds, which must "
            "lie between 1990 and the end of next year."
        ),
    ] = None
    time_format: Annotated[
        str | None,
        Query(
            "How times are written, as strptime has it: %Y%m%d for 20260301.",
            metavar="FORMAT",
            examples=["%Y%m%d"],
        ),
    ] = None
    quote: Quoting = None
    missing_ids: Annotated[
        MissingIds | None,
        Query("Ids that are words for nothing, as NULL and NA: refused, or kept."),
    ] = None


class GivenLabels(Protocol):
    """Labels that somebody brings."""

    is_table: ClassVar[bool]

    def labels(
        self, here: Here, graph: GraphRecord, columns: LabelColumns, /
    ) -> Mapping[str, UploadedLabels]:
        """They by their column, where the table calls its columns so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpload:
    """A table that has arrived whole."""

    file: BinaryIO  # at its start; closed with the request
    table_format: Format
    digest: str  # SHA-256 of format and content
    limits: UploadLimits
    decoding_bytes: int  # of the decoding budget, held while it is decoded

    is_table: ClassVar[bool] = True

    def labels(
        self, here: Here, graph: GraphRecord, columns: LabelColumns
    ) -> Mapping[str, UploadedLabels]:
        """Its labels; raises as `read_labels`."""
        return here.home.labeling.read(
            graph, self.file, self.table_format, columns, limits=self.limits
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonUpload:
    """A JSON document that has arrived whole."""

    file: BinaryIO
    decoding_bytes: int  # as of a table; 0 of little

    is_table: ClassVar[bool] = False

    def rows(self, name: str, example: str) -> list[Any]:
        """The list under ``name``, the document's only key; raises `BadUpload`."""
        try:
            document = json_value(self.file.read())
        except orjson.JSONDecodeError as error:
            raise BadUpload(f"the body must be JSON ({error.msg})") from error
        rows = document.get(name) if isinstance(document, dict) else None
        if not isinstance(rows, list) or len(document) > 1:
            raise BadUpload(f'the body must read {{"{name}": [{example}, ...]}}')
        return rows

    def labels(
        self, _here: Here, graph: GraphRecord, columns: LabelColumns
    ) -> Mapping[str, UploadedLabels]:
        """Its labels, which have the usual names; raises as `json_labels`."""
        usual_names = {*PLAIN_LABELS.all, *graph.settings.columns.values()}
        for argument, column in (("node", columns.node), ("label", columns.label)):
            if column not in {*usual_names, columns.into}:
                raise BadArgument(
                    argument, f"must be left out beside JSON, whose names are fixed, got {column!r}"
                )
        name = "<label_column>" if columns.names else "label"
        rows = self.rows("labels", f'{{"node": ..., "{name}": ...}}')
        usual = replace(columns, node=PLAIN_LABELS.node, label=PLAIN_LABELS.label)
        return json_labels(rows, graph.settings.node_ids, usual)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """An answer that is a table, which is written while it is sent."""

    name: str  # of a file, without suffix; ASCII
    open: Callable[[Format], tuple[Pieces, Mapping[str, str]]]  # and headers: where it comes from
    tag: str | None = None  # another one once the content is another


def named(**columns: str | None) -> dict[str, str]:
    """Names of columns that are given."""
    return {name: column for name, column in columns.items() if column is not None}
