"""Solves of several label columns by one call: a job for each, all on one snapshot.

Decision: a job for each column, which share what the warm child prepared on the snapshot.
Consequence: readers know one kind of predictions, and a column that fails harms no other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.jobs.job import LABEL_COLUMN, Job
from peewit.service.tables.uploads.label_columns import MAX_LABEL_COLUMNS
from peewit.service.tasks.solving.solve import SolveKind
from peewit.solvers.arguments import BadArgument


def submit_columns(
    home: Home,
    graph: GraphRecord,
    columns: Sequence[str],
    *,
    model: str,
    parameters: Mapping[str, Any],
    priority: int = 0,
    idempotency_key: str | None = None,
    owner: str | None = None,
) -> list[Job]:
    """A solve on the newest snapshot for each label column, in order; all are submitted or none.

    ``columns`` are 1 to `MAX_LABEL_COLUMNS` distinct names, empty for the unnamed column. The key
    of each job is ``idempotency_key``, a colon and the column. Other arguments are as of `JobSpec`.
    """
    _check_columns(columns, parameters)
    kind = SolveKind()
    specs = []
    for column in columns:
        spec = kind.spec(
            graph.id,
            model=model,
            parameters={**parameters, LABEL_COLUMN: column} if column else parameters,
            priority=priority,
            idempotency_key=None if idempotency_key is None else f"{idempotency_key}:{column}",
            owner=owner,
        )
        kind.check(model, spec.parameters)
        kind.admit(spec, graph, home)
        specs.append(replace(spec, snapshot=graph.progress.snapshot))
    with home.database.write() as connection:
        return [home.jobs.submit(spec, connection) for spec in specs]


def _check_columns(columns: Sequence[str], parameters: Mapping[str, Any]) -> None:
    if not 1 <= len(columns) <= MAX_LABEL_COLUMNS:
        rule = f"must be 1 to {MAX_LABEL_COLUMNS} names, got {len(columns)}"
        raise BadArgument("label_columns", rule)
    twice = next((name for place, name in enumerate(columns) if name in columns[:place]), None)
    if twice is not None:
        raise BadArgument("label_columns", f"must name each column once, got {twice!r} twice")
    if LABEL_COLUMN in parameters:
        raise BadArgument(
            LABEL_COLUMN, f"must be left out beside label_columns, got {parameters[LABEL_COLUMN]!r}"
        )
