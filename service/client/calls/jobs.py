"""Jobs of the queue: seen and stopped.

Written from `peewit.service.operations.jobs`; `make generate` writes it anew.
"""

from peewit.service.client.call_steps import Call, Flow, Request
from peewit.service.client.calls.common import get, pages, path, settled, until
from peewit.service.wire.jobs import Job, JobList, JobStatus


def jobs(
    graph: str | None = None, status: JobStatus | None = None, kind: str | None = None
) -> Flow[Job]:
    """Jobs, newest first; a key that must not read sees its own.

    Parameters
    ----------
    graph : str, optional
        Only jobs of this graph.
    status : JobStatus, optional
        Only jobs that stand so.
    kind : str, optional
        Only jobs that do this: solve, tune, certify ...

    Raises
    ------
    GraphNotFound
        There is no graph of this name or id, or it was deleted.
    JobNotFound
        No job has this id.
    """
    return pages(JobList, lambda page: page.jobs, "jobs", graph=graph, status=status, kind=kind)


def job(job_id: str, *, wait: float | None = 0.0) -> Call[Job]:
    """One job as it stands; a key that must not read sees its own.

    Parameters
    ----------
    job_id : str
        Its id; a command takes the end of it, too.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    JobNotFound
        No job has this id.
    """
    return (yield from until(Job, get("jobs", job_id), seconds=wait))


def cancel(job_id: str, *, wait: float | None = 0.0) -> Call[Job]:
    """Cancel a waiting job at once, ask a running one to stop, leave a finished one alone.

    Parameters
    ----------
    job_id : str
        Its id; a command takes the end of it, too.
    wait : float or None
        Longest wait for the end, in seconds; None for ever.

    Raises
    ------
    JobNotFound
        No job has this id.
    """
    request = Request(method="POST", path=path("jobs", job_id, verb="cancel"), is_repeatable=True)
    return (yield from settled(Job, request, lambda first: get("jobs", first.id), seconds=wait))
