"""Database: its tables, and the one way to open it.

SQLAlchemy Core only, the same statements on SQLite (the default, one file) and PostgreSQL. What the
rows mean is said by the stores beside this module; the steps between versions are in `migrations`.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    create_engine,
    event,
    literal,
    make_url,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from peewit.service.database.migrations import upgrade

BUSY_TIMEOUT_SECONDS: Final = 30.0
"""How long a SQLite writer waits for another one, in any process."""

SERVE_LOCK: Final = "-serve"
"""End of the name, after that of the SQLite file, of what whoever serves it has locked."""

_NETWORK_FILE_SYSTEMS: Final = re.compile(
    r"nfs4?|cifs|smb[23]|smbfs|ncpfs|afs|davfs|ceph|lustre|beegfs|gpfs|glusterfs|pvfs2|orangefs"
    r"|ocfs2|gfs2|fuse\.(sshfs|glusterfs|ceph|ceph-fuse|s3fs|rclone|gcsfuse|blobfuse2|juicefs|davfs2)"
)
"""Where SQLite's locks and shared memory do not reach every machine."""


_MOUNT_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


class Timestamp(TypeDecorator[datetime]):
    """An aware UTC datetime: timestamptz on PostgreSQL, ISO 8601 milliseconds on SQLite."""

    impl = DateTime(timezone=True).with_variant(Text(), "sqlite")
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """The stored form; text of equal width, so that SQLite compares times by comparing text."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"times must carry a time zone, got {value!r}")
        if dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """The stored time in UTC."""
        del dialect  # what came tells its form
        if value is None:
            return None
        return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone(UTC)


class _ClockReading(FunctionElement[datetime]):
    """The database's clock plus a number of seconds."""

    type = Timestamp()
    name = "clock_reading"
    inherit_cache = True


@compiles(_ClockReading, "sqlite")
def _sqlite_clock(element: _ClockReading, compiler: SQLCompiler, **options: Any) -> str:
    (seconds,) = element.clauses
    shift = f"printf('%+.3f seconds', {compiler.process(seconds, **options)})"
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', 'now', {shift})"


@compiles(_ClockReading, "postgresql")
def _postgresql_clock(element: _ClockReading, compiler: SQLCompiler, **options: Any) -> str:
    (seconds,) = element.clauses
    return (
        f"(statement_timestamp() + make_interval(secs => {compiler.process(seconds, **options)}))"
    )


