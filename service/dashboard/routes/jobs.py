"""Jobs: the queue, one job, a form for a new one, and runs side by side."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller, CallerHere
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import back_to, form_of, is_piece, page, page_router, piece
from peewit.service.dashboard.routes.common import PAGE_ROWS, Seen
from peewit.service.jobs.job import LABEL_COLUMN, Job, JobStatus
from peewit.service.problems import InvalidArgument
from peewit.service.tasks.kind_list import KINDS
from peewit.solvers.models.catalogue import CATALOGUE, DEFAULT_MODEL

router = page_router()

_EVENTS_SHOWN = 200

PageId = Annotated[str | None, Query(alias="page", max_length=64)]
Status = Annotated[JobStatus | None, Query()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A solve that succeeded, with the figures that are compared."""

    job: Job
    accuracy: float | None
    seconds: float | None
    n_labels: int | None
    solver_status: str

    @classmethod
    def of(cls, job: Job) -> "Run":
        """The figures of a job's result."""
        result: Mapping[str, Any] = job.result or {}
        validated = (result.get("stats") or {}).get("cross_validation") or {}
        seconds = result.get("seconds")
        return cls(
            job=job,
            accuracy=validated.get("accuracy"),
            seconds=sum(seconds.values()) if isinstance(seconds, Mapping) else seconds,
            n_labels=result.get("n_labels"),
            solver_status=str(result.get("status", "")),
        )


@router.get("/jobs", dependencies=[viewing("read")])
def show_all_jobs(
    request: Request, home: HomeHere, status: Status = None, page_id: PageId = None, seen: Seen = ""
) -> Response:
    """The jobs of all graphs."""
    values = _listed(home, None, status, page_id)
    if is_piece(request):
        return piece(request, "jobs_table.html", seen=seen, **values)
    return page(request, "jobs.html", seen="", statuses=list(JobStatus), **values)


@router.get("/graphs/{graph}/jobs", dependencies=[viewing("read")])
def show_jobs(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    status: Status = None,
    page_id: PageId = None,
    seen: Seen = "",
) -> Response:
    """The jobs of one graph, runs that can be compared, and a form for a new one."""
    values = _listed(home, graph, status, page_id)
    if is_piece(request):
        return piece(request, "jobs_table.html", seen=seen, **values)
    return page(
        request,
        "graph_jobs.html",
        seen="",
        statuses=list(JobStatus),
        models=sorted(CATALOGUE),
        default_model=DEFAULT_MODEL,
        runs=_runs(graph, home),
        **values,
    )


@router.post("/graphs/{graph}/jobs", dependencies=[viewing("label")])
async def submit(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Have labels predicted."""
    form = await form_of(request)
    model = form.get("model", DEFAULT_MODEL)
    parameters = _parameters(form.get("parameters", ""))
    if column := form.get("label_column", ""):
        parameters[LABEL_COLUMN] = column
    folds = form.get("folds", "")
    if folds:
        parameters["cross_validate"] = value_of(folds)
    job = await run_in_threadpool(submit_solve, graph, home, caller, model, parameters)
    if is_piece(request):
        return Response(status_code=HTTPStatus.NO_CONTENT)
    if form.get("back") == "job":
        return back_to(f"/jobs/{job.id}")
    return back_to(f"/graphs/{graph.settings.name}/{form.get('back') or 'jobs'}", job=job.id)


@router.get("/jobs/{job_id}", dependencies=[viewing("read")])
def show_job(request: Request, job_id: str, home: HomeHere, seen: Seen = "") -> Response:
    """One job and what has happened to it."""
    job = home.jobs.get(job_id)
    values: dict[str, Any] = {
        "job": job,
        "graph": home.catalog.get_by_id(job.graph_id),
        "run": Run.of(job),
        "events": home.jobs.events(job_id, limit=_EVENTS_SHOWN),
    }
    if is_piece(request):
        return piece(request, "job_live.html", seen=seen, **values)
    return page(request, "job.html", seen="", **values)


@router.post("/jobs/{job_id}/cancel", dependencies=[viewing("label")])
async def cancel(request: Request, job_id: str, home: HomeHere, caller: CallerHere) -> Response:
    """Cancel a job."""
    form = await form_of(request)
    job = await run_in_threadpool(partial(home.jobs.get, job_id, owner=caller.only))
    graph = await run_in_threadpool(home.catalog.get_by_id, job.graph_id)
    await run_in_threadpool(home.jobs.cancel, job_id)
    if form.get("back") == "graph":
        return back_to(f"/graphs/{graph.settings.name}/jobs")
    return back_to(f"/jobs/{job_id}")


def _listed(
    home: ServedHome, graph: GraphRecord | None, status: JobStatus | None, page_id: str | None
) -> dict[str, Any]:
    """A page of the jobs of one graph, or of all."""
    graph_id = None if graph is None else graph.id
    listed = home.jobs.list(graph_id=graph_id, status=status, limit=PAGE_ROWS, page=page_id)
    if graph is None:
        names = {each.id: each.settings.name for each in home.catalog.list()}
    else:
        names = {graph.id: graph.settings.name}
    return {
        "jobs": listed.jobs,
        "next_page": listed.next_page,
        "names": names,
        "status": status,
        "graph": graph,
        "page_id": page_id,
    }


def submit_solve(
    graph: GraphRecord, home: ServedHome, caller: Caller, model: str, parameters: dict[str, Any]
) -> Job:
    """The submitted solve; raises what the API's route does."""
    kind = KINDS["solve"]
    with refusing():
        kind.check(model, parameters)
    spec = kind.spec(graph.id, model=model, parameters=parameters, owner=caller.name)
    kind.admit(spec, graph, home)
    return home.jobs.submit_coalesced(spec)


def _runs(graph: GraphRecord, home: ServedHome) -> list[Run]:
    """Recent solves that succeeded."""
    listed = home.jobs.list(graph_id=graph.id, status=JobStatus.SUCCEEDED, limit=PAGE_ROWS)
    return [Run.of(job) for job in listed.jobs if job.kind == "solve"]


def _parameters(text: str) -> dict[str, Any]:
    """Parameters of ``name=value`` lines; values are JSON where they can be, else text."""
    parameters: dict[str, Any] = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals):
            raise InvalidArgument(f"parameters must be lines of name=value, got {line!r}")
        parameters[name] = value_of(value)
    return parameters


def value_of(text: str) -> Any:
    """A typed parameter: JSON where it can be, else text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
