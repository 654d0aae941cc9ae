"""Ingest daemon: watches all graphs and brings in what their sources and pushes have.

It keeps graphs open, so that a small push costs no reload, and closes idle ones, so that others may
ingest them (`peewit ingest`, other daemons). A pass ends with a checkpoint and a snapshot, at a
cost that grows with the graph; after it pushes gather for as long as it took.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

import structlog
from sqlalchemy.exc import OperationalError
from structlog.contextvars import bound_contextvars

from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.database.disk_full_errors import is_disk_full
from peewit.service.database.engine import Database
from peewit.service.database.lease_keeper import LeaseHeld
from peewit.service.database.leases import LeaseExpired
from peewit.service.database.revision import Revision
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.needed_files import remove_unneeded
from peewit.service.inbox.source_lister import SourceLister
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.ingest.lease_and_heartbeat_renewer import Renewer
from peewit.service.ingest.live_reading import live_reader
from peewit.service.ingest.open_graph import OpenGraph
from peewit.service.ingest.step_reports import ReportedSteps
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.metrics.graph_metrics import OTHERS
from peewit.service.metrics.store_metrics import IngestMetrics, metrics_server
from peewit.service.settings import Settings
from peewit.service.tasks.kind_list import KINDS
from peewit.streaming.graph_stream import Interrupted
from peewit.streaming.steps import Steps

POLL_SECONDS: Final = 0.1
"""Interval of looking for commits; only after one may there be something to do."""

LISTING_SECONDS: Final = 0.2
"""How long a round waits for the listings that it begins."""

LONGEST_WAIT_SECONDS: Final = 5.0
"""Longest time between two rounds."""

IDLE_SECONDS: Final = 30.0
BEAT_SECONDS: Final = 2.0
CLEAN_SECONDS: Final = 60.0
FIRST_CLEAN_SECONDS: Final = 10.0
"""After the start, which other processes of the machine share."""

PURGE_GRACE_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 5.0
"""How long a graph rests that could not be ingested (disk full, checkpoint damaged); doubles with
each failure, until its settings change."""

LONGEST_RETRY_SECONDS: Final = 300.0
LONGEST_FULL_DISK_SECONDS: Final = 20.0
"""Shorter, as room may be made at any time and a look costs little."""

REPAIR_RETRY_SECONDS: Final = 60.0
REPAIR_RETRY_FACTOR: Final = 9.0
"""A failed repair rests for the seconds above or, if longer, this many times its duration. Missing
files may come back; ingest goes on meanwhile."""

PASS_BYTES: Final = 4 * 2**30
"""Bytes of source files after which a pass ends, so that pushes need not wait for all of them."""

LONGEST_GATHER_SECONDS: Final = 30.0
WAITING_SECONDS: Final = 2.0
"""How long a graph rests whose erased nodes wait for jobs to end, or whose files for the clock."""

KEYED_PUSH_SECONDS: Final = 30 * 86_400.0
"""How long an Idempotency-Key is remembered once its push is in the graph."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _HeldGraph:
    """An open graph, and since when it has been idle."""

    graph: OpenGraph
    stack: ExitStack
    idle_since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Failure:
    """Failures in a row of a graph with these settings."""

    n_times: int
    settings: GraphSettings


