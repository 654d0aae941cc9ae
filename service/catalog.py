"""Catalog of graphs: their settings, and counters that ingest writes.

A deleted graph gives its name free at once; its rows and files go when `purge_deleted` finds them
old enough. What is inside a graph (files, labels, jobs) is kept by the stores above this module.
"""

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

_PURGE_ROWS: Final = 50_000
_ACTIVE: Final = select(graphs).where(graphs.c.state == "active")
_BY_NAME: Final = _ACTIVE.order_by(graphs.c.name)
_STAMP: Final = select(
    func.count(), func.sum(graphs.c.edges_seen), func.sum(graphs.c.labels_seq)
).select_from(graphs)


class GraphNotFound(LookupError):
    """There is no graph of this name or id, or it was deleted."""

    def __init__(self, graph: str) -> None:
        super().__init__(f"no graph {graph!r}; `peewit graph list` shows those there are")


class GraphOutdated(ValueError):
    """A graph of an earlier version has what there is no more; it can only be deleted.

    Attributes
    ----------
    graph_id, name : str
        Which one.
    """

    def __init__(self, graph_id: str, name: str, *, reason: str, settings: str) -> None:
        super().__init__(
            f"graph {name!r} is of an earlier version: {reason}. Create another (`peewit graph "
            f"create NAME {settings}`) and ingest again: files of sources are where they were, "
            f"pushed ones that were kept in graphs/{graph_id}/pushes of the home. `peewit graph "
            f"delete {name}` deletes this one, with what was pushed"
        )
        self.graph_id = graph_id
        self.name = name


class GraphExists(BadArgument):
    """Another graph has the name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "name", f"must be new, got {name!r}, which another graph has; delete it first"
        )


class TooManyGraphs(ValueError):
    """There are as many graphs as there may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphProgress:
    """Progress of ingest, as of the last committed file or snapshot.

    Attributes
    ----------
    n_nodes, edges_seen, edges_kept, self_loops : int
        Nodes, rows of committed files, edges of the sparsifier, rows dropped as self-loops.
    epsilon_expected : float, optional
        Accuracy expected of the newest snapshot.
    snapshot : int, optional
        Its number.
    n_failed_embeddings : int
        Thinnings up to it that threw nothing away, as resistances did not converge.
    """

    n_nodes: int = 0
    edges_seen: int = 0
    edges_kept: int = 0
    self_loops: int = 0
    epsilon_expected: float | None = None
    snapshot: int | None = None
    n_failed_embeddings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord:
    """A graph as the catalog knows it at one moment.

    Attributes
    ----------
    id : str
        Names its directory and never changes.
    settings : GraphSettings
        With the seed that is in use.
    progress : GraphProgress
        Written by ingest.
    labels_seq, features_version : int
        Number of the last label event and of the present features; 0 before the first.
    created_at : datetime
        By the database's clock, in UTC.
    erasures_seq : int
        How often erasures of nodes have changed; 0 where there was none.
    """

    id: str
    settings: GraphSettings
    progress: GraphProgress
    labels_seq: int
    features_version: int
    created_at: datetime
    erasures_seq: int = 0


