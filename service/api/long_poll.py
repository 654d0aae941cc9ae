"""Long poll: answers that may wait (``?wait=30``) without blocking the loop."""

from collections.abc import Callable
from typing import Annotated, Final, TypeVar

import anyio
from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from peewit.service.api.draining import stopping_of
from peewit.service.api.streams import streams_of
from peewit.service.database.read_cache import arriving

LONGEST_WAIT_SECONDS: Final = 300

_FIRST_PAUSE_SECONDS: Final = 0.02
_LAST_PAUSE_SECONDS: Final = 0.25
_Value = TypeVar("_Value")

WaitSeconds = Annotated[
    float, Query(ge=0, le=LONGEST_WAIT_SECONDS, description="Seconds to wait for the end at most.")
]


class Arrivals:
    """Middleware: one look at the database may serve all questions of a request.

    ``app`` runs within `peewit.service.database.read_cache.arriving`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        with arriving():
            await self._app(scope, receive, send)


async def wait_until(
    request: Request,
    look: Callable[[], _Value],
    is_done: Callable[[_Value], bool],
    *,
    seconds: float,
) -> _Value:
    """The value once it is done, or as it stands when the wait ends.

    The wait ends after ``seconds`` (0 looks once), when the client hangs up, or when the server
    stops. ``look`` reads the value in a thread.
    """
    deadline = anyio.current_time() + seconds
    stopping = stopping_of(request)
    streams = streams_of(request)
    pause = _FIRST_PAUSE_SECONDS
    value = await run_in_threadpool(look)
    while not is_done(value):
        remaining = deadline - anyio.current_time()
        if remaining <= 0 or stopping or await request.is_disconnected():
            break
        await streams.pause(request, min(pause, remaining))
        pause = min(2 * pause, _LAST_PAUSE_SECONDS)
        value = await streams.look(look)
    return value
