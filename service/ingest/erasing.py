"""Erasing: the writer of a graph takes nodes out of it that were asked to be forgotten.

Between files, in two steps. The first (strike) takes them out of what waits, features, graph and
node index; from then on their external id is a new node. The second overwrites what is left of them
once no running job may still write of them. If killed at any line, the same step is taken again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import structlog
from sqlalchemy import ColumnElement, or_, select

from peewit.service.catalog import GraphRecord, writing
from peewit.service.database.lease_keeper import LeaseKeeper
from peewit.service.database.tables import jobs
from peewit.service.home import Home
from peewit.service.inbox.leaving.erasures import ErasureRecord, Sources, WaitingNode
from peewit.service.ingest.erased_traces import Traces
from peewit.service.jobs.job import JobStatus
from peewit.solvers.arrays import Int64Array
from peewit.streaming.graph_stream import Stream
from peewit.streaming.steps import Steps

_LEAVING_FILES: Final = ("certify", "embed", "filter", "knn", "map")
"""Kinds of jobs whose directories `Traces.erase_made` removes."""

_log = structlog.get_logger(__name__)


class _HasTurn(Protocol):
    """A push, a file or a set of features."""

    @property
    def position(self) -> int: ...


_Turn = TypeVar("_Turn", bound=_HasTurn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Eraser:
    """Erases nodes of one graph, whose only writer this process is.

    ``traces`` is what is left of nodes in its files and rows; ``steps`` is told of progress.
    """

    home: Home
    record: GraphRecord
    keeper: LeaseKeeper
    stream: Stream
    traces: Traces
    steps: Steps

    def admitted(self, listed: Sequence[_Turn]) -> Sequence[_Turn]:
        """Those that came before all nodes that are still to be struck.

        Later ones may bring an id anew, as another node. Call it after listing: an erasure that was
        answered before one of them came is known by then.
        """
        if not listed:
            return listed
        last = self.home.manifest.erasures.last_turn(self.record.id)
        return [turn for turn in listed if last is None or turn.position <= last]

    def can_strike(self) -> bool:
        """Whether no job that reads what waits keeps nodes from being taken out of the graph."""
        return not self._is_running(jobs.c.kind == "knn")

    def note_returned_nodes(self) -> None:
        """Hide nodes that files brought since their erasure was asked for.

        Their id may have been that of another node, which an earlier erasure took out.
        """
        log = self.home.manifest.erasures
        nodes = log.nodes(self.record.id, struck=False)
        if not nodes:
            return
        dense_ids = self.stream.lookup(self.traces.ids(nodes)).tolist()
        changes = {
            (node.erasure_id, node.number): dense
            for node, dense in zip(nodes, dense_ids, strict=True)
            if dense >= 0 and dense != node.dense
        }
        if changes:
            log.note_dense(self.record.id, changes, lease=self.keeper.lease)

    def strike(self) -> bool:
        """Take nodes out of the graph if that can be done now; whether it was.

        Raises `LeaseExpired` if another process took the lease, and OSError if the disk fails or is
        full; the next call goes on.
        """
        waiting = self.home.manifest.erasures.waiting(self.record.id)
        new = [erasure for erasure in waiting if erasure.struck_at is None]
        if not new or not self.can_strike():
            return False
        self.steps.begin("erasing nodes")
        self._strike(new)
        return True

    def erase(self) -> bool:
        """Take every step that can be taken now; whether something was done.

        The next call goes on where a stop, a full disk or another holder of the lease ended this
        one. Failures after the nodes are out of the graph are logged.
        """
        done = self.strike()
        waiting = self.home.manifest.erasures.waiting(self.record.id)
        struck = [erasure for erasure in waiting if erasure.struck_at is not None]
        if struck and not self._is_running(_may_write(struck)):
            self.steps.begin("erasing nodes")
            try:
                done |= self._overwrite(struck)
            except (OSError, ValueError, pa.ArrowException) as error:
                # The nodes are hidden and their edges gone: what is new need not wait for this.
                name = self.record.settings.name
                reason = str(error) if isinstance(error, OSError) else type(error).__name__
                _log.warning("nodes not erased yet", graph=name, reason=reason)
        return done

    def _strike(self, records: Sequence[ErasureRecord]) -> None:
        """First step: out of what waits, of features, graph and index."""
        log, graph_id = self.home.manifest.erasures, self.record.id
        self.note_returned_nodes()
        nodes = log.nodes(graph_id, struck=False)
        ids = [record.id for record in records]
        nodes = [node for node in nodes if node.erasure_id in set(ids)]
        self.traces.erase_inbox(nodes, {record.id: record.position for record in records})
        dense = _dense(nodes)
        if nodes:
            self.traces.erase_features(dense, self.traces.ids(nodes))
        if dense.size:
            self.stream.erase(dense.astype(np.int32))
        with writing(self.home.database, graph_id, self.keeper.lease) as connection:
            log.strike(connection, graph_id, ids, snapshot=self.stream.summary().snapshot)
        _log.info("nodes struck", graph=self.record.settings.name, n_nodes=int(dense.size))

    def _overwrite(self, struck: Sequence[ErasureRecord]) -> bool:
        """Second step: out of everything that was written before; False if it must wait."""
        log, graph_id = self.home.manifest.erasures, self.record.id
        mine = {each.id for each in struck}
        nodes = [each for each in log.nodes(graph_id, struck=True) if each.erasure_id in mine]
        sources: Sources = {"holding": [], "unread": []}
        if nodes:
            if self.traces.is_backed_up():
                return False
            firsts = [each.snapshot for each in struck if each.snapshot is not None]
            first = max(firsts, default=None)
            self.traces.remove_unfinished(struck)
            dense = _dense(nodes)
            if dense.size:
                self.traces.erase_made(dense, first)
            self.traces.erase_unnamed(nodes, struck)
            self.traces.erase_bad_rows(nodes)
            sources = self.traces.look_through_sources(self.traces.ids(nodes))
            self.traces.remove_old_features()
        with writing(self.home.database, graph_id, self.keeper.lease) as connection:
            if nodes:
                last = max(each.position for each in struck)
                self.traces.erase_texts(connection, nodes, last)
                log.forget(connection, sorted(mine), sources)
        if not self.home.database.forget_deleted():
            return False
        with writing(self.home.database, graph_id, self.keeper.lease) as connection:
            log.finish(connection, graph_id, sorted(mine))
        _log.info("nodes erased", graph=self.record.settings.name, n_erasures=len(mine))
        return True

    def _is_running(self, rule: ColumnElement[bool]) -> bool:
        """Whether a running job of the graph satisfies the rule."""
        statement = select(jobs.c.id).where(
            jobs.c.graph_id == self.record.id, jobs.c.status == JobStatus.RUNNING, rule
        )
        with self.home.database.read() as connection:
            return connection.execute(statement.limit(1)).first() is not None


def _dense(nodes: Sequence[WaitingNode]) -> Int64Array:
    return np.array(sorted({node.dense for node in nodes if node.dense is not None}), np.int64)


def _may_write(struck: Sequence[ErasureRecord]) -> ColumnElement[bool]:
    """Rule for jobs that began before the nodes were out, or whose directories are removed."""
    last = max(erasure.struck_at for erasure in struck if erasure.struck_at is not None)
    return or_(jobs.c.started_at <= last, jobs.c.kind.in_(_LEAVING_FILES))
