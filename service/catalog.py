"""Catalog of graphs: settings, which people choose, and counters, which ingest writes.

A deleted graph gives its name free at once; its rows and files go when `purge_deleted` finds them
old enough. What is inside a graph (files, labels, jobs) is kept by the stores above this module.
"""

import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, get_args
from uuid import uuid4

from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from peewit.service.database.engine import Database
from peewit.service.database.tables import graphs, label_events
from peewit.service.database.timestamps import now
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.change_rules import Deletions, Parallel
from peewit.streaming.edges.node_kinds import NODE_KINDS, NodeKind
from peewit.streaming.edges.windows import Window

MAX_NODES: Final = 2**31 - 2
"""Dense node ids are int32."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_FIXED: Final = ("node_ids", "expected_nodes", "max_nodes", "seed")
_TABLE_COLUMNS: Final = ("src", "dst", "weight", "op", "time", "node", "label")
_MAX_COLUMN_NAME: Final = 1000
_PURGE_ROWS: Final = 50_000
_ACTIVE: Final = select(graphs).where(graphs.c.state == "active")


class GraphNotFound(LookupError):
    """There is no graph of this name or id, or it was deleted."""

    def __init__(self, graph: str) -> None:
        super().__init__(f"no graph {graph!r}; `peewit graph list` shows those there are")


class GraphExists(BadArgument):
    """Another graph has the name."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "name", f"must be new, got {name!r}, which another graph has; delete it first"
        )


class TooManyGraphs(ValueError):
    """There are as many graphs as there may be."""


