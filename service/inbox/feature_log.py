"""Sets of features of all graphs: stored, waiting for ingest, in the graph or refused.

A set is a file on disk, flushed before its row is written here; the row says what becomes of it.
Ingest takes sets one by one and raises the graph's ``features_version`` in the same transaction.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import uuid4

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, update

from peewit.service.catalog import lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, confirm
from peewit.service.database.tables import feature_sets, graphs
from peewit.service.database.timestamps import now
from peewit.service.inbox.inbox_records import BacklogFull, RowRecord, printable
from peewit.service.inbox.live_positions import note_refused
from peewit.service.inbox.push_log import take_positions
from peewit.service.live_sources.contract import Refused
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.problems import NotFound

SetMode = Literal["replace", "add"]
"""Whether a set replaces all rows, or only those of its own nodes."""

SetStatus = Literal["pending", "committed", "refused"]
"""Waits or is being read; is in the graph; broke a rule."""


class FeatureSetNotFound(NotFound):
    """The graph has no set of features of this id, or it ended long ago and was forgotten."""

    title = "Feature set not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFeatureSet:
    """A set to be stored."""

    mode: SetMode
    path: str  # of `feature_files.write_set`, flushed
    n_rows: int
    n_columns: int
    is_sparse: bool
    n_bytes: int  # of the file
    note: str | None = None  # of columns that describe no node
    owner: str | None = None  # prefix of the key that sent it
    source_id: str | None = None  # the live source that it came from


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSetRecord(NewFeatureSet, RowRecord):
    """A set of features, and what became of it.

    ``features_version`` (the version it made) and ``n_new_nodes`` are set once it is committed.
    ``reason``, ``argument`` (the column), ``row`` and ``value`` are set once it is refused.
    """

    id: str
    position: int  # its turn within the graph
    status: SetStatus
    features_version: int | None
    n_new_nodes: int | None
    reason: str | None
    argument: str | None
    row: int | None
    value: str | None
    created_at: datetime  # UTC, by the database's clock
    finished_at: datetime | None

    @property
    def fault(self) -> str:
        """Why it was refused, in one sentence; empty where it was not."""
        if self.reason is None:
            return ""
        received = "" if self.value is None else f", got {self.value}"
        place = "" if self.row is None else f" in row {self.row} (rows count from 0)"
        return f"{self.reason}{received}{place}"


class FeatureLog:
    """Sets by graph. Every method that writes raises `GraphNotFound` for a graph that is gone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        graph_id: str,
        new: NewFeatureSet,
        *,
        max_waiting_bytes: int | None,
        connection: Connection | None = None,
    ) -> FeatureSetRecord:
        """Store a set, to be committed after those that wait; raises `BacklogFull`.

        A set that finds nothing waiting is taken whatever its size. With a ``connection`` it joins
        the caller's writing transaction.
        """
        with self._database.joined(connection) as joined:
            lock_graph(joined, graph_id)
            waiting = _waiting_bytes(joined, graph_id)
            most = max_waiting_bytes
            if most is not None and waiting and waiting + new.n_bytes > most:
                raise BacklogFull(
                    f"features of one graph that wait must have at most {max_waiting_bytes} bytes, "
                    f"got {waiting + new.n_bytes}; ingest must catch up first"
                )
            (position,) = take_positions(joined, graph_id, 1)
            values = asdict(new) | {"id": uuid4().hex, "graph_id": graph_id, "position": position}
            statement = insert(feature_sets).values(**values).returning(feature_sets)
            return FeatureSetRecord.of(joined.execute(statement).one())

    def get(self, graph_id: str, set_id: str, *, owner: str | None = None) -> FeatureSetRecord:
        """One set, of an owner or of anybody; raises `FeatureSetNotFound`."""
        statement = select(feature_sets).where(
            feature_sets.c.graph_id == graph_id, feature_sets.c.id == set_id
        )
        if owner is not None:
            statement = statement.where(feature_sets.c.owner == owner)
        with self._database.read() as connection:
            row = connection.execute(statement).one_or_none()
        if row is None:
            raise FeatureSetNotFound(f"no set of features {set_id!r} of this graph")
        return FeatureSetRecord.of(row)

    def waiting(
        self, graph_id: str, *, connection: Connection | None = None
    ) -> Sequence[FeatureSetRecord]:
        """Sets that are not in the graph yet, in order; in the caller's transaction if given."""
        statement = (
            select(feature_sets).where(set_waits(graph_id)).order_by(feature_sets.c.position)
        )
        with self._database.read() if connection is None else nullcontext(connection) as joined:
            return [FeatureSetRecord.of(row) for row in joined.execute(statement)]

    def waiting_bytes(self, graph_id: str) -> int:
        """Bytes of the sets that wait."""
        with self._database.read() as connection:
            return _waiting_bytes(connection, graph_id)

    def last_ended(self, graph_id: str) -> FeatureSetRecord | None:
        """The set that was committed or refused last; None before any."""
        statement = (
            select(feature_sets)
            .where(_has_ended(graph_id))
            .order_by(feature_sets.c.position.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            row = connection.execute(statement).one_or_none()
        return None if row is None else FeatureSetRecord.of(row)

    def commit(
        self,
        graph_id: str,
        set_id: str,
        *,
        features_version: int,
        n_new_nodes: int,
        lease: Lease,
        connection: Connection,
    ) -> None:
        """Note that a set is in the graph, which has this version of features now.

        Raises `LeaseExpired`, and stores nothing, where another process may ingest the graph.
        """
        _end(
            connection,
            graph_id,
            set_id,
            lease,
            status="committed",
            features_version=features_version,
            n_new_nodes=n_new_nodes,
        )
        connection.execute(
            update(graphs).where(graphs.c.id == graph_id).values(features_version=features_version)
        )

    def refuse(self, graph_id: str, set_id: str, fault: BadTable, *, lease: Lease) -> None:
        """Note that a set was refused, for its live source too; raises `LeaseExpired`."""
        with self._database.write() as connection:
            _end(
                connection,
                graph_id,
                set_id,
                lease,
                status="refused",
                reason=printable(fault.reason, limit=2_000),
                argument=fault.argument,
                row=fault.row,
                value=None if fault.value is None else printable(fault.value),
            )
            one = select(feature_sets.c.source_id, feature_sets.c.n_rows)
            row = connection.execute(one.where(feature_sets.c.id == set_id)).one()
            if row.source_id is not None:
                refused = Refused(place=f"set of {row.n_rows} rows", reason=str(fault))
                note_refused(connection, graph_id, row.source_id, [refused])

    def forget(self, graph_id: str, *, older_than_seconds: float) -> None:
        """Forget sets that ended so long ago, but not the last one."""
        mine = _has_ended(graph_id)
        last = select(func.max(feature_sets.c.position)).where(mine).scalar_subquery()
        old = feature_sets.c.finished_at < now(-older_than_seconds)
        statement = select(feature_sets.c.id).where(mine, old, feature_sets.c.position < last)
        with self._database.read() as connection:
            ended = list(connection.execute(statement).scalars())
        for set_id in ended:
            with self._database.write() as connection:
                connection.execute(delete(feature_sets).where(feature_sets.c.id == set_id))


def set_waits(graph_id: str | ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a set of the graph waits."""
    return and_(feature_sets.c.graph_id == graph_id, feature_sets.c.status == "pending")


def _has_ended(graph_id: str) -> ColumnElement[bool]:
    return and_(feature_sets.c.graph_id == graph_id, feature_sets.c.status != "pending")


def _waiting_bytes(connection: Connection, graph_id: str) -> int:
    statement = select(func.sum(feature_sets.c.n_bytes)).where(set_waits(graph_id))
    return int(connection.execute(statement).scalar() or 0)


def _end(connection: Connection, graph_id: str, set_id: str, lease: Lease, **values: Any) -> None:
    lock_graph(connection, graph_id)
    confirm(connection, lease)
    connection.execute(
        update(feature_sets)
        .where(set_waits(graph_id), feature_sets.c.id == set_id)
        .values(finished_at=now(), **values)
    )
