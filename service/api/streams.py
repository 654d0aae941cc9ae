"""Streams: answers that stay open for long, which are counted and end when their key is revoked.

A stream is a job's events, a table while it is sent, or a call that waits (``?wait=30``). Each asks
the database for news again and again. All streams of a process share a few threads and a rate for
that, so that a thousand of them leave room for other requests; with many streams news comes later.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

import anyio
import structlog
from anyio import CancelScope, CapacityLimiter
from fastapi import Request, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from peewit.service.api.draining import stopping_of
from peewit.service.api.refused_keys import KeyRevoked
from peewit.service.api.throttling import TooBusy, TooManyRequests
from peewit.service.key_store import KeyRecord, KeyStore

CHECK_KEYS_SECONDS: Final = 0.5
"""Interval of checking the keys of all open streams."""

_RETRY_SECONDS: Final = 5.0
_LOOKS_AT_A_TIME: Final = 4
_LOOKS_PER_SECOND: Final = 200.0
_LONGEST_SLEEP_SECONDS: Final = 0.25  # a stop must be noticed meanwhile
_Value = TypeVar("_Value")

_log = structlog.get_logger(__name__)


class Streams:
    """The streams of one API process; all of it runs in its event loop.

    ``of_caller`` is the most streams of one key, or of one address without a key; ``in_all`` of
    all.
    """

    def __init__(self, keys: KeyStore, *, of_caller: int, in_all: int) -> None:
        self._keys = keys
        self._of_caller = of_caller
        self._in_all = in_all
        self._open: dict[CancelScope, tuple[str, KeyRecord | None]] = {}
        self._n_open: Counter[str] = Counter()
        self._lookers = CapacityLimiter(_LOOKS_AT_A_TIME)
        self._is_keyed = anyio.Event()

    def open(self, request: Request, caller: str, key: KeyRecord | None) -> None:
        """Count a request as a stream until it ends.

        Raises `TooManyRequests` or `TooBusy` if the caller, or all callers together, have too many.
        """
        if self._n_open[caller] >= self._of_caller:
            raise TooManyRequests(
                f"PEEWIT_MAX_STREAMS_PER_KEY must be kept, of {self._of_caller} waits, events and "
                f"tables at a time, got more of {caller}",
                _RETRY_SECONDS,
            )
        if len(self._open) >= self._in_all:
            raise TooBusy(
                f"PEEWIT_MAX_STREAMS must be kept, of {self._in_all} waits, events and tables of "
                "all callers at a time",
                _RETRY_SECONDS,
            )
        self._open[request.state.end] = caller, key
        if key is not None:
            self._is_keyed.set()
        self._n_open[caller] += 1

    def close(self, end: CancelScope) -> None:
        """Stop counting a request, if it was a stream."""
        caller, _ = self._open.pop(end, (None, None))
        if caller is not None:
            self._n_open[caller] -= 1
            self._n_open += Counter()  # drops those at 0

    async def look(self, read: Callable[[], _Value]) -> _Value:
        """What ``read`` returns, in one of the threads that all streams share."""
        return await anyio.to_thread.run_sync(read, limiter=self._lookers)

    async def pause(self, request: Request, seconds: float) -> None:
        """Wait so long, or longer with many open streams; ends when the server is to stop."""
        stopping = stopping_of(request)
        until = anyio.current_time() + max(seconds, len(self._open) / _LOOKS_PER_SECOND)
        while not stopping:
            left = until - anyio.current_time()
            if left <= 0:
                break
            await anyio.sleep(min(left, _LONGEST_SLEEP_SECONDS))

    async def end_revoked(self) -> None:
        """End the streams of revoked keys, for as long as the server runs."""
        while True:
            await self._is_keyed.wait()
            await anyio.sleep(CHECK_KEYS_SECONDS)
            held = {end: key for end, (_, key) in self._open.items() if key is not None}
            if not held:
                self._is_keyed = anyio.Event()
                continue
            prefixes = {key.prefix for key in held.values()}
            try:
                valid = await anyio.to_thread.run_sync(self._keys.valid, prefixes)
            except SQLAlchemyError as error:  # streams stay while nobody can tell
                _log.warning("keys of streams not checked", error=str(error))
                continue
            for end, key in held.items():
                if valid.get(key.prefix) != key.created_at:
                    end.cancel()


class StreamEnds:
    """Middleware: lets `Streams` end a request, and refuses one that was not answered yet.

    ``refuse`` answers a request that lost its key meanwhile, with `KeyRevoked`.
    """

    def __init__(
        self, app: ASGIApp, *, streams: Streams, refuse: Callable[[Request, Exception], Response]
    ) -> None:
        self._app = app
        self._streams = streams
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_begun = False

        async def send_noting(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        with CancelScope() as end:
            scope["state"]["end"] = end
            try:
                await self._app(scope, receive, send_noting)
            finally:
                self._streams.close(end)
        if end.cancelled_caught and not is_begun:
            error = KeyRevoked("the key must be valid, got one that was revoked meanwhile")
            await self._refuse(Request(scope), error)(scope, receive, send)


def streams_of(request: Request) -> Streams:
    """The `Streams` of the request's application."""
    streams: Streams = request.app.state.streams
    return streams


def is_wait(request: Request) -> bool:
    """Whether a call may take long because it asks to wait."""
    return bool(request.query_params.get("wait", "").strip("0."))