def now(plus_seconds: float = 0.0) -> ColumnElement[datetime]:
    """The database's clock when the statement starts, plus some seconds, as an SQL expression.

    Every time that two processes compare comes from here: their own clocks need not agree.
    """
    return _ClockReading(literal(float(plus_seconds), Float(53)))


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that knows ON CONFLICT, of the back end in use.

    Ask it for RETURNING to learn whether a row was written; row counts do not tell on psycopg.
    """
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_Json = JSON(none_as_null=True)
_RowNumber = BigInteger().with_variant(
    Integer(), "sqlite"
)  # only INTEGER counts up by itself on SQLite


def _time(name: str, *, nullable: bool = True) -> Column[datetime]:
    return Column(name, Timestamp(), nullable=nullable, default=None if nullable else now())


def _counter(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, default=0)


def _graph_id(*, primary_key: bool = False) -> Column[str]:
    return Column(
        "graph_id",
        Text,
        ForeignKey("graphs.id", ondelete="CASCADE"),
        nullable=False,
        primary_key=primary_key,
    )


graphs = Table(
    "graphs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("node_ids", Text, nullable=False),
    Column("epsilon", Float(53), nullable=False),
    Column("max_edges", BigInteger),
    Column("expected_nodes", BigInteger, nullable=False),
    Column("max_nodes", BigInteger, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("keep_raw", Boolean, nullable=False),
    Column("snapshot_every", _Json),
    Column("auto_solve", _Json),
    Column("state", Text, nullable=False, default="active"),
    _time("created_at", nullable=False),
    _time("deleted_at"),
    # Written by ingest.
    _counter("n_nodes"),
    _counter("edges_seen"),
    _counter("edges_kept"),
    _counter("self_loops"),
    Column("epsilon_expected", Float(53)),
    Column("snapshot", BigInteger),
    _counter("pushed_bytes"),  # of pushes that are not in the graph yet
    # The last number given to a file or push, a label event, a set of features.
    _counter("files_seq"),
    _counter("labels_seq"),
    _counter("features_version"),
    CheckConstraint("state IN ('active', 'deleted')", name="state"),
)
Index(
    "uq_graphs_active_name",
    graphs.c.name,
    unique=True,
    sqlite_where=graphs.c.state == "active",
    postgresql_where=graphs.c.state == "active",
)

sources = Table(
    "sources",
    metadata,
    Column("id", Text, primary_key=True),
    _graph_id(),
    Column("url", Text, nullable=False),
    Column("follow", Boolean, nullable=False),
    Column("confined_to", Text),
    _time("created_at", nullable=False),
    _time("removed_at"),
    # Written by ingest: the last listing that succeeded, and the failures since.
    _time("listed_at"),
    _time("error_at"),
    Column("error", Text),
    _counter("n_failures"),
    UniqueConstraint("graph_id", "url"),
)
pushes = Table(
    "pushes",
    metadata,
    Column("id", Text, primary_key=True),
    _graph_id(),
    Column("idempotency_key", Text),
    Column("body_digest", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("n_rows", BigInteger, nullable=False),
    Column("n_bytes", BigInteger, nullable=False),
    _time("created_at", nullable=False),
    _counter("position"),
    Column("file_id", BigInteger),  # no foreign key: files refer to pushes already
    Column("content", LargeBinary),
    Column("is_alone", Boolean, nullable=False, default=False),
    UniqueConstraint("graph_id", "idempotency_key"),
    Index(None, "graph_id", "file_id", "position"),
)

files = Table(
    "files",
    metadata,
    Column("id", _RowNumber, primary_key=True, autoincrement=True),
    _graph_id(),
    Column("position", BigInteger, nullable=False),
    Column("source_id", Text, ForeignKey("sources.id", ondelete="CASCADE"), index=True),
    Column("push_id", Text, ForeignKey("pushes.id", ondelete="CASCADE"), index=True),
    Column("path", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("digest", Text),
    Column("status", Text, nullable=False, default="pending"),
    Column("reason", Text),
    Column("row", BigInteger),
    Column("value", Text),
    Column("n_rows", BigInteger),
    Column("n_self_loops", BigInteger),
    _time("created_at", nullable=False),
    _time("finished_at"),
    UniqueConstraint("graph_id", "path", "version"),
    UniqueConstraint("graph_id", "position"),
    CheckConstraint(
        "status IN ('pending', 'committed', 'quarantined', 'duplicate')", name="status"
    ),
    Index(None, "graph_id", "status", "position"),
    Index(None, "graph_id", "digest"),
    sqlite_autoincrement=True,
)

feature_sets = Table(
    "feature_sets",
    metadata,
    Column("id", Text, primary_key=True),
    _graph_id(),
    Column("position", BigInteger, nullable=False),
    Column("mode", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("n_rows", BigInteger, nullable=False),
    Column("n_columns", BigInteger, nullable=False),
    Column("is_sparse", Boolean, nullable=False),
    Column("n_bytes", BigInteger, nullable=False),
    Column("status", Text, nullable=False, default="pending"),
    Column("features_version", BigInteger),
    Column("n_new_nodes", BigInteger),
    Column("reason", Text),
    Column("row", BigInteger),
    Column("value", Text),
    _time("created_at", nullable=False),
    _time("finished_at"),
    UniqueConstraint("graph_id", "position"),
    CheckConstraint("mode IN ('replace', 'add')", name="mode"),
    CheckConstraint("status IN ('pending', 'committed', 'refused')", name="status"),
    Index(None, "graph_id", "status", "position"),
)

ingest_points = Table(
    "ingest_points",
    metadata,
    _graph_id(primary_key=True),
    Column("at", Timestamp(), primary_key=True, default=now()),
    _counter("n_nodes"),
    _counter("edges_seen"),
    _counter("edges_kept"),
    _counter("n_records"),
    _counter("memory_bytes"),
)

label_events = Table(
    "label_events",
    metadata,
    _graph_id(primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("node", Text, nullable=False),
    Column("label", Text),
    _time("created_at", nullable=False),
    Index(None, "graph_id", "node", "seq"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    _graph_id(),
    Column("kind", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("priority", Integer, nullable=False, default=0),
    Column("model", Text),
    Column("parameters", _Json, nullable=False),
    Column("idempotency_key", Text),
    Column("coalesce_key", Text),
    Column("status", Text, nullable=False, default="queued"),
    Column("phase", Text),
    Column("progress", Float(53)),
    _time("expected_end_at"),
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("attempt", Integer, nullable=False, default=0),
    Column("max_attempts", Integer, nullable=False),
    Column("worker_id", Text),
    _time("lease_expires_at"),
    Column("snapshot", BigInteger),
    Column("labels_seq", BigInteger),
    Column("features_version", BigInteger),
    Column("result", _Json),
    Column("error", Text),
    _time("created_at", nullable=False),
    _time("started_at"),
    _time("finished_at"),
    UniqueConstraint("graph_id", "idempotency_key"),
    CheckConstraint("lane IN ('fast', 'heavy')", name="lane"),
    CheckConstraint(
        "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="status"
    ),
    Index(None, "status", "lane", "priority", "created_at"),
    Index(None, "graph_id", "kind", "status", "snapshot", "labels_seq", "finished_at"),
    Index(None, "graph_id", "created_at"),
)
_is_waiting = (jobs.c.status == "queued") & jobs.c.coalesce_key.is_not(None)
Index(
    "uq_jobs_queued_coalesce_key",
    jobs.c.graph_id,
    jobs.c.coalesce_key,
    unique=True,
    sqlite_where=_is_waiting,
    postgresql_where=_is_waiting,
)

job_events = Table(
    "job_events",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    _time("at", nullable=False),
    Column("kind", Text, nullable=False),
    Column("data", _Json),
)

workers = Table(
    "workers",
    metadata,
    Column("id", Text, primary_key=True),
    _time("started_at", nullable=False),
    _time("heartbeat_at", nullable=False),
    Column("lanes", _Json, nullable=False),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("expires_at", Timestamp(), nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("prefix", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("secret_sha256", Text, nullable=False),
    Column("scopes", _Json, nullable=False),
    _time("created_at", nullable=False),
    _time("revoked_at"),
    _time("last_used_at"),
)


class DatabaseNotOpened(OSError):
    """The SQLite file cannot be made, read or written where it is."""


class Database:
    """Connections to one database, for reading or for writing.

    Each context is one transaction: committed when the block ends, rolled back when it raises.
    Transactions that touch a graph and its rows lock the graph's row first.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._reader = engine.execution_options(
            sqlite_writes=False, postgresql_readonly=True, **_repeatable_read(engine)
        )
        self._writer = engine.execution_options(sqlite_writes=True)

    @property
    def is_sqlite(self) -> bool:
        """True for a SQLite file, False for PostgreSQL."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One moment of the database, for SELECT only; never waits for a writer."""
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that may write.

        On SQLite it is BEGIN IMMEDIATE: one writer at a time, in all processes, so that what is
        read inside still holds at the commit. On PostgreSQL it is READ COMMITTED: lock what must
        hold with ``select(...).with_for_update()``, which SQLite ignores.
        """
        with self._writer.begin() as connection:
            yield connection

    def joined(self, connection: Connection | None) -> AbstractContextManager[Connection]:
        """The caller's writing transaction, or one of its own when there is none."""
        return self.write() if connection is None else nullcontext(connection)

    def close(self) -> None:
        """Close the pooled connections."""
        self.engine.dispose()