class GraphConflict(BadArgument):
    """A setting that is fixed once a graph exists was to be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEvery:
    """When ingest publishes a snapshot before it runs out of files: after either amount.

    Attributes
    ----------
    edges : int, optional
        Edges read since the last snapshot; at least 1.
    seconds : float, optional
        Time since the last snapshot; more than 0.

    Raises
    ------
    ValueError
        Neither is given, or one breaks its rule.
    """

    edges: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.edges is None and self.seconds is None:
            raise BadArgument("snapshot_every", "must give edges, seconds or both, got neither")
        if self.edges is not None and self.edges < 1:
            raise BadArgument("snapshot_every.edges", f"must be at least 1, got {self.edges}")
        if self.seconds is not None and not 0 < self.seconds < float("inf"):
            raise BadArgument("snapshot_every.seconds", f"must be positive, got {self.seconds}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoSolve:
    """The solve that follows every new snapshot and every change of a label.

    Attributes
    ----------
    model : str
        Public name of a model; that it exists is checked where the request comes in.
    parameters : mapping
        The model's hyperparameters, JSON values; those left out take their defaults.

    Raises
    ------
    ValueError
        ``model`` is empty or ``parameters`` cannot be written as JSON.
    """

    model: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.model:
            raise BadArgument("auto_solve.model", "must name a model, got an empty string")
        try:
            object.__setattr__(self, "parameters", dict(self.parameters))
            json.dumps(self.parameters, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise BadArgument("auto_solve.parameters", f"must be JSON values: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSettings:
    """Settings of a graph, as people choose them.

    ``node_ids``, ``expected_nodes``, ``max_nodes`` and ``seed`` are fixed once the graph exists:
    the sparsifier has used them. The others can be changed and hold from the next block on.

    Attributes
    ----------
    name : str
        1 to 63 of a-z, 0-9, ``_`` and ``-``, the first a letter or digit; unique.
    node_ids : {"string", "int64", "dense"}
        Kind of the external node ids.
    epsilon : float
        Spectral accuracy asked for, in (0, 1).
    max_edges : int, optional
        Most edges that the sparsifier keeps; wins over ``epsilon``. A spanning forest is kept even
        so.
    expected_nodes : int
        Nodes to be ready for, at least 2; more may come.
    max_nodes : int
        Most nodes the graph may have, 2 to 2^31 - 2.
    seed : int, optional
        Of all random choices, 0 to 2^63 - 1; chosen when the graph is created unless given.
    keep_raw : bool
        Whether pushed blocks stay on disk once they are in the graph.
    deletions : {"off", "approximate", "exact"}
        Whether rows may delete edges: their records leave the sparsifier, and snapshots say the
        accuracy that is left. "exact", which is fixed once the graph exists, keeps a log of all
        edges, by which the accuracy asked is restored before a snapshot.
    parallel : {"sum", "replace"}
        What a further edge of a pair does: its weight is added, or takes the place of the others,
        which needs deletions.
    window : Window, optional
        Which edges live, by their time; all do without it. It needs exact deletions, or none at
        all, and is there from the first edge or never; ``length`` and ``allowed_ahead`` may change.
    snapshot_every : SnapshotEvery, optional
        Snapshots besides the one at the end of each run of files.
    auto_solve : AutoSolve, optional
        What to solve whenever snapshot or labels change.
    columns : mapping of str to str
        What columns of tables are called where nothing else is said: any of src, dst, weight, op,
        time, node and label. Those that are not named are called so themselves; op, what a row
        does, is looked for only where edges may be deleted, and time where a window needs it.

    Raises
    ------
    ValueError
        A field breaks its rule.
    """

    name: str
    node_ids: NodeKind = "string"
    epsilon: float = 0.7
    max_edges: int | None = None
    expected_nodes: int = 1_000_000
    max_nodes: int = 100_000_000
    seed: int | None = None
    keep_raw: bool = True
    deletions: Deletions = "off"
    parallel: Parallel = "sum"
    window: Window | None = None
    snapshot_every: SnapshotEvery | None = None
    auto_solve: AutoSolve | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns_of_edges(self) -> Mapping[str, str]:
        """``columns``, and those of operations and times, called op and time, where they count."""
        is_free = "op" not in self.columns.values()
        usual = {"op": "op"} if self.deletions != "off" and is_free else {}
        if self.window is not None and self.window.by == "time":
            usual |= {"time": "time", "time_unit": self.window.time_unit}
        return {**usual, **self.columns}

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadArgument(
                "name",
                "must be 1 to 63 of a-z, 0-9, '_' and '-' and start with a letter or digit, "
                f"got {self.name!r}",
            )
        if self.node_ids not in NODE_KINDS:
            raise BadArgument(
                "node_ids", f"must be one of {', '.join(NODE_KINDS)}, got {self.node_ids!r}"
            )
        if not 0 < self.epsilon < 1:
            raise BadArgument("epsilon", f"must lie in (0, 1), got {self.epsilon}")
        if self.max_edges is not None and not 1 <= self.max_edges < 2**63:
            raise BadArgument("max_edges", f"must be at least 1 or null, got {self.max_edges}")
        if not 2 <= self.expected_nodes <= MAX_NODES:
            raise BadArgument(
                "expected_nodes", f"must lie in 2 to {MAX_NODES}, got {self.expected_nodes}"
            )
        if not 2 <= self.max_nodes <= MAX_NODES:
            raise BadArgument("max_nodes", f"must lie in 2 to {MAX_NODES}, got {self.max_nodes}")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise BadArgument("seed", f"must lie in 0 to 2^63 - 1, got {self.seed}")
        for name, known in (("deletions", Deletions), ("parallel", Parallel)):
            if getattr(self, name) not in get_args(known):
                raise BadArgument(
                    name,
                    f"must be one of {', '.join(get_args(known))}, got {getattr(self, name)!r}",
                )
        if self.deletions == "off" and self.parallel == "replace":
            raise BadArgument("parallel", "must be 'sum' where deletions are off, got 'replace'")
        if self.window is not None:
            self.window.require_deletions(self.deletions)
        if "time" in self.columns and (self.window is None or self.window.by != "time"):
            raise BadArgument(
                "columns.time", "must be left out of a graph without a window by time"
            )
        if self.deletions == "off" and "op" in self.columns:
            raise BadArgument("columns.op", "must be left out where deletions are off")
        for name, column in self.columns.items():
            if name not in _TABLE_COLUMNS:
                raise BadArgument(
                    "columns", f"must name {', '.join(_TABLE_COLUMNS)} alone, got {name!r}"
                )
            if not column or len(column) > _MAX_COLUMN_NAME:
                raise BadArgument(
                    f"columns.{name}", f"must have 1 to {_MAX_COLUMN_NAME} characters"
                )
            if column in (other for key, other in self.columns.items() if key != name):
                raise BadArgument(f"columns.{name}", f"must be of its own, got {column!r} twice")


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
    """

    n_nodes: int = 0
    edges_seen: int = 0
    edges_kept: int = 0
    self_loops: int = 0
    epsilon_expected: float | None = None
    snapshot: int | None = None


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
    """Graphs by name and by id; deleted ones are not there."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        """The graph of a name; raises `GraphNotFound`."""
        with self._database.read() as connection:
            row = connection.execute(_ACTIVE.where(graphs.c.name == name)).one_or_none()
        if row is None:
            raise GraphNotFound(name)
        return _record(row)

    def get_by_id(self, graph_id: str) -> GraphRecord:
        """The graph of an id; raises `GraphNotFound`."""
        with self._database.read() as connection:
            return _record(find_graph(connection, graph_id))

    def list(self) -> Sequence[GraphRecord]:
        """All graphs, by name."""
        with self._database.read() as connection:
            return [_record(row) for row in connection.execute(_ACTIVE.order_by(graphs.c.name))]

    def update(
        self,
        graph_id: str,
        change: Callable[[GraphSettings], GraphSettings],
        *,
        request_solve: Callable[[Connection, str], object] | None = None,
    ) -> GraphRecord:
        """The graph with other settings.

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

        Raises
        ------
        GraphNotFound
            There is no such graph.
        GraphConflict
            The change touches a setting that is fixed.
        GraphExists
            Another graph has the new name.
        ValueError
            A setting breaks its rule.
        """
        with self._database.write() as connection:
            present = _record(lock_graph(connection, graph_id)).settings
            wanted = change(present)
            _require_same_fixed(present, wanted)
            statement = update(graphs).where(graphs.c.id == graph_id).values(**asdict(wanted))
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


def _require_same_fixed(present: GraphSettings, wanted: GraphSettings) -> None:
    for name in _FIXED:
        if getattr(present, name) != getattr(wanted, name):
            raise GraphConflict(
                name,
                f"is fixed at {getattr(present, name)!r} since the graph was created, "
                f"got {getattr(wanted, name)!r}; create another graph",
            )
    if "exact" in {present.deletions, wanted.deletions} and wanted.deletions != present.deletions:
        raise GraphConflict(
            "deletions",
            f"cannot become {wanted.deletions!r} where they were {present.deletions!r} since the "
            "graph was created: exact ones need a log of all edges; create another graph",
        )
    if wanted.deletions == "off" != present.deletions:
        raise GraphConflict("deletions", "must stay on where they were: edges may be gone already")
    if (wanted.window is None) != (present.window is None):
        raise GraphConflict("window", "is there from the first edge or never; create another graph")
    if wanted.window is not None and present.window is not None:
        for name in ("by", "width", "time_unit"):
            if getattr(wanted.window, name) != getattr(present.window, name):
                raise GraphConflict(
                    f"window.{name}",
                    f"is fixed at {getattr(present.window, name)!r} since the graph was created, "
                    f"got {getattr(wanted.window, name)!r}; create another graph",
                )


def _record(row: Row[Any]) -> GraphRecord:
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
