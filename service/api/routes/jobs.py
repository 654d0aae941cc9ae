"""Jobs: submit, watch, cancel."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

import orjson
import structlog
from fastapi import Depends, Header, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from peewit.service.api.auth import CallerHere, requires
from peewit.service.api.draining import stopping_of
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.query_parameters import (
    MAX_ID,
    ONE_GRAPH,
    IdempotencyKey,
    PageSize,
    resource,
)
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.jobs import JobIn, SolveColumnsIn, SolveIn, job_of
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.api.streams import streams_of
from peewit.service.catalog import GraphNotFound
from peewit.service.jobs.job import IdempotencyConflict, JobEvent, JobStatus, UnknownJob
from peewit.service.labels.store import LabelColumnNotFound
from peewit.service.operations.answers import answer_of
from peewit.service.problems import InvalidArgument
from peewit.service.tasks.estimate import DoesNotFit, Estimator, NoSnapshot
from peewit.service.tasks.kind_list import KINDS
from peewit.service.tasks.knn import ConnectedBefore, NoFeatures
from peewit.service.tasks.solve_columns import submit_columns
from peewit.service.wire.jobs import Estimate, Job, JobList
from peewit.streaming.features.store import FeaturesNotFound
from peewit.streaming.passes.raw_edge_passes import RawEdgesMovedOn
from peewit.streaming.snapshots.store import SnapshotNotFound

router = resource("jobs", "/v1")

_log = structlog.get_logger(__name__)

_EVENT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "event": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["id", "event", "data"],
}
_EVENT_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events until the job is finished.",
        "content": {"text/event-stream": {"itemSchema": _EVENT}},
    }
}
_EVENTS_PAUSE_SECONDS = 0.25

_OF_SOLVES = (
    GraphNotFound,
    LabelColumnNotFound,
    SnapshotNotFound,
    FeaturesNotFound,
    InvalidArgument,
)


@router.post(
    ONE_GRAPH.removeprefix("/v1") + "/jobs",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[requires("label")],
    responses=problems(
        *_OF_SOLVES,
        IdempotencyConflict,
        DoesNotFit,
        NoFeatures,
        ConnectedBefore,
        RawEdgesMovedOn,
    ),
)
def submit_job(
    body: JobIn,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> Job:
    """Submit a job; it is durable before the answer, and a worker will run it.

    A solve that cannot fit the memory is refused, and a search with it: `jobs:estimate` says what
    would.
    """
    spec = body.to_spec(graph.id, idempotency_key, owner=caller.name)
    KINDS[spec.kind].admit(spec, graph, home)
    job = home.jobs.submit(spec)
    caller.require_own(job.owner)
    _log.info("job submitted", job=job.id, graph=graph.settings.name, kind=job.kind)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return job_of(job)


@router.post(
    ONE_GRAPH.removeprefix("/v1") + "/jobs:solve",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[requires("label")],
    responses=problems(*_OF_SOLVES, IdempotencyConflict, DoesNotFit),
)
def solve_columns(
    body: SolveColumnsIn,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    idempotency_key: IdempotencyKey = None,
) -> JobList:
    """Submit a solve for each of several label columns, all of them or none.

    All work on the snapshot that is newest now, and share what is prepared on it.
    """
    with refusing():
        jobs = submit_columns(
            home,
            graph,
            body.label_columns,
            model=body.model,
            parameters=body.parameters,
            priority=body.priority,
            idempotency_key=idempotency_key,
            owner=caller.name,
        )
    for job in jobs:
        caller.require_own(job.owner)
        _log.info("job submitted", job=job.id, graph=graph.settings.name, kind=job.kind)
    return JobList(jobs=[job_of(job) for job in jobs], next_page=None)


@router.post(
    ONE_GRAPH.removeprefix("/v1") + "/jobs:estimate",
    dependencies=[requires("read")],
    responses=problems(*_OF_SOLVES, NoSnapshot),
)
def estimate_job(body: SolveIn, graph: GraphHere, home: HomeHere) -> Estimate:
    """Memory and time of a solve, and whether it fits; nothing runs."""
    estimate = Estimator.of(home).estimate(graph, body.model, body.parameters)
    return answer_of(Estimate, estimate)


@router.get(
    "/jobs",
    dependencies=[requires("read", "label")],
    responses=problems(GraphNotFound, UnknownJob),
)
def list_jobs(
    home: HomeHere,
    caller: CallerHere,
    graph: Annotated[str | None, Query(description="Only jobs of this graph.")] = None,
    status: Annotated[JobStatus | None, Query(description="Only jobs that stand so.")] = None,
    page: Annotated[str | None, Query(description="The `next_page` of the page before.")] = None,
    page_size: PageSize = 50,
) -> JobList:
    """Jobs, newest first; those of the key where it must not read."""
    graph_id = None if graph is None else home.catalog.get(graph).id
    found = home.jobs.list(
        graph_id=graph_id,
        status=status,
        owner=caller.only,
        limit=page_size,
        page=page,
    )
    return JobList(jobs=[job_of(job) for job in found.jobs], next_page=found.next_page)


@router.get(
    "/jobs/{job_id}",
    dependencies=[requires("read", "label")],
    responses=problems(UnknownJob),
)
async def get_job(
    request: Request,
    job_id: str,
    home: HomeHere,
    caller: CallerHere,
    wait: WaitSeconds = 0,
) -> Job:
    """One job; `wait` can wait until it is finished. A key that must not read sees its own."""
    look = partial(home.jobs.get, job_id, owner=caller.only)
    return job_of(await wait_until(request, look, lambda job: job.status.is_final, seconds=wait))


@router.post(
    "/jobs/{job_id}:cancel", dependencies=[requires("label")], responses=problems(UnknownJob)
)
def cancel_job(job_id: str, home: HomeHere, caller: CallerHere) -> Job:
    """Cancel a waiting job at once, ask a running one to stop, leave a finished one alone."""
    home.jobs.get(job_id, owner=caller.only)
    return job_of(home.jobs.cancel(job_id))


def _known(job_id: str, home: HomeHere, caller: CallerHere) -> str:
    # so that an unknown job is an error and no empty stream
    home.jobs.get(job_id, owner=caller.only)
    return job_id


@router.get(
    "/jobs/{job_id}/events",
    dependencies=[requires("read", "label", streams=True)],
    response_class=EventSourceResponse,
    responses=_EVENT_STREAM | problems(UnknownJob),
)
async def watch_job(
    request: Request,
    job_id: Annotated[str, Depends(_known)],
    home: HomeHere,
    last_event_id: Annotated[
        int,
        Header(
            ge=0, le=MAX_ID, description="Start after this event, as browsers do after a break."
        ),
    ] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """The job's history and then its news, as server-sent events.

    A server that stops ends the stream; `Last-Event-ID` goes on from there.
    """
    stopping, streams = stopping_of(request), streams_of(request)
    while True:
        is_final, events = await streams.look(partial(_news, home, job_id, last_event_id))
        for event in events:
            yield _told(event)
            last_event_id = event.seq
        if is_final or stopping:
            return
        await streams.pause(request, _EVENTS_PAUSE_SECONDS)


def _news(home: ServedHome, job_id: str, after_seq: int) -> tuple[bool, Sequence[JobEvent]]:
    """Whether a job is finished, and its events after one."""
    # In this order: what a finished job has to tell is there before it counts as finished.
    is_final = home.jobs.get(job_id).status.is_final
    return is_final, home.jobs.events(job_id, after_seq=after_seq)


def _told(event: JobEvent) -> ServerSentEvent:
    data = orjson.dumps({"at": event.at, **(event.data or {})})
    return ServerSentEvent(id=str(event.seq), event=event.kind, raw_data=data.decode())
