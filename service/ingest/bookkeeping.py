"""Bookkeeping of ingest in the manifest: files, features, snapshots and growth of one graph.

The stream's checkpoint comes first, the manifest follows in one fenced transaction, and only then
are files removed that nobody needs.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from peewit.service.catalog import GraphProgress, GraphRecord
from peewit.service.database.lease_keeper import LeaseKeeper
from peewit.service.graphs.ingest_history import IngestHistory
from peewit.service.home import Home
from peewit.service.inbox.feature_log import FeatureSetRecord
from peewit.service.inbox.inbox_records import FileOutcome, FileRecord, Retractable
from peewit.service.inbox.needed_files import is_in_inbox
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.redaction import redacted, shown_url
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.events import (
    Committed,
    Duplicate,
    IngestEvent,
    Progress,
    Quarantined,
    Repaired,
    Retracted,
    StreamSummary,
    Withheld,
)
from peewit.streaming.graph_stream import NotRetractable
from peewit.streaming.passes.certificate_store import CertificateStore
from peewit.streaming.snapshots.checkpoints import AbsorbedFile

KEPT_SNAPSHOTS: Final = 5
"""The last ones; certified snapshots and those of kept predictions stay as well."""

NOTE_SECONDS: Final = 1.0
"""Interval of points for growth charts during ingest."""

_log = structlog.get_logger(__name__)


class Bookkeeper:
    """Writes events of one graph's stream into the manifest; held by the lease's holder.

    ``waiting`` are files being ingested, by path and version; ``n_ended`` counts files by how they
    ended; ``n_waiting_again`` counts files and gathered pushes to be looked at once more.
    """

    def __init__(
        self,
        home: Home,
        record: GraphRecord,
        keeper: LeaseKeeper,
        *,
        on_event: Callable[[IngestEvent], None],
    ) -> None:
        self.waiting: dict[tuple[str, str], FileRecord] = {}
        self.n_ended = dict.fromkeys(("committed", "duplicate", "quarantined", "retracted"), 0)
        self.n_waiting_again = 0
        self._home = home
        self._record = record
        self._keeper = keeper
        self._on_event = on_event
        self._manifest = home.manifest
        self._snapshots = home.snapshots(record)
        self._certificates = CertificateStore(home.paths(record).snapshots)
        self._recorded_snapshot = record.progress.snapshot
        self._history = IngestHistory(home.database)
        self._process = psutil.Process()
        self._noted_at = float("-inf")
        self._edges_kept = record.progress.edges_kept

    def take(self, event: IngestEvent) -> None:
        """Store what an event says of files before anybody hears of it."""
        match event:
            case Progress():
                if time.monotonic() - self._noted_at >= NOTE_SECONDS:
                    self._note_growth(event.summary)
            case Committed():
                self._store_committed(event)
                self._note_growth(event.summary)
            case Duplicate():
                self._store(
                    event.file,
                    lambda file: FileOutcome.duplicate(
                        file.id,
                        digest=event.digest,
                        reason=redacted(event.reason),
                        has_replaced=event.has_replaced,
                    ),
                )
            case Withheld():
                _log.info(
                    "file left out, as its content was retracted",
                    graph=self._record.settings.name,
                    file=shown_url(event.file.path),
                )
                self._store(
                    event.file, lambda file: FileOutcome.retracted(file.id, digest=event.digest)
                )
            case Retracted():
                self._store_retracted(event)
                self._note_growth(event.summary)
            case Repaired():
                self._tell_repair(event)
            case Quarantined():
                if self._is_taken_apart(event):
                    return
                _log.warning(
                    "file quarantined",
                    graph=self._record.settings.name,
                    file=shown_url(event.file.path),
                    reason=redacted(event.reason),
                )
                self._store(
                    event.file,
                    lambda file: FileOutcome.quarantined(
                        file.id, redacted(event.reason), row=event.row, value=event.value
                    ),
                )
        self._on_event(event)

    def _tell_repair(self, event: Repaired) -> None:
        repair = event.repair
        tell = _log.warning if repair.has_failed else _log.info
        tell(
            "repair after deletes failed" if repair.has_failed else "repaired after deletes",
            graph=self._record.settings.name,
            sampled_anew=repair.kind,
            damaged_nodes=repair.n_damaged,
            edges=repair.n_edges,
            seconds=round(event.seconds, 3),
        )

    def _note_growth(self, summary: StreamSummary) -> None:
        """Store a point for charts; a failure costs only the point."""
        self._noted_at = time.monotonic()
        try:
            self._history.note(
                self._record.id,
                n_nodes=summary.n_nodes,
                edges_seen=summary.edges_seen,
                edges_kept=self._edges_kept,
                n_records=summary.n_records,
                memory_bytes=self._process.memory_info().rss,
            )
        except DBAPIError as error:
            _log.info("growth not noted", graph=self._record.settings.name, error=str(error.orig))

    def _is_taken_apart(self, event: Quarantined) -> bool:
        """Whether gathered pushes wait again, one by one, so that only the faulty one is refused.

        Each push was checked when it came; this is for faults that only the index can see, such as
        ``max_nodes``.
        """
        file = self.waiting.get((event.file.path, event.file.version))
        if file is None or file.push_id is None:
            return False
        if not self._manifest.push_log.take_apart(
            self._record.id, file.id, lease=self._keeper.lease
        ):
            return False
        Path(file.path).unlink(missing_ok=True)
        self.n_waiting_again += 1
        _log.info("gathered pushes taken apart", file=file.path, reason=event.reason)
        return True

    def _store_committed(self, event: Committed) -> None:
        outcomes = []
        pushed = []
        for absorbed in event.files:
            file = self.waiting.get((absorbed.path, absorbed.version))
            if file is None:
                continue
            outcomes.append(self._outcome_of(file, absorbed))
            if is_in_inbox(file.path, self._record.id):
                pushed.append(file)
        self._finish(outcomes, event.summary)
        self.n_ended["committed"] += len(outcomes)
        for file in pushed:
            self._remove_blocks(file)
        self.retire_snapshots()

    def _store_retracted(self, event: Retracted) -> None:
        outcomes = []
        for absorbed in event.files:
            file = self.waiting[absorbed.path, absorbed.version]
            outcomes.append(FileOutcome.retracted(file.id, digest=absorbed.digest))
            self._log_retracted(file, n_rows=absorbed.n_rows)
        self._finish(outcomes, event.summary)
        self.n_ended["retracted"] += len(outcomes)
        self.retire_snapshots()

    def store_absent(self, gone: Sequence[FileRecord], summary: StreamSummary) -> None:
        """Store that files which were to be retracted are not in the graph."""
        for file in gone:
            self._log_retracted(file, n_rows=file.n_rows or 0)
        self._finish([FileOutcome.retracted(file.id) for file in gone], summary)
        self.n_ended["retracted"] += len(gone)

    def store_unretractable(
        self, file: FileRecord, error: NotRetractable, summary: StreamSummary
    ) -> None:
        """Store why a file which was to be retracted is still in the graph."""
        _log.warning(
            "file not retracted",
            graph=self._record.settings.name,
            file=shown_url(file.path),
            reason=error.reason,
        )
        outcome = self._outcome_of(
            file, error.file, kept_as=f"it cannot be retracted: {error.reason}"
        )
        self._finish([outcome], summary)

    def _outcome_of(
        self, file: FileRecord, absorbed: AbsorbedFile, *, kept_as: str | None = None
    ) -> FileOutcome:
        """Outcome of an absorbed file, for the manifest."""
        retractable: Retractable = "inserts_only" if absorbed.has_removals else "whole"
        return FileOutcome.committed(
            file.id,
            digest=absorbed.digest,
            n_rows=absorbed.n_rows,
            left_out=absorbed.left_out,
            n_bad_rows=absorbed.n_bad_rows,
            retractable="no" if self._record.settings.deletions == "off" else retractable,
            kept_as=kept_as,
        )

    def _log_retracted(self, file: FileRecord, *, n_rows: int) -> None:
        _log.info(
            "file retracted",
            graph=self._record.settings.name,
            file=shown_url(file.path),
            n_rows=n_rows,
        )

    def retire_snapshots(self) -> None:
        """Remove snapshots that nobody needs."""
        self._snapshots.retire(
            keep_last=KEPT_SNAPSHOTS,
            keep=self._home.prediction_files.kept_snapshots(self._record.id)
            | self._certificates.numbers(),
        )

    def _remove_blocks(self, file: FileRecord) -> None:
        """Remove pushes copied into a committed file, and the file unless raw edges are kept."""
        for path in self._manifest.push_log.merged_paths(self._record.id, file.id):
            Path(path).unlink(missing_ok=True)
        if not self._record.settings.keep_raw:
            Path(file.path).unlink(missing_ok=True)

    def _store(self, listed: EdgeFile, outcome_of: Callable[[FileRecord], FileOutcome]) -> None:
        file = self.waiting.get((listed.path, listed.version))
        if file is not None:
            outcome = outcome_of(file)
            # What is committed has not changed: tell the counters of the last snapshot again.
            current = self._home.catalog.get_by_id(self._record.id).progress
            self.n_waiting_again += self._manifest.finish(
                self._record.id, [outcome], progress=current, lease=self._keeper.lease
            )
            self.n_ended[outcome.status] += 1

    def record_snapshot(self, summary: StreamSummary) -> None:
        """Record the newest snapshot if a process died before recording it."""
        if summary.snapshot != self._recorded_snapshot:
            self._finish([], summary)

    def commit_features(
        self, waiting: FeatureSetRecord, version: int, n_new_nodes: int, summary: StreamSummary
    ) -> None:
        """Store that a set of features is in the graph."""
        graph_id = self._record.id
        with self._home.database.write() as connection:
            self._store_progress(connection, [], summary)
            self._manifest.feature_log.commit(
                graph_id,
                waiting.id,
                features_version=version,
                n_new_nodes=n_new_nodes,
                lease=self._keeper.lease,
                connection=connection,
            )
            request_auto_solve(connection, graph_id)
        self._recorded_snapshot = summary.snapshot

    def _finish(self, outcomes: Sequence[FileOutcome], summary: StreamSummary) -> None:
        with self._home.database.write() as connection:
            self._store_progress(connection, outcomes, summary)
            if summary.snapshot != self._recorded_snapshot:
                request_auto_solve(connection, self._record.id)
        self._recorded_snapshot = summary.snapshot

    def _store_progress(
        self, connection: Connection, outcomes: Sequence[FileOutcome], summary: StreamSummary
    ) -> None:
        """Store how files ended and the graph's progress."""
        self.n_waiting_again += self._manifest.finish(
            self._record.id,
            outcomes,
            progress=self._progress(summary),
            lease=self._keeper.lease,
            connection=connection,
        )

    def _progress(self, summary: StreamSummary) -> GraphProgress:
        progress = GraphProgress(
            n_nodes=summary.n_nodes, edges_seen=summary.edges_seen, left_out=summary.left_out
        )
        if summary.snapshot is None:
            return progress
        meta = self._snapshots.meta(summary.snapshot)
        self._edges_kept = meta.edges_kept
        return replace(
            progress,
            edges_kept=meta.edges_kept,
            epsilon_expected=meta.epsilon_expected,
            n_failed_embeddings=meta.n_failed_embeddings,
            snapshot=summary.snapshot,
        )
