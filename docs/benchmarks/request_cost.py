"""What the id, the log line and the numbers of a request cost: processor time of the middleware.

Prints microseconds of processor time per request of an application that answers at once, without
the middleware and with it, its log lines going to a file in memory.
"""

import asyncio
import io
import logging

from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docs.benchmarks.frame import CONSOLE, cpu_of, options
from peewit.service.api.request_metrics import RequestMetrics
from peewit.service.api.request_middleware import Observed
from peewit.service.logs import configure_logging
from peewit.service.settings import LogLevel

N_ROUNDS = 5


async def answering(_scope: Scope, _receive: Receive, send: Send) -> None:
    """An application that has nothing to do."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


async def _receive() -> Message:
    return {"type": "http.request"}


async def _send(_message: Message) -> None:
    return


def _no_answer(_request: Request, error: BaseException) -> Response:
    raise error


async def _serve(app: ASGIApp, n_requests: int) -> None:
    for _ in range(n_requests):
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/graphs/g",
            "path_params": {"graph": "g"},
            "headers": [(b"host", b"localhost"), (b"x-request-id", b"of-a-benchmark")],
        }
        await app(scope, _receive, _send)


def microseconds(app: ASGIApp, n_requests: int) -> float:
    """Processor time per request, the least of several rounds."""
    rounds = (cpu_of(lambda: asyncio.run(_serve(app, n_requests)))[1] for _ in range(N_ROUNDS))
    return 1e6 * min(rounds) / n_requests


def observed(level: LogLevel) -> ASGIApp:
    configure_logging(level, "json")
    for handler in logging.getLogger().handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(io.StringIO())
    return Observed(answering, metrics=RequestMetrics(CollectorRegistry()), answer=_no_answer)


def main() -> None:
    n_requests = options(__doc__, requests=20_000).requests
    bare = microseconds(answering, n_requests)
    CONSOLE.print(f"without the middleware          {bare:8.1f} µs")
    for level, name in (("warning", "id and metrics"), ("info", "id, metrics and log line")):
        cost = microseconds(observed(level), n_requests) - bare
        CONSOLE.print(f"{name:<30}  {cost:+8.1f} µs")


if __name__ == "__main__":
    main()
