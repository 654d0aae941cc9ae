"""Graphs may have no epsilon: they keep every edge while these are within a budget.

The graph keeps why edges that a raised budget wants could not be read again, and how many thinnings
failed. Models have lost the parameter ``bound``: it is taken out of what is to be solved.

Revision ID: 0024
"""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Present graphs keep what they asked for."""
    op.add_column("graphs", sa.Column("repair_fault", sa.Text()))
    op.add_column(
        "graphs",
        sa.Column("n_failed_embeddings", sa.BigInteger(), nullable=False, server_default="0"),
    )
    _forget_bound()
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("graphs", "epsilon", nullable=True)
        return
    # SQLite would make the table anew, on which all others depend
    op.add_column("graphs", sa.Column("epsilon_asked", sa.Float(53)))
    op.execute("UPDATE graphs SET epsilon_asked = epsilon")
    op.drop_column("graphs", "epsilon")
    op.execute("ALTER TABLE graphs RENAME COLUMN epsilon_asked TO epsilon")


def _forget_bound() -> None:
    """Take ``bound`` out of the parameters of automatic solves and unfinished jobs."""
    connection = op.get_bind()
    graphs = sa.table("graphs", sa.column("id"), sa.column("auto_solve", sa.JSON()))
    solves = connection.execute(
        sa.select(graphs.c.id, graphs.c.auto_solve).where(graphs.c.auto_solve.is_not(None))
    )
    for graph_id, solve in solves.all():
        parameters = (solve or {}).get("parameters") or {}
        if "bound" in parameters:
            values = {"auto_solve": {**solve, "parameters": _without_bound(parameters)}}
            connection.execute(sa.update(graphs).where(graphs.c.id == graph_id).values(values))
    jobs = sa.table(
        "jobs", sa.column("id"), sa.column("status"), sa.column("parameters", sa.JSON())
    )
    waiting = connection.execute(
        sa.select(jobs.c.id, jobs.c.parameters).where(jobs.c.status.in_(("queued", "running")))
    )
    for job_id, parameters in waiting.all():
        if "bound" in parameters:
            values = {"parameters": _without_bound(parameters)}
            connection.execute(sa.update(jobs).where(jobs.c.id == job_id).values(values))


def _without_bound(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != "bound"}
