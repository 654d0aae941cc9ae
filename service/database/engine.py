"""Database: the only way to open it.

SQLAlchemy Core only, the same statements on SQLite (the default, one file) and PostgreSQL.
"""

import re
import sqlite3
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url

from peewit.service.database.migrations import upgrade

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

BUSY_TIMEOUT_SECONDS: Final = 30.0
"""How long a SQLite writer waits for another one, in any process."""

SERVE_LOCK: Final = "-serve"
"""Suffix, to the name of the SQLite file, of the file that its server locks."""

_NETWORK_FILE_SYSTEMS: Final = re.compile(
    r"nfs4?|cifs|smb[23]|smbfs|ncpfs|afs|davfs|ceph|lustre|beegfs|gpfs|glusterfs|pvfs2|orangefs"
    r"|ocfs2|gfs2|fuse\.(sshfs|glusterfs|ceph|ceph-fuse|s3fs|rclone|gcsfuse|blobfuse2|juicefs|davfs2)"
)
"""Where SQLite's locks and shared memory do not reach every machine."""

_MOUNT_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def insert_into(connection: Connection, table: Table) -> "sqlite.Insert | postgresql.Insert":
    """An INSERT with ON CONFLICT, of the back end in use.

    Use RETURNING to learn whether a row was written; row counts do not tell on psycopg.
    """
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite  # noqa: PLC0415 - the other one is not needed

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - nor here

    return postgresql.insert(table)


class DatabaseNotOpened(OSError):
    """The SQLite file cannot be made, read or written where it is."""


class Database:
    """Connections to one database, for reading or for writing.

    Each context is one transaction: committed when the block ends, rolled back when it raises.
    Transactions that touch a graph and its rows lock the graph's row first.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        repeatable = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        self._reader = engine.execution_options(
            sqlite_writes=False, postgresql_readonly=True, **repeatable
        )
        self._writer = engine.execution_options(sqlite_writes=True)

    @property
    def is_sqlite(self) -> bool:
        """True for a SQLite file, False for PostgreSQL."""
        return self.engine.dialect.name == "sqlite"

    def read(self) -> AbstractContextManager[Connection]:
        """A snapshot of the database, for SELECT only; never waits for a writer."""
        return self._reader.begin()

    def write(self) -> AbstractContextManager[Connection]:
        """A transaction that may write.

        On SQLite it is BEGIN IMMEDIATE: one writer at a time, in all processes, so what is read
        inside still holds at the commit. On PostgreSQL it is READ COMMITTED: lock what must hold
        with ``select(...).with_for_update()``, which SQLite ignores.
        """
        return self._writer.begin()

    def joined(self, connection: Connection | None) -> AbstractContextManager[Connection]:
        """The caller's writing transaction, or a new one when there is none."""
        return self.write() if connection is None else nullcontext(connection)

    def forget_deleted(self) -> bool:
        """Overwrite what was deleted; False where an old snapshot is being read: try again then.

        On SQLite each delete overwrites, and the log is emptied here. PostgreSQL's vacuum removes
        dead rows.
        """
        if not self.is_sqlite:
            return True
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("PRAGMA query_only = OFF")
            is_busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        return not is_busy

    def close(self) -> None:
        """Close the pooled connections."""
        self.engine.dispose()


def open_database(url: str | URL) -> Database:
    """A database of the present schema; created or migrated if need be.

    ``url`` is ``sqlite:///<path>`` or ``postgresql://user:password@host/name``. Several processes
    may open the same fresh database at the same moment.

    Refused are other kinds of database, SQLite in memory or on a network file system, schemas of
    before the first release and newer ones.
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
    return _migrate(engine)


def open_private_database(path: Path) -> Database:
    """A SQLite file that this process alone uses, such as a backup's, on any file system.

    Created or migrated as by `open_database`, in one file without a log beside it. Raises
    `DatabaseVersionError` as that does.
    """
    engine = create_engine(URL.create("sqlite+pysqlite", database=str(path)))
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return _migrate(engine)


def _migrate(engine: Engine) -> Database:
    database = Database(engine)
    try:
        upgrade(database.read, database.write)
    except BaseException:
        database.close()
        raise
    return database


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
    connection.execute("PRAGMA secure_delete = ON")  # erased ids leave no trace in free pages


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
    """Raise a ValueError where a SQLite file would lie on a file system of several machines.

    ``path`` need not exist. ``mounts`` is a table like Linux's ``/proc/mounts``; where there is
    none (other systems) nothing is refused.
    """
    try:
        table = mounts.read_text(errors="replace")
    except FileNotFoundError:
        return
    mount = Path("/"), ""
    for line in table.splitlines():
        _, mount_point, kind = line.split(" ")[:3]
        point = Path(_MOUNT_ESCAPE.sub(lambda code: chr(int(code[1], 8)), mount_point))
        if path.resolve().is_relative_to(point) and len(point.parts) >= len(mount[0].parts):
            mount = point, kind
    if _NETWORK_FILE_SYSTEMS.fullmatch(mount[1]):
        raise ValueError(
            f"SQLite must not lie on a network file system, got {path} on {mount[0]} ({mount[1]}); "
            "put it on a local disk or point PEEWIT_DATABASE_URL at PostgreSQL"
        )