class Catalog:
    """Graphs by name and by id; deleted ones are not there.

    Parameters
    ----------
    database : Database
        That holds them.
    memory_bytes : int, optional
        Memory of ingest and solves, of which the budget of a new graph follows; that of this
        machine or container by default.
    """

    def __init__(self, database: Database, *, memory_bytes: int | None = None) -> None:
        self._database = database
        self._memory_bytes = memory_bytes

    def create(self, settings: GraphSettings, *, max_graphs: int | None = None) -> GraphRecord:
        """A new, empty graph.

        Parameters
        ----------
        settings : GraphSettings
            What people chose.
        max_graphs : int, optional
            Most graphs there may be; a few more where several are created at the same moment.

        Raises
        ------
        GraphExists
            The name is taken.
        TooManyGraphs
            There are as many as there may be.
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
            return _record(connection.execute(statement).one())

    def get(self, name: str) -> GraphRecord:
        """The graph of a name; raises `GraphNotFound` or `GraphOutdated`."""
        return _record(self._row(name))

    def get_by_id(self, graph_id: str) -> GraphRecord:
        """The graph of an id; raises `GraphNotFound` or `GraphOutdated`."""
        with self._database.read() as connection:
            return _record(find_graph(connection, graph_id))

    def id_of(self, name: str) -> str:
        """The id of a graph, be it outdated or not; raises `GraphNotFound`."""
        graph_id: str = self._row(name).id
        return graph_id

    def list(self) -> Sequence[GraphRecord]:
        """All graphs but those that are outdated, by name."""
        return [_record(row) for row in self._rows() if _fault_of(row) is None]

    def outdated(self) -> Sequence[GraphOutdated]:
        """The other ones, by name, each with what is to be done."""
        return [fault for row in self._rows() if (fault := _fault_of(row)) is not None]

    def stamp(self) -> tuple[Any, ...]:
        """What differs once there is another graph, or one has more edges or labels."""
        with self._database.read() as connection:
            return tuple(connection.execute(_STAMP).one())

    def _row(self, name: str) -> Row[Any]:
        with self._database.read() as connection:
            row = connection.execute(_ACTIVE.where(graphs.c.name == name)).one_or_none()
        if row is None:
            raise GraphNotFound(name)
        return row

    def _rows(self) -> Sequence[Row[Any]]:
        with self._database.read() as connection:
            return connection.execute(_BY_NAME).all()

    def update(
        self,
        graph_id: str,
        change: Callable[[GraphSettings], GraphSettings],
        *,
        request_solve: Callable[[Connection, str], object] | None = None,
        require_edges: Callable[[GraphRecord, str], object] | None = None,
    ) -> GraphRecord:
        """The graph with other settings.

        A budget that is raised, or an epsilon that is lowered, after edges were thrown away has
        ingest read all of them again. If that cannot be done, a budget that is no more than what is
        kept takes the wish back.

        Parameters
        ----------
        graph_id : str
            Which graph.
        change : callable
            From the present settings to the new ones, as in
            ``lambda settings: replace(settings, epsilon=0.5)``; runs inside the transaction, so
            that of two changes at once neither is lost.
        request_solve : callable, optional
            `peewit.service.jobs.auto_solve.request_auto_solve`; called with the connection and the
            id, in the transaction, when ``auto_solve`` has changed: labels that are there already
            count.
        require_edges : callable, optional
            Called with the graph and the name of the setting before that has all edges read again;
            raises where they are kept nowhere.

        Raises
        ------
        GraphNotFound, GraphOutdated
            There is no such graph, or it can only be deleted.
        GraphConflict
            The change touches a setting that is fixed, or what ``require_edges`` raises.
        GraphExists
            Another graph has the new name.
        ValueError
            A setting breaks its rule.
        """
        with self._database.write() as connection:
            row = lock_graph(connection, graph_id)
            record = _record(row)
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
                changed = _record(connection.execute(statement.returning(graphs)).one())
            if request_solve is not None and wanted.auto_solve != present.auto_solve:
                request_solve(connection, graph_id)
            return changed

    def record_progress(
        self, graph_id: str, progress: GraphProgress, connection: Connection | None = None
    ) -> None:
        """Store ingest's counters; raises `GraphNotFound` once the graph is deleted.

        With a ``connection`` this joins the caller's transaction.
        """
        with self._database.joined(connection) as joined:
            lock_graph(joined, graph_id)
            joined.execute(update(graphs).where(graphs.c.id == graph_id).values(**asdict(progress)))

    def delete(self, graph_id: str, *, cancel_jobs: Callable[[str, Connection], object]) -> None:
        """Take a graph out of the catalog and give its name free; raises `GraphNotFound`.

        Parameters
        ----------
        graph_id : str
            Which graph.
        cancel_jobs : callable
            `JobQueue.cancel_graph`; called with the id and the connection, in the transaction.
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
        """Another graph of that name in place of one that nothing has ever come to.

        Parameters
        ----------
        graph_id : str
            Which graph.
        change : callable
            From its settings to those of the new one, the fixed ones included.
        cancel_jobs : callable
            As of `delete`.

        Raises
        ------
        GraphNotFound
            There is no such graph.
        GraphConflict
            Something has come to it, or is on its way.
        ValueError
            A setting breaks its rule.
        """
        with self._database.write() as connection:
            record = _record(lock_graph(connection, graph_id))
            if not _is_empty(connection, record):
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
                return _record(connection.execute(statement).one())

    def purge_deleted(self, older_than_seconds: float, graphs_directory: Path) -> Sequence[str]:
        """Remove files, then rows of graphs deleted long enough ago; their ids.

        Broken off at any line, the next call goes on with it.

        Parameters
        ----------
        older_than_seconds : float
            The grace time, for processes that still read or write the files.
        graphs_directory : Path
            Where each graph has a directory named by its id.

        Raises
        ------
        OSError
            A file cannot be removed.
        """
        statement = select(graphs.c.id).where(
            graphs.c.state == "deleted", graphs.c.deleted_at <= now(-older_than_seconds)
        )
        with self._database.read() as connection:
            purged = list(connection.execute(statement).scalars())
        for graph_id in purged:
            if (graphs_directory / graph_id).exists():
                shutil.rmtree(graphs_directory / graph_id)
            self._remove_rows(graph_id)
        return purged

    def _remove_rows(self, graph_id: str) -> None:
        """Label events in bounded transactions, so that other writers need not wait; then all."""
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
    """Whether as many edges are kept as a budget allows, so that none need be read again."""
    return (
        wanted.epsilon is None
        and wanted.max_edges is not None
        and wanted.max_edges <= progress.edges_kept
    )


