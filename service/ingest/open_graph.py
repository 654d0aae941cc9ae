"""An open graph: what waits for it goes into its stream, pass after pass.

The stream's checkpoint comes first and the manifest follows in one fenced transaction, so that
whatever dies in between is stored by the next pass.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final, cast

import structlog

from peewit.service.catalog import GraphRecord
from peewit.service.database.lease_keeper import LeaseKeeper
from peewit.service.database.leases import Lease
from peewit.service.home import Home
from peewit.service.inbox.block_rows import columns_of_own
from peewit.service.inbox.confinement import is_within
from peewit.service.inbox.feature_log import FeatureSetRecord
from peewit.service.inbox.inbox_records import FileRecord
from peewit.service.inbox.leaving.wishes import WantedRepair
from peewit.service.inbox.made_edges import is_made
from peewit.service.inbox.manifest import Work
from peewit.service.inbox.needed_files import is_in_inbox
from peewit.service.inbox.push_gatherer import gather_pushes
from peewit.service.inbox.source_store import Reading
from peewit.service.ingest.arrivals import ArrivalClock
from peewit.service.ingest.bookkeeping import Bookkeeper
from peewit.service.ingest.erased_traces import Traces
from peewit.service.ingest.erasing import Eraser
from peewit.service.ingest.feature_commit import FeatureCommitter
from peewit.service.ingest.lease_and_heartbeat_renewer import Renewer
from peewit.service.ingest.settings_of_stream import stream_settings
from peewit.service.ingest.step_reports import ReportedSteps
from peewit.service.redaction import redacted
from peewit.service.tables.column_names import edge_columns
from peewit.streaming.edges.column_mapping import CHANGES, EdgeColumns
from peewit.streaming.edges.parts import EdgeFile, FileUnreadable
from peewit.streaming.edges.reading_options import MissingIds
from peewit.streaming.edges.time_units import SECOND
from peewit.streaming.events import Committed, IngestEvent, Quarantined
from peewit.streaming.features.checked_tables import BadFeatures
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_stream import Interrupted, NotRetractable, Stream
from peewit.streaming.passes.edge_passes import RawEdgesGone
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.steps import Steps

_UNREADABLE_FILES: Final = 3
"""After so many unreadable files of a source its other files are not tried."""

FEATURES_GRACE_SECONDS: Final = 600.0
"""How long a replaced version of features stays, as jobs may be reading it."""

_USUAL: Final = Reading(None, 0, replaces=False)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What one pass did; ``n_`` fields count files that ended so."""

    n_committed: int = 0
    n_duplicates: int = 0
    n_quarantined: int = 0
    n_retracted: int = 0
    edges_seen: int  # after the pass
    snapshot: int | None  # the newest one after the pass
    source_ids: frozenset[str] = frozenset()  # of files that were read
    unreadable: Mapping[str, FileUnreadable] = field(default_factory=dict)  # one by source
    is_cut: bool = False  # whether files were left for the next pass
    is_erasing: bool = False  # whether nodes are hidden that cannot be erased yet
    has_doubtful: bool = False  # whether files wait whose arrival a wrong clock may have stamped
    repair_fault: str | None = None  # why a repair failed; it stays wanted

    @property
    def n_ended(self) -> int:
        """Files that were committed, duplicates or quarantined."""
        return self.n_committed + self.n_duplicates + self.n_quarantined


@dataclass(slots=True, kw_only=True)
class _Pass:
    """What a pass was told, and what has come of it so far."""

    skipped_sources: Sequence[str] = ()
    tries_again: bool = True  # whether a repair that has failed is tried
    repair_fault: str | None = None
    source_ids: set[str] = field(default_factory=set)
    unreadable: dict[str, FileUnreadable] = field(default_factory=dict)
    is_cut: bool = False
    has_doubtful: bool = False


