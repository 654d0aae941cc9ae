"""Tables as bodies and as answers, which each door reads and writes in its own way."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, ClassVar, Protocol

import orjson

from peewit.service.catalog import GraphRecord
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
from peewit.streaming.edges.table_formats import Format

Pieces = Iterable[bytes | memoryview]


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