def _is_empty(connection: Connection, record: GraphRecord) -> bool:
    """Whether no row says that anything has come to a graph."""
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
    """Name the one rule that the table itself checks on graphs."""
    try:
        yield
    except IntegrityError as error:
        raise GraphExists(name) from error


def find_graph(connection: Connection, graph_id: str) -> Row[Any]:
    """The row of a graph; raises `GraphNotFound`."""
    return _one(connection, graph_id, _ACTIVE)


def lock_graph(connection: Connection, graph_id: str) -> Row[Any]:
    """The row of a graph, which no other transaction changes until this one ends.

    Whoever adds files, labels or jobs to a graph calls this first: it keeps their numbers in the
    order of the commits, and a graph from being deleted meanwhile.

    Raises
    ------
    GraphNotFound
        There is no such graph.
    """
    return _one(connection, graph_id, _ACTIVE.with_for_update(key_share=True))


def _one(connection: Connection, graph_id: str, statement: Select[Any]) -> Row[Any]:
    row = connection.execute(statement.where(graphs.c.id == graph_id)).one_or_none()
    if row is None:
        raise GraphNotFound(graph_id)
    return row


def _fault_of(row: Row[Any]) -> GraphOutdated | None:
    """What keeps a graph of an earlier version from being used."""
    if row.deletions == "approximate":
        reason = "its deletions are approximate, and they are off or exact now"
        return GraphOutdated(row.id, row.name, reason=reason, settings="--deletions exact")
    if row.window is not None and row.deletions == "off":
        reason = "its window keeps no log of edges, and edges leave a window by that now"
        settings = f"--window {row.window['length']:.15g}s --window-by {row.window['by']}"
        return GraphOutdated(row.id, row.name, reason=reason, settings=settings)
    return None


def _record(row: Row[Any]) -> GraphRecord:
    if (fault := _fault_of(row)) is not None:
        raise fault
    values = row._asdict()
    chosen = {each.name: values[each.name] for each in fields(GraphSettings)}
    chosen["columns"] = chosen["columns"] or {}
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
