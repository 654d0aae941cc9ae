"""The events of a job as they come."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import Depends, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from peewit.service.api.auth import CallerHere, requires
from peewit.service.api.draining import stopping_of
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import resource
from peewit.service.api.served_home import HomeHere, ServedHome
from peewit.service.api.streams import streams_of
from peewit.service.jobs.job import JobEvent, UnknownJob
from peewit.service.operations.sources_and_files import MAX_ID

router = resource("jobs", "/v1")

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
