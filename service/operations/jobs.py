"""Jobs of the queue: seen and stopped."""

from typing import Annotated, Final

from peewit.service.catalog import GraphNotFound
from peewit.service.jobs.job import JobStatus, UnknownJob
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import Path, Query, operation
from peewit.service.operations.here import Here
from peewit.service.wire import jobs as wire
from peewit.service.wire.jobs import Job, JobList

ID_DOC: Final = "Its id; a command takes the end of it, too."
JobId = Annotated[str, Path(ID_DOC, flag="JOB")]


@operation(
    "GET /jobs",
    "read",
    "label",
    raises=(GraphNotFound, UnknownJob),
    client="jobs",
    items="jobs",
    is_paged=True,
)
def list_jobs(
    here: Here,
    graph: Annotated[
        str | None, Query("Only jobs of this graph.", flag="[GRAPH] --graph", metavar="NAME")
    ] = None,
    status: Annotated[
        JobStatus | None, Query("Only jobs that stand so.", given_as=wire.JobStatus | None)
    ] = None,
    kind: Annotated[str | None, Query("Only jobs that do this: solve, tune, certify ...")] = None,
    limit: Annotated[int, Query("Most jobs.", ge=1, le=1000, flag="-n")] = 50,
    page: Annotated[str | None, Query("The `next_page` of the page before.")] = None,
) -> JobList:
    """Jobs, newest first; a key that must not read sees its own."""
    listed = here.home.jobs.list(
        graph_id=None if graph is None else here.home.graph(graph).id,
        status=status,
        kind=kind,
        owner=here.only,
        limit=limit,
        page=page,
    )
    return JobList(jobs=[answer_of(Job, job) for job in listed.jobs], next_page=listed.next_page)


@operation("GET /jobs/{job_id}", "read", "label", raises=(UnknownJob,), client="job")
def get_job(here: Here, job_id: JobId) -> Job:
    """One job as it stands; a key that must not read sees its own."""
    return answer_of(Job, here.home.jobs.get(here.job_id(job_id), owner=here.only))


@operation(
    "POST /jobs/{job_id}:cancel",
    "label",
    raises=(UnknownJob,),
    client="cancel",
    status=200,
    follow=get_job,
)
def cancel_job(here: Here, job_id: JobId) -> Job:
    """Cancel a waiting job at once, ask a running one to stop, leave a finished one alone."""
    job = here.home.jobs.get(here.job_id(job_id), owner=here.only)
    return answer_of(Job, here.home.jobs.cancel(job.id))
