"""Ingest of one graph by one process: the manifest's pending files and features into the stream.

`Ingestor` does it once; `daemon` keeps graphs open and goes on. The lease `ingest:<graph>` makes
one process at a time the writer.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.database.lease_keeper import LeaseKeeper, held_lease
from peewit.service.home import Home
from peewit.service.inbox.confinement import confine_redirects
from peewit.service.inbox.inbox_records import SourceNotFound, SourceRecord
from peewit.service.inbox.source_lister import explained, list_files
from peewit.service.ingest.arrivals import ArrivalClock
from peewit.service.ingest.lease_and_heartbeat_renewer import Renewer
from peewit.service.ingest.live_reading import live_reader
from peewit.service.ingest.open_graph import (
    FEATURES_GRACE_SECONDS,
    IngestReport,
    OpenGraph,
    state_of,
)
from peewit.service.ingest.step_reports import reported_listing
from peewit.service.redaction import shown_url
from peewit.service.settings import Settings
from peewit.streaming.events import IngestEvent
from peewit.streaming.features.store import FeatureStore


class LiveSourceUnread(RuntimeError):
    """A live source could not be read; its record has the reason, too."""


class Ingestor:
    """Brings pending files into graphs.

    The ``renewer`` renews leases while factorizations block this process, and stores its steps.
    Clocks of arrivals run on by ``monotonic`` seconds.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        renewer: Renewer | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.home = Home(database, settings)
        self._arrivals = defaultdict[str, ArrivalClock](partial(ArrivalClock, monotonic))
        self._renewer = renewer
        self._manifest = self.home.manifest
        self._reader = live_reader(self.home)
        confine_redirects(settings.source_hosts)

    def discover(self, graph_id: str) -> int:
        """List the sources of files into the manifest; returns the number of new files.

        Followed sources are listed at every call, others until they have given a file. Raises
        OSError if a source cannot be listed, and `SourceRefused` if one added over HTTP may not be
        read.
        """
        return sum(
            self.list_source(graph_id, source)
            for source in self._manifest.sources.list(graph_id)
            if not source.is_live and (source.follow or not self._manifest.has_files(source.id))
        )

    def read_live(self, graph_id: str, *, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Read live sources as far as chunks may wait; whether they are read to the end.

        Raises `LiveSourceUnread` if one cannot be read, after the others were.
        """
        is_all, unread = True, None
        for source in self._manifest.sources.list(graph_id):
            if not source.is_live or (source.lag == 0 and not source.follow):
                continue
            try:
                with self.listing(source):
                    is_all &= self._reader.read(source, should_stop=should_stop)
            except (GraphNotFound, SourceNotFound, SQLAlchemyError):
                raise
            except Exception as error:  # noqa: BLE001 - stores raise what they like
                reason = explained(error)
                self._manifest.sources.note_listing(source.id, error=reason)
                unread = LiveSourceUnread(f"source {shown_url(source.url)} is not read: {reason}")
                unread.__cause__ = error
            else:
                self._manifest.sources.note_listing(source.id)
        if unread is not None:
            raise unread
        return is_all

    def list_source(
        self, graph_id: str, source: SourceRecord, *, is_asked_for: bool = False
    ) -> int:
        """List one source into the manifest; returns the number of new files.

        With ``is_asked_for`` a source that is a single file brings it again after it was retracted.
        """
        with self.listing(source):
            listed, _ = list_files(source, home=self.home.settings.home)
        path = source.url.removeprefix("file://")
        is_named = is_asked_for and [file.path for file in listed] == [path]
        n_new = self._manifest.register_files(graph_id, source.id, listed, is_asked_for=is_named)
        self._manifest.sources.note_listing(source.id)
        return n_new

    def listing(self, source: SourceRecord) -> AbstractContextManager[None]:
        """Report that this thread lists a source while the block runs."""
        return reported_listing(self._renewer, source)

    def ingest_graph(
        self,
        graph_id: str,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        on_event: Callable[[IngestEvent], None] = lambda _event: None,
    ) -> IngestReport:
        """Ingest all pending files, pushes and features, then close the graph.

        It is not even opened where there is nothing to do.

        Whatever ends a call, nothing is lost, and the next one goes on. A store or a live source
        that does not answer is told once what the others gave is in.
        """
        record = self.home.catalog.get_by_id(graph_id)
        is_at_rest = not self._manifest.work(graph_id, state=state_of(self.home, record))
        if is_at_rest and not self.discover(graph_id):
            self.retire_features(record)
            progress = record.progress
            return IngestReport(edges_seen=progress.edges_seen, snapshot=progress.snapshot)
        with self.open_graph(graph_id, should_stop=should_stop, on_event=on_event) as graph:
            if not is_at_rest:
                self.discover(graph_id)
            unread = fault = None
            try:
                while not self.read_live(graph_id, should_stop=should_stop):
                    n_waiting = len(self._manifest.feature_log.waiting(graph_id))
                    report = graph.ingest_pending(failed_repairs=fault is None)  # makes room
                    fault = fault or report.repair_fault
                    if (
                        not report.n_ended
                        and len(self._manifest.feature_log.waiting(graph_id)) == n_waiting
                    ):
                        break
            except LiveSourceUnread as error:
                unread = error
            finally:
                self._reader.close()
            report = graph.ingest_pending(failed_repairs=fault is None)
        if unread is not None:
            raise unread
        for unreadable in report.unreadable.values():
            raise unreadable
        return report

    def retire_features(self, record: GraphRecord) -> None:
        """Remove versions of features that were replaced long enough ago.

        Raises `LeaseHeld` if another process ingests this graph; it removes them after its pass.
        """
        store = FeatureStore(self.home.paths(record).features)
        if not store.superseded(
            record.features_version, grace_seconds=FEATURES_GRACE_SECONDS, now=time.time()
        ):
            return
        with self._right_to_ingest(record.id):
            store.retire(
                record.features_version, grace_seconds=FEATURES_GRACE_SECONDS, now=time.time()
            )

    @contextmanager
    def _right_to_ingest(self, graph_id: str) -> Iterator[LeaseKeeper]:
        renewer = self._renewer
        with (
            held_lease(
                self.home.database, f"ingest:{graph_id}", purpose="ingests this graph"
            ) as keeper,
            nullcontext() if renewer is None else renewer.holding(keeper.lease),
        ):
            yield keeper

    @contextmanager
    def open_graph(
        self,
        graph_id: str,
        *,
        should_stop: Callable[[], bool],
        on_event: Callable[[IngestEvent], None] = lambda _event: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> Iterator[OpenGraph]:
        """The open graph, with its lease and its state in memory, for any number of passes.

        ``clock`` times checkpoints and snapshots, in seconds.
        """
        record = self.home.catalog.get_by_id(graph_id)
        with self._right_to_ingest(graph_id) as keeper:
            yield OpenGraph(
                self.home,
                record,
                keeper,
                self._renewer,
                should_stop=should_stop,
                on_event=on_event,
                clock=clock,
                arrivals=self._arrivals[graph_id],
            )