class OpenGraph:
    """One graph's stream with the right to write it; made by `Ingestor.open_graph`."""

    def __init__(
        self,
        home: Home,
        record: GraphRecord,
        keeper: LeaseKeeper,
        renewer: Renewer | None,
        *,
        should_stop: Callable[[], bool],
        on_event: Callable[[IngestEvent], None],
        clock: Callable[[], float],
        arrivals: ArrivalClock,
    ) -> None:
        self.record = record
        self._arrivals = arrivals
        self._steps = (
            Steps()
            if renewer is None
            else ReportedSteps(renewer, record.id, source_of=self._source_of)
        )
        self._steps.begin("opening the graph")
        self._sources: dict[str, str | None] = {}
        self._home, self._manifest = home, home.manifest
        self._keeper = keeper
        paths = home.paths(record)
        _remove_copies(paths.staging)
        self._pushes_directory = paths.pushes
        self._books = Bookkeeper(home, record, keeper, on_event=on_event)
        self._stream = Stream(
            paths,
            stream_settings(record, home.settings),
            on_event=self._take,
            should_stop=lambda: should_stop() or keeper.is_lost,
            guard=keeper.confirm,
            steps=self._steps,
            clock=clock,
        )
        self._features = FeatureStore(paths.features)
        self._feature_commit = FeatureCommitter(
            stream=self._stream,
            store=self._features,
            should_stop=lambda: should_stop() or keeper.is_lost,
            guard=keeper.confirm,
            steps=self._steps,
            wall_clock=time.time,
        )
        self._eraser = Eraser(
            home=home,
            record=record,
            keeper=keeper,
            stream=self._stream,
            traces=Traces(
                home=home,
                record=record,
                keeper=keeper,
                paths=paths,
                files_of_sources=self._files_of_sources,
                should_stop=lambda: should_stop() or keeper.is_lost,
                steps=self._steps,
                wall_clock=time.time,
            ),
            steps=self._steps,
        )
        self._is_checked = False  # whether the checkpoint was compared with the manifest
        self._has_missing_files = False
        self._pass = _Pass()

    def _take(self, event: IngestEvent) -> None:
        """Store an event, and hide nodes that it brought and that wait to be erased."""
        self._books.take(event)
        if isinstance(event, Committed):
            self._eraser.note_returned_nodes()

    @property
    def lease(self) -> Lease:
        """The right to write this graph."""
        return self._keeper.lease

    def ingest_pending(
        self,
        *,
        skipped_sources: Sequence[str] = (),
        max_bytes: int | None = None,
        failed_repairs: bool = True,
    ) -> IngestReport:
        """Ingest pending files and features, and files that the manifest wrongly has as ingested.

        Sets of features come first, then retractions and a repair, unless a file is half absorbed.
        A repair that cannot be made stays wanted, and so does one for other settings than the
        stream was opened with: reopen the graph for it. Retractions and erasures requested
        meanwhile are carried out after the present file, repairs at the end. What came after an
        erasure is taken in after it.

        Files of ``skipped_sources`` are left for later. Source files are taken up to the one that
        reaches ``max_bytes``, pushes all. With ``failed_repairs`` a failed repair is tried again.

        Raises `LeaseExpired` if another process took the lease, and `Interrupted` if
        ``should_stop`` was true; the next call goes on.
        """
        with self._raise_if_lease_lost():
            return self._ingest_pending(skipped_sources, max_bytes, failed_repairs=failed_repairs)

    def _ingest_pending(
        self, skipped_sources: Sequence[str], max_bytes: int | None, *, failed_repairs: bool
    ) -> IngestReport:
        this = self._pass = _Pass(skipped_sources=skipped_sources, tries_again=failed_repairs)
        before = dict(self._books.n_ended)
        work = self._work()
        if work or not self._is_at_rest:
            work = self._take_turns(work, max_bytes)
            if not work and self._is_at_rest and not (self._has_missing_files or this.unreadable):
                state = state_of(self._home, self.record)
                self._manifest.note_rest(self.record.id, state, lease=self.lease)
        ended = self._books.n_ended
        summary = self._stream.summary()
        return IngestReport(
            n_committed=ended["committed"] - before["committed"],
            n_duplicates=ended["duplicate"] - before["duplicate"],
            n_quarantined=ended["quarantined"] - before["quarantined"],
            n_retracted=ended["retracted"] - before["retracted"],
            edges_seen=summary.edges_seen,
            snapshot=summary.snapshot,
            source_ids=frozenset(this.source_ids),
            unreadable=this.unreadable,
            is_cut=this.is_cut,
            is_erasing="erase" in work,
            has_doubtful=this.has_doubtful,
            repair_fault=this.repair_fault,
        )

    def _work(self) -> frozenset[Work]:
        """What there is to do in this pass."""
        return self._manifest.work(
            self.record.id,
            skipped_sources=self._pass.skipped_sources,
            failed_repairs=self._pass.tries_again,
        )

    @property
    def _is_at_rest(self) -> bool:
        """Whether no file is half absorbed, and the checkpoint has what the manifest says."""
        return self._is_checked and self._stream.is_between_files

    def _take_turns(self, work: frozenset[Work], max_bytes: int | None) -> frozenset[Work]:
        """Do what there is to do, and what is asked for meanwhile; what is left."""
        if "erase" in work:
            self._erase(self._eraser.erase)
        features_first = self._stream.is_between_files
        if "features" in work and features_first:
            self.commit_features()
        while True:
            self._books.n_waiting_again = 0
            self._take_turn(work, max_bytes)
            if not (work or self._books.n_waiting_again):
                break
            work = self._work()
            if not (self._books.n_waiting_again or self._is_urgent(work)):
                break
        self._books.record_snapshot(self._stream.summary())
        if "features" in work and not features_first:
            self.commit_features()
        if "erase" in work:
            self._erase(self._eraser.erase)
            work = self._work()
        self.retire_features()
        return work

    def _take_turn(self, work: frozenset[Work], max_bytes: int | None) -> None:
        """Let leave what is to leave, then take in what waits."""
        if "strike" in work:  # the rest takes long, and others wait
            self._erase(self._eraser.strike)
        is_between_files = self._stream.is_between_files
        if is_between_files:
            self._retract_files(is_asked="retract" in work)
            if "horizon" in work:
                self._expire()
            if "repair" in work:
                self._repair()
        if "pushes" in work:
            self._steps.begin("gathering pushes")
            gather_pushes(
                self._manifest.push_log,
                self.record,
                self._pushes_directory,
                lease=self.lease,
                admitted=self._eraser.admitted,
            )
        self._steps.begin("choosing files")
        skipped_sources = self._pass.skipped_sources
        pending = (
            self._manifest.pending(self.record.id, skipped_sources=skipped_sources) if work else []
        )
        admitted = self._believed(self._eraser.admitted(pending))
        taken = _up_to(admitted, max_bytes)
        lost = [] if self._is_checked else self._lost_files(pending)
        self._is_checked |= is_between_files
        files = self._without_refused([*lost, *taken])
        self._pass.source_ids.update(file.source_id for file in files if file.source_id is not None)
        self._pass.is_cut = len(taken) < len(admitted)
        self._ingest(files, may_end_early=not lost)

    def _believed(self, files: Sequence[FileRecord]) -> Sequence[FileRecord]:
        """The files but those that a wrong clock may have stamped; stores why they wait."""
        window, graph_id = self.record.settings.window, self.record.id
        if window is None or window.by != "arrival":
            return files
        wanted = self._manifest.wishes.of(graph_id)
        self._arrivals.learn(self._stream.state.watermark)
        if wanted.clock_right_at is not None:
            self._arrivals.learn(round(wanted.clock_right_at.timestamp() * SECOND))
        believed = self._arrivals.believed(files, window, in_hand=self._stream.current_path)
        ids = {file.id for file in believed}
        waiting = [file for file in files if file.id not in ids]
        fault = self._arrivals.fault(
            waiting, window, present=time.time(), name=self.record.settings.name
        )
        if fault != wanted.arrivals_fault:
            if fault is not None:
                _log.warning("arrivals in doubt", graph=self.record.settings.name, reason=fault)
            self._manifest.wishes.note_arrivals(graph_id, fault, lease=self.lease)
        self._pass.has_doubtful = bool(waiting)
        return believed

    def _erase(self, take_steps: Callable[[], bool]) -> None:
        """Take steps of erasing nodes.

        A half absorbed file is finished first, alone: later pushes may bring the nodes anew.
        """
        if not self._stream.is_between_files:
            pending = self._manifest.pending(self.record.id)
            in_hand = [file for file in pending if file.path == self._stream.current_path]
            self._ingest(self._without_refused(in_hand), may_end_early=False)
        if take_steps():
            self._books.record_snapshot(self._stream.summary())
            self._books.retire_snapshots()

    def _files_of_sources(self) -> Sequence[EdgeFile]:
        """The newest listed version of each file of a source, as it is read."""
        readings = self._readings()
        newest: dict[str, EdgeFile] = {}
        after_id = 0
        while page := self._manifest.list_files(self.record.id, after_id=after_id):
            newest |= {
                file.path: _edge_file(file, readings) for file in page if file.source_id is not None
            }
            after_id = page[-1].id
        return list(newest.values())

    def _retract_files(self, *, is_asked: bool) -> None:
        """Retract files that are to leave the graph, or that the manifest has as retracted."""
        retractions, graph_id = self._manifest.retractions, self.record.id
        wanted = list(retractions.waiting(graph_id)) if is_asked else []
        if not self._is_checked:  # the checkpoint may be from before
            versions = {file.path: file.version for file in self._stream.files}
            wanted += retractions.done(graph_id, versions)
        if not wanted:
            return
        absorbed = {(file.path, file.version) for file in self._stream.files}
        there = [file for file in wanted if (file.path, file.version) in absorbed]
        gone = [file for file in wanted if (file.path, file.version) not in absorbed]
        self._books.store_absent(gone, self._stream.summary())
        self._books.waiting = {(file.path, file.version): file for file in there}
        results = self._stream.retract_all({file.path: file.inserts_only for file in there})
        for file, result in zip(there, results, strict=True):
            if isinstance(result, NotRetractable):
                self._books.store_unretractable(file, result, self._stream.summary())

    def _expire(self) -> None:
        """Expire edges before the time that somebody asked for."""
        wanted = self._manifest.wishes.of(self.record.id).horizon_wanted
        if wanted is not None:
            self._stream.expire(wanted)
            self._books.record_snapshot(self._stream.summary())
            self._manifest.wishes.horizon_reached(self.record.id, wanted, lease=self.lease)

    def _wanted_repair(self) -> WantedRepair | None:
        """The repair to be made in this pass.

        None if it needs other settings than the stream has, as it would not bring what is asked.
        """
        wanted = self._manifest.wishes.of(self.record.id).repair_wanted
        present = self._home.catalog.get_by_id(self.record.id).settings
        return wanted if present.sampling == self.record.settings.sampling else None

    def _repair(self) -> None:
        """Repair the graph if somebody asked for it; store the reason if it fails."""
        wanted = self._wanted_repair()
        if wanted is None:
            return
        settings, wishes = self.record.settings, self._manifest.wishes
        try:
            self._stream.repair(everything=wanted == "all")
        except (RawEdgesGone, FileUnreadable) as error:
            fault = redacted(str(error))
            self._pass.tries_again, self._pass.repair_fault = False, fault
            _log.warning("edges not read again", graph=settings.name, reason=fault)
            wishes.repair_failed(self.record.id, fault, lease=self.lease)
            return
        self._books.record_snapshot(self._stream.summary())
        wishes.repair_made(
            self.record.id,
            wanted,
            epsilon=settings.epsilon,
            max_edges=settings.max_edges,
            lease=self.lease,
        )

    def _has_leaving(self, work: frozenset[Work]) -> bool:
        """Whether files or nodes are to leave the graph, which can be done between two files."""
        return "retract" in work or ("strike" in work and self._eraser.can_strike())

    def _is_urgent(self, work: frozenset[Work]) -> bool:
        """Whether this pass has to carry out what was asked for meanwhile."""
        is_repair = "repair" in work and self._wanted_repair() is not None
        return is_repair or "horizon" in work or self._has_leaving(work)

    def commit_features(self) -> None:
        """Commit or refuse the waiting sets of features, in order.

        `FeatureLog.get` tells how each ended. A half absorbed file goes first, with all that is
        pending (`ingest_pending`). Raises `LeaseExpired` if another process took the lease, and
        `Interrupted` if ``should_stop`` was true; the next call goes on.
        """
        if not self._stream.is_between_files:
            self.ingest_pending()
            return
        with self._raise_if_lease_lost():
            waiting = self._manifest.feature_log.waiting(self.record.id)
            for feature_set in self._eraser.admitted(waiting):
                self._commit_features(feature_set)

    @contextmanager
    def _raise_if_lease_lost(self) -> Iterator[None]:
        """Raise `LeaseExpired` for an interruption caused by the loss of the lease."""
        try:
            yield
        except Interrupted:
            if self._keeper.is_lost:
                self._keeper.confirm()
            raise

    def retire_features(self) -> None:
        """Remove versions of features that were replaced long enough ago.

        Raises `LeaseExpired` if another process may write this graph.
        """
        present = self._home.catalog.get_by_id(self.record.id).features_version
        now = time.time()
        if self._features.superseded(present, grace_seconds=FEATURES_GRACE_SECONDS, now=now):
            self._keeper.confirm()
            self._features.retire(present, grace_seconds=FEATURES_GRACE_SECONDS, now=now)

    def _commit_features(self, waiting: FeatureSetRecord) -> None:
        graph_id = self.record.id
        before = self._home.catalog.get_by_id(graph_id)
        try:
            meta = self._feature_commit.publish(waiting, present=before.features_version)
        except BadFeatures as error:
            _log.warning("features refused", graph=self.record.settings.name, reason=str(error))
            self._manifest.feature_log.refuse(graph_id, waiting.id, error, lease=self.lease)
        else:
            summary = self._stream.summary()
            n_new_nodes = max(0, summary.n_nodes - before.progress.n_nodes)
            self._books.commit_features(waiting, meta.version, n_new_nodes, summary)
            self.retire_features()
            self._books.retire_snapshots()
        Path(waiting.path).unlink(missing_ok=True)

    def _ingest(self, files: Sequence[FileRecord], *, may_end_early: bool) -> None:
        """Take files in turn; skip an unreadable one, after several its whole source.

        Where it ``may_end_early``, the pass does so for files or nodes that are to leave, but only
        after one file was taken, so that new files come in however often somebody asks.
        """
        if not files:
            self._stream.ingest([])
            return
        calls = count()

        def is_enough() -> bool:
            return may_end_early and next(calls) > 0 and self._has_leaving(self._work())

        n_failed = Counter[str]()
        while True:
            self._books.waiting = {(file.path, file.version): file for file in files}
            self._sources = {file.path: file.source_id for file in files}
            readings = self._readings()
            withheld = self._manifest.retractions.withheld(self.record.id)
            pushed = self._manifest.push_log.file_digests(self.record.id)
            edge_files = [
                replace(
                    _edge_file(file, readings, self._own_columns),
                    withheld=withheld.get(file.path),
                    pushed=frozenset() if file.source_id is None else pushed,
                    replaces_siblings=is_made(file.path, self.record.id),
                )
                for file in files
            ]
            try:
                self._stream.ingest(edge_files, is_enough=is_enough)
            except FileUnreadable as error:
                failed = self._books.waiting.get((error.file.path, error.file.version))
                if failed is None or failed.source_id is None:
                    raise
                source_id = failed.source_id
                self._pass.unreadable[source_id] = error
                n_failed[source_id] += 1
                gives_up = n_failed[source_id] >= _UNREADABLE_FILES
                files = [
                    file
                    for file in files
                    if file is not failed and not (gives_up and file.source_id == source_id)
                ]
            else:
                return

    def _source_of(self, path: str) -> str | None:
        """Id of the source of a file in hand."""
        return self._sources.get(path)

    def _readings(self) -> Mapping[str, tuple[EdgeColumns, Reading]]:
        """Columns and reading of each source, by its id."""
        of_graph = self._home.catalog.get_by_id(self.record.id).settings.columns_of_edges
        readings_by_source = self._manifest.sources.readings(self.record.id)
        return {
            source_id: (
                self._columns_of_live(reading)
                if reading.is_live
                else edge_columns(of_graph, reading.columns),
                reading,
            )
            for source_id, reading in readings_by_source.items()
        }

    def _columns_of_live(self, reading: Reading) -> EdgeColumns:
        """Columns of chunks: those of tables hold ids as they stand there, words for none too."""
        said = (reading.columns or {}).get("missing_ids", "refuse")
        return replace(self._own_columns, missing_ids=cast(MissingIds, said))

    @property
    def _own_columns(self) -> EdgeColumns:
        """Columns of files that the service has written: pushes and chunks, checked before."""
        window = self.record.settings.window
        written = replace(CHANGES, missing_ids="keep")
        if window is None or window.by != "time":
            return written
        return replace(written, time="time", time_unit="us")

    def _without_refused(self, files: Sequence[FileRecord]) -> Sequence[FileRecord]:
        """The files that may be read; quarantines those of HTTP sources that may not.

        These lay elsewhere when they were listed: a link has changed.
        """
        if not files:
            return files
        places = self._manifest.sources.confinements(self.record.id)
        allowed = []
        for file in files:
            place = None if file.source_id is None else places.get(file.source_id)
            is_chunk = is_in_inbox(file.path, self.record.id)  # its source was confined when read
            if (
                place is None
                or is_chunk
                or is_within(file.path, place, home=self._home.settings.home)
            ):
                allowed.append(file)
            elif file.status == "pending":
                self._books.waiting = {(file.path, file.version): file}
                reason = f"path must stay in {place}, as its source was added over HTTP"
                self._books.take(
                    Quarantined(file=_edge_file(file), reason=reason, row=None, value=None)
                )
        return allowed

    def _lost_files(self, pending: Sequence[FileRecord]) -> Sequence[FileRecord]:
        """Committed files that the checkpoint lacks, as when it was restored from a copy.

        Files that a pending one replaces are left out. An open stream cannot lose what it
        committed, so that this is asked once.
        """
        graph_id = self.record.id
        absorbed = {file.path for file in self._stream.files}
        if self._manifest.counts(graph_id)["committed"] <= len(absorbed):
            return []
        readings_by_source = self._manifest.sources.readings(graph_id)
        taken = absorbed | {
            file.path
            for file in pending
            if readings_by_source.get(file.source_id or "", _USUAL).replaces
        }
        lost: list[FileRecord] = []
        after_id = 0
        while page := self._manifest.list_files(graph_id, status="committed", after_id=after_id):
            lost += [file for file in page if file.path not in taken]
            after_id = page[-1].id
        self._has_missing_files = bool(lost)
        if lost:
            _log.warning("checkpoint lacks committed files", graph=graph_id, n_files=len(lost))
        return lost


