"""Intakes of live sources: store the rows of a chunk, by what these hold.

An intake does all slow work, such as writing a file, before the transaction that moves the
position; the transaction only stores what must be stored together. Edges are taken here. Whoever
passes other intakes to the reader takes labels and features.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from sqlalchemy import Connection

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.block_rows import RELATED, relations_of
from peewit.service.inbox.file_outcomes import insert_files
from peewit.service.inbox.inbox_records import ListedFile, SourceRecord
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.pushes import ROWS_PER_GROUP
from peewit.service.inbox.source_store import require_path
from peewit.service.live_sources.chunk_rows import as_ids, as_text
from peewit.service.live_sources.contract import Refused
from peewit.service.settings import Settings
from peewit.service.tables.column_names import edge_columns
from peewit.service.tables.uploads import id_type
from peewit.streaming.durable_files import make_durable_directory, publish_file
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.columns import are_kinds, empty_cells
from peewit.streaming.edges.node_ids import in_kind
from peewit.streaming.edges.parts import columns_of_copy
from peewit.streaming.edges.plain_types import plain_column
from peewit.streaming.edges.relations import KIND_COLUMNS
from peewit.streaming.graph_paths import GraphPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Rows of a chunk that are ready to be stored.

    ``store`` runs in the transaction that moves the position, and returns rows that are refused
    then.
    """

    store: Callable[[Connection], Sequence[Refused]]
    refused: Sequence[Refused] = field(default_factory=tuple)  # rows that are left out
    path: Path | None = None  # file to remove if the position has moved


class Intake(Protocol):
    """Takes rows of one kind; a chunk ends at ``most_rows``."""

    most_rows: ClassVar[int]

    def has_room(self, source: SourceRecord, /) -> bool:
        """Whether more of a source may be read now."""

    def take(
        self, source: SourceRecord, graph: GraphRecord, table: pa.Table, /, *, label: str
    ) -> Taken:
        """The rows of a nonempty chunk, ready to be stored; ``label`` is that of the chunk."""


class EdgeIntake:
    """Writes chunks of edges into the inbox of their graph, as files that ingest reads.

    A chunk is on disk before the manifest names it. A process that is killed in between leaves a
    file that nothing names, which is swept.
    """

    most_rows: ClassVar[int] = 1 << 20

    def __init__(self, manifest: Manifest, settings: Settings) -> None:
        self._manifest = manifest
        self._settings = settings

    def has_room(self, source: SourceRecord) -> bool:
        """Whether less than the limit of it waits for ingest."""
        return self._manifest.live.waiting_bytes(source.id) < self._settings.max_backlog_bytes

    def take(
        self, source: SourceRecord, graph: GraphRecord, table: pa.Table, /, *, label: str
    ) -> Taken:
        """The chunk on disk; equal chunks of one source count twice, so their files differ."""
        directory = GraphPaths(root=self._settings.graphs_directory / graph.id).pushes
        make_durable_directory(directory)
        name = f"{source.id}-{uuid4().hex[:8]}"
        columns = edge_columns(graph.settings.columns_of_edges, source.columns)
        path = directory / f"{label}-{name}{RELATED if relations_of(columns) else '.parquet'}"
        edges = _edges(table, id_type(graph.settings.node_ids), columns)
        edges = edges.replace_schema_metadata({b"peewit.source": name.encode()})
        # a dictionary of numbers takes four times as long to write
        repeated = [field.name for field in edges.schema if not pa.types.is_primitive(field.type)]
        publish_file(
            path,
            lambda temporary: pa.parquet.write_table(
                edges, temporary, row_group_size=ROWS_PER_GROUP, use_dictionary=repeated
            ),
        )
        file = ListedFile(str(path), name, path.stat().st_size)
        require_path("path", file.path)

        def store(connection: Connection) -> Sequence[Refused]:
            insert_files(connection, graph.id, [file], source_id=source.id)
            return ()

        return Taken(store=store, path=path)


def _edges(table: pa.Table, kind: pa.DataType, columns: EdgeColumns) -> pa.Table:
    """The edges of a chunk, of events one for each cell, null where that is empty."""
    relations = relations_of(columns)
    of_kinds = [
        _kinds(table.column(place)) if place in table.column_names else of_kind
        for of_kind, place in zip_longest(columns.kinds, KIND_COLUMNS)
    ]
    table = table.drop_columns([each for each in KIND_COLUMNS if each in table.column_names])
    if not columns.via:
        if relations and columns.relation_column is None:
            table = table.append_column("relation", pa.repeat(relations[0], table.num_rows))
        if columns.relation_column is not None:
            place = table.schema.get_field_index("relation_column")
            table = table.set_column(place, "relation", as_text(table.column(place)))
        return _with_ids(table, kind, of_kinds)
    places = columns_of_copy(columns)[1:]
    edges = []
    for place, relation, of_kind in zip(places, relations, of_kinds[1:], strict=True):
        cells = plain_column(table.column(place)).combine_chunks()
        is_empty = pa.array(empty_cells(cells, keeps_missing=columns.missing_ids == "keep"))
        cells = pc.if_else(is_empty, pa.scalar(None, cells.type), cells)
        arm = table.drop_columns(places).append_column("dst", cells)
        arm = arm.append_column("relation", pa.repeat(relation, arm.num_rows))
        edges.append(_with_ids(arm, kind, (of_kinds[0], of_kind)))
    return pa.concat_tables(edges, promote_options="permissive")


def _kinds(column: pa.ChunkedArray) -> pa.Array:
    """The kind of each row's node; empty where it is none, for ingest to refuse."""
    kinds = as_text(column).combine_chunks()
    return pc.if_else(pa.array(are_kinds(kinds)), kinds, pa.scalar("", kinds.type))


def _with_ids(table: pa.Table, kind: pa.DataType, of_kinds: Sequence[str | pa.Array]) -> pa.Table:
    """The edges with ids of the graph's type; other ids become text, for ingest to refuse."""
    for name, of_kind in zip(("src", "dst"), of_kinds, strict=True):
        ids = as_ids(table.column(name), kind)
        if pa.types.is_large_string(ids.type):
            ids = in_kind(ids, of_kind)
        table = table.set_column(table.schema.get_field_index(name), name, ids)
    return table