def open_database(url: str | URL) -> Database:
    """A database of the present schema; created or migrated when need be.

    Parameters
    ----------
    url : str or sqlalchemy.URL
        ``sqlite:///<path>`` or ``postgresql://user:password@host/name``. Several processes may open
        the same fresh database at the same moment.

    Raises
    ------
    ValueError
        Another kind of database, SQLite in memory, or SQLite on a network file system.
    peewit.service.database.migrations.DatabaseVersionError
        A newer version of this program has migrated the database.
    DatabaseNotOpened
        No SQLite file can be made there, or what is there is none or cannot be written.
    """
    address = make_url(url)
    match address.get_backend_name():
        case "sqlite":
            engine = _sqlite_engine(address)
        case "postgresql":
            engine = create_engine(
                address.set(drivername="postgresql+psycopg"), pool_pre_ping=True, max_overflow=32
            )
        case other:
            raise ValueError(
                f"PEEWIT_DATABASE_URL must start with sqlite or postgresql, got {other}"
            )
    return _migrated(engine)


def open_private_database(path: Path) -> Database:
    """A SQLite file that this process alone uses, such as a backup's, on whatever file system.

    Created or migrated as by `open_database`, in one file without a log beside it.

    Raises
    ------
    peewit.service.database.migrations.DatabaseVersionError
        A newer version of this program has written the file.
    """
    engine = create_engine(URL.create("sqlite+pysqlite", database=str(path)))
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return _migrated(engine)


