"""Catalog of graphs: their settings, and the counters that ingest writes.

A deleted graph frees its name at once; `purge_deleted` removes its rows and files after a grace
time. Stores of their own keep what is inside a graph (files, labels, jobs).
"""

import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, confirm
from peewit.service.database.tables import (
    feature_sets,
    files,
    graphs,
    label_events,
    pushes,
    sources,
)
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import (
    AutoSolve,
    GraphConflict,
    GraphSettings,
    SnapshotEvery,
    raised_setting,
    require_same_fixed,
    with_budget,
)
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.windows import Window
from peewit.streaming.left_out import NO_ROWS, LeftOut
from peewit.streaming.problems import Conflict, NotFound

GRAPH_ID: Final = re.compile(r"[0-9a-f]{32}")
"""What the catalog makes, and the names of folders; ids of a backup may be others."""

_PURGE_ROWS: Final = 50_000
_ACTIVE: Final = select(graphs).where(graphs.c.state == "active")
_BY_NAME: Final = _ACTIVE.order_by(graphs.c.name)
_STAMP: Final = select(
    func.count(), func.sum(graphs.c.edges_seen), func.sum(graphs.c.labels_seq)
).select_from(graphs)


class GraphNotFound(NotFound):
    """There is no graph of this name or id, or it was deleted."""

    title = "Graph not found"

    def __init__(self, graph: str) -> None:
        super().__init__(f"no graph {graph!r}; `peewit graph list` shows those there are")


class GraphExists(Conflict, BadArgument):
    """Another graph has the name."""

    title = "Graph exists"

    def __init__(self, name: str) -> None:
        super().__init__(
            "name", f"must be new, got {name!r}, which another graph has; delete it first"
        )


class TooManyGraphs(Conflict, ValueError):
    """There are as many graphs as there may be."""

    title = "Too many graphs"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphProgress:
    """Progress of ingest, as of the last committed file or snapshot."""

    n_nodes: int = 0
    edges_seen: int = 0  # rows of committed files
    edges_kept: int = 0  # in the sparsifier
    left_out: LeftOut = NO_ROWS  # of these rows
    epsilon_expected: float | None = None  # of the newest snapshot
    snapshot: int | None = None  # number of the newest one
    n_failed_embeddings: int = 0  # thinnings that dropped nothing: resistances did not converge


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord:
    """A graph as the catalog knows it at one moment."""

    id: str  # names its directory and never changes
    settings: GraphSettings  # with the seed that is in use
    progress: GraphProgress
    labels_seq: int  # number of the last label event; 0 before the first
    features_version: int  # 0 before the first features
    created_at: datetime  # UTC, by the database's clock
    erasures_seq: int = 0  # how often erasures of nodes have changed


