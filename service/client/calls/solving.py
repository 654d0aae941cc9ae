"""Jobs of each kind: submit, wait, and a solve in one call."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import uuid4

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import get, path, read, until
from peewit.service.client.calls.prediction_tables import predictions
from peewit.service.client.calls.submissions import submit_solve_columns
from peewit.service.client.errors import JobCancelled, JobFailed, StillWaiting
from peewit.service.client.further_answers import Predictions
from peewit.service.wire.jobs import Estimate, Job
from peewit.service.wire.solve_lines import warning_text

DEFAULT_MODEL: Final = "auto"
"""Needs no parameter and no class sizes; `peewit solve` takes it, too."""


def submit_solve(
    graph: str,
    model: str = DEFAULT_MODEL,
    parameters: Mapping[str, Any] | None = None,
    *,
    priority: int = 0,
    key: str | None = None,
) -> Call[Job]:
    """Have labels predicted; the job is durable before this returns.

    Parameters
    ----------
    graph : str
        Its name.
    model : str
        See `models`.
    parameters : mapping, optional
        Hyperparameters of the model and options of the job; those left out take their defaults.
    priority : int
        Higher runs earlier, -100 to 100; of one priority the oldest comes first.
    key : str, optional
        Names the job: one that is submitted again with its key is the first one. Made up when left
        out, so that a job whose answer was lost is not run twice.

    Returns
    -------
    Job
        Queued, or as it stands if it was submitted before.

    Raises
    ------
    DoesNotFit
        The server has no memory for it.
    InvalidArgument
        There is no such model, or a parameter breaks a rule.
    """
    return (yield from _submit("solve", graph, model, parameters, priority, key))


def submit_tune(
    graph: str,
    model: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    priority: int = 0,
    key: str | None = None,
) -> Call[Job]:
    """Have hyperparameters chosen by cross-validation over the labels.

    Parameters
    ----------
    graph, model : str
        Their names.
    parameters : mapping, optional
        ``grid`` (lists of values by hyperparameter), ``folds``, and hyperparameters that stay.
    priority, key
        As in `submit_solve`.
    """
    return (yield from _submit("tune", graph, model, parameters, priority, key))


class _Submit(Protocol):
    def __call__(
        self,
        graph: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        priority: int = 0,
        key: str | None = None,
    ) -> Call[Job]: ...


def _submitter(kind: str, what: str, parameters: str) -> _Submit:
    """The call that submits a job of a kind without a model."""

    def submit(
        graph: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        priority: int = 0,
        key: str | None = None,
    ) -> Call[Job]:
        return (yield from _submit(kind, graph, None, parameters, priority, key))

    submit.__name__ = submit.__qualname__ = f"submit_{kind}"
    submit.__doc__ = f"""{what}

    Parameters
    ----------
    graph : str
        Its name.
    parameters : mapping, optional
        {parameters}
    priority, key
        As in `submit_solve`.
    """
    return submit


submit_certify = _submitter(
    "certify",
    "Have the spectral error of a snapshot measured against its raw edges.",
    "``snapshot``, ``passes``, ``n_vectors``, ``gap``, ``probability``, ``seed``.",
)
submit_knn = _submitter(
    "knn",
    "Have edges to nearest neighbors made from the features of the nodes, which must have some.",
    "``k``, ``weights``, ``symmetrize``, ``metric``, ``width``, ``method``, ``n_probes``.",
)
submit_embed = _submitter(
    "embed",
    "Have the nodes of the newest snapshot located, as `suggestions` asks for by itself.",
    "There are none.",
)
submit_map = _submitter(
    "map",
    "Have the nodes of the newest snapshot drawn; `map` tells of it, `map_tile` has its parts.",
    "There are none.",
)
submit_filter = _submitter(
    "filter",
    "Have the features of all nodes smoothed along the edges; `filtered_features` reads them.",
    "``teleport``, the part of the result that is a node's own.",
)


def estimate(
    graph: str, model: str = DEFAULT_MODEL, parameters: Mapping[str, Any] | None = None
) -> Call[Estimate]:
    """Memory and time of such a solve, and whether it fits; nothing runs."""
    request = Request(
        method="POST",
        path=path("graphs", graph, "jobs", verb="estimate"),
        json={"model": model, "parameters": dict(parameters or {})},
        is_repeatable=True,
    )
    return (yield from read(Estimate, request))


def wait(
    job: Job | str, *, timeout: float | None = None, progress: Callable[[Job], None] | None = None
) -> Call[Job]:
    """A job once it has succeeded.

    Parameters
    ----------
    job : Job or str
        The job or its id.
    timeout : float, optional
        Seconds to wait; for ever when left out.
    progress : callable, optional
        Is shown the job whenever it has moved on, at most about once a second.

    Returns
    -------
    Job

    Raises
    ------
    JobFailed, JobCancelled
        It ended otherwise; ``error.job`` is how.
    StillWaiting
        Time is over; the job goes on.
    """
    job_id = job if isinstance(job, str) else job.id
    request = get("jobs", job_id)
    ended = yield from until(Job, request, seconds=timeout, progress=progress)
    if not ended.is_final:
        raise StillWaiting(f"job {job_id}", timeout or 0.0)
    if ended.status == "cancelled":
        raise JobCancelled(ended)
    if ended.status == "failed":
        raise JobFailed(ended)
    return ended


def solve(
    graph: str,
    model: str = DEFAULT_MODEL,
    parameters: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,
    progress: Callable[[Job], None] | None = None,
) -> Call[Predictions]:
    """Submit a solve, wait for it, and read what it predicts.

    Parameters
    ----------
    graph, model, parameters
        As in `submit_solve`.
    timeout, progress
        As in `wait`.

    Raises
    ------
    JobFailed, JobCancelled, StillWaiting
        As in `wait`.

    Warns
    -----
    UserWarning
        What makes the answer doubtful.
    """
    submitted = yield from submit_solve(graph, model, parameters)
    return (yield from _solved(graph, submitted, timeout, progress))


def solve_columns(
    graph: str,
    label_columns: Sequence[str],
    model: str = DEFAULT_MODEL,
    parameters: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,
    progress: Callable[[Job], None] | None = None,
) -> Call[dict[str, Predictions]]:
    """Submit solves of several columns of labels, wait for them, and read what they predict.

    Parameters
    ----------
    graph, label_columns, model, parameters
        As in `submit_solve_columns`.
    timeout, progress
        As in `wait`; of each job.

    Returns
    -------
    dict
        Predictions by the name of their column.

    Raises
    ------
    JobFailed, JobCancelled, StillWaiting
        As in `wait`.

    Warns
    -----
    UserWarning
        What makes the answer for a column doubtful.
    """
    submitted = yield from submit_solve_columns(graph, label_columns, model, parameters)
    results = {}
    for column, each in zip(label_columns, submitted, strict=True):
        results[column] = yield from _solved(graph, each, timeout, progress)
    return results


def _solved(
    graph: str, submitted: Job, timeout: float | None, progress: Callable[[Job], None] | None
) -> Call[Predictions]:
    ended = yield from wait(submitted, timeout=timeout, progress=progress)
    column = ended.parameters.get("label_column") or ""
    if warning := warning_text(ended.result or {}, label_column=column, door="python"):
        warnings.warn(f"job {ended.id} of {graph}: {warning}", stacklevel=2)
    return (yield from predictions(graph, job=ended.id))


def _submit(
    kind: str,
    graph: str,
    model: str | None,
    parameters: Mapping[str, Any] | None,
    priority: int,
    key: str | None,
) -> Call[Job]:
    named = {} if model is None else {"model": model}
    body = {} if parameters is None else {"parameters": dict(parameters)}
    request = Request(
        method="POST",
        path=path("graphs", graph, "jobs"),
        headers={"Idempotency-Key": key or uuid4().hex},
        json={"kind": kind, **named, **body, "priority": priority},
        is_repeatable=True,
    )
    return (yield from read(Job, request))
