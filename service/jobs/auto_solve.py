"""Automatic solves: after every new label and snapshot, and after workers have died.

A graph with ``auto_solve`` ends with predictions that know its last label and its last snapshot,
once there are enough labels for a model: of two classes, or any real numbers. A job is given up
after some attempts, so that one that kills its worker does not do so for ever. To keep the promise
it is submitted again, at longer and longer intervals.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, func, select

from peewit.service.database.engine import Database
from peewit.service.database.present_labels import column_names, count_to_two
from peewit.service.database.tables import graphs, jobs
from peewit.service.database.timestamps import now
from peewit.service.jobs.job import LABEL_COLUMN, Job, JobSpec, JobStatus, lane_of
from peewit.service.jobs.queue import coalesce_key, submit_coalesced

FIRST_REST_SECONDS: Final = 10.0
"""A job that was given up is submitted again this long after its end; each time twice as long."""

LAST_REST_SECONDS: Final = 3600.0

_later = jobs.alias("later")
_is_given_up = (jobs.c.status == JobStatus.FAILED) & (jobs.c.attempt >= jobs.c.max_attempts)


def request_auto_solve(
    connection: Connection, graph_id: str, columns: Collection[str] | None = None
) -> list[Job]:
    """Submit the solves after a new snapshot or label, in the transaction that stores that.

    One job for each of the ``columns`` of labels, all by default; only for ``label_column`` where
    the settings of ``auto_solve`` name one. No job for a column with too few labels, and no job at
    all where the graph has no ``auto_solve`` or no snapshot, or is deleted. Workers look for jobs
    after every commit.

    Call it after the caller has written its own change to the row of the graph (the new
    ``snapshot`` or ``labels_seq``). The lock on that row orders the first snapshot and the first
    label, so that whoever comes second sees both.
    """
    row = connection.execute(select(graphs).where(graphs.c.id == graph_id)).one()
    specs = _specs(connection, row, columns)
    return [submit_coalesced(connection, spec) for spec in specs.values()]


def least_labels(parameters: Mapping[str, Any]) -> int:
    """Different labels that a solve needs at least: two classes, or one real number."""
    return 1 if parameters.get("target") == "real" else 2


def _specs(
    connection: Connection, graph: Row[Any], of_columns: Collection[str] | None
) -> dict[str, JobSpec]:
    """Jobs that the settings of a graph ask for, by column of labels; of some or of all."""
    if graph.auto_solve is None or graph.state != "active":
        return {}
    model, parameters = graph.auto_solve["model"], graph.auto_solve.get("parameters") or {}
    if graph.snapshot is None or graph.labels_seq == 0:
        return {}
    named = parameters.get(LABEL_COLUMN)
    columns = [named] if named else column_names(connection, graph.id)
    return {
        column: JobSpec(
            graph_id=graph.id,
            model=model,
            parameters=parameters | ({LABEL_COLUMN: column} if column else {}),
            lane=lane_of(model, parameters),
        )
        for column in columns
        if (of_columns is None or column in of_columns)
        and count_to_two(connection, graph.id, column) >= least_labels(parameters)
    }


def renew_given_up(database: Database) -> list[Job]:
    """Submit again each ``auto_solve`` whose last job used up its attempts; the new jobs.

    A job that fails by itself, as for want of memory, fails at its first attempt: only a change can
    help it. Any number of processes may call this at any time.
    """
    with database.read() as connection:
        rows = connection.execute(_given_up_jobs(FIRST_REST_SECONDS)).all()
    new_jobs = []
    for row in rows:
        with database.write() as connection:
            new_jobs += _renew(connection, row)
    return new_jobs


def _renew(connection: Connection, row: Row[Any]) -> list[Job]:
    """The next job; none where it is too early or its settings are no longer the graph's."""
    graph = connection.execute(
        select(graphs).where(graphs.c.id == row.graph_id).with_for_update()
    ).one_or_none()
    column = row.parameters.get(LABEL_COLUMN, "")
    spec = None if graph is None else _specs(connection, graph, [column]).get(column)
    if spec is None or coalesce_key(spec) != row.coalesce_key:
        return []
    is_equal = (jobs.c.graph_id == row.graph_id) & (jobs.c.coalesce_key == row.coalesce_key)
    last_success = select(func.max(jobs.c.id)).where(is_equal, jobs.c.status == JobStatus.SUCCEEDED)
    n_given_up = connection.execute(
        select(func.count())
        .where(is_equal, _is_given_up)
        .where(jobs.c.id > func.coalesce(last_success.scalar_subquery(), ""))
    ).scalar_one()
    rest = min(FIRST_REST_SECONDS * 2.0 ** (n_given_up - 1), LAST_REST_SECONDS)
    still = connection.execute(_given_up_jobs(rest).where(jobs.c.id == row.id)).one_or_none()
    return [] if still is None else request_auto_solve(connection, row.graph_id, [column])


@lru_cache  # asked every few seconds
def _given_up_jobs(seconds: float) -> Select[Any]:
    """Jobs that used up their attempts so long ago, and that no equal one has followed."""
    followed = (
        select(_later.c.id)
        .where(
            _later.c.graph_id == jobs.c.graph_id,
            _later.c.coalesce_key == jobs.c.coalesce_key,
            _later.c.id > jobs.c.id,
        )
        .exists()
    )
    return select(jobs).where(
        _is_given_up,
        jobs.c.coalesce_key.is_not(None),
        jobs.c.finished_at < now(-seconds),
        ~followed,
    )
