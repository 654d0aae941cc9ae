"""Reader of live sources: chunk after chunk into the graph's stores, each with the next position.

A process that is killed before the position has moved leaves it there, so the next one reads the
chunk again.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.inbox.confinement import is_within, require_within
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.live_intakes import EdgeIntake, Intake
from peewit.service.inbox.live_positions import PositionMoved
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.source_columns import source_columns
from peewit.service.live_sources.contract import Access, ChangesLost, Chunk, LiveSource, Position
from peewit.service.live_sources.kinds import live_source
from peewit.service.live_sources.node_columns import Holds
from peewit.service.settings import Settings


class LiveReader:
    """Reads sources on; only one thread at a time may read a source.

    ``intakes`` take rows that are no edges. A chunk ends at ``chunk_rows``, by default at the
    ``most_rows`` of its intake.
    """

    def __init__(
        self,
        manifest: Manifest,
        catalog: Catalog,
        settings: Settings,
        *,
        intakes: Mapping[Holds, Intake] | None = None,
        chunk_rows: int | None = None,
    ) -> None:
        self._manifest = manifest
        self._catalog = catalog
        self._settings = settings
        self._intakes = {"edges": EdgeIntake(manifest, settings), **(intakes or {})}
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
        """Take in what a source has, up to the limit of waiting bytes; whether that is all for now.

        ``should_stop`` is asked between chunks, ``on_chunk`` called after each. Raises what the
        store raises, `ChangesLost` where the source no longer has what follows, and `SourceRefused`
        where it was added over HTTP and may not be read.
        """
        graph = self._catalog.get_by_id(source.graph_id)
        self._busy.add(source.id)
        try:
            live = self._ensure_open(source, graph)
            place = self._manifest.live.place(source.id)
            n_reads, position, is_all = place.n_reads, place.position, False
            intake = self._intakes[source.holds]
            most_rows = self._chunk_rows or intake.most_rows
            try:
                if intake.has_room(source):
                    for chunk in live.read(position, most_rows=most_rows, should_stop=should_stop):
                        self._take(intake, source, graph, n_reads, chunk)
                        n_reads, position = n_reads + 1, chunk.position
                        on_chunk()
                        if should_stop() or not intake.has_room(source):
                            break
                    else:
                        is_all = not should_stop()
            except ChangesLost:
                with suppress(ChangesLost):  # the source may not tell any more
                    self._note_lag(source, live, position)
                raise
            self._note_lag(source, live, position)
        except PositionMoved:
            return False
        except BaseException:
            self.forget(source.id)
            raise
        finally:
            self._busy.discard(source.id)
        return is_all

    def forget(self, source_id: str) -> None:
        """Close a source, if it is open."""
        _, live = self._open.pop(source_id, (None, None))
        if live is not None:
            live.close()

    def close_all_but(self, source_ids: Collection[str]) -> None:
        """Close sources that are no longer read."""
        for source_id in self._open.keys() - self._busy - set(source_ids):
            self.forget(source_id)

    def close(self) -> None:
        """Close all sources."""
        for source_id in list(self._open):
            self.forget(source_id)

    def _note_lag(self, source: SourceRecord, live: LiveSource, position: Position | None) -> None:
        lag = live.lag(position)
        if lag != source.lag:
            self._manifest.live.note_lag(source.id, lag)

    def _ensure_open(self, source: SourceRecord, graph: GraphRecord) -> LiveSource:
        """The source, opened again when it is to be read in another way."""
        access = access_to(source, graph, home=self._settings.home)
        known = self._open.get(source.id)
        if known is not None and _identity_of(known[0]) == _identity_of(access):
            return known[1]
        self.forget(source.id)
        live = live_source(source.kind).open(access)
        self._open[source.id] = (access, live)
        return live

    def _take(
        self, intake: Intake, source: SourceRecord, graph: GraphRecord, n_reads: int, chunk: Chunk
    ) -> None:
        advance = self._manifest.live.advance
        if chunk.table is None or not chunk.table.num_rows:
            advance(source, n_reads, chunk.position, refused=chunk.refused)
            return
        rows = intake.take(source, graph, chunk.table, label=chunk.label)
        refused = [*chunk.refused, *rows.refused]
        try:
            advance(source, n_reads, chunk.position, refused=refused, store=rows.store)
        except PositionMoved:
            if rows.path is not None:
                rows.path.unlink()
            raise


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
        columns=source_columns(settings, source.holds, source.columns),
        takes_changes=source.holds != "edges"
        or (settings.deletions != "off" and settings.parallel == "replace"),
        node_kind=settings.node_ids,
        max_nodes=settings.max_nodes,
        allows=allows,
    )


def _anywhere(_path: str) -> bool:
    return True


def _identity_of(access: Access) -> tuple[object, ...]:
    return access.url, access.columns, access.takes_changes