class Catalog:
    """Graphs by name and by id, without deleted ones.

    The edge budget of a new graph follows from ``memory_bytes``, the memory of ingest and solves;
    by default that of this machine or container.
    """

    def __init__(self, database: Database, *, memory_bytes: int | None = None) -> None:
        self._database = database
        self._memory_bytes = memory_bytes

    def create(self, settings: GraphSettings, *, max_graphs: int | None = None) -> GraphRecord:
        """A new, empty graph; raises `GraphExists` or `TooManyGraphs`.

        A few more than ``max_graphs`` may come to be where several are created at the same moment.
        """
        if settings.seed is None:
            seed = secrets.randbits(53)  # any JSON reader keeps it exact
            settings = replace(settings, seed=seed)
        settings = with_budget(settings, self._memory_bytes)
        with _unique_name(settings.name), self._database.write() as connection:
            present = select(func.count()).where(graphs.c.state == "active")
            n_graphs = connection.execute(present).scalar_one()
            if max_graphs is not None and n_graphs >= max_graphs:
                raise TooManyGraphs(
                    f"there must be at most {max_graphs} graphs, got one more; delete one, or "
                    "raise PEEWIT_MAX_GRAPHS"
                )
            statement = insert(graphs).values(id=uuid4().hex, **asdict(settings)).returning(graphs)
            return record_of(connection.execute(statement).one())

    def get(self, name: str) -> GraphRecord:
        """The graph of a name; raises `GraphNotFound`."""
        with self._database.read() as connection:
            row = connection.execute(_ACTIVE.where(graphs.c.name == name)).one_or_none()
        if row is None:
            raise GraphNotFound(name)
        return record_of(row)

    def get_by_id(self, graph_id: str) -> GraphRecord:
        """The graph of an id; raises `GraphNotFound`."""
        with self._database.read() as connection:
            return record_of(find_graph(connection, graph_id))

    def list(self) -> Sequence[GraphRecord]:
        """All graphs, by name."""
        with self._database.read() as connection:
            return [record_of(row) for row in connection.execute(_BY_NAME)]

    def stamp(self) -> tuple[Any, ...]:
        """A value that changes when graphs are added, or edges or labels come to one."""
        with self._database.read() as connection:
            return tuple(connection.execute(_STAMP).one())

    def update(
        self,
        graph_id: str,
        change: Callable[[GraphSettings], GraphSettings],
        *,
        request_solve: Callable[[Connection, str], object] | None = None,
        require_edges: Callable[[GraphRecord, str], object] | None = None,
    ) -> GraphRecord:
        """The graph with other settings.

        A higher budget, or a lower epsilon, makes ingest read all edges again if some were thrown
        away. If that reading has failed, a budget that is no higher than the edges kept withdraws
        it.

        ``change`` runs inside the transaction, so that two changes at once are both kept.
        ``request_solve`` (`peewit.service.jobs.auto_solve.request_auto_solve`) is called in the
        transaction when ``auto_solve``, ``answers`` or ``directed`` have changed: labels may be
        there already.
        ``require_edges`` is called with the graph and the name of the setting before all edges are
        read again; it raises where they are kept nowhere.

        Raises `GraphNotFound`, `GraphConflict` for a change of a fixed setting,
        `GraphExists` for a name that another graph has, and a ValueError for a setting that breaks
        its rule.
        """
        with self._database.write() as connection:
            row = lock_graph(connection, graph_id)
            record = record_of(row)
            present = record.settings
            wanted = with_budget(change(present), self._memory_bytes)
            require_same_fixed(present, wanted)
            values = asdict(wanted)
            raised = raised_setting(present, wanted)
            if record.progress.epsilon_expected and raised is not None:
                if require_edges is not None:
                    require_edges(record, raised)
                values |= {"repair_wanted": "all", "repair_fault": None}
            elif row.repair_fault is not None and _is_enough(record.progress, wanted):
                values |= {"repair_wanted": None, "repair_fault": None}
            statement = update(graphs).where(graphs.c.id == graph_id).values(**values)
            with _unique_name(wanted.name):
                changed = record_of(connection.execute(statement.returning(graphs)).one())
            is_asked_anew = any(
                getattr(wanted, name) != getattr(present, name)
                for name in ("auto_solve", "answers", "directed")
            )
            if request_solve is not None and is_asked_anew:
                request_solve(connection, graph_id)
            return changed

    def record_progress(
        self, graph_id: str, progress: GraphProgress, connection: Connection | None = None
    ) -> None:
        """Store ingest's counters; raises `GraphNotFound` once the graph is deleted.

        The graph is not at rest from then on. With a ``connection`` this joins the caller's
        transaction.
        """
        with self._database.joined(connection) as joined:
            lock_graph(joined, graph_id)
            mine = update(graphs).where(graphs.c.id == graph_id)
            joined.execute(mine.values(**asdict(progress), at_rest=None))

    def delete(self, graph_id: str, *, cancel_jobs: Callable[[str, Connection], object]) -> None:
        """Take a graph out of the catalog and free its name; raises `GraphNotFound`.

        ``cancel_jobs`` (`JobQueue.cancel_graph`) is called in the transaction.
        """
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            connection.execute(
                update(graphs)
                .where(graphs.c.id == graph_id)
                .values(state="deleted", deleted_at=now())
            )
            cancel_jobs(graph_id, connection)

    def renew_empty(
        self,
        graph_id: str,
        change: Callable[[GraphSettings], GraphSettings],
        *,
        cancel_jobs: Callable[[str, Connection], object],
    ) -> GraphRecord:
        """A new graph of the same name in place of one that nothing has ever come to.

        ``change`` may change fixed settings too; ``cancel_jobs`` is as in `delete`. Raises
        `GraphNotFound`, and `GraphConflict` where something has come to the graph or is on its way.
        """
        with self._database.write() as connection:
            record = record_of(lock_graph(connection, graph_id))
            if not is_empty(connection, record):
                raise GraphConflict(
                    "node_ids",
                    f"is fixed at {record.settings.node_ids!r} once something has come to the "
                    "graph; create another graph",
                )
            wanted = with_budget(change(record.settings), self._memory_bytes)
            mine = graphs.c.id == graph_id
            gone = update(graphs).where(mine).values(state="deleted", deleted_at=now())
            connection.execute(gone)
            cancel_jobs(graph_id, connection)
            statement = insert(graphs).values(id=uuid4().hex, **asdict(wanted)).returning(graphs)
            with _unique_name(wanted.name):
                return record_of(connection.execute(statement).one())

    def purge_deleted(self, older_than_seconds: float, graphs_directory: Path) -> Sequence[str]:
        """Remove files, then rows of graphs that were deleted long enough ago; returns their ids.

        The grace time is for processes that still read or write the files. A call that was
        interrupted at any line is continued by the next one.
        """
        statement = select(graphs.c.id).where(
            graphs.c.state == "deleted", graphs.c.deleted_at <= now(-older_than_seconds)
        )
        with self._database.read() as connection:
            purged = list(connection.execute(statement).scalars())
        for graph_id in purged:
            if GRAPH_ID.fullmatch(graph_id) and (graphs_directory / graph_id).exists():
                shutil.rmtree(graphs_directory / graph_id)
            self._remove_rows(graph_id)
        return purged

    def _remove_rows(self, graph_id: str) -> None:
        """Remove label events in bounded transactions, so that others can write; then all rows."""
        mine = label_events.c.graph_id == graph_id
        first: int | None = 0
        while first is not None:
            with self._database.write() as connection:
                first = connection.execute(
                    select(func.min(label_events.c.seq)).where(mine)
                ).scalar()
                if first is not None:
                    old = label_events.c.seq < first + _PURGE_ROWS
                    connection.execute(delete(label_events).where(mine, old))
        with self._database.write() as connection:
            connection.execute(delete(graphs).where(graphs.c.id == graph_id))


