"""Request middleware: an id, a line in the log and a count in the metrics for every request.

`Observed` is the outermost middleware, in plain ASGI. It also answers unhandled exceptions, so that
such a fault has its id in the log and in the answer.
"""

import re
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from secrets import token_hex
from time import perf_counter
from typing import Any, Final

import structlog
from anyio import CancelScope
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, reset_contextvars

from peewit.service.api.request_metrics import RequestMetrics
from peewit.service.tracing.spans import tracing
from peewit.streaming.problems import Problem

HEADER: Final = "X-Request-ID"

NO_ROUTE: Final = "(none)"
"""Stands for paths without a route, so that clients cannot make up series."""

_NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")
_NAME: Final = HEADER.lower().encode()
_SAFE: Final = re.compile(rb"[A-Za-z0-9._~:-]{1,128}")

_UNTRACED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
_NO_SPAN: Final = nullcontext()

_log = structlog.get_logger(__name__)


class HostNotOne(Problem, ValueError):
    """The request names no host, or several."""

    status = 400
    title = "Host missing or doubled"


class HttpRules:
    """Middleware: every request names one host, and HEAD is GET without the body.

    ``app`` knows GET only; ``refuse`` answers a request that raises `HostNotOne`.
    """

    def __init__(self, app: ASGIApp, *, refuse: Callable[[Request, Exception], Response]) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        n_hosts = sum(name == b"host" for name, _ in scope["headers"])
        if n_hosts != 1:
            error = HostNotOne(f"the header Host must stand once, got it {n_hosts} times")
            await self._refuse(Request(scope), error)(scope, receive, send)
        elif scope["method"] == "HEAD":
            await self._answer_head(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer_head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as to a GET, and end after the head."""
        as_get = {**scope, "method": "GET"}
        is_answered = False

        async def send_head(message: Message) -> None:
            nonlocal is_answered
            if is_answered:
                return
            is_answered = True
            scope.update(as_get, method="HEAD")  # the route, for the log
            await send(message)
            await send({"type": "http.response.body"})
            end.cancel()

        with CancelScope() as end:
            await self._app(as_get, receive, send_head)


class Observed:
    """Middleware: gives each request an id, and counts and logs it once it is answered.

    ``app`` finds the id in ``request.state.request_id`` and may set ``request.state.key_prefix``;
    ``answer`` answers a request whose exception was not handled.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: RequestMetrics,
        answer: Callable[[Request, BaseException], Response],
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        with _traced(scope) as span:
            status = await self._observe(scope, receive, send, request_id)
            if span is not None:
                span.answered(scope["method"], _route(scope), status)

    async def _observe(
        self, scope: Scope, receive: Receive, send: Send, request_id: str
    ) -> int | None:
        """Status of the answer, once it is sent; None if there was none."""
        header = (_NAME, request_id.encode())
        status: int | None = None
        is_told = False
        began = perf_counter()

        async def send_observed(message: Message) -> None:
            nonlocal status, is_told
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), header]
                if not any(name == _NO_SNIFF[0] for name, _ in headers):
                    headers.append(_NO_SNIFF)
                message = {**message, "headers": headers}
            elif not is_told and not message.get("more_body", False):
                # Before the client can know that it is answered: it may look at the metrics next.
                is_told = True
                self._tell(scope, status, perf_counter() - began)
            await send(message)

        bound = bind_contextvars(request_id=request_id)
        self._metrics.begin()
        try:
            await self._app(scope, receive, send_observed)
        except CancelledError as error:  # the server stops, and has waited long enough
            _log.warning("request cut off", route=_route(scope))
            if status is None:
                await self._answer(Request(scope), error)(scope, receive, send_observed)
        except Exception as error:  # noqa: BLE001 - the last place before the client that can tell
            _log.error("request failed", route=_route(scope), exc_info=error)
            if status is None:
                await self._answer(Request(scope), error)(scope, receive, send_observed)
        finally:
            if not is_told:
                self._tell(scope, status, perf_counter() - began)
            self._metrics.end()
            reset_contextvars(**bound)
        return status

    def _tell(self, scope: Scope, status: int | None, seconds: float) -> None:
        method, route = scope["method"], _route(scope)
        self._metrics.count(method, route, status, seconds)
        state: dict[str, Any] = scope["state"]
        parameters = scope.get("path_params") or {}
        _log.info(
            "request",
            method=method,
            route=route,
            status=status,
            seconds=round(seconds, 6),
            key=state.get("key_prefix"),
            **{
                name: parameters[argument]
                for argument, name in (("graph", "graph"), ("job_id", "job"))
                if argument in parameters
            },
        )


def _route(scope: Scope) -> str:
    """The template of the path, as ``/v1/graphs/{graph}``."""
    return getattr(scope.get("route"), "path", NO_ROUTE)


def _traced(scope: Scope) -> AbstractContextManager[Any]:
    """A span of the request; none for health and metrics."""
    tracer = tracing()
    if tracer is None or scope["path"] in _UNTRACED:
        return _NO_SPAN
    return tracer.request(scope["method"], scope["headers"])


def _request_id(scope: Scope) -> str:
    """The client's id if it is safe to repeat, else a new one."""
    for name, value in scope["headers"]:
        if name == _NAME:
            if _SAFE.fullmatch(value):
                return str(value, "ascii")
            break
    return token_hex(16)
