"""Jobs asked for, and what a solve would take.

Written from `peewit.service.operations.submissions`; `make generate` writes it anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import path, read
from peewit.service.wire.jobs import Job, JobList


def submit_solve_columns(
    graph: str,
    label_columns: Sequence[str],
    model: str = "auto",
    parameters: Mapping[str, Any] | None = None,
    priority: int = 0,
    key: str | None = None,
) -> Call[list[Job]]:
    """Submit a solve for each of several label columns, all of them or none.

    All work on the snapshot that is newest now, and share what is prepared on it.

    Parameters
    ----------
    graph : str
        Its name.
    label_columns : Sequence[str]
        Their names, each once; empty for the labels without a column's name.
    model : str, optional
        Its public name.
    parameters : Mapping[str, Any], optional
        Hyperparameters of the model and options of the jobs; those left out take their
        defaults.
    priority : int, optional
        Higher runs earlier, then older.
    key : str, optional
        A repeated call with this key is the first one.

    Raises
    ------
    NotFound
        No label was ever given in the column. Or: No snapshot of that number is kept. Or: No
        version of this number is kept.
    Conflict
        The Idempotency-Key was used before on this graph, for another request.
    DoesNotFit
        A job needs more memory than there is; the message says what would do.
    """
    request = Request(
        method="POST",
        path=path("graphs", graph, "jobs", verb="solve"),
        headers={"Idempotency-Key": key or uuid4().hex},
        json={
            "label_columns": list(label_columns),
            "model": model,
            "parameters": None if parameters is None else dict(parameters),
            "priority": priority,
        },
        is_repeatable=True,
    )
    return (yield from read(JobList, request)).jobs
