"""Erasures: nodes that somebody asked to be forgotten, and how far that is.

The transaction that stores an erasure hides its nodes: every reader consults `Hidden`. Ingest then
takes their edges out (struck), overwrites the files, and forgets here which nodes they were
(erased). Until then the rows hold their external ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any, Final, Literal, TypedDict
from uuid import uuid4

import numpy as np
from sqlalchemy import Connection, Select, delete, exists, func, insert, select, update

from peewit.service.catalog import GraphRecord, lock_graph, writing
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease
from peewit.service.database.tables import (
    erased_nodes,
    erasures,
    graphs,
    label_events,
    opinions,
    reservations,
)
from peewit.service.database.timestamps import now
from peewit.service.inbox.inbox_records import RowRecord
from peewit.service.inbox.leaving.erasure_ledger import Ledger
from peewit.solvers.arrays import Int64Array, frozen
from peewit.streaming.problems import NotFound

ErasureStatus = Literal["hidden", "erased"]
"""Hidden: no reader shows the nodes. Erased: no file of the graph has a byte of their ids."""

_AT_ONCE: Final = 1_000


class ErasureNotFound(NotFound):
    """The graph has no erasure of this id."""

    title = "Erasure not found"


class Sources(TypedDict):
    """What files of sources, which are never rewritten, were found to hold."""

    holding: list[str]  # paths of files that hold one of the nodes
    unread: list[str]  # paths of files that could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRecord(RowRecord):
    """One call to erase nodes."""

    id: str
    graph_id: str
    position: int  # the last turn of the graph's pushes and files before it
    status: ErasureStatus
    n_nodes: int  # that were named
    n_known: int  # of these, nodes that the graph knew
    created_at: datetime
    erase_by: datetime  # until when files are to be overwritten
    struck_at: datetime | None  # when the edges were out of the graph
    erased_at: datetime | None
    snapshot: int | None  # the first without their edges; None before any
    sources: Sources | None  # known once all is done


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingNode:
    """A node of an erasure that is not done."""

    erasure_id: str
    number: int  # within the erasure
    node: str  # external id as text
    dense: int | None  # None where it had no dense id


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hidden:
    """Nodes of one graph that no reader may show, as their files are not overwritten yet."""

    dense: Int64Array  # (n_hidden,) dense ids, increasing
    names: frozenset[str]  # external ids, as text, that the node index may still hold


NOTHING: Final = Hidden(dense=frozen(np.empty(0, np.int64)), names=frozenset())


class ErasureLog:
    """Erasures of all graphs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self,
        graph_id: str,
        nodes: Sequence[str],
        dense: Sequence[int],
        *,
        n_known: int,
        within_seconds: float,
        owner: str | None = None,
        erasure_id: str | None = None,
        ledger: Ledger | None,
    ) -> ErasureRecord:
        """Hide some nodes from now on; their labels and label history are removed at once.

        ``nodes`` are external ids as text, each once, and ``dense`` their dense ids, -1 for none;
        the graph knew ``n_known`` of them. Files are to be overwritten ``within_seconds``.
        ``owner`` is a prefix of the key that asks; ``erasure_id`` is of an erasure that is applied
        again. The ``ledger`` is written before the erasure counts: if that fails with an OSError,
        nothing is hidden.
        """
        made = erasure_id or uuid4().hex
        with self._database.write() as connection:
            graph = lock_graph(connection, graph_id)
            connection.execute(
                insert(erasures).values(
                    id=made,
                    graph_id=graph_id,
                    position=graph.files_seq,
                    n_nodes=len(nodes),
                    n_known=n_known,
                    erase_by=now(within_seconds),
                    owner=owner,
                )
            )
            rows = [
                {
                    "erasure_id": made,
                    "graph_id": graph_id,
                    "number": number,
                    "node": node,
                    "dense": None if place < 0 else int(place),
                }
                for number, (node, place) in enumerate(zip(nodes, dense, strict=True))
            ]
            if rows:
                connection.execute(insert(erased_nodes), rows)
            _forget_labels(connection, graph_id, nodes)
            _note_change(connection, graph_id)
            if ledger is not None:
                ledger.append(
                    erasure=made,
                    graph=graph_id,
                    position=graph.files_seq,
                    at=connection.execute(select(now())).scalar_one().isoformat(),
                    nodes=nodes,
                )
        return self.get(graph_id, made)

    def get(self, graph_id: str, erasure_id: str, *, owner: str | None = None) -> ErasureRecord:
        """One erasure, of an owner or of anybody; raises `ErasureNotFound`."""
        statement = _of_owner(graph_id, owner).where(erasures.c.id == erasure_id)
        for record in self._records(statement):
            return record
        raise ErasureNotFound(f"no erasure {erasure_id!r} of this graph")

    def list(self, graph_id: str, *, owner: str | None = None) -> Sequence[ErasureRecord]:
        """Erasures of a graph, of an owner or of anybody, newest first."""
        return self._records(
            _of_owner(graph_id, owner).order_by(erasures.c.created_at.desc(), erasures.c.id)
        )

    def waiting(self, graph_id: str) -> Sequence[ErasureRecord]:
        """Erasures that are not done, oldest first."""
        return self._records(
            select(erasures)
            .where(erasures.c.graph_id == graph_id, erasures.c.status == "hidden")
            .order_by(erasures.c.created_at, erasures.c.id)
        )

    def last_turn(self, graph_id: str) -> int | None:
        """The last turn of a graph before an erasure whose edges are still in; None without one.

        Later turns may bring the nodes back, and wait until the edges are out.
        """
        statement = select(func.min(erasures.c.position)).where(
            erasures.c.graph_id == graph_id,
            erasures.c.status == "hidden",
            erasures.c.struck_at.is_(None),
        )
        with self._database.read() as connection:
            return connection.execute(statement).scalar()

    def overdue(self) -> Sequence[tuple[str, ErasureRecord]]:
        """Erasures of all graphs that are late, each with the name of its graph."""
        statement = (
            select(erasures, graphs.c.name.label("graph_name"))
            .join(graphs, graphs.c.id == erasures.c.graph_id)
            .where(erasures.c.status == "hidden", erasures.c.erase_by < now())
            .where(graphs.c.state == "active")
        )
        with self._database.read() as connection:
            return [
                (row.graph_name, ErasureRecord.of(row)) for row in connection.execute(statement)
            ]

    def nodes(self, graph_id: str, *, struck: bool) -> Sequence[WaitingNode]:
        """Nodes of unfinished erasures: whose edges are out if ``struck``, else of the others."""
        is_struck = erasures.c.struck_at.is_not(None)
        statement = (
            select(
                erased_nodes.c.erasure_id,
                erased_nodes.c.number,
                erased_nodes.c.node,
                erased_nodes.c.dense,
            )
            .join(erasures, erasures.c.id == erased_nodes.c.erasure_id)
            .where(erased_nodes.c.graph_id == graph_id, erasures.c.status == "hidden")
            .where(is_struck if struck else ~is_struck)
            .order_by(erased_nodes.c.erasure_id, erased_nodes.c.number)
        )
        with self._database.read() as connection:
            return [WaitingNode(**row._mapping) for row in connection.execute(statement)]

    def hidden(self, graph_id: str) -> Hidden:
        """The nodes that readers of a graph may not show."""
        mine = self.nodes(graph_id, struck=False)
        dense = [node.dense for node in (*mine, *self.nodes(graph_id, struck=True))]
        known = {each for each in dense if each is not None}
        return Hidden(
            dense=frozen(np.array(sorted(known), np.int64)),
            names=frozenset(node.node for node in mine),
        )

    def note_dense(
        self, graph_id: str, dense: Mapping[tuple[str, int], int], *, lease: Lease | None = None
    ) -> None:
        """Store dense ids by erasure and number, unless the nodes' edges are out already.

        Whoever erases them gives its ``lease``; then this raises `LeaseExpired`.
        """
        is_in = exists().where(
            erasures.c.id == erased_nodes.c.erasure_id, erasures.c.struck_at.is_(None)
        )
        with writing(self._database, graph_id, lease) as connection:
            for (erasure_id, number), place in dense.items():
                connection.execute(
                    update(erased_nodes)
                    .where(erased_nodes.c.erasure_id == erasure_id)
                    .where(erased_nodes.c.number == number, is_in)
                    .values(dense=place)
                )
            _note_change(connection, graph_id)

    def strike(
        self,
        connection: Connection,
        graph_id: str,
        erasure_ids: Sequence[str],
        *,
        snapshot: int | None,
    ) -> None:
        """Note the first snapshot without the edges; the ids are out of the index too."""
        mine = erased_nodes.c.erasure_id.in_(erasure_ids)
        nodes = connection.execute(select(erased_nodes.c.node).where(mine)).scalars().all()
        _forget_labels(connection, graph_id, nodes)  # any that came meanwhile
        connection.execute(
            update(erasures)
            .where(erasures.c.id.in_(erasure_ids))
            .values(struck_at=now(), snapshot=snapshot)
        )
        _note_change(connection, graph_id)

    def forget(
        self, connection: Connection, erasure_ids: Sequence[str], sources: Sources | None
    ) -> None:
        """Forget which nodes they were, as the files are overwritten."""
        connection.execute(delete(erased_nodes).where(erased_nodes.c.erasure_id.in_(erasure_ids)))
        connection.execute(
            update(erasures)
            .where(erasures.c.id.in_(erasure_ids), erasures.c.sources.is_(None))
            .values(sources=sources)
        )

    def finish(self, connection: Connection, graph_id: str, erasure_ids: Sequence[str]) -> None:
        """Note that all is done."""
        connection.execute(
            update(erasures)
            .where(erasures.c.id.in_(erasure_ids))
            .values(status="erased", erased_at=now())
        )
        _note_change(connection, graph_id)

    def changes(self, graph_id: str) -> int:
        """How often erasures of a graph have changed, as in `GraphRecord.erasures_seq`."""
        statement = select(graphs.c.erasures_seq).where(graphs.c.id == graph_id)
        with self._database.read() as connection:
            return connection.execute(statement).scalar() or 0

    def _records(self, statement: Select[Any]) -> Sequence[ErasureRecord]:
        with self._database.read() as connection:
            return [ErasureRecord.of(row) for row in connection.execute(statement)]


