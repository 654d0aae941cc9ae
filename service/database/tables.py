"""The tables of the database.

The stores that write rows say what they mean; `migrations` holds the steps between versions of
these declarations.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import (
    DDL,
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Dialect,
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
    event,
    false,
)

from peewit.service.database.timestamps import Timestamp, now
from peewit.streaming.left_out import NO_ROWS, LeftOut

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


class _LeftOut(TypeDecorator[LeftOut]):
    """Rows without an edge as JSON, by reason."""

    impl = _Json
    cache_ok = True

    def process_bind_param(self, value: LeftOut | dict[str, int] | None, dialect: Dialect) -> Any:
        """The stored form; records come as `asdict` gives them."""
        del dialect
        return asdict(value) if isinstance(value, LeftOut) else value

    def process_result_value(self, value: Any, dialect: Dialect) -> LeftOut | None:
        """The rows, none of reasons that are not stored."""
        del dialect
        return None if value is None else LeftOut(**value)


_RowNumber = BigInteger().with_variant(
    Integer(), "sqlite"
)  # only INTEGER counts up by itself on SQLite


def _time(name: str, *, nullable: bool = True) -> Column[datetime]:
    return Column(name, Timestamp(), nullable=nullable, default=None if nullable else now())


def _counter(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, default=0)


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, default=False, server_default=false())


def _owner() -> Column[str]:
    """Prefix of the key that made it; no foreign key: keys are forgotten when a machine opens."""
    return Column("owner", Text)


def _graph_id(*, primary_key: bool = False) -> Column[str]:
    return Column(
        "graph_id",
        Text,
        ForeignKey("graphs.id", ondelete="CASCADE"),
        nullable=False,
        primary_key=primary_key,
    )


def _unique_among(rows: str, name: str, table: Table, *columns: str) -> None:
    """A unique index of some rows only, made with its table.

    As SQL that both databases read: an `Index` with ``postgresql_where`` loads that dialect, which
    costs each command .07 seconds.
    """
    _index_of_some(rows, name, table, *columns, kind="UNIQUE INDEX")


def _index_of_some(rows: str, name: str, table: Table, *columns: str, kind: str = "INDEX") -> None:
    """An index of some rows only, made with its table."""
    index = f"CREATE {kind} {name} ON {table.name} ({', '.join(columns)}) WHERE {rows}"
    event.listen(table, "after_create", DDL(index))  # type: ignore[no-untyped-call]


graphs = Table(
    "graphs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("node_ids", Text, nullable=False),
    Column("epsilon", Float(53)),
    Column("max_edges", BigInteger),
    Column("expected_nodes", BigInteger, nullable=False),
    Column("max_nodes", BigInteger, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("keep_raw", Boolean, nullable=False),
    Column("deletions", Text, nullable=False, server_default="off"),
    Column("parallel", Text, nullable=False, server_default="sum"),
    Column("window", _Json),
    Column("snapshot_every", _Json),
    Column("auto_solve", _Json),
    Column("answers", _Json),
    Column("directed", _Json),
    Column("columns", _Json),
    Column("state", Text, nullable=False, default="active"),
    _time("created_at", nullable=False),
    _time("deleted_at"),
    # Written by ingest.
    _counter("n_nodes"),
    _counter("edges_seen"),
    _counter("edges_kept"),
    Column("left_out", _LeftOut(), nullable=False, default=NO_ROWS),
    Column("epsilon_expected", Float(53)),
    Column("snapshot", BigInteger),
    Column("n_failed_embeddings", BigInteger, nullable=False, default=0, server_default="0"),
    Column("at_rest", Text),  # digest of settings and files after a pass that left nothing to do
    _counter("pushed_bytes"),  # of pushes that are not in the graph yet
    # The last number given to a file or push, a label event, a set of features.
    _counter("files_seq"),
    _counter("labels_seq"),
    _counter("features_version"),
    Column("erasures_seq", BigInteger, nullable=False, default=0, server_default="0"),
    Column("repair_wanted", Text),  # "due" or "all", until ingest has made it
    Column("repair_fault", Text),  # why ingest could not make it
    Column("horizon_wanted", Float(53)),  # seconds since 1970, until ingest has reached it
    Column("arrivals_fault", Text),  # why files wait whose arrival a wrong clock may have stamped
    _time("clock_right_at"),  # when somebody said last that the clock is right
    CheckConstraint("state IN ('active', 'deleted')", name="state"),
)
_unique_among("state = 'active'", "uq_graphs_active_name", graphs, "name")

sources = Table(
    "sources",
    metadata,
    Column("id", Text, primary_key=True),
    _graph_id(),
    Column("url", Text, nullable=False),
    Column("kind", Text, nullable=False, default="files", server_default="files"),
    Column("holds", Text, nullable=False, default="edges", server_default="edges"),
    Column("label_column", Text),
    Column("follow", Boolean, nullable=False),
    Column("confined_to", Text),
    Column("columns", _Json),
    _counter("max_bad_rows"),
    _flag("replaces"),
    _flag("again"),
    _time("created_at", nullable=False),
    _time("removed_at"),
    # Written by ingest: the last listing that succeeded, and the failures since.
    _time("listed_at"),
    _time("error_at"),
    Column("error", Text),
    _counter("n_failures"),
    # Of a live source, written with what was read: up to where, how often, what is left.
    Column("position", _Json),
    Column("n_reads", BigInteger, nullable=False, default=0, server_default="0"),
    Column("n_refused", BigInteger, nullable=False, default=0, server_default="0"),
    Column("lag", BigInteger),
    UniqueConstraint("graph_id", "url"),
)

refusals = Table(
    "refusals",
    metadata,
    Column("id", _RowNumber, primary_key=True, autoincrement=True),
    _graph_id(),
    Column("source_id", Text, ForeignKey("sources.id", ondelete="CASCADE"), nullable=False),
    Column("place", Text, nullable=False),
    Column("reason", Text, nullable=False),
    _time("created_at", nullable=False),
    Index(None, "graph_id"),
    Index(None, "source_id", "id"),
)
pushes = Table(
    "pushes",
    metadata,
    Column("id", Text, primary_key=True),
    _graph_id(),
    Column("idempotency_key", Text),
    Column("body_digest", Text, nullable=False),
    Column("file_digest", Text),
    Column("path", Text, nullable=False),
    Column("n_rows", BigInteger, nullable=False),
    Column("n_bytes", BigInteger, nullable=False),
    _counter("n_bad_rows"),
    _time("created_at", nullable=False),
    _counter("position"),
    Column("file_id", BigInteger),  # no foreign key: files refer to pushes already
    Column("content", LargeBinary),
    Column("is_alone", Boolean, nullable=False, default=False),
    _owner(),
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
    Column("left_out", _LeftOut()),
    Column("n_bad_rows", BigInteger),
    Column("retractable", Text),
    _flag("inserts_only"),
    _time("created_at", nullable=False),
    _time("finished_at"),
    UniqueConstraint("graph_id", "path", "version"),
    UniqueConstraint("graph_id", "position"),
    CheckConstraint(
        "status IN ('pending', 'committed', 'quarantined', 'duplicate', 'retracting', 'retracted')",
        name="status",
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
    Column("note", Text),
    Column("n_bytes", BigInteger, nullable=False),
    Column("status", Text, nullable=False, default="pending"),
    Column("features_version", BigInteger),
    Column("n_new_nodes", BigInteger),
    Column("reason", Text),
    Column("argument", Text),
    Column("row", BigInteger),
    Column("value", Text),
    _time("created_at", nullable=False),
    _time("finished_at"),
    _owner(),
    Column("source_id", Text),
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
    # Where a node may have several labels; empty for the one without a name.
    Column("column_name", Text, primary_key=True, default="", server_default=""),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("node", Text, nullable=False),
    Column("label", Text),
    _time("created_at", nullable=False),
    Column("origin", Text, nullable=False, default="given", server_default="given"),
    Column("annotator", Text),
    Column("key", Text),  # name of the key that signed with the annotator's name
    _flag("by_majority"),
    _flag("is_superseded"),  # a later event is about the same node
    Index(None, "graph_id", "column_name", "node", "seq"),
    Index(None, "graph_id", "column_name", "label", "is_superseded"),
)
_index_of_some(
    "annotator IS NOT NULL AND origin <> 'imported'",
    *("ix_label_events_of_people", label_events, "graph_id", "column_name", "seq"),
)

opinions = Table(
    "opinions",
    metadata,
    _graph_id(primary_key=True),
    Column("column_name", Text, primary_key=True, default="", server_default=""),
    Column("node", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("annotator", Text),
    Column("key", Text),
    Column("label", Text, nullable=False),
    # The label event that the first opinion is, or the last one when another was given.
    Column("seq", BigInteger, nullable=False),
    _flag("is_first"),
    _time("created_at", nullable=False),
    _time("withdrawn_at"),
)
_unique_among(
    "withdrawn_at IS NULL",
    *("uq_opinions_annotator", opinions, "graph_id", "column_name", "node", "annotator"),
)

reservations = Table(
    "reservations",
    metadata,
    _graph_id(primary_key=True),
    Column("column_name", Text, primary_key=True, default="", server_default=""),
    Column("node", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("strategy", Text, nullable=False),
    Column("expires_at", Timestamp(), nullable=False),
)

erasures = Table(
    "erasures",
    metadata,
    Column("id", Text, primary_key=True),
    _graph_id(),
    _counter("position"),
    Column("status", Text, nullable=False, default="hidden"),
    _counter("n_nodes"),
    _counter("n_known"),
    _time("created_at", nullable=False),
    _time("erase_by", nullable=False),
    _time("struck_at"),
    _time("erased_at"),
    Column("snapshot", BigInteger),
    Column("sources", _Json),
    _owner(),
    CheckConstraint("status IN ('hidden', 'erased')", name="status"),
    Index(None, "graph_id", "status"),
)

erased_nodes = Table(
    "erased_nodes",
    metadata,
    Column("erasure_id", Text, ForeignKey("erasures.id", ondelete="CASCADE"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    _graph_id(),
    # Both only until the files are overwritten.
    Column("node", Text, nullable=False),
    Column("dense", BigInteger),
    Index(None, "graph_id"),
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
    _owner(),
    Column("traceparent", Text),
    _flag("after_ingest"),
    UniqueConstraint("graph_id", "idempotency_key"),
    CheckConstraint("lane IN ('fast', 'heavy')", name="lane"),
    CheckConstraint(
        "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')", name="status"
    ),
    Index(None, "status", "lane", "priority", "created_at"),
    Index(None, "graph_id", "kind", "status", "snapshot", "labels_seq", "finished_at"),
    Index(None, "graph_id", "created_at"),
)
_unique_among(
    "status = 'queued' AND coalesce_key IS NOT NULL",
    *("uq_jobs_queued_coalesce_key", jobs, "graph_id", "coalesce_key"),
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

ingest_steps = Table(
    "ingest_steps",
    metadata,
    Column("process", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    # No foreign keys: rows say what is done at the moment, and stay for seconds.
    Column("graph_id", Text),
    Column("source_id", Text),
    Column("step", Text, nullable=False),
    Column("file", Text),
    Column("step_seconds", Float(53), nullable=False),
    Column("quiet_seconds", Float(53), nullable=False),
    _time("seen_at", nullable=False),
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