def _is_enough(progress: GraphProgress, wanted: GraphSettings) -> bool:
    """Whether as many edges are kept as the budget allows, so that none need be read again."""
    return (
        wanted.epsilon is None
        and wanted.max_edges is not None
        and wanted.max_edges <= progress.edges_kept
    )


def is_empty(connection: Connection, record: GraphRecord) -> bool:
    """Whether no row says that anything has come to the graph."""
    if record.labels_seq or record.features_version or record.erasures_seq:
        return False
    return all(
        connection.execute(
            select(each.c.graph_id).where(each.c.graph_id == record.id).limit(1)
        ).first()
        is None
        for each in (sources, files, pushes, feature_sets)
    )


@contextmanager
def _unique_name(name: str) -> Iterator[None]:
    """Translate the only rule on graphs that the table itself checks."""
    try:
        yield
    except IntegrityError as error:
        raise GraphExists(name) from error


def find_graph(connection: Connection, graph_id: str) -> Row[Any]:
    """The row of a graph; raises `GraphNotFound`."""
    return _one(connection, graph_id, _ACTIVE)


def lock_graph(connection: Connection, graph_id: str) -> Row[Any]:
    """The row of a graph, locked until this transaction ends; raises `GraphNotFound`.

    Whoever adds files, labels or jobs to a graph calls this first. It keeps their numbers in the
    order of the commits, and the graph from being deleted meanwhile.
    """
    return _one(connection, graph_id, _ACTIVE.with_for_update(key_share=True))


@contextmanager
def writing(database: Database, graph_id: str, lease: Lease | None) -> Iterator[Connection]:
    """A transaction with the graph's row locked and, of its writer, the lease renewed and held.

    Raises `GraphNotFound`, or `LeaseExpired` where another process may write the graph; nothing is
    stored then.
    """
    with database.write() as connection:
        lock_graph(connection, graph_id)
        if lease is not None:
            confirm(connection, lease)
        yield connection


def _one(connection: Connection, graph_id: str, statement: Select[Any]) -> Row[Any]:
    row = connection.execute(statement.where(graphs.c.id == graph_id)).one_or_none()
    if row is None:
        raise GraphNotFound(graph_id)
    return row


def record_of(row: Row[Any]) -> GraphRecord:
    """A row of the catalog as a record."""
    values = row._asdict()
    chosen = {each.name: values[each.name] for each in fields(GraphSettings)}
    chosen["columns"] = chosen["columns"] or {}
    chosen |= {name: tuple(chosen[name] or ()) for name in ("answers", "directed")}
    if chosen["window"] is not None:
        chosen["window"] = Window(**chosen["window"])
    if chosen["snapshot_every"] is not None:
        chosen["snapshot_every"] = SnapshotEvery(**chosen["snapshot_every"])
    if chosen["auto_solve"] is not None:
        chosen["auto_solve"] = AutoSolve(**chosen["auto_solve"])
    return GraphRecord(
        id=row.id,
        settings=GraphSettings(**chosen),
        progress=GraphProgress(**{each.name: values[each.name] for each in fields(GraphProgress)}),
        labels_seq=row.labels_seq,
        features_version=row.features_version,
        erasures_seq=row.erasures_seq,
        created_at=row.created_at,
    )