def state_of(home: Home, record: GraphRecord) -> str:
    """Digest of a graph's settings and of what ingest has written for it."""
    written = CheckpointStore(home.paths(record).checkpoints).digest()
    snapshot = home.snapshots(record).latest()
    text = f"{stream_settings(record, home.settings)} {written} {snapshot}"
    return hashlib.sha256(text.encode()).hexdigest()


def _up_to(files: Sequence[FileRecord], max_bytes: int | None) -> Sequence[FileRecord]:
    """Pushes, and files of sources up to the one that reaches ``max_bytes``."""
    if max_bytes is None:
        return files
    taken: list[FileRecord] = []
    n_bytes = 0
    for file in files:
        if n_bytes >= max_bytes and file.push_id is None:
            break
        taken.append(file)
        n_bytes += 0 if file.push_id is not None else file.size
    return taken


def _remove_copies(staging: Path) -> None:
    """Remove copies of remote files that a killed process left; the lease is held."""
    for copy in staging.glob("staged-*"):
        copy.unlink(missing_ok=True)


def _edge_file(
    file: FileRecord,
    readings: Mapping[str, tuple[EdgeColumns, Reading]] | None = None,
    of_pushes: EdgeColumns = CHANGES,
) -> EdgeFile:
    """The file with its source's columns; pushes have the usual ones, with operations if any."""
    columns, reading = (readings or {}).get(file.source_id or "", (of_pushes, _USUAL))
    if file.source_id is None or reading.is_live:
        columns = columns_of_own(file.path, columns)
    return EdgeFile(
        path=file.path,
        size=file.size,
        version=file.version,
        columns=columns,
        max_bad_rows=reading.max_bad_rows,
        replaces=reading.replaces,
        again=reading.again,
        arrived=file.created_at.timestamp(),
    )