def _migrated(engine: Engine) -> Database:
    database = Database(engine)
    try:
        upgrade(database.read, database.write)
    except BaseException:
        database.close()
        raise
    return database


def _repeatable_read(engine: Engine) -> dict[str, str]:
    return {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}


def _sqlite_engine(url: URL) -> Engine:
    """An engine that controls SQLite's transactions itself; the file is in WAL mode."""
    if url.database in (None, "", ":memory:"):
        raise ValueError(
            "PEEWIT_DATABASE_URL must name a file that processes can share, got SQLite in memory"
        )
    path = Path(str(url.database)).absolute()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_opened(path, str(error)) from error
    refuse_network_file_system(path, Path("/proc/mounts"))
    engine = create_engine(url.set(drivername="sqlite+pysqlite"), max_overflow=32)
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    try:
        _switch_to_wal(engine)
    except sqlite3.Error as error:
        raise _not_opened(path, str(error)) from error
    return engine


def _not_opened(path: Path, reason: str) -> DatabaseNotOpened:
    return DatabaseNotOpened(
        f"the database {path} must be a SQLite file in a directory that takes files ({reason}); "
        "PEEWIT_HOME or PEEWIT_DATABASE_URL says where it is"
    )


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver emits no BEGIN of its own
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_SECONDS * 1000)}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")  # NORMAL does not fsync on commit


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") == "AUTOCOMMIT":
        return
    writes = options.get("sqlite_writes", False)
    connection.exec_driver_sql(f"PRAGMA query_only = {'OFF' if writes else 'ON'}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _switch_to_wal(engine: Engine) -> None:
    """Set WAL, which the file remembers; SQLite itself does not wait for other processes here."""
    deadline = monotonic() + BUSY_TIMEOUT_SECONDS
    connection = engine.raw_connection()
    try:
        while True:
            try:
                mode = connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()[0]
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or monotonic() > deadline:
                    raise
                sleep(0.01)
    finally:
        connection.close()
    if mode != "wal":
        raise ValueError(
            "SQLite must run in WAL mode, which the file system does not allow: "
            f"got {mode} for {engine.url.database}; "
            "put PEEWIT_HOME on a local disk or point PEEWIT_DATABASE_URL at PostgreSQL"
        )


def refuse_network_file_system(path: Path, mounts: Path) -> None:
    """Raise when a SQLite file would lie on a file system of several machines.

    Parameters
    ----------
    path : Path
        The database file; need not exist.
    mounts : Path
        A table of mounts in the form of Linux's ``/proc/mounts``; where there is none (other
        systems) nothing is refused.

    Raises
    ------
    ValueError
        The mount that holds ``path`` is of a type that several machines share.
    """
    try:
        table = mounts.read_text(errors="replace")
    except FileNotFoundError:
        return
    found = Path("/"), ""
    for line in table.splitlines():
        _, mount_point, kind = line.split(" ")[:3]
        point = Path(_MOUNT_ESCAPE.sub(lambda code: chr(int(code[1], 8)), mount_point))
        if path.resolve().is_relative_to(point) and len(point.parts) >= len(found[0].parts):
            found = point, kind
    if _NETWORK_FILE_SYSTEMS.fullmatch(found[1]):
        raise ValueError(
            f"SQLite must not lie on a network file system, got {path} on {found[0]} ({found[1]}); "
            "put it on a local disk or point PEEWIT_DATABASE_URL at PostgreSQL"
        )
