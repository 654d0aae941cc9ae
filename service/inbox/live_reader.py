"""Reader of live sources: chunk after chunk into the inbox of the graph, with the next position.

A chunk is on disk before the manifest names it. A process that is killed in between leaves a file
that nothing names, which is swept, and a position at which the next one reads the chunk again.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.inbox.confinement import is_within, require_within
from peewit.service.inbox.inbox_records import ListedFile, SourceRecord
from peewit.service.inbox.live_positions import PositionMoved
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.pushes import ROWS_PER_GROUP
from peewit.service.live_sources.contract import Access, Chunk, LiveSource
from peewit.service.live_sources.kinds import live_source
from peewit.service.settings import Settings
from peewit.service.tables.column_names import edge_columns
from peewit.service.tables.uploads import id_type
from peewit.streaming.durable_files import make_durable_directory, publish_file
from peewit.streaming.graph_paths import GraphPaths

CHUNK_ROWS: Final = 1 << 20
"""Rows at which a chunk ends, a file of the graph."""


class LiveReader:
    """Reads sources on; of one source one thread at a time.

    Parameters
    ----------
    manifest : Manifest
        Receives chunks and positions.
    catalog : Catalog
        Knows the graphs.
    settings : Settings
        Home directory, and how many bytes of a source may wait.
    chunk_rows : int
        Rows at which a chunk ends.
    """

    def __init__(
        self,
        manifest: Manifest,
        catalog: Catalog,
        settings: Settings,
        *,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self._manifest = manifest
        self._catalog = catalog
        self._settings = settings
        self._chunk_rows = chunk_rows
        self._open: dict[str, tuple[Access, LiveSource]] = {}
        self._busy: set[str] = set()

    def read(
        self,
        source: SourceRecord,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        on_chunk: Callable[[], None] = lambda: None,
    ) -> bool:
        """Take in what a source has, up to what may wait; whether that is all there is now.

        Parameters
        ----------
        source : SourceRecord
            A live one.
        should_stop : callable
            Asked between chunks.
        on_chunk : callable
            Called after each.

        Raises
        ------
        peewit.service.live_sources.contract.ChangesLost
            What follows is gone from the source.
        peewit.service.inbox.confinement.SourceRefused
            It was added over HTTP and may not be read.
        Exception
            Whatever the store raises.
        """
        graph = self._catalog.get_by_id(source.graph_id)
        self._busy.add(source.id)
        try:
            live = self._opened(source, graph)
            place = self._manifest.live.place(source.id)
            n_reads, position, is_all = place.n_reads, place.position, False
            if self._has_room(source.id):
                for chunk in live.read(
                    position, most_rows=self._chunk_rows, should_stop=should_stop
                ):
                    self._take(source, graph, n_reads, chunk)
                    n_reads, position = n_reads + 1, chunk.position
                    on_chunk()
                    if should_stop() or not self._has_room(source.id):
                        break
                else:
                    is_all = not should_stop()
            lag = live.lag(position)
        except PositionMoved:
            return False
        except BaseException:
            self.forget(source.id)
            raise
        finally:
            self._busy.discard(source.id)
        if lag != source.lag:
            self._manifest.live.note_lag(source.id, lag)
        return is_all

    def forget(self, source_id: str) -> None:
        """Close a source, if it is open."""
        _, live = self._open.pop(source_id, (None, None))
        if live is not None:
            live.close()

    def close_all_but(self, source_ids: Collection[str]) -> None:
        """Close sources that are not read any more."""
        for source_id in self._open.keys() - self._busy - set(source_ids):
            self.forget(source_id)

    def close(self) -> None:
        """Close all sources."""
        for source_id in list(self._open):
            self.forget(source_id)

    def _opened(self, source: SourceRecord, graph: GraphRecord) -> LiveSource:
        """The source, opened anew when it is to be read in another way."""
        access = access_to(source, graph, home=self._settings.home)
        known = self._open.get(source.id)
        if known is not None and _said(known[0]) == _said(access):
            return known[1]
        self.forget(source.id)
        live = live_source(source.kind).open(access)
        self._open[source.id] = (access, live)
        return live

    def _has_room(self, source_id: str) -> bool:
        return self._manifest.live.waiting_bytes(source_id) < self._settings.max_backlog_bytes

    def _take(self, source: SourceRecord, graph: GraphRecord, n_reads: int, chunk: Chunk) -> None:
        file = None
        if chunk.table is not None and chunk.table.num_rows:
            file = self._write(graph, f"{source.id}-{n_reads}", chunk.label, chunk.table)
        try:
            self._manifest.live.advance(
                source, n_reads, chunk.position, file=file, refused=chunk.refused
            )
        except PositionMoved:
            if file is not None:
                Path(file.path).unlink()
            raise

    def _write(self, graph: GraphRecord, name: str, label: str, table: pa.Table) -> ListedFile:
        """The chunk on disk; equal chunks of one source count twice, so their files differ."""
        directory = GraphPaths(root=self._settings.graphs_directory / graph.id).pushes
        make_durable_directory(directory)
        path = directory / f"{label}-{name}-{uuid4().hex[:8]}.parquet"
        made = _with_ids(table, id_type(graph.settings.node_ids))
        made = made.replace_schema_metadata({b"peewit.source": name.encode()})
        # of numbers a dictionary takes four times as long to write
        repeated = [field.name for field in made.schema if not pa.types.is_primitive(field.type)]
        publish_file(
            path,
            lambda temporary: pa.parquet.write_table(
                made, temporary, row_group_size=ROWS_PER_GROUP, use_dictionary=repeated
            ),
        )
        return ListedFile(str(path), name, path.stat().st_size)


def access_to(source: SourceRecord, graph: GraphRecord, *, home: Path) -> Access:
    """How a live source is to be read for its graph."""
    settings, confined_to = graph.settings, source.confined_to
    if confined_to is None:
        allows: Callable[[str], bool] = _anywhere
    else:
        place = confined_to
        require_within(source.url, place, home=home)

        def allows(path: str) -> bool:
            return is_within(path, place, home=home)

    return Access(
        url=source.url,
        columns=edge_columns(settings.columns_of_edges, source.columns),
        takes_changes=settings.deletions != "off" and settings.parallel == "replace",
        node_kind=settings.node_ids,
        max_nodes=settings.max_nodes,
        allows=allows,
    )


def _anywhere(_path: str) -> bool:
    return True


def _said(access: Access) -> tuple[object, ...]:
    return access.url, access.columns, access.takes_changes


def _with_ids(table: pa.Table, kind: pa.DataType) -> pa.Table:
    """The edges with ids of the graph's type; those that are none as text, for ingest to refuse."""
    for place, name in enumerate(table.column_names):
        if name in ("src", "dst") and table.column(name).type != kind:
            table = table.set_column(place, name, _as_ids(table.column(name), kind))
    return table


def _as_ids(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return pc.cast(column, kind)
    except pa.ArrowInvalid:
        return pc.cast(column, pa.string())