class HiddenNodes:
    """`Hidden` of graphs, cached until their erasures change; any number of threads may ask."""

    def __init__(self, database: Database) -> None:
        self._log = ErasureLog(database)
        self._known: dict[str, tuple[int, Hidden]] = {}
        self._lock = Lock()

    def of(self, graph: GraphRecord) -> Hidden:
        """The nodes that readers of a graph may not show."""
        return self._of(graph.id, graph.erasures_seq)

    def of_id(self, graph_id: str) -> Hidden:
        """The same by the graph's id alone."""
        return self._of(graph_id, self._log.changes(graph_id))

    def _of(self, graph_id: str, changes: int) -> Hidden:
        if changes == 0:
            return NOTHING
        with self._lock:
            known = self._known.get(graph_id)
        if known is not None and known[0] == changes:
            return known[1]
        hidden = self._log.hidden(graph_id)
        if not (hidden.dense.size or hidden.names):
            hidden = NOTHING
        with self._lock:
            self._known[graph_id] = (changes, hidden)
        return hidden


def _of_owner(graph_id: str, owner: str | None) -> Select[Any]:
    statement = select(erasures).where(erasures.c.graph_id == graph_id)
    return statement if owner is None else statement.where(erasures.c.owner == owner)


def _some(nodes: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(nodes), _AT_ONCE):
        yield nodes[start : start + _AT_ONCE]


def _forget_labels(connection: Connection, graph_id: str, nodes: Sequence[str]) -> None:
    """Remove labels of some nodes with their history, opinions and reservations.

    ``labels_seq`` grows, so that others see the change.
    """
    mine = label_events.c.graph_id == graph_id
    n_gone = 0
    for some in _some(nodes):
        for table in (opinions, reservations):
            theirs = table.c.graph_id == graph_id, table.c.node.in_(some)
            connection.execute(delete(table).where(*theirs))
        gone = delete(label_events).where(mine, label_events.c.node.in_(some))
        n_gone += len(connection.execute(gone.returning(label_events.c.seq)).all())
    if n_gone:
        connection.execute(
            update(graphs).where(graphs.c.id == graph_id).values(labels_seq=graphs.c.labels_seq + 1)
        )


def _note_change(connection: Connection, graph_id: str) -> None:
    connection.execute(
        update(graphs)
        .where(graphs.c.id == graph_id)
        .values(erasures_seq=func.coalesce(graphs.c.erasures_seq, 0) + 1)
    )