class IngestDaemon:
    """Ingests into all graphs until told to stop; ``lister`` lists the sources.

    The ``renewer`` renews leases and the heartbeat while factorizations block this process, and
    stores its steps. ``clock`` is monotonic, in seconds.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        renewer: Renewer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._settings = settings
        self._renewer = renewer
        self._clock = clock
        self._ingestor = Ingestor(database, settings, renewer=renewer, monotonic=clock)
        self._home = self._ingestor.home
        self._catalog, self._manifest = self._home.catalog, self._home.manifest
        self._steps = Steps() if renewer is None else ReportedSteps(renewer)
        self._metrics = IngestMetrics(database, settings, KINDS)
        self._names: dict[str, str] = {}
        self.lister = SourceLister(
            self._manifest,
            settings,
            reader=live_reader(self._home),
            clock=clock,
            on_listed=self._note_listing,
            on_change=self._wake,
            listing=self._ingestor.listing,
        )
        self._held: dict[str, _HeldGraph] = {}
        self._rests_until: dict[str, float] = {}
        self._repairs_rest_until: dict[str, float] = {}
        self._failures: dict[str, _Failure] = {}
        self._clean_at = 0.0
        self._is_woken = threading.Event()

    def run(self, should_stop: Callable[[], bool], fault: Callable[[], str]) -> None:
        """Serve all graphs until ``should_stop``; unfinished work is replayed later.

        ``fault`` tells the metrics port why the daemon is not well; empty when it is.
        """
        stopped = threading.Event()
        heart = threading.Thread(target=self._beat, args=(stopped,), name="heartbeat", daemon=True)
        heart.start()
        self._clean_at = self._clock() + FIRST_CLEAN_SECONDS
        settings = self._settings
        with metrics_server(
            self._metrics.registry, settings.metrics_port, settings.metrics_host, fault
        ) as port:
            _log.info("ingest daemon started", metrics_port=port)
            try:
                with closing(Revision(self._database)) as revision:
                    while not should_stop():
                        self._serve_or_wait(revision, should_stop)
            finally:
                stopped.set()
                self.close()
                heart.join()
        _log.info("ingest daemon stopped")

    def _serve_or_wait(self, revision: Revision, should_stop: Callable[[], bool]) -> None:
        try:
            began = self._clock()
            revision.has_changed()  # what is committed from now on leads to another round
            self.serve_once(should_stop)
            self._steps.end()
            until = self._due_at(began)
            while not (should_stop() or self._is_woken.wait(POLL_SECONDS)):
                if self._clock() >= until or revision.has_changed():
                    break
        except OperationalError as error:
            trouble = "disk full" if is_disk_full(error) else "database not reachable"
            _log.warning(trouble, error=str(error.orig))
            until = self._clock() + RETRY_SECONDS
            while self._clock() < until and not should_stop():
                time.sleep(POLL_SECONDS)

    def _due_at(self, began: float) -> float:
        """Time of the next round if nothing is committed before."""
        idle = (open_graph.idle_since + IDLE_SECONDS for open_graph in self._held.values())
        all_rests = (*self._rests_until.values(), *self._repairs_rest_until.values())
        rests = (until for until in all_rests if until > began)
        longest = self._clock() + LONGEST_WAIT_SECONDS
        return min(longest, self._clean_at, self.lister.due_at(), *idle, *rests)

    def _wake(self) -> None:
        self._is_woken.set()

    def serve_once(self, should_stop: Callable[[], bool]) -> int:
        """Look at every graph once; returns how many had something to ingest."""
        self._steps.begin("looking for work")
        records = list(self._catalog.list())
        self._forget_all_but({record.id for record in records})
        self._names = {record.id: record.settings.name for record in records}
        resting = {record.id for record in records if self._is_resting(record)}
        self.lister.poll(self._names, resting=resting)
        self.lister.wait(LISTING_SECONDS)  # so that quick ones take part in this round
        self._is_woken.clear()
        if self._clock() >= self._clean_at:
            self._clean(records)
            self._clean_at = self._clock() + CLEAN_SECONDS
        busy = self._manifest.busy_graphs()  # what comes later leads to another round
        return sum(self._serve(record, busy, should_stop) for record in records)

    def close(self) -> None:
        """Close every graph."""
        self.lister.close()
        self._let_go_of(set(self._held))

    def _serve(
        self, record: GraphRecord, busy: Collection[str], should_stop: Callable[[], bool]
    ) -> bool:
        """Ingest one graph if it has something pending; whether it had."""
        if should_stop() or self._is_resting(record):
            return False
        resting = self.lister.resting(record.id) if record.id in busy else []
        if record.id not in busy or not self._manifest.work(
            record.id, skipped_sources=resting, failed_repairs=self._tries_repair_again(record.id)
        ):
            self._close_if_idle(record.id)
            return False
        with bound_contextvars(graph=record.settings.name, graph_id=record.id):
            return self._ingest(record, resting, should_stop)

    def _ingest(
        self, record: GraphRecord, resting: Sequence[str], should_stop: Callable[[], bool]
    ) -> bool:
        """Open the graph and ingest what is pending; log lines name the graph."""
        began = self._clock()
        try:
            held = self._hold(record, should_stop)
            report = held.graph.ingest_pending(
                skipped_sources=resting,
                max_bytes=PASS_BYTES,
                failed_repairs=self._tries_repair_again(record.id),
            )
        except LeaseHeld:
            self._rests_until[record.id] = self._clock() + 1.0
            return False
        except LeaseExpired as reason:
            _log.warning("lease lost", reason=str(reason))
            self._let_go_of({record.id})
            self._wake()
            return False
        except (Interrupted, GraphNotFound) as reason:
            _log.info("ingest left", reason=type(reason).__name__)
            self._let_go_of({record.id})
            return False
        except OperationalError:
            raise
        except Exception as error:  # noqa: BLE001 - one graph's trouble must not stop the others
            # No fault of a file's content: the disk is full, the memory allowed too little, a
            # checkpoint is damaged. Nothing is lost; it is tried again later.
            _log.warning(
                "disk full" if is_disk_full(error) else "ingest failed",
                error=repr(error),
                again_in_seconds=self._note_failure(record, error),
                exc_info=True,
            )
            self._let_go_of({record.id})
            return False
        self._failures.pop(record.id, None)
        held.idle_since = self._clock()
        self.lister.note_read(report.source_ids, report.unreadable)
        if report.repair_fault is not None:
            rest = REPAIR_RETRY_FACTOR * (self._clock() - began)
            self._repairs_rest_until[record.id] = self._clock() + max(rest, REPAIR_RETRY_SECONDS)
        if not report.is_cut:
            took = self._clock() - began
            if report.is_erasing or report.has_doubtful:
                took = max(took, WAITING_SECONDS)
            self._rests_until[record.id] = self._clock() + min(took, LONGEST_GATHER_SECONDS)
        if (report.is_erasing or report.has_doubtful) and not report.n_ended:
            return True
        _log.info(
            "ingested",
            committed=report.n_committed,
            duplicates=report.n_duplicates,
            quarantined=report.n_quarantined,
            retracted=report.n_retracted,
            edges_seen=report.edges_seen,
            snapshot=report.snapshot,
        )
        return True

    def _is_resting(self, record: GraphRecord) -> bool:
        failure = self._failures.get(record.id)
        if failure is not None and failure.settings != record.settings:
            del self._failures[record.id]  # what failed may have been mended
            self._rests_until.pop(record.id, None)
        return self._clock() < self._rests_until.get(record.id, 0.0)

    def _tries_repair_again(self, graph_id: str) -> bool:
        """Whether it is time to retry a failed repair."""
        return self._clock() >= self._repairs_rest_until.get(graph_id, 0.0)

    def _note_failure(self, record: GraphRecord, error: Exception) -> float:
        """Let the graph rest for a while; returns the seconds."""
        failure = self._failures.get(record.id)
        n_times = 1 if failure is None else failure.n_times + 1
        self._failures[record.id] = _Failure(n_times=n_times, settings=record.settings)
        longest = LONGEST_FULL_DISK_SECONDS if is_disk_full(error) else LONGEST_RETRY_SECONDS
        pause = min(RETRY_SECONDS * 2.0 ** min(n_times - 1, 16), longest)
        self._rests_until[record.id] = self._clock() + pause
        self._metrics.note_failure(record.settings.name)
        return pause

    def _hold(self, record: GraphRecord, should_stop: Callable[[], bool]) -> _HeldGraph:
        """The open graph, reopened when its settings have changed."""
        held = self._held.get(record.id)
        if held is not None and held.graph.record.settings == record.settings:
            return held
        self._let_go_of({record.id})
        with ExitStack() as stack:
            graph = stack.enter_context(
                self._ingestor.open_graph(
                    record.id,
                    should_stop=should_stop,
                    on_event=partial(self._metrics.note_event, record.settings.name),
                )
            )
            held = _HeldGraph(graph=graph, stack=stack.pop_all(), idle_since=self._clock())
        self._held[record.id] = held
        return held

    def _close_if_idle(self, graph_id: str) -> None:
        held = self._held.get(graph_id)
        if held is not None and self._clock() - held.idle_since >= IDLE_SECONDS:
            self._let_go_of({graph_id})

    def _forget_all_but(self, graph_ids: set[str]) -> None:
        """Close deleted graphs, and forget what is known of them."""
        self._let_go_of(self._held.keys() - graph_ids)
        for graph_id in self._failures.keys() - graph_ids:
            del self._failures[graph_id]
        for rests_until in (self._rests_until, self._repairs_rest_until):
            for graph_id in rests_until.keys() - graph_ids:
                del rests_until[graph_id]

    def _let_go_of(self, graph_ids: set[str]) -> None:
        for graph_id in graph_ids & self._held.keys():
            self._held.pop(graph_id).stack.close()

    def _note_listing(self, source: SourceRecord, seconds: float | None) -> None:
        self._metrics.note_listing(self._names.get(source.graph_id, OTHERS), seconds)

    def _clean(self, records: list[GraphRecord]) -> None:
        """Remove what deleted graphs, killed pushes and replaced files leave behind."""
        self._steps.begin("cleaning up")
        try:
            self._catalog.purge_deleted(PURGE_GRACE_SECONDS, self._settings.graphs_directory)
            for record in records:
                self._steps.move_on()
                self._home.prediction_files.clean(record.id)
                directory = self._settings.graphs_directory / record.id
                remove_unneeded(
                    self._database, record.id, directory, older_than_seconds=PURGE_GRACE_SECONDS
                )
                self._retire_features(record)
                for kind in KINDS.values():
                    kind.sweep(record.id, self._home)
                self._manifest.feature_log.forget(record.id, older_than_seconds=KEYED_PUSH_SECONDS)
                self._manifest.push_log.forget(
                    record.id,
                    older_than_seconds=PURGE_GRACE_SECONDS,
                    keyed_seconds=KEYED_PUSH_SECONDS,
                )
        except OSError as error:
            _log.warning("files not removed", error=str(error))

    def _retire_features(self, record: GraphRecord) -> None:
        """Remove old versions of features, unless another process writes the graph."""
        held = self._held.get(record.id)
        try:
            if held is None:
                self._ingestor.retire_features(record)
            else:
                held.graph.retire_features()
        except LeaseHeld:
            pass  # whoever has it removes them
        except (LeaseExpired, GraphNotFound):
            self._let_go_of({record.id})

    def _beat(self, stopped: threading.Event) -> None:
        """Keep this daemon in the table of workers, with no lanes."""
        registry = WorkerRegistry(self._database)
        worker_id = f"ingest:{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        is_registered = False
        while True:
            if self._renewer is not None:
                self._renewer.tend()
            try:
                if is_registered:
                    registry.beat(worker_id)
                else:
                    registry.register(worker_id, ())
                    is_registered = True
                    if self._renewer is not None:
                        self._renewer.beat_for(worker_id)
                # as all processes of the machine, see peewit.service.worker.heartbeats
                if stopped.wait(BEAT_SECONDS - time.monotonic() % BEAT_SECONDS):
                    registry.remove(worker_id)
                    return
            except OperationalError as error:
                _log.warning("no heartbeat", error=str(error.orig))
                if stopped.wait(BEAT_SECONDS):
                    return
