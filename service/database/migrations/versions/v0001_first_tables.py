"""The first tables.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TIMESTAMP = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Create them."""
    op.create_table(
        "graphs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("node_ids", sa.Text(), nullable=False),
        sa.Column("epsilon", sa.Float(precision=53), nullable=False),
        sa.Column("max_edges", sa.BigInteger(), nullable=True),
        sa.Column("expected_nodes", sa.BigInteger(), nullable=False),
        sa.Column("max_nodes", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("keep_raw", sa.Boolean(), nullable=False),
        sa.Column("snapshot_every", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("auto_solve", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.Column("deleted_at", _TIMESTAMP, nullable=True),
        sa.Column("n_nodes", sa.BigInteger(), nullable=False),
        sa.Column("edges_seen", sa.BigInteger(), nullable=False),
        sa.Column("edges_kept", sa.BigInteger(), nullable=False),
        sa.Column("self_loops", sa.BigInteger(), nullable=False),
        sa.Column("epsilon_expected", sa.Float(precision=53), nullable=True),
        sa.Column("snapshot", sa.BigInteger(), nullable=True),
        sa.Column("files_seq", sa.BigInteger(), nullable=False),
        sa.Column("labels_seq", sa.BigInteger(), nullable=False),
        sa.Column("features_version", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('active', 'deleted')", name=op.f("ck_graphs_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_graphs")),
    )
    op.create_index(
        "uq_graphs_active_name",
        "graphs",
        ["name"],
        unique=True,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )
    op.create_table(
        "keys",
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret_sha256", sa.Text(), nullable=False),
        sa.Column("scopes", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.Column("revoked_at", _TIMESTAMP, nullable=True),
        sa.Column("last_used_at", _TIMESTAMP, nullable=True),
        sa.PrimaryKeyConstraint("prefix", name=op.f("pk_keys")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", _TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("started_at", _TIMESTAMP, nullable=False),
        sa.Column("heartbeat_at", _TIMESTAMP, nullable=False),
        sa.Column("lanes", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("parameters", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("coalesce_key", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=True),
        sa.Column("progress", sa.Float(precision=53), nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("max_attempts", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", _TIMESTAMP, nullable=True),
        sa.Column("snapshot", sa.BigInteger(), nullable=True),
        sa.Column("labels_seq", sa.BigInteger(), nullable=True),
        sa.Column("features_version", sa.BigInteger(), nullable=True),
        sa.Column("result", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.Column("started_at", _TIMESTAMP, nullable=True),
        sa.Column("finished_at", _TIMESTAMP, nullable=True),
        sa.CheckConstraint("lane IN ('fast', 'heavy')", name=op.f("ck_jobs_lane")),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_jobs_status"),
        ),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], name=op.f("fk_jobs_graph_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint(
            "graph_id", "idempotency_key", name=op.f("uq_jobs_graph_id_idempotency_key")
        ),
    )
    op.create_index(
        op.f("ix_jobs_graph_id_created_at"), "jobs", ["graph_id", "created_at"], unique=False
    )
    op.create_index(
        op.f("ix_jobs_status_lane_priority_created_at"),
        "jobs",
        ["status", "lane", "priority", "created_at"],
        unique=False,
    )
    op.create_index(
        "uq_jobs_queued_coalesce_key",
        "jobs",
        ["graph_id", "coalesce_key"],
        unique=True,
        sqlite_where=sa.text("status = 'queued' AND coalesce_key IS NOT NULL"),
        postgresql_where=sa.text("status = 'queued' AND coalesce_key IS NOT NULL"),
    )
    op.create_table(
        "label_events",
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], name=op.f("fk_label_events_graph_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("graph_id", "seq", name=op.f("pk_label_events")),
    )
    op.create_index(
        op.f("ix_label_events_graph_id_node_seq"),
        "label_events",
        ["graph_id", "node", "seq"],
        unique=False,
    )
    op.create_table(
        "pushes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("body_digest", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("n_rows", sa.BigInteger(), nullable=False),
        sa.Column("n_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], name=op.f("fk_pushes_graph_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pushes")),
        sa.UniqueConstraint(
            "graph_id", "idempotency_key", name=op.f("uq_pushes_graph_id_idempotency_key")
        ),
    )
    op.create_table(
        "sources",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("follow", sa.Boolean(), nullable=False),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.Column("removed_at", _TIMESTAMP, nullable=True),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], name=op.f("fk_sources_graph_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sources")),
        sa.UniqueConstraint("graph_id", "url", name=op.f("uq_sources_graph_id_url")),
    )
    op.create_table(
        "files",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=True),
        sa.Column("push_id", sa.Text(), nullable=True),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("row", sa.BigInteger(), nullable=True),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("n_rows", sa.BigInteger(), nullable=True),
        sa.Column("n_self_loops", sa.BigInteger(), nullable=True),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.Column("finished_at", _TIMESTAMP, nullable=True),
        sa.CheckConstraint(
            "status IN ('pending', 'committed', 'quarantined', 'duplicate')",
            name=op.f("ck_files_status"),
        ),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], name=op.f("fk_files_graph_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["push_id"], ["pushes.id"], name=op.f("fk_files_push_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["sources.id"], name=op.f("fk_files_source_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
        sa.UniqueConstraint(
            "graph_id", "path", "version", name=op.f("uq_files_graph_id_path_version")
        ),
        sa.UniqueConstraint("graph_id", "position", name=op.f("uq_files_graph_id_position")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_files_graph_id_digest"), "files", ["graph_id", "digest"], unique=False)
    op.create_index(
        op.f("ix_files_graph_id_status_position"),
        "files",
        ["graph_id", "status", "position"],
        unique=False,
    )
    op.create_index(op.f("ix_files_push_id"), "files", ["push_id"], unique=False)
    op.create_index(op.f("ix_files_source_id"), "files", ["source_id"], unique=False)
    op.create_table(
        "job_events",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", _TIMESTAMP, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_job_events_job_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_job_events")),
    )
